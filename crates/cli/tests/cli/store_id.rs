//! Which store a command works on: one configuration for all of them, none creates a store by mistake, none takes a foreign one.

use std::fs;
use std::path::Path;

use testkit::corpus::noise;

use super::token::Server;
use super::{Folder, drystone};

/// Every verb that works on a store, with what it needs besides.
const VERBS: [&[&str]; 11] = [
    &["gc", "--dry-run"],
    &["gc"],
    &["gc", "--offline"],
    &["gc", "--compact"],
    &["verify"],
    &["verify", "--repair"],
    &["stats"],
    &["token", "list"],
    &["token", "create", "--scope", "read", "--namespace", "ann"],
    &["admin", "repo", "list"],
    &["admin", "user", "create", "zoe"],
];

/// A store with one repository and some files, made by a server that has ended.
pub(super) fn store(folder: &Folder, name: &str) -> String {
    let data = folder.at(name);
    drop(Server::start(&["--data", &data]));
    drystone(["admin", "repo", "create", "ann/model", "--data", &data]).run().ok();
    for seed in 0..4 {
        let file = folder.put(&format!("{name}.{seed}"), noise(seed, 50_000));
        drystone(["cas", "put", "--no-cache", "--store", &data, "--repo", "ann/model", &file]).run().ok();
    }
    data
}

/// The files of a catalog, with their names: the log may hold what is not in the database yet.
pub(super) fn database(data: &str) -> Vec<(String, String)> {
    let names = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let ours = names.filter(|name| name.starts_with("catalog.db"));
    ours.map(|name| (format!("{data}/{name}"), name)).collect()
}

pub(super) fn files_under(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(folder).to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path.clone());
            }
            found.push(path.display().to_string());
        }
    }
    found.sort();
    found
}

#[test]
fn a_file_of_settings_is_enough_for_every_verb() {
    let folder = Folder::new();
    let data = store(&folder, "data");
    // Nothing is where it would be looked for without the file.
    fs::rename(format!("{data}/objects"), folder.at("elsewhere")).unwrap();
    for (from, name) in database(&data) {
        fs::rename(from, folder.at(&name.replace("catalog", "other"))).unwrap();
    }
    let (objects, catalog) = (folder.at("elsewhere"), folder.at("other.db"));
    let settings = format!("data = '{data}'\nobjects = 'file://{objects}'\ncatalog = 'sqlite://{catalog}'\n");
    let file = folder.put("hub.toml", settings);
    let named: [&[&str]; 3] = [&["rebuild"], &["config", "check"], &["doctor", "--listen", "127.0.0.1:0"]];
    for verb in VERBS.iter().chain(&named) {
        for by_flag in [true, false] {
            let call = drystone(*verb).dir(folder.path());
            let ended = match by_flag {
                true => call.args(["--config", &file]).run(),
                false => call.env("DRYSTONE_CONFIG", &file).run(),
            };
            let output = format!("{verb:?}: {}{}", String::from_utf8_lossy(&ended.stdout), ended.stderr);
            match verb[0] {
                "rebuild" => assert!(output.contains("the catalog is not empty"), "{output}"),
                "config" | "doctor" => assert!(output.contains("belong to store"), "{output}"),
                "admin" if !by_flag && verb[1] == "user" => {}
                _ => assert_eq!(ended.code, Some(0), "{output}"),
            }
        }
    }
    assert!(!Path::new(&data).join("catalog.db").exists() && !Path::new(&data).join("objects").exists());
    // Flags outweigh the environment, and that the file.
    let file = folder.put("wrong.toml", format!("data = '{data}'\ncatalog = 'sqlite:///nowhere/x.db'\n"));
    drystone(["stats", "--config", &file]).run().fails(1);
    let objects = format!("file://{objects}");
    let call = || drystone(["stats", "--config", &file, "--objects", &objects]);
    call().env("DRYSTONE_CATALOG", format!("sqlite://{catalog}")).run().ok();
    call()
        .args(["--catalog", &format!("sqlite://{catalog}")])
        .env("DRYSTONE_CATALOG", "sqlite:///nowhere/y.db")
        .run()
        .ok();
    drystone(["stats", "--config", &folder.at("missing.toml")]).run().fails(1);
}

#[test]
fn a_slip_in_a_flag_creates_nothing() {
    let folder = Folder::new();
    let data = store(&folder, "data");
    let before = (folder.names(), files_under(&format!("{data}/objects")));
    let (typo, catalog) = (folder.at("dta"), format!("sqlite://{}", folder.at("catlog.db")));
    let objects = format!("file://{}", folder.at("objcts"));
    for verb in VERBS {
        for flags in [
            vec!["--data", &typo],
            vec!["--data", &data, "--catalog", &catalog],
            vec!["--data", &data, "--objects", &objects],
        ] {
            let ended = drystone(verb).args(&flags).run();
            assert_eq!(ended.code, Some(1), "{verb:?} {flags:?}: {}", ended.stderr);
            assert!(ended.stderr.contains("pass the right"), "{verb:?} {flags:?}: {}", ended.stderr);
            assert_eq!(
                (folder.names(), files_under(&format!("{data}/objects"))),
                before,
                "{verb:?} {flags:?}"
            );
        }
    }
    drystone(["rebuild", "--data", &typo]).run().fails(1);
    drystone(["store", "copy", &objects, &format!("file://{typo}")]).run().fails(1);
    drystone(["store", "copy", "--dry-run", &format!("file://{data}/objects"), &objects]).run().ok();
    drystone(["verify", "--repair", "--from", &objects, "--data", &data]).run().fails(1);
    drystone(["cas", "get", &"1".repeat(64), "-o", &folder.at("out"), "--store", &typo]).run().fails(1);
    assert_eq!((folder.names(), files_under(&format!("{data}/objects"))), before);
    drystone(["stats", "--data", &data]).run().ok();
}

#[test]
fn a_catalog_of_another_store_is_refused_by_every_verb() {
    let folder = Folder::new();
    let (one, two) = (store(&folder, "one"), store(&folder, "two"));
    let catalog = format!("sqlite://{two}/catalog.db");
    let before = files_under(&format!("{one}/objects"));
    let file = folder.put("more", noise(9, 100_000));
    let put: &[&str] = &["cas", "put", "--no-cache", &file, "--store", &one];
    let mut verbs: Vec<Vec<&str>> = VERBS.iter().map(|verb| [verb, &["--data", &one][..]].concat()).collect();
    verbs.push(put.to_vec());
    verbs.push(vec!["serve", "--listen", "127.0.0.1:0", "--data", &one]);
    for verb in verbs {
        let output = drystone(&verb).args(["--catalog", &catalog]).run().fails(1);
        assert!(
            output.contains("belongs to store") && output.contains("drystone rebuild"),
            "{verb:?}: {output}"
        );
        assert_eq!(files_under(&format!("{one}/objects")), before, "{verb:?}");
    }
    let ended = drystone(["config", "check", "--data", &one, "--catalog", &catalog]).run();
    assert_eq!(ended.code, Some(1));
    assert!(String::from_utf8_lossy(&ended.stdout).contains("WRONG store: the catalog at"), "{ended:?}");
    let objects = |data: &str| format!("file://{data}/objects");
    drystone(["store", "copy", &objects(&one), &objects(&two)]).run().fails(1);
    drystone(["store", "copy", &objects(&one), &objects(&folder.at("copy"))]).run().ok();
    // The copy is of the same store.
    for (from, name) in database(&one) {
        fs::copy(from, folder.at(&format!("copy/{name}"))).unwrap();
    }
    drystone(["verify", "--data", &folder.at("copy")]).run().ok();
}

#[test]
fn a_lost_catalog_stops_the_server_until_it_is_rebuilt() {
    let folder = Folder::new();
    let data = store(&folder, "data");
    let admin = folder.read("data/admin.token");
    let before = files_under(&format!("{data}/objects"));
    for (file, _) in database(&data) {
        fs::remove_file(file).unwrap();
    }
    let output = drystone(["serve", "--listen", "127.0.0.1:0", "--data", &data]).run().fails(1);
    assert!(output.contains("drystone rebuild") && output.contains("there are objects of store"), "{output}");
    assert!(!Path::new(&data).join("catalog.db").exists());
    // An empty one is no better.
    fs::write(format!("{data}/catalog.db"), "").unwrap();
    for verb in [
        &["gc"][..],
        &["gc", "--offline", "--grace", "0", "--allow-large-deletion"],
        &["serve", "--listen", "127.0.0.1:0"],
    ] {
        drystone(verb).args(["--data", &data]).run().fails(1);
    }
    assert_eq!(files_under(&format!("{data}/objects")), before);
    drystone(["rebuild", "--data", &data]).run().ok();
    drystone(["verify", "--data", &data]).run().ok();
    let server = Server::start(&["--data", &data]);
    assert!(server.output.contains("admin.token"), "{}", server.output);
    assert_ne!(folder.read("data/admin.token"), admin, "the old token opens nothing");
}

#[test]
fn a_large_deletion_needs_to_be_allowed() {
    let folder = Folder::new();
    let data = store(&folder, "data");
    let more = (10..20).map(|seed| folder.put(&format!("more.{seed}"), noise(seed, 50_000)));
    for file in more.collect::<Vec<_>>() {
        drystone(["cas", "put", "--no-cache", "--store", &data, "--repo", "ann/model", &file]).run().ok();
    }
    let before = files_under(&format!("{data}/objects"));
    // Nothing of it is committed.
    let gc = ["gc", "--offline", "--grace", "0", "--data", &data];
    let output = drystone(gc).run().fails(1);
    assert!(output.contains("--allow-large-deletion") && output.contains("nothing was deleted"), "{output}");
    assert_eq!(files_under(&format!("{data}/objects")), before);
    drystone(["verify", "--data", &data]).run().ok();
    drystone(gc).args(["--allow-large-deletion"]).run().ok();
    assert!(files_under(&format!("{data}/objects")).len() < before.len());
}

#[test]
fn a_repair_of_a_store_that_is_mostly_missing_marks_nothing() {
    let folder = Folder::new();
    let data = store(&folder, "data");
    for seed in 10..30 {
        let file = folder.put(&format!("more.{seed}"), noise(seed, 50_000));
        drystone(["cas", "put", "--no-cache", "--store", &data, "--repo", "ann/model", &file]).run().ok();
    }
    let xorbs: Vec<_> = files_under(&format!("{data}/objects/xorbs"))
        .into_iter()
        .filter(|path| Path::new(path).is_file())
        .collect();
    assert!(xorbs.len() > 20);
    for xorb in &xorbs[..14] {
        fs::remove_file(xorb).unwrap();
    }
    let output = drystone(["verify", "--repair", "--data", &data]).run().fails(1);
    assert!(output.contains("14 of 24 xorbs") && output.contains("--allow-large-repair"), "{output}");
    let ended = drystone(["verify", "--repair", "--allow-large-repair", "--data", &data]).run();
    assert!(String::from_utf8_lossy(&ended.stdout).contains("marked"), "{ended:?}");
}

#[test]
fn what_a_killed_process_left_is_removed_and_named() {
    let folder = Folder::new();
    let data = store(&folder, "data");
    let draft = format!("{data}/objects/xorbs/00/{}#7", "0".repeat(64));
    fs::create_dir_all(Path::new(&draft).parent().unwrap()).unwrap();
    fs::write(&draft, "half").unwrap();
    let server = Server::start(&["--data", &data]);
    assert!(server.output.contains("#7") && !Path::new(&draft).exists(), "{}", server.output);
    // Beside a server it may be that server's.
    fs::write(&draft, "half").unwrap();
    drystone(["gc", "--data", &data]).run().ok();
    assert!(Path::new(&draft).exists());
    let output = drystone(["gc", "--offline", "--data", &data]).run().fails(1);
    assert!(output.contains("another process uses it"), "{output}");
    drop(server);
    let output = drystone(["gc", "--data", &data]).run().ok();
    assert!(
        output.contains("#7, left by a process that was killed") && !Path::new(&draft).exists(),
        "{output}"
    );
}
