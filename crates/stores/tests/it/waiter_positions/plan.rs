//! What a run of the model is like.

use docstokg_policy::rate::{Window, parse_rates};
use fastrand::Rng;

/// What one run of the model is like.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) processes: usize,
    /// The limits of one or two budgets.
    pub(super) rates: Vec<&'static str>,
    /// Whether processes use one budget, the other, or both; else all use all.
    pub(super) mixed: bool,
    /// The largest weight of a request.
    pub(super) weight: u32,
    /// How late a sleep ends at most, in microseconds.
    pub(super) late: u64,
    /// One sleep in this many ends half a second late; 0 for none.
    pub(super) very_late: u32,
    /// How long a call of the store takes at most, each way.
    pub(super) latency: u64,
    /// How many processes die while they wait.
    pub(super) deaths: usize,
    /// One wait in this many is given up; 0 for none.
    pub(super) cancels: u32,
    /// How many permits each process is to have, on average, after the first burst.
    pub(super) permits: usize,
}

impl Plan {
    pub(super) fn plain(rates: &'static str, processes: usize, late: u64) -> Self {
        Self {
            seed: 1,
            processes,
            rates: vec![rates],
            mixed: false,
            weight: 1,
            late,
            very_late: 0,
            latency: 0,
            deaths: 0,
            cancels: 0,
            permits: 200,
        }
    }

    /// Makes a random plan.
    pub(super) fn any(seed: u64) -> Self {
        const RATES: [&str; 12] = [
            "1/SECOND",
            "2/SECOND",
            "1/3SECOND",
            "3/SECOND+20/10SECOND",
            "5/SECOND",
            "10/SECOND",
            "25/SECOND+60/5SECOND",
            "50/SECOND",
            "8/SECOND+300/MINUTE",
            "7/2SECOND+30/10SECOND+100/MINUTE",
            "1/100SECOND",
            "20/SECOND+5000/HOUR",
        ];
        let mut random = Rng::with_seed(seed);
        let two = random.u8(..3) == 0;
        let rates = (0..if two { 2 } else { 1 })
            .map(|_| RATES[random.usize(..RATES.len())])
            .collect();
        Self {
            seed,
            processes: random.usize(1..=20),
            rates,
            mixed: two && random.bool(),
            weight: if random.u8(..4) == 0 { 3 } else { 1 },
            late: [0, 1_000, 20_000, 50_000][random.usize(..4)],
            very_late: [0, 0, 200][random.usize(..3)],
            latency: [0, 200, 5_000][random.usize(..3)],
            deaths: if random.u8(..4) == 0 {
                random.usize(1..=3)
            } else {
                0
            },
            cancels: [0, 0, 20][random.usize(..3)],
            permits: 12,
        }
    }

    pub(super) fn windows(&self) -> Vec<Vec<Window>> {
        self.rates
            .iter()
            .map(|rates| parse_rates(rates).expect("rates"))
            .collect()
    }
}

/// Limits around and below the number of processes, with every lateness, long enough to judge
/// fairness.
pub(super) fn long_plans() -> Vec<Plan> {
    let mut plans = Vec::new();
    for late in [0, 1_000, 20_000, 50_000] {
        for (rates, processes) in [
            ("1/SECOND", 1),
            ("1/SECOND", 2),
            ("1/SECOND", 8),
            ("2/SECOND", 3),
            ("2/SECOND", 20),
            ("10/SECOND", 4),
            ("50/SECOND", 4),
            ("50/SECOND", 20),
        ] {
            plans.push(Plan::plain(rates, processes, late));
        }
    }
    plans
}
