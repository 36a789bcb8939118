//! A good file: recorded, named, or taken over from another work.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::engine::{Engine, Held};
use super::flow::RunError;
use super::steps::unwritable;
use crate::artifact::Arrived;
use crate::evidence::{Evidence, Finding};
use crate::layout::{extension_of, path_of};
use crate::location::Location;
use crate::manifest::{Account, Address, Attempt, FileAccount};
use crate::pursuit::{Kind, Step};
use crate::queue::AttemptRow;
use crate::reason::{Reason, Setback, Stage};
use crate::sniff::Payload;

impl Engine {
    /// Writes a good file down, then gives it its name: a process that is killed in between has
    /// both to go on with.
    pub(super) async fn keep(
        &self,
        held: &mut Held,
        place: usize,
        location: &Location,
        address: &Address,
        arrived: Arrived,
        row: AttemptRow,
    ) -> Result<(), RunError> {
        let extension = match arrived.payload {
            Payload::Empty | Payload::Unknown => {
                extension_of(&location.url).unwrap_or_else(|| "bin".to_owned())
            }
            payload => payload.extension().to_owned(),
        };
        let path = path_of(
            self.options.layout,
            &held.pursuit.work,
            arrived.kind,
            &extension,
            &arrived.file.sha256,
        );
        let file = self.options.out.join(&path);
        self.make_shelf(&file)?;
        let shown = path.display().to_string();
        let fetched = Some((&arrived.head, arrived.file.bytes));
        let saved = self.scribe.manifest(
            &Account {
                item: held.id,
                work: &held.pursuit.work,
                work_id: &held.work_id,
                classification: arrived.kind.as_str(),
                reason: arrived.without_eof.then_some(Reason::PdfEofMissing),
                detail: arrived
                    .without_eof
                    .then_some("the file has all its bytes, but no end mark"),
                http_status: None,
                file: Some(FileAccount {
                    location,
                    address,
                    path: &shown,
                    sha256: &arrived.file.sha256,
                    evidence: arrived.evidence,
                    fetched,
                }),
            },
            self.runtime.wall(),
        );
        held.pursuit.saved(place, arrived.kind);
        held.step = self.next(&held.pursuit);
        // The end of the work is written with its file, in one commit.
        held.ended = held.step == Step::End;
        let end = held
            .ended
            .then_some((held.id, "done", held.pursuit.attempts));
        let records = [Arc::clone(&row.record), Arc::clone(&saved.record)];
        self.queue
            .note_attempts_and_file(vec![row], vec![saved], end)
            .await?;
        self.fetched.lock().insert(address.fingerprint, held.id);
        let kept = match self.hub.keep(&arrived.file.path, &file).await {
            // Somebody took the directory away.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let directory = file.parent().unwrap_or(&self.options.out);
                self.shelves
                    .make_again(directory)
                    .map_err(|error| unwritable(directory, &error))?;
                self.hub.keep(&arrived.file.path, &file).await
            }
            kept => kept,
        };
        kept.map_err(|error| unwritable(&file, &error))?;
        self.lines.append(&records);
        self.spent.fetch_add(arrived.file.bytes, Ordering::Relaxed);
        self.board.count(|tally| {
            tally.files += 1;
            tally.bytes += arrived.file.bytes;
        });
        Ok(())
    }

    /// Makes the directory that a file is to lie in.
    pub(super) fn make_shelf(&self, file: &Path) -> Result<(), RunError> {
        let directory = file.parent().unwrap_or(&self.options.out);
        self.shelves
            .make(directory)
            .map_err(|error| unwritable(directory, &error))
    }

    /// Takes over the file that another work got from the same URL.
    pub(super) async fn share(
        &self,
        held: &mut Held,
        place: usize,
        location: &Location,
        address: &Address,
        owner: i64,
    ) -> Result<(), RunError> {
        let Some((path, sha256, kind)) = self.queue.file_of(owner).await? else {
            // It has none any more: whoever comes next fetches it.
            self.fetched.lock().retain(|_, item| *item != owner);
            return Ok(());
        };
        let evidence = if kind == Kind::Pdf.as_str() {
            match self
                .fetcher
                .examine(location, &held.pursuit.work, &self.options.out.join(&path))
                .await
            {
                Finding::Accepted(evidence) => evidence,
                Finding::WrongWork { detail } => {
                    let attempt = Attempt {
                        work_id: &held.work_id,
                        resolver: location.resolver,
                        address: Some(address),
                        status: "failed",
                        http_status: None,
                        reason: Some(Reason::WrongWork),
                        detail: Some(&detail),
                        elapsed_ms: 0.0,
                        found: None,
                    };
                    self.note(vec![self.scribe.attempt(&attempt, self.runtime.wall())])
                        .await?;
                    held.pursuit.failed(
                        place,
                        Setback::new(Stage::File, Reason::WrongWork, &detail, None),
                    );
                    held.step = self.next(&held.pursuit);
                    return Ok(());
                }
            }
        } else {
            Evidence::None
        };
        let row = self.scribe.manifest(
            &Account {
                item: held.id,
                work: &held.pursuit.work,
                work_id: &held.work_id,
                classification: "cached",
                reason: Some(Reason::DuplicateUrlGlobal),
                detail: Some("another work has the file of this URL"),
                http_status: None,
                file: Some(FileAccount {
                    location,
                    address,
                    path: &path,
                    sha256: &sha256,
                    evidence,
                    fetched: None,
                }),
            },
            self.runtime.wall(),
        );
        let record = Arc::clone(&row.record);
        self.queue.file(vec![row], None).await?;
        self.lines.append([&record]);
        held.pursuit
            .saved(place, Kind::read(&kind).unwrap_or(Kind::Other));
        held.step = self.next(&held.pursuit);
        Ok(())
    }
}
