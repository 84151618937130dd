//! Slips with backups: none replaces a good backup by a bad one, loses what a backup has, or restores something else.

use std::fs;
use std::path::Path;

use super::store_id::{database, files_under, store};
use super::{Folder, drystone, json, number};

/// Names in a directory, without the files that only exist while a command runs.
fn content(folder: &str) -> Vec<(String, Vec<u8>)> {
    let files = files_under(folder).into_iter().filter(|path| Path::new(path).is_file());
    let files = files.filter(|path| !path.ends_with(".lock") && !path.ends_with("backup.partial"));
    files.map(|path| (path.clone(), fs::read(&path).unwrap())).collect()
}

fn copy_folder(from: &str, to: &str) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        let (path, to) = (path.to_str().unwrap(), format!("{to}/{}", name.to_str().unwrap()));
        match Path::new(path).is_dir() {
            true => copy_folder(path, &to),
            false => drop(fs::copy(path, to).unwrap()),
        }
    }
}

fn xorbs(folder: &str) -> Vec<String> {
    let files = files_under(&format!("{folder}/xorbs"));
    files.into_iter().filter(|path| Path::new(path).is_file()).collect()
}

/// Flips a bit of the first place where `text` stands, or of byte 500.
fn damage(file: &str, text: &str) {
    let mut bytes = fs::read(file).unwrap();
    let found = bytes.windows(text.len().max(1)).position(|window| window == text.as_bytes());
    bytes[found.unwrap_or(500)] ^= 1;
    fs::write(file, bytes).unwrap();
}

#[test]
fn a_lost_or_foreign_catalog_does_not_replace_a_good_backup() {
    let folder = Folder::new();
    let (one, two, dest) = (store(&folder, "one"), store(&folder, "two"), folder.at("backup"));
    drystone(["backup", &dest, "--data", &one]).run().ok();
    let good = content(&dest);
    let objects = format!("file://{one}/objects");
    let call = |data: &str| drystone(["backup", &dest, "--data", data]);

    let output = drystone(["backup", &dest, "--data", &two, "--objects", &objects]).run().fails(1);
    assert!(output.contains("belongs to store"), "{output}");
    assert_eq!(content(&dest), good, "of another store's catalog");
    let output = call(&two).run().fails(1);
    assert!(output.contains("another store") || output.contains("belong to store"), "{output}");
    assert_eq!(content(&dest), good, "of another store");

    let emptied = folder.at("emptied");
    copy_folder(&one, &emptied);
    for (file, _) in database(&emptied) {
        fs::remove_file(file).unwrap();
    }
    fs::write(format!("{emptied}/catalog.db"), "").unwrap();
    let output = call(&emptied).run().fails(1);
    assert!(output.contains("drystone rebuild"), "{output}");
    assert_eq!(content(&dest), good, "of an empty catalog");

    let cut = folder.at("cut");
    copy_folder(&one, &cut);
    let bytes = fs::read(format!("{cut}/catalog.db")).unwrap();
    fs::write(format!("{cut}/catalog.db"), &bytes[..bytes.len() / 2]).unwrap();
    call(&cut).run().fails(1);
    assert_eq!(content(&dest), good, "of half a catalog");

    // The disk of the objects is not there.
    let unmounted = folder.at("unmounted");
    copy_folder(&one, &unmounted);
    fs::remove_dir_all(format!("{unmounted}/objects")).unwrap();
    fs::create_dir(format!("{unmounted}/objects")).unwrap();
    for flags in [&[][..], &["--prune"], &["--prune", "--allow-large-deletion"]] {
        let output = call(&unmounted).args(flags).run().fails(1);
        assert!(output.contains("there are none at"), "{output}");
        assert_eq!(content(&dest), good, "{flags:?}");
    }
    call(&one).run().ok();
    drystone(["restore", &dest, "--data", &folder.at("restored")]).run().ok();
    drystone(["verify", "--deep", "--data", &folder.at("restored")]).run().ok();
}

#[test]
fn what_the_store_has_lost_is_named_and_stays_in_the_backup() {
    let folder = Folder::new();
    let (data, dest) = (store(&folder, "data"), folder.at("backup"));
    drystone(["backup", &dest, "--data", &data]).run().ok();
    let lost = xorbs(&format!("{data}/objects")).into_iter().take(2).collect::<Vec<_>>();
    lost.iter().for_each(|file| fs::remove_file(file).unwrap());
    let before = files_under(&format!("{dest}/objects"));
    for flags in [&[][..], &["--prune"], &["--prune", "--allow-large-deletion"]] {
        let ended = drystone(["backup", &dest, "--data", &data]).args(flags).run();
        let output = String::from_utf8(ended.stdout).unwrap();
        assert_eq!(ended.code, Some(1), "{flags:?}: {output}");
        for file in &lost {
            let name = Path::new(file).file_name().unwrap().to_str().unwrap();
            assert!(
                output.contains(name) && output.contains("in the backup from before"),
                "{flags:?}: {output}"
            );
        }
        assert_eq!(output.contains("nothing was pruned"), !flags.is_empty(), "{output}");
        assert_eq!(files_under(&format!("{dest}/objects")), before, "{flags:?}");
    }
    drystone(["restore", &dest, "--data", &folder.at("restored")]).run().ok();
    drystone(["verify", "--deep", "--data", &folder.at("restored")]).run().ok();
}

#[test]
fn a_backup_is_not_made_of_itself_or_in_the_store() {
    let folder = Folder::new();
    let data = store(&folder, "data");
    fs::rename(format!("{data}/objects"), folder.at("objects")).unwrap();
    std::os::unix::fs::symlink("objects", folder.path().join("link")).unwrap();
    let before = content(&folder.at("objects"));
    let url = |name: &str| format!("file://{}", folder.at(name));
    for objects in ["objects", "link"] {
        let backup = |dest: &str, more: &[&str]| {
            let output =
                drystone(["backup", dest, "--data", &data, "--objects", &url(objects)]).args(more).run();
            output.fails(1)
        };
        for dest in ["objects/backup", "link/backup", "objects", "."] {
            backup(&folder.at(dest), &[]);
            assert_eq!(content(&folder.at("objects")), before, "{dest}");
            assert!(!folder.path().join("backup.json").exists(), "{dest}");
        }
        for dest in ["objects", "link", "objects/copy", "."] {
            backup(&folder.at("other"), &["--objects-dest", &url(dest)]);
            assert_eq!(content(&folder.at("objects")), before, "{dest}");
        }
    }
}

#[test]
fn a_damaged_snapshot_is_not_restored_and_a_backup_is_no_store() {
    let folder = Folder::new();
    let (data, dest) = (store(&folder, "data"), folder.at("backup"));
    drystone(["backup", &dest, "--data", &data]).run().ok();
    let good = content(&dest);
    // Verification leaves the backup as it is; nothing else takes it for a store.
    drystone(["verify", "--deep", "--data", &dest]).run().ok();
    drystone(["verify", "--deep", "--resume", "--data", &dest]).run().fails(1);
    for verb in [
        &["gc", "--offline", "--grace", "0"][..],
        &["serve", "--listen", "127.0.0.1:0"],
        &["admin", "repo", "delete", "ann/model"],
        &["token", "create", "--scope", "admin"],
        &["rebuild"],
    ] {
        let output = drystone(verb).args(["--data", &dest]).run().fails(1);
        assert!(output.contains("this is a backup"), "{verb:?}: {output}");
    }
    assert_eq!(content(&dest), good);
    // Not even text that SQLite cannot check is taken for good.
    damage(&format!("{dest}/catalog.db"), "ann");
    for call in
        [drystone(["verify", "--data", &dest]), drystone(["restore", &dest, "--data", &folder.at("bad")])]
    {
        let output = call.run().fails(1);
        assert!(output.contains("not as the backup was written"), "{output}");
    }
    assert!(!folder.path().join("bad/catalog.db").exists());
    let accepted = ["restore", &dest, "--data", &folder.at("bad"), "--accept-changed-catalog"];
    drystone(accepted).run().ok();
    // The next backup replaces it.
    drystone(["backup", &dest, "--data", &data]).run().ok();
    drystone(["restore", &dest, "--data", &folder.at("restored")]).run().ok();
}

#[test]
fn a_damaged_object_of_a_backup_is_named_and_the_rest_is_restored() {
    let folder = Folder::new();
    let (data, dest) = (store(&folder, "data"), folder.at("backup"));
    drystone(["backup", &dest, "--data", &data]).run().ok();
    let bad = xorbs(&format!("{dest}/objects")).remove(0);
    damage(&bad, "");
    let name = Path::new(&bad).file_name().unwrap().to_str().unwrap();
    let ended = drystone(["restore", &dest, "--data", &folder.at("restored")]).run();
    let output = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(ended.code, Some(1), "{output}");
    assert!(output.contains(&format!("not in the backup: xorbs/{}/{name}", &name[..2])), "{output}");
    let ended = drystone(["verify", "--deep", "--data", &folder.at("restored")]).run();
    let output = String::from_utf8(ended.stdout).unwrap();
    assert!(output.contains("1 damaged") && output.contains(name), "{output}");
}

#[test]
fn restore_changes_nothing_where_something_is() {
    let folder = Folder::new();
    let (one, two, dest) = (store(&folder, "one"), store(&folder, "two"), folder.at("backup"));
    drystone(["backup", &dest, "--data", &one]).run().ok();
    let (before, target) = (content(&two), folder.at("target"));
    let (objects, catalog) = (format!("file://{two}/objects"), format!("sqlite://{two}/catalog.db"));
    for flags in [
        vec!["--data", &two],
        vec!["--data", &target, "--catalog", &catalog],
        vec!["--data", &target, "--objects", &objects],
        vec!["--data", &dest],
    ] {
        for _ in 0..2 {
            drystone(["restore", &dest]).args(&flags).run().fails(1);
            assert_eq!(content(&two), before, "{flags:?}");
            assert!(!folder.path().join("target/restore.partial").exists(), "{flags:?}");
        }
    }
    // What a run leaves that is killed before it notes that it began.
    fs::create_dir_all(format!("{target}/objects/xorbs")).unwrap();
    fs::write(format!("{target}/restore.partial.new"), "18000").unwrap();
    let restored = json(drystone(["restore", &dest, "--data", &target, "--json"]));
    assert!(number(&restored, "objects") > 4, "{restored}");
    assert!(!folder.path().join("target/restore.partial.new").exists());
}

#[test]
fn objects_named_a_directory_too_high_or_too_low_are_refused() {
    let folder = Folder::new();
    let data = store(&folder, "data");
    let before = files_under(&data);
    let url = |name: &str| format!("file://{}", folder.at(name));
    for place in ["data", "data/objects/xorbs"] {
        let output = drystone([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--data",
            &folder.at("new"),
            "--objects",
            &url(place),
        ])
        .run()
        .fails(1);
        assert!(output.contains("not the objects of a store, but"), "{output}");
        drystone(["store", "copy", &url(place), &url("copy")]).run().fails(1);
        assert!(!folder.path().join("copy/signing.key").exists());
        drystone(["store", "copy", &url("data/objects"), &url(place)]).run().fails(1);
    }
    for place in ["data/objects", "data/objects/copy", "data"] {
        drystone(["store", "copy", &url("data/objects"), &url(place)]).run().fails(1);
    }
    let mut after = files_under(&data);
    after.retain(|path| !path.ends_with(".lock") && !path.ends_with("objects/copy"));
    assert_eq!(after, before.into_iter().filter(|path| !path.ends_with(".lock")).collect::<Vec<_>>());
}

#[test]
fn what_a_killed_backup_or_restoration_left_is_removed_and_named() {
    let folder = Folder::new();
    let (data, dest, target) = (store(&folder, "data"), folder.at("backup"), folder.at("target"));
    let left = |place: &str| {
        let left =
            [format!("{place}/objects/xorbs/00/{}#7", "0".repeat(64)), format!("{place}/catalog.db.part")];
        fs::create_dir_all(Path::new(&left[0]).parent().unwrap()).unwrap();
        left.iter().for_each(|file| fs::write(file, "half").unwrap());
        left
    };
    let is_gone = |left: &[String; 2], output: &str| {
        assert!(output.contains("#7, left by a process that was killed"), "{output}");
        assert!(output.contains("catalog.db.part, left by"), "{output}");
        assert!(left.iter().all(|file| !Path::new(file).exists()), "{output}");
    };
    fs::create_dir(&dest).unwrap();
    let planted = left(&dest);
    is_gone(&planted, &drystone(["backup", &dest, "--data", &data]).run().ok());
    let planted = left(&target);
    fs::write(format!("{target}/restore.partial"), "18000").unwrap();
    is_gone(&planted, &drystone(["restore", &dest, "--data", &target]).run().ok());
    drystone(["verify", "--deep", "--data", &target]).run().ok();
}
