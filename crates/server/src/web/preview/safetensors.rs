//! The header of a safetensors file: eight bytes of length, then JSON that names every tensor.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{Reader, Table, cell, text};
use crate::http::error::ApiError;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Tensor {
    dtype: String,
    #[serde(deserialize_with = "dimensions")]
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// A shape: no tensor has many dimensions, and a header of millions of numbers is not kept.
fn dimensions<'de, D: Deserializer<'de>>(source: D) -> Result<Vec<u64>, D::Error> {
    struct Shape;

    impl<'de> Visitor<'de> for Shape {
        type Value = Vec<u64>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {DIMENSIONS_MAX} dimensions")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut dimensions: A) -> Result<Self::Value, A::Error> {
            let mut shape = Vec::new();
            while let Some(dimension) = dimensions.next_element()? {
                if shape.len() == DIMENSIONS_MAX {
                    return Err(A::Error::invalid_length(DIMENSIONS_MAX + 1, &self));
                }
                shape.push(dimension);
            }
            Ok(shape)
        }
    }

    source.deserialize_seq(Shape)
}

/// A header: tensors by name, and text beside them. Read straight into these, for JSON of any shape takes many times its
/// length in memory.
#[derive(Debug, Default)]
struct Header {
    metadata: BTreeMap<String, String>,
    tensors: BTreeMap<String, Tensor>,
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("tensors by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Header, A::Error> {
                let mut header = Header::default();
                while let Some(name) = fields.next_key::<String>()? {
                    match name.as_str() {
                        "__metadata__" => header.metadata = fields.next_value()?,
                        _ => drop(header.tensors.insert(name, fields.next_value()?)),
                    }
                }
                Ok(header)
            }
        }

        source.deserialize_map(Fields)
    }
}

/// The tensors of one page, or why there are none to show.
pub(super) async fn table(reader: &Reader<'_>, page: usize) -> Result<Result<Table, String>, ApiError> {
    if reader.bytes() < 8 {
        return Ok(Err("The file is too short for a header.".to_owned()));
    }
    let head = reader.read(0..8).await?;
    let len = head.first_chunk().map_or(0, |len| u64::from_le_bytes(*len));
    if len > HEADER_BYTES_MAX || len > reader.bytes() - 8 {
        return Ok(Err(format!("The header says it has {len} bytes, which is too much to show.")));
    }
    let header = reader.read(8..8 + len).await?;
    let parsed = reader.visit.state.renderer.run(move || parse(&header, page)).await;
    Ok(parsed.unwrap_or_else(|why| Err(why.to_string())))
}

fn parse(header: &[u8], page: usize) -> Result<Table, String> {
    let wrong = |error: serde_json::Error| format!("The header cannot be read: {error}.");
    let Header { metadata, tensors } = serde_json::from_slice(header).map_err(wrong)?;
    let mut tensors: Vec<_> = tensors.into_iter().collect();
    tensors.sort_by_key(|(_, tensor)| tensor.data_offsets.0);
    let elements = |tensor: &Tensor| tensor.shape.iter().fold(1_u64, |product, n| product.saturating_mul(*n));
    let total = tensors.iter().fold(0_u64, |sum, (_, tensor)| sum.saturating_add(elements(tensor)));
    let row = |(name, tensor): &(String, Tensor)| {
        let shape = tensor.shape.iter().map(u64::to_string).collect::<Vec<_>>().join(" × ");
        let (start, end) = tensor.data_offsets;
        vec![cell(name), cell(&tensor.dtype), cell(&shape), text::bytes(end.saturating_sub(start))]
    };
    let first = page.saturating_mul(TENSORS_MAX);
    let rows: Vec<_> = tensors.iter().skip(first).take(TENSORS_MAX).map(row).collect();
    let mut facts = vec![
        ("Tensors".to_owned(), text::count(tensors.len() as u64)),
        ("Parameters".to_owned(), text::count(total)),
    ];
    facts.extend(metadata.iter().take(METADATA_MAX).map(|(key, value)| (cell(key), cell(value))));
    let caption = match rows.len() == tensors.len() {
        true => "Tensors".to_owned(),
        false => format!(
            "Tensors {} to {} of {}",
            first.saturating_add(1),
            first.saturating_add(rows.len()),
            tensors.len()
        ),
    };
    let columns = ["Tensor", "Type", "Shape", "Size"].map(str::to_owned).to_vec();
    Ok(Table { caption, columns, rows, facts })
}

/// A header that is longer is not read.
const HEADER_BYTES_MAX: u64 = 8 * 1024 * 1024;
pub(in crate::web) const TENSORS_MAX: usize = 100;
const METADATA_MAX: usize = 20;
const DIMENSIONS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_come_in_the_order_of_their_bytes_with_their_metadata() {
        let header = br#"{"__metadata__":{"format":"pt"},
            "b":{"dtype":"F16","shape":[2,3],"data_offsets":[12,24]},
            "a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}"#;
        let table = parse(header, 0).unwrap();
        assert_eq!(
            table.rows,
            [["a", "F32", "", "4 B"], ["b", "F16", "2 × 3", "12 B"]].map(|r| r.map(str::to_owned).to_vec())
        );
        let facts: Vec<_> = table.facts.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(facts, [("Tensors", "2"), ("Parameters", "7"), ("format", "pt")]);
        assert_eq!(parse(header, 1).unwrap().rows.len(), 0);
    }

    #[test]
    fn what_is_no_header_is_reported() {
        for wrong in [
            &b""[..],
            b"[]",
            b"{\"a\":1}",
            b"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}",
        ] {
            assert!(parse(wrong, 0).is_err());
        }
        let wide = format!(
            "{{\"a\":{{\"dtype\":\"F32\",\"shape\":[{}0],\"data_offsets\":[0,4]}}}}",
            "0,".repeat(1_000_000)
        );
        assert!(parse(wide.as_bytes(), 0).unwrap_err().contains("at most 64 dimensions"));
        let huge = br#"{"a":{"dtype":"F32","shape":[4294967296,4294967296,9],"data_offsets":[9,4]}}"#;
        assert_eq!(parse(huge, usize::MAX).unwrap().rows.len(), 0);
    }
}
