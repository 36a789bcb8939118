//! The signals that end a command.

use anyhow::Context;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The interrupt signals: Ctrl-C, the stop of a service manager, and the close of a terminal.
///
/// By default each signal ends the process at once, even during a write. So a command that leaves
/// files behind catches the signals before it opens its state or creates a file. Signals are kept
/// until the command handles them.
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

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> SignalKind {
        tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.hangup.recv() => SignalKind::hangup(),
        }
    }
}
