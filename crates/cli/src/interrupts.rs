//! The signals that ask a program to end: Ctrl-C, a service manager, a closed terminal.
//!
//! By default each ends the process at once, whatever it is writing, and with no exit code. So a
//! program catches them before anything else. Until a command takes them over, the first one ends
//! the process with exit code 130: nothing has been written yet. A command that leaves something
//! behind takes them before it opens its state or makes a file, and a signal that comes before the
//! command looks is kept for it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::exit::EXIT_INTERRUPTED;
use crate::output;

/// Signals that are kept for a command that does not look. A further one ends the process.
const MAX_KEPT_SIGNALS: usize = 2;

/// A command has taken the signals over.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// The signals, until a command takes them over.
static KEPT: Mutex<Option<mpsc::Receiver<SignalKind>>> = Mutex::new(None);

/// The signals for a command.
pub(crate) struct Interrupts(mpsc::Receiver<SignalKind>);

/// Keeps signals from now on for the command that takes them over later.
pub(crate) fn keep() {
    TAKEN.store(true, Ordering::SeqCst);
}

impl Interrupts {
    /// Takes the signals over from the process, which then no longer ends by them.
    pub(crate) fn take() -> anyhow::Result<Self> {
        // The flag comes first: a signal in between is kept, and the process does not end.
        keep();
        let kept = KEPT.lock().ok().and_then(|mut kept| kept.take());
        kept.map(Self).context(UNCAUGHT)
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> SignalKind {
        match self.0.recv().await {
            Some(signal) => signal,
            // The thread that catches signals lives as long as the process.
            None => std::future::pending().await,
        }
    }
}

/// The message if signals cannot be caught.
const UNCAUGHT: &str = "signals such as Ctrl-C cannot be caught";

/// Catches the signals from now on, on a thread of their own.
pub(crate) fn catch() -> anyhow::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().build();
    let runtime = runtime.context(UNCAUGHT)?;
    let entered = runtime.enter();
    let catch = |kind| signal(kind).context(UNCAUGHT);
    let mut signals = CaughtSignals {
        interrupt: catch(SignalKind::interrupt())?,
        terminate: catch(SignalKind::terminate())?,
        hangup: catch(SignalKind::hangup())?,
    };
    drop(entered);
    let (sender, receiver) = mpsc::channel(MAX_KEPT_SIGNALS);
    if let Ok(mut kept) = KEPT.lock() {
        *kept = Some(receiver);
    }
    let watch = async move {
        loop {
            let signal = signals.next().await;
            if !TAKEN.load(Ordering::SeqCst) || sender.try_send(signal).is_err() {
                output::print_note("interrupted");
                std::process::exit(i32::from(EXIT_INTERRUPTED));
            }
        }
    };
    let thread = std::thread::Builder::new().name("signals".to_owned());
    let started = thread.spawn(move || runtime.block_on(watch));
    started.map(|_| ()).context(UNCAUGHT)
}

/// The signals that are caught.
struct CaughtSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl CaughtSignals {
    async fn next(&mut self) -> SignalKind {
        tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.hangup.recv() => SignalKind::hangup(),
        }
    }
}
