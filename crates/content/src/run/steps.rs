//! Doing one step of a work, and writing down what came of it.

use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use docstokg_hub::clock::BootInstant;
use docstokg_hub::redact;

use super::Rehearsal;
use super::engine::{Engine, Held};
use super::flow::RunError;
use crate::artifact::{Fetched, IN_FLIGHT, Page};
use crate::layout::staging;
use crate::manifest::{Account, Address, Attempt};
use crate::pursuit::{HOPELESS, LAST_RESORT, LAST_RESORT_WAIT, MOST_REFUSALS, Step};
use crate::queue::AttemptRow;
use crate::reason::{Reason, Setback, Stage};
use crate::resolver::{Outcome, ResolverId, contained, landing};
use crate::work::Work;

/// How often at most the file system is asked how much room it has.
const ROOM: Duration = Duration::from_millis(50);
/// How often a file that is being prepared is asked for.
const MOST_POLLS: u32 = 8;

/// Whether a step only waits, in the hub's lines and nowhere else: then it can be dropped without
/// loss.
#[derive(Default)]
pub(super) struct Waiting {
    in_hub: AtomicBool,
    pub(super) on_the_wire: Arc<AtomicBool>,
}

impl Waiting {
    /// Does something in the hub.
    async fn with<T>(&self, work: impl Future<Output = T>) -> T {
        self.in_hub.store(true, Ordering::Release);
        let value = work.await;
        self.in_hub.store(false, Ordering::Release);
        value
    }

    /// Tells whether the step can be dropped now.
    pub(super) fn is_idle(&self) -> bool {
        self.in_hub.load(Ordering::Acquire) && !self.on_the_wire.load(Ordering::Acquire)
    }
}

impl Engine {
    /// Does the step that these works stand before; all of them stand before the same. Those that
    /// go on are left.
    pub(super) async fn step(&self, works: &mut Vec<Held>, wait: &Waiting) -> Result<(), RunError> {
        for held in &mut *works {
            held.pursuit.begun.get_or_insert(self.now());
        }
        if self.options.rehearsal != Rehearsal::DryRun
            && let Some(host) = works.first().and_then(|held| self.host_of(held))
            && self.network.is_offline_for(&host).await
        {
            // Nothing is sent, and the works stand where they stood.
            self.board.go_offline();
            return Ok(());
        }
        match works.first().map(|held| held.step.clone()) {
            _ if self.options.rehearsal == Rehearsal::DryRun => {
                for held in &mut *works {
                    self.rehearse(held, Reason::DryRun);
                }
            }
            Some(Step::Resolve(name)) => self.resolve(name, works, wait).await?,
            Some(Step::Read(_)) => {
                for held in &mut *works {
                    self.read(held, wait).await?;
                }
            }
            Some(Step::Fetch(_)) => {
                for held in &mut *works {
                    self.fetch(held, wait).await?;
                }
            }
            _ => {}
        }
        let mut place = 0;
        while place < works.len() {
            self.bound(&mut works[place]);
            if works[place].step == Step::End {
                let held = works.remove(place);
                self.end(held).await?;
            } else {
                place += 1;
            }
        }
        Ok(())
    }

    /// Returns when the time of the first of these works is over, whatever it waits for by then.
    pub(super) fn time_is_over(&self, works: &[Held]) -> BootInstant {
        let Some(most) = self.options.item_deadline else {
            return BootInstant::FAR;
        };
        let now = self.now();
        let left = works
            .iter()
            .map(|held| held.pursuit.begun.unwrap_or(now) + most.as_secs_f64() - now)
            .fold(f64::INFINITY, f64::min);
        // A moment later, so that it is over when it is looked at.
        self.runtime.boot()
            + Duration::from_secs_f64(left.clamp(0.0, 1e9))
            + Duration::from_millis(5)
    }

    /// Ends a work whose time is over, or will be before it is due.
    pub(super) fn bound(&self, held: &mut Held) {
        let (Some(most), Some(begun)) = (self.options.item_deadline, held.pursuit.begun) else {
            return;
        };
        let next = if let Step::Wait(at) = held.step {
            at
        } else {
            self.now()
        };
        if next - begun > most.as_secs_f64() && held.step != Step::End {
            let last = held
                .pursuit
                .last
                .as_ref()
                .map_or_else(String::new, |last| format!(", the latest: {}", last.detail));
            held.pursuit.end_by(
                Reason::Deadline,
                &format!("the {} s for this work are over{last}", most.as_secs()),
            );
            held.step = Step::End;
        }
    }

    /// Ends a work without having done anything.
    fn rehearse(&self, held: &mut Held, reason: Reason) {
        let detail = match &held.step {
            Step::Fetch(place) => held
                .pursuit
                .place(*place)
                .map_or_else(String::new, |location| {
                    format!("would fetch {}", redact(&location.url))
                }),
            Step::Read(place) => held
                .pursuit
                .place(*place)
                .map_or_else(String::new, |location| {
                    format!("would read {}", redact(&location.url))
                }),
            Step::Resolve(name) => format!("would ask {name}"),
            Step::Wait(_) | Step::End => String::new(),
        };
        self.board.list(&held.work_id, detail.clone());
        self.board.rehearse(&self.lane(&held.pursuit, &held.step));
        held.pursuit.end_by(reason, &detail);
        held.step = Step::End;
    }

    async fn resolve(
        &self,
        name: ResolverId,
        works: &mut [Held],
        wait: &Waiting,
    ) -> Result<(), RunError> {
        let begun = self.runtime.boot();
        let Some(resolver) = self.resolvers.iter().find(|resolver| resolver.id() == name) else {
            return Ok(());
        };
        let known: Vec<Work> = works.iter().map(|held| held.pursuit.work.clone()).collect();
        let web = self.web.shown_in(&wait.on_the_wire);
        let mut outcomes = wait
            .with(contained::resolve(&**resolver, &known, &web))
            .await
            .into_iter();
        let elapsed_ms = self.runtime.boot().since(begun).as_secs_f64() * 1_000.0;
        let mut rows = Vec::new();
        for held in works {
            let outcome = outcomes.next().unwrap_or_else(|| Outcome::NotFound {
                detail: "no answer for this work".to_owned(),
                learned: crate::work::Learned::default(),
            });
            let outcome = self.watch_network(outcome).await;
            rows.push(self.lookup_row(&held.work_id, name, &outcome, elapsed_ms));
            held.pursuit.resolved(name, outcome, self.now());
            held.step = self.next(&held.pursuit);
        }
        self.note(rows).await
    }

    async fn read(&self, held: &mut Held, wait: &Waiting) -> Result<(), RunError> {
        let Step::Read(place) = held.step else {
            return Ok(());
        };
        let Some(location) = held.pursuit.place(place).cloned() else {
            return Ok(());
        };
        let begun = self.runtime.boot();
        let web = self.web.shown_in(&wait.on_the_wire);
        let outcome = wait
            .with(
                self.landing
                    .read(location.url, Some(&held.pursuit.work), &web),
            )
            .await;
        let elapsed_ms = self.runtime.boot().since(begun).as_secs_f64() * 1_000.0;
        let outcome = self.watch_network(outcome).await;
        let row = self.lookup_row(&held.work_id, landing::ID, &outcome, elapsed_ms);
        held.pursuit.read(place, outcome, self.now());
        held.step = self.next(&held.pursuit);
        self.note(vec![row]).await
    }

    async fn fetch(&self, held: &mut Held, wait: &Waiting) -> Result<(), RunError> {
        let Step::Fetch(place) = held.step else {
            return Ok(());
        };
        let Some(location) = held.pursuit.place(place).cloned() else {
            return Ok(());
        };
        if self.options.rehearsal == Rehearsal::ListOnly {
            self.board.list(&held.work_id, redact(&location.url));
            held.pursuit
                .end_by(Reason::ListOnly, &redact(&location.url));
            held.step = Step::End;
            return Ok(());
        }
        self.check_room()?;
        let address = Address::of(&location.url);
        // Held until the file is in its place, so that nobody fetches the same URL meanwhile.
        let Some(_flight) = self.fetcher.take_off(address.fingerprint) else {
            held.pursuit
                .put_aside(place, self.now() + IN_FLIGHT.as_secs_f64(), false);
            let busy = Setback::new(
                Stage::File,
                Reason::DuplicateUrlGlobal,
                "another work is fetching the same URL",
                None,
            );
            held.pursuit.note(place, Some(busy));
            held.step = self.next(&held.pursuit);
            return Ok(());
        };
        let owner = self.fetched.lock().get(&address.fingerprint).copied();
        if let Some(owner) = owner.filter(|owner| *owner != held.id) {
            return self.share(held, place, &location, &address, owner).await;
        }
        let begun = self.runtime.boot();
        let missing = held.pursuit.missing(&self.aims);
        let part = staging(&self.options.out, held.id, address.fingerprint);
        self.make_shelf(&part)?;
        let fetched = wait
            .with(self.fetcher.fetch(
                &location,
                &held.pursuit.work,
                &part,
                &missing,
                &wait.on_the_wire,
            ))
            .await;
        let elapsed_ms = self.runtime.boot().since(begun).as_secs_f64() * 1_000.0;
        let work_id = held.work_id.clone();
        let row = |status, http_status, reason: Option<Reason>, detail: Option<&str>| {
            let (work_id, resolver, address) =
                (work_id.as_str(), location.resolver, Some(&address));
            self.scribe.attempt(
                &Attempt {
                    work_id,
                    resolver,
                    address,
                    status,
                    http_status,
                    reason,
                    detail,
                    elapsed_ms,
                    found: None,
                },
                self.runtime.wall(),
            )
        };
        let now = self.now();
        let fetched = self.watch_fetched(fetched).await;
        match fetched {
            Fetched::File(arrived) => {
                let row = row("saved", Some(arrived.head.status.as_u16()), None, None);
                return self
                    .keep(held, place, &location, &address, *arrived, row)
                    .await;
            }
            Fetched::Page(page) => {
                let Page {
                    locations,
                    learned,
                    head,
                } = *page;
                let (detail, names_places) = (
                    format!("a page that names {} places", locations.len()),
                    !locations.is_empty(),
                );
                let row = row(
                    "html",
                    Some(head.status.as_u16()),
                    Some(Reason::HtmlOnly),
                    Some(&detail),
                );
                held.pursuit.work.learn(&learned);
                held.pursuit.found(locations);
                if names_places {
                    // It is the work's own page, most likely. One that names nothing says nothing
                    // about that one.
                    held.pursuit.needs_not_ask(landing::ID);
                }
                let page = "a page came where a file was wanted";
                held.pursuit.failed(
                    place,
                    Setback::new(
                        Stage::File,
                        Reason::HtmlOnly,
                        page,
                        Some(head.status.as_u16()),
                    ),
                );
                self.note(vec![row]).await?;
            }
            Fetched::Nothing {
                reason,
                detail,
                status,
                gone,
            } => {
                let row = row("failed", status, Some(reason), Some(&detail));
                if gone {
                    held.pursuit.gone(&location.url);
                }
                held.pursuit
                    .failed(place, Setback::new(Stage::File, reason, &detail, status));
                self.note(vec![row]).await?;
            }
            Fetched::Later {
                wait,
                stated,
                reason,
                detail,
                status,
            } => {
                let preparing = reason == Reason::Preparing;
                let setback = Setback::new(Stage::File, reason, &detail, status);
                let times = held.pursuit.put_aside(
                    place,
                    now + wait.as_secs_f64().max(0.1),
                    !stated || preparing,
                );
                held.pursuit.note(place, Some(setback.clone()));
                let overdue =
                    location.resolver == LAST_RESORT && wait.as_secs_f64() > LAST_RESORT_WAIT;
                let most = if preparing {
                    if !stated {
                        // Twice as long each time.
                        held.pursuit.put_aside(
                            place,
                            now + wait.as_secs_f64()
                                * f64::from(1 << times.saturating_sub(1).min(10)),
                            false,
                        );
                    }
                    MOST_POLLS
                } else {
                    MOST_REFUSALS
                };
                // A host that has failed its probes again and again is not waited for any longer.
                if times >= most || overdue || (!stated && wait.as_secs_f64() >= HOPELESS) {
                    held.pursuit.failed(place, setback);
                }
                // What was not asked is no attempt.
                if let Some(status) = status {
                    held.pursuit.attempts += 1;
                    self.note(vec![row(
                        "later",
                        Some(status),
                        Some(reason),
                        Some(&detail),
                    )])
                    .await?;
                }
            }
            Fetched::Halt(why) => return Err(RunError::Halted(why)),
        }
        held.step = self.next(&held.pursuit);
        Ok(())
    }

    /// Ends a work: writes down what it came to.
    pub(super) async fn end(&self, held: Held) -> Result<(), RunError> {
        let Held {
            id,
            work_id,
            pursuit,
            ended,
            ..
        } = held;
        let rehearsed = self.options.rehearsal != Rehearsal::No;
        if pursuit.has_file() {
            // More was wanted and is not there: its record was written with its file, its end was
            // not.
            if !ended {
                self.queue
                    .file(Vec::new(), Some((id, "done", pursuit.attempts)))
                    .await?;
            }
            self.board.count(|tally| tally.done += 1);
            return Ok(());
        }
        let mut setback = pursuit.decisive();
        if pursuit.attempts >= self.aims.max_attempts {
            setback.detail = format!("after {} attempts: {}", pursuit.attempts, setback.detail);
            // A refusal is what stood in the way, however often it was met; where there was none,
            // the bound is.
            if !setback.is_refusal() {
                setback.reason = Reason::MaxAttemptsReached;
            }
        }
        let classification = if rehearsed {
            "skipped"
        } else {
            classification(setback.reason)
        };
        let (reason, detail, http_status) = (
            Some(setback.reason),
            Some(setback.detail.as_str()),
            setback.http_status,
        );
        let account = Account {
            item: id,
            work: &pursuit.work,
            work_id: &work_id,
            classification,
            reason,
            detail,
            http_status,
            file: None,
        };
        let row = self.scribe.manifest(&account, self.runtime.wall());
        let record = Arc::clone(&row.record);
        self.queue
            .file(vec![row], Some((id, "failed", pursuit.attempts)))
            .await?;
        self.lines.append([&record]);
        self.board.count(|tally| {
            tally.failed += 1;
            *tally.reasons.entry(setback.reason).or_default() += 1;
        });
        Ok(())
    }

    fn lookup_row(
        &self,
        work_id: &str,
        resolver: ResolverId,
        outcome: &Outcome,
        elapsed_ms: f64,
    ) -> AttemptRow {
        let (status, http_status, reason, detail, found) = match outcome {
            Outcome::Found(found) => ("found", None, None, None, Some(found.locations.len())),
            Outcome::NotFound { detail, .. } => (
                "not_found",
                None,
                Some(Reason::NotFound),
                Some(detail.as_str()),
                None,
            ),
            Outcome::Failed(failure) => (
                "error",
                failure.http_status,
                Some(failure.reason),
                Some(failure.detail.as_str()),
                None,
            ),
        };
        let attempt = Attempt {
            work_id,
            resolver,
            address: None,
            status,
            http_status,
            reason,
            detail,
            elapsed_ms,
            found,
        };
        self.scribe.attempt(&attempt, self.runtime.wall())
    }

    pub(super) async fn note(&self, rows: Vec<AttemptRow>) -> Result<(), RunError> {
        let records: Vec<_> = rows.iter().map(|row| Arc::clone(&row.record)).collect();
        self.queue
            .note_attempts_and_file(rows, Vec::new(), None)
            .await?;
        self.lines.append(&records);
        Ok(())
    }

    /// Ends the run before the disk is full.
    fn check_room(&self) -> Result<(), RunError> {
        let now = self.runtime.boot();
        {
            let mut looked = self.looked.lock();
            if looked.is_some_and(|looked| now.since(looked) < ROOM) {
                return Ok(());
            }
            *looked = Some(now);
        }
        let Ok(room) = rustix::fs::statvfs(&self.options.out) else {
            return Ok(());
        };
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

pub(super) fn unwritable(path: &Path, error: &io::Error) -> RunError {
    RunError::Halted(format!("{} cannot be written: {error}", path.display()))
}

/// Returns the classification of a work without a file.
fn classification(reason: Reason) -> &'static str {
    match reason {
        Reason::HttpStatus | Reason::RequestException => "http_error",
        Reason::PayloadTooLarge => "payload_too_large",
        Reason::PdfSniffUnknown => "unknown",
        _ => "miss",
    }
}
