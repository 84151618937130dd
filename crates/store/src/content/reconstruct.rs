//! Plan: which bytes of which objects make a file, or a part of it.
//!
//! A whole file is answered from its recipe, by one catalog query. A part needs the footers of at most two
//! xorbs besides: those in which it begins and ends.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::BoxStream;
use moka::future::Cache;
use xet::plan::{self, BatchPlan, Fetch, Plan, PlanTerm, RecipeTerm, XorbEnds};
use xet::{FileHash, FormatError, XorbHash};

use crate::access::{Grant, Scope};
use crate::content::recipe::{FileRecipe, FileTerm};
use crate::content::{Content, files};
use crate::db::Catalog;
use crate::db::batcher::Batcher;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::XorbKey;
use crate::objects::key::ObjectKey;

/// What became of a request for a plan. A file that does not exist, or that the caller may not read, is an error instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Planned {
    /// The range lies in the file, at least in part.
    Covered(Reconstruction),
    /// The range begins at or after the end.
    PastEnd {
        /// Where the file ends.
        file_bytes: u64,
    },
}

/// How to rebuild a file, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reconstruction {
    /// Raw bytes of the whole file.
    pub file_bytes: u64,
    /// What to fetch and how to join it.
    pub plan: Plan,
    /// The object of each of the plan's fetches, in their order.
    pub keys: Vec<XorbKey>,
}

/// How to rebuild several whole files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchReconstruction {
    /// What to fetch and how to join it.
    pub plan: BatchPlan,
    /// The object of each of the plan's fetches, in their order.
    pub keys: Vec<XorbKey>,
}

impl Content {
    /// Plans the bytes `range` of a file the grant's repository may read, or all of it. The range is half-open, and its
    /// end may lie anywhere past the file. An empty file has an empty plan, asked for whole or from byte 0.
    pub async fn plan(&self, grant: &Grant, file: FileHash, range: Option<Range<u64>>) -> Result<Planned> {
        let recipe = self.recipe(grant, file).await?;
        let file_bytes = recipe.file_bytes();
        let terms = recipe.terms.iter().map(|term| recipe_term(&recipe, term));
        let mut ends = HashMap::new();
        for xorb in plan::clipped_xorbs(terms.clone(), range.as_ref()) {
            let recipe_xorb = recipe
                .xorbs
                .iter()
                .find(|recipe_xorb| recipe_xorb.key.hash == xorb)
                .ok_or_else(|| wrong_recipe(xorb))?;
            let info = self.footers.of(recipe_xorb).await?;
            let stored: Vec<_> = info.chunks().iter().map(|place| place.stored_end).collect();
            let raw: Vec<_> = info.chunks().iter().map(|place| place.raw_end).collect();
            ends.insert(xorb, (stored, raw));
        }
        let ends = |xorb: &XorbHash| ends.get(xorb).map(|(stored, raw)| XorbEnds { stored, raw });
        match plan::plan_recipe(terms, range, ends).map_err(|source| corrupt(file, source))? {
            plan::Planned::PastEnd { file_bytes } => Ok(Planned::PastEnd { file_bytes }),
            plan::Planned::Covered(plan) => {
                let keys = keys_of(&plan.fetches, [&*recipe]);
                Ok(Planned::Covered(Reconstruction { file_bytes, plan, keys }))
            }
        }
    }

    /// Plans several whole files at once: what two of them share is fetched once. Each must be there.
    pub async fn plan_batch(&self, grant: &Grant, files: &[FileHash]) -> Result<BatchReconstruction> {
        let mut recipes = HashMap::new();
        let mut terms = 0;
        // Few at a time: one file may have as many terms as all others of a batch.
        for files in files.chunks(BATCH_STEP_FILES) {
            for row in files::files(&self.db, grant.scope(), files).await? {
                terms += row.recipe.terms.len();
                recipes.insert(row.hash, row.recipe);
            }
            if terms > BATCH_TERMS_MAX {
                let message =
                    format!("these files have more than {BATCH_TERMS_MAX} terms: name fewer at once");
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        }
        let lists = files.iter().map(|file| {
            let recipe = recipes.get(file).ok_or_else(|| unknown(file))?;
            Ok((*file, recipe.terms.iter().map(|term| recipe_term(recipe, term))))
        });
        let lists = lists.collect::<Result<Vec<_>>>()?;
        let plan =
            plan::plan_recipe_batch(lists).map_err(|source| Error::corrupt("a batch of files", source))?;
        let keys = keys_of(&plan.fetches, recipes.values());
        Ok(BatchReconstruction { plan, keys })
    }

    /// Raw bytes of a file the grant's repository may read.
    pub async fn file_bytes(&self, grant: &Grant, file: FileHash) -> Result<u64> {
        Ok(self.recipe(grant, file).await?.file_bytes())
    }

    /// Bytes of a stored xorb, as a plan named them. The caller has checked that they may be read.
    pub async fn read(&self, key: XorbKey, range: Range<u64>) -> Result<Bytes> {
        self.objects.range(&ObjectKey::Xorb(key), range).await
    }

    /// The same, piece by piece: for ranges that should not be in memory at once.
    pub async fn read_stream(
        &self,
        key: XorbKey,
        range: Range<u64>,
    ) -> Result<BoxStream<'static, Result<Bytes>>> {
        self.objects.stream(&ObjectKey::Xorb(key), range).await
    }

    /// One catalog query finds the recipe and whether it may be read; requests soon after are
    /// answered from the cache.
    pub(crate) async fn recipe(&self, grant: &Grant, file: FileHash) -> Result<Arc<FileRecipe>> {
        let key = (grant.scope().clone(), file);
        self.recipes.of(key, self.clock.now_s()).await?.ok_or_else(|| unknown(&file))
    }
}

/// Files of a batch that are looked up at once.
const BATCH_STEP_FILES: usize = 16;

/// Terms of all files of a batch: each is a line of the answer.
const BATCH_TERMS_MAX: usize = 1 << 20;

/// Cache of file recipes, for a moment after each request: clients request a file range by range.
#[derive(Debug, Clone)]
pub(crate) struct RecipeCache {
    catalog: Arc<Catalog>,
    batcher: Batcher<(Scope, FileHash), Arc<FileRecipe>>,
    known: Cache<(Scope, FileHash), (Arc<FileRecipe>, u64)>,
}

/// How long an answer counts, by the store's clock. A file that is no longer for the caller, or is made of other objects
/// now, was so a moment ago; URLs that were handed out then count for longer.
const KNOWN_S: u64 = 2;

/// How long an answer that does not count any more stays in memory.
const IDLE: std::time::Duration = std::time::Duration::from_secs(60);

impl RecipeCache {
    /// Creates a cache of at most `bytes_max` bytes over this catalog.
    pub(crate) fn new(catalog: &Arc<Catalog>, bytes_max: u64) -> Self {
        let weigh = |_: &_, (recipe, _): &(Arc<FileRecipe>, u64)| recipe.weight_bytes();
        let known = Cache::builder().max_capacity(bytes_max).weigher(weigh).time_to_idle(IDLE).build();
        Self { catalog: catalog.clone(), batcher: batcher(catalog), known }
    }

    async fn of(&self, key: (Scope, FileHash), now_s: u64) -> Result<Option<Arc<FileRecipe>>> {
        if let Some((recipe, known_s)) = self.known.get(&key).await
            && now_s.checked_sub(known_s).is_some_and(|age_s| age_s < KNOWN_S)
        {
            return Ok(Some(recipe));
        }
        let found = match files::try_file_now(&self.catalog, &key.0, key.1) {
            Some(row) => row.map(|row| Arc::new(row.recipe)),
            None => self.batcher.get(key.clone()).await?,
        };
        if let Some(recipe) = &found {
            self.known.insert(key, (recipe.clone(), now_s)).await;
        }
        Ok(found)
    }

    /// Empties the cache: access may have been removed, and that must hold at once.
    pub(crate) fn forget(&self) {
        self.known.invalidate_all();
    }
}

/// Batches queries for recipes by repository.
fn batcher(catalog: &Arc<Catalog>) -> Batcher<(Scope, FileHash), Arc<FileRecipe>> {
    let catalog = catalog.clone();
    Batcher::new(move |keys: Vec<(Scope, FileHash)>| {
        let catalog = catalog.clone();
        async move {
            let mut by_scope: HashMap<Scope, Vec<FileHash>> = HashMap::new();
            keys.into_iter().for_each(|(scope, file)| by_scope.entry(scope).or_default().push(file));
            let mut recipes = HashMap::new();
            for (scope, files) in by_scope {
                let rows = files::files(&catalog, &scope, &files).await?;
                recipes.extend(rows.into_iter().map(|row| ((scope.clone(), row.hash), Arc::new(row.recipe))));
            }
            Ok(recipes)
        }
    })
}

fn recipe_term(recipe: &FileRecipe, term: &FileTerm) -> RecipeTerm {
    let (xorb, chunks) = (recipe.xorb_of(term).key.hash, term.chunks.clone());
    let stored_bytes = u64::from(term.stored.start)..u64::from(term.stored.end);
    RecipeTerm { term: PlanTerm { xorb, chunks, raw_bytes: term.raw_bytes }, stored_bytes }
}

/// The object of each fetch. A xorb has one stored form for as long as any file needs it.
fn keys_of<'l>(fetches: &[Fetch], recipes: impl IntoIterator<Item = &'l FileRecipe>) -> Vec<XorbKey> {
    let mut keys: HashMap<XorbHash, Option<XorbKey>> =
        fetches.iter().map(|fetch| (fetch.xorb, None)).collect();
    for xorb in recipes.into_iter().flat_map(|recipe| &recipe.xorbs) {
        if let Some(key) = keys.get_mut(&xorb.key.hash) {
            key.get_or_insert(xorb.key);
        }
    }
    fetches.iter().filter_map(|fetch| *keys.get(&fetch.xorb)?).collect()
}

fn wrong_recipe(xorb: XorbHash) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the recipe of a file in xorb {xorb}"))
}

fn corrupt(file: FileHash, source: FormatError) -> Error {
    Error::corrupt(format!("file {file}"), source)
}

fn unknown(file: &FileHash) -> Error {
    Error::new(ErrorKind::NotFound, format!("no file {file}"))
}
