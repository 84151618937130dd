//! Any text parses as a hash or is refused; what parses prints back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xet::{FormatError, Hash, Sha256};

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let json = serde_json::Value::from(text);

    match text.parse::<Hash>() {
        Ok(hash) => {
            assert_eq!(hash.to_string(), text.to_ascii_lowercase());
            assert_eq!(hash.hex(), hash.to_string().as_bytes());
            assert_eq!(hash.to_string().parse(), Ok(hash));
            assert_eq!(serde_json::from_value::<Hash>(json.clone()).ok(), Some(hash));
            assert_eq!(serde_json::to_value(hash).ok(), Some(text.to_ascii_lowercase().into()));
        }
        Err(error) => {
            assert!(matches!(error, FormatError::HashText { .. }));
            assert!(error.to_string().len() < 2000, "an error does not repeat a whole input");
            assert!(serde_json::from_value::<Hash>(json.clone()).is_err());
        }
    }

    // The ordinary digest: the same digits in the ordinary order.
    match text.parse::<Sha256>() {
        Ok(digest) => {
            assert_eq!(digest.to_string(), text.to_ascii_lowercase());
            assert_eq!(Sha256::from_field(digest.to_field()), digest);
            assert_eq!(serde_json::from_value::<Sha256>(json).ok(), Some(digest));
        }
        Err(error) => {
            assert!(matches!(error, FormatError::HashText { .. }));
            assert!(text.parse::<Hash>().is_err());
        }
    }
});
