//! A question, packed as the script's `read_ask` reads it.

use std::num::NonZeroU32;
use std::time::Duration;

use docstokg_policy::adaptive::AdaptivePolicy;
use docstokg_policy::breaker::BreakerPolicy;
use docstokg_policy::site::{Ask, Cost, Patience, QueuePosition};
use docstokg_policy::time::BootInstant;

use super::limits::LimitsPart;
use super::{FAR, in_micros};
use crate::hash::fnv;

/// The queue position of a request that overlaps with the head of its queue, to the script.
const OVERLAPPING: u32 = u32::MAX;

/// Writes little-endian numbers and zero-ended texts, as the script's `struct.unpack` reads them.
pub(super) struct Packer(Vec<u8>);

impl Packer {
    pub(super) fn byte(&mut self, value: impl Into<u8>) -> &mut Self {
        self.0.push(value.into());
        self
    }

    pub(super) fn short(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(super) fn long(&mut self, value: u64) -> &mut Self {
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

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        // A longer one has no place in a question: as an empty one it changes nothing.
        let (length, bytes) =
            u16::try_from(bytes.len()).map_or((0, [].as_slice()), |length| (length, bytes));
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(bytes);
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        // A zero would end it early; no host, role or name of a process has one.
        self.0.extend(text.bytes().filter(|byte| *byte != 0));
        self.byte(0)
    }
}

/// A question, and what the script needs to know beside it.
pub(in super::super) struct Question<'a> {
    pub(in super::super) ask: &'a Ask,
    /// The names of the budgets.
    pub(in super::super) names: &'a [String],
    /// When the site was created, as this process knows it, or 0.
    pub(in super::super) birth: u64,
    /// The id that a permit or a reservation gets.
    pub(in super::super) id: u64,
    /// The process that is recorded as the opener of breakers.
    pub(in super::super) who: &'a str,
    /// What it says about the limits of the host, where there is anything to say.
    pub(in super::super) limits: Option<&'a LimitsPart>,
}

impl Question<'_> {
    /// Packs the question, in the order in which `read_ask` reads it: what a plain `enter` needs
    /// comes first.
    pub(in super::super) fn pack(&self, now: BootInstant) -> Vec<u8> {
        let mut packer = Packer(Vec::with_capacity(320));
        self.pack_kind(&mut packer);
        self.pack_request(&mut packer, now);
        pack_policy(&self.ask.policy.breaker, &mut packer);
        packer.byte(self.ask.policy.adaptive.is_some());
        if let Some(adaptive) = &self.ask.policy.adaptive {
            pack_adaptive(adaptive, &mut packer);
        }
        packer.byte(self.limits.is_some());
        if let Some(limits) = self.limits {
            limits.pack(&mut packer);
        }
        packer.0
    }

    /// Packs the budgets and windows, and before them the kind that they make.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a request has a handful of budgets with a handful of windows"
    )]
    fn pack_kind(&self, packer: &mut Packer) {
        let (ask, birth) = (self.ask, self.birth);
        packer
            .byte(birth > 0 && self.limits.is_none() && is_quick(ask))
            .long(0)
            .byte(ask.costs.len() as u8);
        for cost in &*ask.costs {
            let windows = cost.windows.list();
            packer
                .text(self.names.get(cost.budget).map_or("", String::as_str))
                .byte(windows.len() as u8);
            for window in windows {
                packer
                    .short(window.limit.get())
                    .length(window.per)
                    .length(cost.windows.guard());
            }
        }
        // The kind of the question: the same budgets under the same windows, on the same site. On a
        // site that was created again, questions of processes that knew the old one are of an
        // unknown kind.
        let kind = (fnv(&packer.0[9..]) ^ birth.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_le_bytes();
        packer.0[1..9].copy_from_slice(&kind);
        packer.long(birth);
    }

    /// Packs what belongs to this request: weights, deadlines, queue position, role.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "there are three roles and a handful of windows"
    )]
    fn pack_request(&self, packer: &mut Packer, now: BootInstant) {
        let ask = self.ask;
        for cost in &*ask.costs {
            let spacings = cost.windows.spacings().iter();
            let holding = spacings.filter(|spacing| spacing.holds_for(ask.backlog));
            packer
                .short(cost.weight)
                .short(cost.slots.map_or(0, NonZeroU32::get))
                .byte(holding.clone().count() as u8);
            for spacing in holding {
                packer
                    .short(spacing.window().limit.get())
                    .length(spacing.window().per)
                    .length(spacing.guard())
                    .byte(spacing.spread_of().map_or(0, |index| index as u8 + 1));
            }
        }
        packer
            .long(self.id)
            .until(ask.latest, now)
            .until(ask.deadline, now)
            .length(now.since(ask.asked))
            .short(ask.backlog);
        packer
            .byte(ask.policy.isolated)
            .short(match ask.queue_position {
                QueuePosition::Head => 0,
                QueuePosition::Behind(ahead) => ahead.saturating_add(1).min(OVERLAPPING - 1),
                QueuePosition::Overlapping => OVERLAPPING,
            });
        packer
            .text(self.who)
            .byte(ask.role.index() as u8)
            .byte(ask.patience == Patience::Wait)
            .share(ask.jitter_sample)
            .length(ask.policy.lease);
    }
}

fn pack_policy(policy: &BreakerPolicy, packer: &mut Packer) {
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
        .byte(policy.early_probes)
        .byte(policy.shadow);
}

fn pack_adaptive(adaptive: &AdaptivePolicy, packer: &mut Packer) {
    packer
        .length(adaptive.window)
        .share(adaptive.high_ratio)
        .share(adaptive.increase)
        .share(adaptive.decrease)
        .short(adaptive.lowest.thousandths().into())
        .short(adaptive.highest.thousandths().into());
}

/// Returns whether only windows count for a question: a weight of one in each budget, of a request
/// that no other of its process precedes.
fn is_quick(ask: &Ask) -> bool {
    let is_only_one = |index: usize, cost: &Cost| {
        ask.costs[..index]
            .iter()
            .all(|other| other.budget != cost.budget)
    };
    let is_plain = |(index, cost): (usize, &Cost)| {
        cost.weight == 1
            && cost.slots.is_none()
            && cost.windows.spacings().is_empty()
            && is_only_one(index, cost)
    };
    !ask.policy.isolated
        && !matches!(ask.queue_position, QueuePosition::Behind(_))
        && ask.costs.iter().enumerate().all(is_plain)
}
