//! What a download prints when it starts, and the signals that stop it.

use std::sync::Arc;

use docstokg_bulk::progress::Progress;
use docstokg_content::resolver::order::Choice;
use docstokg_content::resolver::settings::Settings;
use docstokg_hub::config::{Config, show};
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::Global;
use crate::commands::limits;
use crate::commands::services;
use crate::{output, state};

/// Prints the limits that hold, and what of the command line or the sources has no effect.
pub(super) fn introduce(
    global: &Global,
    config: &Config,
    services: &Arc<Settings>,
    choice: &Choice,
) {
    if global.deadline.is_some() {
        output::tell(
            "docstokg: --deadline bounds single requests of fetch, not a download; \
             --item-deadline SECONDS bounds each work",
        );
    }
    if !global.quiet {
        announce(global, config);
        for line in services::unavailable(services, choice) {
            output::tell(&format!("docstokg: {line}"));
        }
    }
}

/// Prints the limits in force, and once per state directory that no contact address is configured.
fn announce(global: &Global, config: &Config) {
    output::tell(&if global.verbose {
        limits::text(&show::limit_rows(config, None), config)
    } else {
        limits::one_line(config)
    });
    if config.identity.mailto.is_none()
        && config.identity.url.is_none()
        && state::is_first(global, "contact-notice")
    {
        output::tell(
            "docstokg: no contact address is configured; operators can reach you with \
             --mailto you@example.org (identity.mailto)",
        );
    }
}

/// Ends at the second interrupt; the first only asks the run to stop. A closed terminal and a
/// service manager that stops the process are interrupts like Ctrl-C.
pub(crate) async fn interrupts(progress: &Progress) {
    let handlers = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
    ]
    .map(signal);
    let [Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)] = handlers else {
        // Without handlers the signals end the process, as by default.
        return std::future::pending().await;
    };
    for times in 0.. {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
        if times > 0 {
            return;
        }
        progress.cancel();
        progress.notify(
            "finishing current downloads; interrupt again to stop now (nothing is lost either way)",
        );
    }
}
