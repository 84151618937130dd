//! Makes the data of the benchmarks: the same bytes on every run.
//!
//! ```text
//! corpus mixed PATH MIB [SEED]              one file: 3/8 noise, 1/4 bf16 weights, 1/8 f32 weights, 1/4 text
//! corpus small DIR COUNT TOTAL_MB [SEED]    the same kinds of data in COUNT files of log-normal size
//! ```
//!
//! Another seed gives other bytes of the same kinds; it is 1 unless said.

use std::f64::consts::TAU;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: corpus mixed PATH MIB [SEED] | corpus small DIR COUNT TOTAL_MB [SEED]";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let numbers: Result<Vec<u64>, _> = args.iter().skip(2).map(|arg| arg.parse()).collect();
    let done = match (args.as_slice(), numbers.as_deref()) {
        (["mixed", path, ..], Ok([mib])) => write_mixed(Path::new(path), *mib, 1),
        (["mixed", path, ..], Ok([mib, seed])) => write_mixed(Path::new(path), *mib, *seed),
        (["small", dir, ..], Ok([count, total_mb])) => write_small(Path::new(dir), *count, *total_mb, 1),
        (["small", dir, ..], Ok([count, total_mb, seed])) => {
            write_small(Path::new(dir), *count, *total_mb, *seed)
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("corpus: {error}");
            ExitCode::from(1)
        }
    }
}

fn write_mixed(path: &Path, mib: u64, seed: u64) -> io::Result<()> {
    io::copy(&mut Mixed::new(mib << 20, seed), &mut File::create(path)?).map(drop)
}

/// Cuts one mixed stream into files: a thousand a folder, so that no folder grows long.
fn write_small(dir: &Path, count: u64, total_mb: u64, seed: u64) -> io::Result<()> {
    let total = total_mb * 1_000_000;
    let mut stream = Mixed::new(total, seed);
    let mut folder = PathBuf::new();
    for (i, bytes) in small_sizes(count, total).into_iter().enumerate() {
        if i % 1000 == 0 {
            folder = dir.join(format!("{:03}", i / 1000));
            fs::create_dir_all(&folder)?;
        }
        let mut file = File::create(folder.join(format!("{:03}.bin", i % 1000)))?;
        io::copy(&mut stream.by_ref().take(bytes), &mut file)?;
    }
    Ok(())
}

/// Log-normal sizes that sum to `total`. Most are a few kilobytes, a few are megabytes, as in a checked-out tree.
fn small_sizes(count: u64, total: u64) -> Vec<u64> {
    const SPREAD: f64 = 1.5;
    let normal = Normal::new();
    let mut rng = Rng(0x5151);
    let weights: Vec<f64> = (0..count).map(|_| (SPREAD * normal.draw(&mut rng)).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let mut ends = 0.0;
    let mut start = 0;
    weights
        .iter()
        .map(|weight| {
            // Rounding the ends, not the sizes, makes the sizes sum to the total.
            ends += weight;
            let end = ((ends / sum * total as f64).round() as u64).min(total);
            let bytes = end - start;
            start = end;
            bytes
        })
        .collect()
}

/// The mixed stream, made a block at a time.
struct Mixed {
    parts: [(Kind, u64); 4],
    makers: Makers,
    block: Vec<u8>,
    taken: usize,
}

#[derive(Clone, Copy)]
enum Kind {
    Noise,
    Bf16,
    F32,
    Text,
}

impl Mixed {
    fn new(total: u64, seed: u64) -> Self {
        let [noise, bf16, f32] = [total * 3 / 8, total / 4, total / 8];
        let text = total - noise - bf16 - f32;
        Self {
            parts: [(Kind::Noise, noise), (Kind::Bf16, bf16), (Kind::F32, f32), (Kind::Text, text)],
            makers: Makers { rng: Rng(seed), normal: Normal::new(), vocabulary: Vocabulary::new() },
            block: Vec::new(),
            taken: 0,
        }
    }

    fn refill(&mut self) {
        const BLOCK_BYTES: u64 = 1 << 20;
        self.block.clear();
        self.taken = 0;
        if let Some((kind, left)) = self.parts.iter_mut().find(|(_, left)| *left > 0) {
            let bytes = (*left).min(BLOCK_BYTES);
            *left -= bytes;
            self.makers.fill(*kind, bytes as usize, &mut self.block);
        }
    }
}

impl Read for Mixed {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.block.len() {
            self.refill();
        }
        let n = (&self.block[self.taken..]).read(out)?;
        self.taken += n;
        Ok(n)
    }
}

struct Makers {
    rng: Rng,
    normal: Normal,
    vocabulary: Vocabulary,
}

impl Makers {
    /// Replaces `block` by `bytes` bytes of one kind.
    fn fill(&mut self, kind: Kind, bytes: usize, block: &mut Vec<u8>) {
        // Weights of a trained layer are small and centred.
        const SIGMA: f64 = 0.02;
        while block.len() < bytes {
            match kind {
                Kind::Noise => block.extend(self.rng.draw().to_le_bytes()),
                Kind::F32 => block.extend(self.weight(SIGMA).to_le_bytes()),
                // bf16 is the upper half of an f32.
                Kind::Bf16 => block.extend(&self.weight(SIGMA).to_le_bytes()[2..]),
                Kind::Text => self.vocabulary.write_word(&mut self.rng, block),
            }
        }
        block.truncate(bytes);
    }

    fn weight(&mut self, sigma: f64) -> f32 {
        (self.normal.draw(&mut self.rng) * sigma) as f32
    }
}

/// `SplitMix64`.
struct Rng(u64);

impl Rng {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// The standard normal distribution by a table of its quantiles: one draw, one multiplication.
struct Normal {
    quantiles: Vec<f64>,
}

impl Normal {
    const STEPS: usize = 1 << 14;

    /// Walks the density from left to right and notes where the area under it passes each step.
    fn new() -> Self {
        const REACH: f64 = 5.0;
        const SLICES: u32 = 1 << 18;
        let width = 2.0 * REACH / f64::from(SLICES);
        let mut quantiles = Vec::with_capacity(Self::STEPS + 1);
        let mut area = 0.0;
        for slice in 0..SLICES {
            let x = -REACH + width * (f64::from(slice) + 0.5);
            area += width * (-0.5 * x * x).exp() / TAU.sqrt();
            while quantiles.len() < Self::STEPS && area * Self::STEPS as f64 >= quantiles.len() as f64 {
                quantiles.push(x);
            }
        }
        quantiles.resize(Self::STEPS + 1, REACH);
        Self { quantiles }
    }

    fn draw(&self, rng: &mut Rng) -> f64 {
        let bits = rng.draw();
        let at = (bits >> 50) as usize;
        let between = f64::from(bits as u32) / f64::from(u32::MAX);
        let [low, high] = [self.quantiles[at], self.quantiles[at + 1]];
        low + (high - low) * between
    }
}

/// Invented words, used about as often as Zipf says: the word of rank n in proportion to 1/n.
struct Vocabulary {
    words: Vec<Vec<u8>>,
    /// A word for every value of 16 random bits.
    by_draw: Vec<u16>,
}

impl Vocabulary {
    const WORDS: u16 = 8192;

    fn new() -> Self {
        // Frequent letters stand more than once.
        const LETTERS: &[u8] = b"eeeeeeetttttaaaaaooooiiiinnnnsssshhhrrrdddllluucmmwfgypbvk";
        let mut rng = Rng(2);
        let mut letter = || LETTERS[(rng.draw() % LETTERS.len() as u64) as usize];
        let words = (0..Self::WORDS)
            .map(|rank| {
                // Rare words are longer.
                let letters = 2 + rank.checked_ilog2().unwrap_or(0) / 2 + u32::from(letter() % 4);
                (0..letters).map(|_| letter()).collect()
            })
            .collect();
        let weight = |rank: u16| 1.0 / (f64::from(rank) + 2.0);
        let sum: f64 = (0..Self::WORDS).map(weight).sum();
        let mut by_draw = Vec::with_capacity(1 << 16);
        let mut reached = 0.0;
        for rank in 0..Self::WORDS {
            reached += weight(rank) / sum;
            by_draw.resize((reached * 65536.0).round() as usize, rank);
        }
        Self { words, by_draw }
    }

    fn write_word(&self, rng: &mut Rng, out: &mut Vec<u8>) {
        let bits = rng.draw();
        let rank = self.by_draw[(bits & 0xffff) as usize];
        out.extend(&self.words[usize::from(rank)]);
        out.extend(if (bits >> 16).is_multiple_of(12) { ".\n".bytes() } else { " ".bytes() });
    }
}
