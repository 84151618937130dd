//! Tests of the layout as a whole, against its document.

mod format;
#[path = "../tests/pack/mod.rs"]
mod pack;
