//! The services that have deposits: their APIs, their files, and pages that only people can read.

use serde_json::{Value, json};

use super::super::decoded_request::{self, DecodedRequest, page};
use super::super::file;
use super::super::hosts::{FIGSHARE_FILES, HAL, OPEN_JOURNAL, OSF, OSF_FILES, ZENODO};
use super::super::world::ScholarlyWorld;
use super::{Deposit, DepositKind, document, guid, record};
use crate::ledger::Arrival;
use crate::reply::ScriptedReply;

fn not_found() -> ScriptedReply {
    decoded_request::json(404, &json!({"status": 404, "message": "Not found"}))
}

/// Returns the page that a robot gets if a script in the browser makes the real page.
fn script_page() -> ScriptedReply {
    page(
        200,
        "<!DOCTYPE html><html><head><title>Loading</title></head><body><div id=\"root\"></div><script src=\"/app.js\"></script></body></html>",
    )
}

/// Responds for zenodo.org: the API, its files, and pages that a script makes.
pub(in crate::scholarly) fn zenodo(world: &ScholarlyWorld, arrival: &Arrival) -> ScriptedReply {
    let path = DecodedRequest::of(arrival).path;
    let Some(rest) = path.strip_prefix("/api/records/") else {
        return script_page();
    };
    let (id, file) = rest.split_once('/').unwrap_or((rest, ""));
    let found = world.deposit(&[DepositKind::Zenodo, DepositKind::Dataset], |deposit| {
        record(deposit.number).to_string() == id
    });
    match (found, file) {
        (Some(deposit), "") => decoded_request::json(200, &zenodo_record(world, deposit)),
        (Some(deposit), "files/article.pdf/content") if deposit.held == DepositKind::Zenodo => {
            file::serve(arrival, &deposit.bytes(world), "application/pdf")
        }
        _ => not_found(),
    }
}

fn zenodo_record(world: &ScholarlyWorld, deposit: &Deposit) -> Value {
    let id = record(deposit.number);
    let file = |key: &str, bytes: &[u8]| {
        json!({
            "key": key,
            "size": bytes.len(),
            "checksum": format!("md5:{}", file::md5(bytes)),
            "links": {"self": format!("http://{ZENODO}/api/records/{id}/files/{key}/content")},
        })
    };
    let (kind, article) = if deposit.held == DepositKind::Zenodo {
        (
            "publication",
            Some(file("article.pdf", &deposit.bytes(world))),
        )
    } else {
        ("dataset", Some(file("codes.pdf", b"%PDF-1.4")))
    };
    let others = [
        file("measurements.csv", b"a,b"),
        file("supplement.pdf", b"%PDF-1.4"),
    ];
    json!({
        "id": id,
        "conceptrecid": (id + 500_000).to_string(),
        "doi": deposit.doi,
        "metadata": {
            "title": deposit.title(),
            "publication_date": "2024-05-06",
            "access_right": "open",
            "license": {"id": "cc-by-4.0"},
            "resource_type": {"type": kind},
        },
        "files": others.into_iter().chain(article).collect::<Vec<Value>>(),
    })
}

/// Responds for the API of figshare.
pub(in crate::scholarly) fn figshare(world: &ScholarlyWorld, arrival: &Arrival) -> ScriptedReply {
    let path = DecodedRequest::of(arrival).path;
    let id = path.strip_prefix("/v2/articles/").unwrap_or_default();
    let found = world.deposit(
        &[DepositKind::Figshare, DepositKind::Embargoed],
        |deposit| record(deposit.number).to_string() == id,
    );
    let Some(deposit) = found else {
        return not_found();
    };
    let is_embargoed = deposit.held == DepositKind::Embargoed;
    let bytes = deposit.bytes(world);
    let file = json!({
        "id": record(deposit.number),
        "name": "text.pdf",
        "size": bytes.len(),
        "is_link_only": false,
        "download_url": format!("http://{FIGSHARE_FILES}/files/{id}"),
        "computed_md5": file::md5(&bytes),
    });
    let files: Vec<Value> = (!is_embargoed).then_some(file).into_iter().collect();
    decoded_request::json(
        200,
        &json!({
            "id": record(deposit.number),
            "title": deposit.title(),
            "doi": deposit.doi,
            "published_date": "2024-05-06T00:00:00Z",
            "defined_type_name": "preprint",
            "is_embargoed": is_embargoed,
            "license": {"name": "CC BY 4.0"},
            "files": files,
        }),
    )
}

/// Responds for the files of figshare: first that the file is being prepared, then with a redirect
/// to the file.
pub(in crate::scholarly) fn figshare_files(
    world: &ScholarlyWorld,
    arrival: &Arrival,
    nth: usize,
) -> ScriptedReply {
    let path = DecodedRequest::of(arrival).path;
    let (is_signed, id) = match path.strip_prefix("/signed/") {
        Some(id) => (true, id),
        None => (false, path.strip_prefix("/files/").unwrap_or_default()),
    };
    let found = world.deposit(&[DepositKind::Figshare], |deposit| {
        record(deposit.number).to_string() == id
    });
    match found {
        None => not_found(),
        Some(_) if !is_signed && nth == 0 && world.has_faults() => {
            ScriptedReply::status(202).header("retry-after", "1")
        }
        Some(_) if !is_signed => ScriptedReply::redirect(
            302,
            &format!("http://{FIGSHARE_FILES}/signed/{id}?X-Amz-Signature=0"),
        ),
        Some(deposit) => file::serve(arrival, &deposit.bytes(world), "application/pdf"),
    }
}

/// Responds for the API of OSF.
pub(in crate::scholarly) fn osf_api(world: &ScholarlyWorld, arrival: &Arrival) -> ScriptedReply {
    let asked = DecodedRequest::of(arrival);
    let id = asked
        .path
        .strip_prefix("/v2/preprints/")
        .map(|id| id.trim_end_matches('/'));
    let found =
        id.and_then(|id| world.deposit(&[DepositKind::Osf], |deposit| guid(deposit.number) == id));
    let Some(deposit) = found else {
        return decoded_request::json(404, &json!({"errors": [{"detail": "Not found."}]}));
    };
    let number = deposit.number;
    let bytes = deposit.bytes(world);
    let embeds = (asked.get("embed") == Some("primary_file")).then(|| {
        json!({"primary_file": {"data": {
            "id": format!("f{number}"),
            "attributes": {"name": "preprint.pdf", "size": bytes.len(), "extra": {"hashes": {"md5": file::md5(&bytes), "sha256": file::sha256(&bytes)}}},
            "links": {"download": format!("http://{OSF}/download/f{number}/")},
        }}})
    });
    decoded_request::json(
        200,
        &json!({"data": {
            "id": guid(number),
            "type": "preprints",
            "attributes": {"title": deposit.title(), "doi": null, "is_published": true, "public": true, "date_published": "2024-05-06T00:00:00", "date_withdrawn": null},
            "links": {"preprint_doi": format!("https://doi.org/{}", deposit.doi)},
            "embeds": embeds,
        }}),
    )
}

/// Responds for osf.io and the host of its files.
pub(in crate::scholarly) fn osf(world: &ScholarlyWorld, arrival: &Arrival) -> ScriptedReply {
    let path = DecodedRequest::of(arrival).path;
    let number = |prefix: &str| -> Option<usize> {
        path.strip_prefix(prefix)?
            .trim_end_matches('/')
            .parse()
            .ok()
    };
    if let Some(number) = number("/download/f") {
        return ScriptedReply::redirect(302, &format!("http://{OSF_FILES}/v1/f{number}"));
    }
    let found = number("/v1/f")
        .and_then(|number| world.deposit(&[DepositKind::Osf], |deposit| deposit.number == number));
    match found {
        Some(deposit) => file::serve(arrival, &deposit.bytes(world), "application/pdf"),
        None => script_page(),
    }
}

/// Responds for the API of HAL, which finds documents by their DOI or by their HAL id.
pub(in crate::scholarly) fn hal_api(world: &ScholarlyWorld, arrival: &Arrival) -> ScriptedReply {
    let asked = DecodedRequest::of(arrival);
    let query = asked.get("q").unwrap_or_default();
    let quoted = |field: &str| {
        query
            .strip_prefix(field)?
            .strip_prefix(":\"")?
            .strip_suffix('"')
    };
    let found = world.deposit(&[DepositKind::Hal], |deposit| {
        quoted("doiId_s") == Some(&deposit.doi)
            || quoted("halId_s") == Some(&document(deposit.number))
    });
    let documents: Vec<Value> = found
        .map(|deposit| {
            let id = document(deposit.number);
            json!({
                "halId_s": id,
                "uri_s": format!("http://{HAL}/{id}"),
                "doiId_s": deposit.doi,
                "title_s": [deposit.title()],
                "producedDateY_i": 2024,
                "fileMain_s": format!("http://{HAL}/{id}/document"),
                "files_s": [format!("http://{HAL}/{id}/document"), format!("http://{HAL}/{id}/file/annexe.pdf")],
                "openAccess_bool": true,
                "submitType_s": "file",
            })
        })
        .into_iter()
        .collect();
    decoded_request::json(
        200,
        &json!({"response": {"numFound": documents.len(), "start": 0, "docs": documents}}),
    )
}

/// Responds for the files of HAL; its pages are a bot challenge.
pub(in crate::scholarly) fn hal(world: &ScholarlyWorld, arrival: &Arrival) -> ScriptedReply {
    let path = DecodedRequest::of(arrival).path;
    let id = path
        .trim_start_matches('/')
        .strip_suffix("/document")
        .unwrap_or_default();
    match world.deposit(&[DepositKind::Hal], |deposit| {
        document(deposit.number) == id
    }) {
        Some(deposit) => file::serve(arrival, &deposit.bytes(world), "application/pdf"),
        None => page(
            403,
            "<!DOCTYPE html><html><head><title>Just a moment...</title></head><body>Verify you are human</body></html>",
        ),
    }
}

/// Responds for the API of DOAJ.
pub(in crate::scholarly) fn doaj(world: &ScholarlyWorld, arrival: &Arrival) -> ScriptedReply {
    let path = DecodedRequest::of(arrival).path;
    let Some(query) = path.strip_prefix("/api/v4/search/articles/") else {
        return page(403, "<html><title>403 Forbidden</title></html>");
    };
    let doi = query
        .strip_prefix("doi:")
        .map(|doi| doi.trim_matches('"'))
        .unwrap_or_default();
    let results: Vec<Value> = world
        .deposit(&[DepositKind::Doaj], |deposit| deposit.doi == doi)
        .map(|deposit| {
            let number = deposit.number;
            json!({"id": format!("a{number}"), "bibjson": {
                "title": deposit.title(),
                "year": "2024",
                "identifier": [{"type": "eissn", "id": "1234-5678"}, {"type": "doi", "id": deposit.doi.to_ascii_uppercase()}],
                "link": [
                    {"type": "fulltext", "content_type": "HTML", "url": format!("http://{OPEN_JOURNAL}/article/view/{number}")},
                    {"type": "fulltext", "content_type": "PDF", "url": format!("http://{OPEN_JOURNAL}/article/download/{number}")},
                ],
            }})
        })
        .into_iter()
        .collect();
    decoded_request::json(
        200,
        &json!({"total": results.len(), "page": 1, "pageSize": 5, "query": query, "results": results}),
    )
}

/// Responds for the journal that DOAJ lists.
pub(in crate::scholarly) fn open_journal(
    world: &ScholarlyWorld,
    arrival: &Arrival,
) -> ScriptedReply {
    let path = DecodedRequest::of(arrival).path;
    let number: Option<usize> = path
        .strip_prefix("/article/download/")
        .and_then(|number| number.parse().ok());
    match world.deposit(&[DepositKind::Doaj], |deposit| {
        Some(deposit.number) == number
    }) {
        Some(deposit) => file::serve(arrival, &deposit.bytes(world), "application/pdf"),
        None => script_page(),
    }
}
