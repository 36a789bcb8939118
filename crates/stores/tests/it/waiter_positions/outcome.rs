//! The result of a run, and the check that no window was exceeded.

use std::time::Duration;

use docstokg_policy::rate::Window;

use super::START;
use super::model::{GUARD, PositionsModel};

/// The result of a run.
pub(super) struct Outcome {
    pub(super) permits: Vec<usize>,
    pub(super) confirms_per_permit: f64,
    /// The largest share of a budget's rate that was used, after subtracting measured lateness.
    pub(super) share: f64,
    pub(super) elapsed: Duration,
}

/// Returns the share of the rate of the slowest window that was used: from the last use back in
/// steps of the limit, how long that takes at least, and how long it took less the lateness of the
/// uses on the way.
#[expect(clippy::cast_precision_loss, reason = "spans of minutes")]
fn share_used(units: &[(u64, u64)], windows: &[Window]) -> Option<f64> {
    let slowest = windows
        .iter()
        .max_by(|one, other| per_permit(one).total_cmp(&per_permit(other)))?;
    let limit = slowest.limit.get() as usize;
    let chain: Vec<&(u64, u64)> = units.iter().rev().step_by(limit).collect();
    let (last, first) = (chain.first()?, chain.last()?);
    let at_least = (slowest.per + GUARD).as_micros() as f64 * (chain.len() - 1) as f64;
    let late: u64 = chain
        .iter()
        .take(chain.len() - 1)
        .map(|(_, late)| late)
        .sum();
    let took = (last.0 - first.0).saturating_sub(late) as f64;
    (chain.len() > 8).then(|| (at_least / took.max(1.0)).min(1.0))
}

fn per_permit(window: &Window) -> f64 {
    window.per.as_secs_f64() / f64::from(window.limit.get())
}

impl PositionsModel<'_> {
    pub(super) fn outcome(self) -> Result<Outcome, String> {
        // Where a request has two budgets the slower one is the limit.
        let mut share = 0.0f64;
        for (budget, windows) in self.plan.windows().iter().enumerate() {
            let mut units: Vec<(u64, u64)> = self.used[budget]
                .iter()
                .flat_map(|(at, late, weight)| std::iter::repeat_n((*at, *late), *weight as usize))
                .collect();
            units.sort_unstable();
            for window in windows {
                let (limit, width) = (
                    window.limit.get() as usize,
                    (window.per + GUARD).as_micros(),
                );
                for group in units.windows(limit + 1) {
                    let apart = u128::from(group[limit].0 - group[0].0);
                    if apart < width {
                        return Err(format!("{} within {apart} us at {window}", limit + 1));
                    }
                }
            }
            // Too few uses say nothing.
            share = share.max(share_used(&units, windows).unwrap_or(1.0));
        }
        let permits = self
            .processes
            .iter()
            .filter(|process| !process.dead)
            .map(|process| process.permits)
            .collect();
        #[expect(clippy::cast_precision_loss, reason = "small counts")]
        let confirms_per_permit = self.confirms as f64 / self.permits as f64;
        let elapsed = Duration::from_micros(self.clock.micros() - START);
        Ok(Outcome {
            permits,
            confirms_per_permit,
            share,
            elapsed,
        })
    }
}
