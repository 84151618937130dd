//! Where a verification is, so that one that was cut goes on there.

use crate::error::Result;
use crate::upkeep::verify::{Verify, VerifyOptions};
use crate::upkeep::{Upkeep, lease};

/// Stages in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Xorbs,
    Shards,
    Bundles,
    Files,
    Digests,
}

impl Stage {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Xorbs, "xorbs"),
        (Self::Shards, "shards"),
        (Self::Bundles, "bundles"),
        (Self::Files, "files"),
        (Self::Digests, "digests"),
    ];
}

/// A stage and the last key of it that was examined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    stage: Stage,
    after: Vec<u8>,
}

impl Checkpoint {
    fn print(&self) -> String {
        let name = Stage::ALL.iter().find(|(stage, _)| *stage == self.stage).map_or("", |(_, name)| name);
        let after: String = self.after.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{name} {after}")
    }

    /// One that cannot be read is none: the run begins at the beginning.
    fn parse(text: &str) -> Option<Self> {
        let (name, key) = text.split_once(' ')?;
        let (stage, _) = Stage::ALL.into_iter().find(|(_, known)| *known == name)?;
        let byte = |at: usize| u8::from_str_radix(key.get(at..at + 2)?, 16).ok();
        Some(Self { stage, after: (0..key.len()).step_by(2).map(byte).collect::<Option<_>>()? })
    }
}

impl Upkeep {
    pub(super) async fn verify_place(&self, options: &VerifyOptions) -> Result<Option<Checkpoint>> {
        let now_s = self.clock.now_s();
        // Nobody is kept out: a note under a name is all that is wanted of the lease.
        let place = lease::take_lease(&self.db, name(options), HOLDER, now_s, now_s).await?;
        Ok(place.as_deref().and_then(Checkpoint::parse))
    }

    pub(super) async fn note_verify_place(
        &self,
        options: &VerifyOptions,
        place: Option<&Checkpoint>,
    ) -> Result<()> {
        let (now_s, text) = (self.clock.now_s(), place.map_or_else(String::new, Checkpoint::print));
        if !lease::keep_lease(&self.db, name(options), HOLDER, now_s, &text).await? {
            lease::take_lease(&self.db, name(options), HOLDER, now_s, now_s).await?;
            lease::keep_lease(&self.db, name(options), HOLDER, now_s, &text).await?;
        }
        Ok(())
    }
}

impl Verify<'_> {
    /// Begins a stage: after which key, or `None` if the run before had done all of it.
    pub(super) fn enter(&mut self, stage: Stage) -> Option<Vec<u8>> {
        match &self.resumed {
            Some(place) if stage < place.stage => None,
            Some(place) if stage == place.stage => Some(place.after.clone()),
            _ => Some(Vec::new()),
        }
    }

    /// Stores the progress. Not beyond damage: a resumed run must report it.
    pub(super) async fn reached(&self, stage: Stage, after: &[u8]) -> Result<()> {
        if !self.verified.damages.is_empty() {
            return Ok(());
        }
        let place = Checkpoint { stage, after: after.to_vec() };
        self.upkeep.note_verify_place(self.options, Some(&place)).await
    }
}

fn name(options: &VerifyOptions) -> &'static str {
    if options.deep { "verify deep" } else { "verify quick" }
}

const HOLDER: &str = "verify";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_back_or_not_at_all() {
        let place = Checkpoint { stage: Stage::Bundles, after: vec![0, 255] };
        assert_eq!(Checkpoint::parse(&place.print()), Some(place));
        assert_eq!(Checkpoint::parse("xorbs "), Some(Checkpoint { stage: Stage::Xorbs, after: vec![] }));
        for bad in ["", "xorbs", "nothing 00", "xorbs 0", "xorbs zz"] {
            assert_eq!(Checkpoint::parse(bad), None, "{bad}");
        }
    }
}
