//! Users, organisations and their members, and how namespaces are spelled.

use super::{MemberRow, NamespaceRow, NamespaceState, REPO_COLUMNS, RepoCatalog, RepoRow};
use crate::audit::Deed;
use crate::catalog::keep::note;
use crate::db::{Sql, Tx};
use crate::error::Result;
use crate::repo::RepoName;

impl RepoCatalog {
    /// The namespaces that are spelled so in any case, this very spelling first.
    pub async fn spellings(&self, name: &str) -> Result<Vec<String>> {
        let query = Sql::new(
            "SELECT name FROM spellings WHERE folded = $1 \
             ORDER BY CASE WHEN name = $2 THEN 0 ELSE 1 END, twin",
        );
        let query = query.bind(name.to_ascii_lowercase()).bind(name);
        self.db.read("find a namespace", query.short()).await
    }

    /// Adds a spelling of a namespace beside others of it, as catalogs from before names were unique without regard to
    /// case have them.
    pub async fn add_spelling(&self, name: &str) -> Result<()> {
        let insert = Sql::new(
            "INSERT INTO spellings (folded, twin, name) \
             SELECT $1, COALESCE(MAX(twin) + 1, 0), $2 FROM spellings WHERE folded = $1 \
             ON CONFLICT DO NOTHING",
        );
        let insert = insert.bind(name.to_ascii_lowercase()).bind(name);
        self.db.write_one("add a spelling", insert).await?;
        Ok(())
    }

    /// Adds namespaces; returns which were new, without regard to case.
    pub async fn add_namespaces(&self, rows: &[NamespaceRow]) -> Result<Vec<String>> {
        let mut added = Vec::new();
        for row in rows {
            let is_new = self.db.write("add a namespace", |mut tx| async move {
                let is_new =
                    is_spelled(&mut tx, &row.name).await? && insert_namespace(&mut tx, row).await? > 0;
                if is_new {
                    let action = if row.is_organisation { "org.create" } else { "user.create" };
                    note(&mut tx, &Deed::new(action, row.name.as_str(), "")).await?;
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
    pub async fn namespaces(&self) -> Result<Vec<NamespaceRow>> {
        let query = Sql::new("SELECT name, kind, created_s, state FROM namespaces ORDER BY name");
        self.db.read("list namespaces", query).await
    }

    /// The user or organisation of this name, deleted ones too.
    pub async fn namespace(&self, name: &str) -> Result<Option<NamespaceRow>> {
        let query = Sql::new("SELECT name, kind, created_s, state FROM namespaces WHERE name = $1");
        self.db.read_one("find a namespace", query.bind(name).short()).await
    }

    /// Disables or enables a user. Disabling revokes the user's browser sessions; enabling a deleted user makes the name
    /// a user again, without tokens, password and memberships. Returns whether there is such a user.
    pub async fn set_user_disabled(&self, name: &str, disabled: bool, now_s: u64) -> Result<bool> {
        self.db
            .write("change a user", |mut tx| async move {
                let (state, deed) = match disabled {
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
                note(&mut tx, &Deed::new(deed, name, "")).await?;
                tx.commit().await?;
                Ok(true)
            })
            .await
    }

    /// Deletes a user or an organisation that owns no repository: its members, memberships and password are removed, its
    /// tokens revoked, and its name stays reserved. Returns repositories that it owns, some of them if there are many;
    /// nothing changes then.
    pub async fn delete_namespace(&self, name: &str, now_s: u64) -> Result<Vec<RepoName>> {
        self.db
            .write("delete a namespace", |mut tx| async move {
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
                let revoke =
                    Sql::new("UPDATE tokens SET revoked_s = $1 WHERE revoked_s IS NULL AND subject = $2");
                tx.run(revoke.bind(now_s).bind(name)).await?;
                let action = if kind == 0 { "user.delete" } else { "org.delete" };
                note(&mut tx, &Deed::new(action, name, "")).await?;
                tx.commit().await?;
                Ok(Vec::new())
            })
            .await
    }

    /// Adds members, or gives them another role.
    pub async fn set_members(&self, rows: &[MemberRow]) -> Result<()> {
        for row in rows {
            let done = self.db.write("add a member", |mut tx| async move {
                let insert = Sql::new(
                    "INSERT INTO members (namespace, member, role) VALUES ($1, $2, $3) \
                     ON CONFLICT (namespace, member) DO UPDATE SET role = excluded.role",
                );
                tx.run(insert.bind(&row.namespace).bind(&row.member).bind(row.writes)).await?;
                let target = format!("{}/{}", row.namespace, row.member);
                let role = if row.writes { "write" } else { "read" };
                note(&mut tx, &Deed::new("member.set", target, role)).await?;
                tx.commit().await
            });
            done.await?;
        }
        Ok(())
    }

    /// Removes members; returns how many there were.
    pub async fn remove_members(&self, namespace: &str, members: &[String]) -> Result<u64> {
        let mut removed = 0;
        for member in members {
            let found = self.db.write("remove a member", |mut tx| async move {
                let delete = Sql::new("DELETE FROM members WHERE namespace = $1 AND member = $2");
                let found = tx.run(delete.bind(namespace).bind(member)).await?;
                if found > 0 {
                    note(&mut tx, &Deed::new("member.remove", format!("{namespace}/{member}"), "")).await?;
                }
                tx.commit().await?;
                Ok(found)
            });
            removed += found.await?;
        }
        Ok(removed)
    }

    /// Memberships of a user.
    pub async fn memberships(&self, member: &str) -> Result<Vec<MemberRow>> {
        let query =
            Sql::new("SELECT namespace, member, role FROM members WHERE member = $1 ORDER BY namespace");
        self.db.read("find members", query.bind(member)).await
    }

    /// Members of an organisation.
    pub async fn members(&self, namespace: &str) -> Result<Vec<MemberRow>> {
        let query =
            Sql::new("SELECT namespace, member, role FROM members WHERE namespace = $1 ORDER BY member");
        self.db.read("find members", query.bind(namespace)).await
    }
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
pub(super) async fn is_spelled(tx: &mut Tx, name: &str) -> Result<bool> {
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
