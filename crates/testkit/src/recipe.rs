//! Input recipes: how the golden vectors describe their inputs instead of storing them.

use serde::Deserialize;

use crate::{corpus, unhex};

/// Makes bytes from a few numbers. The operations are those of the vectors' README; arithmetic wraps.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase", deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields are the parameters of the vectors' README, under the same names")]
pub enum Recipe {
    /// One byte over and over.
    Const { byte: u8, len: usize },
    /// Outputs of splitmix64, little-endian.
    Splitmix64 { seed: u64, len: usize },
    /// Outputs of xorshift64*, little-endian.
    #[serde(rename = "xorshift64star")]
    Xorshift64Star { seed: u64, len: usize },
    /// The first bytes of splitmix64 over and over.
    Period { period: usize, seed: u64, len: usize },
    /// Counts up and starts again.
    Modramp { period: usize, len: usize },
    /// `f32` elements that climb.
    F32ramp { start: f64, step: f64, len: usize },
    /// `f32` elements spread evenly around zero.
    F32noise { seed: u64, scale: f64, len: usize },
    /// Words of the manifest's list.
    Text { seed: u64, len: usize },
    /// Literal bytes.
    Hex { data: String },
    /// Parts, one after another.
    Concat { parts: Vec<Recipe> },
    /// One part, `count` times.
    Repeat { of: Box<Recipe>, count: usize },
    /// Bytes `start..end` of another recipe.
    Slice { of: Box<Recipe>, start: usize, end: usize },
}

impl Recipe {
    /// The bytes. `words` is the manifest's `text_words`; only `text` reads it.
    ///
    /// # Panics
    ///
    /// If the recipe makes no sense: a slice past the end, odd hexadecimal, `text` without 64 words.
    pub fn bytes(&self, words: &[String]) -> Vec<u8> {
        match self {
            Self::Const { byte, len } => corpus::constant(*byte, *len),
            Self::Splitmix64 { seed, len } => corpus::noise(*seed, *len),
            Self::Xorshift64Star { seed, len } => xorshift64star(*seed, *len),
            Self::Period { period, seed, len } => corpus::period(*period, *seed, *len),
            Self::Modramp { period, len } => (0..*len).map(|i| ((i % period) % 256) as u8).collect(),
            Self::F32ramp { start, step, len } => corpus::f32_ramp(*start, *step, *len),
            Self::F32noise { seed, scale, len } => corpus::f32_noise(*seed, *scale, *len),
            Self::Text { seed, len } => corpus::text_of(words, *seed, *len),
            Self::Hex { data } => unhex(data),
            Self::Concat { parts } => parts.iter().flat_map(|part| part.bytes(words)).collect(),
            Self::Repeat { of, count } => of.bytes(words).repeat(*count),
            Self::Slice { of, start, end } => of.bytes(words)[*start..*end].to_vec(),
        }
    }
}

fn xorshift64star(seed: u64, len: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(len + 8);
    let mut x = seed;
    while out.len() < len {
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        out.extend_from_slice(&x.wrapping_mul(0x2545_F491_4F6C_DD1D).to_le_bytes());
    }
    out.truncate(len);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipes_nest() {
        let text = r#"{"op":"concat","parts":[{"op":"hex","data":"0a0b"},
            {"op":"repeat","count":2,"of":{"op":"slice","start":254,"end":258,"of":{"op":"modramp","period":256,"len":300}}}]}"#;
        let recipe: Recipe = serde_json::from_str(text).unwrap();
        assert_eq!(recipe.bytes(&[]), [10, 11, 254, 255, 0, 1, 254, 255, 0, 1]);
    }

    #[test]
    fn an_unknown_operation_is_refused() {
        assert!(serde_json::from_str::<Recipe>(r#"{"op":"zip","len":1}"#).is_err());
    }
}
