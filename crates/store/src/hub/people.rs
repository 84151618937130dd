//! Users, organisations and who belongs to whom.

use crate::audit::{AuditEvent, append_event};
use crate::db::row::{FromRow, Row, damaged};
use crate::db::sql::Sql;
use crate::db::{Catalog, Tx};
use crate::error::{Error, ErrorKind, Result};
use crate::hub::Hub;
use crate::hub::rows::{REPO_COLUMNS, RepoRow};
use crate::names::{RepoName, is_name, is_reserved};

impl Hub {
    /// A user or organisation, deleted ones too.
    pub async fn namespace(&self, name: &str) -> Result<Option<NamespaceRow>> {
        namespace(&self.db, name).await
    }

    /// Memberships of a user.
    pub async fn memberships(&self, member: &str) -> Result<Vec<MemberRow>> {
        memberships(&self.db, member).await
    }

    /// The namespaces that have this name in any case, this very spelling first.
    pub async fn spellings(&self, name: &str) -> Result<Vec<String>> {
        spellings(&self.db, name).await
    }

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
        if add_namespaces(&self.db, std::slice::from_ref(&row)).await?.is_empty() {
            let name = &self.spelled_namespace(name).await?;
            let found = namespace(&self.db, name).await?;
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
        self.persist_people_snapshot().await?;
        Ok(row)
    }

    /// Users, or organisations, without deleted ones.
    pub async fn namespaces(&self, is_organisation: bool) -> Result<Vec<NamespaceRow>> {
        let mut rows = namespaces(&self.db).await?;
        rows.retain(|row| row.is_organisation == is_organisation && row.state != NamespaceState::Deleted);
        Ok(rows)
    }

    /// Disables a user: the user's tokens, sessions, CAS tokens and password do nothing until the user is enabled.
    pub async fn disable_user(&self, name: &str) -> Result<NamespaceRow> {
        let name = &self.spelled_namespace(name).await?;
        if !set_user_disabled(&self.db, name, true, self.clock.now_s()).await? {
            return Err(no_user(name));
        }
        self.persist_people_snapshot().await?;
        self.user(name).await
    }

    /// Enables a user who was disabled or deleted. One who was deleted has no tokens, password or memberships.
    pub async fn enable_user(&self, name: &str) -> Result<NamespaceRow> {
        let name = &self.spelled_namespace(name).await?;
        if !set_user_disabled(&self.db, name, false, self.clock.now_s()).await? {
            return Err(no_user(name));
        }
        self.persist_people_snapshot().await?;
        self.user(name).await
    }

    /// Deletes a user or an organisation that owns no repository. The name stays reserved.
    pub async fn delete_namespace(&self, name: &str, is_organisation: bool) -> Result<()> {
        let name = &self.spelled_namespace(name).await?;
        let found = namespace(&self.db, name).await?;
        let is_there = |row: &NamespaceRow| {
            row.is_organisation == is_organisation && row.state != NamespaceState::Deleted
        };
        if !found.as_ref().is_some_and(is_there) {
            return Err(match is_organisation {
                true => Error::new(ErrorKind::NotFound, format!("no organisation {name:.80}")),
                false => no_user(name),
            });
        }
        let owned = delete_namespace(&self.db, name, self.clock.now_s()).await?;
        if !owned.is_empty() {
            let owned: Vec<_> = owned.iter().map(ToString::to_string).collect();
            let message = format!(
                "{name} owns repositories: {}; delete them or rename them into another namespace first",
                owned.join(", ")
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        self.persist_people_snapshot().await
    }

    /// Sets or removes a user's password hash and ends the user's other browser sessions.
    pub async fn set_password(
        &self,
        name: &str,
        hash: Option<&str>,
        except_session: Option<&str>,
    ) -> Result<()> {
        let name = &self.user(name).await?.name;
        self.tokens().set_password(name, hash, self.clock.now_s(), except_session).await
    }

    /// A user who was not deleted.
    pub async fn user(&self, name: &str) -> Result<NamespaceRow> {
        let name = &self.spelled_namespace(name).await?;
        let found = namespace(&self.db, name).await?;
        let found = found.filter(|row| !row.is_organisation && row.state != NamespaceState::Deleted);
        found.ok_or_else(|| no_user(name))
    }

    /// Makes a user a member of an organisation, or changes what they may do there.
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
        let deleted = namespace(&self.db, member).await?;
        if deleted.is_some_and(|row| row.state == NamespaceState::Deleted) {
            return Err(no_user(member));
        }
        let row = MemberRow { namespace: organisation.clone(), member: member.clone(), writes };
        set_members(&self.db, std::slice::from_ref(&row)).await?;
        self.persist_people_snapshot().await?;
        Ok(row)
    }

    /// Members of an organisation.
    pub async fn members(&self, organisation: &str) -> Result<Vec<MemberRow>> {
        members(&self.db, &self.spelled_namespace(organisation).await?).await
    }

    /// Removes a user from an organisation.
    pub async fn remove_member(&self, organisation: &str, member: &str) -> Result<()> {
        let (organisation, member) =
            (&self.spelled_namespace(organisation).await?, &self.spelled_namespace(member).await?);
        match remove_members(&self.db, organisation, std::slice::from_ref(member)).await? {
            0 => Err(Error::new(
                ErrorKind::NotFound,
                format!("{member:.80} is no member of {organisation:.80}"),
            )),
            _ => self.persist_people_snapshot().await,
        }
    }
}

fn no_user(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("no user {name:.80}; `drystone admin user create` adds one"))
}

/// A user or an organisation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceRow {
    /// Its name.
    pub name: String,
    /// Which of the two.
    pub is_organisation: bool,
    /// When it was added, Unix seconds.
    pub created_s: u64,
    /// Whether it may do anything.
    pub state: NamespaceState,
}

/// State of a user or an organisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceState {
    /// Tokens, sessions and passwords work.
    Active,
    /// A user whose tokens, sessions and password do nothing for now.
    Disabled,
    /// Deleted; the name is reserved.
    Deleted,
}

impl NamespaceState {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Active, Self::Disabled, Self::Deleted];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Disabled => "disabled",
            Self::Deleted => "deleted",
        }
    }

    pub(crate) const fn number(self) -> i64 {
        match self {
            Self::Active => 0,
            Self::Disabled => 1,
            Self::Deleted => 2,
        }
    }
}

impl FromRow for NamespaceRow {
    fn from_row(row: &mut Row) -> Result<Self> {
        let name = row.text("name of a namespace")?;
        let is_organisation = row.flag("kind of a namespace")?;
        let created_s = row.number("time created")?;
        let state = row.signed("state of a namespace")?;
        let state = NamespaceState::ALL.into_iter().find(|known| known.number() == state);
        let state = state.ok_or_else(|| damaged("state of a namespace"))?;
        Ok(Self { name, is_organisation, created_s, state })
    }
}

/// A member of an organisation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberRow {
    /// The organisation.
    pub namespace: String,
    /// The user.
    pub member: String,
    /// Whether they may write there.
    pub writes: bool,
}

impl FromRow for MemberRow {
    fn from_row(row: &mut Row) -> Result<Self> {
        let (namespace, member) = (row.text("organisation")?, row.text("member")?);
        Ok(Self { namespace, member, writes: row.flag("role")? })
    }
}

/// The namespaces that are spelled so in any case, this very spelling first.
pub(crate) async fn spellings(db: &Catalog, name: &str) -> Result<Vec<String>> {
    let query = Sql::new(
        "SELECT name FROM spellings WHERE folded = $1 \
         ORDER BY CASE WHEN name = $2 THEN 0 ELSE 1 END, twin",
    );
    let query = query.bind(name.to_ascii_lowercase()).bind(name);
    db.read("find a namespace", query.short()).await
}

/// Adds a spelling of a namespace beside others of it, as catalogs from before names were unique without regard to
/// case have them.
pub(crate) async fn add_spelling(db: &Catalog, name: &str) -> Result<()> {
    let insert = Sql::new(
        "INSERT INTO spellings (folded, twin, name) \
         SELECT $1, COALESCE(MAX(twin) + 1, 0), $2 FROM spellings WHERE folded = $1 \
         ON CONFLICT DO NOTHING",
    );
    let insert = insert.bind(name.to_ascii_lowercase()).bind(name);
    db.write_one("add a spelling", insert).await?;
    Ok(())
}

/// Adds namespaces; returns which were new, without regard to case.
pub(crate) async fn add_namespaces(db: &Catalog, rows: &[NamespaceRow]) -> Result<Vec<String>> {
    let mut added = Vec::new();
    for row in rows {
        let is_new = db.write("add a namespace", |mut tx| async move {
            let is_new = is_spelled(&mut tx, &row.name).await? && insert_namespace(&mut tx, row).await? > 0;
            if is_new {
                let action = if row.is_organisation { "org.create" } else { "user.create" };
                append_event(&mut tx, &AuditEvent::new(action, row.name.as_str(), "")).await?;
            }
            tx.commit().await?;
            Ok(is_new)
        });
        if is_new.await? {
            added.push(row.name.clone());
        }
    }
    Ok(added)
}

/// All namespaces that were added, in the order of their names.
pub(crate) async fn namespaces(db: &Catalog) -> Result<Vec<NamespaceRow>> {
    let query = Sql::new("SELECT name, kind, created_s, state FROM namespaces ORDER BY name");
    db.read("list namespaces", query).await
}

/// The user or organisation of this name, deleted ones too.
pub(crate) async fn namespace(db: &Catalog, name: &str) -> Result<Option<NamespaceRow>> {
    let query = Sql::new("SELECT name, kind, created_s, state FROM namespaces WHERE name = $1");
    db.read_one("find a namespace", query.bind(name).short()).await
}

/// Disables or enables a user. Disabling revokes the user's browser sessions; enabling a deleted user makes the name
/// a user again, without tokens, password and memberships. Returns whether there is such a user.
pub(crate) async fn set_user_disabled(db: &Catalog, name: &str, disabled: bool, now_s: u64) -> Result<bool> {
    db.write("change a user", |mut tx| async move {
        let (state, event) = match disabled {
            true => (NamespaceState::Disabled, "user.disable"),
            false => (NamespaceState::Active, "user.enable"),
        };
        // A deleted user stays deleted when disabled.
        let update = Sql::new(
            "UPDATE namespaces SET state = $1 \
                 WHERE name = $2 AND kind = 0 AND ($1 = 0 OR state <> 2)",
        );
        if tx.run(update.bind(state.number()).bind(name)).await? == 0 {
            return Ok(false);
        }
        if disabled {
            let end = Sql::new(
                "UPDATE tokens SET revoked_s = $1 \
                     WHERE revoked_s IS NULL AND subject = $2 AND session = id",
            );
            tx.run(end.bind(now_s).bind(name)).await?;
        }
        append_event(&mut tx, &AuditEvent::new(event, name, "")).await?;
        tx.commit().await?;
        Ok(true)
    })
    .await
}

/// Deletes a user or an organisation that owns no repository: its members, memberships and password are removed, its
/// tokens revoked, and its name stays reserved. Returns repositories that it owns, some of them if there are many;
/// nothing changes then.
pub(crate) async fn delete_namespace(db: &Catalog, name: &str, now_s: u64) -> Result<Vec<RepoName>> {
    db.write("delete a namespace", |mut tx| async move {
        let update = Sql::new("UPDATE namespaces SET state = 2 WHERE name = $1 RETURNING kind");
        let kind: Option<i64> = tx.row(update.bind(name)).await?;
        let owned = Sql::new(format!(
            "SELECT {REPO_COLUMNS} FROM repos WHERE namespace = $1 AND reclaim_s IS NULL \
                 ORDER BY kind, name LIMIT 20"
        ));
        let owned: Vec<RepoRow> = tx.rows(owned.bind(name)).await?;
        let Some(kind) = kind.filter(|_| owned.is_empty()) else {
            return Ok(owned.into_iter().map(|row| row.name).collect());
        };
        for delete in [
            "DELETE FROM members WHERE namespace = $1 OR member = $1",
            "DELETE FROM passwords WHERE name = $1",
        ] {
            tx.run(Sql::new(delete).bind(name)).await?;
        }
        let revoke = Sql::new("UPDATE tokens SET revoked_s = $1 WHERE revoked_s IS NULL AND subject = $2");
        tx.run(revoke.bind(now_s).bind(name)).await?;
        let action = if kind == 0 { "user.delete" } else { "org.delete" };
        append_event(&mut tx, &AuditEvent::new(action, name, "")).await?;
        tx.commit().await?;
        Ok(Vec::new())
    })
    .await
}

/// Adds members, or gives them another role.
pub(crate) async fn set_members(db: &Catalog, rows: &[MemberRow]) -> Result<()> {
    for row in rows {
        let done = db.write("add a member", |mut tx| async move {
            let insert = Sql::new(
                "INSERT INTO members (namespace, member, role) VALUES ($1, $2, $3) \
                 ON CONFLICT (namespace, member) DO UPDATE SET role = excluded.role",
            );
            tx.run(insert.bind(&row.namespace).bind(&row.member).bind(row.writes)).await?;
            let target = format!("{}/{}", row.namespace, row.member);
            let role = if row.writes { "write" } else { "read" };
            append_event(&mut tx, &AuditEvent::new("member.set", target, role)).await?;
            tx.commit().await
        });
        done.await?;
    }
    Ok(())
}

/// Removes members; returns how many there were.
pub(crate) async fn remove_members(db: &Catalog, namespace: &str, members: &[String]) -> Result<u64> {
    let mut removed = 0;
    for member in members {
        let found = db.write("remove a member", |mut tx| async move {
            let delete = Sql::new("DELETE FROM members WHERE namespace = $1 AND member = $2");
            let found = tx.run(delete.bind(namespace).bind(member)).await?;
            if found > 0 {
                append_event(&mut tx, &AuditEvent::new("member.remove", format!("{namespace}/{member}"), ""))
                    .await?;
            }
            tx.commit().await?;
            Ok(found)
        });
        removed += found.await?;
    }
    Ok(removed)
}

/// Memberships of a user.
pub(crate) async fn memberships(db: &Catalog, member: &str) -> Result<Vec<MemberRow>> {
    let query = Sql::new("SELECT namespace, member, role FROM members WHERE member = $1 ORDER BY namespace");
    db.read("find members", query.bind(member)).await
}

/// Members of an organisation.
pub(crate) async fn members(db: &Catalog, namespace: &str) -> Result<Vec<MemberRow>> {
    let query = Sql::new("SELECT namespace, member, role FROM members WHERE namespace = $1 ORDER BY member");
    db.read("find members", query.bind(namespace)).await
}

async fn insert_namespace(tx: &mut Tx, row: &NamespaceRow) -> Result<u64> {
    let insert = Sql::new(
        "INSERT INTO namespaces (name, kind, created_s, state) VALUES ($1, $2, $3, $4) \
         ON CONFLICT DO NOTHING",
    );
    let insert =
        insert.bind(&row.name).bind(row.is_organisation).bind(row.created_s).bind(row.state.number());
    tx.run(insert).await
}

/// Reserves a spelling of a namespace, if the namespace has no other; returns whether it has this one.
pub(crate) async fn is_spelled(tx: &mut Tx, name: &str) -> Result<bool> {
    let folded = &name.to_ascii_lowercase();
    for is_last in [false, true] {
        // A second caller waits here for the first one's transaction.
        let insert = "INSERT INTO spellings (folded, twin, name) VALUES ($1, 0, $2) ON CONFLICT DO NOTHING";
        tx.run(Sql::new(insert).bind(folded).bind(name)).await?;
        let found = Sql::new("SELECT 1 FROM spellings WHERE name = $1").bind(name);
        if tx.row::<()>(found).await?.is_some() {
            return Ok(true);
        }
        if !is_last {
            // Spellings of what was deleted are free.
            let delete = Sql::new(
                "DELETE FROM spellings WHERE folded = $1 \
                 AND NOT EXISTS (SELECT 1 FROM repos WHERE repos.namespace = spellings.name) \
                 AND NOT EXISTS (SELECT 1 FROM namespaces WHERE namespaces.name = spellings.name)",
            );
            tx.run(delete.bind(folded)).await?;
        }
    }
    Ok(false)
}
