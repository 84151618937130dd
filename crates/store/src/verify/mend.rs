//! Mending: damaged objects come from a second store, or from the next client that has them.

use std::sync::Arc;

use xet::xorb::XorbInfo;

use super::{Mended, Repair, Verify, examine, examine_bundle, xorb_key};
use crate::Store;
use crate::catalog::care::Relay;
use crate::catalog::rows::XorbRow;
use crate::error::{Error, ErrorKind, Result};
use crate::layout::{Layout, LayoutBuilder};
use crate::objects::ObjectKey;

impl Verify<'_> {
    pub(super) async fn mend(&self, key: ObjectKey) -> Result<Mended> {
        let Some(repair) = &self.options.repair else { return Ok(Mended::No) };
        let now_s = self.store.clock.now_s();
        if let Repair::From(other) = repair
            && examine(other, key, 0).await?.is_ok()
            && examine_bundle(&self.store.catalog, other, key).await?.is_ok()
        {
            let body = other.whole(&key).await?;
            self.store.objects.put(&key, vec![body]).await?;
            if let Some(xorb) = xorb_key(&key) {
                self.store.care().note_verified(&[xorb], now_s).await?;
            }
            return Ok(Mended::Restored);
        }
        Ok(Mended::No)
    }

    /// Marks the damaged xorbs, unless they are a large part of all: then these are likely to be the wrong objects.
    pub(super) async fn mark(&mut self) -> Result<()> {
        let unmarked = std::mem::take(&mut self.unmarked);
        if unmarked.len() > FEW && !self.options.allow_large_repair {
            let (damaged, all) = (unmarked.len() as u64, self.store.catalog.counts().await?.xorbs);
            if damaged.saturating_mul(100) > all.saturating_mul(SHARE_MAX) {
                self.verified.refused = Some(format!(
                    "{damaged} of {all} xorbs are damaged or missing, more than {SHARE_MAX} %: none was marked. Check that the \
                     objects are the right ones and their disk is mounted; if they are lost, pass --allow-large-repair"
                ));
                return Ok(());
            }
        }
        let now_s = self.store.clock.now_s();
        for (xorb, damage) in unmarked {
            if self.store.care().mark_damaged(&[xorb], now_s).await? > 0
                && let Some(damage) = self.verified.damages.get_mut(damage)
            {
                damage.mended = Mended::Marked;
            }
        }
        Ok(())
    }
}

impl Store {
    /// Puts an object that was stored just now in the place of a damaged one, for all files that are made of it.
    pub(crate) async fn heal(&self, damaged: &XorbRow, row: &XorbRow, info: &Arc<XorbInfo>) -> Result<bool> {
        let mut files = Vec::new();
        let mut after = Vec::new();
        loop {
            let page = self.catalog.care().files_of(damaged.key.hash, &after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.as_bytes().to_vec();
            for file in self.catalog.sweep().layouts(&page).await? {
                let laid = relaid(&file.layout, damaged, row, info)?;
                files.push((file.hash, file.layout, laid));
            }
        }
        let relay = Relay {
            from: damaged.key,
            heal: Some(row.clone()),
            onto: None,
            files,
            shard: None,
            chunks: Vec::new(),
            now_s: self.clock.now_s(),
        };
        let is_healed = self.catalog.care().relay(&relay).await?;
        self.layouts.forget();
        Ok(is_healed)
    }
}

/// The same file in another object of the same xorb: the chunks are the same, the bytes may lie elsewhere.
fn relaid(layout: &Layout, damaged: &XorbRow, row: &XorbRow, info: &XorbInfo) -> Result<Layout> {
    let mut builder = LayoutBuilder::default();
    for term in &layout.terms {
        let xorb = *layout.xorb_of(term);
        if xorb.key != damaged.key {
            builder.push(xorb, term.chunks.clone(), term.raw_bytes, term.stored.clone());
            continue;
        }
        let wrong =
            || Error::new(ErrorKind::Corrupt, format!("the layout of a file in xorb {}", info.hash()));
        let stored = info.stored_range(term.chunks.clone()).ok_or_else(wrong)?;
        let narrow = |end: u64| u32::try_from(end).map_err(|_| wrong());
        let stored = narrow(stored.start)?..narrow(stored.end)?;
        builder.push(row.laid(), term.chunks.clone(), term.raw_bytes, stored);
    }
    Ok(builder.finish())
}

const PAGE: u64 = 500;
/// Percent of all xorbs that one run marks at most, and how many are never too many.
const SHARE_MAX: u64 = 20;
const FEW: usize = 10;
