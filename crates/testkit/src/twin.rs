//! Slow twins: the specification's pseudo-code, word for word, against which the fast code is compared.
//!
//! Names and order are those of the draft, not of our code. It departs from the draft in one place, marked
//! *divergence*, where every client in the world does otherwise.
#![allow(clippy::needless_range_loop, reason = "the loops are those of the draft")]

pub mod gear;

/// A hash as plain bytes.
pub type Bytes32 = [u8; 32];

/// Key of chunk hashes.
pub const DATA_KEY: Bytes32 = [
    0x66, 0x97, 0xf5, 0x77, 0x5b, 0x95, 0x50, 0xde, //
    0x31, 0x35, 0xcb, 0xac, 0xa5, 0x97, 0x18, 0x1c, //
    0x9d, 0xe4, 0x21, 0x10, 0x9b, 0xeb, 0x2b, 0x58, //
    0xb4, 0xd0, 0xb0, 0x4b, 0x93, 0xad, 0xf2, 0x29,
];

/// Key of inner nodes.
pub const INTERNAL_NODE_KEY: Bytes32 = [
    0x01, 0x7e, 0xc5, 0xc7, 0xa5, 0x47, 0x29, 0x96, //
    0xfd, 0x94, 0x66, 0x66, 0xb4, 0x8a, 0x02, 0xe6, //
    0x5d, 0xdd, 0x53, 0x6f, 0x37, 0xc7, 0x6d, 0xd2, //
    0xf8, 0x63, 0x52, 0xe6, 0x4a, 0x53, 0x71, 0x3f,
];

/// Key of term verification hashes.
pub const VERIFICATION_KEY: Bytes32 = [
    0x7f, 0x18, 0x57, 0xd6, 0xce, 0x56, 0xed, 0x66, //
    0x12, 0x7f, 0xf9, 0x13, 0xe7, 0xa5, 0xc3, 0xf3, //
    0xa4, 0xcd, 0x26, 0xd5, 0xb5, 0xdb, 0x49, 0xe6, //
    0x41, 0x24, 0x98, 0x7f, 0x28, 0xfb, 0x94, 0xc3,
];

/// Key of the last step of a file hash.
pub const ZERO_KEY: Bytes32 = [0; 32];

const MIN_CHUNK_SIZE: usize = 8192;
const MAX_CHUNK_SIZE: usize = 131_072;
const MASK: u64 = 0xFFFF_0000_0000_0000;

const MEAN_BRANCHING_FACTOR: u64 = 4;
const MAX_CHILDREN: usize = 9;

/// Cuts `data` into chunks.
pub fn chunk_file(data: &[u8]) -> Vec<&[u8]> {
    let mut h = 0u64;
    let mut start_offset = 0;
    let mut chunks = Vec::new();
    let n = data.len();

    for i in 0..n {
        let b = data[i];
        h = (h << 1).wrapping_add(gear::TABLE[b as usize]);

        let chunk_size = i - start_offset + 1;

        if chunk_size < MIN_CHUNK_SIZE {
            continue;
        }

        if chunk_size >= MAX_CHUNK_SIZE {
            chunks.push(&data[start_offset..i + 1]);
            start_offset = i + 1;
            h = 0;
            continue;
        }

        if h & MASK == 0 {
            chunks.push(&data[start_offset..i + 1]);
            start_offset = i + 1;
            h = 0;
        }
    }

    if start_offset < n {
        chunks.push(&data[start_offset..n]);
    }

    chunks
}

/// The offsets at which chunks end, the last being the length of `data`.
pub fn cuts(data: &[u8]) -> Vec<usize> {
    let ends = chunk_file(data).into_iter().scan(0, |end, chunk| {
        *end += chunk.len();
        Some(*end)
    });
    ends.collect()
}

/// The chunks of `data` as leaves of a Merkle tree: hash and raw length.
pub fn leaves(data: &[u8]) -> Vec<(Bytes32, u64)> {
    chunk_file(data).into_iter().map(|chunk| (compute_chunk_hash(chunk), chunk.len() as u64)).collect()
}

/// The hash of a chunk's raw bytes.
pub fn compute_chunk_hash(chunk_data: &[u8]) -> Bytes32 {
    blake3_keyed_hash(&DATA_KEY, chunk_data)
}

/// How many of the entries ahead belong to the next node.
pub fn next_merge_cut(hashes: &[(Bytes32, u64)]) -> usize {
    let n = hashes.len();
    if n <= 2 {
        return n;
    }

    let end = MAX_CHILDREN.min(n);

    for i in 2..end {
        let h = hashes[i].0;
        let hash_value = u64_le(&h[24..32]);
        if hash_value.is_multiple_of(MEAN_BRANCHING_FACTOR) {
            return i + 1;
        }
    }

    end
}

/// One node over `hash_pairs`.
pub fn merged_hash_of_sequence(hash_pairs: &[(Bytes32, u64)]) -> (Bytes32, u64) {
    let mut buffer = String::new();
    let mut total_size = 0u64;

    for (h, s) in hash_pairs {
        buffer += &(hash_to_string(h) + " : " + &s.to_string() + "\n");
        total_size = total_size.wrapping_add(*s);
    }

    let new_hash = blake3_keyed_hash(&INTERNAL_NODE_KEY, buffer.as_bytes());
    (new_hash, total_size)
}

/// The root over `entries`, which is the xorb hash of those chunks.
pub fn compute_merkle_root(entries: &[(Bytes32, u64)]) -> Bytes32 {
    if entries.is_empty() {
        return [0; 32];
    }

    let mut hv = entries.to_vec();

    while hv.len() > 1 {
        let mut write_idx = 0;
        let mut read_idx = 0;

        while read_idx < hv.len() {
            let cut = read_idx + next_merge_cut(&hv[read_idx..]);
            hv[write_idx] = merged_hash_of_sequence(&hv[read_idx..cut]);
            write_idx += 1;
            read_idx = cut;
        }

        hv.truncate(write_idx);
    }

    hv[0].0
}

/// The hash of a file of these chunks.
pub fn compute_file_hash(entries: &[(Bytes32, u64)]) -> Bytes32 {
    compute_file_hash_salted(entries, &ZERO_KEY)
}

/// The file hash where the deployment has a salt of its own.
pub fn compute_file_hash_salted(entries: &[(Bytes32, u64)], salt: &Bytes32) -> Bytes32 {
    // Divergence: the draft hashes the zero root of an empty file; clients leave it zero.
    if entries.is_empty() {
        return [0; 32];
    }
    let merkle_root = compute_merkle_root(entries);
    blake3_keyed_hash(salt, &merkle_root)
}

/// The verification hash of chunks `start_index..end_index`.
pub fn compute_verification_hash(chunk_hashes: &[Bytes32], start_index: usize, end_index: usize) -> Bytes32 {
    let mut buffer = Vec::new();
    for hash in &chunk_hashes[start_index..end_index] {
        buffer.extend_from_slice(hash);
    }
    blake3_keyed_hash(&VERIFICATION_KEY, &buffer)
}

/// The string form of a hash.
pub fn hash_to_string(hash: &Bytes32) -> String {
    let mut out = String::new();
    for segment in 0..4 {
        let offset = segment * 8;
        let value = u64_le(&hash[offset..offset + 8]);
        out += &format!("{value:016x}");
    }
    out
}

/// The hash that a string form names.
///
/// # Panics
///
/// If `hex_string` is not 64 hexadecimal digits.
pub fn string_to_hash(hex_string: &str) -> Bytes32 {
    assert_eq!(hex_string.len(), 64, "{hex_string:?}");
    let mut hash = Vec::new();
    for segment in 0..4 {
        let start = segment * 16;
        let value = u64::from_str_radix(&hex_string[start..start + 16], 16).expect("hexadecimal digits");
        hash.extend_from_slice(&value.to_le_bytes());
    }
    hash.try_into().expect("four words are 32 bytes")
}

/// Sorts bytes by their position in groups of four.
pub fn byte_group_4(data: &[u8]) -> Vec<u8> {
    let n = data.len();
    let mut groups = [const { Vec::new() }; 4];

    for i in 0..n {
        groups[i % 4].push(data[i]);
    }

    groups.concat()
}

/// Puts grouped bytes back in order.
pub fn byte_ungroup_4(grouped_data: &[u8], original_length: usize) -> Vec<u8> {
    let n = original_length;
    let base_size = n / 4;
    let remainder = n % 4;

    let mut sizes = Vec::new();
    for i in 0..4 {
        if i < remainder {
            sizes.push(base_size + 1);
        } else {
            sizes.push(base_size);
        }
    }

    let mut groups = Vec::new();
    let mut offset = 0;
    for size in sizes {
        groups.push(&grouped_data[offset..offset + size]);
        offset += size;
    }

    let mut data = Vec::new();
    for i in 0..n {
        let group_idx = i % 4;
        let pos_in_group = i / 4;
        data.push(groups[group_idx][pos_in_group]);
    }

    data
}

/// Whether a chunk hash alone makes the chunk eligible for global deduplication.
pub fn is_eligible(chunk_hash: &Bytes32) -> bool {
    u64_le(&chunk_hash[24..32]).is_multiple_of(1024)
}

/// BLAKE3 in keyed mode: the base of every hash here, and the protection of chunk hashes in dedup answers.
pub fn blake3_keyed_hash(key: &Bytes32, message: &[u8]) -> Bytes32 {
    *blake3::keyed_hash(key, message).as_bytes()
}

fn u64_le(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus;

    /// The four examples printed in the draft.
    #[test]
    fn the_drafts_own_examples_hold() {
        let hello = compute_chunk_hash(b"Hello World!");
        assert_eq!(
            hash_to_string(&hello),
            "d8d408e608fb9ca213b9909a65d86d725f2de4d8d540324be8a363e7a6e228cb"
        );

        let counting = std::array::from_fn(|i| i as u8);
        let text = "07060504030201000f0e0d0c0b0a090817161514131211101f1e1d1c1b1a1918";
        assert_eq!(hash_to_string(&counting), text);
        assert_eq!(string_to_hash(text), counting);

        let one = string_to_hash("c28f58387a60d4aa200c311cda7c7f77f686614864f5869eadebf765d0a14a69");
        let two = string_to_hash("6e4e3263e073ce2c0e78cc770c361e2778db3b054b98ab65e277fc084fa70f22");
        let (node, size) = merged_hash_of_sequence(&[(one, 100), (two, 200)]);
        assert_eq!(size, 300);
        assert_eq!(hash_to_string(&node), "be64c7003ccd3cf4357364750e04c9592b3c36705dee76a71590c011766b6c14");

        let range = compute_verification_hash(&[one, two], 0, 2);
        assert_eq!(
            hash_to_string(&range),
            "eb06a8ad81d588ac05d1d9a079232d9c1e7d0b07232fa58091caa7bf333a2768"
        );
    }

    #[test]
    fn the_published_cuts_of_noise_hold() {
        let expected = [
            84_493, 134_421, 144_853, 243_318, 271_793, 336_457, 467_529, 494_581, 582_000, 596_735, 616_815,
            653_164, 678_202, 724_510, 815_591, 827_760, 958_832, 991_092, 1_000_000,
        ];
        assert_eq!(cuts(&corpus::noise(0, 1_000_000)), expected);
        assert_eq!(cuts(&[]), [0usize; 0]);
    }

    #[test]
    fn grouping_goes_there_and_back() {
        for len in 0..40 {
            let data = corpus::noise(3, len);
            assert_eq!(byte_ungroup_4(&byte_group_4(&data), len), data);
        }
        assert_eq!(byte_group_4(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]), [0, 4, 8, 1, 5, 9, 2, 6, 3, 7]);
    }
}
