use std::sync::Arc;

use docstokg_bulk::lane::WorkLaneKey;
use docstokg_bulk::queue::{CommitMode, ItemEnd, ManifestRow, NewItem, WorkQueue};
use docstokg_hub::clock::Timestamp;
use docstokg_origin_sim::Simulation;

const PATH: &str = "pdf/a.pdf";

fn item(number: u8) -> NewItem {
    NewItem {
        key_hash: [number; 16],
        name: format!("work {number}"),
        source: "list".to_owned(),
        line: u64::from(number),
        recorded_line: None,
        metadata: None,
        hidden: false,
        untrusted: false,
        lane: WorkLaneKey::Start,
        saved_state: None,
    }
}

/// The record of a work that owns a file, or shares it with the work that does.
fn record(item: i64, path: &str, owns: bool) -> ManifestRow {
    ManifestRow {
        at: Timestamp::EPOCH,
        run_id: Arc::from("run"),
        item,
        name: format!("work {item}"),
        classification: if owns { "pdf" } else { "cached" }.to_owned(),
        reason: None,
        detail: None,
        url: None,
        path: owns.then(|| path.to_owned()),
        sha256: owns.then(|| "00".to_owned()),
        bytes: owns.then_some(9),
        fingerprint: None,
        record: serde_json::json!({ "path": path }).to_string().into(),
    }
}

#[test]
fn works_that_share_a_lost_file_are_queued_with_its_owner() {
    let directory = tempfile::tempdir().unwrap();
    let queue = WorkQueue::open(
        &directory.path().join("run.sqlite"),
        CommitMode::Inline,
        &[],
    )
    .unwrap();
    Simulation::new().block_on(async move {
        let items = (1..=4).map(item).collect();
        queue.add(items, Timestamp::EPOCH).await.unwrap();
        queue.claim(WorkLaneKey::Start, 4).await.unwrap();
        // The second work shares the file of the first, and the fourth that of the third.
        for (item, path, owns) in [
            (1, PATH, true),
            (2, PATH, false),
            (3, "pdf/b.pdf", true),
            (4, "pdf/b.pdf", false),
        ] {
            let row = record(item, path, owns);
            let end = Some(ItemEnd::Done(item, 1));
            queue.record(Vec::new(), vec![row], end).await.unwrap();
        }
        queue.disown(1, PATH.to_owned()).await.unwrap();
        let queued = queue.claim(WorkLaneKey::Start, 9).await.unwrap();
        let queued: Vec<i64> = queued.iter().map(|item| item.id).collect();
        assert_eq!(queued, [1, 2]);
        assert_eq!(queue.counts().await.unwrap().done, 2);
    });
}
