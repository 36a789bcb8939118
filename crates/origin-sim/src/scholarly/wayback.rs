//! The Wayback Machine: archived copies of files that are gone.

use serde_json::json;

use super::decoded_request::{self, DecodedRequest};
use super::file;
use super::hosts::WAYBACK;
use super::paper::{Copy, Paper};
use super::world::ScholarlyWorld;
use crate::ledger::Arrival;
use crate::reply::ScriptedReply;

/// Returns the URL of the archived [`struct@Copy`], if there is one.
pub(super) fn url(copy: &Copy) -> Option<String> {
    copy.archived
        .as_ref()
        .map(|when| format!("http://{WAYBACK}/web/{when}id_/{}", copy.url()))
}

pub(super) fn answer(world: &ScholarlyWorld, arrival: &Arrival) -> ScriptedReply {
    let asked = DecodedRequest::of(arrival);
    if asked.path.starts_with("/cdx/search/cdx") {
        return index(world, asked.get("url").unwrap_or_default());
    }
    let original = asked
        .path
        .strip_prefix("/web/")
        .and_then(|rest| rest.split_once("id_/"))
        .map(|(_, original)| original);
    match original.and_then(|original| kept(world, original)) {
        Some((paper, copy)) => {
            file::serve(arrival, &world.pdf(paper, copy.version), "application/pdf")
                .header("memento-datetime", "kept")
        }
        None => decoded_request::page(
            404,
            "<html><title>Wayback Machine</title>\
             <p>The Wayback Machine has not archived that URL.</p></html>",
        ),
    }
}

/// Finds the archived [`struct@Copy`] of a URL.
fn kept<'a>(world: &'a ScholarlyWorld, original: &str) -> Option<(&'a Paper, &'a Copy)> {
    let bare = |url: &str| {
        url.trim_start_matches("https://")
            .trim_start_matches("http://")
            .to_owned()
    };
    let copies = world
        .papers
        .iter()
        .flat_map(|paper| paper.copies.iter().map(move |copy| (paper, copy)));
    copies
        .filter(|(_, copy)| copy.archived.is_some())
        .find(|(_, copy)| bare(&copy.url()) == bare(original))
}

fn index(world: &ScholarlyWorld, original: &str) -> ScriptedReply {
    let Some((paper, copy)) = kept(world, original) else {
        return decoded_request::text(200, "application/json", "");
    };
    let when = copy.archived.clone().unwrap_or_default();
    let bytes = world.pdf(paper, copy.version);
    let digest = file::sha256(&bytes)[..32].to_ascii_uppercase();
    let rows = json!([
        [
            "timestamp",
            "original",
            "mimetype",
            "statuscode",
            "digest",
            "length"
        ],
        [
            when,
            copy.url(),
            "application/pdf",
            "200",
            digest,
            bytes.len().to_string()
        ],
        [when, copy.url(), "warc/revisit", "-", digest, "512"],
    ]);
    decoded_request::json(200, &rows)
}
