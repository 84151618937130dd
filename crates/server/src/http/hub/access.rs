//! Who may do what to which repository.
//!
//! A public repository is read by everyone; a private one by its namespace's owner, members and administrators, and to
//! all others it does not exist. Writing takes a token that writes, and the namespace. A token allows at most what its
//! owner may do, reduced to what it is bound to.

use axum::body::Body;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Response};
use store::hub::refs::Resolved;
use store::hub::{MemberRow, RepoRow, Rights};
use store::ids::{Oid, RepoId};
use store::names::{Kind, RepoName};
use store::{Grant, Scope, Store};
use tokio::time::Instant;
use xet::wire::ErrorCode;

use super::error::HubError;
use super::query::Query;
use crate::auth::identity::{Owner, TokenReach};
use crate::auth::{Identity, RepoKind, Repository, Role};
use crate::http::caller::store_of;
use crate::http::refusal_time;
use crate::state::AppState;

/// A request as handlers want it: who asks, the store they ask, and the parts of the path.
pub(crate) struct Asked {
    pub(crate) state: AppState,
    pub(crate) store: Store,
    /// `None` for somebody without a token.
    pub(crate) who: Option<Identity>,
    memberships: Vec<MemberRow>,
    kind: Kind,
    params: Vec<(String, String)>,
    pub(crate) query: Query,
}

impl FromRequestParts<AppState> for Asked {
    type Rejection = HubError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, HubError> {
        // A browser that shows a picture or saves a file sends the session of its pages.
        let who = match state.who(&parts.headers).await? {
            None => crate::web::session::reader(state, parts).await?,
            who => who,
        };
        Self::by(who, parts, state).await
    }
}

impl Asked {
    /// A request of somebody who is known already.
    pub(crate) async fn by(
        who: Option<Identity>,
        parts: &mut Parts,
        state: &AppState,
    ) -> Result<Self, HubError> {
        let store = store_of(state)?;
        if let Some(who) = &who {
            store::audit::name(&who.actor);
        }
        let memberships = match &who {
            Some(who) if who.owner == Owner::User => store.hub().memberships(&who.name).await?,
            _ => Vec::new(),
        };
        let params = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|_| HubError::invalid("the path is not text"))?;
        let params = params.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Ok(Self {
            state: state.clone(),
            store,
            who,
            memberships,
            kind: kind_in(parts.uri.path()),
            params,
            query: Query::parse(parts.uri.query()),
        })
    }
}

/// The kind of repository a path is about.
fn kind_in(path: &str) -> Kind {
    let mut segments = path.split('/').skip(1);
    let first = match segments.next() {
        Some("api" | "lfs") => match segments.next() {
            Some("resolve-cache") => segments.next(),
            segment => segment,
        },
        segment => segment,
    };
    Kind::ALL.into_iter().find(|kind| Some(kind.plural()) == first).unwrap_or(Kind::Model)
}

impl Asked {
    /// A part of the path, decoded.
    pub(crate) fn param(&self, name: &str) -> &str {
        self.params.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// The kind of repository the path is about.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// The name of a new repository, in its namespace as that is spelled. One that nothing is in yet is spelled as the
    /// caller's token has it.
    pub(super) async fn new_name(&self, name: &RepoName) -> Result<RepoName, HubError> {
        if !self.store.hub().spellings(&name.namespace).await?.is_empty() {
            return Ok(self.store.hub().spelled(name).await?);
        }
        let own = self.own_namespace().ok().filter(|own| own.eq_ignore_ascii_case(&name.namespace));
        let namespace = own.unwrap_or(&name.namespace).to_owned();
        Ok(RepoName { namespace, ..name.clone() })
    }

    /// The namespace of the caller, for what is named without one.
    pub(crate) fn own_namespace(&self) -> Result<&str, HubError> {
        match self.who.as_ref() {
            Some(Identity { owner: Owner::Name, reach: TokenReach::Namespace(own), .. }) => Ok(own),
            _ => self.name(),
        }
    }

    /// The caller as the author of commits.
    pub(crate) fn author(&self) -> Result<String, HubError> {
        self.who.as_ref().map(Identity::author).ok_or_else(|| crate::auth::Refusal::Missing.into())
    }

    /// The name of whoever asks, for those who need one.
    pub(crate) fn name(&self) -> Result<&str, HubError> {
        self.who.as_ref().map(|who| who.name.as_str()).ok_or_else(|| crate::auth::Refusal::Missing.into())
    }

    /// The repository the path is about.
    pub(crate) fn repo_name(&self) -> Result<RepoName, HubError> {
        let name = self.param("name");
        let name = name.strip_suffix(".git").unwrap_or(name);
        RepoName::new(self.kind, self.param("namespace"), name)
            .map_err(|_| HubError::repo_not_found(self.who.is_none()))
    }

    /// The repository of the path, for whoever may read it.
    pub(crate) async fn readable(&self) -> Result<RepoRow, HubError> {
        self.readable_repo(&self.repo_name()?).await
    }

    /// The repository of the path and its commit of the path's revision, for whoever may read it.
    pub(super) async fn readable_at(&self) -> Result<(RepoRow, Oid), HubError> {
        let (revision, begin) = (self.revision(), Instant::now());
        let found = self.store.hub().repo_at(&self.repo_name()?, revision).await?;
        let Some((repo, resolved)) = found.filter(|(repo, _)| self.may_read(repo)) else {
            refusal_time::wait(begin).await;
            return Err(HubError::repo_not_found(self.who.is_none()));
        };
        let resolved = resolved.ok_or_else(|| HubError::revision_not_found(revision))?;
        Ok((repo, resolved.commit))
    }

    /// A repository, for whoever may read it.
    pub(crate) async fn readable_repo(&self, name: &RepoName) -> Result<RepoRow, HubError> {
        let begin = Instant::now();
        match self.store.hub().repo(name).await?.filter(|repo| self.may_read(repo)) {
            Some(repo) => Ok(repo),
            None => {
                refusal_time::wait(begin).await;
                Err(HubError::repo_not_found(self.who.is_none()))
            }
        }
    }

    /// The repository of the path, for whoever may write to it.
    pub(crate) async fn writable(&self) -> Result<RepoRow, HubError> {
        self.writable_repo(&self.repo_name()?).await
    }

    /// A repository, for whoever may write to it.
    pub(crate) async fn writable_repo(&self, name: &RepoName) -> Result<RepoRow, HubError> {
        let repo = self.readable_repo(name).await?;
        // The name as it is spelled: rights are given by it.
        self.expect_write_to(&repo.name, Some(repo.id))?;
        Ok(repo)
    }

    /// Refuses a caller who may not create a repository of this name.
    pub(crate) fn expect_write(&self, name: &RepoName) -> Result<(), HubError> {
        self.expect_write_to(name, None)
    }

    fn expect_write_to(&self, name: &RepoName, id: Option<RepoId>) -> Result<(), HubError> {
        let who = self.who.as_ref().ok_or(crate::auth::Refusal::Missing)?;
        if who.role == Role::Read {
            return Err(crate::auth::Refusal::Scope.into());
        }
        if who.may(Rights::Write, name, id, &self.memberships) {
            return Ok(());
        }
        let namespace = &name.namespace;
        let message = match &who.reach {
            TokenReach::Namespace(bound) if bound != namespace => {
                format!("this token is for {bound} only: use one for {namespace}")
            }
            TokenReach::Everywhere | TokenReach::Namespace(_) => {
                format!("{} may not write in {namespace}: ask one of its members", who.name)
            }
            _ => return Err(crate::auth::Refusal::Repository.into()),
        };
        Err(HubError::new(ErrorCode::Forbidden, message))
    }

    /// Refuses whoever does not keep the server.
    pub(crate) fn expect_admin(&self) -> Result<(), HubError> {
        match self.who.as_ref().map(|who| who.role) {
            None => Err(crate::auth::Refusal::Missing.into()),
            Some(Role::Admin) => Ok(()),
            Some(_) => Err(crate::auth::Refusal::Admin.into()),
        }
    }

    /// Tells in an answer that a soft quota is passed: clients print this header.
    pub(super) async fn warn_of_quota(
        &self,
        scope: &Scope,
        response: &mut Response<Body>,
    ) -> Result<(), HubError> {
        if let Some(warning) = self.store.content().quota_warning(scope).await? {
            tracing::warn!(warning, "a soft quota is passed");
            if let Ok(value) = HeaderValue::from_str(&format!("quota; {warning}")) {
                response.headers_mut().insert(HeaderName::from_static("x-hf-warning"), value);
            }
        }
        Ok(())
    }

    /// Namespaces whose private repositories may be listed; `None` for all.
    pub(crate) fn private_of(&self) -> Option<Vec<String>> {
        match &self.who {
            Some(who) => who.listed_namespaces(&self.memberships),
            None => Some(Vec::new()),
        }
    }

    /// Organisations whoever asks belongs to.
    pub(crate) fn memberships(&self) -> &[MemberRow] {
        &self.memberships
    }

    /// Whether whoever asks may read a repository.
    pub(crate) fn may_read(&self, repo: &RepoRow) -> bool {
        if !repo.private {
            return true;
        }
        let Some(who) = &self.who else { return false };
        who.may(Rights::Read, &repo.name, Some(repo.id), &self.memberships)
    }

    /// The commit of the path's revision.
    pub(crate) async fn resolved(&self, repo: &RepoRow) -> Result<Resolved, HubError> {
        self.resolved_revision(repo, self.revision()).await
    }

    fn revision(&self) -> &str {
        match self.param("revision") {
            "" => "main",
            revision => revision,
        }
    }

    /// The commit of a revision.
    pub(crate) async fn resolved_revision(
        &self,
        repo: &RepoRow,
        revision: &str,
    ) -> Result<Resolved, HubError> {
        let found = self.store.hub().resolve(repo.id, revision).await?;
        found.ok_or_else(|| HubError::revision_not_found(revision))
    }

    /// Refuses a revision that is not there.
    pub(crate) async fn revision_must_be(&self, repo: &RepoRow) -> Result<(), HubError> {
        self.resolved(repo).await.map(|_| ())
    }

    /// The right to read a repository's content, for whoever was let in.
    pub(crate) fn grant(repo: &RepoRow) -> Result<Grant, HubError> {
        Ok(Grant::read(repo.name.scope()?))
    }

    /// The repository under a path of the web.
    pub(crate) fn web_url(&self, name: &RepoName) -> String {
        format!("{}/{name}", self.state.base_url)
    }

    /// The repository under a path of the API.
    pub(crate) fn api_url(&self, name: &RepoName) -> String {
        format!("{}/api/{}/{}", self.state.base_url, name.kind.plural(), name.id())
    }
}

/// A repository as tokens name it.
pub(crate) fn repository(name: &RepoName) -> Repository {
    let kind = match name.kind {
        Kind::Model => RepoKind::Models,
        Kind::Dataset => RepoKind::Datasets,
        Kind::Space => RepoKind::Spaces,
    };
    Repository { kind, namespace: name.namespace.clone(), name: name.name.clone() }
}
