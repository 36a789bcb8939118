//! Calls of the script and its replies. Both hold lengths of time, not instants: the server has a
//! clock of its own.

use std::time::Duration;

use docstokg_policy::classify::Outcome;
use docstokg_policy::time::micros;
use redis::Cmd;

mod limits;
mod question;
mod reply;

pub(super) use limits::{Lacking, LimitsPart};
pub(super) use question::Question;
pub(super) use reply::{Malformed, Reply};

/// "Forever", to the script: its numbers are exact up to here.
const FAR: u64 = (1 << 53) - 1;

/// A call of the script: the operation, the time to use, the question, and further arguments.
pub(super) struct ScriptCall {
    pub(super) arguments: Cmd,
    /// Whether it may run twice: then it permits less, not more.
    pub(super) may_repeat: bool,
}

impl ScriptCall {
    /// Starts a call of the script with this hash on a site. `now` is for tests; otherwise the
    /// server's clock counts.
    pub(super) fn new(hash: &str, key: &str, question: &[u8], op: &str, now: Option<u64>) -> Self {
        let mut arguments = Cmd::with_capacity(8, 128 + key.len() + question.len());
        arguments
            .arg("EVALSHA")
            .arg(hash)
            .arg("1")
            .arg(key)
            .arg(question);
        // Defaults are left out, so that a plain `enter` is as short as possible.
        match now {
            Some(now) => drop(arguments.arg(op).arg(now)),
            None if op == "enter" => {}
            None => drop(arguments.arg(op).arg("-1")),
        }
        Self {
            arguments,
            may_repeat: !matches!(op, "hold" | "leave"),
        }
    }

    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.arguments.arg(text);
        self
    }

    pub(super) fn number(&mut self, number: u64) -> &mut Self {
        self.arguments.arg(number);
        self
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.arguments.arg(bytes);
        self
    }

    /// Adds which version of the host's limits the process knows, if the call is about them.
    pub(super) fn version(&mut self, version: Option<u64>) -> &mut Self {
        match version {
            Some(version) => self.number(version),
            None => self.text("-1"),
        }
    }

    pub(super) fn length(&mut self, length: Duration) -> &mut Self {
        self.number(in_micros(length))
    }

    pub(super) fn optional(&mut self, length: Option<Duration>) -> &mut Self {
        match length {
            Some(length) => self.length(length),
            None => self.text("-1"),
        }
    }

    pub(super) fn flag(&mut self, flag: bool) -> &mut Self {
        self.text(if flag { "1" } else { "0" })
    }

    pub(super) fn outcome(&mut self, outcome: Outcome) -> &mut Self {
        self.text(outcome.as_str())
    }
}

fn in_micros(length: Duration) -> u64 {
    micros(length).min(FAR)
}
