//! The pages on hashing and chunking say what the code does: their tables, their examples, their algorithm.

use crate::{ChunkHash, FileHash, Hash, HashKey, RangeHash, chunk, constants, merkle};

const HASHING: &str = include_str!("../../../../docs/format/hashing.md");
const CHUNKING: &str = include_str!("../../../../docs/format/chunking.md");

#[test]
fn the_parameters_of_hashing_are_the_ones_of_the_suite() {
    let parameters = [
        ("NAME", constants::NAME.to_owned()),
        ("CHUNK_KEY", hex(&constants::CHUNK_KEY)),
        ("NODE_KEY", hex(&constants::NODE_KEY)),
        ("FILE_KEY", hex(&constants::FILE_KEY)),
        ("RANGE_KEY", hex(&constants::RANGE_KEY)),
        ("NODE_CHILDREN_MEAN", constants::NODE_CHILDREN_MEAN.to_string()),
        ("NODE_CHILDREN_MIN", constants::NODE_CHILDREN_MIN.to_string()),
        ("NODE_CHILDREN_MAX", constants::NODE_CHILDREN_MAX.to_string()),
        ("DEDUP_MODULUS", constants::DEDUP_MODULUS.to_string()),
    ];
    assert_eq!(table(HASHING, "name"), owned(parameters));
}

#[test]
fn the_parameters_of_chunking_are_the_ones_of_the_suite() {
    let parameters = [
        ("CHUNK_BYTES_MIN", constants::CHUNK_BYTES_MIN.to_string()),
        ("CHUNK_BYTES_TARGET", constants::CHUNK_BYTES_TARGET.to_string()),
        ("CHUNK_BYTES_MAX", constants::CHUNK_BYTES_MAX.to_string()),
        ("GEAR_MASK", format!("{:#018x}", constants::GEAR_MASK)),
        ("GEAR_WINDOW", constants::GEAR_WINDOW.to_string()),
    ];
    assert_eq!(table(CHUNKING, "name"), owned(parameters));
}

#[test]
fn the_gear_table_is_the_one_of_the_suite() {
    let printed: Vec<u64> = block(CHUNKING, "gear")
        .split_whitespace()
        .map(|word| u64::from_str_radix(word, 16).unwrap())
        .collect();
    assert_eq!(printed, constants::GEAR_TABLE);
}

#[test]
fn the_examples_of_hashing_hold() {
    let counting: [u8; 32] = std::array::from_fn(|i| i as u8);
    let data = b"Hello World!";
    let chunk = ChunkHash::of(data);
    let leaf = (chunk, data.len() as u64);

    let node = block(HASHING, "node");
    let root = Hash::new(*blake3::keyed_hash(&constants::NODE_KEY, node.as_bytes()).as_bytes());
    let leaves = node.lines().map(|line| {
        let (hash, bytes) = line.split_once(" : ").unwrap();
        (hash.parse::<ChunkHash>().unwrap(), bytes.parse::<u64>().unwrap())
    });
    assert_eq!(merkle::xorb_hash(leaves.clone()).0, root);

    let examples = [
        ("string form of 00 to 1f", Hash::new(counting).to_string()),
        ("chunk", hex(data)),
        ("chunk hash, raw bytes", hex(chunk.as_bytes())),
        ("chunk hash", chunk.to_string()),
        ("xorb hash", merkle::xorb_hash([leaf]).to_string()),
        ("file hash", merkle::file_hash([leaf]).to_string()),
        ("range hash", RangeHash::of([&chunk]).to_string()),
        ("protected under key 00 to 1f", chunk.keyed(&HashKey::new(counting)).to_string()),
        ("file hash of the empty file", FileHash::ZERO.to_string()),
        ("node", root.to_string()),
        ("file of that root", merkle::file_hash(leaves).to_string()),
    ];
    assert_eq!(table(HASHING, "example"), owned(examples));
    assert_eq!(merkle::file_hash([]), FileHash::ZERO);
}

#[test]
fn the_example_of_chunking_holds() {
    let data = splitmix64(0, 1_000_000);
    let cuts = chunk::cut(&data);
    let printed: Vec<usize> =
        block(CHUNKING, "cuts").split_whitespace().map(|cut| cut.parse().unwrap()).collect();
    assert_eq!(cuts, printed);
    assert_eq!(cut_as_the_page_says(&data), printed);

    let starts = [0].into_iter().chain(cuts.iter().copied());
    let leaves: Vec<(ChunkHash, u64)> = starts
        .zip(&cuts)
        .map(|(start, end)| (ChunkHash::of(&data[start..*end]), (end - start) as u64))
        .collect();
    let examples = [
        ("first chunk hash", leaves[0].0.to_string()),
        ("xorb hash", merkle::xorb_hash(leaves.iter().copied()).to_string()),
        ("file hash", merkle::file_hash(leaves.iter().copied()).to_string()),
        ("range hash of all chunks", RangeHash::of(leaves.iter().map(|(hash, _)| hash)).to_string()),
    ];
    assert_eq!(table(CHUNKING, "example"), owned(examples));
}

#[test]
fn bytes_that_never_match_are_cut_at_the_maximum() {
    let data = vec![59; 1_000_000];
    let mut expected: Vec<usize> = (1..8).map(|i| i * 131_072).collect();
    expected.push(1_000_000);
    assert_eq!(chunk::cut(&data), expected);
    assert_eq!(cut_as_the_page_says(&data), expected);
}

/// The numbered steps of the page, one line each.
fn cut_as_the_page_says(data: &[u8]) -> Vec<usize> {
    let (mut cuts, mut start, mut h) = (Vec::new(), 0, 0_u64);
    for (i, byte) in data.iter().enumerate() {
        h = (h << 1).wrapping_add(constants::GEAR_TABLE[usize::from(*byte)]);
        let end = i + 1;
        let matches = end - start >= constants::CHUNK_BYTES_MIN && h & constants::GEAR_MASK == 0;
        if matches || end - start == constants::CHUNK_BYTES_MAX {
            cuts.push(end);
            (start, h) = (end, 0);
        }
    }
    if start < data.len() {
        cuts.push(data.len());
    }
    cuts
}

fn splitmix64(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        out.extend((z ^ (z >> 31)).to_le_bytes());
    }
    out.truncate(len);
    out
}

/// The rows of every table whose heading is `first | value`, in order, without the code marks.
fn table(page: &str, first: &str) -> Vec<(String, String)> {
    let heading = format!("| {first} | value |");
    let mut rows = Vec::new();
    let mut lines = page.lines();
    while lines.by_ref().any(|line| line == heading) {
        // The line under the heading draws the rule.
        let body = lines.by_ref().skip(1).take_while(|line| line.starts_with('|'));
        rows.extend(body.map(|line| {
            let (name, value) = line.trim_matches(['|', ' ']).split_once(" | ").expect("a row has two cells");
            (name.to_owned(), value.trim_matches('`').to_owned())
        }));
    }
    rows
}

/// The fenced block of this kind, its last line end included.
fn block<'a>(page: &'a str, kind: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("```{kind}\n")).expect("the page has the block");
    rest.split_once("```").expect("the block ends").0
}

fn owned<const N: usize>(rows: [(&str, String); N]) -> Vec<(String, String)> {
    rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
