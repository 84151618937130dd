//! Several actors at once: each operation waits for its turn, and the seed says whose turn it is.

use std::time::Duration;

use store::clock::ManualClock;
use testkit::corpus::SplitMix64;
use testkit::faulty::Faults;
use tokio::task::JoinHandle;

/// What came of a job; nothing if its actor was killed.
pub(crate) type Outcome = Option<store::Result<()>>;

pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) faults: Faults,
    pub(crate) task: JoinHandle<store::Result<()>>,
    /// Number of turns after which the actor is killed.
    pub(crate) killed_after: Option<u64>,
}

/// Runs jobs whose faults are stepped. The clock moves meanwhile, by less than requests last.
pub(crate) async fn run(random: &mut SplitMix64, clock: &ManualClock, mut jobs: Vec<Job>) -> Vec<Outcome> {
    let mut given = vec![0; jobs.len()];
    let mut outcomes: Vec<Outcome> = jobs.iter().map(|_| None).collect();
    let mut left: Vec<usize> = (0..jobs.len()).collect();
    let mut left_s = 3000;
    for at in left.clone() {
        arrive(&mut jobs[at], 0).await;
    }
    while !left.is_empty() {
        let place = random.below(left.len() as u64) as usize;
        let at = left[place];
        let job = &mut jobs[at];
        if job.killed_after.is_some_and(|turns| given[at] >= turns) {
            job.task.abort();
        }
        if job.task.is_finished() || job.killed_after.is_some_and(|turns| given[at] >= turns) {
            left.remove(place);
            outcomes[at] = match (&mut job.task).await {
                Ok(done) => Some(done),
                Err(error) if error.is_cancelled() => None,
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            };
            continue;
        }
        if random.below(20) == 0 && left_s > 0 {
            let jump_s = random.below(left_s) + 1;
            left_s -= jump_s;
            clock.advance(jump_s);
        }
        job.faults.give_turn();
        given[at] += 1;
        arrive(job, given[at]).await;
    }
    outcomes
}

/// Waits until more operations of the job arrived than were given a turn, or it is done.
async fn arrive(job: &mut Job, given: u64) {
    let mut arrived = job.faults.arrived();
    let limit = tokio::time::sleep(Duration::from_secs(60));
    tokio::select! {
        () = async { while !job.task.is_finished() { tokio::time::sleep(Duration::from_micros(200)).await } } => {}
        waits = arrived.wait_for(|arrived| *arrived > given) => { waits.unwrap(); }
        () = limit => panic!("{} neither ends nor goes on", job.name),
    }
}
