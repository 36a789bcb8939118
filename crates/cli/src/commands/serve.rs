//! `docstokg serve`: the gateway.

use std::fs::File;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use docstokg_gateway::{Gateway, GatewayOptions, GatewayServer, MetricsPage, adapt_config};
use docstokg_hub::event::Observer;
use docstokg_hub::policy::freshness::{CacheMode, Heuristic};
use docstokg_hub::stores::StateStore;
use docstokg_hub::{Hub, RelayMode};
use serde_json::json;
use tokio::signal::unix::SignalKind;
use tokio::sync::{mpsc, watch};
use url::Url;

use super::limits;
use crate::arguments::{GlobalArguments, ServeArguments, ServeCacheMode};
use crate::configuration::LoadedConfig;
use crate::exit::CommandFailure;
use crate::interrupts::Interrupts;
use crate::session::{self, Session, TaskThreads};
use crate::telemetry::{MetricsReader, RunRecording};
use crate::{output, state};

/// The time that active requests have after the first signal.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(30);
/// The longest `--max-wait`.
const MAX_WAIT: Duration = Duration::from_secs(86_400);
/// The heuristic lifetime that RFC 9111 section 4.2.2 suggests, limited to a day.
const SHARED_CACHE_HEURISTIC: Heuristic = Heuristic {
    percent: 10,
    at_most: Duration::from_secs(86_400),
};
/// The environment variable with the token.
const TOKEN_VARIABLE: &str = "DOCSTOKG_GATEWAY_TOKEN";
/// Maximum size of the token file, in bytes.
const MAX_TOKEN: usize = 4096;

/// Runs the command.
pub(crate) fn run(
    global: &GlobalArguments,
    arguments: &ServeArguments,
) -> Result<ExitCode, CommandFailure> {
    let options = options(global, arguments)?;
    let loaded = load(global, arguments)?;
    let session = Session::open(global, loaded, TaskThreads::PerCore)?;
    let recording = session.record("serve", MetricsReader::Program)?;
    let parts = Arc::new(HubRecipe {
        global: global.clone(),
        arguments: arguments.clone(),
        store: session.store,
        observer: recording.observer(),
    });
    if !global.quiet {
        limits::announce(&session.loaded.config, None);
    }
    let hub = parts.build(session.loaded)?;
    let options = GatewayOptions {
        metrics: recording
            .metrics
            .clone()
            .map(|metrics| -> MetricsPage { Arc::new(move || metrics.lock().text()) }),
        ..options
    };
    let serving = serve(&parts, options, hub, recording, session.interrupts);
    session.runtime.block_on(serving)
}

/// The parts from which a hub is built, again after each reload of the configuration.
struct HubRecipe {
    global: GlobalArguments,
    arguments: ServeArguments,
    store: Arc<dyn StateStore>,
    observer: Option<Arc<dyn Observer>>,
}

impl HubRecipe {
    fn build(&self, loaded: LoadedConfig) -> Result<Hub, CommandFailure> {
        let (store, observer) = (Arc::clone(&self.store), self.observer.clone());
        let wire = self.global.wire()?;
        session::build_hub(&self.global, loaded.config, store, wire, observer)
    }

    /// Reads the configuration again, on a separate thread. So a file that blocks delays neither
    /// the gateway nor the end of the process. The new hub is sent with the number of its signal.
    fn read_again(self: &Arc<Self>, signal: u64, read: &mpsc::UnboundedSender<ReadAgain>) {
        let (parts, sender) = (Arc::clone(self), read.clone());
        let work = move || {
            let checked = parts.global.check_files();
            let loaded = checked.and_then(|()| load(&parts.global, &parts.arguments));
            let built = loaded.and_then(|loaded| parts.build(loaded));
            // The gateway may have ended.
            let _ = sender.send((signal, built));
        };
        let thread = std::thread::Builder::new().name("configuration".to_owned());
        if let Err(error) = thread.spawn(work) {
            let failure = anyhow::Error::new(error).context("no thread can be started");
            let _ = read.send((signal, Err(failure.into())));
        }
    }

    /// Replaces the hub by a reloaded one. A configuration with problems changes nothing.
    fn use_read(&self, gateway: &Gateway, built: Result<Hub, CommandFailure>) {
        match built {
            Ok(hub) => {
                gateway.replace_hub(hub);
                if !self.global.quiet {
                    output::print_note("read the configuration again");
                }
            }
            Err(failure) => {
                let _ = failure.report(false);
                output::hint("the gateway goes on with the configuration that it had");
            }
        }
    }
}

/// The number of a signal, and the hub that was built after it.
type ReadAgain = (u64, Result<Hub, CommandFailure>);

/// Reads the configuration with the settings of a gateway.
fn load(
    global: &GlobalArguments,
    arguments: &ServeArguments,
) -> Result<LoadedConfig, CommandFailure> {
    let mut loaded = global.load()?;
    let config = &mut loaded.config;
    adapt_config(config);
    if global.deadline.is_none() {
        // A large body may take any time. Idle and slow transfers are ended anyway.
        config.transport.deadline = None;
    }
    if let Some(directory) = &arguments.store {
        config.cache.directory = Some(directory.clone());
    }
    Ok(loaded)
}

fn options(
    global: &GlobalArguments,
    arguments: &ServeArguments,
) -> Result<GatewayOptions, CommandFailure> {
    let usage = |message: String| CommandFailure::Usage(message);
    let text = &arguments.listen;
    let text = if text.starts_with(':') {
        format!("127.0.0.1{text}")
    } else {
        text.clone()
    };
    let address: SocketAddr = text
        .replace("localhost:", "127.0.0.1:")
        .parse()
        .map_err(|_| {
            usage(format!(
                "--listen: '{text}' is not an address and port such as 127.0.0.1:8100"
            ))
        })?;
    if let Some(origin) = &arguments.origin {
        check_origin(origin)?;
    }
    let wait = arguments.max_wait;
    if wait > MAX_WAIT {
        return Err(usage(format!(
            "--max-wait: {} s is longer than a day ({} s)",
            wait.as_secs_f64(),
            MAX_WAIT.as_secs()
        )));
    }
    let token = token(arguments)?;
    if !address.ip().is_loopback() && arguments.origin.is_none() && token.is_none() {
        return Err(usage(format!(
            "--listen {address}: everyone who can reach that address could send requests through \
             this machine; set a token (--token-file FILE or {TOKEN_VARIABLE}), or listen on 127.0.0.1"
        )));
    }
    Ok(GatewayOptions {
        address,
        names: arguments.name.clone(),
        origin: arguments.origin.clone(),
        upgrade: arguments.upgrade_https,
        relay: RelayMode {
            mode: match arguments.cache_mode {
                ServeCacheMode::Private => CacheMode::Private,
                ServeCacheMode::Shared => CacheMode::Shared,
            },
            hold: wait,
            heuristic: arguments.heuristic.then_some(SHARED_CACHE_HEURISTIC),
            ignored_fields: arguments.ignore_field.iter().cloned().collect(),
        },
        spool: state::directory(global)?,
        token,
        max_request_body: usize::try_from(arguments.max_request_body).unwrap_or(usize::MAX),
        max_connections: arguments.max_connections as usize,
        metrics: None,
    })
}

fn check_origin(origin: &Url) -> Result<(), CommandFailure> {
    let is_http = matches!(origin.scheme(), "http" | "https") && origin.has_host();
    let is_bare = origin.query().is_none() && origin.fragment().is_none();
    if is_http && is_bare && origin.username().is_empty() && origin.password().is_none() {
        return Ok(());
    }
    Err(CommandFailure::Usage(
        "--origin: expected http://HOST or https://HOST, with a path if need be, and without \
         credentials, query or fragment"
            .to_owned(),
    ))
}

/// Reads the token from its file or the environment.
fn token(arguments: &ServeArguments) -> Result<Option<String>, CommandFailure> {
    let (text, from) = if let Some(path) = &arguments.token_file {
        let shown = path.display().to_string();
        let text = read_token(path).map_err(|error| {
            CommandFailure::Usage(format!("--token-file: {shown} cannot be read: {error}"))
        })?;
        (text, shown)
    } else if let Ok(text) = std::env::var(TOKEN_VARIABLE) {
        (text, TOKEN_VARIABLE.to_owned())
    } else {
        return Ok(None);
    };
    let text = text.trim();
    if text.is_empty()
        || text.len() > MAX_TOKEN
        || !text.bytes().all(|byte| byte.is_ascii_graphic())
    {
        return Err(CommandFailure::Usage(format!(
            "{from}: a token has 1 to {MAX_TOKEN} visible ASCII characters and no spaces"
        )));
    }
    Ok(Some(text.to_owned()))
}

/// Reads a token file up to [`MAX_TOKEN`]. Prints a warning if other users can read the file.
fn read_token(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        output::print_note(&format!(
            "warning: other users can read {}; chmod 600 makes it private",
            path.display()
        ));
    }
    let mut text = String::new();
    file.take(2 * MAX_TOKEN as u64).read_to_string(&mut text)?;
    Ok(text)
}

async fn serve(
    parts: &Arc<HubRecipe>,
    options: GatewayOptions,
    hub: Hub,
    recording: RunRecording,
    interrupts: Interrupts,
) -> Result<ExitCode, CommandFailure> {
    let (address, is_open) = (options.address, options.token.is_none());
    let bound = GatewayServer::bind(options, hub).await;
    let server = bound.map_err(|error| {
        CommandFailure::Usage(format!(
            "--listen: {address} cannot be listened on: {error}"
        ))
    })?;
    let gateway = server.gateway();
    announce(parts, server.address(), is_open);
    let (stop, stopped) = watch::channel(false);
    let serving = server.run(stopped, SHUTDOWN_GRACE);
    tokio::select! {
        () = serving => {}
        () = signals(parts, &gateway, &stop, interrupts) => {}
    }
    // The last changes must reach the store before the process ends. If they do not, its leases
    // expire.
    let _ = gateway.hub().close().await;
    recording.close();
    Ok(ExitCode::SUCCESS)
}

fn announce(parts: &HubRecipe, address: SocketAddr, is_open: bool) {
    let (global, arguments) = (&parts.global, &parts.arguments);
    if global.json {
        // One line: a program that started the gateway reads it while the gateway runs.
        let said = json!({ "ok": true, "listening": address.to_string() });
        output::line(&said.to_string());
    }
    if global.quiet {
        return;
    }
    let what = match &arguments.origin {
        Some(origin) => format!("in front of {origin}"),
        None => "as a proxy".to_owned(),
    };
    output::print_note(&format!("listening on http://{address} {what}"));
    if !address.ip().is_loopback() && is_open {
        output::print_note(&format!(
            "warning: everyone who can reach that address can use it; --token-file or {TOKEN_VARIABLE} \
             restricts it"
        ));
    }
}

/// Handles signals: SIGHUP reloads the configuration, and the first interrupt begins the shutdown.
/// Returns at the second interrupt.
async fn signals(
    parts: &Arc<HubRecipe>,
    gateway: &Gateway,
    stop: &watch::Sender<bool>,
    mut interrupts: Interrupts,
) {
    let (sender, mut read) = mpsc::unbounded_channel();
    let (mut latest, mut in_use) = (0, 0);
    loop {
        tokio::select! {
            signal = interrupts.next() => {
                if signal == SignalKind::hangup() {
                    latest += 1;
                    parts.read_again(latest, &sender);
                    continue;
                }
            }
            Some((signal, built)) = read.recv() => {
                // A configuration of an earlier signal is older than the one in use.
                if signal > in_use {
                    in_use = if built.is_ok() { signal } else { in_use };
                    parts.use_read(gateway, built);
                }
                continue;
            }
        }
        if stop.send_replace(true) {
            return;
        }
        if !parts.global.quiet {
            output::print_note("finishing current requests; interrupt again to stop now");
        }
    }
}
