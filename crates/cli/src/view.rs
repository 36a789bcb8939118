//! What a person sees of a run while it goes on.

use std::future::Future;
use std::sync::Arc;

use docstokg_content::run::Board;
use docstokg_hub::config::Config;
use docstokg_hub::event::{Event, Observer};

use crate::arguments::Global;
use crate::output;

/// Shows a run.
pub(crate) struct View {
    quiet: bool,
}

struct Watch;

impl Observer for Watch {
    fn note(&self, _: &Event) {}
}

impl View {
    /// Starts with nothing to show.
    pub(crate) fn new(global: &Global, _: &Config) -> Self {
        Self { quiet: global.quiet }
    }

    /// Returns what watches the hub.
    pub(crate) fn observer(&self) -> Arc<dyn Observer> {
        Arc::new(Watch)
    }

    /// Shows the run until it ends, or until whoever watches has had enough.
    pub(crate) async fn show<T>(&self, board: &Arc<Board>, work: impl Future<Output = T>, enough: impl Future<Output = ()>) -> Option<T> {
        let outcome = tokio::select! {
            outcome = work => Some(outcome),
            () = enough => None,
        };
        if !self.quiet {
            for text in board.notices() {
                output::tell(&format!("docstokg: {text}"));
            }
        }
        outcome
    }
}
