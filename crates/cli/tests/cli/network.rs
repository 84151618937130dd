//! Ways to a hub that are not plain: TLS with a certificate of one's own, a proxy.

use std::fs;
use std::time::{Duration, Instant};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use testkit::command::Call;
use testkit::corpus::noise;
use testkit::proxy::{Proxy, Way};

use super::cas::Server;
use super::{Folder, drystone};

fn call(folder: &Folder, args: &[&str]) -> Call {
    let admin = fs::read_to_string(folder.at("data/admin.token")).unwrap();
    let call =
        drystone(args).env("DRYSTONE_TOKEN", admin.trim()).env("DRYSTONE_CACHE_DIR", folder.at("cache"));
    call.timeout(Duration::from_secs(120))
}

#[test]
fn a_certificate_that_is_named_is_trusted_and_no_other() {
    let folder = Folder::new();
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (ca, key) = (folder.put("cert.pem", cert.pem()), folder.put("key.pem", signing_key.serialize_pem()));
    let files = [("DRYSTONE_TLS_CERT", ca.as_str()), ("DRYSTONE_TLS_KEY", key.as_str())];
    let server = Server::start_with(&folder.at("data"), &files);
    let url = server.url.as_str();
    assert!(url.starts_with("https://"), "{url}");
    let file = folder.put("file.bin", noise(1, 300_000));
    let push = ["push", "--create", "--endpoint", url, &file, "ann/m"];
    // Told at once, not after two minutes of trying.
    let complaint = call(&folder, &push).run().fails(1);
    assert!(complaint.contains("certificate"), "{complaint}");
    call(&folder, &[&push[..], &["--ca-file", &ca]].concat()).run().ok();
    let out = folder.at("out.bin");
    call(&folder, &["pull", "--ca-file", &ca, "--endpoint", url, "ann/m:file.bin", &out]).run().ok();
    assert!(folder.read("out.bin") == noise(1, 300_000));
    let none = folder.put("none.pem", "no certificate");
    let complaint = call(&folder, &["ls", "--ca-file", &none, "--endpoint", url, "ann/m"]).run().fails(1);
    assert!(complaint.contains("none.pem"), "{complaint}");
}

/// The name cannot be resolved: only through the proxy is anything there.
#[test]
fn everything_goes_through_the_proxy_that_is_named() {
    let folder = Folder::new();
    let server = Server::start(&folder.at("data"));
    let address = server.url.strip_prefix("http://").unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let proxy = runtime.block_on(Proxy::start(address)).unwrap();
    let file = folder.put("file.bin", noise(1, 300_000));
    let through = |args: &[&str]| {
        let flags = ["--token-in-clear", "--endpoint", "http://hub.invalid", "--proxy", &proxy.url()];
        call(&folder, &[args, &flags].concat())
    };
    through(&["push", "--create", &file, "ann/m"]).run().ok();
    assert!(proxy.bytes(Way::Up) > 300_000, "the data went through it, too");
    let out = folder.at("out.bin");
    through(&["pull", "ann/m:file.bin", &out]).run().ok();
    assert!(folder.read("out.bin") == noise(1, 300_000) && proxy.bytes(Way::Down) > 300_000);
}

#[test]
fn a_server_that_is_not_there_is_reported_within_seconds() {
    let folder = Folder::new();
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (ca, key) = (folder.put("cert.pem", cert.pem()), folder.put("key.pem", signing_key.serialize_pem()));
    let plain = Server::start(&folder.at("data"));
    let files = [("DRYSTONE_TLS_CERT", ca.as_str()), ("DRYSTONE_TLS_KEY", key.as_str())];
    let with_tls = Server::start_with(&folder.at("other"), &files);
    // Bound but not listening: connections are refused.
    let refusing = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = format!("http://{}", refusing.local_addr().unwrap());
    drop(refusing);
    let file = folder.put("file.bin", noise(1, 1000));
    for (url, hint) in [
        (nobody, "the server is running"),
        (plain.url.replace("http://", "https://"), "try http://"),
        (with_tls.url.replace("https://", "http://"), "try https://"),
    ] {
        for args in [&["ls", "ann/m"][..], &["push", "--create", &file, "ann/m"]] {
            let begun = Instant::now();
            let complaint = call(&folder, &[args, &["--endpoint", &url]].concat()).run().fails(1);
            assert!(complaint.contains(&format!("cannot reach {url}")), "{complaint}");
            assert!(complaint.contains(hint), "{complaint}");
            assert!(begun.elapsed() < Duration::from_secs(10), "{args:?} {url}: {:?}", begun.elapsed());
        }
    }
}
