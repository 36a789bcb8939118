//! What is said to the script and what it says: lengths of time, since the server has a clock of its own.

use std::time::Duration;

use docstokg_policy::adaptive::Adjustment;
use docstokg_policy::breaker::{OpenReason, State, Transition};
use docstokg_policy::classify::Outcome;
use docstokg_policy::rate::Window;
use docstokg_policy::site::{Ask, Entered, Entry, Pass, Patience, Refusal, RefusalReason, Settled, Standing, Ticket};
use docstokg_policy::time::{BootInstant, micros};
use docstokg_policy::windows::Multiplier;
use redis::{Cmd, Value};

/// "For ever", to the script: its numbers are exact up to here.
const FAR: u64 = (1 << 53) - 1;

/// The arguments of a step.
pub(super) struct Step {
    pub(super) arguments: Cmd,
}

impl Step {
    /// Starts a call of the script with this hash on a site. `now` is for tests; otherwise the server knows.
    pub(super) fn new(hash: &str, key: &str, op: &str, now: Option<u64>) -> Self {
        let mut arguments = redis::cmd("EVALSHA");
        arguments.arg(hash).arg(1).arg(key).arg(op);
        let mut step = Self { arguments };
        match now {
            Some(now) => step.number(now),
            None => step.text("-1"),
        };
        step
    }

    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.arguments.arg(text);
        self
    }

    pub(super) fn number(&mut self, number: u64) -> &mut Self {
        self.arguments.arg(number);
        self
    }

    pub(super) fn length(&mut self, length: Duration) -> &mut Self {
        self.number(micros(length).min(FAR))
    }

    fn maybe(&mut self, length: Option<Duration>) -> &mut Self {
        match length {
            Some(length) => self.length(length),
            None => self.text("-1"),
        }
    }

    pub(super) fn optional(&mut self, length: Option<Duration>) -> &mut Self {
        self.maybe(length)
    }

    fn until(&mut self, at: BootInstant, now: BootInstant) -> &mut Self {
        if at == BootInstant::FAR { self.text("-1") } else { self.length(at.since(now)) }
    }

    pub(super) fn flag(&mut self, flag: bool) -> &mut Self {
        self.text(if flag { "1" } else { "0" })
    }

    pub(super) fn outcome(&mut self, outcome: Outcome) -> &mut Self {
        self.text(outcome.as_str())
    }

    /// Adds the question, in the order in which `read_ask` reads it.
    pub(super) fn ask(&mut self, ask: &Ask<'_>, names: &[String], id: u64, who: &str, now: BootInstant) -> &mut Self {
        self.number(id).text(who).text(ask.role.as_str()).flag(ask.isolated).flag(ask.patience == Patience::Wait);
        match ask.ahead {
            Some(ahead) => self.number(u64::from(ahead)),
            None => self.text("-1"),
        };
        self.text(&ask.draw.to_string()).length(ask.lease);
        self.until(ask.latest, now).until(ask.deadline, now).length(now.since(ask.asked));
        let policy = ask.breaker;
        self.number(u64::from(policy.fail_max.get())).length(policy.reset).length(policy.reset_ceiling).length(policy.retry_after_cap);
        match policy.window {
            Some(window) => self.number(u64::from(window.threshold_failures.get())).length(window.within).length(window.cooldown),
            None => self.number(0).number(0).number(0),
        };
        for trials in policy.trial_calls {
            self.number(u64::from(trials));
        }
        self.length(policy.jitter).maybe(policy.throttle_block).flag(policy.one_failure_per_epoch).flag(policy.shadow);
        self.flag(ask.adaptive.is_some());
        if let Some(adaptive) = ask.adaptive {
            self.length(adaptive.window);
            for share in [adaptive.high_ratio, adaptive.increase, adaptive.decrease] {
                self.text(&share.to_string());
            }
            self.number(u64::from(adaptive.lowest.thousandths())).number(u64::from(adaptive.highest.thousandths()));
        }
        self.number(ask.charges.len() as u64);
        for charge in ask.charges {
            let name = names.get(charge.budget).map_or("", String::as_str);
            self.text(name).number(u64::from(charge.weight)).number(charge.slots.map_or(0, |most| u64::from(most.get())));
            let windows = charge.windows.list();
            self.number(windows.len() as u64);
            for window in windows {
                self.number(u64::from(window.limit.get())).length(window.per).length(charge.windows.guard());
            }
        }
        self
    }
}

/// What the script said.
pub(super) struct Reply {
    values: Vec<Value>,
    /// The instant of the caller's clock at which the answer was there.
    here: BootInstant,
}

/// An answer that does not have the form it should have.
#[derive(Debug)]
pub(super) struct Malformed;

impl Reply {
    pub(super) fn new(value: Value, here: BootInstant) -> Result<Self, Malformed> {
        match value {
            Value::Array(values) if !values.is_empty() => Ok(Self { values, here }),
            _ => Err(Malformed),
        }
    }

    pub(super) fn int(&self, place: usize) -> Result<i64, Malformed> {
        match self.values.get(place) {
            Some(Value::Int(number)) => Ok(*number),
            _ => Err(Malformed),
        }
    }

    pub(super) fn text(&self, place: usize) -> Result<&str, Malformed> {
        match self.values.get(place) {
            Some(Value::BulkString(bytes)) => std::str::from_utf8(bytes).map_err(|_| Malformed),
            Some(Value::SimpleString(text)) => Ok(text),
            _ => Err(Malformed),
        }
    }

    pub(super) fn rest(&self, from: usize) -> &[Value] {
        self.values.get(from..).unwrap_or_default()
    }

    fn number(&self, place: usize) -> Result<u64, Malformed> {
        u64::try_from(self.int(place)?).map_err(|_| Malformed)
    }

    pub(super) fn flag(&self, place: usize) -> Result<bool, Malformed> {
        Ok(self.int(place)? != 0)
    }

    /// Returns an instant of the server on its own clock.
    pub(super) fn stamp(&self, place: usize) -> Result<BootInstant, Malformed> {
        Ok(BootInstant::from_micros(self.number(place)?))
    }

    /// Returns an instant of the server on the caller's clock: so long from the answer on.
    fn instant(&self, place: usize) -> Result<BootInstant, Malformed> {
        let (now, at) = (self.number(0)?, self.number(place)?);
        if at >= FAR {
            return Ok(BootInstant::FAR);
        }
        let here = self.here.as_micros();
        Ok(BootInstant::from_micros(if at >= now { here + (at - now) } else { here.saturating_sub(now - at) }))
    }

    fn reason(&self, place: usize) -> Result<OpenReason, Malformed> {
        OpenReason::from_word(self.text(place)?).ok_or(Malformed)
    }

    pub(super) fn transition(&self, from: usize) -> Result<Option<Transition>, Malformed> {
        if self.values.len() <= from {
            return Ok(None);
        }
        let state = |place| State::from_word(self.text(place)?).ok_or(Malformed);
        let reset = self.int(from + 3)?;
        Ok(Some(Transition {
            from: state(from)?,
            to: state(from + 1)?,
            fail_count: u32::try_from(self.int(from + 2)?).map_err(|_| Malformed)?,
            reset: u64::try_from(reset).ok().map(Duration::from_micros),
            reason: OpenReason::from_word(self.text(from + 4)?),
        }))
    }

    pub(super) fn entered(&self) -> Result<Entered, Malformed> {
        let because = match (u32::try_from(self.int(7)?).ok().and_then(std::num::NonZeroU32::new), self.number(8)?) {
            (Some(limit), per) => Some(Window::new(limit, Duration::from_micros(per))),
            (None, _) => None,
        };
        let at = self.instant(2)?;
        let entry = match self.text(1)? {
            "go" => Entry::Go(Pass {
                id: self.number(3)?,
                era: u32::try_from(self.int(4)?).map_err(|_| Malformed)?,
                at,
                stamp: self.stamp(2)?,
                probe: self.flag(5)?,
                clean: self.flag(6)?,
                shadowed: match self.int(11)? {
                    -1 => None,
                    _ => Some(Box::new(Refusal {
                        until: self.instant(11)?,
                        reason: RefusalReason::Open { reason: self.reason(12)?, probing: self.flag(13)? },
                    })),
                },
            }),
            "wait" => Entry::Wait(Ticket { id: self.number(3)?, at, because, probe: self.flag(5)? }),
            "queue" => Entry::Queue { at },
            "await" => Entry::Await { until: at, probing: self.flag(10)? },
            "busy" => Entry::Busy,
            "rate" => Entry::Refused(Refusal { until: at, reason: RefusalReason::Rate { window: because } }),
            "open" => {
                let reason = RefusalReason::Open { reason: self.reason(9)?, probing: self.flag(10)? };
                Entry::Refused(Refusal { until: at, reason })
            }
            _ => return Err(Malformed),
        };
        Ok(Entered { entry, transition: self.transition(14)?.map(Box::new) })
    }

    pub(super) fn standing(&self) -> Result<Standing, Malformed> {
        if !self.flag(1)? {
            return Ok(Standing::Good);
        }
        Ok(Standing::Blocked(Refusal { until: self.instant(2)?, reason: RefusalReason::Open { reason: self.reason(3)?, probing: false } }))
    }

    pub(super) fn settled(&self) -> Result<Settled, Malformed> {
        let share = |place| Ok(Multiplier::from_thousandths(u16::try_from(self.int(place)?).map_err(|_| Malformed)?));
        let adjusted = if self.int(3)? == -1 {
            None
        } else {
            let reason = if self.text(6)? == "high_429_ratio" { "high_429_ratio" } else { "low_429_ratio" };
            Some((0, Adjustment { old: share(4)?, new: share(5)?, reason }))
        };
        Ok(Settled {
            wakes: self.flag(1)?,
            open_until: if self.int(2)? < 0 { None } else { Some(self.instant(2)?) },
            adjusted,
            transition: self.transition(7)?,
        })
    }
}
