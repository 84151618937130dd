//! Lookups in anything that opens as a stored shard.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xet::shard::{Shard, ShardView};
use xet::{ChunkHash, Hash, XorbHash};

fuzz_target!(|bytes: &[u8]| {
    let Ok(view) = ShardView::new(bytes) else {
        assert!(Shard::parse_stored(bytes).is_err());
        return;
    };
    // Any 32 bytes at the start of a row may be a hash.
    let hashes: Vec<Hash> = bytes
        .as_chunks::<48>()
        .0
        .iter()
        .filter_map(|row| row.first_chunk().copied())
        .map(Hash::new)
        .collect();
    for hash in hashes.iter().take(64) {
        let _ = view.chunk_count(&XorbHash(*hash));
    }
    let chunks: Vec<ChunkHash> = hashes.into_iter().map(ChunkHash).collect();
    for start in 0..chunks.len().min(16) {
        if let Ok(Some(found)) = view.dedup(&chunks[start..]) {
            assert_eq!(found.matched, found.chunks.len());
        }
    }

    // What passed every check is found.
    if let Ok(shard) = Shard::parse_stored(bytes) {
        for xorb in shard.xorbs.iter().take(64) {
            let count = view.chunk_count(&xorb.hash).expect("the tables were checked").expect("it is there");
            assert_eq!(count as usize, xorb.chunks.len());
        }
    }
});
