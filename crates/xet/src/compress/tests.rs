mod kinds;

use super::*;
use kinds::{fill, kinds};
use proptest::prelude::*;
use testkit::corpus::{SplitMix64, noise};

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
        if let Policy::Always(requested) = policy {
            assert!(scheme == requested || scheme == Scheme::Raw);
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
            let mut verdict = Guess::Either;
            let guess = best_us(&mut || {
                verdict = predictor.guess(&data, |sample| encoder.try_both(sample));
                std::hint::black_box(verdict == Guess::RawUnlessRepeated && predictor.repeats(&data));
            });
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
