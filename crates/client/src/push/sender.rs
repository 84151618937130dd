//! Sender: uploads xorbs as they come, and a shard of the files whose xorbs are all acknowledged.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::JoinSet;
use xet::XorbHash;
use xet::shard::{Form, ShardBuilder, XorbEntry};
use xet::xorb::XorbInfo;

use super::file_draft::DraftedFile;
use super::open_xorb::{ReadyXorb, XorbBody};
use super::{PushFailure, PushOptions, Pushed, PushedFile, shard_cache};
use crate::cas::{Cas, Xorb};
use crate::error::{Error, ErrorKind, Result};
use crate::progress::Progress;

/// Output of the workers.
pub(super) enum Produced {
    /// A xorb, in memory reserved for it.
    Xorb(ReadyXorb, OwnedSemaphorePermit),
    /// Files that were read to their end.
    Files(Vec<DraftedFile>),
}

/// From the workers to the sender. Short: xorbs wait where memory is counted.
pub(super) fn channel() -> (mpsc::Sender<Produced>, mpsc::Receiver<Produced>) {
    mpsc::channel(64)
}

/// Sends everything that comes, until the workers are done.
pub(super) async fn all(
    cas: &Arc<dyn Cas>,
    mut produced: mpsc::Receiver<Produced>,
    options: &PushOptions,
    progress: &Progress,
) -> std::result::Result<Pushed, PushFailure> {
    let mut sender = Sender {
        cas,
        options,
        progress,
        acknowledged: HashMap::new(),
        waiting: HashMap::new(),
        waiting_for: HashMap::new(),
        shard: ShardBuilder::default(),
        borrowed: false,
        in_shard: Vec::new(),
        done: Vec::new(),
        notes: Vec::new(),
        noted: Vec::new(),
        pushed: Pushed::default(),
    };
    let mut sends: JoinSet<Result<AcknowledgedXorb>> = JoinSet::new();
    let mut ended = false;
    while !ended || !sends.is_empty() {
        tokio::select! {
            Some(sent) = sends.join_next() => {
                let sent = sent.map_err(|source| Error::caused(ErrorKind::Internal, "sending a xorb", source))?;
                sender.acknowledge(sent?);
            }
            next = produced.recv(), if !ended && sends.len() < options.sends_max.max(1) => match next {
                Some(Produced::Xorb(sealed, memory)) => {
                    let (cas, dry_run) = (cas.clone(), options.dry_run);
                    sends.spawn(async move {
                        let _memory = memory;
                        let ReadyXorb { open_xorbs, info, body } = sealed;
                        match body {
                            _ if dry_run => false,
                            XorbBody::Memory(held) => {
                                let chunks = held.into_iter().map(|held| held.bytes).collect();
                                cas.put_xorb(&Xorb { info: info.clone(), chunks }).await?
                            }
                            XorbBody::Streaming(growing) => growing.finish(info.clone()).await?,
                        };
                        Ok(AcknowledgedXorb { open_xorbs, info })
                    });
                }
                Some(Produced::Files(drafts)) => drafts.into_iter().for_each(|draft| sender.add_draft(draft)),
                None => ended = true,
            },
        }
        if sender.shard.upload_bytes() >= SHARD_BYTES {
            sender.register().await?;
        }
    }
    sender.register().await?;
    Ok(sender.finish())
}

/// A xorb that the server acknowledged, and the open xorbs in it.
struct AcknowledgedXorb {
    open_xorbs: Vec<(u64, u32)>,
    info: Arc<XorbInfo>,
}

struct Sender<'a> {
    cas: &'a Arc<dyn Cas>,
    options: &'a PushOptions,
    progress: &'a Progress,
    /// Acknowledged xorb of each open one, and the place of its first chunk there.
    acknowledged: HashMap<u64, (XorbHash, u32)>,
    /// Files with chunks in xorbs that are not acknowledged, and the number of those xorbs.
    waiting: HashMap<usize, (DraftedFile, usize)>,
    waiting_for: HashMap<u64, Vec<usize>>,
    shard: ShardBuilder,
    /// Whether the shard relies on xorbs that we did not send.
    borrowed: bool,
    in_shard: Vec<(usize, PushedFile)>,
    done: Vec<(usize, PushedFile)>,
    /// Notes in the shard cache, and the xorbs in them.
    notes: Vec<PathBuf>,
    noted: Vec<XorbEntry>,
    pushed: Pushed,
}

impl Sender<'_> {
    /// A file was read. It goes into the shard now, or when its last xorb is there.
    fn add_draft(&mut self, draft: DraftedFile) {
        let mut open_xorbs = draft.file.new_xorbs();
        open_xorbs.retain(|open| !self.acknowledged.contains_key(open));
        if open_xorbs.is_empty() {
            return self.add_to_shard(draft);
        }
        for open in &open_xorbs {
            self.waiting_for.entry(*open).or_default().push(draft.index);
        }
        self.waiting.insert(draft.index, (draft, open_xorbs.len()));
    }

    /// The server acknowledged a xorb.
    fn acknowledge(&mut self, AcknowledgedXorb { open_xorbs, info }: AcknowledgedXorb) {
        self.pushed.xorbs += 1;
        self.pushed.sent_bytes += info.stored_bytes();
        self.progress.wire_bytes.add(info.stored_bytes());
        let entry = XorbEntry::from(&*info);
        self.note_xorb(entry.clone());
        self.shard.push_xorb(entry);
        for (open, base) in open_xorbs {
            self.acknowledged.insert(open, (info.hash(), base));
            for index in self.waiting_for.remove(&open).unwrap_or_default() {
                let Some((_, missing)) = self.waiting.get_mut(&index) else { continue };
                *missing -= 1;
                if *missing == 0
                    && let Some((draft, _)) = self.waiting.remove(&index)
                {
                    self.add_to_shard(draft);
                }
            }
        }
    }

    /// Notes on disk that a xorb is there: a push that is killed and started again will not send it again.
    fn note_xorb(&mut self, entry: XorbEntry) {
        let Some(cache) = self.options.cache.as_deref().filter(|_| !self.options.dry_run) else { return };
        self.notes.extend(shard_cache::store_xorbs(cache, vec![entry.clone()], &[]));
        self.noted.push(entry);
        if self.noted.len() >= NOTES_MAX {
            self.join_notes();
        }
    }

    /// One note in place of many.
    fn join_notes(&mut self) {
        let (noted, notes) = (std::mem::take(&mut self.noted), std::mem::take(&mut self.notes));
        if let Some(cache) = self.options.cache.as_deref().filter(|_| noted.len() > 1) {
            shard_cache::store_xorbs(cache, noted, &notes);
        }
    }

    /// A file all of whose xorbs are there.
    fn add_to_shard(&mut self, draft: DraftedFile) {
        let DraftedFile { index, path, sha256, file } = draft;
        let (bytes, hash) = (file.bytes, file.hash);
        self.borrowed |= file.has_stored();
        self.shard.push_file(file.into_entry(sha256, |open| self.acknowledged[&open]));
        self.in_shard.push((index, PushedFile { path, bytes, hash, sha256 }));
    }

    /// Registers the files that are ready.
    async fn register(&mut self) -> std::result::Result<(), PushFailure> {
        if self.shard.is_empty() {
            return Ok(());
        }
        let shard = std::mem::take(&mut self.shard).encode(&Form::Upload);
        let shard = shard.map_err(|source| Error::invalid("shard", source))?;
        let borrowed = std::mem::take(&mut self.borrowed);
        let bytes = shard.len() as u64;
        if !self.options.dry_run {
            let put = self.cas.put_shard(shard.into(), self.progress).await;
            put.map_err(|error| PushFailure::Refused { error, borrowed })?;
        }
        self.pushed.shards += 1;
        self.pushed.sent_bytes += bytes;
        self.progress.wire_bytes.add(bytes);
        self.done.append(&mut self.in_shard);
        Ok(())
    }

    fn finish(mut self) -> Pushed {
        self.join_notes();
        self.done.sort_by_key(|(index, _)| *index);
        self.pushed.files = self.done.into_iter().map(|(_, file)| file).collect();
        self.pushed
    }
}

/// A shard is sent when it is about this long: well below the limit of 64 MiB, and no memory to speak of.
const SHARD_BYTES: u64 = 8 * 1024 * 1024;
/// Notes of single xorbs, after which they are joined: some 16 MiB in one file.
const NOTES_MAX: usize = 256;
