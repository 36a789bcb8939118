//! The facade in one process, under a simulated clock.

use std::sync::Arc;
use std::time::Duration;

use docstokg_ontology::facade::rate::short;
use docstokg_ontology::facade::{AcquireError, AcquireMode, Facade, Hint, RateLimits};
use docstokg_origin_sim::Simulation;
use parking_lot::Mutex;

use crate::support::Kept;

const HOST: Option<&str> = Some("www.ebi.ac.uk");
const OLS: Option<&str> = Some("ols");

pub(crate) fn limits(text: &str) -> RateLimits {
    RateLimits::from_text(text, "settings.yaml").unwrap()
}

fn facade(world: &Simulation, settings: &str) -> Facade {
    Facade::builder(limits(settings))
        .runtime(world.runtime())
        .store(world.store())
        .build()
        .unwrap()
}

/// Runs a test in exact simulated time.
fn run<F: Future<Output = ()> + Send + 'static>(test: impl FnOnce(Simulation) -> F) {
    let world = Simulation::exact();
    world.block_on(test(world.clone()));
}

#[test]
fn the_call_beyond_the_window_waits_until_it_has_passed() {
    run(|world| async move {
        let kept = Kept::new();
        let facade = Facade::builder(limits("per_service: ols:4/second"))
            .runtime(world.runtime())
            .store(world.store())
            .observer(kept.clone())
            .run_id("run-1")
            .build()
            .unwrap();
        for _ in 0..4 {
            let acquired = facade
                .acquire(OLS, HOST, AcquireMode::Block, 1)
                .await
                .unwrap();
            assert_eq!(acquired.blocked, Duration::ZERO);
        }
        let last = facade
            .acquire(OLS, HOST, AcquireMode::Block, 1)
            .await
            .unwrap();
        // Four in any second, and no more: the fifth waits for the first to leave the window.
        assert!(last.blocked >= Duration::from_secs(1), "{:?}", last.blocked);
        assert!(
            last.blocked <= Duration::from_millis(1_020),
            "{:?}",
            last.blocked
        );

        let events = kept.all();
        assert_eq!(events.len(), 5, "one event for each attempt");
        let event = kept.last();
        assert_eq!(event["event"], "ratelimit.acquire");
        assert_eq!(event["key"], "ols:www.ebi.ac.uk");
        assert_eq!(event["rates"], serde_json::json!(["4/s", "300/min"]));
        assert_eq!(
            (&event["mode"], &event["outcome"]),
            (&"block".into(), &"ok".into())
        );
        assert_eq!(event["run_id"], "run-1");
        assert_eq!(event["config_hash"].as_str().unwrap().len(), 12);
        assert!(event["blocked_ms"].as_f64().unwrap() >= 1_000.0);
    });
}

#[test]
fn the_minute_window_holds_while_the_second_has_room() {
    run(|world| async move {
        let facade = facade(&world, "default: 8/second+12/minute");
        let start = world.elapsed();
        for _ in 0..12 {
            facade
                .acquire(OLS, HOST, AcquireMode::Block, 1)
                .await
                .unwrap();
        }
        assert!(
            world.elapsed().saturating_sub(start) < Duration::from_secs(2),
            "twelve in two bursts"
        );
        world.sleep(Duration::from_secs(5)).await;
        let error = facade
            .acquire(OLS, HOST, AcquireMode::Fail, 1)
            .await
            .unwrap_err();
        let AcquireError::Exceeded {
            window, retry_in, ..
        } = &error
        else {
            panic!("{error}")
        };
        assert_eq!(short(&window.unwrap()), "12/min");
        assert!(*retry_in > Duration::from_secs(50), "{retry_in:?}");
        assert!(
            error.to_string().contains("has used up 12/min; retry in 5"),
            "{error}"
        );
    });
}

#[test]
fn fail_mode_is_refused_at_once_and_costs_nothing() {
    run(|world| async move {
        let kept = Kept::new();
        let facade = Facade::builder(limits("per_service: ols:2/second"))
            .runtime(world.runtime())
            .store(world.store())
            .observer(kept.clone())
            .build()
            .unwrap();
        for _ in 0..2 {
            facade
                .acquire(OLS, HOST, AcquireMode::Fail, 1)
                .await
                .unwrap();
        }
        let before = world.elapsed();
        for _ in 0..100 {
            facade
                .acquire(OLS, HOST, AcquireMode::Fail, 1)
                .await
                .unwrap_err();
        }
        assert_eq!(world.elapsed(), before, "no time passes");
        assert_eq!(kept.last()["outcome"], "exceeded");
        world.sleep(Duration::from_millis(1_020)).await;
        facade
            .acquire(OLS, HOST, AcquireMode::Fail, 2)
            .await
            .unwrap();
    });
}

#[test]
fn hosts_and_services_have_budgets_of_their_own() {
    run(|world| async move {
        let facade = facade(&world, "default: 1/second");
        let now = |service, host| facade.acquire(service, host, AcquireMode::Fail, 1);
        now(OLS, HOST).await.unwrap();
        now(OLS, HOST).await.unwrap_err();
        now(OLS, Some("cdn.example.org")).await.unwrap();
        now(Some("lov"), HOST).await.unwrap();
        now(None, HOST).await.unwrap();
        now(None, None).await.unwrap();
        now(None, None).await.unwrap_err();
    });
}

#[test]
fn known_services_are_ready_and_hosts_come_when_first_seen() {
    run(|world| async move {
        let facade = facade(&world, "per_service: ols:4/second;bioportal:2/second");
        let keys = |facade: &Facade| -> Vec<String> {
            facade
                .keys()
                .unwrap()
                .iter()
                .map(ToString::to_string)
                .collect()
        };
        assert_eq!(keys(&facade), ["bioportal:default", "ols:default"]);
        facade
            .acquire(OLS, HOST, AcquireMode::Block, 1)
            .await
            .unwrap();
        assert_eq!(
            keys(&facade),
            ["bioportal:default", "ols:default", "ols:www.ebi.ac.uk"]
        );
        let found = facade.diagnose().await.unwrap();
        let ols = found
            .iter()
            .find(|key| key.key.to_string() == "ols:www.ebi.ac.uk")
            .unwrap();
        assert_eq!(
            ols.windows
                .iter()
                .map(|(_, used)| *used)
                .collect::<Vec<_>>(),
            [1, 1]
        );
        assert!((ols.per_second[0] - 4.0).abs() < 1e-9 && (ols.per_second[1] - 5.0).abs() < 1e-9);
        assert_eq!(ols.eligible_in, Duration::ZERO);
    });
}

#[test]
fn no_default_is_no_limit_except_for_services_with_one() {
    run(|world| async move {
        let facade = facade(&world, "default: null\nper_service: ols:1/second");
        for _ in 0..1_000 {
            facade
                .acquire(Some("lov"), HOST, AcquireMode::Fail, 1)
                .await
                .unwrap();
        }
        facade
            .acquire(OLS, HOST, AcquireMode::Fail, 1)
            .await
            .unwrap();
        facade
            .acquire(OLS, HOST, AcquireMode::Fail, 1)
            .await
            .unwrap_err();
        // A cooldown holds for a key without a limit, too.
        facade.cooldown_for("lov:www.ebi.ac.uk", 2.0).await.unwrap();
        facade
            .acquire(Some("lov"), HOST, AcquireMode::Fail, 1)
            .await
            .unwrap_err();
    });
}

#[test]
fn a_caller_that_slept_through_the_retry_after_does_not_wait_again() {
    run(|world| async move {
        let kept = Kept::new();
        let facade = Facade::builder(RateLimits::default())
            .runtime(world.runtime())
            .store(world.store())
            .observer(kept.clone())
            .build()
            .unwrap();
        let start = world.elapsed();
        facade
            .acquire(OLS, HOST, AcquireMode::Block, 1)
            .await
            .unwrap();
        // The origin answers 429 with Retry-After: 1; the caller's own retry sleeps.
        facade.cooldown_for("ols:www.ebi.ac.uk", 1.0).await.unwrap();
        assert_eq!(kept.last()["event"], "ratelimit.cooldown");
        assert_eq!(kept.last()["seconds"], 1.0);
        world.sleep(Duration::from_secs(1)).await;
        let again = facade
            .acquire(OLS, HOST, AcquireMode::Block, 1)
            .await
            .unwrap();
        assert_eq!(again.blocked, Duration::ZERO);
        assert_eq!(
            world.elapsed().saturating_sub(start),
            Duration::from_secs(1)
        );
    });
}

#[test]
fn a_cooldown_is_waited_for_once() {
    run(|world| async move {
        let facade = facade(&world, "per_service: ols:4/second");
        facade.cooldown_for("ols:www.ebi.ac.uk", 3.0).await.unwrap();
        // A shorter one shortens nothing.
        facade.cooldown_for("ols:www.ebi.ac.uk", 1.0).await.unwrap();
        let error = facade
            .acquire(OLS, HOST, AcquireMode::Fail, 1)
            .await
            .unwrap_err();
        let AcquireError::Exceeded { hint, retry_in, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!(*hint, Some(Hint::Cooldown));
        assert_eq!(*retry_in, Duration::from_secs(3));
        assert!(error.to_string().contains("cooldown"), "{error}");
        // Other keys of the host go on.
        facade
            .acquire(Some("lov"), HOST, AcquireMode::Fail, 1)
            .await
            .unwrap();
        let first = facade
            .acquire(OLS, HOST, AcquireMode::Block, 1)
            .await
            .unwrap();
        assert_eq!(first.blocked, Duration::from_secs(3));
        for _ in 0..3 {
            let next = facade
                .acquire(OLS, HOST, AcquireMode::Block, 1)
                .await
                .unwrap();
            assert_eq!(next.blocked, Duration::ZERO, "the windows were not touched");
        }
    });
}

#[test]
fn a_cooldown_that_begins_during_a_wait_is_obeyed() {
    run(|world| async move {
        let facade = facade(&world, "default: 1/second");
        facade
            .acquire(OLS, HOST, AcquireMode::Block, 1)
            .await
            .unwrap();
        let waited = Arc::new(Mutex::new(None));
        let (theirs, result) = (facade.clone(), Arc::clone(&waited));
        world.start(async move {
            let acquired = theirs
                .acquire(OLS, HOST, AcquireMode::Block, 1)
                .await
                .unwrap();
            *result.lock() = Some(acquired.blocked);
        });
        world.sleep(Duration::from_millis(500)).await;
        facade.cooldown_for("ols:www.ebi.ac.uk", 5.0).await.unwrap();
        world.sleep(Duration::from_secs(7)).await;
        let waited = waited.lock().unwrap();
        assert!(waited >= Duration::from_millis(5_500), "{waited:?}");
        assert!(waited <= Duration::from_millis(5_600), "{waited:?}");
    });
}

#[test]
fn waiting_callers_go_in_order_and_no_refused_one_overtakes_them() {
    run(|world| async move {
        let facade = facade(&world, "default: 1/second");
        let order = Arc::new(Mutex::new(Vec::new()));
        for number in 0..4 {
            let (facade, order) = (facade.clone(), Arc::clone(&order));
            world.start(async move {
                facade
                    .acquire(OLS, HOST, AcquireMode::Block, 1)
                    .await
                    .unwrap();
                order.lock().push(number);
            });
        }
        for _ in 0..30 {
            world.sleep(Duration::from_millis(100)).await;
            if order.lock().len() < 4 {
                facade
                    .acquire(OLS, HOST, AcquireMode::Fail, 1)
                    .await
                    .unwrap_err();
            }
        }
        world.sleep(Duration::from_secs(1)).await;
        assert_eq!(*order.lock(), [0, 1, 2, 3]);
    });
}

#[test]
fn a_dropped_caller_gives_its_place_back() {
    run(|world| async move {
        let facade = facade(&world, "default: 1/second");
        facade
            .acquire(OLS, HOST, AcquireMode::Block, 1)
            .await
            .unwrap();
        {
            let mut waiting = Box::pin(facade.acquire(OLS, HOST, AcquireMode::Block, 1));
            let polled = std::future::poll_fn(|context| {
                std::task::Poll::Ready(waiting.as_mut().poll(context).is_pending())
            });
            assert!(polled.await);
        }
        world.sleep(Duration::from_millis(1_020)).await;
        facade
            .acquire(OLS, HOST, AcquireMode::Fail, 1)
            .await
            .unwrap();
    });
}

#[test]
fn calls_that_can_never_succeed_say_so() {
    run(|world| async move {
        let kept = Kept::new();
        let facade = Facade::builder(limits("per_service: ols:4/second"))
            .runtime(world.runtime())
            .store(world.store())
            .observer(kept.clone())
            .build()
            .unwrap();
        let error = facade
            .acquire(OLS, HOST, AcquireMode::Block, 5)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("a weight of 5 never fits into the windows of ols"),
            "{error}"
        );
        let nothing = facade.acquire(OLS, HOST, AcquireMode::Fail, 0).await;
        assert_eq!(nothing.unwrap_err(), AcquireError::NoWeight);
        let error = facade
            .acquire(OLS, Some("a b"), AcquireMode::Block, 1)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("'a b' is not a host"), "{error}");
        assert_eq!(
            kept.all()
                .iter()
                .filter(|event| event["outcome"] == "error")
                .count(),
            3
        );
        for seconds in [f64::NAN, -1.0, f64::INFINITY] {
            facade
                .cooldown_for("ols:default", seconds)
                .await
                .unwrap_err();
        }
        facade.cooldown_for("ols", 1.0).await.unwrap_err();
        let longest = facade.cooldown_for("ols:default", 1e12).await.unwrap();
        assert_eq!(longest, Duration::from_secs(86_400));
    });
}

#[test]
fn a_shorter_cooldown_changes_nothing_and_returns_the_one_in_force() {
    run(|world| async move {
        let kept = Kept::new();
        let facade = Facade::builder(limits(""))
            .runtime(world.runtime())
            .store(world.store())
            .observer(kept.clone())
            .build()
            .unwrap();
        let key = "ols:www.ebi.ac.uk";
        let first = facade.cooldown_for(key, 2.0).await.unwrap();
        assert_eq!(first, Duration::from_secs(2));
        let second = facade.cooldown_for(key, 0.5).await.unwrap();
        assert!(second > Duration::from_millis(1_900), "{second:?}");
        assert_eq!(kept.all().len(), 1, "what changes nothing is no event");
        let third = facade.cooldown_for(key, 3.0).await.unwrap();
        assert_eq!(third, Duration::from_secs(3));
        assert_eq!(kept.all().len(), 2);
    });
}
