use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// A xorb whose stored chunks are a header and the raw bytes: enough to check that plans fetch the right ones.
#[derive(Debug, Clone)]
struct FakeXorb {
    hash: XorbHash,
    chunks: Vec<Vec<u8>>,
    stored: Vec<u8>,
    stored_ends: Vec<u32>,
    raw_ends: Vec<u32>,
}

const HEADER_LEN: usize = 8;

impl FakeXorb {
    fn new(number: u8, lens: &[usize]) -> Self {
        let mut xorb = Self {
            hash: hash(number),
            chunks: Vec::new(),
            stored: Vec::new(),
            stored_ends: Vec::new(),
            raw_ends: Vec::new(),
        };
        let mut raw_end = 0;
        for (i, len) in lens.iter().enumerate() {
            let chunk: Vec<u8> =
                (0..*len).map(|b| (b * 7 + i * 31 + usize::from(number) * 101) as u8).collect();
            xorb.stored.extend([number; HEADER_LEN]);
            xorb.stored.extend(&chunk);
            raw_end += len;
            xorb.stored_ends.push(xorb.stored.len() as u32);
            xorb.raw_ends.push(raw_end as u32);
            xorb.chunks.push(chunk);
        }
        xorb
    }

    fn ends(&self) -> XorbEnds<'_> {
        XorbEnds { stored: &self.stored_ends, raw: &self.raw_ends }
    }

    fn raw(&self, chunks: Range<u32>) -> Vec<u8> {
        self.chunks[chunks.start as usize..chunks.end as usize].concat()
    }

    fn term(&self, chunks: Range<u32>) -> PlanTerm {
        PlanTerm { xorb: self.hash, raw_bytes: self.raw(chunks.clone()).len() as u32, chunks }
    }
}

fn hash(number: u8) -> XorbHash {
    XorbHash::new([number; 32])
}

fn ends_in<'a>(xorbs: &'a [FakeXorb]) -> impl FnMut(&XorbHash) -> Option<XorbEnds<'a>> {
    |hash| xorbs.iter().find(|xorb| xorb.hash == *hash).map(FakeXorb::ends)
}

fn file(xorbs: &[FakeXorb], terms: &[PlanTerm]) -> Vec<u8> {
    let xorb_of = |term: &PlanTerm| xorbs.iter().find(|xorb| xorb.hash == term.xorb).unwrap();
    terms.iter().flat_map(|term| xorb_of(term).raw(term.chunks.clone())).collect()
}

/// Rebuilds as a client does: fetches stored ranges, decodes them chunk by chunk, then takes what terms name.
fn rebuild(xorbs: &[FakeXorb], terms: &[PlanTerm], fetches: &[Fetch]) -> Vec<u8> {
    let mut out = Vec::new();
    for term in terms {
        let xorb = xorbs.iter().find(|xorb| xorb.hash == term.xorb).unwrap();
        let fetch = fetches.iter().find(|fetch| fetch.xorb == term.xorb).unwrap();
        let holds = |r: &&FetchRange| r.chunks.start <= term.chunks.start && term.chunks.end <= r.chunks.end;
        let range = fetch.ranges.iter().find(holds).unwrap();
        let mut body = &xorb.stored[range.stored_bytes.start as usize..range.stored_bytes.end as usize];
        let before = out.len();
        for chunk in range.chunks.clone() {
            let len = xorb.chunks[chunk as usize].len();
            let (stored, rest) = body.split_at(HEADER_LEN + len);
            if term.chunks.contains(&chunk) {
                out.extend(&stored[HEADER_LEN..]);
            }
            body = rest;
        }
        assert!(body.is_empty(), "a fetch range ends at a chunk's end");
        assert_eq!(out.len() - before, term.raw_bytes as usize);
    }
    out
}

fn check_fetches(xorbs: &[FakeXorb], terms: &[PlanTerm], fetches: &[Fetch]) {
    let mut seen = BTreeSet::new();
    let first_use: Vec<_> = terms.iter().map(|t| t.xorb).filter(|xorb| seen.insert(*xorb)).collect();
    assert_eq!(fetches.iter().map(|fetch| fetch.xorb).collect::<Vec<_>>(), first_use);
    for fetch in fetches {
        let xorb = xorbs.iter().find(|xorb| xorb.hash == fetch.xorb).unwrap();
        assert!(fetch.ranges.windows(2).all(|pair| pair[0].chunks.end < pair[1].chunks.start));
        let fetched: BTreeSet<u32> = fetch.ranges.iter().flat_map(|r| r.chunks.clone()).collect();
        let needed: BTreeSet<u32> =
            terms.iter().filter(|t| t.xorb == fetch.xorb).flat_map(|t| t.chunks.clone()).collect();
        assert_eq!(fetched, needed);
        for range in &fetch.ranges {
            let chunks = range.chunks.clone().map(|c| HEADER_LEN + xorb.chunks[c as usize].len());
            assert_eq!(range.stored_bytes.end - range.stored_bytes.start, chunks.sum::<usize>() as u64);
            let before = (0..range.chunks.start).map(|c| HEADER_LEN + xorb.chunks[c as usize].len());
            assert_eq!(range.stored_bytes.start, before.sum::<usize>() as u64);
        }
    }
}

fn covered(planned: Planned) -> Plan {
    match planned {
        Planned::Covered(plan) => plan,
        Planned::PastEnd { file_bytes } => panic!("past the end at {file_bytes}"),
    }
}

fn two_xorbs() -> Vec<FakeXorb> {
    vec![FakeXorb::new(1, &[10, 20, 30, 40]), FakeXorb::new(2, &[5, 5])]
}

#[test]
fn a_whole_file_keeps_its_terms_and_merges_its_fetches() {
    let xorbs = two_xorbs();
    let terms = [xorbs[0].term(2..4), xorbs[1].term(0..1), xorbs[0].term(0..2), xorbs[0].term(1..3)];
    let plan = covered(plan(&terms, None, ends_in(&xorbs)).unwrap());
    assert_eq!(plan.offset_into_first_range, 0);
    assert_eq!(plan.terms, terms);
    assert_eq!(
        plan.fetches,
        [
            Fetch { xorb: hash(1), ranges: vec![FetchRange { chunks: 0..4, stored_bytes: 0..132 }] },
            Fetch { xorb: hash(2), ranges: vec![FetchRange { chunks: 0..1, stored_bytes: 0..13 }] },
        ]
    );
}

#[test]
fn a_range_keeps_only_the_chunks_that_cover_it() {
    let xorbs = two_xorbs();
    let terms = [xorbs[0].term(0..4), xorbs[1].term(0..2)]; // 100 bytes, then 10
    let plan = covered(plan(&terms, Some(35..62), ends_in(&xorbs)).unwrap());
    assert_eq!(plan.offset_into_first_range, 5);
    assert_eq!(plan.terms, [PlanTerm { xorb: hash(1), chunks: 2..4, raw_bytes: 70 }]);
    assert_eq!(plan.fetches[0].ranges, [FetchRange { chunks: 2..4, stored_bytes: 46..132 }]);

    // Chunk borders belong to one side only.
    let plan = covered(super::plan(&terms, Some(10..30), ends_in(&xorbs)).unwrap());
    assert_eq!((plan.offset_into_first_range, &plan.terms[0].chunks), (0, &(1..2)));
    let plan = covered(super::plan(&terms, Some(100..101), ends_in(&xorbs)).unwrap());
    assert_eq!(plan.terms, [PlanTerm { xorb: hash(2), chunks: 0..1, raw_bytes: 5 }]);
}

#[test]
fn a_range_from_the_end_on_is_past_the_end_and_not_empty() {
    let xorbs = two_xorbs();
    let terms = [xorbs[1].term(0..2)];
    for range in [10..11, 10..u64::MAX, 11..20, u64::MAX - 1..u64::MAX, u64::MAX..u64::MAX] {
        let planned = plan(&terms, Some(range), ends_in(&xorbs)).unwrap();
        assert_eq!(planned, Planned::PastEnd { file_bytes: 10 });
    }
    assert_eq!(covered(plan(&terms, Some(9..u64::MAX), ends_in(&xorbs)).unwrap()).offset_into_first_range, 4);
}

#[test]
fn an_empty_file_has_an_empty_plan_from_byte_zero_only() {
    let none = |_: &XorbHash| None;
    assert_eq!(plan(&[], None, none).unwrap(), Planned::Covered(Plan::default()));
    assert_eq!(plan(&[], Some(0..256_000_000), none).unwrap(), Planned::Covered(Plan::default()));
    assert_eq!(plan(&[], Some(1..2), none).unwrap(), Planned::PastEnd { file_bytes: 0 });
}

#[test]
fn a_term_that_its_xorb_contradicts_is_an_error() {
    let xorbs = two_xorbs();
    let term = |chunks, raw_bytes| [PlanTerm { xorb: hash(2), chunks, raw_bytes }];
    let refused = |terms: &[PlanTerm]| plan(terms, None, ends_in(&xorbs)).unwrap_err();
    assert!(matches!(refused(&term(0..3, 10)), FormatError::Range { max: 2, found: 3, .. }));
    assert!(matches!(refused(&term(0..2, 11)), FormatError::Number { expected: 10, found: 11, .. }));
    assert!(matches!(refused(&term(1..1, 5)), FormatError::Range { .. }));
    #[expect(clippy::reversed_empty_ranges, reason = "the point of the test")]
    let reversed = term(2..1, 5);
    assert!(matches!(refused(&reversed), FormatError::Range { .. }));
    assert!(matches!(refused(&term(u32::MAX - 1..u32::MAX, 5)), FormatError::Range { .. }));
    let unknown = [PlanTerm { xorb: hash(9), chunks: 0..1, raw_bytes: 1 }];
    assert!(matches!(refused(&unknown), FormatError::Missing { what: "xorb", .. }));

    let lists_differ = |_: &XorbHash| Some(XorbEnds { stored: &[1], raw: &[5, 10] });
    assert!(matches!(plan(&term(0..2, 10), None, lists_differ), Err(FormatError::Number { .. })));
    let descending = |_: &XorbHash| Some(XorbEnds { stored: &[9, 3, 4], raw: &[5, 10, 12] });
    assert!(matches!(plan(&term(1..2, 5), None, descending), Err(FormatError::Order { .. })));
}

#[test]
fn a_batch_downloads_shared_chunks_once() {
    let xorbs = two_xorbs();
    let a = [xorbs[0].term(0..2), xorbs[1].term(1..2)];
    let b = [xorbs[0].term(1..3)];
    let files = [(FileHash::new([7; 32]), &a[..]), (FileHash::new([8; 32]), &b), (FileHash::ZERO, &[])];
    let batch = plan_batch(files, ends_in(&xorbs)).unwrap();
    assert_eq!(batch.files.len(), 3);
    assert_eq!(batch.fetches.len(), 2);
    assert_eq!(batch.fetches[0].ranges, [FetchRange { chunks: 0..3, stored_bytes: 0..84 }]);
    for (_, terms) in &batch.files {
        assert_eq!(rebuild(&xorbs, terms, &batch.fetches), file(&xorbs, terms));
    }
}

fn any_xorbs() -> impl Strategy<Value = Vec<FakeXorb>> {
    prop::collection::vec(prop::collection::vec(1..40_usize, 1..12), 1..5).prop_map(|xorbs| {
        xorbs.iter().enumerate().map(|(i, lens)| FakeXorb::new(i as u8 + 1, lens)).collect()
    })
}

fn any_terms(xorbs: &[FakeXorb], picks: &[(usize, usize, usize)]) -> Vec<PlanTerm> {
    let term = |&(xorb, start, len): &(usize, usize, usize)| {
        let xorb = &xorbs[xorb % xorbs.len()];
        let start = start % xorb.chunks.len();
        let end = start + 1 + len % (xorb.chunks.len() - start);
        xorb.term(start as u32..end as u32)
    };
    picks.iter().map(term).collect()
}

proptest! {
    /// Following a plan gives the requested bytes.
    #[test]
    fn a_plan_rebuilds_its_range(
        xorbs in any_xorbs(),
        picks in prop::collection::vec((0..9_usize, 0..99_usize, 0..99_usize), 0..12),
        start in 0..900_u64,
        len in prop_oneof![1..900_u64, Just(u64::MAX)],
        whole: bool,
    ) {
        let terms = any_terms(&xorbs, &picks);
        let file = file(&xorbs, &terms);
        let range = (!whole).then(|| start..start.saturating_add(len));
        let requested = range.clone().unwrap_or(0..u64::MAX);
        match plan(&terms, range, ends_in(&xorbs)).unwrap() {
            Planned::PastEnd { file_bytes } => {
                prop_assert_eq!(file_bytes, file.len() as u64);
                prop_assert!(requested.start >= file_bytes && requested.start > 0);
            }
            Planned::Covered(plan) => {
                let expected = &file[requested.start as usize..requested.end.min(file.len() as u64) as usize];
                let raw = rebuild(&xorbs, &plan.terms, &plan.fetches);
                let offset = plan.offset_into_first_range as usize;
                prop_assert_eq!(&raw[offset..offset + expected.len()], expected);
                check_fetches(&xorbs, &plan.terms, &plan.fetches);

                // No chunk too many: the first and the last one each hold a expected byte.
                if let (Some(first), Some(last)) = (plan.terms.first(), plan.terms.last()) {
                    let chunk_len = |term: &PlanTerm, chunk: u32| {
                        let xorb = xorbs.iter().find(|xorb| xorb.hash == term.xorb).unwrap();
                        xorb.chunks[chunk as usize].len()
                    };
                    prop_assert!(offset < chunk_len(first, first.chunks.start));
                    let over = raw.len() - offset - expected.len();
                    prop_assert!(over < chunk_len(last, last.chunks.end - 1));
                }
            }
        }
    }

    /// Nonsense in is an error out.
    #[test]
    fn lying_numbers_never_panic(
        start: u32, end: u32, raw_bytes: u32, from: u64, to: u64,
        stored in prop::collection::vec(any::<u32>(), 0..6),
        raw in prop::collection::vec(any::<u32>(), 0..6),
        small: bool,
    ) {
        let chunks = if small { start % 7..end % 7 } else { start..end };
        let terms = [PlanTerm { xorb: hash(1), chunks: chunks.clone(), raw_bytes }, PlanTerm { xorb: hash(1), chunks, raw_bytes }];
        let ends = |_: &XorbHash| Some(XorbEnds { stored: &stored, raw: &raw });
        let _ = plan(&terms, Some(from..to), ends);
        let _ = plan(&terms, None, ends);
        let _ = plan_batch([(FileHash::ZERO, &terms[..])], ends);
    }
}

fn recipe(xorbs: &[FakeXorb], terms: &[PlanTerm]) -> Vec<RecipeTerm> {
    let stored = |term: &PlanTerm| ends_in(xorbs)(&term.xorb).unwrap().stored_range(&term.chunks).unwrap();
    terms.iter().map(|term| RecipeTerm { term: term.clone(), stored_bytes: stored(term) }).collect()
}

proptest! {
    /// A recipe gives the plan that the ends of all chunks give, and looks only at the xorbs that the range cuts.
    #[test]
    fn a_recipe_is_planned_like_its_terms(
        picks in prop::collection::vec((0..2_usize, 0..4_u32, 1..4_u32), 0..8),
        start in 0..200_u64,
        len in 0..200_u64,
        whole: bool,
    ) {
        let xorbs = two_xorbs();
        let terms: Vec<_> = picks
            .iter()
            .map(|(xorb, first, count)| {
                let chunks = u32::try_from(xorbs[*xorb].chunks.len()).unwrap();
                let first = first % chunks;
                xorbs[*xorb].term(first..(first + count).min(chunks))
            })
            .collect();
        let recipe = recipe(&xorbs, &terms);
        let range = (!whole).then_some(start..start + len);
        let clipped = clipped_xorbs(recipe.iter().cloned(), range.as_ref());
        prop_assert!(clipped.len() <= 2);
        let ends = |hash: &XorbHash| if clipped.contains(hash) { ends_in(&xorbs)(hash) } else { None };
        let found = plan_recipe(recipe.iter().cloned(), range.clone(), ends);
        prop_assert_eq!(found, plan(&terms, range, ends_in(&xorbs)));
        let files = [(FileHash::ZERO, recipe.iter().cloned())];
        prop_assert_eq!(plan_recipe_batch(files), plan_batch([(FileHash::ZERO, &terms[..])], ends_in(&xorbs)));
    }
}
