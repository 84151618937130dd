//! `drystone admin`: the same verbs in the catalog and through a running server.

use serde_json::{Value, json};

use super::drystone;
use super::repo::Site;

/// What a verb prints, line by line, asked in the catalog or through the server.
fn lines(site: &Site, by_server: bool, args: &[&str]) -> Vec<Value> {
    let mut all = vec!["admin", "--json"];
    all.extend(args);
    let data = site.folder.at("data");
    let call = match by_server {
        true => site.call(&[&all[..], &["--endpoint", &site.server.url]].concat()),
        false => drystone([&all[..], &["--data", &data]].concat()),
    };
    call.run().ok().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_server_does_what_the_catalog_does_and_both_see_it() {
    let site = Site::start();
    for by_server in [false, true] {
        let own = if by_server { "far" } else { "near" };
        let name = |rest: &str| format!("{own}{rest}");
        let (org, user, repo) = (name("-team"), name("-ann"), format!("datasets/{own}-team/corpus"));
        let do_it = |args: &[&str]| lines(&site, by_server, args);
        do_it(&["user", "create", &user]);
        do_it(&["org", "create", &org]);
        do_it(&["member", "add", &org, &user, "--write"]);
        do_it(&["repo", "create", &repo, "--private"]);
        // What one way changes, the other shows, and both show it alike.
        for verb in [&["user", "list"][..], &["org", "list"], &["repo", "list"], &["member", "list", &org]] {
            let (here, there) = (lines(&site, false, verb), lines(&site, true, verb));
            assert_eq!(here, there, "{verb:?}");
            let needle = if verb[0] == "repo" {
                &repo
            } else if verb[0] == "org" {
                &org
            } else {
                &user
            };
            let tail = needle.rsplit('/').next().unwrap();
            assert!(here.iter().any(|line| line.to_string().contains(tail)), "{verb:?}: {here:?}");
        }
        do_it(&["member", "remove", &org, &user]);
        assert_eq!(lines(&site, true, &["member", "list", &org]), [] as [Value; 0]);
        let renamed = format!("datasets/{own}-team/words");
        do_it(&["repo", "rename", &repo, &renamed]);
        do_it(&["repo", "private", &renamed, "--public"]);
        do_it(&["repo", "delete", &renamed]);
        let trash = lines(&site, true, &["trash", "list"]);
        assert_eq!(trash, lines(&site, false, &["trash", "list"]));
        let id = trash[0]["id"].as_str().unwrap();
        do_it(&["trash", "restore", id]);
        let listed = lines(&site, true, &["repo", "list"]);
        let back = listed.iter().find(|line| line.to_string().contains(&renamed["datasets/".len()..]));
        assert_eq!(back.map(|line| &line["private"]), Some(&json!(false)), "{listed:?}");
        do_it(&["repo", "delete", &renamed]);
        do_it(&["trash", "delete", id]);
        assert_eq!(lines(&site, false, &["trash", "list"]), [] as [Value; 0]);
    }
    let far =
        drystone(["admin", "user", "list", "--endpoint", "http://hub.example", "--token", "ds_no"]).run();
    assert!(far.code == Some(1) && far.stderr.contains("only sent over https"), "{}", far.stderr);
    let unknown = drystone(["admin", "user", "list", "--endpoint", &site.server.url, "--token", "ds_no"]);
    let refused = unknown.run();
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
}
