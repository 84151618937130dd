//! Columns: sets with the same keys, read side by side as one record.

use crate::error::{Cause, Error};
use crate::record::Record;
use crate::set::PackSet;

/// Action where a column has no record of a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MissingPolicy {
    /// It is an error.
    #[default]
    Error,
    /// The sample is left out.
    Skip,
    /// The sample comes with the entries there are.
    Partial,
}

/// Sets that are columns of one dataset. The first decides which samples there are, and their order.
#[derive(Debug, Clone)]
pub struct Columns {
    base: PackSet,
    others: Vec<Column>,
    missing: MissingPolicy,
}

#[derive(Debug, Clone)]
struct Column {
    set: PackSet,
    /// The same keys in the same order: records correspond by number, and no key is compared.
    aligned: bool,
}

impl Columns {
    /// Joins columns. Where the key digest is that of the first, records correspond by number; elsewhere by key.
    pub fn join(base: PackSet, others: Vec<PackSet>, missing: MissingPolicy) -> Self {
        let align = |set: PackSet| {
            let aligned = aligned(&base, &set);
            Column { set, aligned }
        };
        let others = others.into_iter().map(align).collect();
        Self { base, others, missing }
    }

    /// Samples there are at most; some may be left out.
    pub fn len(&self) -> u64 {
        self.base.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether all columns correspond by number.
    pub fn is_aligned(&self) -> bool {
        self.others.iter().all(|column| column.aligned)
    }

    /// A sample by its number, with the entries of all columns; none when it is left out.
    pub fn read_record(&self, ordinal: u64) -> Result<Option<Record>, Error> {
        let mut record = self.base.read_record(ordinal)?;
        for column in &self.others {
            let found = if column.aligned {
                Some(column.set.read_record(ordinal)?)
            } else {
                column.set.find(&record.key)?.map(|ordinal| column.set.read_record(ordinal)).transpose()?
            };
            match (found, self.missing) {
                (Some(found), _) => add(&mut record, found)?,
                (None, MissingPolicy::Partial) => {}
                (None, MissingPolicy::Skip) => return Ok(None),
                (None, MissingPolicy::Error) => {
                    let name = column.set.packs().first().map_or("column", |pack| pack.name());
                    return Err(Error::from(Cause::NotFound).in_record(&record.key).in_pack(name));
                }
            }
        }
        Ok(Some(record))
    }

    /// All samples from the first on.
    pub fn iter_records(&self) -> impl Iterator<Item = Result<Record, Error>> + '_ {
        (0..self.len()).filter_map(|ordinal| self.read_record(ordinal).transpose())
    }
}

/// Whether two sets have the same keys in the same order, as their digests say.
fn aligned(a: &PackSet, b: &PackSet) -> bool {
    let same_packs = a.packs().len() == b.packs().len()
        && a.packs().iter().zip(b.packs()).all(|(a, b)| {
            let digest = a.index().key_digest();
            digest.is_some() && digest == b.index().key_digest() && a.len() == b.len()
        });
    same_packs && a.len() == b.len()
}

fn add(record: &mut Record, found: Record) -> Result<(), Error> {
    if found.key != record.key {
        let why = format!("the column has the key {:?} here, though its key digest is the same", found.key);
        return Err(Error::invalid(why).in_record(&record.key));
    }
    for entry in found.file_entries {
        if record.entry(&entry.file_name).is_some() {
            let why = format!("two columns have an entry {:?}; rename one of them", entry.file_name);
            return Err(Error::invalid(why).in_record(&record.key));
        }
        record.file_entries.push(entry);
    }
    Ok(())
}
