//! Learned limits against simulated servers, beside models of other clients.

#![allow(
    clippy::expect_used,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a failed expectation is a failed test, and its numbers are small"
)]

// Which servers there are.
mod classes;
// What other clients do.
mod peers;
// What holds for every sequence.
mod properties;
// Seeded numbers.
mod random;
// What a server decides.
mod server;
// How fast limits are found.
mod short_runs;
// All clients, all classes.
mod table;
// The network and the clock.
mod world;

use classes::Class;
use server::Rule;
use table::{FIRST, Learning, TableKind, mean, table};
use world::LearningRun;

#[test]
#[ignore = "minutes in a debug build: run it with cargo xtask limits"]
#[expect(clippy::print_stdout, reason = "the table is the output")]
fn table_of_simulated_servers() {
    let servers = std::env::var("DOCSTOKG_LIMITS_SERVERS").map_or(Ok(200), |text| text.parse());
    println!("{}", table(servers.expect("a number"), &TableKind::ALL));
}

/// The least use and the most refusals of five servers a class. A change that makes the learner
/// worse fails here; `cargo xtask limits` has the whole table.
const LEAST_USE: f64 = 0.92;
const MOST_REFUSALS: f64 = 15.0;

#[test]
fn five_servers_a_class_are_used_well_with_few_refusals() {
    let runs: Vec<LearningRun> = (Class::TABLE.iter())
        .map(|class| TableKind::Learning.mean(*class, 5))
        .collect();
    for (class, run) in Class::TABLE.iter().zip(&runs) {
        assert!(
            run.early == 0.0,
            "{}: sent during Retry-After",
            class.name()
        );
        assert!(run.share > 0.55, "{}: {run:?}", class.name());
    }
    let mean = mean(runs.into_iter());
    assert!(mean.share >= LEAST_USE, "{mean:?}");
    assert!(mean.throttled <= MOST_REFUSALS, "{mean:?}");
}

#[test]
fn a_client_that_asks_for_less_is_never_slowed_down() {
    let run = TableKind::Learning.mean(Class::AppLimited, 5);
    assert!(run.share > 0.98, "{run:?}");
    assert!(run.throttled < 2.0, "{run:?}");
}

#[test]
fn windows_off_the_grid_are_used() {
    for (class, least) in [
        (Class::Off7, 0.88),
        (Class::Off12, 0.89),
        (Class::Off45, 0.74),
    ] {
        let run = TableKind::Learning.mean(class, 5);
        assert!(run.share > least, "{}: {run:?}", class.name());
    }
}

#[test]
fn what_is_confirmed_is_said_in_words() {
    let mut client = Learning::new(1);
    let mut server = Class::Log.server(FIRST);
    server.rules = vec![Rule::log(10.0, 5.0)];
    world::run(server, &mut client, 1);
    let words: Vec<String> = client
        .learner
        .confirmed()
        .map(ToString::to_string)
        .collect();
    assert_eq!(words.len(), 1, "{words:?}");
    assert!(words[0].starts_with("10 per 5 s, seen "), "{words:?}");
}
