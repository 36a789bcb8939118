//! A refused request: the breaker or limit that refused it, the reason, and the end of the refusal.

use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::host::Host;
use docstokg_policy::role::Role;
use docstokg_policy::site::{Refusal, RefusalReason};

use super::seconds;
use crate::clock::{BootInstant, Timestamp};

/// A refusal, with the facts that a caller needs to try again at the right time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedRequest {
    /// The host of the request.
    pub host: Host,
    /// The role of the request.
    pub role: Role,
    /// The breaker or limit that refused the request.
    pub by: RefusedBy,
    /// The [`Refusal`] with its reason and its end, on the boot clock.
    pub refusal: Refusal,
    /// The end of the refusal, on the wall clock.
    pub until: Timestamp,
    /// The time from the refusal to its end.
    pub cooldown_remaining: Duration,
}

/// The breaker or limit that refused a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusedBy {
    /// The breaker or limit of the host, or of its site.
    Host,
    /// The breaker of the resolver that this value names.
    Resolver(Arc<str>),
    /// The breaker of this process's local connectivity. Other processes may reach the host.
    Network,
}

impl RefusedBy {
    /// Returns the name of the resolver whose breaker refused the request; `None` if another part
    /// refused it.
    #[must_use]
    pub fn resolver(&self) -> Option<&str> {
        if let Self::Resolver(name) = self {
            Some(name)
        } else {
            None
        }
    }
}

impl RefusedRequest {
    pub(crate) fn new(
        host: &Host,
        role: Role,
        by: RefusedBy,
        refusal: Refusal,
        (now, wall): (BootInstant, Timestamp),
    ) -> Self {
        let cooldown_remaining = refusal.until.since(now);
        Self {
            host: host.clone(),
            role,
            by,
            refusal,
            until: wall + cooldown_remaining,
            cooldown_remaining,
        }
    }

    /// Returns the reason in one or two words, as events show it.
    #[must_use]
    pub fn reason(&self) -> String {
        match &self.refusal.reason {
            RefusalReason::Open { probing: true, .. } => "half-open".to_owned(),
            RefusalReason::Open { reason, .. } => reason.to_string(),
            RefusalReason::Rate {
                window: Some(window),
            } => window.to_string(),
            RefusalReason::Rate { window: None } => "rate".to_owned(),
            RefusalReason::Slots => "max_concurrent".to_owned(),
        }
    }
}

impl std::fmt::Display for RefusedRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (host, role, reason) = (&self.host, self.role, self.reason());
        let whose = match &self.by {
            RefusedBy::Host => host.to_string(),
            RefusedBy::Resolver(name) => format!("resolver {name}"),
            RefusedBy::Network => format!("{host} cannot be reached from here"),
        };
        match &self.refusal.reason {
            RefusalReason::Open { probing: true, .. } => {
                write!(
                    f,
                    "{whose}: the breaker is half-open and its probes for {role} requests are out"
                )?;
            }
            RefusalReason::Open { .. } => write!(f, "{whose}: the breaker is open ({reason})")?,
            RefusalReason::Rate { .. } => write!(
                f,
                "{whose}: the limit for {role} requests ({reason}) \
                 asks for a longer wait than allowed"
            )?,
            RefusalReason::Slots => {
                return write!(
                    f,
                    "{whose}: no slot for {role} requests came free before the deadline"
                );
            }
        }
        write!(
            f,
            "; try again at {} (in {})",
            self.until,
            seconds(self.cooldown_remaining)
        )
    }
}
