//! Stream: a file, or a range of it, in order, to standard output or any other writer.
//!
//! Windows of the file are fetched into memory, each in parallel within itself, one while the one before it is written.

use std::io::Write;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use xet::FileHash;

use super::Puller;
use super::decoder::Sink;
use super::engine::{Engine, MissingRange};
use super::planner::{Recipe, chunk_list, hash_mismatch};
use super::writer::{Expected, WrittenRanges};
use crate::chunk::Chunk;
use crate::error::{Error, ErrorKind, Result};

pub(super) async fn pull<W: Write + ?Sized>(
    puller: &Puller,
    file: FileHash,
    range: Range<u64>,
    out: &mut W,
) -> Result<u64> {
    // All of it proves itself at its end, by the file hash; a part only by the chunks it should have.
    let expected = if range == (0..u64::MAX) { None } else { expected(puller, file).await? };
    let bytes = (puller.options.memory_bytes_max / 4).clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX);
    let starts = (0..).map(|n| range.start.saturating_add(bytes.saturating_mul(n)));
    let ranges = starts.take_while(|start| *start < range.end);
    let windows = ranges.map(|start| {
        fetch(puller, file, start..range.end.min(start.saturating_add(bytes)), expected.clone())
    });
    let mut windows = futures::stream::iter(windows).buffered(2);
    let mut runs = WrittenRanges::default();
    let mut written = 0;
    let mut size = None;
    while let Some(window) = windows.next().await {
        let Window { bytes, chunks, end } = window?;
        out.write_all(&bytes)
            .map_err(|error| Error::caused(ErrorKind::Io, "writing what was pulled", error))?;
        written += bytes.len() as u64;
        if range.start == 0 {
            chunks.iter().for_each(|(at, chunk)| runs.push(*at, std::slice::from_ref(chunk)));
        }
        if end.is_some() {
            size = end;
            break;
        }
    }
    if range.start == 0
        && let Some(size) = size
        && runs.file_hash(size) != Some(file)
    {
        return Err(hash_mismatch(&file, "do not use what was written"));
    }
    Ok(written)
}

struct Window {
    bytes: Vec<u8>,
    chunks: Vec<(u64, Chunk)>,
    /// End of the file, if it ends here.
    end: Option<u64>,
}

/// The chunks a file must have, where the hub lists them. Cached for one file: a reader of ranges reads many of it.
async fn expected(puller: &Puller, file: FileHash) -> Result<Option<Arc<Expected>>> {
    let mut last = puller.last_list.lock().await;
    if let Some((of, expected)) = &*last
        && *of == file
    {
        return Ok(expected.clone());
    }
    let list = chunk_list(puller, file).await?;
    let expected = list.map(|list| Arc::new(Expected::new(&list)));
    *last = Some((file, expected.clone()));
    Ok(expected)
}

async fn fetch(
    puller: &Puller,
    file: FileHash,
    range: Range<u64>,
    expected: Option<Arc<Expected>>,
) -> Result<Window> {
    let buffer = Arc::new(Buffer { file, range: range.clone(), expected, state: Mutex::default() });
    let mut engine = Engine::new(puller, [file], buffer.clone());
    match Recipe::find(puller, &file) {
        Some(recipe) => {
            engine.want_cached(puller, &recipe, 0, std::slice::from_ref(&range));
            if let Some(state) = engine.file(0) {
                state.size = Some(recipe.size()).filter(|size| *size <= range.end);
            }
        }
        None => engine.want(MissingRange::new(0, range.clone())),
    }
    let state = engine.run().await.pop();
    drop(engine);
    let mut end = None;
    if let Some(state) = state {
        if let Some(error) = state.error {
            return Err(error);
        }
        end = state.size;
    }
    let mut state =
        std::mem::take(&mut *buffer.state.lock().expect("no thread panics while it holds the lock"));
    let expected_bytes = end.unwrap_or(range.end).min(range.end).saturating_sub(range.start);
    let expected_bytes = usize::try_from(expected_bytes).expect("a window fits into memory");
    if state.bytes.len() < expected_bytes {
        let message = format!("file {file}: the hub did not deliver all bytes of {range:?}");
        return Err(Error::new(ErrorKind::Unavailable, message));
    }
    state.bytes.truncate(expected_bytes);
    Ok(Window { bytes: state.bytes, chunks: state.chunks, end })
}

/// A window of a file in memory.
#[derive(Debug)]
struct Buffer {
    file: FileHash,
    range: Range<u64>,
    expected: Option<Arc<Expected>>,
    state: Mutex<BufferState>,
}

#[derive(Debug, Default)]
struct BufferState {
    bytes: Vec<u8>,
    chunks: Vec<(u64, Chunk)>,
}

impl Sink for Buffer {
    fn write(&self, _: usize, at: u64, raw: &[u8], chunks: &[Chunk]) -> Result<()> {
        if let Some(expected) = &self.expected {
            expected.check(self.file, at, chunks)?;
        }
        let inside = at.max(self.range.start)..(at + raw.len() as u64).min(self.range.end);
        let mut state = self.state.lock().expect("no thread panics while it holds the lock");
        if !inside.is_empty() {
            let place =
                |byte: u64, base: u64| usize::try_from(byte - base).expect("a window fits into memory");
            let (start, end) = (place(inside.start, self.range.start), place(inside.end, self.range.start));
            if state.bytes.len() < end {
                state.bytes.resize(end, 0);
            }
            let from = raw.get(place(inside.start, at)..place(inside.end, at)).unwrap_or_default();
            state.bytes.get_mut(start..end).unwrap_or_default().copy_from_slice(from);
        }
        let mut at = at;
        for chunk in chunks {
            state.chunks.push((at, *chunk));
            at += u64::from(chunk.bytes);
        }
        Ok(())
    }
}

const WINDOW_BYTES_MIN: u64 = 1 << 20;
const WINDOW_BYTES_MAX: u64 = 64 << 20;
