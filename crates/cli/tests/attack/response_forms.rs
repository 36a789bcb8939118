//! How much of the suite runs, and where its results go.

use std::io::Write;

/// Set by `cargo xtask attack`.
const FULL: &str = "DOCSTOKG_ATTACK";
/// The file that gets one line per class: name, cases, figures.
const REPORT: &str = "DOCSTOKG_ATTACK_REPORT";

/// Returns whether everything runs, and not the short form.
pub(crate) fn is_full() -> bool {
    std::env::var_os(FULL).is_some()
}

/// Takes all cases, or as many as the short form has time for.
pub(crate) fn some<T>(cases: Vec<T>, short: usize) -> Vec<T> {
    if is_full() { cases } else { few(cases, short) }
}

/// Takes so many cases from all parts of the list, the same ones each time.
pub(crate) fn few<T>(mut cases: Vec<T>, short: usize) -> Vec<T> {
    fastrand::Rng::with_seed(15).shuffle(&mut cases);
    cases.truncate(short);
    cases
}

/// Runs one class at a time: each is measured, and another busy class would disturb that.
pub(crate) fn alone() -> std::sync::MutexGuard<'static, ()> {
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    // A class that failed has released the lock.
    TURN.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Records the result of a class, and fails if anything was wrong.
pub(crate) fn conclude(class: &str, cases: usize, figures: &str, problems: &[String]) {
    let outcome = if problems.is_empty() {
        "held"
    } else {
        "FAILED"
    };
    let line = format!("{class}\t{cases}\t{outcome}\t{figures}\n");
    if let Some(path) = std::env::var_os(REPORT) {
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("the report can be written");
    }
    assert!(
        problems.is_empty(),
        "{class}: {figures}\n{}",
        problems.join("\n")
    );
}
