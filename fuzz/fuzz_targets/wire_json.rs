//! Any bytes as any JSON body: no panic, and what parses is written and read back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xet::wire::reconstruction::FileKey;
use xet::wire::{
    self, Batch, ErrorBody, FileChunkHashes, Reconstruction, ReconstructionV1, ReconstructionV2,
};
use xet::wire::{ShardUploaded, Telemetry, TokenAnswer, XorbUploaded};

fn round_trip<T>(data: &[u8]) -> Option<T>
where
    T: serde::de::DeserializeOwned + serde::Serialize + PartialEq + std::fmt::Debug,
{
    let value: T = wire::parse_json(data).ok()?;
    let again: T = wire::parse_json(&wire::encode_json(&value)).expect("we wrote it");
    assert_eq!(again, value);
    Some(value)
}

fuzz_target!(|data: &[u8]| {
    if let Some(checked) =
        round_trip::<ReconstructionV1>(data).and_then(|v1| Reconstruction::try_from(v1).ok())
    {
        assert!(checked.terms.iter().all(|term| checked.find(term).is_some()));
    }
    if let Some(checked) =
        round_trip::<ReconstructionV2>(data).and_then(|v2| Reconstruction::try_from(v2).ok())
    {
        assert!(checked.terms.iter().all(|term| checked.find(term).is_some()));
    }
    round_trip::<Batch>(data);
    round_trip::<Vec<FileKey>>(data);
    round_trip::<FileChunkHashes>(data);
    round_trip::<XorbUploaded>(data);
    round_trip::<ShardUploaded>(data);
    round_trip::<TokenAnswer>(data);
    round_trip::<ErrorBody>(data);
    // Numbers that are not whole may lose a digit on the way, so telemetry is only read.
    let _ = wire::parse_json::<Telemetry>(data);
});
