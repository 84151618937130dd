use std::hint::black_box;
use std::time::Instant;

use proptest::prelude::*;
use sha2::block_api::compress256;
use testkit::corpus::{SplitMix64, noise};

use super::lanes::{LANES, States, shortest};
use sha2::Digest;

use super::*;

/// What a kernel does, lane by lane.
fn compress(states: &mut States, blocks: &[&[Block]; LANES]) {
    let len = shortest(blocks);
    for (lane, run) in blocks.iter().enumerate() {
        let mut state = states.take(lane);
        compress256(&mut state, &run[..len]);
        states.put(lane, state);
    }
}

/// Every way to digest that runs here, by name.
fn all_ways(messages: &[&[u8]]) -> Vec<(&'static str, Vec<Sha256>)> {
    let mut all = vec![
        ("dispatched", digest_all(messages)),
        ("one by one", one_by_one(messages)),
        ("lanes, portable", lanes::digest_all(messages, compress)),
    ];
    #[cfg(target_arch = "x86_64")]
    if let Some(kernel) = avx512::Kernel::detect() {
        let digests = lanes::digest_all(messages, |states, blocks| kernel.compress(states, blocks));
        all.push(("lanes, avx512", digests));
    }
    all
}

fn assert_all_ways(messages: &[&[u8]]) {
    let expected: Vec<[u8; 32]> =
        messages.iter().map(|message| sha2::Sha256::digest(message).into()).collect();
    for (name, digests) in all_ways(messages) {
        assert_eq!(digests.len(), expected.len(), "{name}");
        for ((digest, expected), message) in digests.iter().zip(&expected).zip(messages) {
            assert_eq!(digest.as_bytes(), expected, "{name}, length {}", message.len());
        }
    }
}

#[test]
fn digests_are_those_of_the_standard() {
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let two_blocks = "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";
    let long: &[u8] = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    // Alone, and often enough to fill the lanes.
    for times in [1, 6, 20] {
        for (name, digests) in all_ways(&[b"" as &[u8], b"abc", long].repeat(times)) {
            let texts: Vec<String> = digests.iter().map(ToString::to_string).collect();
            assert_eq!(texts, [empty, abc, two_blocks].repeat(times), "{name}");
        }
    }
}

#[test]
fn every_short_length_and_those_about_a_block_are_digested_alike() {
    let data = noise(1, 5000);
    let short = 0..=300;
    let blocks = (5..=70).flat_map(|blocks| blocks * 64 - 10..=blocks * 64 + 2);
    let messages: Vec<&[u8]> = short.chain(blocks).map(|len| &data[len % 7..][..len]).collect();
    assert_all_ways(&messages);
    let shortest_first: Vec<&[u8]> = messages.iter().rev().copied().collect();
    assert_all_ways(&shortest_first);
}

#[test]
fn lanes_that_end_together_are_digested_alike() {
    let data = noise(2, 200_000);
    for count in [1, 6, 7, 15, 16, 17, 32, 33] {
        assert_all_ways(&vec![data.as_slice(); count]);
        let different: Vec<&[u8]> = (0..count).map(|i| &data[i * 1000..][..10_000]).collect();
        assert_all_ways(&different);
    }
}

#[test]
fn a_message_longer_than_all_others_is_finished_alone() {
    let data = noise(3, 1 << 20);
    for place in [0, 20, 39] {
        let mut messages: Vec<&[u8]> = (0..40).map(|i| &data[i..][..i * 50]).collect();
        messages[place] = &data;
        assert_all_ways(&messages);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_messages_are_digested_alike_in_their_order(
        seed: u64, lens in prop::collection::vec(prop_oneof![0..200_usize, 0..5000_usize], 0..=70),
    ) {
        let data = noise(seed, 6000);
        let messages: Vec<&[u8]> = lens.iter().enumerate().map(|(i, len)| &data[i..][..*len]).collect();
        assert_all_ways(&messages);
    }
}

/// Not a test of anything: prints GB/s, and at how many busy lanes the kernel is as fast as one message after another.
/// Run with `--release -- --ignored --nocapture`.
#[test]
#[ignore = "measures"]
fn speed_of_many() {
    let gb_per_s = |bytes: usize, run: &mut dyn FnMut()| {
        let rounds = (0..60).map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_nanos() as f64
        });
        bytes as f64 / rounds.fold(f64::MAX, f64::min)
    };
    let data = noise(4, 4 << 20);
    for total in [2 << 20, 512 << 10] {
        for seed in 0..6 {
            let mut rest = data.as_slice();
            let messages: Vec<&[u8]> = log_normal(seed, 34_000.0, total)
                .into_iter()
                .map(|len| rest.split_off(..len).unwrap())
                .collect();
            let longest = messages.iter().map(|message| message.len()).max().unwrap();
            let many = gb_per_s(total, &mut || drop(black_box(digest_all(black_box(&messages)))));
            let one = gb_per_s(total, &mut || drop(black_box(one_by_one(black_box(&messages)))));
            println!(
                "{total:8} bytes in {:3} messages, longest {longest:7}: {many:4.2} GB/s, one by one {one:4.2}",
                messages.len()
            );
        }
    }

    #[cfg(target_arch = "x86_64")]
    if let Some(kernel) = avx512::Kernel::detect() {
        let (blocks, _) = data[..1 << 20].as_chunks::<64>();
        let mut runs = blocks.chunks_exact(blocks.len() / LANES);
        let runs: [&[Block]; LANES] = std::array::from_fn(|_| runs.next().unwrap());
        let mut states = States([[0; LANES]; 8]);
        let many = gb_per_s(1 << 20, &mut || kernel.compress(black_box(&mut states), &runs));
        let mut state = [0; 8];
        let one = gb_per_s(1 << 20, &mut || compress256(black_box(&mut state), blocks));
        let even = LANES as f64 * one / many;
        println!("16 lanes {many:4.2} GB/s, one message {one:4.2}: as fast with {even:3.1} busy lanes");
    }
}

/// Lengths of that mean, as those of files are, and `total` together.
fn log_normal(seed: u64, mean: f64, total: usize) -> Vec<usize> {
    let mut words = SplitMix64::new(seed);
    let mut uniform = move || (words.word() >> 11) as f64 / (1_u64 << 53) as f64;
    let mut left = total;
    std::iter::from_fn(|| {
        let normal = (-2.0 * (1.0 - uniform()).ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
        let len = ((mean.ln() - 0.5 + normal).exp() as usize).clamp(1, left.max(1));
        left = left.checked_sub(len)?;
        Some(len)
    })
    .collect()
}
