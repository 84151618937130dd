//! `drystone admin quota`, `audit` and `undelete`: arguments and printed text.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use store::DedupPolicy;
use store::content::QuotaOf;
use store::ids::Oid;
use store::names::RepoName;

use crate::clock::now_s;
use crate::cmd::store_args::{human, seconds};
use crate::size;

#[derive(Debug, Subcommand)]
pub(super) enum QuotaVerb {
    /// Limit the storage of a namespace or repository; limits that are left out are removed
    Set(SetQuota),
    /// List all quotas with their usage
    List,
    /// Remove a quota
    Remove {
        /// The namespace or repository
        of: QuotaOf,
    },
}

/// A quota.
#[derive(Debug, Args)]
pub(super) struct SetQuota {
    /// NAMESPACE, NAMESPACE/NAME, datasets/NAMESPACE/NAME or spaces/NAMESPACE/NAME
    pub(super) of: QuotaOf,

    /// Refuse uploads above this many bytes of files, such as 500GB
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(super) logical: Option<u64>,

    /// Refuse uploads above this many stored bytes
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(super) physical: Option<u64>,

    /// Warn above this many bytes of files
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(super) soft_logical: Option<u64>,

    /// Warn above this many stored bytes
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(super) soft_physical: Option<u64>,
}

impl SetQuota {
    /// Request body of the admin API.
    pub(super) fn body(&self) -> Value {
        json!({
            "of": self.of.to_string(), "logicalSoft": self.soft_logical, "logicalHard": self.logical,
            "physicalSoft": self.soft_physical, "physicalHard": self.physical,
        })
    }
}

/// A dedup policy to set; `default` removes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct DedupSetting(pub(super) Option<DedupPolicy>);

pub(super) fn dedup_setting(text: &str) -> store::Result<DedupSetting> {
    DedupPolicy::parse_setting(text).map(DedupSetting)
}

/// Range of the audit log.
#[derive(Debug, Args)]
pub(super) struct Audit {
    /// Only events of this last period, such as 7d
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(super) since: Option<u64>,
}

impl Audit {
    pub(super) fn since_s(&self) -> u64 {
        self.since.map_or(0, |ago| now_s().saturating_sub(ago))
    }
}

/// Revision or path to restore.
#[derive(Debug, Args)]
pub(super) struct Undelete {
    /// The repository
    #[arg(value_parser = RepoName::parse)]
    pub(super) repo: RepoName,

    /// A deleted file, to restore from the last revision that had it
    #[arg(required_unless_present_any = ["list", "revision"], conflicts_with_all = ["list", "revision"])]
    pub(super) path: Option<String>,

    /// List restorable revisions, and until when each can be restored
    #[arg(long, conflicts_with_all = ["revision", "branch"])]
    pub(super) list: bool,

    /// Point the branch or tag at this earlier revision again
    #[arg(long, value_name = "OID")]
    pub(super) revision: Option<Oid>,

    /// Another branch for the revision, or the branch to commit the file to [default: its own, main]
    #[arg(long = "as", value_name = "BRANCH")]
    pub(super) branch: Option<String>,
}

/// Text for a value of these verbs; none for other values.
pub(crate) fn text(value: &Value) -> Option<String> {
    let field = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let number = |name: &str| value.get(name).and_then(Value::as_u64);
    if value.get("logicalBytes").is_some() {
        let side = |what: &str| {
            let limit = |name: &str| number(&format!("{what}{name}"));
            let soft =
                limit("Soft").map_or(String::new(), |bytes| format!(", warns at {}", size::show(bytes)));
            let hard =
                limit("Hard").map_or("no limit".to_owned(), |bytes| format!("of {}", size::show(bytes)));
            format!("{what} {} {hard}{soft}", human(number(&format!("{what}Bytes")).unwrap_or(0)))
        };
        return Some(format!("{}  {}  {}", field("of"), side("logical"), side("physical")));
    }
    if value.get("effective").is_some() {
        return Some(format!(
            "{}  dedup {} (in effect: {})",
            field("of"),
            field("dedup"),
            field("effective")
        ));
    }
    if value.get("action").is_some() {
        let words = ["time", "who", "action", "target", "detail", "request"].map(field);
        let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
        return Some(words.join("  "));
    }
    match (value.get("leftAt"), value.get("commit"), value.get("ref")) {
        (Some(_), ..) => Some(format!(
            "{} {} left {} until {}",
            field("revision"),
            field("ref"),
            field("leftAt"),
            field("reclaimAt")
        )),
        (_, Some(_), _) => {
            Some(format!("{} is back in {} from {}", field("path"), field("commit"), field("from")))
        }
        (_, _, Some(_)) => Some(format!("{} leads to {}", field("ref"), field("revision"))),
        _ => None,
    }
}
