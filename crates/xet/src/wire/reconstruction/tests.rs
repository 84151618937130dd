use proptest::prelude::*;

use super::*;
use crate::wire::{encode_json, parse_json};

const FIRST: &str = "a1b2c3d4e5f6789012345678901234567890abcdef1234567890abcdef123456";
/// The seed's own second hash is four digits short.
const SECOND: &str = "fedcba09876543210987654321098765432100000fedcba09876543210987654";

/// Version 1 as the seeds print it, with an upper-case hash and fields we do not know.
fn seed_v1() -> String {
    let upper = FIRST.to_uppercase();
    format!(
        r#"{{
          "offset_into_first_range": 0,
          "terms": [
            {{ "hash": "{upper}", "unpacked_length": 263873, "range": {{ "start": 0, "end": 4, "step": 1 }} }},
            {{ "hash": "{SECOND}", "unpacked_length": 143890, "range": {{ "start": 0, "end": 2 }}, "note": null }}
          ],
          "fetch_info": {{
            "{upper}": [
              {{ "range": {{ "start": 0, "end": 4 }}, "url": "https://data.example/a?x=1", "url_range": {{ "start": 0, "end": 131071 }}, "etag": "e" }}
            ],
            "{SECOND}": [
              {{ "range": {{ "start": 0, "end": 2 }}, "url": "https://data.example/b", "url_range": {{ "start": 0, "end": 65670 }} }}
            ]
          }},
          "new": {{}}
        }}"#
    )
}

#[test]
fn version_1_reads_as_the_seeds_print_it() {
    let v1: ReconstructionV1 = parse_json(seed_v1().as_bytes()).unwrap();
    assert_eq!(v1.terms[0].unpacked_length, 263_873);
    let first: XorbHash = FIRST.parse().unwrap();
    assert_eq!(v1.fetch_info[&first][0].url_range.half_open(), 0..131_072);
    let written = String::from_utf8(encode_json(&v1)).unwrap();
    assert!(written.contains(FIRST) && !written.contains(&FIRST.to_uppercase()));
    assert!(written.contains(r#""range":{"start":0,"end":4},"url":"https://data.example/a?x=1","url_range":{"start":0,"end":131071}"#));

    let checked = Reconstruction::try_from(v1).unwrap();
    let (url, range) = checked.find(&checked.terms[1]).unwrap();
    assert_eq!((url, &range.stored_bytes), ("https://data.example/b", &(0..65_671)));
}

#[test]
fn version_2_has_exactly_these_fields() {
    let json = format!(
        r#"{{"offset_into_first_range":7,"terms":[{{"hash":"{FIRST}","unpacked_length":100,"range":{{"start":2,"end":4}}}}],"xorbs":{{"{FIRST}":[{{"url":"u","ranges":[{{"chunks":{{"start":0,"end":1}},"bytes":{{"start":0,"end":9}}}},{{"chunks":{{"start":2,"end":5}},"bytes":{{"start":20,"end":99}}}}]}}]}}}}"#
    );
    let v2: ReconstructionV2 = parse_json(json.as_bytes()).unwrap();
    assert_eq!(String::from_utf8(encode_json(&v2)).unwrap(), json);
    let checked = Reconstruction::try_from(v2).unwrap();
    assert_eq!(checked.offset_into_first_range, 7);
    assert_eq!(checked.find(&checked.terms[0]).unwrap().1.chunks, 2..5);
}

#[test]
fn an_empty_file_is_empty_in_every_version() {
    let url = |_: &XorbHash, _: &[FetchRange]| unreachable!("nothing to fetch");
    let v1 = ReconstructionV1::from_plan(&Plan::default(), url);
    assert_eq!(encode_json(&v1), br#"{"offset_into_first_range":0,"terms":[],"fetch_info":{}}"#);
    let v2 = ReconstructionV2::from_plan(&Plan::default(), limits::URL_RANGES_MAX, url);
    assert_eq!(encode_json(&v2), br#"{"offset_into_first_range":0,"terms":[],"xorbs":{}}"#);
    assert_eq!(Reconstruction::try_from(v1).unwrap(), Reconstruction::default());
}

#[test]
fn what_a_server_may_not_say_is_refused() {
    let good: ReconstructionV1 = parse_json(seed_v1().as_bytes()).unwrap();
    let refused = |change: fn(&mut ReconstructionV1)| {
        let mut bad = good.clone();
        change(&mut bad);
        Reconstruction::try_from(bad).unwrap_err()
    };
    assert!(matches!(refused(|v1| v1.terms[1].range.end = 3), FormatError::Missing { at: 1, .. }));
    assert!(matches!(refused(|v1| v1.fetch_info.clear()), FormatError::Missing { at: 0, .. }));
    assert!(matches!(refused(|v1| v1.terms[0].range.start = 4), FormatError::Range { .. }));
    assert!(matches!(refused(|v1| v1.offset_into_first_range = 263_873), FormatError::Range { .. }));
    let empty = ReconstructionV1 { offset_into_first_range: 1, ..Default::default() };
    assert!(Reconstruction::try_from(empty).is_err());
}

#[test]
fn ranges_in_any_order_are_found_and_nested_ones_dropped() {
    let span = |start, end| ChunkSpan { start, end };
    let bytes = |first, last| HttpRange::new(first, last).unwrap();
    let info = |url: &str, range, url_range| FetchInfo { range, url: url.into(), url_range };
    let hash = XorbHash::new([1; 32]);
    let term = |range| Term { hash, unpacked_length: 1, range };
    let list = vec![
        info("late", span(10, 12), bytes(100, 119)),
        info("nested", span(1, 2), bytes(10, 19)),
        info("early", span(0, 5), bytes(0, 49)),
        info("overlap", span(4, 7), bytes(40, 69)),
    ];
    let v1 = ReconstructionV1 {
        terms: vec![
            term(span(10, 11)),
            term(span(1, 2)),
            term(span(4, 5)),
            term(span(4, 7)),
            term(span(0, 4)),
        ],
        fetch_info: BTreeMap::from([(hash, list)]),
        ..Default::default()
    };
    let checked = Reconstruction::try_from(v1).unwrap();
    let urls: Vec<_> = checked.terms.iter().map(|term| checked.find(term).unwrap().0).collect();
    assert_eq!(urls, ["late", "early", "overlap", "overlap", "early"]);
    assert_eq!(checked.fetches[&hash].ranges.len(), 3);
    assert_eq!(checked.find(&PlanTerm { xorb: hash, chunks: 6..8, raw_bytes: 1 }), None);
}

#[test]
fn fetches_larger_than_any_xorb_are_refused() {
    let hash = XorbHash::new([1; 32]);
    let fetch = |end, last| ReconstructionV1 {
        fetch_info: BTreeMap::from([(
            hash,
            vec![FetchInfo {
                range: ChunkSpan { start: 0, end },
                url: String::new(),
                url_range: HttpRange::new(0, last).unwrap(),
            }],
        )]),
        ..Default::default()
    };
    assert!(
        Reconstruction::try_from(fetch(limits::XORB_CHUNKS_MAX, limits::XORB_STORED_BYTES_MAX - 1)).is_ok()
    );
    assert!(Reconstruction::try_from(fetch(limits::XORB_CHUNKS_MAX + 1, 9)).is_err());
    assert!(Reconstruction::try_from(fetch(1, limits::XORB_STORED_BYTES_MAX)).is_err());
    assert!(Reconstruction::try_from(fetch(1, u64::MAX)).is_err());
}

#[test]
fn a_batch_has_files_and_one_fetch_map() {
    let xorb: XorbHash = FIRST.parse().unwrap();
    let term = PlanTerm { xorb, chunks: 0..1, raw_bytes: 5 };
    let plan = BatchPlan {
        files: vec![(FileHash::ZERO, vec![]), (FileHash::new([1; 32]), vec![term])],
        fetches: vec![Fetch { xorb, ranges: vec![FetchRange { chunks: 0..1, stored_bytes: 0..13 }] }],
    };
    let batch = Batch::from_plan(&plan, |_, _| "u".into());
    let zero = "0".repeat(64);
    let one = "01".repeat(32);
    let json = format!(
        r#"{{"files":{{"{zero}":[],"{one}":[{{"hash":"{FIRST}","unpacked_length":5,"range":{{"start":0,"end":1}}}}]}},"fetch_info":{{"{FIRST}":[{{"range":{{"start":0,"end":1}},"url":"u","url_range":{{"start":0,"end":12}}}}]}}}}"#
    );
    assert_eq!(String::from_utf8(encode_json(&batch)).unwrap(), json);
    assert_eq!(parse_json::<Batch>(json.as_bytes()).unwrap(), batch);

    let request = format!(r#"[{{"prefix":"default","hash":"{one}"}}]"#);
    let keys: Vec<FileKey> = parse_json(request.as_bytes()).unwrap();
    assert_eq!(keys, [FileKey { prefix: "default".into(), hash: FileHash::new([1; 32]) }]);
    assert_eq!(encode_json(&keys), request.as_bytes());
}

#[test]
fn many_ranges_are_split_over_several_urls() {
    let ranges: Vec<_> = (0..1201_u32)
        .map(|i| FetchRange {
            chunks: 2 * i..2 * i + 1,
            stored_bytes: u64::from(i) * 100..u64::from(i) * 100 + 50,
        })
        .collect();
    let xorb = XorbHash::new([3; 32]);
    let plan = Plan { fetches: vec![Fetch { xorb, ranges: ranges.clone() }], ..Plan::default() };
    let url = |_: &XorbHash, group: &[FetchRange]| format!("u{}", group[0].chunks.start);
    let v2 = ReconstructionV2::from_plan(&plan, limits::URL_RANGES_MAX, url);
    let urls: Vec<_> = v2.xorbs[&xorb].iter().map(|fetch| (fetch.url.as_str(), fetch.ranges.len())).collect();
    assert_eq!(urls, [("u0", 500), ("u1000", 500), ("u2000", 201)]);
    let v1 = ReconstructionV1::from_plan(&plan, url);
    assert_eq!(v1.fetch_info[&xorb].len(), 1201);
}

/// Any plan that could be: each term inside a range.
fn any_plan() -> impl Strategy<Value = Plan> {
    let range = (0..9_u32, 1..9_u32, 1..1000_u64);
    let fetch = (any::<[u8; 32]>(), prop::collection::vec(range, 1..6));
    (prop::collection::btree_map(any::<[u8; 32]>(), fetch, 0..4), 0..50_u64).prop_map(|(xorbs, offset)| {
        let mut plan = Plan::default();
        for (hash, (_, ranges)) in xorbs {
            let (mut chunk, mut byte) = (0, 0);
            let mut fetch = Fetch { xorb: XorbHash::new(hash), ranges: Vec::new() };
            for (gap, len, bytes) in ranges {
                let chunks = chunk + gap + 1..chunk + gap + 1 + len;
                let stored_bytes = byte + u64::from(gap)..byte + u64::from(gap) + bytes;
                (chunk, byte) = (chunks.end, stored_bytes.end);
                plan.terms.push(PlanTerm { xorb: fetch.xorb, chunks: chunks.clone(), raw_bytes: 50 });
                fetch.ranges.push(FetchRange { chunks, stored_bytes });
            }
            plan.fetches.push(fetch);
        }
        plan.offset_into_first_range = if plan.terms.is_empty() { 0 } else { offset };
        plan
    })
}

proptest! {
    /// Both versions say the same, and what was parsed is what was planned.
    #[test]
    fn plans_survive_the_wire(plan in any_plan(), ranges_max in 0..4_usize) {
        let url = |xorb: &XorbHash, group: &[FetchRange]| format!("/{xorb}?{}", group.len());
        let v1: ReconstructionV1 = parse_json(&encode_json(&ReconstructionV1::from_plan(&plan, url))).unwrap();
        let v2: ReconstructionV2 =
            parse_json(&encode_json(&ReconstructionV2::from_plan(&plan, ranges_max, url))).unwrap();
        for parsed in [Reconstruction::try_from(v1).unwrap(), Reconstruction::try_from(v2).unwrap()] {
            prop_assert_eq!(parsed.offset_into_first_range, plan.offset_into_first_range);
            prop_assert_eq!(&parsed.terms, &plan.terms);
            for fetch in &plan.fetches {
                let ranges: Vec<_> = parsed.fetches[&fetch.xorb].ranges.iter().map(|at| at.range.clone()).collect();
                prop_assert_eq!(&ranges, &fetch.ranges);
            }
            prop_assert_eq!(parsed.fetches.len(), plan.fetches.len());
        }
    }
}
