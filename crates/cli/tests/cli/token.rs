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
    pub(crate) said: String,
}

impl Server {
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drystone"));
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = String::new();
        let address = loop {
            let line = lines.next().expect("the server says where it listens").unwrap();
            said += &format!("{line}\n");
            if let Some((_, address)) = line.split_once("listening on http://") {
                break address.to_owned();
            }
        };
        Self { child, address, said }
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
    assert!(server.said.contains("admin.token"), "{}", server.said);
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
