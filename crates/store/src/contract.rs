//! The contract of the catalog: clauses that run on SQLite and on PostgreSQL, each on an empty catalog of its own.
//!
//! Beyond what [`db`](crate::db) requires of all statements: a change of a ref names the target that it expects, and changes
//! nothing if the ref points elsewhere; git objects are named by their content, so adding one again changes nothing; a merged
//! pull request stays merged; a path has one lock. Usage counts what registrations, commits and garbage collections that
//! returned have changed. Events of the audit log are never changed, only deleted. A page begins after a key, at the first
//! for an empty one. Garbage collection skips rows that came to be referred to, and returns how many it changed.

#[macro_use]
mod on_each;

mod browse;
mod content;
mod gc;
mod quotas;
mod repos;
mod sqlite;
mod upkeep;
mod uploads;
