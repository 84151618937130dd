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
use xet::wire::{ErrorCode, repo};

use crate::auth::principal::{Owner, TokenReach};
use crate::auth::{Principal, Refusal};
use crate::http::error::ApiError;
use crate::http::query::Query;
use crate::http::session_cookie::session_token;
use crate::http::{self, refusal_time};
use crate::state::AppState;

/// A request of the Hub API: the caller, the store, and the parts of the path.
pub(crate) struct HubRequest {
    pub(crate) state: AppState,
    pub(crate) store: Store,
    /// The caller; `None` without a token.
    pub(crate) who: Option<Principal>,
    kind: Kind,
    params: Vec<(String, String)>,
    pub(crate) query: Query,
}

impl FromRequestParts<AppState> for HubRequest {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let who = match http::principal(state, &parts.headers).await? {
            // A browser that displays a picture or saves a file sends the session of its pages. An expired session is as good as
            // none.
            None => match session_token(&parts.headers).filter(|_| parts.method.is_safe()) {
                Some(token) => state.auth.identify(&token).await.ok(),
                None => None,
            },
            who => who,
        };
        Self::by(who, parts, state).await
    }
}

impl HubRequest {
    /// A request of a caller who is authenticated already.
    pub(crate) async fn by(
        mut who: Option<Principal>,
        parts: &mut Parts,
        state: &AppState,
    ) -> Result<Self, ApiError> {
        let store = state.store.clone().ok_or_else(ApiError::no_store)?;
        if let Some(who) = &mut who {
            store::audit::name(&who.actor);
            if who.owner == Owner::User {
                // Read anew: a cached membership must not outlive its end here.
                who.memberships = store.hub().memberships(&who.name).await?;
            }
        }
        let params = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|_| ApiError::invalid("the path is not text"))?;
        let params = params.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Ok(Self {
            state: state.clone(),
            store,
            who,
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

impl HubRequest {
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
    pub(crate) async fn new_name(&self, name: &RepoName) -> Result<RepoName, ApiError> {
        if !self.store.hub().spellings(&name.namespace).await?.is_empty() {
            return Ok(self.store.hub().spelled(name).await?);
        }
        let own = self.own_namespace().ok().filter(|own| own.eq_ignore_ascii_case(&name.namespace));
        let namespace = own.unwrap_or(&name.namespace).to_owned();
        Ok(RepoName { namespace, ..name.clone() })
    }

    /// The namespace of the caller, for what is named without one.
    pub(crate) fn own_namespace(&self) -> Result<&str, ApiError> {
        match self.who.as_ref() {
            Some(Principal { owner: Owner::Name, reach: TokenReach::Namespace(own), .. }) => Ok(own),
            _ => self.name(),
        }
    }

    /// The caller as the author of commits.
    pub(crate) fn author(&self) -> Result<String, ApiError> {
        self.who.as_ref().map(Principal::author).ok_or_else(|| Refusal::Missing.into())
    }

    /// The name of the caller; refuses anonymous ones.
    pub(crate) fn name(&self) -> Result<&str, ApiError> {
        self.who.as_ref().map(|who| who.name.as_str()).ok_or_else(|| Refusal::Missing.into())
    }

    /// The repository the path is about.
    pub(crate) fn repo_name(&self) -> Result<RepoName, ApiError> {
        let name = self.param("name");
        let name = name.strip_suffix(".git").unwrap_or(name);
        RepoName::new(self.kind, self.param("namespace"), name)
            .map_err(|_| ApiError::repo_not_found(self.who.is_none()))
    }

    /// The repository of the path; refuses callers who may not read it.
    pub(crate) async fn require_read(&self) -> Result<RepoRow, ApiError> {
        self.require_read_repo(&self.repo_name()?).await
    }

    /// The repository of the path and its commit of the path's revision; refuses callers who may not read it.
    pub(crate) async fn require_read_at(&self) -> Result<(RepoRow, Oid), ApiError> {
        let (revision, begin) = (self.revision(), Instant::now());
        let found = self.store.hub().repo_at(&self.repo_name()?, revision).await?;
        let Some((repo, resolved)) = found.filter(|(repo, _)| self.may_read(repo)) else {
            refusal_time::wait(begin).await;
            return Err(ApiError::repo_not_found(self.who.is_none()));
        };
        let resolved = resolved.ok_or_else(|| ApiError::revision_not_found(revision))?;
        Ok((repo, resolved.commit))
    }

    /// A repository; refuses callers who may not read it.
    pub(crate) async fn require_read_repo(&self, name: &RepoName) -> Result<RepoRow, ApiError> {
        let begin = Instant::now();
        match self.store.hub().repo(name).await?.filter(|repo| self.may_read(repo)) {
            Some(repo) => Ok(repo),
            None => {
                refusal_time::wait(begin).await;
                Err(ApiError::repo_not_found(self.who.is_none()))
            }
        }
    }

    /// The repository of the path; refuses callers who may not write to it.
    pub(crate) async fn require_write(&self) -> Result<RepoRow, ApiError> {
        self.require_write_repo(&self.repo_name()?).await
    }

    /// A repository; refuses callers who may not write to it.
    pub(crate) async fn require_write_repo(&self, name: &RepoName) -> Result<RepoRow, ApiError> {
        let repo = self.require_read_repo(name).await?;
        // The name as it is spelled: rights are given by it.
        self.require_write_in(&repo.name, Some(repo.id))?;
        Ok(repo)
    }

    /// Refuses a caller who may not create a repository of this name.
    pub(crate) fn require_create(&self, name: &RepoName) -> Result<(), ApiError> {
        self.require_write_in(name, None)
    }

    fn require_write_in(&self, name: &RepoName, id: Option<RepoId>) -> Result<(), ApiError> {
        let who = self.who.as_ref().ok_or(Refusal::Missing)?;
        if who.rights == Rights::Read {
            return Err(Refusal::Scope.into());
        }
        if who.may(Rights::Write, name, id) {
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
            _ => return Err(Refusal::Repository.into()),
        };
        Err(ApiError::new(ErrorCode::Forbidden, message))
    }

    /// Refuses callers who are not administrators.
    pub(crate) fn require_admin(&self) -> Result<(), ApiError> {
        let who = self.who.as_ref().ok_or(Refusal::Missing)?;
        Ok(who.require(Rights::Admin)?)
    }

    /// Adds a header to a response when a soft quota is passed: clients print it.
    pub(crate) async fn warn_of_quota(
        &self,
        scope: &Scope,
        response: &mut Response<Body>,
    ) -> Result<(), ApiError> {
        if let Some(warning) = self.store.content().quota_warning(scope).await? {
            tracing::warn!(warning, "a soft quota is passed");
            if let Ok(value) = HeaderValue::from_str(&format!("quota; {warning}")) {
                response.headers_mut().insert(HeaderName::from_static("x-hf-warning"), value);
            }
        }
        Ok(())
    }

    /// Namespaces whose private repositories may be listed; `None` for all.
    pub(crate) fn visible_private_namespaces(&self) -> Option<Vec<String>> {
        match &self.who {
            Some(who) => who.visible_private_namespaces(),
            None => Some(Vec::new()),
        }
    }

    /// Organisations of the caller.
    pub(crate) fn memberships(&self) -> &[MemberRow] {
        self.who.as_ref().map_or(&[], |who| &who.memberships)
    }

    /// Whether the caller may read a repository.
    pub(crate) fn may_read(&self, repo: &RepoRow) -> bool {
        if !repo.private {
            return true;
        }
        let Some(who) = &self.who else { return false };
        who.may(Rights::Read, &repo.name, Some(repo.id))
    }

    /// The commit of the path's revision.
    pub(crate) async fn resolved(&self, repo: &RepoRow) -> Result<Resolved, ApiError> {
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
    ) -> Result<Resolved, ApiError> {
        let found = self.store.hub().resolve(repo.id, revision).await?;
        found.ok_or_else(|| ApiError::revision_not_found(revision))
    }

    /// Refuses a revision that does not exist.
    pub(crate) async fn require_revision(&self, repo: &RepoRow) -> Result<(), ApiError> {
        self.resolved(repo).await.map(|_| ())
    }

    /// The right to read a repository's content, for callers who may read it.
    pub(crate) fn grant(repo: &RepoRow) -> Result<Grant, ApiError> {
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
pub(crate) fn wire_name(name: &RepoName) -> repo::RepoName {
    let kind = match name.kind {
        Kind::Model => repo::RepoKind::Model,
        Kind::Dataset => repo::RepoKind::Dataset,
        Kind::Space => repo::RepoKind::Space,
    };
    repo::RepoName { kind, namespace: name.namespace.clone(), name: name.name.clone() }
}
