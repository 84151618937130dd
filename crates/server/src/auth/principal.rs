//! A caller with a personal token or a session, and what it may do.

use store::Scope;
use store::hub::{Bound, MemberRow, Rights, TokenRow};
use store::ids::RepoId;
use store::names::RepoName;

use crate::auth::{Origin, Refusal};

/// Part of the server that a token is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenReach {
    /// Every repository.
    Everywhere,
    /// The repositories of one namespace.
    Namespace(String),
    /// One repository, whatever it is named.
    Repo(RepoId, Scope),
    /// A name without repository, which it may create.
    Unbound(Scope),
    /// Nothing: the repository it was for was deleted, or another one has its name.
    Nothing,
}

/// Kind of owner that a token has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A user: the token allows at most what the user may do.
    User,
    /// An organisation: a service token, limited by its bound alone.
    Organisation,
    /// A name that is neither: limited by its bound alone.
    Name,
}

/// A caller with a personal token or a session. A token allows at most what its owner may do, reduced to what it is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Principal {
    /// Name of the owner: the namespace of what it names without one.
    pub(crate) name: String,
    /// Most that the token allows.
    pub(crate) rights: Rights,
    /// Part of the server that the token is for.
    pub(crate) reach: TokenReach,
    /// Kind of owner.
    pub(crate) owner: Owner,
    /// What CAS tokens for this caller are issued for.
    pub(crate) origin: Origin,
    /// When the token expires, Unix seconds.
    pub(crate) expires_s: Option<u64>,
    /// Actor in the audit log.
    pub(crate) actor: String,
    /// Organisations of a user.
    pub(crate) memberships: Vec<MemberRow>,
}

impl Principal {
    /// Every caller where access control is off.
    pub(crate) fn anyone() -> Self {
        Self {
            name: ANYONE.to_owned(),
            rights: Rights::Admin,
            reach: TokenReach::Everywhere,
            owner: Owner::Name,
            origin: Origin::Open,
            expires_s: None,
            actor: ANYONE.to_owned(),
            memberships: Vec::new(),
        }
    }

    /// The owner of a token. `opened_by` is the label of the token that opened a session.
    pub(crate) fn new(
        row: &TokenRow,
        owner: Owner,
        reach: TokenReach,
        memberships: Vec<MemberRow>,
        opened_by: Option<&str>,
    ) -> Self {
        let mut principal = Self {
            name: row.subject.clone(),
            rights: row.rights,
            reach,
            owner,
            origin: Origin::Token(row.id.clone()),
            expires_s: row.expires_s,
            actor: String::new(),
            memberships,
        };
        principal.actor = match (row.rights, owner) {
            (Rights::Admin, Owner::Organisation | Owner::Name) => {
                format!("admin token \"{}\"", opened_by.unwrap_or(&row.label))
            }
            _ => principal.author(),
        };
        principal
    }

    /// Name of the author of commits and the like: that of an organisation says that it is no person.
    pub(crate) fn author(&self) -> String {
        match self.owner {
            Owner::Organisation => format!("{} (service token)", self.name),
            Owner::User | Owner::Name => self.name.clone(),
        }
    }

    /// Whether the caller is an administrator.
    pub(crate) fn is_admin(&self) -> bool {
        self.rights == Rights::Admin
    }

    /// Whether the token and its owner may do this in the repository of this name and id, or in one of this name that is
    /// to be created.
    pub(crate) fn may(&self, needed: Rights, name: &RepoName, id: Option<RepoId>) -> bool {
        needed <= self.rights && self.is_for(name, id) && self.owner_may(needed, &name.namespace)
    }

    /// Whether the token is for this repository.
    fn is_for(&self, name: &RepoName, id: Option<RepoId>) -> bool {
        let has_name = |scope: &Scope| name.scope().is_ok_and(|of_name| of_name == *scope);
        match (&self.reach, id) {
            (TokenReach::Everywhere, _) => true,
            (TokenReach::Namespace(namespace), _) => *namespace == name.namespace,
            (TokenReach::Repo(own, _), Some(id)) => *own == id,
            (TokenReach::Repo(_, scope) | TokenReach::Unbound(scope), None) => has_name(scope),
            (TokenReach::Unbound(_), Some(_)) | (TokenReach::Nothing, _) => false,
        }
    }

    /// Whether the owner of the token may do this in a namespace.
    pub(crate) fn owner_may(&self, needed: Rights, namespace: &str) -> bool {
        let is_member =
            |row: &MemberRow| row.namespace == namespace && (needed == Rights::Read || row.writes);
        match self.owner {
            _ if self.is_admin() => true,
            Owner::User => self.name == namespace || self.memberships.iter().any(is_member),
            Owner::Organisation | Owner::Name => true,
        }
    }

    /// Refuses a token without these rights.
    pub(crate) fn require(&self, needed: Rights) -> Result<(), Refusal> {
        match needed {
            needed if needed <= self.rights => Ok(()),
            Rights::Admin => Err(Refusal::Admin),
            _ => Err(Refusal::Scope),
        }
    }

    /// The one scope of content that the token opens by itself.
    pub(crate) fn only_scope(&self, needed: Rights) -> Result<&Scope, Refusal> {
        self.require(needed)?;
        match &self.reach {
            TokenReach::Repo(_, scope) | TokenReach::Unbound(scope) => {
                match self.owner_may(needed, scope.namespace()) {
                    true => Ok(scope),
                    false => Err(Refusal::Repository),
                }
            }
            TokenReach::Nothing => Err(Refusal::Void),
            TokenReach::Everywhere | TokenReach::Namespace(_) => Err(Refusal::NoRepository),
        }
    }

    /// Namespaces whose private repositories the caller may list; `None` for all.
    pub(crate) fn visible_private_namespaces(&self) -> Option<Vec<String>> {
        let own = || self.memberships.iter().map(|row| row.namespace.clone()).chain([self.name.clone()]);
        let is_limited = self.owner == Owner::User && !self.is_admin();
        match &self.reach {
            TokenReach::Everywhere if is_limited => Some(own().collect()),
            TokenReach::Everywhere => None,
            TokenReach::Namespace(bound) if is_limited => Some(own().filter(|own| own == bound).collect()),
            TokenReach::Namespace(bound) => Some(vec![bound.clone()]),
            // A token of one repository lists no others.
            TokenReach::Repo(..) | TokenReach::Unbound(_) | TokenReach::Nothing => Some(Vec::new()),
        }
    }

    /// The bound of tokens that the caller may make for itself.
    pub(crate) fn bound(&self) -> Bound {
        match &self.reach {
            // Everything that the user may do, or the namespace of a name that is no user.
            TokenReach::Everywhere if self.owner == Owner::User => Bound::Everywhere,
            TokenReach::Everywhere | TokenReach::Nothing => Bound::Namespace(self.name.clone()),
            TokenReach::Namespace(namespace) => Bound::Namespace(namespace.clone()),
            TokenReach::Repo(_, scope) | TokenReach::Unbound(scope) => Bound::Repo(scope.clone()),
        }
    }

    /// Sender of what is uploaded: the user, where the token allows all that the user may do, else the token. What a sender sent to
    /// one repository it may refer to in another; a token for one repository must not refer to what its owner sent to others.
    pub(crate) fn sender(&self) -> String {
        match (self.owner, &self.reach, &self.origin) {
            (Owner::User, TokenReach::Everywhere, _) => format!("user/{}", self.name),
            (_, _, Origin::Token(id)) => id.clone(),
            (_, _, Origin::Anonymous | Origin::Open) => ANYONE.to_owned(),
        }
    }
}

/// Name of every caller where access control is off.
pub(crate) const ANYONE: &str = "anyone";
