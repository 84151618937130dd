use super::*;
use proptest::prelude::*;
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
fn fill<P: AsRef<[u8]>>(len: usize, pieces: impl Iterator<Item = P>) -> Vec<u8> {
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

/// One chunk of each kind of data we know, by name.
fn kinds(seed: u64, len: usize) -> Vec<(&'static str, Vec<u8>)> {
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
    vec![
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
    ]
}

fn stored(compressor: &mut Compressor, policy: Policy, chunk: &[u8]) -> (Scheme, Vec<u8>) {
    let mut out = b"before".to_vec();
    let scheme = compressor.compress(policy, chunk, &mut out);
    assert_eq!(&out[..6], b"before");
    (scheme, out.split_off(6))
}

const POLICIES: [Policy; 4] = [
    Policy::Auto,
    Policy::Always(Scheme::Raw),
    Policy::Always(Scheme::Lz4),
    Policy::Always(Scheme::GroupedLz4),
];

/// Compresses under every policy and back; the chunk must return and never have grown.
fn round_trip(compressor: &mut Compressor, decompressor: &mut Decompressor, chunk: &[u8]) {
    for policy in POLICIES {
        let (scheme, bytes) = stored(compressor, policy, chunk);
        match scheme {
            Scheme::Raw => assert_eq!(bytes, chunk),
            _ => assert!(bytes.len() < chunk.len(), "{policy} made {} of {}", bytes.len(), chunk.len()),
        }
        if let Policy::Always(asked) = policy {
            assert!(scheme == asked || scheme == Scheme::Raw);
        }
        let mut raw = vec![0xa5; chunk.len()];
        decompressor.decompress(0, scheme, &bytes, &mut raw).unwrap();
        assert!(raw == chunk, "{policy}, length {}", chunk.len());
    }
}

#[test]
fn every_length_comes_back_under_every_policy() {
    let (mut compressor, mut decompressor) = (Compressor::new(), Decompressor::new());
    let random = noise(2, 131_072);
    let text = fill(131_072, SplitMix64::new(3).map(|n| format!("{} sheep in field {}, ", n % 50, n % 7)));
    let ramp = fill(131_072, (0_u32..).map(|n| (n as f32 * 0.001).to_le_bytes()));
    let lens = (0..=300).chain([4095, 8191, 8192, 8193, 65_535, 65_536, 65_537, 131_071, 131_072]);
    for len in lens {
        for data in [&random, &text, &ramp, &vec![0; len]] {
            round_trip(&mut compressor, &mut decompressor, &data[..len]);
        }
    }
}

#[test]
fn a_chunk_longer_than_the_protocol_knows_still_comes_back() {
    let (mut compressor, mut decompressor) = (Compressor::new(), Decompressor::new());
    for len in [262_144, 262_145, 1 << 20, (4 << 20) + 1] {
        round_trip(&mut compressor, &mut decompressor, &vec![7; len]);
    }
}

#[test]
fn short_noise_is_stored_raw_and_short_zeros_shrink() {
    let mut compressor = Compressor::new();
    let (scheme, bytes) = stored(&mut compressor, Policy::Auto, &[0; 100]);
    assert_eq!((scheme, bytes.len()), (Scheme::Lz4, 27));
    assert_eq!(stored(&mut compressor, Policy::Auto, b"aaaaa"), (Scheme::Raw, b"aaaaa".to_vec()));
    assert_eq!(stored(&mut compressor, Policy::Auto, b""), (Scheme::Raw, vec![]));
}

#[test]
fn auto_stores_each_kind_of_data_about_as_well_as_the_best_scheme() {
    let mut compressor = Compressor::new();
    let mut failures = String::new();
    for len in [9_000, 30_000, 65_536, 131_072] {
        for (kind, data) in kinds(len as u64, len) {
            let [(auto, auto_bytes), _, (_, plain_bytes), (_, grouped_bytes)] = POLICIES
                .map(|policy| stored(&mut compressor, policy, &data))
                .map(|(s, bytes)| (s, bytes.len()));
            let best = plain_bytes.min(grouped_bytes);
            let line = format!(
                "{len:6} {kind:20} {auto:8} {auto_bytes:6}  lz4 {plain_bytes:6}  bg4-lz4 {grouped_bytes:6}\n"
            );
            print!("{line}");
            if auto_bytes > best + best * 3 / 100 {
                failures += &line;
            }
            if kind == "random" && auto != Scheme::Raw {
                failures += &line;
            }
        }
    }
    assert!(failures.is_empty(), "more than 3 % above the best:\n{failures}");
}

#[test]
fn what_came_before_does_not_change_the_stored_bytes() {
    let mut warm = Compressor::new();
    for len in [20_000, 131_072, 9_000] {
        for (kind, data) in kinds(5, len) {
            for policy in POLICIES {
                let fresh = stored(&mut Compressor::new(), policy, &data);
                assert!(stored(&mut warm, policy, &data) == fresh, "{kind}, {policy}");
            }
        }
    }
}

#[test]
fn a_raw_chunk_must_have_its_own_length() {
    let error = Decompressor::new().decompress(40, Scheme::Raw, b"four", &mut [0; 5]).unwrap_err();
    assert_eq!(error.to_string(), "offset 40: stored length of a raw chunk should be 5, found 4");
}

#[test]
fn scheme_bytes_and_names_are_those_of_the_format() {
    for (byte, name) in [(0, "none"), (1, "lz4"), (2, "bg4-lz4")] {
        let scheme = Scheme::parse(9, byte).unwrap();
        assert_eq!((scheme.byte(), scheme.name()), (byte, name));
        assert_eq!(name.parse::<Scheme>().unwrap(), scheme);
        assert_eq!(name.parse::<Policy>().unwrap(), Policy::Always(scheme));
        assert_eq!(Policy::Always(scheme).to_string(), name);
        assert_eq!(serde_json::to_string(&scheme).unwrap(), format!("{name:?}"));
        assert_eq!(serde_json::from_str::<Scheme>(&format!("{name:?}")).unwrap(), scheme);
    }
    for byte in 3..=255 {
        assert_eq!(Scheme::parse(9, byte), Err(FormatError::Scheme { at: 9, found: byte }));
    }
    assert_eq!("auto".parse::<Policy>().unwrap(), Policy::default());
    assert_eq!(Policy::Auto.to_string(), "auto");
    assert_eq!(
        "zstd".parse::<Policy>().unwrap_err().to_string(),
        "compression policy should be auto, none, lz4 or bg4-lz4, found \"zstd\""
    );
    assert!("auto".parse::<Scheme>().is_err());
}

proptest! {
    #[test]
    fn any_chunk_comes_back(seed: u64, len in 0..40_000_usize, step in 1..5000_usize, keep in 0..=255_u8) {
        // Noise with fewer bits and with copies: everything between random and constant.
        let mut data = noise(seed, len);
        data.iter_mut().for_each(|byte| *byte &= keep);
        for at in (step..len).step_by(3) {
            data[at] = data[at - step];
        }
        round_trip(&mut Compressor::new(), &mut Decompressor::new(), &data);
    }

    #[test]
    fn no_bytes_make_the_decompressor_panic(
        stored in proptest::collection::vec(any::<u8>(), 0..300), raw_len in 0..400_usize, byte in 0..3_u8,
    ) {
        let scheme = Scheme::parse(0, byte).unwrap();
        let _ = Decompressor::new().decompress(0, scheme, &stored, &mut vec![0; raw_len]);
    }
}

/// Not a test of anything: prints what guessing and compressing cost. Run with `--release -- --ignored --nocapture`.
#[test]
#[ignore = "measures"]
fn cost_of_guessing() {
    let mut encoder = Encoder::new();
    let mut predictor = Predictor::new();
    let mut compressor = Compressor::new();
    let mut decompressor = Decompressor::new();
    let mut out = Vec::with_capacity(1 << 20);
    let best_us = |run: &mut dyn FnMut()| {
        let rounds = (0..40).map(|_| {
            let start = std::time::Instant::now();
            (0..10).for_each(|_| run());
            start.elapsed().as_nanos() as f64 / 1e4
        });
        rounds.fold(f64::MAX, f64::min)
    };
    for len in [65_536, 131_072] {
        for (kind, data) in kinds(5, len) {
            let guess = best_us(&mut || {
                std::hint::black_box(predictor.guess(&data, |sample| encoder.try_both(sample)));
            });
            let verdict = predictor.guess(&data, |sample| encoder.try_both(sample));
            let plain = best_us(&mut || {
                std::hint::black_box(encoder.plain(&data).len());
            });
            let grouped = best_us(&mut || {
                std::hint::black_box(encoder.grouped(&data).len());
            });
            let mut buffer = vec![0; len];
            let group = best_us(&mut || bg4::group(&data, &mut buffer));
            let ungroup = best_us(&mut || bg4::ungroup(&data, &mut buffer));
            let auto = best_us(&mut || {
                out.clear();
                compressor.compress(Policy::Auto, &data, &mut out);
            });
            out.clear();
            let scheme = compressor.compress(Policy::Auto, &data, &mut out);
            let back = best_us(&mut || decompressor.decompress(0, scheme, &out, &mut buffer).unwrap());
            println!(
                "{len:6} {kind:21} guess {guess:6.1} auto {auto:6.1} lz4 {plain:6.1} bg4-lz4 {grouped:6.1} \
                 group {group:4.1} ungroup {ungroup:4.1} back {back:5.1} us  {verdict:?}"
            );
        }
    }
}
