//! The HTTP side of a hub: tokens, signed data URLs, byte ranges, limits, metrics.
//!
//! [`http::app`] is the server as a router, [`shutdown::serve`] runs it, [`House`] is the folder it keeps its things in.
//! What a xorb or a shard is, the store knows.

pub mod auth;
pub mod body;
pub mod budget;
pub mod check;
pub mod config;
pub mod disk;
pub mod door;
pub mod house;
pub mod http;
pub mod logs;
pub mod metrics;
pub mod ranges;
pub mod rate;
mod render;
pub mod secret;
pub mod shutdown;
pub mod sign;
pub mod state;
pub mod sweeping;
pub mod tls;
pub mod urls;
mod web;

pub use auth::{CasTokens, Claims, RepoKind, Repository};
pub use budget::Budget;
pub use config::{ConfigError, Layers, ServeConfig};
pub use house::House;
pub use http::app;
pub use metrics::Metrics;
pub use secret::{Key, KeyRing, Secret};
pub use sign::{DataKey, Grant, Signer};
pub use state::AppState;
pub use tls::Tls;
pub use urls::DataUrls;
