//! A counting allocator: proves that a parser does not allocate by a number from untrusted input.
#![allow(unsafe_code)] // a global allocator cannot be written without; it only forwards to the system's

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system allocator, counting per thread. Install it in an integration test:
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: testkit::alloc::CountingAllocator = testkit::alloc::CountingAllocator;
///
/// let (_, peak) = testkit::alloc::measure(|| vec![0u8; 5000]);
/// assert!(peak.largest >= 5000);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct CountingAllocator;

/// What one measured call asked of the allocator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Peak {
    /// The most bytes held at once, beyond those held before the call.
    pub bytes: usize,
    /// The largest single request.
    pub largest: usize,
}

/// Runs `work` and says how much memory it took at most.
///
/// Counts what this thread allocates, so tests may run side by side; threads that `work` starts are not counted.
///
/// # Panics
///
/// If [`CountingAllocator`] is not the global allocator: a measurement would then always read zero.
pub fn measure<T>(work: impl FnOnce() -> T) -> (T, Peak) {
    let outer = COUNTS.get();
    COUNTS.set(Counts { peak: outer.live, largest: 0, ..outer });
    drop(std::hint::black_box(Vec::<u8>::with_capacity(64)));
    assert!(COUNTS.get().largest >= 64, "install CountingAllocator as the #[global_allocator] of this test");

    COUNTS.set(Counts { peak: outer.live, largest: 0, ..outer });
    let result = work();
    let inner = COUNTS.get();
    let bytes = usize::try_from(inner.peak - outer.live).expect("the peak starts at what was live");
    // A measurement around this one must see what happened inside.
    COUNTS.set(Counts {
        live: inner.live,
        peak: outer.peak.max(inner.peak),
        largest: outer.largest.max(inner.largest),
    });
    (result, Peak { bytes, largest: inner.largest })
}

#[derive(Debug, Clone, Copy)]
struct Counts {
    /// May be negative: a thread may free what another allocated.
    live: isize,
    peak: isize,
    largest: usize,
}

impl Counts {
    fn grow(&mut self, bytes: usize) {
        self.live = self.live.saturating_add_unsigned(bytes);
        self.peak = self.peak.max(self.live);
        self.largest = self.largest.max(bytes);
    }

    fn shrink(&mut self, bytes: usize) {
        self.live = self.live.saturating_sub_unsigned(bytes);
    }
}

thread_local! {
    // Constant and without a destructor: touching it never allocates, and it outlives every other thread-local.
    static COUNTS: Cell<Counts> = const { Cell::new(Counts { live: 0, peak: 0, largest: 0 }) };
}

fn count(change: impl FnOnce(&mut Counts)) {
    let _ = COUNTS.try_with(|counts| {
        let mut now = counts.get();
        change(&mut now);
        counts.set(now);
    });
}

// SAFETY: every call goes to the system allocator unchanged; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(|counts| counts.grow(layout.size()));
        // SAFETY: the caller keeps the contract of `alloc`, which is the same for `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(|counts| counts.grow(layout.size()));
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(|counts| counts.shrink(layout.size()));
        // SAFETY: `pointer` came from `System` by one of the methods here, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(|counts| {
            // Old and new may exist together while bytes are moved; count the worse case.
            counts.grow(new_size);
            counts.shrink(layout.size());
        });
        // SAFETY: `pointer` came from `System` with this layout; the caller vouches for `new_size`.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}
