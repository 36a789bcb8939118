//! Pages of many shapes: the right file comes first, and where it is refused no other file is taken
//! for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use docstokg_bulk::scheduler::RunEnd;
use docstokg_content::identifier::Identifier;
use docstokg_content::landing_page::{self, PageContents};
use docstokg_content::location::LocationOffer;
use docstokg_content::run::inputs::WorkList;
use docstokg_content::work::Work;
use docstokg_origin_sim::{OriginScript, ScriptedReply};
use http::HeaderMap;
use url::Url;

use crate::run_world::{World, pdf};
use crate::scripted_web::fixture;

/// Pages, where they are, and the files of their work; none where the page leads to no file of it.
const PAGES: [(&str, &str, &[&str]); 17] = [
    (
        "journal",
        "https://wetlands.example/articles/0042/",
        &["https://wetlands.example/articles/0042/jw.2019.0042.pdf"],
    ),
    (
        "form",
        "https://reviews.example/content/journals/10.5555/annurev-river-0512-1",
        &[
            "https://reviews.example/docserver/fulltext/river/5/1/annurev-river-0512-1.pdf?expires=1700000000&id=id&accname=guest&checksum=AA00",
        ],
    ),
    (
        "embedded_json",
        "https://direct.example/science/article/pii/S0169131720300012",
        &[
            "https://direct.example/science/article/pii/S0169131720300012/pdfft?md5=0f1e2d3c&pid=1-s2.0-S0169131720300012-main.pdf",
        ],
    ),
    (
        "printable",
        "https://journals.example/open/article?id=10.5555/journal.open.0213978",
        &[
            "https://journals.example/open/article/file?id=10.5555/journal.open.0213978&type=printable",
        ],
    ),
    (
        "document",
        "https://archive.example/hal-01234567v2",
        &["https://archive.example/hal-01234567/document"],
    ),
    (
        "viewcontent",
        "https://digital.example/etd/24/",
        &["https://digital.example/cgi/viewcontent.cgi?article=1023&context=etd"],
    ),
    (
        "ojs",
        "https://journal.example/index.php/fs/article/view/9123",
        &["https://journal.example/index.php/fs/article/download/9123/8001"],
    ),
    (
        "stage",
        "https://stage.example/article/jtea/12/3/12_145/_article",
        &["https://stage.example/article/jtea/12/3/12_145/_pdf/-char/en"],
    ),
    (
        "chemistry",
        "https://chem.example/en/content/articlelanding/2020/cc/d0cc01234a",
        &["https://chem.example/en/content/articlepdf/2020/cc/d0cc01234a"],
    ),
    (
        "preprint_server",
        "https://papers.example/sol3/papers.cfm?abstract_id=3123456",
        &[
            "https://papers.example/sol3/Delivery.cfm/SSRN_ID3123456_code77.pdf?abstractid=3123456&mirid=1",
        ],
    ),
    (
        "versions",
        "https://bees.example/preprints/3321/",
        &[
            "https://bees.example/pdf/10.5555/bees.3321",
            "https://bees.example/preprints/3321.pdf",
            "https://bees.example/preprints/history/bees.3321v1.pdf",
        ],
    ),
    (
        "old_page",
        "https://essays.example/g58/fairlie.html",
        &["https://essays.example/issue58/fairlie.pdf"],
    ),
    (
        "repository",
        "https://repo.example/handle/20.500.1/7788",
        &["https://repo.example/bitstream/handle/20.500.1/7788/thesis.pdf?sequence=1&isAllowed=y"],
    ),
    ("home_page", "https://everything.example/", &[]),
    ("issue", "https://lake.example/v3/contents", &[]),
    (
        "cell",
        "https://roots.example/root/fulltext/S0092-8674(20)30001-2",
        &["https://roots.example/action/showPdf?pii=S0092-8674%2820%2930001-2"],
    ),
    (
        "cdn",
        "https://eopen.example/articles/44753",
        &["https://cdn.example/articles/44753/eopen-44753-v2.pdf"],
    ),
];

fn html(name: &str) -> String {
    String::from_utf8(fixture(&format!("landing_page/pages/{name}.html"))).unwrap()
}

/// The work that leads to a page: the page that nobody asked for by its own URL is met on the way
/// to another work.
fn work(name: &str, url: &str) -> Work {
    if name == "home_page" {
        return Work::new(Identifier::parse("10.5555/moved.1").unwrap());
    }
    Work::new(Identifier::parse(url).unwrap())
}

fn read(name: &str, url: &str) -> PageContents {
    landing_page::extract(
        &html(name),
        &Url::parse(url).unwrap(),
        &HeaderMap::new(),
        Some(&work(name, url)),
    )
}

#[test]
fn the_files_of_a_page_s_own_work_are_found_and_no_others() {
    for (name, url, right) in PAGES {
        let page = read(name, url);
        let found: Vec<&str> = page
            .candidates
            .iter()
            .filter(|candidate| candidate.offers == LocationOffer::Pdf)
            .map(|candidate| candidate.url.as_str())
            .collect();
        assert_eq!(found, right, "{name}");
    }
}

/// Returns every link of a page that leads to a PDF, or may.
fn links(html: &str, url: &Url) -> Vec<Url> {
    let document = scraper::Html::parse_document(html);
    let any = scraper::Selector::parse("[href], [action], [src]").unwrap();
    let targets = document.select(&any).filter_map(|element| {
        ["href", "action", "src"]
            .iter()
            .find_map(|name| element.attr(name))
    });
    targets.filter_map(|target| url.join(target).ok()).collect()
}

fn path(url: &Url) -> String {
    url.query().map_or(url.path().to_owned(), |query| {
        format!("{}?{query}", url.path())
    })
}

/// One web with all pages: every link is a live PDF, but the right ones answer with a status of
/// their own.
fn world(right_status: u16) -> World {
    type Answers = BTreeMap<String, ScriptedReply>;
    let mut hosts: BTreeMap<String, Answers> = BTreeMap::new();
    for (name, url, right) in PAGES {
        let at = Url::parse(url).unwrap();
        for link in links(&html(name), &at) {
            hosts
                .entry(link.host_str().unwrap().to_owned())
                .or_default()
                .insert(path(&link), pdf(link.path()));
        }
        for file in right {
            let file = Url::parse(file).unwrap();
            let reply = if right_status == 200 {
                pdf(file.path())
            } else {
                ScriptedReply::status(right_status).body("<h1>No</h1>")
            };
            hosts
                .entry(file.host_str().unwrap().to_owned())
                .or_default()
                .insert(path(&file), reply);
        }
        hosts
            .entry(at.host_str().unwrap().to_owned())
            .or_default()
            .insert(
                path(&at),
                ScriptedReply::ok(html(name)).header("content-type", "text/html"),
            );
    }
    let names: BTreeSet<String> = hosts
        .keys()
        .cloned()
        .chain(["svc.example".to_owned()])
        .collect();
    let mut yaml = "version: 1\nlimits:\n  hosts:\n".to_owned();
    for name in &names {
        yaml.push_str(&format!("    {name}: {{ artifact: {{ rates: [] }}, landing: {{ rates: [] }}, metadata: {{ rates: [] }} }}\n"));
    }
    let hosts = Arc::new(hosts);
    let origins = names.iter().map(|name| {
        let (hosts, name) = (Arc::clone(&hosts), name.clone());
        OriginScript::new(&name.clone()).handler(move |arrival, _| {
            let answers = hosts.get(&name);
            answers
                .and_then(|answers| answers.get(&arrival.path))
                .cloned()
                .unwrap_or_else(|| ScriptedReply::status(404))
        })
    });
    World::new(origins.collect(), &yaml, |service| {
        Some(format!("http://svc.example/{service}/"))
    })
}

fn download(world: &World) -> Vec<serde_json::Value> {
    let works = PAGES
        .iter()
        .filter(|(name, ..)| *name != "home_page")
        .map(|(name, url, _)| work(name, url))
        .collect();
    let (ended, ..) = world.run(Box::new(WorkList::new("list", works)), |_| {});
    assert!(matches!(ended, RunEnd::Complete), "{ended:?}");
    world
        .records()
        .into_iter()
        .filter(|record| record["record_type"] == "manifest")
        .collect()
}

#[test]
fn where_the_right_pdf_is_refused_no_other_pdf_of_the_page_is_taken_for_it() {
    let world = world(403);
    let records = download(&world);
    assert_eq!(records.len(), PAGES.len() - 1);
    for record in &records {
        assert_eq!(
            record["path"],
            serde_json::Value::Null,
            "a wrong file was saved: {record}"
        );
        let (id, detail) = (
            record["work_id"].as_str().unwrap(),
            record["reason_detail"].as_str().unwrap(),
        );
        if id.contains("lake.example") {
            assert_eq!(record["reason"], "html_only", "{record}");
        } else {
            assert_eq!(
                (&record["reason"], &record["http_status"]),
                (&"http_status".into(), &403.into()),
                "{record}"
            );
            assert!(detail.contains("403"), "{detail}");
        }
    }
}

#[test]
fn where_the_right_pdf_is_served_it_is_the_one_that_is_saved() {
    let world = world(200);
    for record in download(&world) {
        let id = record["work_id"].as_str().unwrap();
        let right = PAGES
            .iter()
            .find(|(_, url, _)| Url::parse(url).unwrap().as_str() == id)
            .map(|(.., right)| right[..].first())
            .unwrap();
        assert_eq!(record["url"].as_str(), right.copied(), "{record}");
    }
}

fn extract(html: &str, url: &str, work: &Work) -> PageContents {
    landing_page::extract(
        html,
        &Url::parse(url).unwrap(),
        &HeaderMap::new(),
        Some(work),
    )
}

#[test]
fn a_stray_quote_does_not_cut_a_page() {
    let items = r#"<li class="x" "="">An item</li>"#.repeat(2_000);
    let html = format!(
        r#"<html><body><h1>Reeds</h1><ul>{items}</ul><a href="/doi/pdf/10.5555/reeds.1">PDF</a></body></html>"#
    );
    let work = Work::new(Identifier::parse("10.5555/reeds.1").unwrap());
    let page = extract(&html, "https://pub.example/doi/10.5555/reeds.1", &work);
    assert!(!page.is_cut);
    assert_eq!(page.candidates.len(), 1, "{page:?}");
}

#[test]
fn the_page_of_another_paper_of_the_journal_is_not_taken_for_a_version() {
    let work = Work::new(Identifier::parse("10.5555/journal.pond.0000217").unwrap());
    let page = |doi: &str| {
        let html = format!(
            r#"<html><head><meta name="citation_doi" content="{doi}"><meta name="citation_title" content="On reeds">
            <meta name="citation_pdf_url" content="https://pub.example/article/file?id={doi}&type=printable"></head></html>"#
        );
        let page = extract(&html, "https://pub.example/article", &work);
        page.candidates
            .iter()
            .all(|candidate| candidate.needs_evidence)
    };
    assert!(page("10.5555/journal.pond.0000218"));
    assert!(page("10.5555/journal.pond.00002171"));
    assert!(!page("10.5555/journal.pond.0000217"));
    assert!(!page("10.5555/journal.pond.0000217.v2"));
}

/// Pages without metas, as platforms link their files: the link alone says which file it is.
#[test]
fn links_of_known_shapes_are_found_without_metas() {
    for (doi, url, link, file) in [
        (
            "10.1021/acs.reeds.5c01234",
            "https://pubs.acs.example/doi/10.1021/acs.reeds.5c01234",
            r#"<div class="article_header-footer"><a href="/doi/pdf/10.1021/acs.reeds.5c01234" class="button_primary">PDF (3 MB)</a></div>"#,
            "https://pubs.acs.example/doi/pdf/10.1021/acs.reeds.5c01234",
        ),
        (
            "10.1371/journal.pond.0012345",
            "https://journals.plos.example/plosone/article?id=10.1371/journal.pond.0012345",
            r#"<div class="dload-pdf"><a href="/plosone/article/file?id=10.1371/journal.pond.0012345&type=printable" id="downloadPdf">Download PDF</a></div>"#,
            "https://journals.plos.example/plosone/article/file?id=10.1371/journal.pond.0012345&type=printable",
        ),
        (
            "10.1371/journal.pond.0012345",
            "http://www.plosone.example/article/info%3Adoi%2F10.1371%2Fjournal.pond.0012345",
            r#"<li><a href="/article/fetchObjectAttachment.action?uri=info%3Adoi%2F10.1371%2Fjournal.pond.0012345&representation=PDF">PDF</a></li>"#,
            "http://www.plosone.example/article/fetchObjectAttachment.action?uri=info%3Adoi%2F10.1371%2Fjournal.pond.0012345&representation=PDF",
        ),
        (
            "10.1083/reeds.200906",
            "https://reeds.example/content/187/5/609.long",
            r#"<ul><li><a href="/content/187/5/609.full.pdf" rel="view-full-text.pdf">Full Text (PDF)</a></li></ul>"#,
            "https://reeds.example/content/187/5/609.full.pdf",
        ),
        (
            "10.1136/pond.e1234",
            "https://www.pond.example/content/345/pond.e1234",
            r#"<a href="/content/pond/345/pond.e1234.full.pdf" class="pdf-link">PDF</a>"#,
            "https://www.pond.example/content/pond/345/pond.e1234.full.pdf",
        ),
        (
            "10.1155/2013/376507",
            "https://www.hindawi.example/journals/reeds/2013/376507/",
            r#"<a href="https://downloads.hindawi.example/journals/reeds/2013/376507.pdf">Download PDF</a>"#,
            "https://downloads.hindawi.example/journals/reeds/2013/376507.pdf",
        ),
        (
            "10.1039/d0cc01234a",
            "https://pubs.rsc.example/en/content/articlelanding/2020/cc/d0cc01234a",
            r#"<a class="btn" href="/en/content/articlepdf/2020/cc/d0cc01234a">Download this article PDF format</a>"#,
            "https://pubs.rsc.example/en/content/articlepdf/2020/cc/d0cc01234a",
        ),
        (
            "10.1093/reeds/gkv1290",
            "https://academic.oup.example/reeds/article/44/D1/D1/2503126",
            r#"<a class="al-link pdf article-pdfLink" data-article-id="2503126" href="/reeds/article-pdf/44/D1/D1/9482333/gkv1290.pdf">PDF</a>"#,
            "https://academic.oup.example/reeds/article-pdf/44/D1/D1/9482333/gkv1290.pdf",
        ),
    ] {
        let html = format!(
            "<html><body><h1>Reeds of the northern coast</h1><p>https://doi.org/{doi}</p>{link}\
             <footer><a href=/media/kit.pdf>Media kit</a></footer></body></html>"
        );
        let work = Work::new(Identifier::parse(doi).unwrap());
        let page = extract(&html, url, &work);
        let found: Vec<&str> = page
            .candidates
            .iter()
            .map(|found| found.url.as_str())
            .collect();
        assert_eq!(found, [file], "{url}");
    }
}
