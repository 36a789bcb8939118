//! `PubMed` Central, with the converter of ids and the bucket of files, and Europe PMC with the
//! same articles.

use serde_json::{Value, json};

use super::decoded_request::{self, DecodedRequest};
use super::file::{self, TextVersion};
use super::hosts::PMC;
use super::paper::{Central, Paper};
use super::world::ScholarlyWorld;
use crate::ledger::Arrival;
use crate::reply::ScriptedReply;

/// Maximum number of ids in one request to the converter.
const MAX_IDS: usize = 200;

/// Responds for the converter of ids. The article pages require a proof of work, like the real
/// ones.
pub(super) fn converter(world: &ScholarlyWorld, arrival: &Arrival) -> ScriptedReply {
    let asked = DecodedRequest::of(arrival);
    if asked.path.starts_with("/articles/") {
        return decoded_request::page(
            200,
            "<html><head><title>Preparing to download ...</title></head>\
             <body><script>pow_challenge()</script></body></html>",
        );
    }
    if asked.path != "/tools/idconv/api/v1/articles/" {
        return ScriptedReply::status(404);
    }
    let ids: Vec<&str> = asked
        .get("ids")
        .unwrap_or_default()
        .split(',')
        .filter(|id| !id.is_empty())
        .collect();
    if ids.is_empty() || ids.len() > MAX_IDS {
        return decoded_request::json(
            400,
            &json!({"status": "error", "message": "between 1 and 200 ids are required"}),
        );
    }
    let records: Vec<Value> = ids.iter().map(|id| converted(world, id)).collect();
    decoded_request::json(
        200,
        &json!({
            "status": "ok",
            "responseDate": "2026-10-01 00:00:00",
            "request": {"format": "json", "host": PMC},
            "records": records,
        }),
    )
}

fn converted(world: &ScholarlyWorld, id: &str) -> Value {
    let paper = match id {
        id if id.starts_with("10.") => world.with_doi(id),
        id if id.to_ascii_uppercase().starts_with("PMC") => {
            world.with_pmcid(id).map(|(paper, _)| paper)
        }
        id => world.with_pmid(id),
    };
    match paper.and_then(|paper| Some((paper, paper.central?))) {
        Some((paper, Central { pmcid, version, .. })) => {
            let one = |nth| {
                let current = (nth == version).to_string();
                json!({"pmcid": format!("PMC{pmcid}.{nth}"), "current": current})
            };
            let versions: Vec<Value> = (1..=version).map(one).collect();
            json!({
                "requested-id": id,
                "pmcid": format!("PMC{pmcid}"),
                "pmid": paper.pmid,
                "doi": doi(paper),
                "versions": versions,
            })
        }
        None => {
            json!({"requested-id": id, "status": "error", "errmsg": "Identifier not found in PMC"})
        }
    }
}

fn doi(paper: &Paper) -> Option<&str> {
    paper.doi.as_ref().map(|(doi, _)| doi.as_str())
}

/// Responds for the bucket: listings, metadata, files.
pub(super) fn bucket(world: &ScholarlyWorld, arrival: &Arrival) -> ScriptedReply {
    let asked = DecodedRequest::of(arrival);
    if asked.path == "/" {
        return listing(world, asked.get("prefix").unwrap_or_default());
    }
    let name = asked.path.rsplit('/').next().unwrap_or_default();
    let Some((stem, ending)) = name.rsplit_once('.') else {
        return no_such_key();
    };
    let Some((article, version)) = stem.split_once('.') else {
        return no_such_key();
    };
    let found = world.with_pmcid(article).filter(|(_, central)| {
        version
            .parse()
            .is_ok_and(|version| (1..=central.version).contains(&version))
    });
    let Some((paper, central)) = found else {
        return no_such_key();
    };
    let in_folder = asked.path == format!("/{stem}/{name}");
    match ending {
        "json" if in_folder || asked.path == format!("/metadata/{name}") => {
            decoded_request::json(200, &metadata(world, paper, central, version))
        }
        "pdf" if in_folder && central.pdf => file::serve(
            arrival,
            &world.pdf(paper, TextVersion::Published),
            "application/pdf",
        ),
        "xml" if in_folder => file::serve(arrival, &world.jats(paper, central), "application/xml"),
        _ => no_such_key(),
    }
}

fn no_such_key() -> ScriptedReply {
    decoded_request::text(
        404,
        "application/xml",
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>NoSuchKey</Code></Error>",
    )
}

fn listing(world: &ScholarlyWorld, prefix: &str) -> ScriptedReply {
    let folders = |central: Central| {
        (1..=central.version).map(move |version| format!("PMC{}.{version}/", central.pmcid))
    };
    let found: Vec<String> = world
        .papers
        .iter()
        .filter_map(|paper| paper.central)
        .flat_map(folders)
        .filter(|folder| folder.starts_with(prefix))
        .collect();
    let prefixes: Vec<String> = found
        .iter()
        .map(|folder| format!("<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>"))
        .collect();
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
         <Name>pmc-oa-opendata</Name><Prefix>{}</Prefix><Delimiter>/</Delimiter>\
         <KeyCount>{}</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>{}\
         </ListBucketResult>",
        file::escaped(prefix),
        found.len(),
        prefixes.join("")
    );
    decoded_request::text(200, "application/xml", text)
}

fn metadata(world: &ScholarlyWorld, paper: &Paper, central: Central, version: &str) -> Value {
    let stem = format!("PMC{}.{version}", central.pmcid);
    let object =
        |ending: &str, md5: &str| format!("s3://pmc-oa-opendata/{stem}/{stem}.{ending}?md5={md5}");
    let pdf = central.pdf.then(|| {
        let true_sum = file::md5(&world.pdf(paper, TextVersion::Published));
        object(
            "pdf",
            &if central.wrong_checksum {
                true_sum.chars().rev().collect()
            } else {
                true_sum
            },
        )
    });
    json!({
        "pmcid": format!("PMC{}", central.pmcid),
        "version": version.parse::<u32>().ok(),
        "pmid": paper.pmid,
        "doi": doi(paper),
        "mid": null,
        "title": paper.title,
        "citation": format!("A Journal. {}", paper.year),
        "is_pmc_openaccess": true,
        "is_manuscript": !central.pdf,
        "is_historical_ocr": false,
        "is_retracted": false,
        "license_code": "CC BY",
        "xml_url": object("xml", &file::md5(&world.jats(paper, central))),
        "text_url": null,
        "pdf_url": pdf,
        "media_urls": [],
    })
}

/// Responds for the search of Europe PMC, and for the articles as XML.
pub(super) fn europe_search(world: &ScholarlyWorld, arrival: &Arrival) -> ScriptedReply {
    let asked = DecodedRequest::of(arrival);
    let Some(path) = asked.path.strip_prefix("/europepmc/webservices/rest/") else {
        return ScriptedReply::status(404);
    };
    if let Some(id) = path.strip_suffix("/fullTextXML") {
        return match world.with_pmcid(id) {
            Some((paper, central)) => {
                file::serve(arrival, &world.jats(paper, central), "application/xml")
            }
            None => decoded_request::text(404, "application/xml", "<error>not found</error>"),
        };
    }
    if path != "search" {
        return ScriptedReply::status(404);
    }
    let query = asked.get("query").unwrap_or_default();
    let value = |field: &str| {
        query
            .strip_prefix(field)
            .and_then(|rest| rest.split(" AND ").next())
            .map(|value| value.trim_matches('"'))
    };
    let found = None
        .or_else(|| {
            value("PMCID:")
                .and_then(|id| world.with_pmcid(id))
                .map(|(paper, _)| paper)
        })
        .or_else(|| value("EXT_ID:").and_then(|id| world.with_pmid(id)))
        .or_else(|| value("DOI:").and_then(|doi| world.with_doi(doi)))
        .and_then(|paper| {
            Some(result(
                paper,
                paper.central?,
                asked.get("resultType") == Some("core"),
            ))
        });
    let results: Vec<Value> = found.into_iter().collect();
    let request = json!({
        "queryString": query,
        "resultType": asked.get("resultType"),
        "cursorMark": "*",
        "pageSize": 5,
        "sort": "",
        "synonym": false,
    });
    decoded_request::json(
        200,
        &json!({
            "version": "6.9",
            "hitCount": results.len(),
            "request": request,
            "resultList": {"result": results},
        }),
    )
}

fn result(paper: &Paper, central: Central, core: bool) -> Value {
    let flag = |is: bool| if is { "Y" } else { "N" };
    let mut result = json!({
        "id": paper.pmid.map(|id| id.to_string()),
        "source": "MED",
        "pmid": paper.pmid.map(|id| id.to_string()),
        "pmcid": format!("PMC{}", central.pmcid),
        "doi": doi(paper),
        "title": format!("{}.", paper.title),
        "authorString": "Author A.",
        "pubYear": paper.year.to_string(),
        "isOpenAccess": "Y",
        "inEPMC": "Y",
        "inPMC": "Y",
        "hasPDF": flag(central.pdf),
        "hasBook": "N",
        "hasSuppl": "N",
        "license": "cc by",
        "citedByCount": paper.number % 40,
        "firstPublicationDate": format!("{}-03-01", paper.year),
    });
    if core {
        let mut links = vec![json!({
            "availability": "Subscription required",
            "availabilityCode": "S",
            "documentStyle": "doi",
            "site": "DOI",
            "url": format!("http://{}/{}", super::hosts::DOI, doi(paper).unwrap_or_default()),
        })];
        if let Some(copy) = paper.copies.first() {
            links.push(json!({
                "availability": "Free",
                "availabilityCode": "F",
                "documentStyle": "html",
                "site": "Publisher",
                "url": copy.page_url(),
            }));
        }
        result["fullTextUrlList"] = json!({"fullTextUrl": links});
    }
    result
}

/// Responds for the articles of Europe PMC as PDF.
pub(super) fn europe_articles(
    world: &ScholarlyWorld,
    arrival: &Arrival,
    nth: usize,
) -> ScriptedReply {
    let asked = DecodedRequest::of(arrival);
    let found = asked
        .path
        .strip_prefix("/articles/")
        .and_then(|id| world.with_pmcid(id.trim_end_matches('/')));
    match found {
        Some((_, central)) if central.stumbles && nth == 0 => {
            decoded_request::page(500, "<html><title>Internal Server Error</title></html>")
        }
        Some((paper, central)) if central.pdf && asked.get("pdf") == Some("render") => file::serve(
            arrival,
            &world.pdf(paper, TextVersion::Published),
            "application/pdf",
        ),
        Some((paper, _)) => decoded_request::page(
            200,
            format!(
                "<html><head><title>{}</title></head><body></body></html>",
                file::escaped(&paper.title)
            ),
        ),
        None => decoded_request::page(404, "<html><title>Not found</title></html>"),
    }
}
