//! Calls of the script and its replies. Both hold lengths of time, not instants: the server has a
//! clock of its own.

use std::num::NonZeroU32;
use std::time::Duration;

use docstokg_policy::adaptive::Adjustment;
use docstokg_policy::breaker::{OpenReason, State, Transition};
use docstokg_policy::classify::Outcome;
use docstokg_policy::rate::Window;
use docstokg_policy::site::{
    Ask, Condition, Cost, Entered, Entry, Patience, Permit, QueuePosition, Refusal, RefusalReason,
    Reserved, Settled, Standing,
};
use docstokg_policy::time::{BootInstant, micros};
use docstokg_policy::windows::Multiplier;
use redis::{Cmd, Value};

use crate::hash::fnv;

/// "Forever", to the script: its numbers are exact up to here.
const FAR: u64 = (1 << 53) - 1;

/// The queue position of a request that overlaps with the head of its queue, to the script.
const OVERLAPPING: u32 = u32::MAX;

/// A call of the script: the operation, the time to use, the question, and further arguments.
pub(super) struct ScriptCall {
    pub(super) arguments: Cmd,
    /// Whether it may run twice: then it permits less, not more.
    pub(super) may_repeat: bool,
    /// The id that a permit or a reservation gets.
    pub(super) id: u64,
}

impl ScriptCall {
    /// Starts a call of the script with this hash on a site. `now` is for tests; otherwise the
    /// server's clock counts.
    pub(super) fn new(
        hash: &str,
        key: &str,
        op: &str,
        now: Option<u64>,
        id: u64,
        question: &[u8],
    ) -> Self {
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
            id,
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

/// Writes little-endian numbers and zero-ended texts, as the script's `struct.unpack` reads them.
struct Packer(Vec<u8>);

impl Packer {
    fn byte(&mut self, value: impl Into<u8>) -> &mut Self {
        self.0.push(value.into());
        self
    }

    fn short(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn long(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn length(&mut self, length: Duration) -> &mut Self {
        self.long(in_micros(length))
    }

    fn until(&mut self, at: BootInstant, now: BootInstant) -> &mut Self {
        self.long(if at == BootInstant::FAR {
            FAR
        } else {
            in_micros(at.since(now))
        })
    }

    fn share(&mut self, value: f64) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        // A zero would end it early; no host, role or name of a process has one.
        self.0.extend(text.bytes().filter(|byte| *byte != 0));
        self.byte(0)
    }
}

/// Packs a question, in the order in which `read_ask` reads it: what a plain `enter` needs comes
/// first. `birth` is that of the site as this process knows it, or 0.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a request has a handful of budgets with a handful of windows"
)]
pub(super) fn pack(
    ask: &Ask<'_>,
    names: &[String],
    birth: u64,
    id: u64,
    who: &str,
    now: BootInstant,
) -> Vec<u8> {
    let mut packer = Packer(Vec::with_capacity(320));
    packer
        .byte(birth > 0 && is_quick(ask))
        .long(0)
        .byte(ask.costs.len() as u8);
    for cost in ask.costs {
        let windows = cost.windows.list();
        packer
            .text(names.get(cost.budget).map_or("", String::as_str))
            .byte(windows.len() as u8);
        for window in windows {
            packer
                .short(window.limit.get())
                .length(window.per)
                .length(cost.windows.guard());
        }
    }
    // The kind of the question: the same budgets under the same windows, on the same site. On a site
    // that was created again, questions of processes that knew the old one are of an unknown kind.
    let kind = (fnv(&packer.0[9..]) ^ birth.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_le_bytes();
    packer.0[1..9].copy_from_slice(&kind);
    packer.long(birth);
    for cost in ask.costs {
        packer
            .short(cost.weight)
            .short(cost.slots.map_or(0, NonZeroU32::get));
    }
    packer
        .long(id)
        .until(ask.latest, now)
        .until(ask.deadline, now)
        .length(now.since(ask.asked));
    packer.byte(ask.isolated).short(match ask.queue_position {
        QueuePosition::Head => 0,
        QueuePosition::Behind(ahead) => ahead.saturating_add(1).min(OVERLAPPING - 1),
        QueuePosition::Overlapping => OVERLAPPING,
    });
    packer
        .text(who)
        .byte(ask.role.index() as u8)
        .byte(ask.patience == Patience::Wait)
        .share(ask.jitter_sample)
        .length(ask.lease);
    let policy = ask.breaker;
    packer
        .short(policy.fail_max.get())
        .length(policy.reset)
        .length(policy.reset_ceiling)
        .length(policy.retry_after_cap);
    match policy.window {
        Some(window) => packer
            .short(window.threshold_failures.get())
            .length(window.within)
            .length(window.cooldown),
        None => packer.short(0).long(0).long(0),
    };
    for trials in policy.trial_calls {
        packer.short(trials);
    }
    #[expect(clippy::cast_precision_loss, reason = "numbers up to FAR are exact")]
    let block = policy
        .throttle_block
        .map_or(-1.0, |block| in_micros(block) as f64);
    packer
        .length(policy.jitter)
        .share(block)
        .byte(policy.one_failure_per_epoch)
        .byte(policy.shadow)
        .byte(ask.adaptive.is_some());
    if let Some(adaptive) = ask.adaptive {
        packer
            .length(adaptive.window)
            .share(adaptive.high_ratio)
            .share(adaptive.increase)
            .share(adaptive.decrease);
        packer
            .short(adaptive.lowest.thousandths().into())
            .short(adaptive.highest.thousandths().into());
    }
    packer.0
}

/// Returns whether only windows count for a question: a weight of one in each budget, of a request
/// that no other of its process precedes.
fn is_quick(ask: &Ask<'_>) -> bool {
    let is_only_one = |index: usize, cost: &Cost| {
        ask.costs[..index]
            .iter()
            .all(|other| other.budget != cost.budget)
    };
    let is_plain = |(index, cost): (usize, &Cost)| {
        cost.weight == 1 && cost.slots.is_none() && is_only_one(index, cost)
    };
    !ask.isolated
        && !matches!(ask.queue_position, QueuePosition::Behind(_))
        && ask.costs.iter().enumerate().all(is_plain)
}

/// A reply of the script.
pub(super) struct Reply {
    values: Vec<Value>,
    /// The instant of the caller's clock at which the reply arrived.
    here: BootInstant,
    /// The instant at which the question was sent.
    asked: BootInstant,
}

/// An answer that does not have the form it should have.
#[derive(Debug)]
pub(super) struct Malformed;

impl Reply {
    pub(super) fn new(
        value: Value,
        asked: BootInstant,
        here: BootInstant,
    ) -> Result<Self, Malformed> {
        match value {
            Value::Array(values) if !values.is_empty() => Ok(Self {
                values,
                here,
                asked,
            }),
            _ => Err(Malformed),
        }
    }

    pub(super) fn int(&self, index: usize) -> Result<i64, Malformed> {
        match self.values.get(index) {
            Some(Value::Int(number)) => Ok(*number),
            _ => Err(Malformed),
        }
    }

    pub(super) fn text(&self, index: usize) -> Result<&str, Malformed> {
        match self.values.get(index) {
            Some(Value::BulkString(bytes)) => std::str::from_utf8(bytes).map_err(|_| Malformed),
            Some(Value::SimpleString(text)) => Ok(text),
            _ => Err(Malformed),
        }
    }

    pub(super) fn rest(&self, from: usize) -> &[Value] {
        self.values.get(from..).unwrap_or_default()
    }

    fn number(&self, index: usize) -> Result<u64, Malformed> {
        u64::try_from(self.int(index)?).map_err(|_| Malformed)
    }

    pub(super) fn flag(&self, index: usize) -> Result<bool, Malformed> {
        Ok(self.int(index)? != 0)
    }

    /// Returns an instant of the server on its own clock.
    pub(super) fn stamp(&self, index: usize) -> Result<BootInstant, Malformed> {
        Ok(BootInstant::from_micros(self.number(index)?))
    }

    /// Returns an instant of the server on the caller's clock, relative to the arrival of the reply.
    fn instant(&self, index: usize) -> Result<BootInstant, Malformed> {
        let (now, at) = (self.number(0)?, self.number(index)?);
        if at >= FAR {
            return Ok(BootInstant::FAR);
        }
        let here = self.here.as_micros();
        Ok(BootInstant::from_micros(if at >= now {
            here + (at - now)
        } else {
            here.saturating_sub(now - at)
        }))
    }

    fn reason(&self, index: usize) -> Result<OpenReason, Malformed> {
        OpenReason::from_word(self.text(index)?).ok_or(Malformed)
    }

    pub(super) fn transition(&self, from: usize) -> Result<Option<Transition>, Malformed> {
        if self.values.len() <= from {
            return Ok(None);
        }
        let state = |index| State::from_word(self.text(index)?).ok_or(Malformed);
        let reset = self.int(from + 3)?;
        Ok(Some(Transition {
            from: state(from)?,
            to: state(from + 1)?,
            fail_count: u32::try_from(self.int(from + 2)?).map_err(|_| Malformed)?,
            reset: u64::try_from(reset).ok().map(Duration::from_micros),
            reason: OpenReason::from_word(self.text(from + 4)?),
        }))
    }

    /// Reads the reply to an `enter` or a `confirm` whose permit gets the id `id`.
    pub(super) fn entered(&self, id: u64) -> Result<Entered, Malformed> {
        // A plain go is short: instant, generation, whether the breaker has no failures.
        if self.values.len() == 3 {
            let generation = u32::try_from(self.int(1)?).map_err(|_| Malformed)?;
            let permit = Permit {
                id,
                generation,
                at: self.asked,
                stamp: self.stamp(0)?,
                probe: false,
                clean: self.flag(2)?,
                shadowed: None,
            };
            return Ok(Entered {
                entry: Entry::Go(permit),
                transition: None,
            });
        }
        let because = match (
            u32::try_from(self.int(7)?).ok().and_then(NonZeroU32::new),
            self.number(8)?,
        ) {
            (Some(limit), per) => Some(Window::new(limit, Duration::from_micros(per))),
            (None, _) => None,
        };
        let at = self.instant(2)?;
        let entry = match self.text(1)? {
            "go" => Entry::Go(Permit {
                id: self.number(3)?,
                generation: u32::try_from(self.int(4)?).map_err(|_| Malformed)?,
                // The server permitted it at some time between question and reply: its age counts
                // from the question on.
                at: self.asked,
                stamp: self.stamp(2)?,
                probe: self.flag(5)?,
                clean: self.flag(6)?,
                shadowed: match self.int(11)? {
                    -1 => None,
                    _ => Some(Box::new(Refusal {
                        until: self.instant(11)?,
                        reason: RefusalReason::Open {
                            reason: self.reason(12)?,
                            probing: self.flag(13)?,
                        },
                    })),
                },
            }),
            "wait" => Entry::Wait(Reserved {
                id: self.number(3)?,
                at,
                because,
                probe: self.flag(5)?,
            }),
            "queue" => Entry::Queue { at },
            "await" => Entry::WaitForBreaker {
                until: at,
                reason: self.reason(9)?,
                probing: self.flag(10)?,
            },
            "slot" => Entry::WaitForSlot {
                id: self.number(3)?,
                earlier: u32::try_from(self.int(2)?).map_err(|_| Malformed)?,
            },
            "rate" => Entry::Refused(Refusal {
                until: at,
                reason: RefusalReason::Rate { window: because },
            }),
            "open" => {
                let reason = RefusalReason::Open {
                    reason: self.reason(9)?,
                    probing: self.flag(10)?,
                };
                Entry::Refused(Refusal { until: at, reason })
            }
            _ => return Err(Malformed),
        };
        Ok(Entered {
            entry,
            transition: self.transition(15)?.map(Box::new),
        })
    }

    /// Returns when the site was created, on the server's clock, where the reply to an `enter` or a
    /// `confirm` says so.
    pub(super) fn birth(&self) -> Option<u64> {
        if self.values.len() == 3 {
            None
        } else {
            self.number(14).ok()
        }
    }

    pub(super) fn condition(&self) -> Result<Condition, Malformed> {
        let generation = u32::try_from(self.int(1)?).map_err(|_| Malformed)?;
        let half_open_roles = u32::try_from(self.int(3)?).map_err(|_| Malformed)?;
        let open = if self.values.len() > 4 {
            Some((self.instant(4)?, self.reason(5)?))
        } else {
            None
        };
        Ok(Condition {
            generation,
            half_open: self.flag(2)?,
            half_open_roles,
            open,
        })
    }

    pub(super) fn standing(&self) -> Result<Standing, Malformed> {
        if !self.flag(1)? {
            return Ok(Standing::Good);
        }
        Ok(Standing::Blocked(Refusal {
            until: self.instant(2)?,
            reason: RefusalReason::Open {
                reason: self.reason(3)?,
                probing: false,
            },
        }))
    }

    pub(super) fn settled(&self) -> Result<Settled, Malformed> {
        let share = |index| {
            Ok(Multiplier::from_thousandths(
                u16::try_from(self.int(index)?).map_err(|_| Malformed)?,
            ))
        };
        let adjusted = if self.int(3)? == -1 {
            None
        } else {
            let reason = if self.text(6)? == "high_429_ratio" {
                "high_429_ratio"
            } else {
                "low_429_ratio"
            };
            Some((
                0,
                Adjustment {
                    old: share(4)?,
                    new: share(5)?,
                    reason,
                },
            ))
        };
        Ok(Settled {
            wakes: self.flag(1)?,
            open_until: if self.int(2)? < 0 {
                None
            } else {
                Some(self.instant(2)?)
            },
            adjusted,
            transition: self.transition(7)?,
        })
    }
}
