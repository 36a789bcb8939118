//! Doing one step of a work, and writing down what came of it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use docstokg_hub::redact;
use docstokg_policy::canonical;

use super::Rehearsal;
use super::engine::{Engine, Held, RunError};
use crate::artifact::{Arrived, Fetched, PREPARING, Page};
use crate::digest::fingerprint;
use crate::layout::{extension_of, path_of, staging};
use crate::location::Location;
use crate::manifest::Attempt;
use crate::pursuit::{Kind, Setback, Step};
use crate::queue::AttemptRow;
use crate::resolver::Outcome;
use crate::sniff::Payload;
use crate::work::Work;

/// How often a place may say that it is not now, before it is given up.
const MOST_DELAYS: u32 = 8;
/// Blocks that are as long as this are waited for without counting.
const LONG: Duration = Duration::from_secs(60);

impl Engine {
    /// Does the step that these works stand before; all of them stand before the same. Those that go on come back.
    pub(super) async fn step(&self, mut works: Vec<Held>) -> Result<Vec<Held>, RunError> {
        if self.options.rehearsal == Rehearsal::DryRun {
            for held in &mut works {
                Self::rehearse(held, "dry_run");
            }
            return Ok(works);
        }
        for held in &mut works {
            held.pursuit.begun.get_or_insert(self.now());
        }
        match works.first().map(|held| held.step.clone()) {
            Some(Step::Resolve(name)) => self.resolve(name, &mut works).await?,
            Some(Step::Read(_)) => {
                for held in &mut works {
                    self.read(held).await?;
                }
            }
            Some(Step::Fetch(_)) => {
                for held in &mut works {
                    self.fetch(held).await?;
                }
            }
            _ => {}
        }
        let mut go_on = Vec::with_capacity(works.len());
        for mut held in works {
            let begun = held.pursuit.begun.unwrap_or(f64::MAX);
            if let Some(most) = self.options.item_deadline
                && self.now() - begun > most.as_secs_f64()
                && held.step != Step::End
            {
                held.pursuit.set_back("deadline", "the time for this work is over");
                held.step = Step::End;
            }
            if held.step == Step::End { self.end(held).await? } else { go_on.push(held) }
        }
        Ok(go_on)
    }

    /// Ends a work without having done anything.
    fn rehearse(held: &mut Held, reason: &str) {
        let detail = match &held.step {
            Step::Fetch(place) => held.pursuit.place(*place).map_or_else(String::new, |location| format!("would fetch {}", redact(&location.url))),
            Step::Read(place) => held.pursuit.place(*place).map_or_else(String::new, |location| format!("would read {}", redact(&location.url))),
            Step::Resolve(name) => format!("would ask {name}"),
            Step::Wait(_) | Step::End => String::new(),
        };
        held.pursuit.set_back(reason, &detail);
        held.step = Step::End;
    }

    async fn resolve(&self, name: &'static str, works: &mut [Held]) -> Result<(), RunError> {
        let begun = self.runtime.boot();
        let Some(resolver) = self.resolvers.iter().find(|resolver| resolver.name() == name) else { return Ok(()) };
        let known: Vec<Work> = works.iter().map(|held| held.pursuit.work.clone()).collect();
        let mut outcomes = resolver.resolve(&known, &self.web).await.into_iter();
        let elapsed_ms = self.runtime.boot().since(begun).as_secs_f64() * 1_000.0;
        let mut rows = Vec::new();
        for held in works {
            let outcome = outcomes
                .next()
                .unwrap_or_else(|| Outcome::NotFound { detail: "no answer for this work".to_owned(), learned: crate::work::Learned::default() });
            rows.push(self.lookup_row(&held.work_id, name, &outcome, elapsed_ms));
            held.pursuit.resolved(name, outcome, self.now());
            held.step = self.next(&held.pursuit);
        }
        self.note(rows).await
    }

    async fn read(&self, held: &mut Held) -> Result<(), RunError> {
        let Step::Read(place) = held.step else { return Ok(()) };
        let Some(location) = held.pursuit.place(place).cloned() else { return Ok(()) };
        let begun = self.runtime.boot();
        let outcome = self.landing.read(location.url, &self.web).await;
        let elapsed_ms = self.runtime.boot().since(begun).as_secs_f64() * 1_000.0;
        let row = self.lookup_row(&held.work_id, "landing_page", &outcome, elapsed_ms);
        held.pursuit.read(place, outcome, self.now());
        held.step = self.next(&held.pursuit);
        self.note(vec![row]).await
    }

    async fn fetch(&self, held: &mut Held) -> Result<(), RunError> {
        let Step::Fetch(place) = held.step else { return Ok(()) };
        let Some(location) = held.pursuit.place(place).cloned() else { return Ok(()) };
        if self.options.rehearsal == Rehearsal::ListOnly {
            self.board.list(&held.work_id, redact(&location.url));
            Self::rehearse(held, "list_only");
            return Ok(());
        }
        self.check_room()?;
        let own = fingerprint(canonical::for_index(&location.url).as_str());
        let owner = self.fetched.lock().get(&own).copied();
        if let Some(owner) = owner.filter(|owner| *owner != held.id) {
            self.share(held, place, owner);
            return Ok(());
        }
        let begun = self.runtime.boot();
        let missing = held.pursuit.missing(&self.aims);
        let part = staging(&self.options.out, held.id, &own);
        let fetched = self.fetcher.fetch(&location, &part, &missing).await;
        let elapsed_ms = self.runtime.boot().since(begun).as_secs_f64() * 1_000.0;
        let work_id = held.work_id.clone();
        let row = |status, http_status, reason: Option<&str>, detail: Option<&str>| {
            let (work_id, resolver, location) = (work_id.as_str(), location.resolver, Some(&location));
            self.scribe
                .attempt(&Attempt { work_id, resolver, location, status, http_status, reason, detail, elapsed_ms, found: None }, self.runtime.wall())
        };
        let now = self.now();
        match fetched {
            Fetched::File(arrived) => {
                let row = row("saved", Some(arrived.head.status.as_u16()), None, None);
                return self.keep(held, place, &location, *arrived, own, row).await;
            }
            Fetched::Page(page) => {
                let Page { locations, learned, head } = *page;
                let detail = format!("a page that names {} places", locations.len());
                let row = row("html", Some(head.status.as_u16()), Some("html_only"), Some(&detail));
                held.pursuit.work.learn(&learned);
                held.pursuit.found(locations);
                held.pursuit.needs_not_ask("landing_page");
                held.pursuit.failed(place, "html_only", "a page came where a file was wanted");
                self.note(vec![row]).await?;
            }
            Fetched::Nothing { reason, detail, status, gone } => {
                let row = row("failed", status, Some(reason), Some(&detail));
                if gone {
                    held.pursuit.gone(&location.url);
                }
                held.pursuit.failed(place, reason, &detail);
                self.note(vec![row]).await?;
            }
            Fetched::Later { wait, reason, detail, status } => {
                let row = row("later", status, Some(reason), Some(&detail));
                let doubled = if reason == "preparing" { wait.max(PREPARING) } else { wait.max(Duration::from_millis(100)) };
                let times = held.pursuit.put_aside(place, now + doubled.as_secs_f64());
                held.pursuit.set_back(reason, &detail);
                if times > MOST_DELAYS && doubled < LONG && !matches!(reason, "breaker_open" | "duplicate_url_global") {
                    held.pursuit.failed(place, reason, &detail);
                }
                if reason != "duplicate_url_global" {
                    self.note(vec![row]).await?;
                }
            }
            Fetched::Halt(why) => return Err(RunError::Halted(why)),
        }
        held.step = self.next(&held.pursuit);
        Ok(())
    }

    /// Writes a good file down, then gives it its name: a process that is killed in between has both to go on with.
    async fn keep(&self, held: &mut Held, place: usize, location: &Location, arrived: Arrived, own: String, row: AttemptRow) -> Result<(), RunError> {
        let extension = match arrived.payload {
            Payload::Empty | Payload::Unknown => extension_of(&location.url).unwrap_or_else(|| "bin".to_owned()),
            payload => payload.extension().to_owned(),
        };
        let path = path_of(self.options.layout, &held.pursuit.work, arrived.kind, &extension, &arrived.file.sha256);
        let file = self.options.out.join(&path);
        let halted = |what: &str, error: std::io::Error| RunError::Halted(format!("{what} cannot be written: {error}"));
        if let Some(parent) = file.parent() {
            std::fs::create_dir_all(parent).map_err(|error| halted(&parent.display().to_string(), error))?;
        }
        let shown = path.display().to_string();
        let saved = self.scribe.saved(held.id, &held.pursuit.work, &held.work_id, location, &arrived, &shown, self.runtime.wall());
        held.pursuit.saved(place, arrived.kind);
        held.step = self.next(&held.pursuit);
        let ends = held.step == Step::End;
        let end = ends.then_some((held.id, "done", held.pursuit.attempts));
        let records = [row.payload.clone(), saved.payload.clone()];
        self.queue.note_attempts_and_file(vec![row], vec![saved], end).await?;
        self.fetched.lock().insert(own, held.id);
        self.hub.keep(&arrived.file.path, &file).await.map_err(|error| halted(&file.display().to_string(), error))?;
        self.lines.append(&records);
        self.spent.fetch_add(arrived.file.bytes, Ordering::Relaxed);
        self.board.count(|tally| {
            tally.files += 1;
            tally.bytes += arrived.file.bytes;
        });
        Ok(())
    }

    /// Takes over the file that another work got from the same URL.
    fn share(&self, held: &mut Held, place: usize, owner: i64) {
        let kind = held.pursuit.missing(&self.aims).into_iter().next().unwrap_or(Kind::Pdf);
        held.pursuit.saved(place, kind);
        held.step = Step::End;
        held.pursuit.set_back("duplicate_url_global", &format!("item {owner} has the file of this URL"));
    }

    /// Ends a work: writes down what it came to.
    pub(super) async fn end(&self, held: Held) -> Result<(), RunError> {
        let Held { id, work_id, pursuit, .. } = held;
        let rehearsed = self.options.rehearsal != Rehearsal::No;
        let shared = pursuit.last.as_ref().is_some_and(|last| last.reason == "duplicate_url_global") && pursuit.has_file();
        if pursuit.has_file() && !shared {
            // Its record was written with its file; if more was wanted and not there, its state was not.
            self.queue.file(Vec::new(), Some((id, "done", pursuit.attempts))).await?;
            self.board.count(|tally| tally.done += 1);
            return Ok(());
        }
        let mut setback =
            pursuit.last.clone().unwrap_or(Setback { reason: "resolver_missing".to_owned(), detail: "nobody knows where its file is".to_owned() });
        if pursuit.attempts >= self.aims.max_attempts {
            setback.detail = format!("after {} attempts, the latest: {}", pursuit.attempts, setback.detail);
            "max_attempts_reached".clone_into(&mut setback.reason);
        }
        let classification = if shared {
            "cached"
        } else if rehearsed {
            "skipped"
        } else {
            classification(&setback.reason)
        };
        let row = self.scribe.without_file(id, &pursuit.work, &work_id, classification, &setback, self.runtime.wall());
        let record = row.payload.clone();
        let state = if shared {
            "done"
        } else if rehearsed {
            "queued"
        } else {
            "failed"
        };
        if !rehearsed {
            self.queue.file(vec![row], Some((id, state, pursuit.attempts))).await?;
            self.lines.append([&record]);
        }
        self.board.count(|tally| {
            if shared {
                tally.done += 1;
            } else {
                tally.failed += u64::from(!rehearsed);
                *tally.reasons.entry(setback.reason).or_default() += 1;
            }
        });
        Ok(())
    }

    fn lookup_row(&self, work_id: &str, resolver: &str, outcome: &Outcome, elapsed_ms: f64) -> AttemptRow {
        let (status, http_status, reason, detail, found) = match outcome {
            Outcome::Found(found) => ("found", None, None, None, Some(found.locations.len())),
            Outcome::NotFound { detail, .. } => ("not_found", None, Some("not-found"), Some(detail.as_str()), None),
            Outcome::Failed(failure) => ("error", failure.http_status, Some(failure.reason), Some(failure.detail.as_str()), None),
        };
        let attempt = Attempt { work_id, resolver, location: None, status, http_status, reason, detail, elapsed_ms, found };
        self.scribe.attempt(&attempt, self.runtime.wall())
    }

    async fn note(&self, rows: Vec<AttemptRow>) -> Result<(), RunError> {
        let records: Vec<_> = rows.iter().map(|row| row.payload.clone()).collect();
        self.queue.note_attempts_and_file(rows, Vec::new(), None).await?;
        self.lines.append(&records);
        Ok(())
    }

    /// Ends the run before the disk is full.
    fn check_room(&self) -> Result<(), RunError> {
        let Ok(room) = rustix::fs::statvfs(&self.options.out) else { return Ok(()) };
        let free = room.f_bavail.saturating_mul(room.f_frsize);
        if free >= self.options.min_free {
            return Ok(());
        }
        Err(RunError::Halted(format!(
            "{} has {} MiB left, less than the {} MiB that are kept free; make room and go on with --resume",
            self.options.out.display(),
            free >> 20,
            self.options.min_free >> 20
        )))
    }
}

/// Returns the classification of a work without a file.
fn classification(reason: &str) -> &'static str {
    match reason {
        "http_status" | "request_exception" | "http-error" => "http_error",
        "payload_too_large" => "payload_too_large",
        "pdf_sniff_unknown" => "unknown",
        _ => "miss",
    }
}
