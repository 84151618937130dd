//! `drystone token`, beside a server that runs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Folder, drystone, json, text};

/// A server on a free port, ended when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    pub(crate) output: String,
}

impl Server {
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drystone"));
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut output = String::new();
        let address = loop {
            let line = lines.next().expect("the server says where it listens").unwrap();
            output += &format!("{line}\n");
            if let Some((_, address)) = line.split_once("listening on http://") {
                break address.to_owned();
            }
        };
        Self { child, address, output }
    }

    /// The status of a GET with a token, and the whole answer.
    pub(crate) fn get(&self, path: &str, token: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        (answer[9..12].parse().unwrap(), answer)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const ROUTE: &str = "/api/models/ann/model/xet-read-token/main";

#[test]
fn tokens_are_made_listed_and_revoked_while_the_server_runs() {
    let folder = Folder::new();
    let data = folder.at("data");
    let server = Server::start(&["--data", &data]);
    let call = |args: &[&str]| drystone(args.iter().copied().chain(["--data", &data]));
    assert!(server.output.contains("admin.token"), "{}", server.output);
    let admin = String::from_utf8(folder.read("data/admin.token")).unwrap().trim().to_owned();
    for repo in ["ann/model", "bob/model"] {
        call(&["admin", "repo", "create", repo, "--private"]).run().ok();
    }
    assert_eq!(server.get(ROUTE, &admin).0, 200);

    let create = ["token", "create", "--scope", "read", "--namespace", "ann", "--label", "ci"];
    let made = json(call(&[&create[..], &["--json"]].concat()));
    let token = text(&made, "token").to_owned();
    assert_eq!(server.get(ROUTE, &token).0, 200, "the running server knows it at once");
    assert_eq!(server.get("/api/models/bob/model/xet-read-token/main", &token).0, 404);

    let listed = call(&["token", "list"]).run().ok();
    assert!(
        listed.contains(text(&made, "id")) && listed.contains("ann/*") && listed.contains("ci"),
        "{listed}"
    );
    let shown = json(call(&["token", "list", "--json"]));
    for secret in [&token, &admin] {
        assert!(!listed.contains(secret.as_str()) && !shown.to_string().contains(secret.as_str()));
    }
    assert_eq!(shown.as_array().unwrap().len(), 2);

    let second = json(call(&[&create[..], &["--json"]].concat()));
    let complaint = call(&["token", "revoke", "ci"]).run().fails(1);
    assert!(complaint.contains(text(&made, "id")) && complaint.contains(text(&second, "id")), "{complaint}");
    call(&["token", "revoke", text(&second, "id")]).run().ok();
    let revoked = json(call(&["token", "revoke", "ci", "--json"]));
    assert_eq!((text(&revoked, "id"), text(&revoked, "state")), (text(&made, "id"), "revoked"));

    let end = Instant::now() + Duration::from_secs(60);
    while server.get(ROUTE, &token).0 == 200 {
        assert!(Instant::now() < end, "a revoked token is refused in the end");
        std::thread::sleep(Duration::from_millis(100));
    }
    let (status, answer) = server.get(ROUTE, &token);
    assert!(status == 401 && answer.contains("the token was revoked"), "{answer}");
    assert_eq!(json(call(&["token", "list", "--json"])).as_array().unwrap().len(), 1);
    assert_eq!(json(call(&["token", "list", "--all", "--json"])).as_array().unwrap().len(), 3);
    call(&["token", "revoke", "nobody"]).run().fails(1);
}

#[test]
fn where_no_server_was_no_catalog_is_made() {
    let folder = Folder::new();
    let data = folder.at("data");
    for args in [&["create", "--scope", "read", "--everywhere"][..], &["list"], &["revoke", "x"]] {
        let complaint =
            drystone(["token"].iter().chain(args).copied().chain(["--data", &data])).run().fails(1);
        assert!(complaint.contains("drystone serve"), "{complaint}");
    }
    assert!(folder.names().is_empty());
    let both = ["token", "create", "--scope", "admin", "--repo", "ann/a", "--data", &data];
    drystone(both).run().fails(2);
}

#[test]
fn a_token_needs_a_place_and_belongs_to_a_user_who_is_there() {
    let folder = Folder::new();
    let data = folder.at("data");
    let server = Server::start(&["--data", &data]);
    let call = |args: &[&str]| drystone(args.iter().copied().chain(["--data", &data]));
    for scope in ["read", "write"] {
        let complaint = call(&["token", "create", "--scope", scope]).run().fails(2);
        for flag in ["--repo", "--namespace", "--everywhere"] {
            assert!(complaint.contains(flag), "{complaint}");
        }
    }
    call(&["token", "create", "--scope", "admin"]).run().ok();
    let of_ann = ["token", "create", "--scope", "write", "--everywhere", "--subject", "ann"];
    let complaint = call(&of_ann).run().fails(1);
    assert!(complaint.contains("drystone admin user create ann"), "{complaint}");
    for args in [["user", "create", "ann"], ["org", "create", "team"]] {
        call(&["admin", args[0], args[1], args[2]]).run().ok();
    }
    let of_team = ["token", "create", "--scope", "write", "--everywhere", "--subject", "team"];
    assert!(call(&of_team).run().fails(1).contains("service token"));
    let token = call(&of_ann).run().ok().trim().to_owned();
    let (status, answer) = server.get("/api/whoami-v2", &token);
    assert!(status == 200 && answer.contains("\"name\":\"ann\""), "{answer}");
    let service = call(&["token", "create", "--scope", "read", "--namespace", "team"]).run().ok();
    let (_, answer) = server.get("/api/whoami-v2", service.trim());
    assert!(answer.contains("\"name\":\"team\"") && answer.contains("team (service token)"), "{answer}");
}

#[test]
fn users_are_disabled_enabled_and_deleted_and_get_passwords() {
    let folder = Folder::new();
    let data = folder.at("data");
    let server = Server::start(&["--data", &data]);
    let admin = String::from_utf8(folder.read("data/admin.token")).unwrap().trim().to_owned();
    let endpoint = format!("http://{}", server.address);
    // Straight in the catalog, and through the server.
    for (name, more) in [
        ("ann", vec!["--data", data.as_str()]),
        ("bob", vec!["--endpoint", endpoint.as_str(), "--token", admin.as_str()]),
    ] {
        let user = |args: &[&str]| {
            drystone(["admin", "user"].iter().chain(args).copied().chain(more.iter().copied()))
        };
        user(&["create", name]).run().ok();
        user(&["password", name, "--stdin"]).stdin(b"correct horse\n").run().ok();
        let short = user(&["password", name, "--stdin"]).stdin(b"short\n").run().fails(1);
        assert!(short.contains("10 characters"), "{short}");
        assert!(user(&["password", name]).run().fails(1).contains("--stdin"));
        user(&["password", name, "--remove"]).run().ok();
        assert_eq!(user(&["disable", name]).run().ok().trim(), format!("{name} disabled"));
        let of_disabled =
            ["token", "create", "--data", &data, "--scope", "read", "--everywhere", "--subject", name];
        assert!(drystone(of_disabled).run().fails(1).contains("is disabled"));
        assert!(user(&["list"]).run().ok().contains(&format!("{name} disabled")));
        assert_eq!(user(&["enable", name]).run().ok().trim(), name);
        let repo = format!("{name}/model");
        let token =
            ["token", "create", "--data", &data, "--scope", "write", "--everywhere", "--subject", name];
        let token = drystone(token).run().ok().trim().to_owned();
        drystone(["admin", "repo", "create", &repo, "--private", "--data", &data]).run().ok();
        let refused = user(&["delete", name]).run().fails(1);
        assert!(refused.contains(&repo), "{refused}");
        drystone(["admin", "repo", "delete", &repo, "--data", &data]).run().ok();
        user(&["delete", name]).run().ok();
        assert!(!user(&["list"]).run().ok().contains(name));
        assert!(user(&["create", name]).run().fails(1).contains("reserved"));
        assert!(user(&["disable", "nobody"]).run().fails(1).contains("no user nobody"));
        assert_eq!(server.get("/api/whoami-v2", &token).0, 401);
    }
    let org = |args: &[&str]| {
        drystone(["admin", "org"].iter().chain(args).copied().chain(["--data", data.as_str()]))
    };
    org(&["create", "team"]).run().ok();
    org(&["delete", "team"]).run().ok();
    assert_eq!(org(&["list"]).run().ok(), "");
}
