//! Statistics of the four byte groups of a chunk.

/// Tables for counting, reused from chunk to chunk.
pub(super) struct Counts {
    groups: Box<[[u16; 256]; 4]>,
}

impl Counts {
    pub(super) fn new() -> Self {
        Self { groups: Box::new([[0; 256]; 4]) }
    }

    /// Counts the bytes of each group in windows that lie evenly over the chunk.
    pub(super) fn judge(&mut self, chunk: &[u8]) -> Groups {
        for counts in self.groups.iter_mut() {
            counts.fill(0);
        }
        let [a, b, c, d] = &mut *self.groups;
        let mut same = [0_u32; 4];
        for number in 0..WINDOWS {
            let start = (chunk.len().saturating_sub(WINDOW_BYTES) / (WINDOWS - 1) * number) & !3;
            let window = chunk.get(start..start + WINDOW_BYTES).unwrap_or_default();
            let (words, _) = window.as_chunks::<4>();
            for [w, x, y, z] in words {
                for (counts, byte) in [(&mut *a, w), (&mut *b, x), (&mut *c, y), (&mut *d, z)] {
                    if let Some(count) = counts.get_mut(usize::from(*byte)) {
                        *count += 1;
                    }
                }
            }
            for [before, word] in words.array_windows() {
                for ((same, before), byte) in same.iter_mut().zip(before).zip(word) {
                    *same += u32::from(byte == before);
                }
            }
        }
        Groups::judge(self.groups.each_ref().map(Skew::of), same)
    }
}

/// How unequal the bytes of one group are: ordered pairs of equal ones, about 1 in 256 of all when random.
#[derive(Debug, Clone, Copy)]
struct Skew {
    pairs: u32,
    /// Without the commonest byte: padding and holes are zeros in every group and hide the rest.
    rest_pairs: u32,
}

impl Skew {
    fn of(counts: &[u16; 256]) -> Self {
        let pairs_of = |count: u16| u32::from(count) * u32::from(count.saturating_sub(1));
        let pairs = counts.iter().copied().map(pairs_of).sum();
        let commonest = counts.iter().copied().max().unwrap_or_default();
        Self { pairs, rest_pairs: pairs - pairs_of(commonest) }
    }
}

/// Statistics of the byte groups.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Groups {
    /// Some group is not random.
    pub(super) skewed: bool,
    /// Some group is so far from random that its bytes repeat.
    pub(super) strong: bool,
    /// All groups are about equally skewed, so four-byte words mean nothing here.
    pub(super) alike: bool,
    /// Some group is random, so no four-byte word repeats by chance.
    pub(super) mixed: bool,
}

impl Groups {
    /// `same`: how many bytes of each group equal the one before.
    fn judge(skews: [Skew; 4], same: [u32; 4]) -> Self {
        let (least_pairs, most_pairs) = bounds(skews.map(|skew| skew.pairs));
        let (least_rest, most_rest) = bounds(skews.map(|skew| skew.rest_pairs));
        let (least_same, most_same) = bounds(same);
        // By chance: 5 standard deviations above what is expected for pairs, more for neighbours.
        let pairs_max = RANDOM_PAIRS + RANDOM_PAIRS / 4;
        let same_max = GROUP_SAMPLES / 32;
        Self {
            skewed: most_pairs > pairs_max || most_same > same_max,
            strong: most_pairs > 8 * RANDOM_PAIRS || most_same > GROUP_SAMPLES / 8,
            alike: most_rest <= least_rest + least_rest / 2 + RANDOM_PAIRS / 4
                && most_same <= least_same + least_same / 2 + GROUP_SAMPLES / 16,
            mixed: least_pairs <= pairs_max && least_same <= same_max,
        }
    }
}

/// The least and the most.
fn bounds(four: [u32; 4]) -> (u32, u32) {
    four.into_iter().fold((u32::MAX, 0), |(least, most), n| (least.min(n), most.max(n)))
}

const WINDOWS: usize = 32;
const WINDOW_BYTES: usize = 64;
/// Bytes counted in each group.
const GROUP_SAMPLES: u32 = 512;
const _: () = assert!(GROUP_SAMPLES as usize == WINDOWS * WINDOW_BYTES / 4);
/// Ordered pairs of equal bytes expected among them when all bytes are equally likely.
const RANDOM_PAIRS: u32 = GROUP_SAMPLES * (GROUP_SAMPLES - 1) / 256;
