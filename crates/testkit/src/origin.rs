//! A token in the catalog that CAS tokens of tests are issued for.

use store::Catalog;
use store::hub::{Bound, Rights, TokenRow, Tokens};

/// Id of the token that [`add_origin`] adds.
pub const ORIGIN: &str = "origin";

/// Adds a token that may write everywhere, so that CAS tokens for it are good in every place without repository.
///
/// # Panics
///
/// If the catalog does not take it.
pub async fn add_origin(catalog: &Catalog) {
    add_origin_named(catalog, ORIGIN).await;
}

/// Adds another such token, with this id.
///
/// # Panics
///
/// If the catalog does not take it.
pub async fn add_origin_named(catalog: &Catalog, id: &str) {
    let mut digest = [0x5a; 32];
    digest.iter_mut().zip(id.bytes()).for_each(|(digest, byte)| *digest = byte);
    let row = TokenRow {
        id: id.to_owned(),
        label: id.to_owned(),
        digest,
        subject: ORIGIN.to_owned(),
        rights: Rights::Write,
        bound: Bound::Everywhere,
        created_s: 0,
        expires_s: None,
        used_s: None,
        revoked_s: None,
        repo_id: None,
        session: None,
    };
    assert!(
        Tokens::new(catalog).add(&row).await.expect("the catalog answers"),
        "the origin is there already"
    );
}
