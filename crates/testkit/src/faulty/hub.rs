//! Faults of the Hub side of the catalog.

use async_trait::async_trait;
use store::access::Scope;
use store::catalog::RepoCatalog;
use store::catalog::records::{PeopleRecord, Records, RepoRecord};
use store::catalog::repo::{
    GitRow, LinkedFile, MemberRow, NamespaceRow, RefChange, RefRow, RepoQuery, RepoRow,
};
use store::catalog::review::{LockQuery, LockRow, PullQuery, PullRow, PullState, Review};
use store::repo::oid::Oid;
use store::repo::{RepoId, RepoName};
use xet::Sha256;

use super::{FaultyCatalog, catalog_fault};

#[async_trait]
impl RepoCatalog for FaultyCatalog {
    async fn create_repo(&self, row: &RepoRow, objects: &[GitRow], refs: &[RefRow]) -> store::Result<bool> {
        self.faults.run(catalog_fault, self.inner.hub().create_repo(row, objects, refs)).await
    }

    async fn repos(&self, names: &[RepoName]) -> store::Result<Vec<RepoRow>> {
        self.faults.run(catalog_fault, self.inner.hub().repos(names)).await
    }

    async fn list_repos(&self, query: &RepoQuery) -> store::Result<Vec<RepoRow>> {
        self.faults.run(catalog_fault, self.inner.hub().list_repos(query)).await
    }

    async fn trash(&self) -> store::Result<Vec<RepoRow>> {
        self.faults.run(catalog_fault, self.inner.hub().trash()).await
    }

    async fn change_repo(&self, from: &RepoRow, to: &RepoRow) -> store::Result<bool> {
        self.faults.run(catalog_fault, self.inner.hub().change_repo(from, to)).await
    }

    async fn delete_repo(&self, row: &RepoRow) -> store::Result<Vec<Oid>> {
        self.faults.run(catalog_fault, self.inner.hub().delete_repo(row)).await
    }

    async fn refs(&self, repo: RepoId, prefix: &str) -> store::Result<Vec<RefRow>> {
        self.faults.run(catalog_fault, self.inner.hub().refs(repo, prefix)).await
    }

    async fn repo_at(
        &self,
        name: &RepoName,
        refs: &[String; 2],
    ) -> store::Result<Option<(RepoRow, Vec<RefRow>)>> {
        self.faults.run(catalog_fault, self.inner.hub().repo_at(name, refs)).await
    }

    async fn refs_named(&self, repo: RepoId, names: &[String]) -> store::Result<Vec<RefRow>> {
        self.faults.run(catalog_fault, self.inner.hub().refs_named(repo, names)).await
    }

    async fn move_refs(
        &self,
        repo: RepoId,
        changes: &[RefChange],
        now_s: u64,
        keep_s: u64,
    ) -> store::Result<bool> {
        self.faults.run(catalog_fault, self.inner.hub().move_refs(repo, changes, now_s, keep_s)).await
    }

    async fn add_git_objects(&self, repo: RepoId, rows: &[GitRow], now_s: u64) -> store::Result<bool> {
        self.faults.run(catalog_fault, self.inner.hub().add_git_objects(repo, rows, now_s)).await
    }

    async fn git_objects(&self, repo: RepoId, oids: &[Oid]) -> store::Result<Vec<GitRow>> {
        self.faults.run(catalog_fault, self.inner.hub().git_objects(repo, oids)).await
    }

    async fn history(&self, repo: RepoId, from: Oid, skip: u64, limit: u64) -> store::Result<Vec<GitRow>> {
        self.faults.run(catalog_fault, self.inner.hub().history(repo, from, skip, limit)).await
    }

    async fn linked_files(&self, scope: &Scope, digests: &[Sha256]) -> store::Result<Vec<LinkedFile>> {
        self.faults.run(catalog_fault, self.inner.hub().linked_files(scope, digests)).await
    }

    async fn spellings(&self, name: &str) -> store::Result<Vec<String>> {
        self.faults.run(catalog_fault, self.inner.hub().spellings(name)).await
    }

    async fn add_spelling(&self, name: &str) -> store::Result<()> {
        self.faults.run(catalog_fault, self.inner.hub().add_spelling(name)).await
    }

    async fn add_namespaces(&self, rows: &[NamespaceRow]) -> store::Result<Vec<String>> {
        self.faults.run(catalog_fault, self.inner.hub().add_namespaces(rows)).await
    }

    async fn namespaces(&self) -> store::Result<Vec<NamespaceRow>> {
        self.faults.run(catalog_fault, self.inner.hub().namespaces()).await
    }

    async fn namespace(&self, name: &str) -> store::Result<Option<NamespaceRow>> {
        // Asked for the owner of a token, and like tokens never faulty: tests count the steps of the work itself.
        self.inner.hub().namespace(name).await
    }

    async fn set_user_disabled(&self, name: &str, disabled: bool, now_s: u64) -> store::Result<bool> {
        self.faults.run(catalog_fault, self.inner.hub().set_user_disabled(name, disabled, now_s)).await
    }

    async fn delete_namespace(&self, name: &str, now_s: u64) -> store::Result<Vec<RepoName>> {
        self.faults.run(catalog_fault, self.inner.hub().delete_namespace(name, now_s)).await
    }

    async fn set_members(&self, rows: &[MemberRow]) -> store::Result<()> {
        self.faults.run(catalog_fault, self.inner.hub().set_members(rows)).await
    }

    async fn remove_members(&self, namespace: &str, members: &[String]) -> store::Result<u64> {
        self.faults.run(catalog_fault, self.inner.hub().remove_members(namespace, members)).await
    }

    async fn memberships(&self, member: &str) -> store::Result<Vec<MemberRow>> {
        self.faults.run(catalog_fault, self.inner.hub().memberships(member)).await
    }

    async fn members(&self, namespace: &str) -> store::Result<Vec<MemberRow>> {
        self.faults.run(catalog_fault, self.inner.hub().members(namespace)).await
    }
}

#[async_trait]
impl Records for FaultyCatalog {
    async fn note_repo(&self, repo: RepoId) -> store::Result<Option<(u64, RepoRecord)>> {
        self.faults.run(catalog_fault, self.inner.hub().note_repo(repo)).await
    }

    async fn note_people(&self) -> store::Result<(u64, PeopleRecord)> {
        self.faults.run(catalog_fault, self.inner.hub().note_people()).await
    }

    async fn repo_of(&self, repo: RepoId) -> store::Result<Option<RepoRow>> {
        self.faults.run(catalog_fault, self.inner.hub().repo_of(repo)).await
    }

    async fn restore_refs(&self, version: u64, record: &RepoRecord) -> store::Result<()> {
        self.faults.run(catalog_fault, self.inner.hub().restore_refs(version, record)).await
    }

    async fn restore_people_version(&self, version: u64) -> store::Result<()> {
        self.faults.run(catalog_fault, self.inner.hub().restore_people_version(version)).await
    }
}

#[async_trait]
impl Review for FaultyCatalog {
    async fn add_pull(&self, repo: RepoId, row: &PullRow) -> store::Result<u64> {
        self.faults.run(catalog_fault, self.inner.hub().add_pull(repo, row)).await
    }

    async fn pulls(&self, repo: RepoId, numbers: &[u64]) -> store::Result<Vec<PullRow>> {
        self.faults.run(catalog_fault, self.inner.hub().pulls(repo, numbers)).await
    }

    async fn list_pulls(&self, repo: RepoId, query: &PullQuery) -> store::Result<(Vec<PullRow>, u64)> {
        self.faults.run(catalog_fault, self.inner.hub().list_pulls(repo, query)).await
    }

    async fn set_pull(&self, repo: RepoId, number: u64, state: PullState) -> store::Result<bool> {
        self.faults.run(catalog_fault, self.inner.hub().set_pull(repo, number, state)).await
    }

    async fn add_lock(&self, repo: RepoId, row: &LockRow) -> store::Result<LockRow> {
        self.faults.run(catalog_fault, self.inner.hub().add_lock(repo, row)).await
    }

    async fn locks(&self, repo: RepoId, query: &LockQuery) -> store::Result<Vec<LockRow>> {
        self.faults.run(catalog_fault, self.inner.hub().locks(repo, query)).await
    }

    async fn remove_lock(&self, repo: RepoId, id: &str) -> store::Result<bool> {
        self.faults.run(catalog_fault, self.inner.hub().remove_lock(repo, id)).await
    }
}
