//! Lanes: which message is in which lane, and its remaining blocks.
//!
//! The longest messages begin, and a lane whose message has ended takes the next, so that lanes end about together.
//! When too few are busy, each message is finished by itself. A message that is far longer than the others needs no
//! rule of its own: it is what is left at the end, and until then its blocks cost half of what they cost alone.

use std::cmp::Reverse;

use sha2::block_api::compress256;

use super::{Block, START, State, digest_of};
use crate::hash::Sha256;

/// The digest of each message, in the order of the messages. `compress` takes as many blocks into each lane's state as
/// the shortest of the runs has.
pub(super) fn digest_all(
    messages: &[&[u8]],
    compress: impl Fn(&mut States, &[&[Block]; LANES]),
) -> Vec<Sha256> {
    let mut digests = vec![Sha256::default(); messages.len()];
    let mut note = |place: usize, state: State| {
        if let Some(digest) = digests.get_mut(place) {
            *digest = digest_of(state);
        }
    };
    let mut waiting: Vec<(usize, &[u8])> = messages.iter().copied().enumerate().collect();
    waiting.sort_unstable_by_key(|(_, message)| Reverse(message.len()));
    let mut waiting = waiting.into_iter();

    let mut states = States([[0; LANES]; 8]);
    let mut lanes: [Option<Lane<'_>>; LANES] = std::array::from_fn(|lane| {
        let (place, message) = waiting.next()?;
        states.put(lane, START);
        Some(Lane::new(place, message))
    });

    while let Some(blocks) = runs(&lanes) {
        compress(&mut states, &blocks);
        let taken = shortest(&blocks);
        for (lane, busy) in lanes.iter_mut().enumerate() {
            let Some(of) = busy else { continue };
            of.advance(taken);
            if !of.run().is_empty() {
                continue;
            }
            note(of.place, states.take(lane));
            *busy = waiting.next().map(|(place, message)| Lane::new(place, message));
            states.put(lane, START);
        }
    }
    for (lane, busy) in lanes.iter().enumerate() {
        if let Some(of) = busy {
            note(of.place, of.finish(states.take(lane)));
        }
    }
    digests
}

/// Messages that each lane takes next, unless so few are busy that each is faster alone. Idle lanes repeat what a busy one does.
fn runs<'a>(lanes: &'a [Option<Lane<'_>>; LANES]) -> Option<[&'a [Block]; LANES]> {
    let mut busy = lanes.iter().flatten();
    let spare = busy.next()?.run();
    if busy.count() + 1 < BUSY_MIN {
        return None;
    }
    Some(lanes.each_ref().map(|lane| lane.as_ref().map_or(spare, Lane::run)))
}

/// How many blocks every lane has.
pub(super) fn shortest(blocks: &[&[Block]; LANES]) -> usize {
    blocks.iter().map(|run| run.len()).min().unwrap_or_default()
}

/// A message on its way, by what its lane has not taken yet.
struct Lane<'m> {
    /// Which message it is.
    place: usize,
    /// Whole blocks of the message.
    body: &'m [Block],
    /// After them: the rest of the message, padding and length.
    tail: [Block; 2],
    /// How many blocks of the tail are taken, and how many there are.
    tail_taken: usize,
    tail_len: usize,
}

impl<'m> Lane<'m> {
    fn new(place: usize, message: &'m [u8]) -> Self {
        let (body, rest) = message.as_chunks();
        let (tail, tail_len) = super::tail(rest, message.len() as u64);
        Self { place, body, tail, tail_taken: 0, tail_len }
    }

    /// The blocks that lie together and come next; none when the message is done.
    fn run(&self) -> &[Block] {
        if self.body.is_empty() { self.tail() } else { self.body }
    }

    fn tail(&self) -> &[Block] {
        self.tail.get(self.tail_taken..self.tail_len).unwrap_or_default()
    }

    /// Leaves out `taken` blocks of the run.
    fn advance(&mut self, taken: usize) {
        if self.body.is_empty() {
            self.tail_taken += taken;
        } else {
            self.body = self.body.get(taken..).unwrap_or_default();
        }
    }

    /// The state after all that is left.
    fn finish(&self, mut state: State) -> State {
        compress256(&mut state, self.body);
        compress256(&mut state, self.tail());
        state
    }
}

/// The eight words of every lane's state: all first words, all second ones, and so on.
#[repr(align(64))]
pub(super) struct States(pub(super) [[u32; LANES]; 8]);

#[allow(clippy::indexing_slicing, reason = "a lane is below LANES")]
impl States {
    pub(super) fn put(&mut self, lane: usize, state: State) {
        for (words, word) in self.0.iter_mut().zip(state) {
            words[lane] = word;
        }
    }

    pub(super) fn take(&self, lane: usize) -> State {
        self.0.map(|words| words[lane])
    }
}

pub(super) const LANES: usize = 16;
/// With fewer busy lanes each message is faster alone. Measured: as fast with 7.2 of them.
pub(super) const BUSY_MIN: usize = 8;
