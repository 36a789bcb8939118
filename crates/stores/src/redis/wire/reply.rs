//! A reply of the script.

use std::num::NonZeroU32;
use std::time::Duration;

use docstokg_policy::adaptive::Adjustment;
use docstokg_policy::breaker::{OpenReason, State, Transition};
use docstokg_policy::rate::Window;
use docstokg_policy::site::{
    Condition, Entered, Entry, Permit, Refusal, RefusalReason, Reserved, Settled, Standing,
};
use docstokg_policy::time::BootInstant;
use docstokg_policy::windows::Multiplier;
use redis::Value;

use super::FAR;

/// A reply of the script.
pub(in super::super) struct Reply {
    values: Vec<Value>,
    /// The instant of the caller's clock at which the reply arrived.
    here: BootInstant,
    /// The instant at which the question was sent.
    asked: BootInstant,
}

/// An answer that does not have the form it should have.
#[derive(Debug)]
pub(in super::super) struct Malformed;

impl Reply {
    pub(in super::super) fn new(
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

    pub(in super::super) fn int(&self, index: usize) -> Result<i64, Malformed> {
        match self.values.get(index) {
            Some(Value::Int(number)) => Ok(*number),
            _ => Err(Malformed),
        }
    }

    pub(in super::super) fn text(&self, index: usize) -> Result<&str, Malformed> {
        match self.values.get(index) {
            Some(Value::BulkString(bytes)) => std::str::from_utf8(bytes).map_err(|_| Malformed),
            Some(Value::SimpleString(text)) => Ok(text),
            _ => Err(Malformed),
        }
    }

    pub(in super::super) fn rest(&self, from: usize) -> &[Value] {
        self.values.get(from..).unwrap_or_default()
    }

    fn number(&self, index: usize) -> Result<u64, Malformed> {
        u64::try_from(self.int(index)?).map_err(|_| Malformed)
    }

    pub(in super::super) fn flag(&self, index: usize) -> Result<bool, Malformed> {
        Ok(self.int(index)? != 0)
    }

    /// Returns an instant of the server on its own clock.
    pub(in super::super) fn stamp(&self, index: usize) -> Result<BootInstant, Malformed> {
        Ok(BootInstant::from_micros(self.number(index)?))
    }

    /// Returns an instant of the server on the caller's clock, relative to the arrival of the
    /// reply.
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

    pub(in super::super) fn transition(
        &self,
        from: usize,
    ) -> Result<Option<Transition>, Malformed> {
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

    /// Returns when the reply came, on the caller's clock.
    pub(in super::super) fn here(&self) -> BootInstant {
        self.here
    }

    /// Returns how many requests wait before one whose process knows too little of the host's limits,
    /// where that is the reason; `None` if the reply is an answer.
    pub(in super::super) fn stale(&self) -> Option<Option<u32>> {
        match (self.text(1), self.int(2)) {
            (Ok("stale"), Ok(waiting)) => Some(u32::try_from(waiting).ok()),
            _ => None,
        }
    }

    /// Takes the last part of the reply: what the process lacks of the host's limits.
    pub(in super::super) fn take_lacking(&mut self) -> Result<Vec<u8>, Malformed> {
        match self.values.pop() {
            Some(Value::BulkString(bytes)) => Ok(bytes),
            _ => Err(Malformed),
        }
    }

    /// Takes the last part of the reply to a first refusal: when the requests before it were sent, on
    /// the clock of the server.
    pub(in super::super) fn take_history(&mut self) -> Result<Vec<BootInstant>, Malformed> {
        let bytes = self.take_lacking()?;
        let words = bytes.as_chunks().0.iter();
        let instant = |word: &[u8; 8]| BootInstant::from_micros(u64::from_le_bytes(*word));
        Ok(words.map(instant).collect())
    }

    /// Reads the reply to an `enter` or a `confirm` whose permit gets the id `id`.
    pub(in super::super) fn entered(&self, id: u64) -> Result<Entered, Malformed> {
        if self.values.len() == 3 {
            return Ok(Entered {
                entry: Entry::Go(self.plain_permit(id)?),
                transition: None,
            });
        }
        Ok(Entered {
            entry: self.entry()?,
            transition: self.transition(15)?.map(Box::new),
        })
    }

    /// Reads the permit of a plain go: instant, generation, whether the breaker has no failures.
    fn plain_permit(&self, id: u64) -> Result<Permit, Malformed> {
        Ok(Permit {
            id,
            generation: u32::try_from(self.int(1)?).map_err(|_| Malformed)?,
            at: self.asked,
            stamp: self.stamp(0)?,
            probe: false,
            clean: self.flag(2)?,
            shadowed: None,
        })
    }

    fn entry(&self) -> Result<Entry, Malformed> {
        let limit = u32::try_from(self.int(7)?).ok().and_then(NonZeroU32::new);
        let per = Duration::from_micros(self.number(8)?);
        let because = limit.map(|limit| Window::new(limit, per));
        let at = self.instant(2)?;
        Ok(match self.text(1)? {
            "go" => Entry::Go(self.permit()?),
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
            "open" => Entry::Refused(Refusal {
                until: at,
                reason: RefusalReason::Open {
                    reason: self.reason(9)?,
                    probing: self.flag(10)?,
                },
            }),
            _ => return Err(Malformed),
        })
    }

    fn permit(&self) -> Result<Permit, Malformed> {
        let shadowed = if self.int(11)? == -1 {
            None
        } else {
            Some(Box::new(Refusal {
                until: self.instant(11)?,
                reason: RefusalReason::Open {
                    reason: self.reason(12)?,
                    probing: self.flag(13)?,
                },
            }))
        };
        Ok(Permit {
            id: self.number(3)?,
            generation: u32::try_from(self.int(4)?).map_err(|_| Malformed)?,
            // The server permitted it at some time between question and reply: its age counts from
            // the question on.
            at: self.asked,
            stamp: self.stamp(2)?,
            probe: self.flag(5)?,
            clean: self.flag(6)?,
            shadowed,
        })
    }

    /// Returns when the site was created, on the server's clock, where the reply to an `enter` or a
    /// `confirm` says so.
    pub(in super::super) fn birth(&self) -> Option<u64> {
        if self.values.len() == 3 {
            None
        } else {
            self.number(14).ok()
        }
    }

    pub(in super::super) fn condition(&self) -> Result<Condition, Malformed> {
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

    pub(in super::super) fn standing(&self) -> Result<Standing, Malformed> {
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

    pub(in super::super) fn settled(&self) -> Result<Settled, Malformed> {
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
            wakes: self.int(1)? & 1 == 1,
            retry_refused: self.int(1)? & 2 == 2,
            open_until: if self.int(2)? < 0 {
                None
            } else {
                Some(self.instant(2)?)
            },
            adjusted,
            transition: self.transition(7)?,
            ..Settled::default()
        })
    }
}
