//! Repositories: create, delete, rename, settings; and `whoami`.

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use store::ErrorKind;
use store::hub::Rights;
use store::names::{Kind, RepoName};

use crate::http::error::ApiError;
use crate::http::json as answer;
use crate::http::upload::read_small_body;
use crate::hub::json::{parse_small, small_json};
use crate::hub::request::HubRequest;
use crate::hub::unsupported::{self, Unsupported};
use crate::state::AppState;

/// The longest body with a card to validate.
const CARD_BYTES_MAX: usize = 4 << 20;

pub(crate) async fn whoami(request: HubRequest) -> Result<Response<Body>, ApiError> {
    // Clients put it before names of repositories that have no namespace.
    let name = request.own_namespace()?;
    let full_name = request.author()?;
    let writes = request.who.as_ref().is_some_and(|who| who.rights >= Rights::Write);
    let role = if writes { "write" } else { "read" };
    let org = |row: &store::hub::MemberRow| {
        let role = if row.writes { "write" } else { "read" };
        json!({"type": "org", "id": row.namespace, "name": row.namespace, "fullname": row.namespace,
               "isEnterprise": false, "canPay": false, "roleInOrg": role})
    };
    let orgs: Vec<_> = request.memberships().iter().map(org).collect();
    Ok(answer(&json!({
        "type": "user",
        "id": name,
        "name": name,
        "fullname": full_name,
        "email": null,
        "emailVerified": false,
        "canPay": false,
        "isPro": false,
        "orgs": orgs,
        "auth": {
            "type": "access_token",
            "accessToken": {"displayName": full_name, "role": role, "createdAt": crate::http::time::iso(0)},
        },
    })))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Create {
    name: String,
    organization: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    private: Option<bool>,
    visibility: Option<String>,
    /// What a Space is made with. Clients must send it; nothing is run here.
    sdk: Option<String>,
    #[serde(default, rename = "exist_ok")]
    exist_ok: Unsupported,
    #[serde(default)]
    files: Unsupported,
    #[serde(default)]
    gated: Unsupported,
    #[serde(default)]
    hardware: Unsupported,
    #[serde(default)]
    license: Unsupported,
    #[serde(default)]
    region: Unsupported,
    #[serde(default)]
    resource_group_id: Unsupported,
    #[serde(default)]
    secrets: Unsupported,
    #[serde(default)]
    sleep_time_seconds: Unsupported,
    #[serde(default)]
    storage_region: Unsupported,
    #[serde(default)]
    template: Unsupported,
    #[serde(default)]
    variables: Unsupported,
    #[serde(default)]
    volumes: Unsupported,
}

impl Create {
    fn require_supported(&self) -> Result<(), ApiError> {
        const FILES: &str = "files in a new repository: create it, then commit them";
        const SPACES: &str = "running Spaces";
        unsupported::refuse(&[
            (
                "exist_ok",
                &self.exist_ok,
                "it: a repository that exists is a conflict, which clients may accept",
            ),
            ("files", &self.files, FILES),
            ("license", &self.license, "writing a license: commit a README.md that names it"),
            ("gated", &self.gated, GATED),
            ("region", &self.region, REGIONS),
            ("storageRegion", &self.storage_region, REGIONS),
            ("resourceGroupId", &self.resource_group_id, "resource groups"),
            ("hardware", &self.hardware, SPACES),
            ("secrets", &self.secrets, SPACES),
            ("sleepTimeSeconds", &self.sleep_time_seconds, SPACES),
            ("template", &self.template, SPACES),
            ("variables", &self.variables, SPACES),
            ("volumes", &self.volumes, SPACES),
        ])?;
        let is_space = self.kind.as_deref() == Some(Kind::Space.singular());
        match &self.sdk {
            Some(sdk) if !is_space || !SDKS.contains(&sdk.as_str()) => {
                let message = format!("sdk: for a space, one of {}", SDKS.join(", "));
                Err(ApiError::invalid(message))
            }
            _ => Ok(()),
        }
    }
}

const GATED: &str = "gated repositories";
const REGIONS: &str = "regions of storage";
const SDKS: [&str; 4] = ["docker", "gradio", "static", "streamlit"];

pub(crate) async fn create(request: HubRequest, body: Body) -> Result<Response<Body>, ApiError> {
    let create: Create = small_json(body).await?;
    let own = request.author()?;
    create.require_supported()?;
    let (namespace, name) = full_name(&request, &create.name, create.organization.as_deref())?;
    let name = request.new_name(&RepoName::new(kind_of(create.kind.as_deref())?, namespace, name)?).await?;
    request.require_create(&name)?;
    let private = is_private(create.private, create.visibility.as_deref())?.unwrap_or(false);
    let url = request.web_url(&name);
    let body = json!({"url": url, "name": name.id(), "id": name.id(), "private": private});
    match request.store.hub().create_repo(&name, private, &own).await {
        Ok(_) => Ok(answer(&body)),
        Err(error) if error.kind() == ErrorKind::Conflict => {
            // As it was created: clients go on with this name.
            let taken = request.store.hub().repo(&name).await?.filter(|repo| request.may_read(repo));
            let name = taken.map_or(name, |repo| repo.name);
            let (url, message) = (request.web_url(&name), format!("{name} is there already"));
            let mut response =
                answer(&json!({"error": message, "url": url, "name": name.id(), "id": name.id()}));
            *response.status_mut() = StatusCode::CONFLICT;
            Ok(response)
        }
        Err(error) => Err(error.into()),
    }
}

/// Namespace and name of a repository. Older clients put both into the name.
fn full_name<'a>(
    request: &'a HubRequest,
    name: &'a str,
    organization: Option<&'a str>,
) -> Result<(&'a str, &'a str), ApiError> {
    match (name.split_once('/'), organization) {
        (Some((namespace, _)), Some(other)) if namespace != other => {
            Err(ApiError::invalid("organization: the name is in another namespace"))
        }
        (Some(both), _) => Ok(both),
        (None, Some(organization)) => Ok((organization, name)),
        (None, None) => Ok((request.own_namespace()?, name)),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Delete {
    name: String,
    organization: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
}

pub(crate) async fn delete(request: HubRequest, body: Body) -> Result<Response<Body>, ApiError> {
    let delete: Delete = small_json(body).await?;
    let (namespace, name) = full_name(&request, &delete.name, delete.organization.as_deref())?;
    let name = RepoName::new(kind_of(delete.kind.as_deref())?, namespace, name)?;
    let repo = request.require_write_repo(&name).await?;
    request.store.hub().trash_repo(&repo, request.state.config.trash_s).await?;
    Ok(answer(&json!({})))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rename {
    from_repo: String,
    to_repo: String,
    #[serde(rename = "type")]
    kind: Option<String>,
}

pub(crate) async fn rename(request: HubRequest, body: Body) -> Result<Response<Body>, ApiError> {
    let rename: Rename = small_json(body).await?;
    let kind = kind_of(rename.kind.as_deref())?;
    let name = |id: &str| {
        let (namespace, name) = id.split_once('/').unwrap_or(("", id));
        RepoName::new(kind, namespace, name)
    };
    let (from, to) = (name(&rename.from_repo)?, name(&rename.to_repo)?);
    let repo = request.require_write_repo(&from).await?;
    let to = request.new_name(&to).await?;
    request.require_create(&to)?;
    let to = request.store.hub().rename_repo(&repo, &to).await?;
    Ok(answer(&json!({"url": request.web_url(&to), "id": to.id()})))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Settings {
    private: Option<bool>,
    visibility: Option<String>,
    /// Always true here.
    xet_enabled: Option<bool>,
    #[serde(default)]
    gated: Unsupported,
}

pub(crate) async fn settings(request: HubRequest, body: Body) -> Result<Response<Body>, ApiError> {
    let repo = request.require_write().await?;
    let settings: Settings = small_json(body).await?;
    unsupported::refuse(&[("gated", &settings.gated, GATED)])?;
    if settings.xet_enabled == Some(false) {
        return Err(ApiError::invalid("xetEnabled: every repository of this server uses XET"));
    }
    let private = is_private(settings.private, settings.visibility.as_deref())?;
    if let Some(private) = private {
        request.store.hub().set_private(&repo, private).await?;
    }
    Ok(answer(&json!({"private": private.unwrap_or(repo.private)})))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Card {
    #[serde(rename = "content")]
    _content: Option<IgnoredAny>,
    #[serde(rename = "repoType")]
    _repo_type: Option<String>,
}

/// Cards are kept as they are: nothing in them has a meaning here that could be wrong.
pub(crate) async fn validate_yaml(
    State(state): State<AppState>,
    body: Body,
) -> Result<Response<Body>, ApiError> {
    let _permit = state.budget.acquire(CARD_BYTES_MAX as u64).await?;
    let body = read_small_body(body, CARD_BYTES_MAX).await?;
    parse_small::<Card>(&body)?;
    Ok(answer(&json!({"errors": [], "warnings": []})))
}

pub(crate) fn kind_of(text: Option<&str>) -> Result<Kind, ApiError> {
    let Some(text) = text else { return Ok(Kind::Model) };
    let kind = Kind::ALL.into_iter().find(|kind| kind.singular() == text);
    kind.ok_or_else(|| ApiError::invalid("a repository's type should be model, dataset or space"))
}

fn is_private(private: Option<bool>, visibility: Option<&str>) -> Result<Option<bool>, ApiError> {
    let visibility_private = match visibility {
        None => return Ok(private),
        Some("public") => false,
        Some("private" | "protected") => true,
        Some(_) => return Err(ApiError::invalid("visibility should be public or private")),
    };
    match private {
        Some(private) if private != visibility_private => {
            Err(ApiError::invalid("private and visibility say different things"))
        }
        _ => Ok(Some(visibility_private)),
    }
}
