//! The data folder: where a server keeps its key, its keeper's token, and, unless told otherwise, everything else.
//!
//! | name          | what                                                     |
//! |---------------|----------------------------------------------------------|
//! | `signing.key` | what tokens and data URLs are signed with; only we read  |
//! | `admin.token` | the first admin token, for whoever keeps the server      |
//! | `objects/`    | xorbs and shards                                         |
//! | `catalog.db`  | the catalog                                              |

mod opening;
mod shared;

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use store::catalog::tokens::{Bound, Rights};
use store::clock::SystemClock;
use store::{Catalog, DedupOptions, Objects, Options, Store};

use crate::auth::personal::{self, Wanted};
use crate::config::{DedupPolicy, ServeConfig};
use crate::secret::{Key, KeyRing, Secret, hex, parse_hex};

pub use opening::{OpenStore, Opening};

/// A data folder.
#[derive(Debug, Clone)]
pub struct House {
    folder: PathBuf,
}

impl House {
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

    /// Sees to it that somebody can keep the server: where the catalog has no admin token, that of the folder's file
    /// becomes one, and is made if need be. Tells whether it did. From then on the file is only for whoever reads it.
    pub async fn admit_admin(
        &self,
        config: &ServeConfig,
        keys: &KeyRing,
        store: &Store,
        now_s: u64,
    ) -> store::Result<bool> {
        let tokens = store.catalog().tokens();
        // One that was revoked counts: a restart must not bring it back.
        let has_admin = tokens.all().await?.iter().any(|token| token.rights == Rights::Admin);
        // Servers over one database each keep a copy of the same file.
        if has_admin && !shared::is_shared(config) {
            return Ok(false);
        }
        let token = self.shared_admin_token(config, keys).map_err(|source| {
            let file = self.admin_token_file().display().to_string();
            store::Error::caused(store::ErrorKind::Internal, file, source)
        })?;
        if has_admin {
            return Ok(false);
        }
        let wanted = Wanted {
            label: "first admin token".to_owned(),
            subject: "admin".to_owned(),
            rights: Rights::Admin,
            bound: Bound::Everywhere,
            expires_s: None,
        };
        let actor = store::audit::Actor::named("server (first start)");
        store::audit::by(actor, tokens.add(&wanted.row(&token, now_s))).await
    }

    /// The token in the folder's file; makes one when there is none.
    pub fn admin_token_or_new(&self) -> io::Result<Secret<String>> {
        read_admin(&self.secret_or_new(ADMIN_FILE, personal::make)?)
    }

    /// Where the catalog is, unless the settings name another.
    pub fn catalog_file(&self) -> PathBuf {
        self.folder.join("catalog.db")
    }

    /// Where the first admin token was written for whoever keeps the server.
    pub fn admin_token_file(&self) -> PathBuf {
        self.folder.join(ADMIN_FILE)
    }

    /// A store over these objects and their catalog, as the settings want it.
    pub fn store(config: &ServeConfig, keys: &KeyRing, objects: Objects, catalog: Arc<dyn Catalog>) -> Store {
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

    /// Reads a file of one secret, or writes it first. Two servers that start at once agree on one.
    fn secret_or_new(&self, name: &str, make: impl FnOnce() -> Secret<String>) -> io::Result<Secret<String>> {
        fs::create_dir_all(&self.folder)?;
        let path = self.folder.join(name);
        match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            read => return read.map(Secret::new),
        }
        // Whole under another name first: a file that is there is never half of one.
        let draft = self.folder.join(format!(".{name}.{}", hex(&crate::secret::random::<8>())));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&draft)?;
        writeln!(file, "{}", make().expose())?;
        file.sync_all()?;
        let linked = fs::hard_link(&draft, &path);
        fs::remove_file(&draft)?;
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => fs::read_to_string(&path).map(Secret::new),
        }
    }
}

fn read_key(text: &Secret<String>) -> io::Result<KeyRing> {
    let bytes = parse_hex(text.expose().trim()).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{KEY_FILE} holds no key: 64 hexadecimal digits"))
    })?;
    Ok(KeyRing::new(Key::new(bytes)))
}

fn read_admin(text: &Secret<String>) -> io::Result<Secret<String>> {
    let token = text.expose().trim();
    match personal::is_token(token) {
        true => Ok(Secret::new(token.to_owned())),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, format!("{ADMIN_FILE} holds no token"))),
    }
}

/// The objects a URL names.
pub(crate) fn open_bucket(url: &Secret<String>) -> store::Result<Objects> {
    Objects::open(url.expose(), bucket_options())
}

/// The objects a URL names, with what the environment says of buckets.
pub fn open_objects(url: &str) -> store::Result<Objects> {
    open_bucket(&Secret::new(url.to_owned()))
}

/// Buckets are told about themselves where their other tools look: `AWS_ENDPOINT_URL`, `AWS_ACCESS_KEY_ID`.
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
const ADMIN_FILE: &str = "admin.token";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_made_once_and_for_their_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let house = House::new(&folder.path().join("data"));
        assert!(house.keys().is_err());
        let token = house.admin_token_or_new().unwrap();
        let keys = house.keys_or_new().unwrap();
        assert_eq!(house.admin_token_or_new().unwrap().expose(), token.expose());
        let id = |keys: &KeyRing| keys.derive("x").remove(0).0;
        assert_eq!(id(&house.keys().unwrap()), id(&keys));
        assert_eq!(id(&house.keys_or_new().unwrap()), id(&keys));
        #[cfg(unix)]
        for name in [KEY_FILE, ADMIN_FILE] {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(folder.path().join("data").join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        assert_eq!(fs::read_dir(folder.path().join("data")).unwrap().count(), 2, "no drafts are left");
    }

    #[test]
    fn a_damaged_secret_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let house = House::new(folder.path());
        fs::write(folder.path().join(KEY_FILE), "abc").unwrap();
        fs::write(folder.path().join(ADMIN_FILE), "abc").unwrap();
        assert!(house.keys_or_new().is_err());
        assert!(house.admin_token_or_new().is_err());
    }
}
