//! Random events, and the rules of a random run.

use std::time::Duration;

use docstokg_policy::rate_headers::{Quota, RateHeaderFamily, Unit};
use proptest::prelude::*;

/// One event. Numbers choose among what is there.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Advance {
        micros: u64,
    },
    Enter {
        role: usize,
        weight: u32,
        patient: bool,
        latest_ms: Option<u64>,
        ahead: Option<u32>,
        halves: u8,
        backlog: u32,
    },
    Confirm {
        which: usize,
    },
    LeaveReserved {
        which: usize,
    },
    GiveBack {
        which: usize,
    },
    Hold {
        which: usize,
        longest_ms: u64,
    },
    Sent {
        which: usize,
        longest_ms: u64,
    },
    Stamp {
        which: usize,
    },
    Headers {
        which: usize,
        outcome: usize,
    },
    Settle {
        which: usize,
        outcome: usize,
        retry_after_ms: Option<u64>,
        percent: u8,
    },
    State {
        which: usize,
        quota: Quota,
    },
    Forget,
    ForgetAdaptation,
    Renew,
    Block {
        millis: u64,
    },
    Unblock,
}

pub(super) fn any_event() -> impl Strategy<Value = Event> {
    use Event::{
        Advance, Block, Confirm, Enter, ForgetAdaptation, GiveBack, Headers, Hold, LeaveReserved,
        Renew, Sent, Settle, Stamp, Unblock,
    };
    let which = 0..8usize;
    let micros = prop_oneof![
        1..2_000u64,
        100_000..700_000u64,
        1_000_000..9_000_000u64,
        Just(1_010_000u64),
        Just(1_009_999u64),
        Just(5_010_000u64)
    ];
    let enter = (
        0..3usize,
        prop_oneof![8 => 1..3u32, 1 => 1_300..1_500u32],
        any::<bool>(),
        proptest::option::weighted(0.7, 0..5_000u64),
        proptest::option::weighted(0.15, 0..5u32),
        0..3u8,
        prop_oneof![Just(0u32), 1..12u32, 4_000..6_000u32],
    );
    let enter = enter.prop_map(
        |(role, weight, patient, latest_ms, ahead, halves, backlog)| Enter {
            role,
            weight,
            patient,
            latest_ms,
            ahead,
            halves,
            backlog,
        },
    );
    let settle = (
        which.clone(),
        prop_oneof![2 => 0..4usize, 3 => Just(1usize), 2 => Just(3usize)],
        proptest::option::weighted(0.2, 0..9_000u64),
        0..100u8,
    );
    let settle = settle.prop_map(|(which, outcome, retry_after_ms, percent)| Settle {
        which,
        outcome,
        retry_after_ms,
        percent,
    });
    let lengths = |longest: std::ops::Range<u64>| (0..8usize, longest);
    prop_oneof![
        6 => micros.prop_map(|micros| Advance { micros }),
        10 => enter,
        4 => which.clone().prop_map(|which| Confirm { which }),
        1 => which.clone().prop_map(|which| LeaveReserved { which }),
        1 => which.clone().prop_map(|which| GiveBack { which }),
        2 => lengths(1..9_000).prop_map(|(which, longest_ms)| Hold { which, longest_ms }),
        2 => lengths(0..1_500).prop_map(|(which, longest_ms)| Sent { which, longest_ms }),
        2 => which.clone().prop_map(|which| Stamp { which }),
        2 => (which, 0..4usize).prop_map(|(which, outcome)| Headers { which, outcome }),
        7 => settle,
        1 => Just(ForgetAdaptation),
        1 => Just(Renew),
        1 => (1..6_000u64).prop_map(|millis| Block { millis }),
        1 => Just(Unblock),
    ]
}

/// What holds for one run.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(super) struct Rules {
    pub(super) rates: [&'static str; 2],
    pub(super) slots: [Option<u32>; 2],
    pub(super) isolated: Option<usize>,
    pub(super) adaptive: bool,
    pub(super) rolling: bool,
    pub(super) shadow: bool,
    pub(super) throttle_block: bool,
    pub(super) early_probes: bool,
    pub(super) paced: bool,
    pub(super) fail_max: u32,
    /// Whether limits are learned, and up to which rate if any is given.
    pub(super) learn: Option<&'static str>,
    /// Whether the host states quotas.
    pub(super) stated: bool,
}

pub(super) fn any_rules() -> impl Strategy<Value = Rules> {
    let rates = || {
        prop_oneof![
            Just("2/SECOND"),
            Just("1/3SECOND"),
            Just("3/SECOND+5/10SECOND"),
            Just("5000/SECOND"),
            Just("4/2SECOND+4100/5SECOND"),
            Just("30/SECOND"),
            Just("3/SECOND+40/MINUTE"),
            Just("40/MINUTE"),
            Just("4/SECOND+5000/HOUR")
        ]
    };
    let slots = || proptest::option::weighted(0.2, 1..3u32);
    (
        rates(),
        rates(),
        slots(),
        slots(),
        proptest::option::weighted(0.3, 0..3usize),
        any::<[bool; 3]>(),
        (
            proptest::bool::weighted(0.1),
            proptest::bool::weighted(0.7),
            any::<bool>(),
        ),
        1..6u32,
    )
        .prop_map(
            |(
                first,
                second,
                one,
                two,
                isolated,
                [adaptive, rolling, throttle_block],
                (shadow, early_probes, paced),
                fail_max,
            )| Rules {
                rates: [first, second],
                slots: [one, two],
                isolated,
                adaptive,
                rolling,
                shadow,
                throttle_block,
                early_probes,
                paced,
                fail_max,
                learn: None,
                stated: false,
            },
        )
}

/// Requests that fail at a host without limits, and probes of every role.
pub(super) fn any_outage_event() -> impl Strategy<Value = Event> {
    let micros = prop_oneof![
        1 => 1..300_000u64,
        4 => 800_000..1_300_000u64,
        2 => 1_000_000..9_000_000u64,
    ];
    let enter = (0..3usize, 0..3u8).prop_map(|(role, halves)| Event::Enter {
        role,
        weight: 1,
        patient: halves == 1,
        latest_ms: None,
        ahead: None,
        halves: halves / 2,
        backlog: 0,
    });
    let settle = (
        0..2usize,
        prop_oneof![12 => Just(1usize), 1 => 0..4usize],
        proptest::option::weighted(0.05, 0..9_000u64),
        0..100u8,
    );
    let settle = settle.prop_map(|(which, outcome, retry_after_ms, percent)| Event::Settle {
        which,
        outcome,
        retry_after_ms,
        percent,
    });
    prop_oneof![
        12 => micros.prop_map(|micros| Event::Advance { micros }),
        15 => enter,
        12 => settle,
        3 => (0..2usize).prop_map(|which| Event::Confirm { which }),
        1 => (0..2usize).prop_map(|which| Event::GiveBack { which }),
        1 => Just(Event::Renew),
        1 => (1..3_000u64).prop_map(|millis| Event::Block { millis }),
    ]
}

/// Rules under which outages are frequent.
pub(super) fn outage_rules() -> impl Strategy<Value = Rules> {
    (1..3u32, proptest::option::weighted(0.2, 0..3usize)).prop_map(|(fail_max, isolated)| Rules {
        rates: ["5000/SECOND"; 2],
        slots: [None; 2],
        isolated,
        adaptive: false,
        rolling: false,
        shadow: false,
        throttle_block: false,
        early_probes: true,
        paced: false,
        fail_max,
        learn: None,
        stated: false,
    })
}

/// Rules under which limits are learned, or stated, or both.
pub(super) fn learning_rules() -> impl Strategy<Value = Rules> {
    let learn = prop_oneof![
        2 => Just(Some("by refusals alone")),
        2 => Just(Some("20/SECOND")),
        1 => Just(None),
    ];
    let rates = prop_oneof![
        Just("5000/SECOND"),
        Just("30/SECOND"),
        Just("4/SECOND+5000/HOUR")
    ];
    (any_rules(), rates, learn, any::<bool>(), 2..30u32).prop_map(
        |(rules, first, learn, stated, fail_max)| Rules {
            rates: [first, "5000/SECOND"],
            adaptive: false,
            fail_max,
            learn,
            stated: stated || learn.is_none(),
            ..rules
        },
    )
}

/// All events, refusals and statements, and times after which they are forgotten.
pub(super) fn any_learning_event() -> impl Strategy<Value = Event> {
    let quota = (
        prop_oneof![4 => Just(Unit::Requests), 1 => Just(Unit::Credits), 1 => Just(Unit::ContentBytes)],
        proptest::option::of(prop_oneof![Just(1u64), Just(10), Just(60)]),
        proptest::option::of(1..40u32),
        proptest::option::weighted(0.8, 0..30u32),
        proptest::option::weighted(0.8, 0..40u64),
    );
    let quota = quota.prop_map(|(unit, window, limit, remaining, resets_in)| Quota {
        unit,
        window: window.map(Duration::from_secs),
        limit,
        remaining,
        resets_in: resets_in.map(Duration::from_secs),
        partition: None,
        source: RateHeaderFamily::RateLimit,
    });
    let enter = (0..3usize, 0..3u8, 0..4u32).prop_map(|(role, halves, backlog)| Event::Enter {
        role,
        weight: 1,
        patient: true,
        latest_ms: None,
        ahead: None,
        halves,
        backlog: backlog * 7,
    });
    let served = (0..4usize, 0..100u8).prop_map(|(which, percent)| Event::Settle {
        which,
        outcome: if percent < 85 { 0 } else { 3 },
        retry_after_ms: None,
        percent,
    });
    prop_oneof![
        24 => any_event(),
        16 => enter,
        14 => served,
        8 => (0..4usize).prop_map(|which| Event::Confirm { which }),
        8 => (50_000..700_000u64).prop_map(|micros| Event::Advance { micros }),
        5 => (0..4usize, quota).prop_map(|(which, quota)| Event::State { which, quota }),
        1 => (61_000_000..130_000_000u64).prop_map(|micros| Event::Advance { micros }),
        1 => prop_oneof![
            4 => Just(Event::Forget),
            1 => Just(Event::Advance { micros: 8 * 86_400_000_000 }),
        ],
    ]
}
