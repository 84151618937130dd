//! Rows of tokens, without a catalog.

use crate::access::Scope;
use crate::db::row::{FromRow as _, Row};
use crate::db::sql::Value;
use crate::error::{ErrorKind, Result};
use crate::hub::tokens::{Bound, Rights, TokenRow};

fn columns() -> Vec<Value<'static>> {
    vec![
        "t1".into(),
        "laptop".into(),
        vec![7_u8; 32].into(),
        "ann".into(),
        Value::Int(1),
        "ann".into(),
        "models/a".into(),
        Value::Int(5),
        Value::Int(9),
        Value::Null,
        Value::Null,
        vec![3_u8; 16].into(),
        Value::Null,
    ]
}

fn token(columns: Vec<Value<'static>>) -> Result<TokenRow> {
    TokenRow::from_row(&mut Row::new(columns))
}

#[test]
fn a_binding_covers_what_it_names() {
    let scope = |text: &str| text.parse::<Scope>().unwrap();
    let (mine, ours, theirs) = (scope("ann/models/a"), scope("ann/models/b"), scope("bob/models/a"));
    let covered = |bound: Bound| [&mine, &ours, &theirs].map(|scope| bound.covers(scope));
    assert_eq!(covered(Bound::Everywhere), [true, true, true]);
    assert_eq!(covered(Bound::Namespace("ann".into())), [true, true, false]);
    assert_eq!(covered(Bound::Repo(mine.clone())), [true, false, false]);
}

#[test]
fn impossible_rows_are_corrupt_and_open_nothing() {
    assert!(token(columns()).is_ok());
    let changes = [
        (5, Value::Null),
        (2, vec![7_u8; 31].into()),
        (4, Value::Int(3)),
        (8, Value::Int(-1)),
        (11, vec![3_u8; 15].into()),
    ];
    for (place, value) in changes {
        let mut columns = columns();
        columns[place] = value;
        assert_eq!(token(columns).unwrap_err().kind(), ErrorKind::Corrupt, "column {place}");
    }
}

#[test]
fn a_token_ends_when_it_expires_or_is_revoked() {
    let row = token(columns()).unwrap();
    assert!(row.is_live(8) && !row.is_live(9));
    assert!(!TokenRow { revoked_s: Some(6), ..row.clone() }.is_live(6));
    assert!(TokenRow { expires_s: None, ..row }.is_live(u64::MAX));
    assert!(Rights::Read < Rights::Write && Rights::Write < Rights::Admin);
}
