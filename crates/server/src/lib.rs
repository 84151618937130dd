//! The HTTP side of a hub: the CAS, Hub and LFS APIs, pages, tokens, signed URLs, limits and metrics.
//!
//! [`app()`] is the server as a router, [`serve`] runs it, [`DataDir`] is the directory of its files. What a xorb, a shard or a
//! repository is, the store knows.

mod app;
mod auth;
mod background_gc;
mod budget;
mod cas;
mod check;
mod config;
mod data_dir;
mod disk;
mod http;
mod hub;
mod lfs;
mod logs;
mod metrics;
mod net;
mod render;
mod secret;
mod state;
mod upload_progress;
mod urls;
mod web;

pub use app::{OPENAPI, app, paths, serve};
pub use auth::cas_token::{CasTokens, Claims, Issued, Origin};
pub use auth::password;
pub use auth::personal_token::{self, NewToken};
pub use auth::token_store::CACHE_TTL as TOKEN_CACHE_TTL;
pub use background_gc::collect_at_intervals;
pub use budget::Budget;
pub use check::{Checked, check_config, check_store, nearest_existing};
pub use config::{ConfigError, EffectiveSetting, Layers, ServeConfig};
pub use config::{DataUrlPolicy, DedupPolicy, TlsFiles};
pub use data_dir::{BACKUP_FILE, file_url, open_existing_objects, open_objects};
pub use data_dir::{DataDir, OpenStore, Opening};
pub use disk::free_bytes;
pub use http::time::iso as iso_time;
pub use hub::admin::quotas::{audit_event_json, dedup_json, quota_json, reflog_json};
pub use logs::start as start_logging;
pub use metrics::Metrics;
pub use metrics::TABLE as METRICS;
pub use net::shutdown::{Stopped, reload_on_hangup, stop_signal};
pub use net::tls::{Tls, TlsError};
pub use secret::{Key, KeyRing, Secret};
pub use state::{AppState, StreamTiming};
pub use urls::data_url::{DATA_ROUTE, DataKey, Signer};
pub use urls::host::DataUrls;
