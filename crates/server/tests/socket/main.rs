//! The whole server on a real socket: bad input, slow work, failures behind it, crowds, browsers.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod browser;
mod crowd;
mod faults;
mod frames;
mod hub;
mod refusals;
