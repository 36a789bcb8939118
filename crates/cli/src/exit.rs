//! Exit codes, and failures that end a command.

use std::process::ExitCode;

use docstokg_config::ConfigProblems;
use serde_json::json;

use crate::output;

/// The exit code of a failure, such as a 404 or a failed item of a download.
pub(crate) const EXIT_FAILED: u8 = 1;
/// The exit code of wrong flags or configuration; nothing was sent.
pub(crate) const EXIT_USAGE: u8 = 2;
/// The exit code of a temporary refusal by a breaker or the limiter.
pub(crate) const EXIT_REFUSED: u8 = 3;
/// The exit code of a command that Ctrl-C, SIGTERM or SIGHUP ended, as shells report it.
pub(crate) const EXIT_INTERRUPTED: u8 = 130;

/// The failure that ended a command.
#[derive(Debug)]
pub(crate) enum CommandFailure {
    /// The configuration has problems.
    Config(ConfigProblems),
    /// The flags contradict each other, or a file named by a flag cannot be used.
    Usage(String),
    /// Any other failure.
    Failed(anyhow::Error),
    /// A signal asked the command to end.
    Interrupted(String),
    /// A failure, and what can be done about it.
    WithHint(Box<Self>, String),
}

impl From<ConfigProblems> for CommandFailure {
    fn from(problems: ConfigProblems) -> Self {
        Self::Config(problems)
    }
}

impl From<anyhow::Error> for CommandFailure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl CommandFailure {
    /// Returns the failure as a part of other output.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Config(problems) => problems.to_string(),
            Self::Usage(message) | Self::Interrupted(message) => message.clone(),
            Self::Failed(error) => format!("{error:#}"),
            Self::WithHint(failure, _) => failure.message(),
        }
    }

    /// Adds what can be done about the failure.
    #[must_use]
    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self::WithHint(Box::new(self), hint.into())
    }

    /// Prints the failure once, and returns the exit code.
    pub(crate) fn report(self, as_json: bool) -> ExitCode {
        if let Self::WithHint(failure, hint) = self {
            let code = failure.report(as_json);
            output::hint(&hint);
            return code;
        }
        let (code, class, messages) = match &self {
            Self::Config(ConfigProblems(problems)) => (
                EXIT_USAGE,
                "config",
                problems.iter().map(ToString::to_string).collect(),
            ),
            Self::Usage(message) => (EXIT_USAGE, "usage", vec![message.clone()]),
            Self::Interrupted(message) => (EXIT_INTERRUPTED, "interrupted", vec![message.clone()]),
            Self::Failed(_) | Self::WithHint(..) => (EXIT_FAILED, "failed", vec![self.message()]),
        };
        for message in &messages {
            output::complain(message);
        }
        if matches!(self, Self::Config(_)) && messages.len() > 1 {
            output::hint(&format!("{} problems; nothing was sent", messages.len()));
        }
        if as_json {
            output::json(&json!({ "ok": false, "error": class, "messages": messages }));
        }
        ExitCode::from(code)
    }
}
