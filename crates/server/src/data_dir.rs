//! The data folder: where a server keeps its key, its keeper's token, and, unless told otherwise, everything else.
//!
//! | name          | what                                                     |
//! |---------------|----------------------------------------------------------|
//! | `signing.key` | what tokens and data URLs are signed with; only we read  |
//! | `admin.token` | the first admin token, for the administrator             |
//! | `objects/`    | xorbs and shards                                         |
//! | `catalog.db`  | the catalog                                              |

mod admin_token;
mod open_store;
mod signing_key;

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use store::clock::SystemClock;
use store::{Catalog, DedupOptions, Objects, Options, Store};
use xet::hash::parse_hex;

use crate::config::{DedupPolicy, ServeConfig};
use crate::secret::{Key, KeyRing, Secret, hex};

pub use open_store::{BACKUP_FILE, OpenStore, Opening, file_url};

/// A data folder.
#[derive(Debug, Clone)]
pub struct DataDir {
    folder: PathBuf,
}

impl DataDir {
    /// The folder, which need not be there.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// The keys of the server; makes one when there is none.
    pub fn keys_or_new(&self) -> io::Result<KeyRing> {
        let make = || Secret::new(hex(Key::random().bytes().expose()));
        read_key(&self.secret_or_new(KEY_FILE, make)?)
    }

    /// The keys of a server that was started before.
    pub fn keys(&self) -> io::Result<KeyRing> {
        Self::keys_of(&self.folder.join(KEY_FILE))
    }

    /// The keys in a file.
    pub fn keys_of(file: &Path) -> io::Result<KeyRing> {
        read_key(&Secret::new(fs::read_to_string(file)?))
    }

    /// Where the catalog is, unless the settings name another.
    pub fn catalog_file(&self) -> PathBuf {
        self.folder.join("catalog.db")
    }

    /// A store over these objects and their catalog, as the settings want it.
    pub fn store(config: &ServeConfig, keys: &KeyRing, objects: Objects, catalog: Arc<Catalog>) -> Store {
        let secret = keys.derive("dedup answers");
        let (_, secret) = secret.first().expect("a ring has a current key");
        let dedup = DedupOptions {
            policy: policy(config.dedup),
            secret: *secret.expose(),
            ..DedupOptions::default()
        };
        // The server's own budget decides who waits: what passes it must not wait again.
        let shares = config.limits.memory_shares();
        let options = Options {
            body_bytes_max: config.limits.memory_bytes,
            footer_bytes_max: shares.footers_bytes,
            dedup,
            trash_s: config.trash_s,
            audit_s: config.audit_s,
            ..Options::default()
        };
        Store::new(objects, catalog, Arc::new(SystemClock), &options)
    }

    /// Removes what a process left here that was killed while it wrote a secret or tried the folder; returns the names.
    pub fn remove_leftovers(&self) -> io::Result<Vec<String>> {
        let mut removed = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_ours = LEFTOVERS.iter().any(|prefix| {
                name.strip_prefix(prefix)
                    .is_some_and(|rest| rest.len() == 16 && rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
            });
            // A younger one may be of another process that starts just now.
            let is_old = || Some(entry.metadata().ok()?.modified().ok()?.elapsed().ok()? > LEFTOVER_AGE);
            if is_ours && is_old() == Some(true) {
                fs::remove_file(entry.path())?;
                removed.push(name);
            }
        }
        Ok(removed)
    }

    /// Reads a file of one secret, or writes it first. Two servers that start at once agree on one.
    fn secret_or_new(&self, name: &str, make: impl FnOnce() -> Secret<String>) -> io::Result<Secret<String>> {
        fs::create_dir_all(&self.folder)?;
        let path = self.folder.join(name);
        match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            read => return read.map(Secret::new),
        }
        let draft = self.write_draft(name, &make())?;
        let linked = fs::hard_link(&draft, &path);
        fs::remove_file(&draft)?;
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => fs::read_to_string(&path).map(Secret::new),
        }
    }

    /// Writes a secret whole under another name first: a file that is there is never half of one.
    fn write_draft(&self, name: &str, secret: &Secret<String>) -> io::Result<PathBuf> {
        let draft = self.folder.join(format!(".{name}.{}", hex(&crate::secret::random::<8>())));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&draft)?;
        writeln!(file, "{}", secret.expose())?;
        file.sync_all()?;
        Ok(draft)
    }
}

fn read_key(text: &Secret<String>) -> io::Result<KeyRing> {
    let bytes = parse_hex(text.expose().trim()).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{KEY_FILE} holds no key: 64 hexadecimal digits"))
    })?;
    Ok(KeyRing::new(Key::new(bytes)))
}

/// The objects a URL names.
pub(crate) fn open_bucket(url: &Secret<String>) -> store::Result<Objects> {
    Objects::open(url.expose(), bucket_options())
}

/// The objects a URL names, with the bucket options of the environment.
pub fn open_objects(url: &str) -> store::Result<Objects> {
    open_bucket(&Secret::new(url.to_owned()))
}

/// The objects a URL names, which must be there: a folder that is not is not created.
pub fn open_existing_objects(url: &str) -> store::Result<Objects> {
    match open_store::file_url(url) {
        Some(folder) if !folder.is_dir() => {
            let message = format!("{}: no such folder", folder.display());
            Err(store::Error::new(store::ErrorKind::NotFound, message))
        }
        _ => open_objects(url),
    }
}

/// Options of buckets from the variables that other tools read too: `AWS_ENDPOINT_URL`, `AWS_ACCESS_KEY_ID`.
fn bucket_options() -> impl Iterator<Item = (String, String)> {
    let variables = std::env::vars_os();
    // Variables that are not text are none of these.
    let texts =
        variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    texts.filter(|(name, _)| ["AWS_", "GOOGLE_", "AZURE_"].iter().any(|prefix| name.starts_with(prefix)))
}

fn policy(policy: DedupPolicy) -> store::DedupPolicy {
    match policy {
        DedupPolicy::Off => store::DedupPolicy::Off,
        DedupPolicy::Repo => store::DedupPolicy::Repo,
        DedupPolicy::Namespace => store::DedupPolicy::Namespace,
        DedupPolicy::Global => store::DedupPolicy::Global,
    }
}

const KEY_FILE: &str = "signing.key";
const LEFTOVERS: [&str; 3] = [".signing.key.", ".admin.token.", ".drystone-check-"];
const LEFTOVER_AGE: std::time::Duration = std::time::Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_made_once_and_for_their_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::new(&folder.path().join("data"));
        assert!(data_dir.keys().is_err());
        let keys = data_dir.keys_or_new().unwrap();
        let id = |keys: &KeyRing| keys.derive("x").remove(0).0;
        assert_eq!(id(&data_dir.keys().unwrap()), id(&keys));
        assert_eq!(id(&data_dir.keys_or_new().unwrap()), id(&keys));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(folder.path().join("data").join(KEY_FILE)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        assert_eq!(fs::read_dir(folder.path().join("data")).unwrap().count(), 1, "no drafts are left");
    }

    #[test]
    fn only_old_leftovers_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let names = [
            ".signing.key.0123456789abcdef",
            ".drystone-check-0123456789abcdef",
            ".signing.key.mine",
            "catalog.db",
        ];
        for name in names {
            let file = fs::File::create(folder.path().join(name)).unwrap();
            file.set_modified(std::time::SystemTime::now() - 2 * LEFTOVER_AGE).unwrap();
        }
        fs::write(folder.path().join(".admin.token.0123456789abcdef"), "young").unwrap();
        let mut removed = DataDir::new(folder.path()).remove_leftovers().unwrap();
        removed.sort();
        assert_eq!(removed, [names[1], names[0]]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn a_damaged_secret_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::new(folder.path());
        fs::write(folder.path().join(KEY_FILE), "abc").unwrap();
        assert!(data_dir.keys_or_new().is_err());
    }
}
