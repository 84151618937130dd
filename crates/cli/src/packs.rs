//! `shardpack`: create, read, check and change ShardPack files.

mod cmd;
mod describe;
mod formats;
mod http;
mod input;
mod tar;

pub(crate) use cmd::ShardPack;
