//! Files of the demo: a model before and after a little training, and pictures. The same on every machine.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use crate::cmd::noise::Noise;
use crate::output::CliError;

/// Writes `before/` and `after/` with a model each, and `pictures/`.
pub(super) fn write(folder: &Path, model_mib: u64) -> Result<(), CliError> {
    let put = |name: &str, make: &dyn Fn(&mut dyn Write) -> io::Result<()>| -> Result<(), CliError> {
        let path = folder.join(name);
        let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| {
            let mut out = io::BufWriter::with_capacity(1 << 20, fs::File::create(&path)?);
            make(&mut out)?;
            out.flush()
        });
        written.map_err(|error| CliError::io(&path, error))
    };
    put("before/model.safetensors", &|out| model(out, model_mib, None))?;
    put("after/model.safetensors", &|out| model(out, model_mib, Some(TRAINED_LAYER)))?;
    for number in 0..PICTURES {
        let (label, image) = picture(number);
        put(&format!("pictures/{}", picture_name(number)), &|out| out.write_all(&image))?;
        let meta = serde_json::json!({"label": label, "number": number});
        put(&format!("pictures/{number:04}.meta.json"), &|out| writeln!(out, "{meta}"))?;
    }
    Ok(())
}

pub(super) fn picture_name(number: u64) -> String {
    format!("{number:04}.picture.png")
}

/// A file of 32-bit weights in the layout of safetensors: the length of a JSON header, the header, the tensors. A layer
/// that was trained further has other weights, and the header says a word more.
fn model(out: &mut dyn Write, model_mib: u64, trained: Option<u64>) -> io::Result<()> {
    let weights = model_mib * (1 << 20) / 4 / LAYERS;
    let mut header = serde_json::Map::new();
    let steps = if trained.is_some() { "steps: 1000, then 50 on layer 37" } else { "steps: 1000" };
    header.insert("__metadata__".to_owned(), serde_json::json!({"made by": "drystone demo", "steps": steps}));
    for layer in 0..LAYERS {
        let (begin, end) = (layer * weights * 4, (layer + 1) * weights * 4);
        let tensor = serde_json::json!({"dtype": "F32", "shape": [weights], "data_offsets": [begin, end]});
        header.insert(format!("layers.{layer}.weight"), tensor);
    }
    let mut header = serde_json::to_vec(&header)?;
    // Tensors begin at a multiple of eight.
    header.resize(header.len().next_multiple_of(8), b' ');
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(&header)?;
    for layer in 0..LAYERS {
        let mut noise = Noise::new(layer << 8 | u64::from(trained == Some(layer)));
        for _ in 0..weights {
            // Between -0.05 and 0.05, as weights are: their exponents differ little, and so compress.
            let unit = (noise.next() >> 40) as f32 / (1 << 24) as f32;
            out.write_all(&((unit - 0.5) * 0.1).to_le_bytes())?;
        }
    }
    Ok(())
}

/// A small PNG of a seeded colour running across it, and its label.
fn picture(number: u64) -> (u64, Vec<u8>) {
    let mut noise = Noise::new(0x00c0_10ff ^ number);
    let [red, green, blue, ..] = noise.next().to_le_bytes();
    let mut pixels = Vec::new();
    for y in 0..SIDE {
        pixels.push(0); // no filter
        for x in 0..SIDE {
            let grain = (noise.next() & 7) as u8;
            pixels.extend([red.wrapping_add(x * 4), green.wrapping_add(y * 4), blue.wrapping_add(grain)]);
        }
    }
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
    zlib.write_all(&pixels).expect("writing to memory");
    let data = zlib.finish().expect("writing to memory");

    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    let side = u32::from(SIDE).to_be_bytes();
    // Eight bits a channel, three channels, the only compression and filter there are, not interlaced.
    section(&mut png, b"IHDR", &[&side[..], &side[..], &[8, 2, 0, 0, 0]].concat());
    section(&mut png, b"IDAT", &data);
    section(&mut png, b"IEND", &[]);
    (number % 10, png)
}

/// A section of a PNG: length, name, data, and the CRC of name and data.
fn section(png: &mut Vec<u8>, name: &[u8; 4], data: &[u8]) {
    let mut crc = flate2::Crc::new();
    crc.update(name);
    crc.update(data);
    png.extend(u32::try_from(data.len()).expect("pictures are small").to_be_bytes());
    png.extend(name);
    png.extend(data);
    png.extend(crc.sum().to_be_bytes());
}

const LAYERS: u64 = 100;
const TRAINED_LAYER: u64 = 37;
const PICTURES: u64 = 500;
const SIDE: u8 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_layer_of_a_hundred_differs_and_everything_has_moved() {
        let made = |trained| {
            let mut out = Vec::new();
            model(&mut out, 1, trained).unwrap();
            let header = u64::from_le_bytes(out[..8].try_into().unwrap()) as usize;
            let value: serde_json::Value = serde_json::from_slice(&out[8..8 + header]).unwrap();
            assert_eq!(value["layers.99.weight"]["data_offsets"][1], out.len() - 8 - header);
            (header, out.split_off(8 + header))
        };
        let ((old_header, old), (new_header, new)) = (made(None), made(Some(TRAINED_LAYER)));
        assert_ne!(old_header, new_header);
        let layer = old.len() / LAYERS as usize;
        let changed: Vec<_> =
            (0..100).filter(|n| old[n * layer..][..layer] != new[n * layer..][..layer]).collect();
        assert_eq!(changed, [TRAINED_LAYER as usize]);
    }
}
