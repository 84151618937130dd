//! First admin token: made for a catalog that has none, written to `admin.token` for the administrator.
//!
//! It is derived from the signing key and from random bytes in the catalog, so servers that share both make the same one, and
//! a catalog that was rebuilt gets another than the lost one had: a token that was revoked stays revoked.

use std::path::PathBuf;
use std::{fs, io};

use store::Store;
use store::hub::{Bound, Rights, TokenRow};

use crate::auth::personal_token::{self, NewToken, TokenHash};
use crate::config::ServeConfig;
use crate::data_dir::{DataDir, signing_key};
use crate::secret::{KeyRing, Secret, hex, random};

impl DataDir {
    /// Makes the first admin token where the catalog has none, not even a revoked one, and writes it to the file in place of
    /// the old content. Returns whether it did.
    pub async fn bootstrap_admin_token(
        &self,
        config: &ServeConfig,
        keys: &KeyRing,
        store: &Store,
        now_s: u64,
    ) -> store::Result<bool> {
        let tokens = store.hub().tokens();
        let rows = tokens.all().await?;
        let has_admin = rows.iter().any(|row| row.rights == Rights::Admin);
        let failed = |source: io::Error| {
            let file = self.admin_token_file().display().to_string();
            store::Error::caused(store::ErrorKind::Internal, file, source)
        };
        if has_admin && !signing_key::is_shared(config) {
            return Ok(false);
        }
        let nonce = store.catalog().agree(NONCE, &random::<32>()).await?;
        let token = derived(keys, &format!("admin token {}", hex(&nonce)));
        if has_admin {
            // Servers over one database each keep a copy, as long as it is good. Older ones derived it from the key alone.
            let is_live =
                |token: &Secret<String>| rows.iter().any(|row| opens(row, token) && row.is_live(now_s));
            if let Some(token) = [token, derived(keys, "admin token")].into_iter().find(is_live) {
                self.secret_or_new(ADMIN_FILE, || token).map_err(failed)?;
            }
            return Ok(false);
        }
        fs::create_dir_all(&self.folder).map_err(failed)?;
        let draft = self.write_draft(ADMIN_FILE, &token).map_err(failed)?;
        fs::rename(&draft, self.admin_token_file()).map_err(failed)?;
        let new_token = NewToken {
            label: "first admin token".to_owned(),
            subject: "admin".to_owned(),
            rights: Rights::Admin,
            bound: Bound::Everywhere,
            expires_s: None,
        };
        let actor = store::audit::Actor::named("server (first start)");
        store::audit::by(actor, tokens.add(&new_token.row(&token, now_s))).await
    }

    /// Removes the file of the first admin token when it holds this one. Returns whether it did.
    pub fn remove_admin_token(&self, row: &TokenRow) -> io::Result<bool> {
        let held = match fs::read_to_string(self.admin_token_file()) {
            Ok(text) => Secret::new(text.trim().to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        if !opens(row, &held) {
            return Ok(false);
        }
        fs::remove_file(self.admin_token_file())?;
        Ok(true)
    }

    /// The same for servers: a file that cannot be removed is logged. What it holds opens nothing.
    pub(crate) fn forget_admin_token(&self, row: &TokenRow) {
        if let Err(error) = self.remove_admin_token(row) {
            tracing::warn!(%error, file = %self.admin_token_file().display(), "the file of a revoked token was not removed");
        }
    }

    /// The file that the first admin token is written to.
    pub fn admin_token_file(&self) -> PathBuf {
        self.folder.join(ADMIN_FILE)
    }
}

fn derived(keys: &KeyRing, purpose: &str) -> Secret<String> {
    let derived = keys.derive(purpose);
    let (_, secret) = derived.first().expect("a ring has a current key");
    personal_token::of(secret.expose())
}

fn opens(row: &TokenRow, token: &Secret<String>) -> bool {
    TokenHash::new(row.digest).matches(token.expose())
}

const ADMIN_FILE: &str = "admin.token";
/// The name under which the catalog has the random bytes.
const NONCE: &str = "admin_token_nonce";
