//! Events of the facade: one for each attempt to acquire a permit, and one for each cooldown.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use docstokg_hub::clock::Timestamp;
use docstokg_hub::json::escape_controls;
use docstokg_stores::private;
use parking_lot::Mutex;
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde_json::{Value as Json, json};

use super::AcquireMode;
use super::key::ServiceKey;

/// The run that an event belongs to.
#[derive(Clone, Debug)]
pub struct EventContext {
    /// The id of the run.
    pub run_id: Arc<str>,
    /// The fingerprint of the settings in use.
    pub config_hash: Arc<str>,
}

/// The outcome of an attempt to acquire a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireOutcome {
    /// The request may be sent.
    Ok,
    /// A limit was reached, and the caller did not accept a wait.
    Exceeded,
    /// The attempt failed with another error.
    Error,
}

impl AcquireOutcome {
    /// Returns the word used in events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Exceeded => "exceeded",
            Self::Error => "error",
        }
    }
}

/// An event of the facade, for a [`FacadeObserver`].
#[derive(Clone, Debug)]
pub struct FacadeEvent {
    /// The time of the event.
    pub at: Timestamp,
    /// The run of the event.
    pub run: EventContext,
    /// The key of the event; `None` if the call had no valid key.
    pub key: Option<ServiceKey>,
    /// The kind of event, with its data.
    pub what: FacadeEventKind,
}

/// The kind of a [`FacadeEvent`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FacadeEventKind {
    /// An attempt to acquire a permit ended.
    Acquire {
        /// The windows that apply to the key, such as `8/s`.
        rates: Arc<[String]>,
        /// The weight of the request.
        weight: u32,
        /// The [`AcquireMode`]: wait or fail.
        mode: AcquireMode,
        /// The time that the caller waited, in milliseconds.
        blocked_ms: f64,
        /// The outcome of the attempt.
        outcome: AcquireOutcome,
        /// The error, if the attempt ended with one.
        error: Option<String>,
    },
    /// A cooldown was registered.
    Cooldown {
        /// The length of the cooldown, in seconds.
        seconds: f64,
    },
}

impl FacadeEvent {
    /// Returns the name of the event.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self.what {
            FacadeEventKind::Acquire { .. } => "ratelimit.acquire",
            FacadeEventKind::Cooldown { .. } => "ratelimit.cooldown",
        }
    }

    /// Writes the event as a JSON object.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let mut event = json!({
            "event": self.name(),
            "ts": self.at.to_string(),
            "run_id": &*self.run.run_id,
            "config_hash": &*self.run.config_hash,
            "key": self.key.as_ref().map(ToString::to_string),
        });
        let fields = match &self.what {
            FacadeEventKind::Acquire {
                rates,
                weight,
                mode,
                blocked_ms,
                outcome,
                error,
            } => json!({
                "rates": &**rates,
                "weight": weight,
                "mode": mode.as_str(),
                "blocked_ms": blocked_ms,
                "outcome": outcome.as_str(),
                "error": error,
            }),
            FacadeEventKind::Cooldown { seconds } => json!({ "seconds": seconds }),
        };
        if let (Json::Object(event), Json::Object(fields)) = (&mut event, fields) {
            event.extend(fields);
        }
        event
    }
}

/// Receives every [`FacadeEvent`]. Implementations must not block.
pub trait FacadeObserver: Send + Sync {
    /// Receives an event of the facade.
    fn note(&self, event: &FacadeEvent);
}

/// The flag of `open` that refuses symbolic links, so that events are never written to the target
/// of a link.
const NO_FOLLOW: i32 = OFlags::NOFOLLOW.bits().cast_signed();

/// A [`FacadeObserver`] that appends events to a file, one JSON object per line.
#[derive(Debug)]
pub struct JsonLines(Mutex<File>);

impl JsonLines {
    /// Opens a file to append to. If the file is new, only its owner can read it.
    ///
    /// # Errors
    /// The I/O error if the file cannot be opened, or is a symbolic link.
    pub fn append(path: &Path) -> std::io::Result<Self> {
        private::make_file(path)?;
        let opened = OpenOptions::new()
            .append(true)
            .custom_flags(NO_FOLLOW)
            .open(path);
        let file = opened.map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::LOOP) => std::io::Error::other(
                "it is a symbolic link, which is not followed; name the file itself",
            ),
            _ => error,
        })?;
        Ok(Self(Mutex::new(file)))
    }
}

impl FacadeObserver for JsonLines {
    fn note(&self, event: &FacadeEvent) {
        let line = format!("{}\n", escape_controls(event.to_json().to_string()));
        // Write each line in a single call, so that lines of several processes do not mix. If the
        // disk is full, events are lost, but no request fails.
        let _ = self.0.lock().write_all(line.as_bytes());
    }
}
