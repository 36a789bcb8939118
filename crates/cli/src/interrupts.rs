//! The signals that ask a command to end.

use anyhow::Context;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ctrl-C, a service manager that stops the process, and a closed terminal.
///
/// By default each ends the process at once, whatever it is writing. So a command that leaves
/// something behind catches them before it opens its state or makes a file. What comes before the
/// command looks is kept for it.
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Interrupts {
    /// Catches the signals from now on.
    pub(crate) fn catch(runtime: &Runtime) -> anyhow::Result<Self> {
        let _entered = runtime.enter();
        let catch = |kind| signal(kind).context("signals such as Ctrl-C cannot be caught");
        Ok(Self {
            interrupt: catch(SignalKind::interrupt())?,
            terminate: catch(SignalKind::terminate())?,
            hangup: catch(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> SignalKind {
        tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.hangup.recv() => SignalKind::hangup(),
        }
    }
}
