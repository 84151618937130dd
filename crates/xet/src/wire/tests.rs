use super::*;
use crate::hash::Hash;

#[test]
fn small_answers_have_the_names_clients_read() {
    assert_eq!(encode_json(&XorbUploaded { was_inserted: true }), br#"{"was_inserted":true}"#);
    assert!(!parse_json::<XorbUploaded>(br#"{"was_inserted":false,"why":"there"}"#).unwrap().was_inserted);

    let json = br#"{"casUrl":"https://cas.example","accessToken":"secret","exp":1848535668}"#;
    let token: TokenAnswer = parse_json(json).unwrap();
    assert_eq!((token.cas_url.as_str(), token.exp), ("https://cas.example", 1_848_535_668));
    assert_eq!(encode_json(&token), json);
    assert!(!format!("{token:?}").contains("secret"));
}

#[test]
fn file_chunk_hashes_are_camel_case_outside_and_snake_case_inside() {
    let zero = "0".repeat(64);
    let json = format!(
        r#"{{"totalChunks":9,"fileSize":600000,"windows":[{{"dirtyByteRange":[65536,131072]}}],"hashRanges":[null,{{"nodes":[{{"hash":"{zero}","size":5}}],"levels":[[1,0]],"at_start":false,"at_end":true}}],"gapVerification":["{zero}"]}}"#
    );
    let hashes: FileChunkHashes = parse_json(json.as_bytes()).unwrap();
    assert_eq!(hashes.windows[0].dirty_byte_range, [65_536, 131_072]);
    assert_eq!(hashes.hash_ranges[0], None);
    let subtree = hashes.hash_ranges[1].as_ref().unwrap();
    assert_eq!((subtree.nodes[0].hash, subtree.at_start, subtree.at_end), (Hash::ZERO, false, true));
    assert_eq!(String::from_utf8(encode_json(&hashes)).unwrap(), json);
}

#[test]
fn telemetry_takes_either_spelling_but_not_both() {
    let report = |agent: &str| {
        let json = format!(
            r#"{{"time":"2026-08-19T12:00:00Z","event":"xet_upload_summary","session_id":"s",{agent}"metrics":{{"bytes":1,"ok":true}}}}"#
        );
        parse_json::<Telemetry>(json.as_bytes())
    };
    assert_eq!(report(r#""user_agent":"a","#).unwrap().user_agent.as_deref(), Some("a"));
    assert_eq!(report(r#""userAgent":"a","#).unwrap().user_agent.as_deref(), Some("a"));
    assert_eq!(report("").unwrap().user_agent, None);
    assert!(report(r#""userAgent":"a","user_agent":"a","#).is_err());
}

#[test]
fn json_errors_know_their_offset() {
    let error = parse_json::<XorbUploaded>(b"{\n  \"was_inserted\": maybe}").unwrap_err();
    assert_eq!(error.at(), 20);
    assert!(parse_json::<XorbUploaded>(b"").is_err());
    assert!(parse_json::<XorbUploaded>(b"{\"was_inserted\":true} x").is_err());
    let deep = "[".repeat(100_000);
    assert!(parse_json::<serde_json::Value>(deep.as_bytes()).is_err());
}
