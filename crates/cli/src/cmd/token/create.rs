//! `drystone token create`.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use server::personal_token::{self, NewToken};
use server::{CasTokens, Claims, DataDir, Origin, Secret};
use store::hub::{Bound, NamespaceRow, NamespaceState, Rights, TokenRow, Tokens};
use store::{Catalog, Scope};
use xet::wire::repo::{RepoKind, RepoName};
use xet::wire::routes::TokenScope;

use super::{StoreArgs, run_as_operator, token_json};
use crate::clock::now_s;
use crate::output::{CliError, complain, fail, print_result};

/// Print a new token
///
/// The catalog keeps a hash of it, so it cannot be shown again. A token of a user allows at most what the user may do; every token is limited
/// to the repository, namespace or server that it is made for. One for a repository can be given to XET clients as it is; with any other a client
/// queries the server's token route first, as Hub clients do.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  drystone token create --scope write --repo ann/model\n  \
                        drystone token create --scope write --everywhere --subject ann\n  \
                        drystone token create --scope read --namespace team --label ci --ttl 2592000\n  \
                        drystone token create --scope admin --label backup --catalog postgres://db/hub\n  \
                        drystone token create --scope read --repo datasets/ann/corpus --cas --ttl 3600")]
pub(crate) struct Create {
    /// Scope of the token; each includes those before it
    #[arg(long, value_enum)]
    scope: ScopeChoice,

    /// For one repository: NAMESPACE/NAME is a model, datasets/NAMESPACE/NAME a dataset; also spaces/… and buckets/…
    #[arg(long, value_name = "REPO", value_parser = parse_repo)]
    repo: Option<RepoName>,

    /// For the repositories of one namespace
    #[arg(long, value_name = "NAME", value_parser = parse_name, conflicts_with = "repo")]
    namespace: Option<String>,

    /// For every repository, or with --subject for all that the user may read or write
    #[arg(long, conflicts_with_all = ["repo", "namespace"])]
    everywhere: bool,

    /// Label of the token [default: its repository, namespace or scope]
    #[arg(long, value_name = "TEXT", value_parser = parse_name)]
    label: Option<String>,

    /// The user it belongs to; unless its scope is admin, it allows at most what the user may do [default: the namespace it is for, else admin]
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    subject: Option<String>,

    /// Seconds until it expires [default: never; 3600 with --cas]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=100 * 365 * 86_400))]
    ttl: Option<u64>,

    /// Print a CAS token for XET clients instead. It ends with the listed token it is issued for
    #[arg(long, requires = "repo", conflicts_with_all = ["namespace", "everywhere"])]
    cas: bool,

    #[command(flatten)]
    place: StoreArgs,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ScopeChoice {
    Read,
    Write,
    Admin,
}

impl Create {
    pub(super) fn run(self) -> Result<ExitCode, CliError> {
        let has_place = self.repo.is_some() || self.namespace.is_some();
        if self.scope == ScopeChoice::Admin && has_place {
            complain(&"an admin token is for the whole server: leave out --repo and --namespace");
            return Ok(ExitCode::from(2));
        }
        if self.scope != ScopeChoice::Admin && !has_place && !self.everywhere {
            complain(&"name what the token is for: --repo REPO, --namespace NAME or --everywhere");
            return Ok(ExitCode::from(2));
        }
        // Before anything is stored.
        let signer = self.cas.then(|| self.signer()).transpose()?;
        let now_s = now_s();
        let (token, row) = run_as_operator(async {
            let catalog = self.place.open_catalog().await?;
            let owner = self.owner(&catalog).await?;
            let (token, mut row) = self.make(owner, now_s)?;
            self.spell(&Tokens::new(&catalog), &mut row).await?;
            match Tokens::new(&catalog).add(&row).await? {
                // As it was stored: bound to the repository's id.
                true => Ok((token, Tokens::new(&catalog).by_id(&row.id).await?.unwrap_or(row))),
                false => fail("the new token's id is taken: try again"),
            }
        })?;
        match (signer, &self.repo) {
            (Some(signer), Some(repo)) => self.sign(&signer, repo.clone(), &row),
            _ => self.print(&token, row.expires_s, token_json(&row)),
        }
    }

    /// The owner of the token: a user who is named, else the namespace it is for.
    async fn owner(&self, catalog: &Catalog) -> Result<String, CliError> {
        let Some(subject) = &self.subject else {
            let owner = self.repo.as_ref().map(|repo| &repo.namespace).or(self.namespace.as_ref());
            return Ok(owner.map_or("admin", String::as_str).to_owned());
        };
        let subject = &Tokens::new(catalog).canonical_namespace(subject).await?;
        let found = Tokens::new(catalog).namespace(subject).await?;
        match found {
            Some(NamespaceRow { is_organisation: true, .. }) => fail(format!(
                "{subject} is an organisation: name one of its members by --subject, or leave it out for a service token"
            )),
            Some(row) if row.state == NamespaceState::Active => Ok(row.name),
            Some(row) if row.state == NamespaceState::Disabled => fail(format!(
                "{subject} is disabled, and so would be the token: enable them with `drystone admin user enable {subject}`"
            )),
            _ => fail(format!(
                "no user {subject}: add them with `drystone admin user create {subject}`, or leave out --subject"
            )),
        }
    }

    /// Replaces names by how they are spelled in the catalog: they are found in any case, and rights are given by the name.
    async fn spell(&self, tokens: &Tokens, row: &mut TokenRow) -> store::Result<()> {
        row.subject = tokens.canonical_namespace(&row.subject).await?;
        match &mut row.bound {
            Bound::Everywhere => {}
            Bound::Namespace(namespace) => *namespace = tokens.canonical_namespace(namespace).await?,
            Bound::Repo(scope) => {
                let name =
                    self.repo.as_ref().and_then(|repo| store::names::RepoName::parse(&full_name(repo)).ok());
                if let Some(name) = name
                    && let Some(repo) = tokens.repo(&name).await?
                {
                    *scope = repo.name.scope()?;
                }
            }
        }
        Ok(())
    }

    fn make(&self, subject: String, now_s: u64) -> Result<(Secret<String>, TokenRow), CliError> {
        let bound = match (&self.repo, &self.namespace) {
            (Some(repo), _) => Bound::Repo(scope_of(repo)?),
            (None, Some(namespace)) => Bound::Namespace(namespace.clone()),
            (None, None) => Bound::Everywhere,
        };
        let place = self.repo.as_ref().map(full_name).or(self.namespace.clone());
        let rights = match self.scope {
            ScopeChoice::Read => Rights::Read,
            ScopeChoice::Write => Rights::Write,
            ScopeChoice::Admin => Rights::Admin,
        };
        let ttl = self.ttl.or(self.cas.then_some(CAS_TTL_S));
        let wanted = NewToken {
            label: self.label.clone().or(place).unwrap_or_else(|| rights.as_str().to_owned()),
            subject,
            rights,
            bound,
            expires_s: ttl.map(|ttl| now_s.saturating_add(ttl)),
        };
        let token = personal_token::make();
        let row = wanted.row(&token, now_s);
        Ok((token, row))
    }

    /// Signs CAS tokens with the server's key.
    fn signer(&self) -> Result<CasTokens, CliError> {
        let config = self.place.config()?;
        let keys = match &config.signing_key_file {
            Some(file) => DataDir::keys_of(file),
            None => DataDir::new(&config.data).keys(),
        };
        let keys = keys.map_err(|error| {
            let data = config.data.display();
            CliError::Message(format!("{data}: no key of a server ({error}); `drystone serve` makes one"))
        })?;
        Ok(CasTokens::new(&keys))
    }

    /// Prints a CAS token for the access of a token that is in the catalog.
    fn sign(&self, signer: &CasTokens, repo: RepoName, row: &TokenRow) -> Result<ExitCode, CliError> {
        let scope = if self.scope == ScopeChoice::Read { TokenScope::Read } else { TokenScope::Write };
        let (now_s, ttl_s) = (row.created_s, self.ttl.unwrap_or(CAS_TTL_S));
        let claims = Claims::new(&row.subject, Origin::Token(row.id.clone()), scope, repo, now_s, ttl_s);
        let claims = Claims { repo_id: row.repo_id, ..claims };
        let issued = signer.issue(&claims);
        self.print(&issued.token, Some(issued.expires_s), json!({}))
    }

    /// Prints a token, with --json with the fields of `value` too.
    fn print(
        &self,
        token: &Secret<String>,
        exp: Option<u64>,
        mut value: Value,
    ) -> Result<ExitCode, CliError> {
        value["token"] = json!(token.expose());
        value["exp"] = json!(exp);
        print_result(self.json, &value, [token.expose().clone()])?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Seconds that a CAS token lives by default.
const CAS_TTL_S: u64 = 3600;

/// A repository with its kind, also that of a model: `models/ann/a`.
fn full_name(repo: &RepoName) -> String {
    format!("{}/{}", repo.kind.plural(), repo.id())
}

/// The content scope of a repository.
fn scope_of(repo: &RepoName) -> store::Result<Scope> {
    Scope::new(&repo.namespace, format!("{}/{}", repo.kind.plural(), repo.name))
}

/// Reads `ns/name` or `kind/ns/name`.
pub(crate) fn parse_repo(text: &str) -> Result<RepoName, String> {
    let segments: Vec<_> = text.split('/').collect();
    let (kind, namespace, name) = match segments.as_slice() {
        [namespace, name] => ("models", *namespace, *name),
        [kind, namespace, name] => (*kind, *namespace, *name),
        _ => return Err("expected NAMESPACE/NAME".to_owned()),
    };
    let known = RepoKind::from_plural(kind);
    let kind = known.ok_or_else(|| format!("{kind} is not models, datasets, spaces or buckets"))?;
    if namespace.is_empty() || name.is_empty() || text.chars().any(char::is_control) {
        return Err("expected NAMESPACE/NAME".to_owned());
    }
    Ok(RepoName { kind, namespace: namespace.to_owned(), name: name.to_owned() })
}

/// A short text on one line.
fn parse_name(text: &str) -> Result<String, String> {
    let fits = (1..=100).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    fits.then(|| text.to_owned()).ok_or_else(|| "expected 1 to 100 characters on one line".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_a_model_unless_it_says_otherwise() {
        assert_eq!(parse_repo("ann/a").unwrap().to_string(), "ann/a");
        assert_eq!(parse_repo("datasets/ann/a").unwrap().to_string(), "datasets/ann/a");
        for bad in ["", "ann", "ann/", "/a", "cars/ann/a", "models/a/b/c", "an\nn/a"] {
            assert!(parse_repo(bad).is_err(), "{bad:?}");
        }
    }
}
