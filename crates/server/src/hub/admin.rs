//! Administration over HTTP, for administrators only: users, organisations, the trash, quotas, the audit log.

pub(crate) mod quotas;
pub(crate) mod users;
