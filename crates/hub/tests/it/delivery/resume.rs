//! Downloads that continue where they broke off, and those that must not.

use docstokg_origin_sim::{OriginScript, Piece, ScriptedReply};

use crate::support::{HubWorld, config, get, rates};

/// Serves a body in two versions, cut in the middle the first time.
fn resuming(
    second: impl Fn(&[u8]) -> ScriptedReply + Send + Sync + 'static,
) -> (HubWorld, std::path::PathBuf, tempfile::TempDir) {
    let body: Vec<u8> = (0..60_000_u32)
        .map(|n| u8::try_from(n % 251).expect("a byte"))
        .collect();
    let first = ScriptedReply::status(200)
        .header("etag", "\"one\"")
        .pieces([Piece::Bytes(body[..20_000].to_vec().into()), Piece::Cut])
        .claiming(60_000);
    let origin = OriginScript::new("a.example").handler(move |arrival, nth| {
        if nth == 0 {
            first.clone()
        } else if arrival.header("range").is_some() {
            second(&body)
        } else {
            ScriptedReply::ok(body.clone())
        }
    });
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("file");
    (
        HubWorld::new(
            [origin],
            config(rates(&["a.example:metadata=rates:100/SECOND"])),
        ),
        path,
        directory,
    )
}

fn whole(path: &std::path::Path) -> bool {
    std::fs::read(path).expect("a file")
        == (0..60_000_u32)
            .map(|n| u8::try_from(n % 251).expect("a byte"))
            .collect::<Vec<_>>()
}

#[test]
fn a_cut_download_goes_on_where_it_broke_off() {
    let rest = |body: &[u8]| {
        ScriptedReply::status(206)
            .header("etag", "\"one\"")
            .header("content-range", "bytes 20000-59999/60000")
            .body(body[20_000..].to_vec())
    };
    let (world, path, _directory) = resuming(rest);
    let to = path.clone();
    let done = world
        .run(|hub| async move { hub.download_resumable(get("http://a.example/f"), &to).await })
        .expect("an answer");
    assert_eq!(done.file.expect("a file").bytes, 60_000);
    assert!(whole(&path));
    let arrivals = world.ledger().arrivals();
    assert_eq!(arrivals[1].header("range"), Some("bytes=20000-"));
    assert_eq!(arrivals[1].header("if-range"), Some("\"one\""));
}

#[test]
fn a_rest_that_is_not_all_of_it_or_of_another_version_is_not_appended() {
    type Rest = fn(&[u8]) -> ScriptedReply;
    let wrong: [Rest; 4] = [
        |body| {
            ScriptedReply::status(206)
                .header("etag", "\"one\"")
                .header("content-range", "bytes 20000-29999/60000")
                .body(body[20_000..30_000].to_vec())
        },
        |body| {
            ScriptedReply::status(206)
                .header("etag", "\"two\"")
                .header("content-range", "bytes 20000-59999/60000")
                .body(vec![b'y'; body.len() - 20_000])
        },
        |body| {
            ScriptedReply::status(206)
                .header("etag", "\"one\"")
                .header("content-range", "bytes 10000-59999/60000")
                .body(body[10_000..].to_vec())
        },
        |_| ScriptedReply::status(416).header("content-range", "bytes */60000"),
    ];
    for rest in wrong {
        let (world, path, _directory) = resuming(rest);
        let to = path.clone();
        let done = world
            .run(|hub| async move { hub.download_resumable(get("http://a.example/f"), &to).await })
            .expect("an answer");
        assert_eq!(done.file.expect("a file").bytes, 60_000);
        assert!(whole(&path), "two versions were joined");
    }
}

#[test]
fn a_part_file_that_is_a_link_or_no_file_is_replaced_and_not_written_through() {
    let victim = |directory: &std::path::Path| directory.join("victim");
    for kind in ["link", "dangling", "pipe"] {
        let (world, path, directory) = resuming(|body| ScriptedReply::ok(body.to_vec()));
        let part = directory.path().join("file.part");
        let victim = victim(directory.path());
        if kind == "link" {
            std::fs::write(&victim, "precious").expect("a file");
        }
        if kind == "pipe" {
            let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            let fifo = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, &part, fifo, mode, 0).expect("a pipe");
        } else {
            std::os::unix::fs::symlink(&victim, &part).expect("a link");
        }
        let to = path.clone();
        let done = world
            .run(|hub| async move { hub.download_resumable(get("http://a.example/f"), &to).await })
            .expect("an answer");
        assert!(done.file.is_some() && whole(&path), "{kind}");
        match std::fs::read_to_string(&victim) {
            Ok(text) => assert_eq!((kind, text.as_str()), ("link", "precious")),
            Err(_) => assert_ne!(kind, "link"),
        }
    }
}
