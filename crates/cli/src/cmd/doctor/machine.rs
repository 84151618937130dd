//! Checks of this machine: disk, port, limits.

use std::io::{self, Seek as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use client::budget;
use server::ServeConfig;
use server::free_bytes;
use server::nearest_existing;

use super::super::store_args::human;
use super::Finding;

/// The data folder: can it be written, how long does the disk take to keep something, is there room.
pub(super) fn disk(config: &ServeConfig) -> Vec<Finding> {
    let folder = nearest_existing(&config.data);
    let name = folder.display();
    let found = match folder == config.data {
        true => format!("{name} can be written"),
        false => format!("{} will be made in {name}", config.data.display()),
    };
    match sync_time(&folder) {
        Err(error) => {
            let advice = "give the folder to the user of the server (chown), or name another with --data";
            vec![Finding::fail("data folder", format!("{name}: {error}"), advice)]
        }
        Ok(time) => vec![Finding::ok("data folder", found), sync_finding(time), room(config, &folder)],
    }
}

/// The middle of a few times that a small write took until the disk had it.
fn sync_time(folder: &Path) -> io::Result<Duration> {
    let mut file = tempfile::Builder::new().prefix(".drystone-doctor-").tempfile_in(folder)?;
    let mut times = Vec::new();
    for _ in 0..SYNCS {
        let begun = Instant::now();
        file.as_file_mut().rewind()?;
        file.write_all(&[7; 4096])?;
        file.as_file().sync_all()?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    Ok(times[SYNCS / 2])
}

fn sync_finding(time: Duration) -> Finding {
    let found = format!("4 KiB are on the disk after {:.2} ms", time.as_secs_f64() * 1000.0);
    match time > SLOW_SYNC {
        true => Finding::warn("fsync", found, "every upload waits so long; a solid-state disk is quicker"),
        false => Finding::ok("fsync", found),
    }
}

fn room(config: &ServeConfig, folder: &Path) -> Finding {
    let min = config.limits.disk_free_bytes_min;
    match free_bytes(folder) {
        None => Finding::warn("free space", "unknown", "watch it by other means"),
        Some(free) if config.objects.is_none() && free < min => {
            let found = format!("{}, less than disk_free_bytes_min ({})", human(free), human(min));
            Finding::fail(
                "free space",
                found,
                "make room (drystone gc --dry-run lists what can be deleted); uploads get 507",
            )
        }
        Some(free) if config.objects.is_none() && free / 10 < min => Finding::warn(
            "free space",
            human(free),
            "uploads are refused below disk_free_bytes_min; plan for more",
        ),
        Some(free) => Finding::ok("free space", human(free)),
    }
}

/// Whether the address can be listened on, or is by a server of ours.
pub(super) async fn port(config: &ServeConfig) -> Finding {
    let listen = config.listen;
    let error = match std::net::TcpListener::bind(listen) {
        Ok(_) => return Finding::ok("port", format!("{listen} is free")),
        Err(error) => error,
    };
    let found = format!("{listen}: {error}");
    match error.kind() {
        io::ErrorKind::AddrInUse => match answers(config).await {
            Some(version) => Finding::ok("port", format!("drystone {version} answers on {listen}")),
            None => Finding::fail(
                "port",
                found,
                "another program has it: stop that, or choose another with --listen",
            ),
        },
        io::ErrorKind::PermissionDenied => {
            let advice = "ports below 1024 need the capability CAP_NET_BIND_SERVICE, or a proxy in front";
            Finding::fail("port", found, advice)
        }
        _ => Finding::fail("port", found, "this machine has no such address; see --listen"),
    }
}

/// The version of the server that answers there, if it is one of ours.
async fn answers(config: &ServeConfig) -> Option<String> {
    // Whose certificate it is does not matter to the question whether it is ours.
    let http = reqwest::Client::builder().timeout(ANSWER_TIMEOUT).tls_danger_accept_invalid_certs(true);
    let scheme = if config.tls_cert.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}/health", config.listen);
    let body = http.build().ok()?.get(url).send().await.ok()?.bytes().await.ok()?;
    let body: serde_json::Value = serde_json::from_slice(&body).ok()?;
    (body["status"] == "ok").then(|| body["version"].as_str().unwrap_or_default().to_owned())
}

/// Whether all connections that are allowed could be open at once.
pub(super) fn open_files(config: &ServeConfig) -> Finding {
    let wanted = config.limits.connections_max as usize + FILES_BESIDE_CONNECTIONS;
    match budget::open_files_max() {
        None => Finding::ok("open files", "no limit reported by the system"),
        Some(limit) if limit < wanted => {
            let found = format!("{limit}, and {} connections are allowed", config.limits.connections_max);
            let advice =
                "raise it (LimitNOFILE= in the unit, ulimit -n in a shell), or lower connections_max";
            Finding::warn("open files", found, advice)
        }
        Some(limit) => Finding::ok("open files", format!("{limit} may be open")),
    }
}

/// Whether the budget of the server is there.
pub(super) fn memory(config: &ServeConfig) -> Finding {
    let budget = config.limits.memory_bytes;
    let Some(machine) = budget::memory_of_machine() else {
        return Finding::ok("memory", "no limit reported by the system");
    };
    let found = format!("memory_bytes is {}, the machine or container has {}", human(budget), human(machine));
    match () {
        () if budget > machine => Finding::fail("memory", found, "lower memory_bytes"),
        () if budget > machine / 4 * 3 => {
            Finding::warn("memory", found, "leave a quarter for everything else: lower memory_bytes")
        }
        () => Finding::ok("memory", found),
    }
}

const SYNCS: usize = 9;
const SLOW_SYNC: Duration = Duration::from_millis(50);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The catalog, objects that are read or staged, the bucket.
const FILES_BESIDE_CONNECTIONS: usize = 512;
