//! Memory of queries: what a statement is given is freed when it has run.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use testkit::alloc::{CountingAllocator, measure};
use xet::XorbHash;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn lists_that_queries_are_given_are_freed() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let catalog = runtime.block_on(store::Catalog::open_file(&directory.path().join("catalog.db"))).unwrap();
    let hashes: Vec<_> = (0..50).map(|n| XorbHash::new([n; 32])).collect();
    let read = || assert!(runtime.block_on(store::testing::xorbs(&catalog, &hashes)).unwrap().is_empty());
    // Connections and prepared statements stay.
    (0..50).for_each(|_| read());
    let ((), peak) = measure(|| (0..1000).for_each(|_| read()));
    assert!(peak.bytes < 100_000, "a thousand lists of 50 hashes took {} bytes", peak.bytes);
}
