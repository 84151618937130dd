//! The counting allocator, installed as it is meant to be.

use testkit::alloc::{CountingAllocator, Peak, measure};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn the_peak_is_what_was_held_at_once() {
    let (vectors, peak) = measure(|| {
        drop(vec![1u8; 3000]);
        drop(vec![1u8; 2000]);
        vec![1u8; 1000]
    });
    assert_eq!(vectors.len(), 1000);
    assert_eq!(peak, Peak { bytes: 3000, largest: 3000 });
    assert_eq!(measure(|| ()).1, Peak::default());
}

#[test]
fn zeroed_memory_counts_though_no_page_was_touched() {
    let (_, peak) = measure(|| vec![0u8; 1 << 30].len());
    assert_eq!(peak, Peak { bytes: 1 << 30, largest: 1 << 30 });
}

#[test]
fn a_measurement_sees_those_inside_it() {
    let ((), outer) = measure(|| {
        let held = vec![1u8; 100];
        let (_, inner) = measure(|| vec![1u8; 500]);
        assert_eq!(inner, Peak { bytes: 500, largest: 500 });
        drop(held);
    });
    assert_eq!(outer, Peak { bytes: 600, largest: 500 });
}

#[test]
fn freeing_what_was_there_before_does_not_go_below_zero() {
    let before = vec![1u8; 5000];
    assert_eq!(measure(|| drop(before)).1, Peak::default());
}

#[test]
fn another_thread_does_not_disturb() {
    let noisy = std::thread::spawn(|| (0..200).map(|n| vec![1u8; 10_000 + n].len()).sum::<usize>());
    let (_, peak) = measure(|| vec![1u8; 10]);
    assert_eq!(peak.largest, 10);
    noisy.join().unwrap();
}
