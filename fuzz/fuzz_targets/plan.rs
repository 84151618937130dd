//! Plans of any terms over any chunk ends: no panic, and where the numbers are sound, the bytes asked for come out.
#![no_main]

use std::ops::Range;

use libfuzzer_sys::arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use xet::plan::{self, Fetch, FetchRange, Plan, PlanTerm, Planned, XorbEnds};
use xet::wire::{Batch, Reconstruction, ReconstructionV1, ReconstructionV2};
use xet::{FileHash, XorbHash};

/// Where the chunks of one xorb end.
#[derive(Default)]
struct Ends {
    stored: Vec<u32>,
    raw: Vec<u32>,
}

fuzz_target!(|input: &[u8]| {
    let mut u = Unstructured::new(input);
    match u.arbitrary::<bool>() {
        Ok(true) => sound(u),
        _ => hostile(u),
    }
});

/// Numbers as untrusted input may have them.
fn hostile(mut u: Unstructured<'_>) {
    let start = number(&mut u);
    let range = number::<bool>(&mut u).then(|| start..number(&mut u));
    let xorbs: Vec<Ends> = (0..count(&mut u))
        .map(|_| Ends {
            stored: (0..count(&mut u)).map(|_| number(&mut u)).collect(),
            raw: (0..count(&mut u)).map(|_| number(&mut u)).collect(),
        })
        .collect();
    let mut terms = Vec::new();
    while !u.is_empty() && terms.len() < 64 {
        let xorb = hash(number(&mut u));
        let chunks = number(&mut u)..number(&mut u);
        terms.push(PlanTerm { xorb, chunks, raw_bytes: number(&mut u) });
    }

    if let Ok(Planned::Covered(plan)) = plan::plan(&terms, range, |xorb| find(&xorbs, xorb)) {
        say(&plan);
    }
    let files = [(FileHash::ZERO, terms.as_slice()), (FileHash::new([1; 32]), &terms)];
    if let Ok(batch) = plan::plan_batch(files, |xorb| find(&xorbs, xorb)) {
        Batch::from_plan(&batch, |_, _| String::new());
    }
}

/// Numbers that agree with each other, so that a plan must exist.
fn sound(mut u: Unstructured<'_>) {
    let start = u64::from(number::<u16>(&mut u));
    let requested = start..start + 1 + u64::from(number::<u16>(&mut u));
    let range = number::<bool>(&mut u).then_some(requested);

    let mut xorbs: Vec<Ends> = Vec::new();
    for _ in 0..=count(&mut u) {
        let mut ends = Ends::default();
        for _ in 0..=count(&mut u) {
            // Every chunk has a byte; stored it has a header, too.
            let raw = 1 + u32::from(number::<u8>(&mut u));
            ends.raw.push(ends.raw.last().copied().unwrap_or_default() + raw);
            ends.stored.push(ends.stored.last().copied().unwrap_or_default() + 8 + raw / 2);
        }
        xorbs.push(ends);
    }
    let mut terms = Vec::new();
    let mut file = Vec::<u8>::new();
    while !u.is_empty() && terms.len() < 64 {
        let place = number::<u8>(&mut u) % u8::try_from(xorbs.len()).unwrap();
        let chunks_max = u32::try_from(xorbs[usize::from(place)].raw.len()).unwrap();
        let start = number::<u32>(&mut u) % chunks_max;
        let chunks = start..start + 1 + number::<u32>(&mut u) % (chunks_max - start);
        let xorb = hash(place);
        let raw = raw_bytes(&xorbs, &xorb, &chunks);
        terms.push(PlanTerm { xorb, chunks, raw_bytes: u32::try_from(raw.len()).unwrap() });
        file.extend(raw);
    }

    assert_eq!(plan::file_bytes(&terms), Ok(file.len() as u64));
    let requested = range.clone().unwrap_or(0..u64::MAX);
    let plan = match plan::plan(&terms, range, |xorb| find(&xorbs, xorb)).unwrap() {
        Planned::PastEnd { file_bytes } => {
            assert_eq!(file_bytes, file.len() as u64);
            return assert!(requested.start >= file_bytes && requested.start > 0);
        }
        Planned::Covered(plan) => plan,
    };
    let end = requested.end.min(file.len() as u64) as usize;
    let expected = &file[requested.start as usize..end];
    let offset = usize::try_from(plan.offset_into_first_range).unwrap();
    let rebuilt = rebuild(&xorbs, &plan.terms, &plan.fetches);
    assert_eq!(&rebuilt[offset..offset + expected.len()], expected);
    // No chunk is there for nothing: the first and the last both hold requested bytes.
    if let (Some(first), Some(last)) = (plan.terms.first(), plan.terms.last()) {
        let first = raw_bytes(&xorbs, &first.xorb, &(first.chunks.start..first.chunks.start + 1));
        let last = raw_bytes(&xorbs, &last.xorb, &(last.chunks.end - 1..last.chunks.end));
        assert!(offset < first.len() && rebuilt.len() - offset - expected.len() < last.len());
    }

    // What is parsed of it in JSON is accepted by clients, and is the same.
    let (v1, v2) = say(&plan);
    for parsed in [Reconstruction::try_from(v1), Reconstruction::try_from(v2)] {
        let parsed = parsed.unwrap();
        assert_eq!((&parsed.terms, parsed.offset_into_first_range), (&plan.terms, offset as u64));
    }

    let files = [(FileHash::ZERO, terms.as_slice()), (FileHash::new([1; 32]), &terms)];
    let batch = plan::plan_batch(files, |xorb| find(&xorbs, xorb)).unwrap();
    for (_, terms) in &batch.files {
        assert_eq!(rebuild(&xorbs, terms, &batch.fetches), file);
    }
}

/// What a client does with a plan: takes each term from the range that holds it.
fn rebuild(xorbs: &[Ends], terms: &[PlanTerm], fetches: &[Fetch]) -> Vec<u8> {
    for Fetch { xorb, ranges } in fetches {
        let ends = find(xorbs, xorb).unwrap();
        assert!(ranges.is_sorted_by(|a, b| a.chunks.end < b.chunks.start));
        assert!(ranges.iter().all(|at| ends.stored_range(&at.chunks) == Ok(at.stored_bytes.clone())));
    }
    let mut file = Vec::new();
    for term in terms {
        let fetch = fetches.iter().find(|fetch| fetch.xorb == term.xorb).unwrap();
        let holds = |at: &Range<u32>| at.start <= term.chunks.start && term.chunks.end <= at.end;
        assert!(fetch.ranges.iter().any(|at| holds(&at.chunks)));
        let raw = raw_bytes(xorbs, &term.xorb, &term.chunks);
        assert_eq!(raw.len() as u64, u64::from(term.raw_bytes));
        file.extend(raw);
    }
    file
}

/// The raw bytes of chunks of an imagined xorb, in which no two places look alike.
fn raw_bytes(xorbs: &[Ends], xorb: &XorbHash, chunks: &Range<u32>) -> Vec<u8> {
    let range = find(xorbs, xorb).unwrap().raw_range(chunks).unwrap();
    let byte = |at: u64| (at * 151 + (at >> 8) * 7 + u64::from(xorb.as_bytes()[0]) * 13) as u8;
    range.map(byte).collect()
}

/// The plan in both versions of JSON; the second with few ranges behind each URL.
fn say(plan: &Plan) -> (ReconstructionV1, ReconstructionV2) {
    let url = |_: &XorbHash, _: &[FetchRange]| String::new();
    (ReconstructionV1::from_plan(plan, url), ReconstructionV2::from_plan(plan, 2, url))
}

fn find<'a>(xorbs: &'a [Ends], xorb: &XorbHash) -> Option<XorbEnds<'a>> {
    let Ends { stored, raw } = xorbs.get(usize::from(xorb.as_bytes()[0]))?;
    Some(XorbEnds { stored, raw })
}

fn hash(place: u8) -> XorbHash {
    XorbHash::new([place; 32])
}

/// The next number of the input, 0 at its end.
fn number<'a, T: Arbitrary<'a> + Default>(u: &mut Unstructured<'a>) -> T {
    u.arbitrary().unwrap_or_default()
}

/// How many there are of something that costs memory.
fn count(u: &mut Unstructured<'_>) -> u8 {
    number::<u8>(u) % 16
}
