//! `drystone serve`: a XET server in one command.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use server::collect_at_intervals;
use server::{AppState, DataDir, DataUrls, Layers, Metrics, ServeConfig, Tls};
use server::{OpenStore, Opening};
use server::{Stopped, reload_on_hangup, serve, stop_signal};
use tokio::net::{TcpListener, TcpSocket};

use super::store_args::layers;
use crate::output::{CliError, block_on, complain};

/// Serve the XET protocol, by default from a folder
///
/// Every setting can also be given in a file (--config) or as a variable `DRYSTONE_<NAME>`; flags outweigh both. Settings without a flag
/// of their own: see the file's names in the guide.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  drystone serve\n  \
                        drystone serve --listen 127.0.0.1:0 --data /srv/drystone\n  \
                        drystone serve --objects s3://bucket/prefix --catalog postgres://host/name\n  \
                        drystone token create --scope write --repo ann/model")]
pub(crate) struct Serve {
    /// Address and port to listen on; port 0 takes a free one [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,

    /// Folder of everything that is stored [default: drystone-data]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,

    /// URL of the objects, such as `s3://bucket/prefix` [default: in the data directory]
    #[arg(long, value_name = "URL")]
    objects: Option<String>,

    /// URL of the catalog, such as `postgres://host/name` [default: in the data directory]
    #[arg(long, value_name = "URL")]
    catalog: Option<String>,

    /// Source of data for clients: bucket, server, or auto: the bucket if it is public [default: auto]
    #[arg(long, value_name = "AUTO|SERVER|BUCKET")]
    data_urls: Option<String>,

    /// URL of the server for clients [default: the listen address]
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,

    /// Require tokens: on, or off for a loopback address [default: on]
    #[arg(long, value_name = "ON|OFF")]
    auth: Option<String>,

    /// A file of settings, in TOML [default: `$DRYSTONE_CONFIG`, else /etc/drystone/drystone.toml where it exists and nothing else names a store]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Serve {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        let config = ServeConfig::load(&self.layers()?)?;
        server::start_logging(config.log_format, config.log_level);
        block_on(run(config))
    }

    /// Settings from the file, the environment and the flags.
    pub(super) fn layers(&self) -> Result<Layers, CliError> {
        let flags = [
            ("listen", &self.listen),
            ("data", &self.data),
            ("objects", &self.objects),
            ("catalog", &self.catalog),
            ("data_urls", &self.data_urls),
            ("public_url", &self.public_url),
            ("auth", &self.auth),
        ];
        layers(self.config.as_deref(), &flags)
    }
}

async fn run(config: ServeConfig) -> Result<ExitCode, CliError> {
    let data_dir = DataDir::new(&config.data);
    let OpenStore { objects, catalog, .. } = data_dir.open_parts(&config, Opening::Create).await?;
    let keys = data_dir.shared_keys(&config, &catalog).await?;
    let store = DataDir::store(&config, &keys, objects, catalog);
    let mut drafts = store.remove_drafts().await?;
    drafts.append(&mut data_dir.remove_leftovers().unwrap_or_default());
    store.compute_digests_early();
    let is_first = data_dir.bootstrap_admin_token(&config, &keys, &store, crate::clock::now_s()).await?;
    let data_urls = DataUrls::choose(&config, &store).await?;
    let tls = config.tls().as_ref().map(Tls::open).transpose().map_err(CliError::message)?;
    let listen = config.listen;
    let at = |error| CliError::Io(listen.to_string(), error);
    let listener = listener(listen).map_err(at)?;
    let bound = listener.local_addr().map_err(at)?;
    let (data, auth) = (config.data.clone(), config.auth);

    let (sweeps, sweep_config) = (store.clone(), config.clone());
    tokio::spawn(async move { collect_at_intervals(sweeps, &sweep_config).await });
    let mut state = AppState::new(config, &keys, bound).with_store(store).with_data_urls(data_urls);
    if let Some(tls) = tls {
        state = state.with_tls(tls.clone());
        tokio::spawn(reload_on_hangup(tls));
    }
    if let Ok(metrics) = Metrics::install() {
        tokio::spawn(metrics.clone().sum_up());
        state = state.with_metrics(metrics);
    }
    let mut out = io::stdout().lock();
    if !drafts.is_empty() {
        let names = drafts.iter().take(20).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = if drafts.len() > 20 { ", …" } else { "" };
        writeln!(
            out,
            "removed {} unfinished files of a process that was killed: {names}{more}",
            drafts.len()
        )?;
    }
    if is_first {
        writeln!(out, "the admin token is in {}", data_dir.admin_token_file().display())?;
    }
    if auth {
        let data = data.display();
        writeln!(
            out,
            "tokens for clients: drystone token create --data {data} --scope write --repo NAMESPACE/NAME"
        )?;
    }
    if let DataUrls::Bucket(_) = state.data_urls {
        writeln!(out, "clients fetch data from the bucket")?;
    }
    writeln!(out, "listening on {}", state.base_url)?;
    out.flush()?;
    drop(out);

    let served = serve(listener, server::app(state.clone()), &state, stop_signal()).await.map_err(at)?;
    if served == Stopped::Cut {
        complain(&"stopped while requests were still running");
    }
    Ok(ExitCode::SUCCESS)
}

/// A listener with a queue for many clients that connect at once. The system drops connections beyond it, and those clients retry
/// after a second.
fn listener(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // As the standard library's listener: a restart does not wait for earlier connections.
    socket.set_reuseaddr(cfg!(unix))?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// The system limits it further (`net.core.somaxconn`, 4096 on Linux).
const BACKLOG: u32 = 4096;

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_crowd_that_connects_at_once_finds_room_before_anyone_is_accepted() {
        let listener = listener("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let connect = |_| TcpStream::connect_timeout(&address, Duration::from_millis(500));
        let crowd: Vec<_> = (0..500).map(connect).collect();
        assert!(crowd.iter().all(Result::is_ok), "{:?}", crowd.iter().find(|one| one.is_err()));
    }
}
