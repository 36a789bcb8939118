//! The recording and naming of a good file, or its reuse for another work.

use std::path::PathBuf;

use docstokg_bulk::job::NextStep;
use docstokg_bulk::queue::{AttemptRow, FileRow, ItemEnd};
use docstokg_bulk::scheduler::RunError;

use super::fetch::{FetchResult, FetchTarget};
use super::works::{ActiveWork, WorksJob};
use crate::artifact::{StagedFile, in_the_way};
use crate::evidence::{Evidence, EvidenceFinding};
use crate::layout::{extension_of, path_of};
use crate::location::CandidateLocation;
use crate::manifest::{FileAccount, WorkAccount};
use crate::reason::{AttemptStage, Reason, ReasonedFailure};
use crate::sniff::Payload;
use crate::work_state::ArtifactKind;

impl WorksJob {
    /// Records a good file, then renames it to its final path. If the process is killed in between,
    /// record and staged file let the next run finish the rename.
    pub(super) async fn save(
        &self,
        item: &mut ActiveWork,
        target: &FetchTarget,
        arrived: StagedFile,
        row: AttemptRow,
    ) -> Result<(), RunError> {
        let path = self.path_for(item, &target.location, &arrived);
        let file = self.options.out.join(&path);
        self.files.create_directory_of(&file)?;
        if file.is_dir() {
            let _ = std::fs::remove_file(&arrived.file.path);
            let status = Some(arrived.head.status.as_u16());
            let failure = ReasonedFailure::new(
                AttemptStage::File,
                Reason::PathBlocked,
                &in_the_way(&file),
                status,
            );
            return self.reject(item, target, failure).await;
        }
        let shown = path.display().to_string();
        let account = WorkAccount {
            item: item.id,
            work: &item.state.work,
            work_id: &item.name,
            classification: arrived.kind.as_str(),
            reason: None,
            detail: None,
            http_status: None,
            file: Some(FileAccount {
                location: &target.location,
                address: &target.address,
                path: &shown,
                sha256: &arrived.file.sha256,
                evidence: arrived.evidence,
                fetched: Some((&arrived.head, arrived.file.bytes)),
            }),
        };
        let saved = self
            .records
            .manifest(&account, self.context.clock.runtime().wall());
        item.state.saved(target.candidate, arrived.kind);
        // One commit records the end of the work together with its file.
        let next = item.state.next(
            &self.goals,
            &self.lookups.resolvers,
            self.context.clock.now(),
        );
        item.is_end_recorded = next == NextStep::End;
        let end = item
            .is_end_recorded
            .then_some(ItemEnd::Done(item.id, item.state.attempts));
        let lines = self
            .context
            .manifest
            .commit(vec![row], vec![saved], end)
            .await?;
        self.files.own(target.address.fingerprint, item.id);
        self.files.rename(&arrived.file.path, &file).await?;
        self.context.manifest.append(&lines);
        self.context.progress.count(|counters| {
            counters.files += 1;
            counters.bytes += arrived.file.bytes;
            let is_unconfirmed =
                arrived.kind == ArtifactKind::Pdf && arrived.evidence == Evidence::None;
            counters.unconfirmed += u64::from(is_unconfirmed);
        });
        Ok(())
    }

    fn path_for(
        &self,
        item: &ActiveWork,
        location: &CandidateLocation,
        arrived: &StagedFile,
    ) -> PathBuf {
        let extension = match arrived.payload {
            Payload::Empty | Payload::Unknown => {
                extension_of(&location.url).unwrap_or_else(|| "bin".to_owned())
            }
            payload => payload.extension().to_owned(),
        };
        path_of(
            self.options.layout,
            &item.state.work,
            arrived.kind,
            &extension,
            &arrived.file.sha256,
        )
    }

    /// Reuses the file that another work has from the same URL.
    pub(super) async fn share(
        &self,
        item: &mut ActiveWork,
        target: &FetchTarget,
        owner: i64,
    ) -> Result<(), RunError> {
        let Some(file) = self.context.queue.file_of(owner).await? else {
            self.files.disown(owner);
            return Ok(());
        };
        let evidence = match self.examine_shared(item, target, &file).await {
            EvidenceFinding::Accepted(evidence) => evidence,
            EvidenceFinding::WrongWork { detail } => {
                let failure =
                    ReasonedFailure::new(AttemptStage::File, Reason::WrongWork, &detail, None);
                return self.reject(item, target, failure).await;
            }
        };
        let account = WorkAccount {
            item: item.id,
            work: &item.state.work,
            work_id: &item.name,
            classification: "cached",
            reason: Some(Reason::DuplicateUrlGlobal),
            detail: Some("another work has the file of this URL"),
            http_status: None,
            file: Some(FileAccount {
                location: &target.location,
                address: &target.address,
                path: &file.path,
                sha256: &file.sha256,
                evidence,
                fetched: None,
            }),
        };
        let row = self
            .records
            .manifest(&account, self.context.clock.runtime().wall());
        self.context
            .manifest
            .record(Vec::new(), vec![row], None)
            .await?;
        let kind = ArtifactKind::read(&file.classification).unwrap_or(ArtifactKind::Other);
        item.state.saved(target.candidate, kind);
        Ok(())
    }

    /// Records that an existing file cannot be this work's.
    async fn reject(
        &self,
        item: &mut ActiveWork,
        target: &FetchTarget,
        failure: ReasonedFailure,
    ) -> Result<(), RunError> {
        let row = self.fetch_row(item, target, FetchResult::of("failed", &failure), 0.0);
        self.record_attempts(vec![row]).await?;
        item.state.failed(target.candidate, failure);
        Ok(())
    }

    /// Compares the file of another work with this work.
    async fn examine_shared(
        &self,
        item: &ActiveWork,
        target: &FetchTarget,
        file: &FileRow,
    ) -> EvidenceFinding {
        if file.classification != ArtifactKind::Pdf.as_str() {
            return EvidenceFinding::Accepted(Evidence::None);
        }
        let path = self.options.out.join(&file.path);
        self.files
            .fetcher
            .examine(&target.location, &item.state.work, &path)
            .await
    }
}
