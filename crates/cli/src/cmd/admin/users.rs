//! `drystone admin user` and `drystone admin org`.

use std::io::{self, BufRead as _};

use clap::Subcommand;

use super::quota::{DedupSetting, dedup_setting};
use crate::output::{CliError, fail};

#[derive(Debug, Subcommand)]
pub(super) enum UserVerb {
    /// Add a user
    Create {
        /// Name of the user
        name: String,
    },
    /// List users
    List,
    /// Disable a user: tokens, sessions and password stop working within seconds
    ///
    /// Repositories and authorship stay. Browser sessions end for good; tokens work again after `enable`.
    Disable {
        /// Name of the user
        name: String,
    },
    /// Enable a user who was disabled or deleted
    ///
    /// A user who was deleted comes back without tokens, password and memberships.
    Enable {
        /// Name of the user
        name: String,
    },
    /// Delete a user who owns no repository
    ///
    /// Revokes the user's tokens and removes password and memberships. Authorship stays, and the name stays reserved.
    Delete {
        /// Name of the user
        name: String,
    },
    /// Set the password that a user signs in to the pages with, and end the user's browser sessions
    Password {
        /// Name of the user
        name: String,
        /// Read the password from the first line of standard input
        #[arg(long, conflicts_with = "remove")]
        stdin: bool,
        /// Remove the password instead
        #[arg(long)]
        remove: bool,
    },
    /// Show or narrow the dedup policy: who finds the chunks of the repositories, and whose chunks they find
    Dedup {
        /// Name of the user
        name: String,
        /// off, repo, namespace or global; default removes the setting
        #[arg(value_parser = dedup_setting)]
        policy: Option<DedupSetting>,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum OrgVerb {
    /// Add an organisation
    Create {
        /// Name of the organisation
        name: String,
    },
    /// List organisations
    List,
    /// Delete an organisation that owns no repository
    ///
    /// Removes its members and revokes its service tokens. The name stays reserved.
    Delete {
        /// Name of the organisation
        name: String,
    },
    /// Show or narrow the dedup policy: who finds the chunks of the repositories, and whose chunks they find
    Dedup {
        /// Name of the organisation
        name: String,
        /// off, repo, namespace or global; default removes the setting
        #[arg(value_parser = dedup_setting)]
        policy: Option<DedupSetting>,
    },
}

/// The password to set: `None` to remove it. Prompts on the terminal, twice and without showing it, unless it comes from
/// standard input.
pub(super) fn read_password(name: &str, stdin: bool, remove: bool) -> Result<Option<String>, CliError> {
    if remove {
        return Ok(None);
    }
    if stdin {
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line)?;
        return Ok(Some(line.trim_end_matches(['\r', '\n']).to_owned()));
    }
    let terminal = console::Term::stderr();
    if !terminal.is_term() {
        return fail("no terminal to read a password from: pass it by --stdin");
    }
    let prompt_for = |prompt: &str| {
        terminal.write_str(prompt)?;
        terminal.read_secure_line()
    };
    let password = prompt_for(&format!("New password of {name}: "))?;
    match prompt_for("Once more: ")? == password {
        true => Ok(Some(password)),
        false => fail("the two passwords differ"),
    }
}
