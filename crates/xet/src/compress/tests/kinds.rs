//! Chunks of every kind of data we know.

use testkit::corpus::{SplitMix64, noise};

/// About the normal distribution, as trained weights are.
fn bell(numbers: &mut SplitMix64) -> f32 {
    let sum: f64 = numbers.take(12).map(unit).sum();
    (sum - 6.0) as f32
}

/// Small numbers often, large ones seldom, as words in a text.
fn rank(numbers: &mut SplitMix64, below: u32) -> u32 {
    (f64::from(below).powf(unit(numbers.word())) - 1.0) as u32
}

/// A number from 0 to 1.
fn unit(word: u64) -> f64 {
    (word >> 11) as f64 / (1_u64 << 53) as f64
}

/// `len` bytes of an endless stream of pieces.
pub(super) fn fill<P: AsRef<[u8]>>(len: usize, pieces: impl IntoIterator<Item = P>) -> Vec<u8> {
    let mut out = Vec::with_capacity(len + 64);
    for piece in pieces {
        if out.len() >= len {
            break;
        }
        out.extend_from_slice(piece.as_ref());
    }
    out.truncate(len);
    out
}

fn bf16(value: f32) -> [u8; 2] {
    let [_, _, low, high] = value.to_le_bytes();
    [low, high]
}

/// IEEE half precision of a value well inside its range, cut, not rounded.
fn f16(value: f32) -> [u8; 2] {
    let bits = value.to_bits();
    let exponent = ((bits >> 23) & 0xff).saturating_sub(112).min(30);
    (((bits >> 16) & 0x8000) | (exponent << 10) | ((bits >> 13) & 0x3ff)).to_le_bytes()[..2]
        .try_into()
        .unwrap()
}

/// A name and a chunk.
type Kind = (&'static str, Vec<u8>);

/// One chunk of each kind of data we know, by name.
pub(super) fn kinds(seed: u64, len: usize) -> Vec<Kind> {
    const WORDS: [&str; 24] = [
        "the", "stone", "of", "wall", "and", "field", "a", "in", "to", "water", "is", "model", "that",
        "weight", "for", "training", "it", "was", "data", "with", "measure", "as", "chunk", "river",
    ];
    let mut numbers = SplitMix64::new(seed);
    let mut bells = SplitMix64::new(seed ^ 1);
    let mut ranks = SplitMix64::new(seed ^ 2);
    let weights: Vec<f32> = (0..=len).map(|_| bell(&mut bells) * 0.02).collect();
    let words =
        |n: u64| format!("{}{}", WORDS[(n % 24) as usize], if n >> 8 & 15 == 0 { ".\n" } else { " " });
    let json = |n: u64| {
        format!(
            "{{\"id\": {}, \"name\": \"{}\", \"score\": 0.{:04}, \"tags\": [\"{}\"]}}\n",
            n % 100_000,
            WORDS[(n >> 20) as usize % 24],
            (n >> 30) % 10_000,
            WORDS[(n >> 50) as usize % 24]
        )
    };
    let random = noise(seed, len);
    let period = |period: usize| fill(len, std::iter::repeat(&random[..period.min(len)]));
    let page = 4096;
    let pages: Vec<usize> =
        (0..len / page + 1).map(|i| if i % 4 == 3 { i.saturating_sub(6) } else { i }).collect();
    let f32s = |f: &dyn Fn(usize) -> f32| fill(len, (0..).map(|i| f(i).to_le_bytes()));
    let mut all = vec![
        ("zeros", vec![0; len]),
        ("text", fill(len, numbers.by_ref().map(words))),
        ("json", fill(len, numbers.by_ref().map(json))),
        (
            "csv",
            fill(
                len,
                numbers.by_ref().map(|n| format!("{},{:.3},{}\n", n % 7, (n >> 9) as f32 / 1e15, n & 1)),
            ),
        ),
        ("hexadecimal", fill(len, numbers.by_ref().map(|n| format!("{n:016x}")))),
        ("period 10000", period(10_000)),
        ("period 3001", period(3001)),
        ("period 40000", period(40_000)),
        ("period 60001", period(60_001)),
        (
            "repeated pages",
            fill(
                len,
                pages.iter().map(|p| &random[(p * page).min(len - 1)..]).map(|p| &p[..page.min(p.len())]),
            ),
        ),
        ("byte ramp", (0..len).map(|i| i as u8).collect()),
        ("f32 ramp", f32s(&|i| i as f32 * 0.001)),
        ("f32 wave", f32s(&|i| (i as f32 * 0.01).sin())),
        ("f32 weights", f32s(&|i| weights[i % weights.len()])),
        (
            "f32 shifted weights",
            fill(
                len,
                [&[7_u8; 1][..]].into_iter().chain(
                    [weights.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>()]
                        .iter()
                        .map(Vec::as_slice),
                ),
            ),
        ),
        ("f32 repeated weights", f32s(&|i| weights[i % 9000.min(weights.len())])),
        (
            "f32 sparse weights",
            f32s(&|i| if random[i % len] < 40 { weights[i % weights.len()] } else { 0.0 }),
        ),
        ("bf16 weights", fill(len, weights.iter().map(|&w| bf16(w)))),
        ("f16 weights", fill(len, weights.iter().map(|&w| f16(w)))),
        ("f64 wave", fill(len, (0..).map(|i| (f64::from(i) * 0.01).sin().to_le_bytes()))),
        ("f64 integers", fill(len, (0..).map(|i| f64::from(i % 1000).to_le_bytes()))),
        ("i32 counter", fill(len, (0_i32..).map(i32::to_le_bytes))),
        (
            "i32 small",
            fill(len, ranks.by_ref().take(len).map(|n| (n % 1000) as i32 - 500).map(i32::to_le_bytes)),
        ),
        ("i64 counter", fill(len, (1_000_000_i64..).map(i64::to_le_bytes))),
        ("u16 tokens", fill(len, (0..len).map(|_| (rank(&mut ranks, 50_000) as u16).to_le_bytes()))),
        ("u32 tokens", fill(len, (0..len).map(|_| rank(&mut ranks, 150_000).to_le_bytes()))),
        ("int8 weights", fill(len, (0..len).map(|i| [(weights[i % weights.len()] * 1500.0) as i8 as u8]))),
        ("random", random.clone()),
        ("random with a hole", {
            let mut data = random.clone();
            data[len / 2..len / 2 + len / 8].fill(0);
            data
        }),
        ("text then random", [&fill(len / 2, numbers.by_ref().map(words))[..], &random[len / 2..]].concat()),
        ("weights then zeros", {
            let mut data = fill(len, weights.iter().map(|&w| bf16(w)));
            data[len / 2..].fill(0);
            data
        }),
    ];
    all.extend(almost_random(seed, &random, words));
    all.extend(packed(seed, &random, &weights));
    all
}

/// Noise with something in it, and what looks like noise.
fn almost_random(seed: u64, random: &[u8], words: impl Fn(u64) -> String) -> Vec<Kind> {
    let len = random.len();
    let mut numbers = SplitMix64::new(seed ^ 3);
    let mut text = |len| fill(len, numbers.by_ref().map(&words));
    let with = |start: usize, island: &[u8]| {
        let mut data = random.to_vec();
        data[start..start + island.len()].copy_from_slice(island);
        data
    };
    let mut rows = random.to_vec();
    rows.chunks_exact_mut(128).for_each(|row| row[40..60].copy_from_slice(&random[..20]));
    let mut archives = random.to_vec();
    let head = b"\x1f\x8b\x08\x08\0\0\0\0\0\x03sample.json\0";
    archives.chunks_mut(3000).filter_map(<[u8]>::first_chunk_mut).for_each(|at| *at = *head);
    // After each byte of ones a zero, as in photographs, and now and then a name.
    let mut picture = random.to_vec();
    (1..len).filter(|&at| random[at - 1] == 0xff).for_each(|at| picture[at] = 0);
    (100..len - 4).step_by(1999).for_each(|at| picture[at..at + 4].copy_from_slice(b"IDAT"));
    let mut twice = [&random[..len / 2], &random[..len - len / 2]].concat();
    (len / 2 + 11..len).step_by(701).for_each(|at| twice[at] ^= 0x55);
    let far = (len / 3) & !4095;
    vec![
        ("random with text", with(len / 3 + 77, &text(4096))),
        ("random with late text", with(len - 4500, &text(4096))),
        ("random, then text", with(len - len / 10, &text(len / 10))),
        ("random with zeros", with(len * 5 / 7 + 1, &[0; 2048])),
        ("random with a copy", with(len - len / 4 - 1, &random[..len / 4])),
        ("random, far copies", with(len - far, &random[..far])),
        ("random twice, edited", twice),
        ("random tagged rows", rows),
        ("small archives", archives),
        ("picture", picture),
        ("encrypted", noise(seed ^ 4, len)),
    ]
}

/// Codes of few bits, and mixtures of numbers and other things.
fn packed(seed: u64, random: &[u8], weights: &[f32]) -> Vec<Kind> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let len = random.len();
    let mut numbers = SplitMix64::new(seed ^ 5);
    let base64 = |(at, byte): (usize, &u8)| match at % 77 {
        76 => b'\n',
        _ => DIGITS[usize::from(byte % 64)],
    };
    let mut bitmap = vec![0; len];
    for number in numbers.by_ref().take(len / 10) {
        bitmap[(number >> 3) as usize % len] |= 1 << (number & 7);
    }
    let tensor = |n: u64| {
        let (layer, at) = (n % 32, n % 1_000_000 * 4096);
        format!("\"layers.{layer}.weight\":{{\"dtype\":\"BF16\",\"data_offsets\":[{at},{}]}},", at + 8192)
    };
    let mut tensors = fill(4000, numbers.by_ref().map(tensor));
    tensors.extend(weights.iter().flat_map(|&weight| bf16(weight)));
    tensors.truncate(len);
    let eight_bits = |&weight: &f32| {
        let [low, high] = f16(weight * 16.0);
        high << 1 | low >> 7
    };
    let four_bits = |weight: f32| (weight * 130.0 + 8.0).clamp(0.0, 15.0) as u8;
    let halves: Vec<u8> =
        weights.iter().zip(weights.iter().rev()).map(|(&a, &b)| four_bits(a) | four_bits(b) << 4).collect();
    let scaled = halves.chunks(16).zip(weights).map(|(halves, &scale)| [&f16(scale)[..], halves].concat());
    let rows: Vec<_> = weights
        .chunks_exact(6)
        .take(2000)
        .map(|row| row.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>())
        .collect();
    let picked: Vec<_> = (0..len / 24 + 1).map(|_| numbers.word() as usize % rows.len()).collect();
    let hashes = numbers.by_ref().scan(0, |sum, number| {
        *sum += number % 100_000;
        Some([&noise(number, 32)[..], &u64::to_le_bytes(*sum)].concat())
    });
    vec![
        ("f32 rows of a table", fill(len, picked.iter().map(|&row| &rows[row]))),
        ("base64", random.iter().enumerate().map(base64).collect()),
        ("sparse bitmap", bitmap),
        ("safetensors", tensors),
        ("fp8 weights", weights.iter().take(len).map(eight_bits).collect()),
        ("int4 weights with scales", fill(len, scaled)),
        ("int4 weights", fill(len, [&halves])),
        ("hashes and lengths", fill(len, hashes)),
    ]
}
