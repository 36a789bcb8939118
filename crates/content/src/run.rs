//! A run: works in, files out, politely and as fast as the limits allow.
//!
//! [`inputs`] are read into the queue's file while the first works are already under way. Each work
//! is a [`Pursuit`] that takes one step at a time: a look-up, a page, a file. Before each step it
//! stands in the lane of the site it goes to; `lanes` says who is next, `steps` does it. What waits
//! for the rate waits in the hub's own lines and holds nothing; what a host wants to be left alone
//! for is put away and comes back when it is due.
//!
//! [`Pursuit`]: crate::pursuit::Pursuit

mod board;
mod deliverables;
mod directory;
mod engine;
mod flow;
mod ingest;
pub mod inputs;
mod lanes;
mod network;
pub mod query;
mod reopen;
mod report;
mod saving;
mod steps;
mod waits;
mod watch;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::clock::Runtime;
use docstokg_hub::{Hub, Role};

pub use board::{Board, Tally};
pub use deliverables::{Standing, deliver};
pub use directory::{Directory, DirectoryError, verify};
pub use engine::Engine;
pub use flow::{Ended, RunError};
pub use network::Reachability;
pub use report::{Report, report};
pub use waits::{Deferral, WaitingFor};

use crate::layout::Layout;
use crate::pursuit::Kind;
use crate::queue::Queue;
use crate::resolver::order::Choice;
use crate::resolver::settings::Settings;

/// How a run goes about it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where files go.
    pub out: PathBuf,
    /// The kinds wanted.
    pub kinds: BTreeSet<Kind>,
    /// Whom to ask.
    pub choice: Choice,
    /// The most works in hand at once.
    pub workers: usize,
    /// The role of requests for files.
    pub role: Role,
    /// How files are laid out.
    pub layout: Layout,
    /// The most requests for one work.
    pub max_attempts: u32,
    /// The most time that one work may take from its first step on, put away or not.
    pub item_deadline: Option<Duration>,
    /// The most bytes of files in one run.
    pub max_bytes: Option<u64>,
    /// The room that is left on the disk.
    pub min_free: u64,
    /// The least a PDF has.
    pub min_pdf_bytes: u64,
    /// Whether robots.txt is not asked.
    pub ignore_robots: bool,
    /// URLs of inputs were written by others: they do not lead into the private network.
    pub untrusted_input: bool,
    /// Whether sites get the cookies back that they set on the way, in memory and for this run.
    pub cookies: bool,
    /// What is left undone.
    pub rehearsal: Rehearsal,
    /// The longest wait for paused hosts when nothing else is left to do.
    pub max_wait: Duration,
    /// The limits in force, for the record of the run.
    pub limits: serde_json::Value,
}

/// How much of the work is really done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rehearsal {
    /// All of it.
    #[default]
    No,
    /// No request is made at all.
    DryRun,
    /// Places are looked up and listed, files are not fetched.
    ListOnly,
}

impl Options {
    /// The usual way, into a directory.
    #[must_use]
    pub fn new(out: PathBuf) -> Self {
        Self {
            out,
            kinds: BTreeSet::from([Kind::Pdf]),
            choice: Choice::default(),
            workers: 2_000,
            role: Role::Artifact,
            layout: Layout::ByKind,
            max_attempts: 20,
            item_deadline: None,
            max_bytes: None,
            min_free: 64 << 20,
            min_pdf_bytes: crate::sniff::MIN_PDF_BYTES,
            ignore_robots: false,
            untrusted_input: false,
            cookies: false,
            rehearsal: Rehearsal::No,
            max_wait: Duration::from_secs(3_600),
            limits: serde_json::Value::Null,
        }
    }
}

/// What a run is made of.
pub struct Parts {
    /// The hub that every request passes.
    pub hub: Hub,
    /// Time and background work.
    pub runtime: Arc<dyn Runtime>,
    /// The queue of the out directory.
    pub queue: Queue,
    /// Where services are, and how we identify ourselves.
    pub settings: Arc<Settings>,
    /// How to go about it.
    pub options: Options,
    /// The name of the run.
    pub run_id: String,
    /// Where it can be watched.
    pub board: Arc<Board>,
    /// Tells whether hosts can be reached at all; with `None` that is not looked at.
    pub reachability: Option<Arc<dyn Reachability>>,
}
