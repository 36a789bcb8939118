//! `--explain`: a line per decision, with its time.

use docstokg_hub::clock::BootInstant;
use docstokg_hub::event::{Event, Observer, What};
use docstokg_hub::policy::site::{Refusal, RefusalReason};

use crate::output;

/// Prints what happens, relative to when it was made.
pub(crate) struct Explainer {
    started: BootInstant,
}

impl Explainer {
    /// Starts to count from `started`.
    pub(crate) fn new(started: BootInstant) -> Self {
        Self { started }
    }
}

impl Observer for Explainer {
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

/// Says an event in a sentence.
pub(crate) fn sentence(event: &Event) -> String {
    let role = event.role;
    match &event.what {
        What::Hop { url, method, .. } => format!("{method} {url} as {role}"),
        What::CacheMiss => "cache: miss, the origin has to be asked".to_owned(),
        What::Go {
            attempt,
            probe,
            rate_delay,
            slot_wait,
            breaker_wait,
            ..
        } => {
            let kind = if *probe { " as a probe" } else { "" };
            let (rate, slot, breaker) = (
                rate_delay.as_secs_f64(),
                slot_wait.as_secs_f64(),
                breaker_wait.as_secs_f64(),
            );
            format!(
                "limits: go, attempt {attempt}{kind} (waited {rate:.3} s for the rate, {slot:.3} s for a slot, {breaker:.3} s for the breaker)"
            )
        }
        What::HeadSkipped => "limits: HEAD spends no token here".to_owned(),
        What::WaitRate {
            until: at,
            window: Some(window),
        } => format!("limits: wait {} for the window {window}", until(event, *at)),
        What::WaitRate {
            until: at,
            window: None,
        } => format!(
            "limits: wait {} so that probes do not come together",
            until(event, *at)
        ),
        What::WaitTurn { not_before, ahead } => format!(
            "limits: {ahead} ahead in the queue, at the earliest in {}",
            until(event, *not_before)
        ),
        What::WaitSlot => "limits: wait for a free slot".to_owned(),
        What::WaitBreaker { probing: true, .. } => {
            "limits: wait for the result of a probe".to_owned()
        }
        What::WaitBreaker {
            until: at,
            reason,
            probing: false,
        } => format!(
            "limits: wait {} for the end of a block ({reason})",
            until(event, *at)
        ),
        What::Refused { refusal, .. } => format!("limits: refused, {}", reason(event, refusal)),
        What::Shadowed(refusal) => format!(
            "limits: shadow mode lets through what would be refused, {}",
            reason(event, refusal)
        ),
        What::Dialled { took } => format!("send: connection made in {:.3} s", took.as_secs_f64()),
        What::Headers {
            status,
            took,
            retry_after,
        } => {
            let asked = retry_after
                .map(|asked| format!(", Retry-After {} s", asked.as_secs()))
                .unwrap_or_default();
            format!("send: {status} after {:.3} s{asked}", took.as_secs_f64())
        }
        What::Body { received, took } => {
            format!("send: {received} bytes in {:.3} s", took.as_secs_f64())
        }
        What::Fault { fault, message } => format!("send: failed ({}): {message}", fault.as_str()),
        What::Settled { outcome } => format!("result: {}", outcome.as_str()),
        What::BreakerSeen { key, transition } => {
            let why = transition
                .reason
                .as_ref()
                .map(|reason| format!(" ({reason})"))
                .unwrap_or_default();
            let length = transition
                .reset
                .map(|reset| format!(" for {:.0} s", reset.as_secs_f64()))
                .unwrap_or_default();
            format!(
                "breaker of {key}: found {}{length}{why}, changed by another process or an operator",
                transition.to.as_str()
            )
        }
        What::Breaker { key, transition } => {
            let why = transition
                .reason
                .as_ref()
                .map(|reason| format!(" ({reason})"))
                .unwrap_or_default();
            let length = transition
                .reset
                .map(|reset| format!(" for {:.0} s", reset.as_secs_f64()))
                .unwrap_or_default();
            format!(
                "breaker of {key}: {} -> {}{length}{why}",
                transition.from.as_str(),
                transition.to.as_str()
            )
        }
        What::Adapted(adjustment) => format!(
            "adaptive rate: {:.2} -> {:.2} ({})",
            adjustment.old.share(),
            adjustment.new.share(),
            adjustment.reason
        ),
        What::Retry { at, after } => {
            format!("retry: attempt {} in {}", after + 1, until(event, *at))
        }
        What::Stop { reason } => format!("retry: stop ({})", reason.as_str()),
        What::Redirect { to, stripped } => {
            let keys = if *stripped { ", keys left behind" } else { "" };
            format!("follow: {to}{keys}")
        }
        What::GivenBack => "send: a block came first, nothing was sent".to_owned(),
        What::End { error: None } => "end: answered".to_owned(),
        What::End { error: Some(error) } => format!("end: {error}"),
        _ => "something that this version has no words for".to_owned(),
    }
}

fn reason(event: &Event, refusal: &Refusal) -> String {
    let until = until(event, refusal.until);
    match &refusal.reason {
        RefusalReason::Open { probing: true, .. } => {
            format!("half-open and its probes are out, for {until}")
        }
        RefusalReason::Open { reason, .. } => format!("the breaker is open ({reason}) for {until}"),
        RefusalReason::Rate {
            window: Some(window),
        } => format!("the window {window} is full for {until}"),
        RefusalReason::Rate { window: None } => format!("others are before it, for {until}"),
        RefusalReason::Slots => "no slot came free".to_owned(),
    }
}
