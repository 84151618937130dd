//! Verify: checks that what the catalog names exists as it was stored; reports and repairs damage, with the files affected.
//!
//! Quick: every object is there in its length, and every file's xorbs are. Deep: every object is read, every chunk
//! decoded and hashed, and every SHA-256 that a client claimed and nothing has relied on yet is computed, once.

pub(crate) mod checkpoint;
pub(crate) mod marks;
pub(crate) mod repair;

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use crate::access::Scope;
use crate::audit::{self, AuditEvent};
use crate::content::digests::claims::{self, DigestClaim};
use crate::content::rows::{XorbRow, XorbState};
use crate::content::{files, xorbs};
use crate::error::{Error, Result};
use crate::hub::pointer;
use crate::ids::XorbKey;
use crate::objects::Objects;
use crate::objects::key::ObjectKey;
use crate::upkeep::examine::{ExaminedBytes, examine, examine_bundle};
use crate::upkeep::verify::checkpoint::{Checkpoint, Stage};
use crate::upkeep::{Upkeep, inventory};

/// How to verify.
#[derive(Debug, Clone, Default)]
pub struct VerifyOptions {
    /// Read and hash everything.
    pub deep: bool,
    /// Bytes to read in a second; `None` for as many as possible.
    pub rate_bytes_per_s: Option<u64>,
    /// What to do about damage.
    pub repair: Option<Repair>,
    /// Leave out xorbs that were found sound since this Unix second.
    pub since_s: u64,
    /// Go on where the last run of this depth was cut, or at the first damage it found.
    pub resume: bool,
    /// Mark also a large part of the store.
    pub allow_large_repair: bool,
}

/// What to do about damage.
#[derive(Debug, Clone)]
pub enum Repair {
    /// Mark damaged xorbs: they are no longer offered, and the next upload of one repairs it.
    Mark,
    /// Fetch what is damaged from another store, and mark what is not sound there either.
    From(Objects),
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Verified {
    /// Objects examined.
    pub objects: u64,
    /// Bytes that were read and hashed.
    pub bytes: u64,
    /// What is not as it should be.
    pub damages: Vec<Damage>,
    /// Why damaged xorbs were not marked: they are so many that the objects are likely to be those of another store.
    pub refused: Option<String>,
}

impl Verified {
    /// What is noted of it.
    fn event(&self, deep: bool) -> AuditEvent {
        let Self { objects, bytes, damages, .. } = self;
        let how = match deep {
            true => format!("deep: {objects} objects, {bytes} bytes read"),
            false => format!("quick: {objects} objects"),
        };
        let repaired = damages.iter().filter(|damage| damage.repaired == RepairOutcome::Restored).count();
        let found = match damages.len() {
            0 => "nothing damaged".to_owned(),
            damaged => format!("{damaged} damaged, {repaired} of them restored"),
        };
        AuditEvent::new("verify", "store", format!("{how}, {found}"))
    }
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Which object, or which file of the catalog.
    pub what: String,
    /// What is wrong with it.
    pub why: String,
    /// Files that cannot be read whole, at most `FILES_MAX` of them.
    pub files: Vec<String>,
    /// Repositories that have them.
    pub repos: Vec<String>,
    /// What was done about it.
    pub repaired: RepairOutcome,
}

/// What was done about damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepairOutcome {
    /// Nothing.
    No,
    /// It is marked: the next upload repairs it.
    Marked,
    /// It was fetched from the other store.
    Restored,
    /// The row that said so is removed.
    Removed,
}

/// Files that are named for one damage.
pub(crate) const FILES_MAX: u64 = 100;

/// How far it is. Anyone may look.
#[derive(Debug, Default)]
pub struct VerifyProgress {
    objects: AtomicU64,
    bytes: AtomicU64,
}

impl VerifyProgress {
    /// Objects and bytes so far.
    pub fn now(&self) -> (u64, u64) {
        (self.objects.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// One verification.
pub(crate) struct Verify<'a> {
    upkeep: &'a Upkeep,
    options: &'a VerifyOptions,
    progress: &'a VerifyProgress,
    begin: Instant,
    verified: Verified,
    /// Where the run before was cut.
    resumed: Option<Checkpoint>,
    /// Xorbs to mark, with the number of the damage. Marked together, when it is known how many they are.
    unmarked: Vec<(XorbKey, usize)>,
}

impl Upkeep {
    /// Examines everything once. Damage is an answer, not an error.
    pub async fn verify(&self, options: &VerifyOptions, progress: &VerifyProgress) -> Result<Verified> {
        let begin = Instant::now();
        let resumed = if options.resume { self.verify_place(options).await? } else { None };
        let mut verify = Verify {
            upkeep: self,
            options,
            progress,
            begin,
            verified: Verified::default(),
            resumed,
            unmarked: vec![],
        };
        verify.xorbs().await?;
        verify.mark().await?;
        verify.shards().await?;
        verify.bundles().await?;
        verify.files().await?;
        if options.deep {
            verify.digests().await?;
        }
        self.note_verify_place(options, None).await?;
        let event = verify.verified.event(options.deep);
        audit::log_event(&self.db, &event).await?;
        Ok(verify.verified)
    }
}

impl Verify<'_> {
    async fn xorbs(&mut self) -> Result<()> {
        let Some(mut after) = self.enter(Stage::Xorbs) else { return Ok(()) };
        loop {
            self.reached(Stage::Xorbs, &after).await?;
            let rows = inventory::xorb_page(&self.upkeep.db, &after, PAGE).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = last.key.hash.as_bytes().to_vec();
            let due = |row: &XorbRow| row.verified_s < self.options.since_s || self.options.since_s == 0;
            // A marked one is examined in any case: it may have been put back.
            let rows: Vec<_> =
                rows.into_iter().filter(|row| due(row) || row.state == XorbState::Damaged).collect();
            let keys = rows.iter().map(|row| (ObjectKey::Xorb(row.key), row.object_bytes));
            let (sound, damaged) = self.examine(keys.collect()).await?;
            let sound: Vec<_> = sound.iter().filter_map(xorb_key).collect();
            if self.options.deep {
                marks::note_verified(&self.upkeep.db, &sound, self.upkeep.clock.now_s()).await?;
            }
            for (key, why) in damaged {
                let Some(xorb) = xorb_key(&key) else { continue };
                // Swept or replaced since the page was read: nothing is wrong then.
                let now = xorbs::xorbs(&self.upkeep.db, &[xorb.hash]).await?;
                if !now.iter().any(|row| row.key == xorb && !row.is_swept()) {
                    continue;
                }
                let (files, repos) = self.touched(xorb).await?;
                // A marked xorb that no file needs any more is left to garbage collection.
                if files.is_empty() && now.iter().any(|row| row.state == XorbState::Damaged) {
                    continue;
                }
                let repaired = self.repair_object(key).await?;
                if repaired == RepairOutcome::No && self.options.repair.is_some() {
                    self.unmarked.push((xorb, self.verified.damages.len()));
                }
                self.add_damage(Damage { what: key.to_string(), why, files, repos, repaired });
            }
        }
    }

    async fn shards(&mut self) -> Result<()> {
        let Some(mut after) = self.enter(Stage::Shards) else { return Ok(()) };
        loop {
            self.reached(Stage::Shards, &after).await?;
            let rows = inventory::shard_page(&self.upkeep.db, &after, PAGE).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = last.hash.as_bytes().to_vec();
            let keys = rows.iter().map(|row| (ObjectKey::Shard(row.hash), row.object_bytes)).collect();
            for (key, why) in self.examine(keys).await?.1 {
                let repaired = self.repair_object(key).await?;
                // Files are read without it; only a catalog that is made again would miss them.
                self.add_damage(Damage {
                    what: key.to_string(),
                    why,
                    files: vec![],
                    repos: vec![],
                    repaired,
                });
            }
        }
    }

    async fn bundles(&mut self) -> Result<()> {
        let Some(mut after) = self.enter(Stage::Bundles) else { return Ok(()) };
        loop {
            self.reached(Stage::Bundles, &after).await?;
            let repos = inventory::all_repos(&self.upkeep.db, &after, PAGE).await?;
            let Some(last) = repos.last() else { return Ok(()) };
            after = last.row.id.as_bytes().to_vec();
            for repo in repos {
                let mut after = Vec::new();
                loop {
                    let bundles = inventory::bundle_page(&self.upkeep.db, repo.row.id, &after, PAGE).await?;
                    let Some(last) = bundles.last() else { break };
                    after = last.as_bytes().to_vec();
                    let key = |commit| (ObjectKey::Bundle { repo: repo.row.id, commit }, 0);
                    let (sound, mut damaged) = self.examine(bundles.into_iter().map(key).collect()).await?;
                    if self.options.deep {
                        for key in sound {
                            let examined = examine_bundle(&self.upkeep.db, &self.upkeep.objects, key).await?;
                            damaged.extend(examined.err().map(|why| (key, why)));
                        }
                    }
                    for (key, why) in damaged {
                        let repaired = self.repair_object(key).await?;
                        let repos = vec![repo.row.name.to_string()];
                        self.add_damage(Damage {
                            what: key.to_string(),
                            why,
                            files: vec![],
                            repos,
                            repaired,
                        });
                    }
                }
            }
        }
    }

    /// Every xorb of every file has a row that counts the object the file is laid out in.
    async fn files(&mut self) -> Result<()> {
        let Some(mut after) = self.enter(Stage::Files) else { return Ok(()) };
        loop {
            self.reached(Stage::Files, &after).await?;
            let rows = inventory::file_page(&self.upkeep.db, &after, PAGE).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = last.hash.as_bytes().to_vec();
            let hashes: BTreeSet<_> =
                rows.iter().flat_map(|row| row.recipe.xorbs.iter().map(|xorb| xorb.key.hash)).collect();
            let hashes: Vec<_> = hashes.into_iter().collect();
            let xorbs: HashMap<_, _> = xorbs::xorbs(&self.upkeep.db, &hashes)
                .await?
                .into_iter()
                .map(|row| (row.key.hash, row))
                .collect();
            for row in rows {
                let lost = row.recipe.xorbs.iter().find(|xorb| {
                    let is_sound = |row: &XorbRow| row.key == xorb.key && !row.is_swept();
                    !xorbs.get(&xorb.key.hash).is_some_and(is_sound)
                });
                let Some(lost) = lost.map(|xorb| xorb.key) else { continue };
                // It may have been moved or dropped since the page was read.
                let again = files::recipes(&self.upkeep.db, &[row.hash]).await?;
                if again.first().is_none_or(|again| again.recipe != row.recipe) {
                    continue;
                }
                let readers = files::readers(&self.upkeep.db, &[row.hash]).await?;
                let repos = readers.into_iter().map(|(_, scope)| scope.to_string()).collect();
                let why = format!("the catalog has no {}", ObjectKey::Xorb(lost));
                let what = format!("file {}", row.hash);
                self.add_damage(Damage {
                    what,
                    why,
                    files: vec![row.hash.to_string()],
                    repos,
                    repaired: RepairOutcome::No,
                });
            }
        }
    }

    /// Claimed digests that were never computed. False ones are removed, like everywhere; they are damage only where a commit
    /// names them.
    async fn digests(&mut self) -> Result<()> {
        let Some(_) = self.enter(Stage::Digests) else { return Ok(()) };
        self.reached(Stage::Digests, &[]).await?;
        let mut after = None;
        loop {
            let claims = claims::claim_page(&self.upkeep.db, after.as_ref(), PAGE).await?;
            let Some(last) = claims.last() else { return Ok(()) };
            after = Some(last.clone());
            let mut by_scope: HashMap<Scope, Vec<DigestClaim>> = HashMap::new();
            claims.into_iter().for_each(|claim| by_scope.entry(claim.scope.clone()).or_default().push(claim));
            for (scope, claims) in by_scope {
                let checked = (*self.upkeep.content).clone().check_claims(scope, claims).await?;
                for claim in checked.refuted {
                    let repos = vec![claim.scope.to_string()];
                    let why = format!(
                        "its bytes do not have the SHA-256 {} that was claimed; commits that name it are wrong",
                        pointer::hex(&claim.sha256)
                    );
                    let what = format!("file {}", claim.file);
                    let files = vec![claim.file.to_string()];
                    self.add_damage(Damage { what, why, files, repos, repaired: RepairOutcome::Removed });
                }
            }
        }
    }

    /// Which of these objects are sound, and what is wrong with the others. A length of 0 is not known.
    async fn examine(
        &mut self,
        keys: Vec<(ObjectKey, u64)>,
    ) -> Result<(Vec<ObjectKey>, Vec<(ObjectKey, String)>)> {
        let (store, deep) = (self.upkeep, self.options.deep);
        let at_once = if deep { deep_at_once() } else { QUICK_AT_ONCE };
        let looks = keys.into_iter().map(|(key, bytes)| async move {
            let found = if deep {
                examine(&store.objects, key, bytes).await?
            } else {
                store.glance(key, bytes).await?
            };
            Ok::<_, Error>((key, found))
        });
        let looks: Vec<_> = looks.collect();
        let mut looks = stream::iter(looks).buffer_unordered(at_once);
        let (mut sound, mut damaged) = (Vec::new(), Vec::new());
        while let Some((key, found)) = looks.try_next().await? {
            self.verified.objects += 1;
            match found {
                Ok(bytes) => {
                    self.verified.bytes += bytes;
                    sound.push(key);
                }
                Err(why) => damaged.push((key, why)),
            }
            self.progress.objects.store(self.verified.objects, Ordering::Relaxed);
            self.progress.bytes.store(self.verified.bytes, Ordering::Relaxed);
            if let Some(rate) = self.options.rate_bytes_per_s.filter(|rate| *rate > 0) {
                let due = Duration::from_secs_f64(self.verified.bytes as f64 / rate as f64);
                tokio::time::sleep(due.saturating_sub(self.begin.elapsed())).await;
            }
        }
        Ok((sound, damaged))
    }

    /// The files that need a xorb, and the repositories that have them.
    async fn touched(&self, xorb: XorbKey) -> Result<(Vec<String>, Vec<String>)> {
        let files = files::files_of(&self.upkeep.db, xorb.hash, &[], FILES_MAX).await?;
        let readers = files::readers(&self.upkeep.db, &files).await?;
        let repos: BTreeSet<_> = readers.into_iter().map(|(_, scope)| scope.to_string()).collect();
        Ok((files.iter().map(ToString::to_string).collect(), repos.into_iter().collect()))
    }

    fn add_damage(&mut self, damage: Damage) {
        self.verified.damages.push(damage);
    }
}

impl Upkeep {
    /// Whether an object is there in its length.
    async fn glance(&self, key: ObjectKey, bytes: u64) -> Result<ExaminedBytes> {
        Ok(match self.objects.head(&key).await? {
            None => Err("it is missing".to_owned()),
            Some(found) if bytes > 0 && found != bytes => {
                Err(format!("it has {found} bytes instead of {bytes}"))
            }
            Some(_) => Ok(0),
        })
    }
}

pub(crate) fn xorb_key(key: &ObjectKey) -> Option<XorbKey> {
    match key {
        ObjectKey::Xorb(key) => Some(*key),
        _ => None,
    }
}

const PAGE: u64 = 500;

const QUICK_AT_ONCE: usize = 32;

/// Objects that are hashed at once: half of the cores are left to those who are waited for.
fn deep_at_once() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() / 2).clamp(1, 4)
}
