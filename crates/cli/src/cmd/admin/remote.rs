//! `drystone admin` through a running server.

use client::cas::http::HttpOptions;
use client::hub::Hub;
use client::token::Token;
use reqwest::{Client, Method, header};
use serde_json::{Value, json};
use store::DedupPolicy;
use store::names::{Kind, RepoName};
use xet::wire::routes::segment;

use super::quota::{DedupSetting, QuotaVerb, Undelete};
use super::users::{OrgVerb, UserVerb, read_password};
use super::{MemberVerb, RepoVerb, TrashVerb, Values, Verb};
use crate::output::{CliError, fail};

/// A server and the token for it.
pub(super) struct Remote {
    client: Client,
    endpoint: String,
    token: String,
}

impl Remote {
    pub(super) fn new(endpoint: &str, token: Option<String>) -> Result<Self, CliError> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let token = token.or_else(|| variable("DRYSTONE_TOKEN")).or_else(|| variable("HF_TOKEN"));
        let token = token
            .ok_or_else(|| CliError::message("this needs an admin token: --token, or DRYSTONE_TOKEN"))?;
        // The rules of all verbs apply: the form of an endpoint, and where a token may be sent.
        Hub::new(endpoint, Some(Token::new(&token)), HttpOptions::default())?;
        let client = Client::builder().build()?;
        Ok(Self { client, endpoint: endpoint.trim_end_matches('/').to_owned(), token })
    }

    pub(super) async fn run(&self, verb: Verb) -> Values {
        match verb {
            Verb::User(verb) => self.users(verb).await,
            Verb::Org(verb) => self.organisations(verb).await,
            Verb::Member(verb) => self.members(verb).await,
            Verb::Repo(verb) => self.repos(verb).await,
            Verb::Trash(verb) => self.trash(verb).await,
            Verb::Quota(verb) => self.quotas(verb).await,
            Verb::Audit(audit) => self.list(&format!("/api/admin/audit?since={}", audit.since_s())).await,
            Verb::Undelete(verb) => self.undelete(verb).await,
        }
    }

    async fn quotas(&self, verb: QuotaVerb) -> Values {
        match verb {
            QuotaVerb::List => self.list(QUOTAS).await,
            QuotaVerb::Set(set) => self.put(QUOTAS, set.body()).await,
            QuotaVerb::Remove { of } => self.delete(&format!("{QUOTAS}?of={of}"), Value::Null).await,
        }
    }

    async fn undelete(&self, verb: Undelete) -> Values {
        let Undelete { repo, path, list, revision, branch } = verb;
        if list {
            return self.list(&format!("{UNDELETE}?repo={repo}")).await;
        }
        let revision = revision.map(|oid| oid.to_string());
        self.post(
            UNDELETE,
            json!({"repo": repo.to_string(), "revision": revision, "as": branch, "path": path}),
        )
        .await
    }

    async fn users(&self, verb: UserVerb) -> Values {
        let path = |name: &str| format!("{USERS}/{}", segment(name));
        match verb {
            UserVerb::Create { name } => self.post(USERS, json!({"name": name})).await,
            UserVerb::List => self.list(USERS).await,
            UserVerb::Dedup { name, policy } => self.dedup(&name, policy).await,
            UserVerb::Disable { name } => self.put(&path(&name), json!({"disabled": true})).await,
            UserVerb::Enable { name } => self.put(&path(&name), json!({"disabled": false})).await,
            UserVerb::Delete { name } => self.delete(&path(&name), Value::Null).await,
            UserVerb::Password { name, stdin, remove } => {
                let body = json!({"password": read_password(&name, stdin, remove)?});
                self.put(&format!("{}/password", path(&name)), body).await.map(|_| Vec::new())
            }
        }
    }

    async fn organisations(&self, verb: OrgVerb) -> Values {
        match verb {
            OrgVerb::Create { name } => self.post(ORGS, json!({"name": name})).await,
            OrgVerb::List => self.list(ORGS).await,
            OrgVerb::Dedup { name, policy } => self.dedup(&name, policy).await,
            OrgVerb::Delete { name } => self.delete(&format!("{ORGS}/{}", segment(&name)), Value::Null).await,
        }
    }

    /// Shows or sets the dedup policy of a namespace.
    async fn dedup(&self, name: &str, policy: Option<DedupSetting>) -> Values {
        if let Some(DedupSetting(policy)) = policy {
            let policy = policy.map_or("default", DedupPolicy::name);
            return self.put(DEDUP, json!({"of": name, "dedup": policy})).await;
        }
        let mut set = self.list(DEDUP).await?;
        set.retain(|value| value.get("of") == Some(&json!(name)));
        match set.is_empty() {
            true => fail(format!("no dedup policy is set for {name}")),
            false => Ok(set),
        }
    }

    async fn members(&self, verb: MemberVerb) -> Values {
        let members = |org: &str| format!("{ORGS}/{org}/members");
        match verb {
            MemberVerb::Add { org, user, write } => {
                let role = if write { "write" } else { "read" };
                self.put(&format!("{}/{user}", members(&org)), json!({"role": role})).await
            }
            MemberVerb::Remove { org, user } => {
                self.delete(&format!("{}/{user}", members(&org)), Value::Null).await
            }
            MemberVerb::List { org } => self.list(&members(&org)).await,
        }
    }

    async fn repos(&self, verb: RepoVerb) -> Values {
        let value = |repo: &RepoName, private: &Value| {
            vec![json!({"repo": repo.to_string(), "type": repo.kind.singular(), "private": private})]
        };
        match verb {
            RepoVerb::Create { repo, private } => {
                let body = json!({"name": repo.id(), "type": repo.kind.singular(), "private": private});
                self.post("/api/repos/create", body).await?;
                Ok(value(&repo, &json!(private)))
            }
            RepoVerb::List => {
                let mut all = Vec::new();
                for kind in Kind::ALL {
                    all.extend(self.list(&format!("/api/admin/repos?type={}", kind.singular())).await?);
                }
                Ok(all)
            }
            RepoVerb::Delete { repo } => {
                let body = json!({"name": repo.id(), "type": repo.kind.singular()});
                self.delete("/api/repos/delete", body).await
            }
            RepoVerb::Rename { from, to } => {
                if from.kind != to.kind {
                    return fail("through a server a repository keeps its kind");
                }
                let body = json!({"fromRepo": from.id(), "toRepo": to.id(), "type": from.kind.singular()});
                self.post("/api/repos/move", body).await?;
                let info = self.send(Method::GET, &api(&to, ""), Value::Null).await?;
                Ok(value(&to, info.first().and_then(|info| info.get("private")).unwrap_or(&Value::Null)))
            }
            RepoVerb::Dedup { repo, policy: Some(DedupSetting(policy)) } => {
                let policy = policy.map_or("default", DedupPolicy::name);
                self.put(&api(&repo, "/dedup"), json!({"dedup": policy})).await
            }
            RepoVerb::Dedup { repo, policy: None } => {
                self.send(Method::GET, &api(&repo, "/dedup"), Value::Null).await
            }
            RepoVerb::Private { repo, public } => {
                self.put(&api(&repo, "/settings"), json!({"private": !public})).await?;
                Ok(value(&repo, &json!(!public)))
            }
        }
    }

    async fn trash(&self, verb: TrashVerb) -> Values {
        match verb {
            TrashVerb::List => self.list("/api/admin/trash").await,
            TrashVerb::Restore { id, to } => {
                let body = json!({"repo": to.map(|name| name.to_string())});
                self.post(&format!("/api/admin/trash/{id}"), body).await
            }
            TrashVerb::Delete { id } => self.delete(&format!("/api/admin/trash/{id}"), Value::Null).await,
        }
    }

    /// All pages of a list.
    async fn list(&self, path: &str) -> Values {
        let mut next = Some(format!("{}{path}", self.endpoint));
        let mut all = Vec::new();
        while let Some(url) = next {
            let (values, link) = self.request(Method::GET, &url, &Value::Null).await?;
            all.extend(values);
            // The server may be reachable under another name than its own public URL.
            next =
                link.and_then(|link| Some(format!("{}{}", self.endpoint, link.get(link.find("/api/")?..)?)));
        }
        Ok(all)
    }

    async fn post(&self, path: &str, body: Value) -> Values {
        self.send(Method::POST, path, body).await
    }

    async fn put(&self, path: &str, body: Value) -> Values {
        self.send(Method::PUT, path, body).await
    }

    async fn delete(&self, path: &str, body: Value) -> Values {
        self.send(Method::DELETE, path, body).await.map(|_| Vec::new())
    }

    async fn send(&self, method: Method, path: &str, body: Value) -> Values {
        Ok(self.request(method, &format!("{}{path}", self.endpoint), &body).await?.0)
    }

    /// Sends one request; returns its results and the address of the next page.
    async fn request(
        &self,
        method: Method,
        url: &str,
        body: &Value,
    ) -> Result<(Vec<Value>, Option<String>), CliError> {
        let mut request = self.client.request(method, url).bearer_auth(&self.token);
        if !body.is_null() {
            request = request.header(header::CONTENT_TYPE, "application/json").body(body.to_string());
        }
        let answer = request.send().await?;
        let status = answer.status();
        let link = answer.headers().get(header::LINK).and_then(|link| link.to_str().ok());
        let link = link.and_then(|link| Some(link.strip_prefix('<')?.split_once('>')?.0.to_owned()));
        let text = answer.text().await?;
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        if !status.is_success() {
            let why = value.get("error").or_else(|| value.get("message")).and_then(Value::as_str);
            return fail(format!("{url}: {}", why.unwrap_or(status.as_str())));
        }
        Ok((if let Value::Array(values) = value { values } else { vec![value] }, link))
    }
}

const USERS: &str = "/api/admin/users";
const ORGS: &str = "/api/admin/orgs";
const QUOTAS: &str = "/api/admin/quotas";
const DEDUP: &str = "/api/admin/dedup";
const UNDELETE: &str = "/api/admin/undelete";

fn api(repo: &RepoName, rest: &str) -> String {
    format!("/api/{}/{}{rest}", repo.kind.plural(), repo.id())
}
