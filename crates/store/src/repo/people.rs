//! Users, organisations and who belongs to whom.

use super::{MemberRow, NamespaceRow, is_name, is_reserved};
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
        let row = NamespaceRow { name: name.to_owned(), is_organisation, created_s: self.clock.now_s() };
        if self.hub().add_namespaces(std::slice::from_ref(&row)).await?.is_empty() {
            let spelled = self.spelled_namespace(name).await?;
            return Err(Error::new(ErrorKind::Conflict, format!("{spelled} is there already")));
        }
        self.write_people_down().await?;
        Ok(row)
    }

    /// Users, or organisations.
    pub async fn namespaces(&self, is_organisation: bool) -> Result<Vec<NamespaceRow>> {
        let mut rows = self.hub().namespaces().await?;
        rows.retain(|row| row.is_organisation == is_organisation);
        Ok(rows)
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
