//! Users, organisations and who belongs to whom.

use super::{MemberRow, NamespaceRow, NamespaceState, is_name, is_reserved};
use crate::Store;
use crate::error::{Error, ErrorKind, Result};

impl Store {
    /// Adds a user or an organisation. A name that is taken is a conflict.
    pub async fn add_namespace(&self, name: &str, is_organisation: bool) -> Result<NamespaceRow> {
        if !is_name(name) {
            let found: String = name.chars().take(80).collect();
            return Err(Error::new(ErrorKind::Invalid, format!("{found:?} cannot be a name")));
        }
        if is_reserved(name) {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!("{name:?} cannot be a name: the server uses it"),
            ));
        }
        let created_s = self.clock.now_s();
        let row =
            NamespaceRow { name: name.to_owned(), is_organisation, created_s, state: NamespaceState::Active };
        if self.hub().add_namespaces(std::slice::from_ref(&row)).await?.is_empty() {
            let name = &self.spelled_namespace(name).await?;
            let found = self.hub().namespace(name).await?;
            let is_deleted = found.as_ref().is_some_and(|row| row.state == NamespaceState::Deleted);
            let message = match (is_deleted, found.is_some_and(|row| row.is_organisation)) {
                (true, false) => format!(
                    "{name} was a user and is reserved; `drystone admin user enable {name}` makes it a user again"
                ),
                (true, true) => format!("{name} was an organisation; its name is reserved"),
                _ => format!("{name} is there already"),
            };
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        self.write_people_down().await?;
        Ok(row)
    }

    /// Users, or organisations, without deleted ones.
    pub async fn namespaces(&self, is_organisation: bool) -> Result<Vec<NamespaceRow>> {
        let mut rows = self.hub().namespaces().await?;
        rows.retain(|row| row.is_organisation == is_organisation && row.state != NamespaceState::Deleted);
        Ok(rows)
    }

    /// Disables a user: the user's tokens, sessions, CAS tokens and password do nothing until the user is enabled.
    pub async fn disable_user(&self, name: &str) -> Result<NamespaceRow> {
        let name = &self.spelled_namespace(name).await?;
        if !self.hub().set_user_disabled(name, true, self.clock.now_s()).await? {
            return Err(no_user(name));
        }
        self.write_people_down().await?;
        self.user(name).await
    }

    /// Enables a user who was disabled or deleted. One who was deleted has no tokens, password or memberships.
    pub async fn enable_user(&self, name: &str) -> Result<NamespaceRow> {
        let name = &self.spelled_namespace(name).await?;
        if !self.hub().set_user_disabled(name, false, self.clock.now_s()).await? {
            return Err(no_user(name));
        }
        self.write_people_down().await?;
        self.user(name).await
    }

    /// Deletes a user or an organisation that owns no repository. The name stays reserved.
    pub async fn delete_namespace(&self, name: &str, is_organisation: bool) -> Result<()> {
        let name = &self.spelled_namespace(name).await?;
        let found = self.hub().namespace(name).await?;
        let is_there = |row: &NamespaceRow| {
            row.is_organisation == is_organisation && row.state != NamespaceState::Deleted
        };
        if !found.as_ref().is_some_and(is_there) {
            return Err(match is_organisation {
                true => Error::new(ErrorKind::NotFound, format!("no organisation {name:.80}")),
                false => no_user(name),
            });
        }
        let owned = self.hub().delete_namespace(name, self.clock.now_s()).await?;
        if !owned.is_empty() {
            let owned: Vec<_> = owned.iter().map(ToString::to_string).collect();
            let message = format!(
                "{name} owns repositories: {}; delete them or rename them into another namespace first",
                owned.join(", ")
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        self.write_people_down().await
    }

    /// Sets or removes a user's password hash and ends the user's other browser sessions.
    pub async fn set_password(
        &self,
        name: &str,
        hash: Option<&str>,
        kept_session: Option<&str>,
    ) -> Result<()> {
        let name = &self.user(name).await?.name;
        self.catalog.tokens().set_password(name, hash, self.clock.now_s(), kept_session).await
    }

    /// A user who was not deleted.
    pub async fn user(&self, name: &str) -> Result<NamespaceRow> {
        let name = &self.spelled_namespace(name).await?;
        let found = self.hub().namespace(name).await?;
        let found = found.filter(|row| !row.is_organisation && row.state != NamespaceState::Deleted);
        found.ok_or_else(|| no_user(name))
    }

    /// Makes somebody a member of an organisation, or changes what they may do there.
    pub async fn set_member(&self, organisation: &str, member: &str, writes: bool) -> Result<MemberRow> {
        let (organisation, member) =
            (&self.spelled_namespace(organisation).await?, &self.spelled_namespace(member).await?);
        if !self.namespaces(true).await?.iter().any(|row| row.name == *organisation) {
            let message = format!("no organisation {organisation:.80}: create it first");
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        if !is_name(member) {
            let found: String = member.chars().take(80).collect();
            return Err(Error::new(ErrorKind::Invalid, format!("{found:?} cannot be a name")));
        }
        let deleted = self.hub().namespace(member).await?;
        if deleted.is_some_and(|row| row.state == NamespaceState::Deleted) {
            return Err(no_user(member));
        }
        let row = MemberRow { namespace: organisation.clone(), member: member.clone(), writes };
        self.hub().set_members(std::slice::from_ref(&row)).await?;
        self.write_people_down().await?;
        Ok(row)
    }

    /// Members of an organisation.
    pub async fn members(&self, organisation: &str) -> Result<Vec<MemberRow>> {
        self.hub().members(&self.spelled_namespace(organisation).await?).await
    }

    /// Takes somebody out of an organisation.
    pub async fn remove_member(&self, organisation: &str, member: &str) -> Result<()> {
        let (organisation, member) =
            (&self.spelled_namespace(organisation).await?, &self.spelled_namespace(member).await?);
        match self.hub().remove_members(organisation, std::slice::from_ref(member)).await? {
            0 => Err(Error::new(
                ErrorKind::NotFound,
                format!("{member:.80} is no member of {organisation:.80}"),
            )),
            _ => self.write_people_down().await,
        }
    }
}

fn no_user(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("no user {name:.80}; `drystone admin user create` adds one"))
}
