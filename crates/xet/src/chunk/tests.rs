use proptest::prelude::*;
use testkit::corpus::noise;
use testkit::twin::cuts as twin;

use super::*;

/// The cuts of data that comes in pieces.
fn pushed(data: &[u8], mut steps: impl FnMut() -> usize) -> Vec<usize> {
    let (mut chunker, mut cuts) = (Chunker::new(), Vec::new());
    let mut rest = data;
    while !rest.is_empty() {
        let (piece, next) = rest.split_at(steps().clamp(1, rest.len()));
        chunker.push(piece, &mut cuts);
        rest = next;
    }
    cuts.extend(chunker.finish());
    cuts.into_iter().map(|cut| cut as usize).collect()
}

/// Published with the reference: one million bytes of SplitMix64 from seed 0.
#[test]
fn the_published_cuts_come_out() {
    let cuts = [
        84493, 134421, 144853, 243318, 271793, 336457, 467529, 494581, 582000, 596735, 616815, 653164,
        678202, 724510, 815591, 827760, 958832, 991092, 1000000,
    ];
    let data = noise(0, 1_000_000);
    assert_eq!(cut(&data), cuts);
    assert_eq!(twin(&data), cuts);
    assert_eq!(pushed(&data, || 4096), cuts);
    assert_eq!(pushed(&data, || 1), cuts);
}

#[test]
fn nothing_has_no_chunks_and_constant_bytes_cut_at_the_maximum() {
    assert!(cut(&[]).is_empty());
    assert!(Chunker::new().finish().is_none());
    let data = vec![59; 1_000_000];
    let cuts: Vec<_> = (1..8).map(|i| i * 131_072).chain([1_000_000]).collect();
    assert_eq!(cut(&data), cuts);
    assert_eq!(pushed(&data, || 100_000), cuts);
}

#[test]
fn lengths_around_the_limits() {
    let data = noise(3, 300_000);
    for len in [1, 63, 64, 65, 8191, 8192, 8193, 8255, 8256, 131_071, 131_072, 131_073, 262_144] {
        assert_eq!(cut(&data[..len]), twin(&data[..len]), "{len}");
        assert_eq!(cut(&vec![0; len]), twin(&vec![0; len]), "{len} zeros");
    }
}

/// A candidate exactly at the minimum, one before it, at the maximum, and at the very end.
#[test]
fn candidates_on_the_limits_cut_as_the_draft_says() {
    let random = noise(5, 1 << 20);
    let found = first_candidate(&random).unwrap();
    let trigger = &random[found - 64..found];
    for plain in [false, true] {
        gear::tests::WITHOUT_BLOCKS.set(plain);
        for end in [64, 100, 8191, 8192, 8193, 8256, 131_071, 131_072, 131_073] {
            for len in [end, end + 1, end + 70, 200_000] {
                let mut data = vec![0; len];
                data[end - 64..end].copy_from_slice(trigger);
                assert_eq!(cut(&data), twin(&data), "{end} of {len}");
                assert_eq!(pushed(&data, || 1000), twin(&data), "{end} of {len}");
            }
        }
    }
}

#[test]
fn a_chunker_started_at_a_true_cut_agrees() {
    let data = noise(11, 2 << 20);
    let cuts = cut(&data);
    for at in &cuts[..5] {
        let rest: Vec<_> = cut(&data[*at..]).into_iter().map(|c| c + at).collect();
        assert!(cuts.ends_with(&rest));
    }
    let first = first_candidate(&data).unwrap();
    assert!(first <= 131_072 && gear::is_candidate(gear::hash(&data[..first])));
    assert!(first_candidate(&data[..64]).is_none() && first_candidate(&vec![0; 200_000]).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Cuts depend on the bytes alone, never on how they arrive.
    #[test]
    fn cuts_ignore_arrival(seed: u64, len in 0..600_000_usize, max_step in 1..200_000_usize, text: bool, plain: bool) {
        let mut data = noise(seed, len);
        if text {
            data.iter_mut().for_each(|b| *b = b'a' + *b % 26);
        }
        let mut state = seed;
        let steps = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % max_step + 1
        };
        let expected = twin(&data);
        gear::tests::WITHOUT_BLOCKS.set(plain);
        let (pushed, cut) = (pushed(&data, steps), cut(&data));
        gear::tests::WITHOUT_BLOCKS.set(false);
        prop_assert_eq!(pushed, expected.clone());
        prop_assert_eq!(cut, expected);
    }
}
