//! Two servers over one bucket and one database: restarted, killed, and with what is behind them failing.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::thread;

use testkit::postgres::Postgres;
use testkit::s3::S3;
use testkit::upload::Cas;

use super::load::Load;
use super::wires::{Balancer, Mode, Wire};
use super::{Plan, Server, until};

/// Two servers behind a balancer.
struct Pair {
    plans: [Plan; 2],
    servers: [Server; 2],
    balancer: Balancer,
}

impl Pair {
    fn start(folder: &Path, s3: &S3, endpoint: Option<&Wire>, objects: &str, catalog: &str) -> Self {
        let (listener, url) = Balancer::reserve();
        let mut environment = s3.environment();
        if let Some(wire) = endpoint {
            environment.retain(|(name, _)| name != "AWS_ENDPOINT_URL");
            environment.push(("AWS_ENDPOINT_URL".into(), format!("http://{}", wire.address)));
        }
        let plans = ["a", "b"].map(|name| {
            let flags =
                ["--objects", objects, "--catalog", catalog, "--data-urls", "server", "--public-url", &url];
            let mut plan = Plan::new(&folder.join(name)).flags(&flags).set("shutdown_delay_s", "3");
            plan.environment.extend(environment.clone());
            // Where it comes back when it is started again.
            plan.listen = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
            plan
        });
        let servers = plans.each_ref().map(Plan::start);
        let balancer = Balancer::start(listener, &plans.each_ref().map(|plan| plan.listen.parse().unwrap()));
        until("both are ready", || balancer.ready() == 2);
        Self { plans, servers, balancer }
    }

    fn client(&self) -> Cas {
        self.plans[0].client(&self.balancer.url)
    }

    fn logs(&self) -> String {
        self.plans.iter().map(Plan::log).collect()
    }

    /// Runs clients beside something else, and checks at the end that what was acknowledged can be read.
    fn under_load(mut self, work: impl FnOnce(&mut Self, &Load)) {
        let (load, cas) = (Load::default(), self.client());
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| load.work(&cas));
            }
            // Also when it panics, or the clients go on for ever.
            let guard = Stop(&load);
            load.wait_for(3);
            work(&mut self, &load);
            load.wait_for(3);
            drop(guard);
        });
        until("both are ready", || self.balancer.ready() == 2);
        // Each connection goes to the other server.
        load.check(&self.client()).unwrap();
    }
}

struct Stop<'a>(&'a Load);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[test]
fn servers_are_restarted_one_after_the_other_and_no_request_fails() {
    let Some(postgres) = Postgres::start() else { return };
    let (s3, folder) = (S3::start(), tempfile::tempdir().unwrap());
    let pair = Pair::start(folder.path(), &s3, None, &s3.fresh_bucket(), &postgres.fresh_database());
    pair.under_load(|pair, load| {
        for n in 0..2 {
            let ended = pair.servers[n].terminate();
            assert_eq!(ended.code(), Some(0), "{}", pair.logs());
            load.wait_for(2);
            pair.servers[n] = pair.plans[n].start();
            until("both are ready", || pair.balancer.ready() == 2);
            load.wait_for(2);
        }
        assert_eq!(load.failures(), [""; 0], "{}", pair.logs());
    });
}

#[test]
fn a_server_that_is_killed_loses_nothing_and_the_other_goes_on() {
    let Some(postgres) = Postgres::start() else { return };
    let (s3, folder) = (S3::start(), tempfile::tempdir().unwrap());
    let pair = Pair::start(folder.path(), &s3, None, &s3.fresh_bucket(), &postgres.fresh_database());
    pair.under_load(|pair, load| {
        pair.servers[0].kill();
        load.wait_for(6);
        pair.servers[0] = pair.plans[0].start();
    });
}

#[test]
fn the_database_fails_over_to_a_standby_and_servers_go_on_without_a_restart() {
    let Some(primary) = Postgres::start() else { return };
    let database = primary.fresh_database();
    let standby = primary.standby();
    let local = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let wire = Wire::to(local(primary.port()));
    let catalog = database.replace(&format!(":{}/", primary.port()), &format!(":{}/", wire.address.port()));
    assert_ne!(catalog, database);
    let (s3, folder) = (S3::start(), tempfile::tempdir().unwrap());
    let pair = Pair::start(folder.path(), &s3, None, &s3.fresh_bucket(), &catalog);
    pair.under_load(|pair, load| {
        primary.kill();
        until("both say that they are not ready", || pair.balancer.ready() == 0);
        standby.promote();
        wire.move_to(local(standby.port()));
        until("both are ready", || pair.balancer.ready() == 2);
        assert!(pair.servers.iter_mut().all(Server::is_running), "{}", pair.logs());
        load.wait_for(3);
    });
}

#[test]
fn a_bucket_that_is_away_slow_or_full_is_survived() {
    let Some(postgres) = Postgres::start() else { return };
    let (s3, folder) = (S3::start(), tempfile::tempdir().unwrap());
    if !s3.is_ours() {
        return;
    }
    let wire = Wire::to(s3.endpoint().strip_prefix("http://").unwrap().parse().unwrap());
    let pair = Pair::start(folder.path(), &s3, Some(&wire), &s3.fresh_bucket(), &postgres.fresh_database());
    pair.under_load(|pair, load| {
        wire.set(Mode::Slow);
        load.wait_for(3);
        load.failures();
        wire.set(Mode::Cut);
        until("both say that they are not ready", || pair.balancer.ready() == 0);
        wire.set(Mode::Pass);
        until("both are ready", || pair.balancer.ready() == 2);
        load.wait_for(3);
        load.failures();
        // Full: what is there is read, and what comes is refused as something that may work later.
        wire.set(Mode::Full);
        until("an upload is refused", || load.failures().iter().any(|failure| failure.contains("503")));
        load.check(&pair.client()).unwrap();
        wire.set(Mode::Pass);
        load.wait_for(3);
        assert!(pair.servers.iter_mut().all(Server::is_running), "{}", pair.logs());
    });
}
