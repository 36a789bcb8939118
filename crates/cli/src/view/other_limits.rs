//! A message to the user of a run if other processes send more to a host than this run's own limits
//! allow.
//!
//! Each process applies its limits to the requests of all processes. So the requests of the
//! stricter process are rarely admitted.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use docstokg_bulk::progress::RunProgress;
use docstokg_hub::clock::{Clock, Runtime, TokioRuntime};
use docstokg_hub::diagnosis::BudgetReport;
use docstokg_hub::policy::rate::window_in_words;
use docstokg_hub::{Host, Hub};

use super::hosts::{HostLine, HostObserver};
use crate::command_line;

/// The interval between two checks of hosts with waiting requests.
const HOST_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The wait of requests from which their host is checked.
const LEAST_WAIT: Duration = Duration::from_millis(500);
/// Maximum number of hosts that are checked.
const MAX_HOSTS: usize = 8;

/// Watches the hosts of a run, and never ends. Each host is reported once.
pub(super) async fn watch(hub: &Hub, hosts: &Arc<HostObserver>, progress: &RunProgress) {
    let clock = TokioRuntime::default();
    let mut told = BTreeSet::new();
    loop {
        clock.sleep_until(clock.boot() + HOST_CHECK_INTERVAL).await;
        let lines = hosts.lines(clock.boot(), MAX_HOSTS);
        let waiting: Vec<Host> = lines
            .iter()
            .filter_map(|line: &HostLine| Host::parse(line.long_wait(LEAST_WAIT)?.host).ok())
            .collect();
        for host in waiting {
            if !told.contains(&host)
                && let Some(text) = exceeded(hub, &host).await
            {
                progress.notify(text);
                told.insert(host);
            }
        }
    }
}

/// Describes the window of a host in which other processes sent more than this run may.
async fn exceeded(hub: &Hub, host: &Host) -> Option<String> {
    let found = hub.diagnose(host).await.ok()?;
    let budgets = found.iter().flat_map(|diagnosis| &diagnosis.budgets);
    let (window, used) = budgets.flat_map(BudgetReport::exceeded).next()?;
    Some(format!(
        "{host}: other processes send more than the limits of this run allow ({used} requests in a \
         window of {}), so its requests rarely fit in; give all processes the same limits; \
         details: {}",
        window_in_words(window),
        command_line::command(&["limits", "doctor", host.as_str()])
    ))
}
