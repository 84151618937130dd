//! A tar archive whose neighbouring files of one key are one record, as in WebDataset.

use std::collections::HashSet;
use std::io::Read;

use shardpack::content_type::ContentTypes;
use shardpack::{FileEntry, Record};

use crate::output::{CliError, fail};
use crate::packs::input::group::Group;
use crate::packs::input::{Input, repeated_entry};
use crate::packs::tar;

/// The records of a tar archive called `name`, in its order. Files of one record must be next to each other.
pub(crate) fn records<'a>(
    input: impl Read + 'a,
    name: &str,
    group: Group,
    content_types: &'a ContentTypes,
    file_bytes_max: u64,
) -> Input<'a> {
    let mut archive = Archive {
        tar: tar::Reader::new(input, file_bytes_max),
        name: name.to_owned(),
        group,
        content_types,
        current: None,
        keys: HashSet::new(),
        over: false,
    };
    let records = std::iter::from_fn(move || archive.next_record().transpose());
    Input { records: Box::new(records), total_bytes: 0, record_count: None }
}

struct Archive<'a, R> {
    tar: tar::Reader<R>,
    name: String,
    group: Group,
    content_types: &'a ContentTypes,
    /// Entries of the next record that were read.
    current: Option<Record>,
    keys: HashSet<String>,
    over: bool,
}

impl<R: Read> Archive<'_, R> {
    fn next_record(&mut self) -> Result<Option<Record>, CliError> {
        while !self.over {
            let member = self.tar.next_member();
            let member = member.map_err(|error| {
                self.over = true;
                CliError::Io(self.name.clone(), error)
            })?;
            let Some(member) = member else {
                self.over = true;
                break;
            };
            let path = member.name.trim_start_matches("./");
            let (key, entry) = self.group.split(path);
            if path.rsplit('/').next().is_some_and(|base| base.starts_with('.')) || key.is_empty() {
                continue;
            }
            let entry = FileEntry {
                content_type: self.content_types.of(path).to_owned(),
                file_name: entry,
                data: member.data,
                ..FileEntry::default()
            };
            match &mut self.current {
                Some(record) if record.key == key => record.file_entries.push(entry),
                _ => {
                    let next = Record { key, file_entries: vec![entry], ..Record::default() };
                    if let Some(whole) = self.current.replace(next) {
                        return self.check(whole).map(Some);
                    }
                }
            }
        }
        self.current.take().map(|record| self.check(record)).transpose()
    }

    fn check(&mut self, record: Record) -> Result<Record, CliError> {
        let name = &self.name;
        if let Some(entry) = repeated_entry(&record) {
            return fail(format!("{name}: entry {entry:?} of record {:?} comes twice", record.key));
        }
        if !self.keys.insert(record.key.clone()) {
            return fail(format!(
                "{name}: files of record {:?} are not next to each other; sort the archive by name",
                record.key
            ));
        }
        Ok(record)
    }
}
