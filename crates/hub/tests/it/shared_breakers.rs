//! What other processes and operators do to a breaker, as a running process learns of it.

use std::sync::Arc;

use docstokg_hub::clock::{Clock, Random};
use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::event::{EventKind, Observer};
use docstokg_hub::policy::breaker::BreakerState;
use docstokg_hub::stores::StateStore;
use docstokg_hub::{Host, Hub, Patience, RefusedBy, Repeatable, Role};
use docstokg_origin_sim::{OriginScript, ScriptedReply, SimTransport, SimulatedWeb, Simulation};
use parking_lot::Mutex;

use crate::support::{Notes, config, get, ms, seconds};

/// Several hubs of one world that share a store, as processes do.
struct SharedBreakerWorld {
    simulation: Simulation,
    web: SimulatedWeb,
    store: Arc<dyn StateStore>,
}

impl SharedBreakerWorld {
    fn new(origins: Vec<OriginScript>) -> Self {
        let simulation = Simulation::new();
        let web = SimulatedWeb::new(origins, simulation.boot());
        let store = simulation.shared_store();
        Self {
            simulation,
            web,
            store,
        }
    }

    fn hub(&self, notes: &Arc<Notes>) -> Hub {
        let flags = CommandLineFlags {
            breaker: vec![
                "gone.example=fail_max:2,reset:60,early_probes:false".into(),
                "weak.example=fail_max:2,reset:60,early_probes:false,trial_calls.metadata:1".into(),
                "files.example=early_probes:false,roles.artifact.fail_max:2,roles.artifact.reset_timeout_s:600".into(),
            ],
            ..CommandLineFlags::default()
        };
        Hub::builder(config(flags))
            .runtime(self.simulation.runtime())
            .store(Arc::clone(&self.store))
            .random(Random::seeded(3))
            .transport(SimTransport::new(&self.simulation, &self.web))
            .observer(Arc::clone(notes) as Arc<dyn Observer>)
            .build()
            .expect("a hub")
    }
}

fn host(name: &str) -> Host {
    Host::parse(name).expect("a host")
}

#[test]
fn an_operators_close_reaches_a_sleeping_request_within_five_seconds() {
    let world = SharedBreakerWorld::new(vec![OriginScript::new("a.example")]);
    let notes = Arc::new(Notes::default());
    let (hub, operator) = (world.hub(&notes), world.hub(&Arc::default()));
    let done = Arc::new(Mutex::new(None));
    let (op, sim) = (operator.clone(), world.simulation.clone());
    world.simulation.block_on(async move {
        op.block(&host("a.example"), seconds(3_600), "maintenance")
            .await
            .expect("it answers");
    });
    let (mine, put, simulation) = (hub.clone(), Arc::clone(&done), world.simulation.clone());
    world.simulation.start(async move {
        let request = get("http://a.example/")
            .patience(Patience::Wait)
            .deadline(seconds(7_200));
        assert_eq!(
            mine.fetch(request).await.expect("an answer").head.status,
            200
        );
        *put.lock() = Some(simulation.elapsed());
    });
    world.simulation.run_for(seconds(30));
    assert!(done.lock().is_none(), "still paused");
    let closed = world.simulation.elapsed();
    sim.block_on(async move {
        operator
            .unblock(&host("a.example"))
            .await
            .expect("it answers");
    });
    world.simulation.run_for(seconds(60));
    let done = done.lock().expect("it went on");
    assert!(
        done.saturating_sub(closed) <= seconds(5),
        "{:?} after the close",
        done.saturating_sub(closed)
    );
    let seen = |to: BreakerState| {
        let leads_to = |what: &EventKind| matches!(what, EventKind::BreakerSeen { transition, .. } if transition.to == to);
        let notes = notes.0.lock();
        notes.iter().any(|event| leads_to(&event.what))
    };
    assert!(
        seen(BreakerState::Open) && seen(BreakerState::Closed),
        "what others did is reported"
    );
}

#[test]
fn a_probe_that_succeeds_in_another_process_arrives_within_five_seconds() {
    let origin = OriginScript::new("weak.example").latency(seconds(12));
    let world = SharedBreakerWorld::new(vec![origin.handler(|_, n| {
        if n < 2 {
            ScriptedReply::status(500)
        } else {
            ScriptedReply::ok("well")
        }
    })]);
    let hubs = [world.hub(&Arc::default()), world.hub(&Arc::default())];
    for _ in 0..2 {
        let hub = hubs[0].clone();
        world.simulation.block_on(async move {
            assert_eq!(
                hub.fetch(get("http://weak.example/").repeatable(Repeatable::No))
                    .await
                    .expect("an answer")
                    .head
                    .status,
                500
            );
        });
    }
    for hub in hubs {
        world.simulation.start(async move {
            let request = get("http://weak.example/")
                .patience(Patience::Wait)
                .deadline(seconds(7_200));
            assert_eq!(
                hub.fetch(request).await.expect("an answer").head.status,
                200
            );
        });
    }
    world.simulation.run_for(seconds(200));
    let arrivals = world.web.ledger().at("weak.example");
    assert_eq!(
        arrivals.len(),
        4,
        "two failures, the probe, and the one that waited for it"
    );
    let between = arrivals[3].at.since(arrivals[2].at);
    assert!(
        between >= seconds(12) && between <= seconds(18),
        "the other followed {between:?} after the probe"
    );
}

#[test]
fn closing_the_breaker_of_a_role_reaches_a_sleeping_request_within_five_seconds() {
    let origin = OriginScript::new("files.example").handler(|_, n| {
        if n < 2 {
            ScriptedReply::status(500)
        } else {
            ScriptedReply::ok("well")
        }
    });
    let world = SharedBreakerWorld::new(vec![origin]);
    let (hub, operator) = (world.hub(&Arc::default()), world.hub(&Arc::default()));
    for _ in 0..2 {
        let hub = hub.clone();
        world.simulation.block_on(async move {
            let request = get("http://files.example/")
                .role(Role::Artifact)
                .repeatable(Repeatable::No);
            assert_eq!(
                hub.fetch(request).await.expect("an answer").head.status,
                500
            );
        });
    }
    let done = Arc::new(Mutex::new(None));
    let (put, simulation) = (Arc::clone(&done), world.simulation.clone());
    world.simulation.start(async move {
        let request = get("http://files.example/")
            .role(Role::Artifact)
            .patience(Patience::Wait)
            .deadline(seconds(7_200));
        assert_eq!(
            hub.fetch(request).await.expect("an answer").head.status,
            200
        );
        *put.lock() = Some(simulation.elapsed());
    });
    world.simulation.run_for(seconds(30));
    assert!(done.lock().is_none(), "the role's breaker is open");
    let closed = world.simulation.elapsed();
    world.simulation.block_on(async move {
        operator
            .unblock(&host("files.example"))
            .await
            .expect("it answers");
    });
    world.simulation.run_for(seconds(60));
    let done = done.lock().expect("it went on");
    assert!(
        done.saturating_sub(closed) <= seconds(5),
        "{:?} after the close",
        done.saturating_sub(closed)
    );
}

#[test]
fn a_watch_hears_that_a_block_has_ended_earlier_than_it_said() {
    let world = SharedBreakerWorld::new(vec![OriginScript::new("a.example")]);
    let (hub, operator) = (world.hub(&Arc::default()), world.hub(&Arc::default()));
    let op = operator.clone();
    world.simulation.block_on(async move {
        op.block(&host("a.example"), seconds(3_600), "maintenance")
            .await
            .expect("it answers");
    });
    let watch = hub.watch(&host("a.example"));
    world.simulation.run_for(seconds(6));
    assert!(watch.open_until().is_some(), "a heartbeat said so");
    let mut changes = hub.changes();
    changes.mark_unchanged();
    world.simulation.block_on(async move {
        operator
            .unblock(&host("a.example"))
            .await
            .expect("it answers");
    });
    world.simulation.run_for(seconds(5));
    assert!(changes.has_changed().expect("the hub lives"));
    assert_eq!(watch.open_until(), None);
}

#[test]
fn a_process_that_cannot_reach_a_host_shows_that_to_the_others_and_holds_up_none() {
    // A host without an address: a failure of local connectivity.
    let world = SharedBreakerWorld::new(vec![OriginScript::new("a.example")]);
    let (cut_off, other) = (world.hub(&Arc::default()), world.hub(&Arc::default()));
    let hub = cut_off.clone();
    world.simulation.block_on(async move {
        for _ in 0..2 {
            let _ = hub
                .fetch(get("http://gone.example/").repeatable(Repeatable::No))
                .await;
        }
        let error = hub
            .fetch(get("http://gone.example/"))
            .await
            .expect_err("it waits");
        assert_eq!(error.kind.class(), "breaker_open");
        assert_eq!(
            error.kind.refused().expect("a refusal").by,
            RefusedBy::Network
        );
        assert!(
            error
                .to_string()
                .contains("gone.example cannot be reached from here: the breaker is open"),
            "{error}"
        );
    });
    let hub = other.clone();
    let diagnosis = world.simulation.block_on(async move {
        hub.diagnose(&host("gone.example"))
            .await
            .expect("it answers")
    });
    let unreachable = &diagnosis[0].unreachable;
    assert_eq!(unreachable.len(), 1, "{diagnosis:?}");
    assert!(
        unreachable[0].who.contains(&std::process::id().to_string())
            && unreachable[0].retry_in > seconds(50),
        "{unreachable:?}"
    );
    assert!(diagnosis[0].because.is_none(), "others may send");
    world.simulation.run_for(seconds(70));
    let diagnosis = world.simulation.block_on(async move {
        other
            .diagnose(&host("gone.example"))
            .await
            .expect("it answers")
    });
    assert!(
        diagnosis[0].unreachable.is_empty(),
        "it is over when it is over"
    );
}

#[test]
fn a_block_is_reported_with_the_headers_and_not_after_a_body_that_trickles() {
    let busy = ScriptedReply::status(429).header("retry-after", "60").drip(
        &b"busy ".repeat(20),
        5,
        seconds(1),
    );
    let world =
        SharedBreakerWorld::new(vec![OriginScript::new("a.example").route("/busy", [busy])]);
    let (first, other) = (world.hub(&Arc::default()), world.hub(&Arc::default()));
    let ended = Arc::new(Mutex::new(None));
    let (put, simulation) = (Arc::clone(&ended), world.simulation.clone());
    world.simulation.start(async move {
        let answer = first
            .fetch(get("http://a.example/busy").repeatable(Repeatable::No))
            .await
            .expect("an answer");
        *put.lock() = Some((answer.head.status.as_u16(), simulation.boot()));
    });
    let begun = world.simulation.boot();
    world.simulation.run_for(seconds(2));
    let error = world.simulation.block_on(async move {
        other
            .fetch(get("http://a.example/"))
            .await
            .expect_err("it is blocked")
    });
    let left = error.kind.refused().expect("a refusal").cooldown_remaining;
    assert!((57_000..=59_000).contains(&left.as_millis()), "{left:?}");
    world.simulation.run_for(seconds(60));
    let (status, at) = ended.lock().take().expect("it has ended");
    assert_eq!(
        (status, at.since(begun).as_secs() < 1),
        (429, true),
        "no request waits for the rest of its body"
    );
    assert_eq!(world.web.ledger().len(), 1);
}

#[test]
fn the_doctor_tells_a_full_window_from_requests_that_come_first() {
    let world = SharedBreakerWorld::new(vec![OriginScript::new("a.example").latency(ms(10))]);
    let flags = CommandLineFlags {
        rate: vec!["a.example:metadata=rates:2/SECOND".into()],
        ..CommandLineFlags::default()
    };
    let hub = Hub::builder(config(flags))
        .runtime(world.simulation.runtime())
        .store(Arc::clone(&world.store))
        .random(Random::seeded(3))
        .transport(SimTransport::new(&world.simulation, &world.web))
        .build()
        .expect("a hub");
    for n in 0..3 {
        let hub = hub.clone();
        world.simulation.start(async move {
            let request =
                get(&format!("http://a.example/{n}")).rate_wait(docstokg_hub::RateWait::Deadline);
            assert_eq!(
                hub.fetch(request).await.expect("an answer").head.status,
                200
            );
        });
    }
    world.simulation.run_for(ms(600));
    let doctor = hub.clone();
    let found = world.simulation.block_on(async move {
        doctor
            .diagnose(&host("a.example"))
            .await
            .expect("it answers")
    });
    let metadata = &found[0];
    assert_eq!(
        metadata
            .because
            .as_ref()
            .map(ToString::to_string)
            .as_deref(),
        Some("the limit of 2 a second is reached"),
        "{metadata:?}"
    );
    assert_eq!(metadata.budgets[0].waiting, 1);
}

#[test]
fn the_doctor_does_not_count_what_a_dead_process_reserved() {
    let world = SharedBreakerWorld::new(vec![OriginScript::new("a.example").latency(ms(10))]);
    let hub = |runtime| {
        let rate = vec!["a.example:metadata=rates:1/10SECOND".into()];
        let flags = CommandLineFlags {
            rate,
            ..CommandLineFlags::default()
        };
        Hub::builder(config(flags))
            .runtime(runtime)
            .store(Arc::clone(&world.store))
            .random(Random::seeded(3))
            .transport(SimTransport::new(&world.simulation, &world.web))
            .build()
            .expect("a hub")
    };
    let process = world.simulation.process();
    let (killed, doctor) = (hub(process.runtime()), hub(world.simulation.runtime()));
    for _ in 0..2 {
        let hub = killed.clone();
        process.run(async move {
            let request = get("http://a.example/");
            let _ = hub
                .fetch(request.rate_wait(docstokg_hub::RateWait::Deadline))
                .await;
        });
    }
    let waiting = || {
        let doctor = doctor.clone();
        let found = world.simulation.block_on(async move {
            let found = doctor.diagnose(&host("a.example")).await;
            found.expect("it answers")
        });
        found[0].budgets[0].waiting
    };
    world.simulation.run_for(seconds(1));
    assert_eq!(waiting(), 1);
    process.kill();
    world.simulation.run_for(seconds(60));
    assert_eq!(waiting(), 0);
}
