//! Connections: the listener and its limits, TLS, rate limits, and the loop that serves until the server stops.

pub(crate) mod limits;
pub(crate) mod listener;
pub(crate) mod rate;
pub(crate) mod shutdown;
pub(crate) mod tls;
