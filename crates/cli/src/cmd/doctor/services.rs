//! Checks of services: catalog, bucket, clocks, certificate.

use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use server::{DataDir, Key, ServeConfig, Tls};
use store::ids::RepoId;
use store::{Catalog, Digest, ObjectKey, Objects};

use super::Finding;
use crate::clock::now_s;

/// Whether the catalog answers, how old its tables are, and how far its clock is from ours, in seconds.
pub(super) async fn catalog_of(config: &ServeConfig) -> (Finding, Option<u64>) {
    let url = match &config.catalog {
        Some(url) => url.expose().clone(),
        None => {
            let file = DataDir::new(&config.data).catalog_file();
            if !file.exists() {
                return (Finding::ok("catalog", format!("{} will be made", file.display())), None);
            }
            format!("sqlite://{}", file.display())
        }
    };
    let begun = Instant::now();
    let probed = match tokio::time::timeout(TIMEOUT, Catalog::probe(&url)).await {
        Ok(Ok(probed)) => probed,
        Ok(Err(error)) => {
            let advice =
                "check the URL of the catalog, that the database is there, and the rights of its user";
            return (Finding::fail("catalog", error.to_string(), advice), None);
        }
        Err(_) => return (Finding::fail("catalog", SILENT, "check host, port and firewall"), None),
    };
    let took = ms(begun);
    let known = probed.known_schema;
    let finding = match probed.schema {
        None => Finding::ok("catalog", format!("answers after {took}; the first start makes its tables")),
        Some(schema) if schema > known => {
            let found = format!("its tables have version {schema}, this program knows {known}");
            Finding::fail(
                "catalog",
                found,
                "a newer drystone was here: use that one, or restore the backup of before",
            )
        }
        Some(schema) if schema < known => {
            let found = format!("its tables have version {schema}, this program knows {known}");
            Finding::warn("catalog", found, "back it up; the next start brings it up to date")
        }
        Some(schema) => Finding::ok("catalog", format!("answers after {took}; tables of version {schema}")),
    };
    (finding, probed.now_s.map(|catalog_s| now_s().abs_diff(catalog_s)))
}

/// Whether catalog and objects belong together.
pub(super) async fn store(config: &ServeConfig) -> Finding {
    match server::check_store(config).await {
        Ok(found) => Finding::ok("store", found),
        Err(wrong) => Finding::fail(
            "store",
            wrong,
            "no command works on this pair: correct the settings, or rebuild the catalog",
        ),
    }
}

/// Whether objects can be written, read by range, signed for and deleted; and how far the bucket's clock is from ours.
pub(super) async fn objects(config: &ServeConfig) -> (Vec<Finding>, Option<u64>) {
    let Some(url) =
        config.objects.as_ref().map(server::Secret::expose).filter(|url| !url.starts_with("file:"))
    else {
        // The disk was checked already.
        return (Vec::new(), None);
    };
    let objects = match server::open_objects(url) {
        Ok(objects) => objects,
        Err(error) => {
            let advice = "see the guide to the server: A bucket and PostgreSQL";
            return (vec![Finding::fail("bucket", error.to_string(), advice)], None);
        }
    };
    let key = random_key();
    let mut findings = Vec::new();
    let mut off_s = None;
    // An upload part that is never completed: if the delete below fails, garbage collection deletes it.
    let examined = tokio::time::timeout(TIMEOUT, async {
        findings.push(round_trip(&objects, &key).await?);
        let signed;
        (signed, off_s) = signature(&objects, &key).await?;
        findings.extend(signed);
        objects.delete(&key).await
    });
    match examined.await {
        Ok(Ok(())) => findings.push(Finding::ok("bucket", "the object was deleted")),
        Ok(Err(error)) => {
            let advice = "the server needs to list, read, write and delete under the prefix; check AWS_* and the clock";
            findings.push(Finding::fail("bucket", error.to_string(), advice));
        }
        Err(_) => {
            findings.push(Finding::fail("bucket", SILENT, "check AWS_ENDPOINT_URL, host, port and firewall"));
        }
    }
    (findings, off_s)
}

async fn round_trip(objects: &Objects, key: &ObjectKey) -> store::Result<Finding> {
    objects.check().await?;
    let begun = Instant::now();
    objects.put(key, vec![Bytes::from_static(PROBE)]).await?;
    let put = ms(begun);
    let begun = Instant::now();
    let read = objects.range(key, PROBE_RANGE).await?;
    let get = ms(begun);
    let found = format!("an object was written in {put} and a range of it read in {get}");
    Ok(match &read[..] == probe_range() {
        true => Finding::ok("bucket", found),
        false => Finding::fail("bucket", "a range gave other bytes", "this bucket does not answer ranges"),
    })
}

/// Fetches a range as a client would, by a URL that the bucket checks. Also returns how far the date of
/// its answer is from ours.
async fn signature(objects: &Objects, key: &ObjectKey) -> store::Result<(Option<Finding>, Option<u64>)> {
    let Some(urls) = objects.presign(key, &[PROBE_RANGE], Duration::from_secs(60)).await? else {
        return Ok((None, None));
    };
    let fetch = async |range: String| -> reqwest::Result<(u16, Option<u64>, Bytes)> {
        let url = urls.first().map(String::as_str).unwrap_or_default();
        let answer = reqwest::Client::new().get(url).header("range", range).send().await?;
        let date =
            answer.headers().get("date").and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
        let date_s = date.and_then(|date| Some(date.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs()));
        let off_s = date_s.map(|date_s| now_s().abs_diff(date_s));
        Ok((answer.status().as_u16(), off_s, answer.bytes().await?))
    };
    let wanted = format!("bytes={}-{}", PROBE_RANGE.start, PROBE_RANGE.end - 1);
    let what = "signed URLs";
    let (finding, off_s) = match fetch(wanted).await {
        Err(error) => {
            // Its words would repeat the URL, which opens the object.
            let error = error.without_url();
            (
                Finding::fail(
                    what,
                    error.to_string(),
                    "set data_urls = server, or let clients reach the bucket",
                ),
                None,
            )
        }
        Ok((206, off_s, body)) if body == probe_range() => {
            let other = fetch("bytes=0-1".to_owned()).await;
            let finding = match other {
                Ok((206 | 200, ..)) => {
                    let advice = "this bucket does not check the signed Range header; set data_urls = server";
                    Finding::warn(what, "a URL for one range gave another", advice)
                }
                _ => Finding::ok(what, "the bucket gives the signed range and no other"),
            };
            (finding, off_s)
        }
        Ok((status, off_s, _)) => {
            let advice = "the bucket refuses a URL signed with the server's key; set data_urls = server, check the clock";
            (Finding::fail(what, format!("the bucket answers {status}"), advice), off_s)
        }
    };
    Ok((Some(finding), off_s))
}

/// Whether the others have the same time, by how many seconds they are off. Signatures and tokens depend on it.
pub(super) fn clock(now_s: u64, catalog_off_s: Option<u64>, bucket_off_s: Option<u64>) -> Finding {
    let advice = "let the clock be set by the network (timedatectl set-ntp true)";
    if now_s < LONG_AGO_S {
        return Finding::fail("clock", "this machine believes in a time long ago", advice);
    }
    let others = [("the catalog", catalog_off_s), ("the bucket", bucket_off_s)];
    let found =
        others.iter().filter_map(|(name, off_s)| Some(format!("{} s from that of {name}", (*off_s)?)));
    let found = found.collect::<Vec<_>>().join(", ");
    match catalog_off_s.max(bucket_off_s) {
        None => Finding::ok("clock", "nothing elsewhere to compare it with"),
        Some(worst_s) if worst_s > SKEW_FAIL_S => Finding::fail("clock", found, advice),
        Some(worst_s) if worst_s > SKEW_WARN_S => Finding::warn("clock", found, advice),
        Some(_) => Finding::ok("clock", found),
    }
}

/// Whether the key fits the certificate, how long that is good, and who may read the key.
pub(super) fn certificate(config: &ServeConfig) -> Option<Finding> {
    let files = config.tls()?;
    let what = "certificate";
    let now = SystemTime::now();
    if let Err(error) = Tls::check_at(&files, now) {
        let advice =
            "renew it, or name another with tls_cert and tls_key; SIGHUP makes a running server read them";
        return Some(Finding::fail(what, error.to_string(), advice));
    }
    if Tls::check_at(&files, now + SOON).is_err() {
        let advice = "renew it, then send SIGHUP to the server";
        return Some(Finding::warn(what, "it ends within two weeks", advice));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&files.key).map_or(0, |metadata| metadata.permissions().mode());
        if mode & 0o007 != 0 {
            let found = format!("everyone on this machine may read {}", files.key.display());
            return Some(Finding::warn(what, found, "chmod 640, with the group of the server"));
        }
    }
    Some(Finding::ok(what, "the key fits, and it is good for two weeks and more"))
}

/// A unique object name.
fn random_key() -> ObjectKey {
    let random = Key::random();
    let bytes = random.bytes();
    let mut repo = [0; 16];
    repo.copy_from_slice(&bytes.expose()[..16]);
    ObjectKey::Part { repo: RepoId::new(repo), sha256: Digest::new(*bytes.expose()), number: 1 }
}

fn probe_range() -> &'static [u8] {
    &PROBE[PROBE_RANGE.start as usize..PROBE_RANGE.end as usize]
}

fn ms(begun: Instant) -> String {
    format!("{:.1} ms", begun.elapsed().as_secs_f64() * 1000.0)
}

const PROBE: &[u8] = b"drystone doctor was here";
const PROBE_RANGE: std::ops::Range<u64> = 9..15;
const TIMEOUT: Duration = Duration::from_secs(20);
const SILENT: &str = "no answer within 20 s";
const SKEW_WARN_S: u64 = 5;
/// S3 refuses signatures that are further off.
const SKEW_FAIL_S: u64 = 15 * 60;
/// 2024: any earlier time is wrong.
const LONG_AGO_S: u64 = 1_704_067_200;
const SOON: Duration = Duration::from_secs(14 * 86_400);

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn a_clock_is_judged_by_the_furthest_of_the_others() {
        let state = |catalog_off_s, bucket_off_s| clock(LONG_AGO_S, catalog_off_s, bucket_off_s).state;
        assert_eq!(state(None, None), State::Ok);
        assert_eq!(state(Some(2), Some(5)), State::Ok);
        assert_eq!(state(Some(0), Some(6)), State::Warn);
        assert_eq!(state(Some(901), None), State::Fail);
        assert_eq!(clock(5, None, None).state, State::Fail);
    }
}
