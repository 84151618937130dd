//! Previous versions: chunk lists of files on the server, so that only changed chunks of a new version are sent.

use std::collections::HashMap;

use futures::StreamExt as _;
use xet::limits::XORB_CHUNKS_MAX;
use xet::{ChunkHash, FileHash, HashKey, XorbHash};

use super::dedup_index::DedupIndex;
use crate::cas::Cas;

/// Learns where the chunks of these files are, as far as the server lists them. Other chunks are queried later, or sent.
pub(super) async fn learn(cas: &dyn Cas, files: &[FileHash], known: &mut DedupIndex) {
    let mut found = futures::stream::iter(files).map(|file| chunks(cas, *file)).buffer_unordered(AT_ONCE);
    while let Some(xorbs) = found.next().await {
        for (xorb, chunks) in xorbs.unwrap_or_default() {
            known.learn_xorb(xorb, HashKey::ZERO, &chunks);
        }
    }
}

/// The xorbs of a file, each with the chunks the file has of it. Others are zero, which no chunk is.
async fn chunks(cas: &dyn Cas, file: FileHash) -> Option<HashMap<XorbHash, Vec<ChunkHash>>> {
    let list = cas.chunk_list(file).await.ok()??;
    let whole = cas.reconstruction(file, None).await.ok()??;
    let mut list = list.into_iter().map(|(hash, _)| hash);
    let mut xorbs: HashMap<XorbHash, Vec<ChunkHash>> = HashMap::new();
    for term in &whole.terms {
        let chunks = xorbs.entry(term.xorb).or_default();
        if term.chunks.end > XORB_CHUNKS_MAX {
            return None;
        }
        for place in term.chunks.clone() {
            let (place, hash) = (usize::try_from(place).ok()?, list.next()?);
            if chunks.len() <= place {
                chunks.resize(place + 1, ChunkHash::ZERO);
            }
            *chunks.get_mut(place)? = hash;
        }
    }
    list.next().is_none().then_some(xorbs)
}

const AT_ONCE: usize = 4;
