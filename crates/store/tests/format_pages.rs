//! The pages about objects and the catalog say what the code does.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

const OBJECTS: &str = include_str!("../../../docs/format/objects.md");
const CATALOG: &str = include_str!("../../../docs/format/catalog.md");

#[test]
fn the_tables_of_the_pages_are_those_of_the_modules() {
    let objects = tables(&docs(include_str!("../src/objects.rs")));
    assert_eq!(objects.len(), 1);
    let bundle = tables(&docs(include_str!("../src/hub/bundle.rs")));
    assert_eq!(bundle.len(), 2);
    assert_eq!(tables(OBJECTS), [objects, bundle].concat());
    let recipe = tables(&docs(include_str!("../src/content/recipe.rs")));
    assert_eq!(recipe.len(), 3);
    let page: Vec<_> = tables(CATALOG).into_iter().filter(|table| table[0].contains("offset")).collect();
    assert_eq!(page, recipe);
}

/// Table, key and columns of each migration, as the page lists them.
#[test]
fn the_page_lists_every_table_and_column() {
    let page = tables(CATALOG).remove(0);
    let listed: Vec<Vec<String>> = page[2..].iter().map(|row| names(row)).collect();
    for script in [
        concat!(
            include_str!("../migrations/sqlite/0001_cas.sql"),
            include_str!("../migrations/sqlite/0005_secrets.sql"),
            include_str!("../migrations/sqlite/0010_tokens.sql"),
            include_str!("../migrations/sqlite/0011_repo_xorbs.sql"),
            include_str!("../migrations/sqlite/0020_repos.sql"),
            include_str!("../migrations/sqlite/0021_trash.sql"),
            include_str!("../migrations/sqlite/0022_review.sql"),
            include_str!("../migrations/sqlite/0023_records.sql"),
            include_str!("../migrations/sqlite/0030_sweep.sql"),
            include_str!("../migrations/sqlite/0040_keep.sql"),
            include_str!("../migrations/sqlite/0050_sizes.sql"),
            include_str!("../migrations/sqlite/0060_passwords.sql"),
            include_str!("../migrations/sqlite/0070_upkeep.sql"),
            include_str!("../migrations/sqlite/0080_uploads.sql"),
            include_str!("../migrations/sqlite/0085_sha256.sql"),
            include_str!("../migrations/sqlite/0100_token_repo.sql"),
            include_str!("../migrations/sqlite/0101_user_state.sql"),
            include_str!("../migrations/sqlite/0102_token_session.sql"),
            include_str!("../migrations/sqlite/0110_names.sql"),
            include_str!("../migrations/sqlite/0120_uploads_by_time.sql")
        ),
        concat!(
            include_str!("../migrations/postgres/0001_cas.sql"),
            include_str!("../migrations/postgres/0005_secrets.sql"),
            include_str!("../migrations/postgres/0010_tokens.sql"),
            include_str!("../migrations/postgres/0011_repo_xorbs.sql"),
            include_str!("../migrations/postgres/0020_repos.sql"),
            include_str!("../migrations/postgres/0021_trash.sql"),
            include_str!("../migrations/postgres/0022_review.sql"),
            include_str!("../migrations/postgres/0023_records.sql"),
            include_str!("../migrations/postgres/0030_sweep.sql"),
            include_str!("../migrations/postgres/0040_keep.sql"),
            include_str!("../migrations/postgres/0050_sizes.sql"),
            include_str!("../migrations/postgres/0060_passwords.sql"),
            include_str!("../migrations/postgres/0070_upkeep.sql"),
            include_str!("../migrations/postgres/0080_uploads.sql"),
            include_str!("../migrations/postgres/0085_sha256.sql"),
            include_str!("../migrations/postgres/0100_token_repo.sql"),
            include_str!("../migrations/postgres/0101_user_state.sql"),
            include_str!("../migrations/postgres/0102_token_session.sql"),
            include_str!("../migrations/postgres/0110_names.sql"),
            include_str!("../migrations/postgres/0120_uploads_by_time.sql")
        ),
    ] {
        let statements = script.split("CREATE TABLE ").skip(1);
        let tables = statements.map(|statement| statement.split(';').next().unwrap_or_default());
        let mut created: Vec<Vec<String>> = tables.map(columns).collect();
        for line in script.lines().filter_map(|line| line.strip_prefix("ALTER TABLE ")) {
            let (table, column) = line.split_once(" ADD COLUMN ").unwrap();
            let table = created.iter_mut().find(|created| created[0] == table).unwrap();
            table.push(column.split([' ', ';']).next().unwrap().to_owned());
        }
        assert_eq!(created, listed);
    }
}

fn docs(module: &str) -> String {
    let text = |line: &str| line.strip_prefix("//!").map(|text| format!("{}\n", text.trim()));
    module.lines().filter_map(text).collect()
}

/// Every table of a page, each a list of lines.
fn tables(text: &str) -> Vec<Vec<String>> {
    let mut tables: Vec<Vec<String>> = vec![Vec::new()];
    for line in text.lines() {
        match line.starts_with('|') {
            true => tables.last_mut().unwrap().push(line.to_owned()),
            false => tables.push(Vec::new()),
        }
    }
    tables.retain(|table| !table.is_empty());
    tables
}

/// `| xorbs | hash | digest, … | … |` as one list: table, keys, columns.
fn names(row: &str) -> Vec<String> {
    let cells = row.split('|').skip(1).take(3);
    let names = cells.flat_map(|cell| cell.split(',')).map(|name| name.trim().trim_matches('`').to_owned());
    names.filter(|name| !name.is_empty()).collect()
}

/// The same of a statement: table, keys, other columns in order.
fn columns(statement: &str) -> Vec<String> {
    let (table, body) = statement.split_once(" (").unwrap();
    let lines = body.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with([')', '-']));
    let mut keys = Vec::new();
    let mut others = Vec::new();
    for line in lines {
        if let Some(list) = line.strip_prefix("PRIMARY KEY (") {
            keys.extend(list.trim_end_matches([')', ',']).split(", ").map(str::to_owned));
        } else {
            let name = line.split(' ').next().unwrap().to_owned();
            let list = if line.contains("PRIMARY KEY") { &mut keys } else { &mut others };
            list.push(name);
        }
    }
    others.retain(|name| !keys.contains(name));
    [vec![table.to_owned()], keys, others].concat()
}
