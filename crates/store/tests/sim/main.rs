//! Deterministic simulation: one seed decides what happens, in which order, and what breaks.
//!
//! Real store code over SQLite and objects in memory. Pushes, commits, deletions, sweeps, verification and reads run one
//! after another and interleaved operation by operation, with faults before and after operations, killed actors and a
//! clock that jumps. After every step all that refs lead to must be there; in the end nothing else may be.
//!
//! `DRYSTONE_SIM_SEEDS=10000` runs more seeds, `DRYSTONE_SIM_SEED=7` that one alone. A seed that fails becomes a test here.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod interleave;
mod world;

use std::env;
use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use world::World;

/// The seeds of one of four tests, which run beside each other.
fn simulate(part: u64) {
    if let Ok(seed) = env::var("DRYSTONE_SIM_SEED") {
        if part == 0 {
            run(seed.parse().expect("a number"));
        }
        return;
    }
    let seeds = env::var("DRYSTONE_SIM_SEEDS").map_or(300, |text| text.parse().expect("a number"));
    (0..seeds).filter(|seed| seed % 4 == part).for_each(run);
}

fn run(seed: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut world = World::new(seed).await;
        let ran = AssertUnwindSafe(async {
            for _ in 0..STEPS {
                world.step().await;
            }
            world.check_final_state().await;
        });
        if let Err(cause) = ran.catch_unwind().await {
            eprintln!("DRYSTONE_SIM_SEED={seed} does this again:\n{}", world.story.join("\n"));
            std::panic::resume_unwind(cause);
        }
    });
}

const STEPS: u64 = 40;

#[test]
fn seeds_of_the_first_part_keep_what_is_needed_and_nothing_else() {
    simulate(0);
}

#[test]
fn seeds_of_the_second_part_keep_what_is_needed_and_nothing_else() {
    simulate(1);
}

#[test]
fn seeds_of_the_third_part_keep_what_is_needed_and_nothing_else() {
    simulate(2);
}

#[test]
fn seeds_of_the_fourth_part_keep_what_is_needed_and_nothing_else() {
    simulate(3);
}
