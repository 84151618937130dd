//! `s3d`: an S3 server and a PostgreSQL server for tests in other languages. Prints one line of JSON and serves until its
//! input ends.
//!
//! usage: s3d
//!
//! The line has `endpoint`, `key`, `secret`, the URL of an empty `bucket`, the `folder` its objects end up in, and the URL
//! of an empty database as `catalog`, which is null where PostgreSQL is not installed.
#![allow(clippy::print_stdout, reason = "a program of tests")]

use std::io::{Read as _, Write as _};

use testkit::postgres::Postgres;
use testkit::s3::S3;

fn main() {
    let s3 = S3::start_at(([127, 0, 0, 1], 0).into());
    let postgres = Postgres::start();
    let bucket = s3.fresh_bucket();
    let line = serde_json::json!({
        "endpoint": s3.endpoint(),
        "key": s3.key(),
        "secret": s3.secret(),
        "folder": s3.folder(&bucket),
        "bucket": bucket,
        "catalog": postgres.as_ref().map(Postgres::fresh_database),
    });
    println!("{line}");
    std::io::stdout().flush().expect("the line is read");
    // It ends with the process that started it, however that ends.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
