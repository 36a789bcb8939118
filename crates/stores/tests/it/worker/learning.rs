//! Work that teaches something about the limits of a host.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::classify::AttemptMeaning;
use docstokg_policy::host_model::quotas::QuotaStatement;
use docstokg_policy::rate_headers::{Quota, RateHeaderFamily, RateHeaderReading, Unit};
use docstokg_policy::site::AdmissionDecision;
use docstokg_policy::time::{BootInstant, Clock};
use docstokg_stores::clock::SystemClock;
use docstokg_stores::conformance::arrive;

use super::{WorkerClient, say};

/// Runs every operation that teaches something, without end: a kill hits it in the middle of one.
pub(super) fn learn_without_pause(client: &WorkerClient) {
    say("holding");
    for turn in 0u32.. {
        let ask = client.ask(BootInstant::FAR);
        match client.wait().entry {
            AdmissionDecision::Go(permit) if turn % 7 == 0 => {
                arrive(client.site.leave(&ask, permit.id, Some(permit.stamp)));
            }
            AdmissionDecision::Go(permit) => {
                let statement = remaining(2_000 - turn.min(1_999));
                arrive(client.site.state_quotas(&ask, &permit, &statement));
                arrive(
                    client
                        .site
                        .settle_headers(&ask, &permit, AttemptMeaning::Success),
                );
                client.settle(&permit, AttemptMeaning::Success);
            }
            AdmissionDecision::Wait(reserved) => {
                arrive(client.site.leave(&ask, reserved.id, None));
                if turn % 64 == 0 {
                    arrive(client.site.forget_learned());
                }
            }
            _ => {
                arrive(client.site.unblock());
            }
        }
    }
}

/// What a host states that has so much left.
pub(crate) fn remaining(remaining: u32) -> Arc<QuotaStatement> {
    let quota = Quota {
        unit: Unit::Requests,
        window: None,
        limit: Some(2_000),
        remaining: Some(remaining),
        resets_in: Some(Duration::from_secs(30)),
        partition: None,
        source: RateHeaderFamily::RateLimit,
    };
    Arc::new(QuotaStatement {
        reading: RateHeaderReading {
            quotas: vec![quota],
            ..RateHeaderReading::default()
        },
        retry_after: None,
        is_refusal: false,
        is_spent_kind: false,
    })
}

/// Sends one byte as soon as it may to an origin that answers with one, without end, and says when it
/// was permitted.
#[expect(clippy::disallowed_methods, reason = "a worker runs in real time")]
pub(super) fn pace(client: &WorkerClient, port: &str) {
    let mut origin = TcpStream::connect(format!("127.0.0.1:{port}")).expect("an origin");
    origin.set_nodelay(true).expect("a socket");
    let sleep_until = |at: BootInstant| std::thread::sleep(at.since(SystemClock.boot()));
    let mut entry = client.wait().entry;
    loop {
        entry = match entry {
            AdmissionDecision::Go(permit) => {
                say(&format!("permitted {}", permit.stamp.as_micros()));
                let mut answer = *b"?";
                origin.write_all(&answer).expect("a request");
                origin.read_exact(&mut answer).expect("an answer");
                let is_served = answer == *b"1";
                let outcome = if is_served {
                    AttemptMeaning::Success
                } else {
                    AttemptMeaning::Throttled
                };
                client.settle(&permit, outcome);
                client.wait().entry
            }
            AdmissionDecision::Wait(reserved) => {
                sleep_until(reserved.at);
                let ask = client.ask(BootInstant::FAR);
                arrive(client.site.confirm(&ask, reserved.id)).entry
            }
            AdmissionDecision::WaitForBreaker { until, .. } => {
                sleep_until(until);
                client.wait().entry
            }
            other => panic!("{other:?}"),
        };
    }
}
