//! `fetch --explain`: a line per decision, with its time.

use docstokg_hub::clock::BootInstant;
use docstokg_hub::config::show::change_hint;
use docstokg_hub::diagnosis::Obstacle;
use docstokg_hub::event::{Event, EventKind, Observer};
use docstokg_hub::policy::breaker::Transition;
use docstokg_hub::policy::rate::{LimitBasis, limit_in_words};
use docstokg_hub::policy::site::{Refusal, RefusalReason};

use crate::{output, stated};

/// Prints every event, with the time since it was created.
pub(crate) struct TracePrinter {
    started: BootInstant,
}

impl TracePrinter {
    /// Prints times relative to `started`.
    pub(crate) fn new(started: BootInstant) -> Self {
        Self { started }
    }
}

impl Observer for TracePrinter {
    fn note(&self, event: &Event) {
        let millis = event.at.since(self.started).as_secs_f64() * 1_000.0;
        output::tell(&format!(
            "{millis:>10.1} ms  {:<24}  {}",
            event.host,
            sentence(event)
        ));
    }
}

fn until(event: &Event, at: BootInstant) -> String {
    format!("{:.3} s", at.since(event.at).as_secs_f64())
}

/// Describes an event of the cache.
fn cache(what: &EventKind) -> Option<String> {
    Some(match what {
        EventKind::CacheMiss => "miss, the origin has to be requested".to_owned(),
        EventKind::CacheHit { age, .. } => format!("hit, {} s old", age.as_secs()),
        EventKind::CacheRevalidated { .. } => "the stored answer is current".to_owned(),
        EventKind::CacheStale { age, reason, .. } => {
            format!("stale, {} s old ({})", age.as_secs(), reason.as_str())
        }
        EventKind::CacheStored => "stored".to_owned(),
        _ => return None,
    })
}

/// Describes an event.
pub(crate) fn sentence(event: &Event) -> String {
    if let Some(decision) = admission(event) {
        return format!("limits: {decision}");
    }
    if let Some(progress) = exchange(&event.what) {
        return format!("send: {progress}");
    }
    if let Some(used) = cache(&event.what) {
        return format!("cache: {used}");
    }
    match &event.what {
        EventKind::Hop { url, method, .. } => format!("{method} {url} as {}", event.role),
        EventKind::Robots { crawl_delay: None } => "robots.txt: allowed".to_owned(),
        EventKind::Robots {
            crawl_delay: Some(delay),
        } => format!(
            "robots.txt: allowed, {} s between requests",
            delay.as_secs_f64()
        ),
        EventKind::Settled { outcome } => format!("result: {}", outcome.as_str()),
        EventKind::BreakerSeen { key, transition } => format!(
            "breaker of {key}: found {}{}, changed by another process or an operator",
            transition.to.as_str(),
            length_and_reason(transition)
        ),
        EventKind::Breaker { key, transition } => format!(
            "breaker of {key}: {} -> {}{}",
            transition.from.as_str(),
            transition.to.as_str(),
            length_and_reason(transition)
        ),
        EventKind::Stated(reading) => stated::sentence(reading),
        EventKind::Learned(limit) => format!("learned: the host seems to admit {limit}"),
        EventKind::Adapted(adjustment) => format!(
            "adaptive rate: {:.2} -> {:.2} ({})",
            adjustment.old.share(),
            adjustment.new.share(),
            adjustment.reason
        ),
        EventKind::Retry { at, after } => {
            format!("retry: attempt {} in {}", after + 1, until(event, *at))
        }
        EventKind::Stop { reason } => format!("retry: stop ({})", reason.as_str()),
        EventKind::Redirect { to, stripped } => {
            let credentials = if *stripped {
                ", without credentials"
            } else {
                ""
            };
            format!("follow: {to}{credentials}")
        }
        EventKind::End { error: None } => "end: answered".to_owned(),
        EventKind::End { error: Some(error) } => format!("end: {error}"),
        _ => "an event of a newer version".to_owned(),
    }
}

/// Describes a decision of the limiter or a breaker.
fn admission(event: &Event) -> Option<String> {
    Some(match &event.what {
        EventKind::Go {
            attempt,
            probe,
            rate_delay,
            slot_wait,
            breaker_wait,
            ..
        } => format!(
            "go, attempt {attempt}{} (waited {:.3} s for the rate, {:.3} s for a slot, \
             {:.3} s for the breaker)",
            if *probe { " as a probe" } else { "" },
            rate_delay.as_secs_f64(),
            slot_wait.as_secs_f64(),
            breaker_wait.as_secs_f64()
        ),
        EventKind::HeadSkipped => "HEAD spends no token here".to_owned(),
        EventKind::Refused { refusal, basis, .. } => {
            format!("refused, {}", reason(event, refusal, *basis))
        }
        EventKind::Shadowed(refusal) => format!(
            "shadow mode lets through what would be refused, {}",
            reason(event, refusal, LimitBasis::Configured)
        ),
        _ => return wait(event),
    })
}

/// Describes the cause of an attempt's wait.
fn wait(event: &Event) -> Option<String> {
    Some(match &event.what {
        EventKind::WaitRate {
            until: at,
            window: Some(window),
            basis,
        } => {
            let (until, words) = (until(event, *at), limit_in_words(window, *basis));
            format!("wait {until} for a limit ({words}){}", hint(event, *basis))
        }
        EventKind::WaitRate {
            until: at,
            window: None,
            ..
        } => format!(
            "wait {} so that probes do not come together",
            until(event, *at)
        ),
        EventKind::WaitTurn { not_before, ahead } => format!(
            "{ahead} ahead in the queue, at the earliest in {}",
            until(event, *not_before)
        ),
        EventKind::WaitSlot => "wait for a free slot".to_owned(),
        EventKind::WaitBreaker { probing: true, .. } => "wait for the result of a probe".to_owned(),
        EventKind::WaitBreaker {
            until: at,
            reason,
            probing: false,
        } => format!(
            "wait {} for the end of a block ({reason})",
            until(event, *at)
        ),
        EventKind::WaitCaution { failures: 1 } => {
            "wait for an answer to a request on its way: the last one failed".to_owned()
        }
        EventKind::WaitCaution { failures } => {
            format!("wait for an answer to a request on its way: the last {failures} failed")
        }
        EventKind::WaitSlowStart { until: at } => format!(
            "wait {} so that not all go at once after an outage",
            until(event, *at)
        ),
        _ => return None,
    })
}

/// Describes progress on the wire.
fn exchange(what: &EventKind) -> Option<String> {
    Some(match what {
        EventKind::Dialled { took } => format!("connection made in {:.3} s", took.as_secs_f64()),
        EventKind::Headers {
            status,
            took,
            retry_after,
        } => {
            let requested = retry_after
                .map(|requested| format!(", Retry-After {} s", requested.as_secs()))
                .unwrap_or_default();
            format!("{status} after {:.3} s{requested}", took.as_secs_f64())
        }
        EventKind::Body { received, took } => {
            format!("{received} bytes in {:.3} s", took.as_secs_f64())
        }
        EventKind::Fault { fault, message } => format!("failed ({}): {message}", fault.as_str()),
        EventKind::GivenBack => "a block came first, nothing was sent".to_owned(),
        _ => return None,
    })
}

/// Formats the time for which a breaker stays open, and the reason.
fn length_and_reason(transition: &Transition) -> String {
    let length = transition
        .reset
        .map(|reset| format!(" for {:.0} s", reset.as_secs_f64()))
        .unwrap_or_default();
    let reason = transition
        .reason
        .as_ref()
        .map(|reason| format!(" ({reason})"))
        .unwrap_or_default();
    format!("{length}{reason}")
}

/// Describes the way to change a limit, if the configuration has the limit.
fn hint(event: &Event, basis: LimitBasis) -> String {
    if !basis.is_configured() {
        return String::new();
    }
    format!("; {}", change_hint(event.host.as_str(), event.role))
}

/// Describes the reason of a refusal. `basis` is the basis of the limit, if a limit refused.
fn reason(event: &Event, refusal: &Refusal, basis: LimitBasis) -> String {
    let until = until(event, refusal.until);
    match &refusal.reason {
        RefusalReason::Open { probing: true, .. } => {
            format!("half-open with all probes in flight, for {until}")
        }
        RefusalReason::Open { reason, .. } => format!("the breaker is open ({reason}) for {until}"),
        RefusalReason::Rate {
            window: Some(window),
        } => {
            let limit = Obstacle::Limit(*window, basis);
            format!("{limit} for {until}{}", hint(event, basis))
        }
        RefusalReason::Rate { window: None } => format!("other requests are ahead, for {until}"),
        RefusalReason::Slots => "no slot is free".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use docstokg_hub::policy::role::Role;
    use docstokg_hub::{Host, RefusedBy};

    use super::*;

    #[test]
    fn only_a_configured_limit_is_explained_with_how_to_change_it() {
        let refused = |basis| {
            let window = "4/SECOND".parse().ok();
            let refusal = Refusal {
                until: BootInstant::from_micros(3_000_000),
                reason: RefusalReason::Rate { window },
            };
            let event = Event {
                at: BootInstant::from_micros(1_000_000),
                request: 1,
                host: Host::parse("a.example").unwrap(),
                role: Role::Metadata,
                what: EventKind::Refused {
                    refusal,
                    by: RefusedBy::Host,
                    waited: std::time::Duration::ZERO,
                    basis,
                },
            };
            admission(&event).unwrap()
        };
        let configured = refused(LimitBasis::Configured);
        assert!(configured.contains("the limit of 4 a second is reached for 2.000 s"));
        assert!(configured.contains("--rate a.example:metadata="));
        assert_eq!(
            refused(LimitBasis::StatedOrLearned),
            "refused, stated by the host or learned, about 4 a second for 2.000 s"
        );
    }
}
