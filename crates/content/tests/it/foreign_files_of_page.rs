//! Files of a page that are not the article: parts of it, other works with a similar name, what the
//! site offers besides.

use docstokg_content::identifier::Identifier;
use docstokg_content::landing_page::{PageContents, extract};
use docstokg_content::location::LocationOffer;
use docstokg_content::work::Work;
use http::HeaderMap;
use http::header::LINK;
use url::Url;

const TITLE: &str = "Salt marshes of the western delta and their insects";

/// Reads a page about a DOI; `head` and `body` are what it says beside its title and DOI.
fn read(doi: &str, url: &str, head: &str, body: &str, headers: &HeaderMap) -> PageContents {
    let html = format!(
        "<html><head><meta name=citation_title content=\"{TITLE}\"><meta name=citation_doi content=\"{doi}\">{head}</head>\
         <body><h1>{TITLE}</h1>{body}</body></html>"
    );
    extract(
        &html,
        &Url::parse(url).unwrap(),
        headers,
        Some(&Work::new(Identifier::parse(doi).unwrap())),
    )
}

/// Returns the files that are taken as they come, without a word in them about the work.
fn sure(page: &PageContents) -> Vec<&str> {
    let files = page
        .candidates
        .iter()
        .filter(|found| found.offers == LocationOffer::Pdf && !found.needs_evidence);
    files.map(|found| found.url.as_str()).collect()
}

const STATED: &str = "<meta name=citation_pdf_url content=/articles/7731/7731.pdf>";

#[test]
fn parts_of_a_work_are_not_the_work() {
    let (doi, url) = ("10.5555/marsh.7731", "http://marsh.example/articles/7731");
    for part in [
        "<a href=/articles/7731/7731-f2.pdf>Open in a new tab</a>",
        "<a href=/articles/7731/7731-mmc1.pdf>Download file (2 MB)</a>",
        "<a href=/articles/7731/marsh-7731-supp2-v1.pdf>Download marsh-7731-supp2-v1.pdf</a>",
        "<a href=/suppdata/7731/marsh.7731.pdf>PDF (812K)</a>",
        "<a href=/articles/7731/7731-RC2.pdf>RC2</a>",
        "<a href=/articles/7731/7731-d1.pdf>Decision letter</a>",
        "<a href=/pdf/marsh.7731-1.pdf>Corrigendum</a>",
        "<a href=/articles/7731/7731_s1.pdf>Text S1</a>",
        "<a href=/doi/pdf/10.5555/marsh.7731.2>PDF</a>",
        "<a href=/articles/7731/press-release.pdf>Press release</a>",
        "<iframe src=/static/terms-of-use.pdf></iframe>",
        "<link rel=alternate type=application/pdf title='Author guidelines' href=/author-guidelines.pdf>",
        r#"<script type="application/ld+json">{"@type":"ScholarlyArticle","associatedMedia":{"@type":"MediaObject",
            "name":"Supplementary table","contentUrl":"/articles/7731/table-s1.pdf","encodingFormat":"application/pdf"}}</script>"#,
        r#"<script type="application/ld+json">{"@graph":[{"@type":"ScholarlyArticle"},{"@type":"Organization",
            "image":{"@type":"MediaObject","contentUrl":"http://society.example/media.pdf"}}]}</script>"#,
    ] {
        let page = read(doi, url, STATED, part, &HeaderMap::new());
        assert_eq!(
            sure(&page),
            ["http://marsh.example/articles/7731/7731.pdf"],
            "{part}"
        );
        let page = read(doi, url, "", part, &HeaderMap::new());
        assert_eq!(sure(&page), [] as [&str; 0], "{part}, with no file stated");
    }
    let mut headers = HeaderMap::new();
    let items = "</articles/7731/7731.pdf>; rel=item; type=\"application/pdf\", </articles/7731/supplement-1.pdf>; rel=item; type=\"application/pdf\"";
    headers.insert(LINK, items.parse().unwrap());
    assert_eq!(
        sure(&read(doi, url, "", "", &headers)),
        ["http://marsh.example/articles/7731/7731.pdf"]
    );
}

#[test]
fn a_name_that_is_the_beginning_of_another_is_not_that_work() {
    let chapters = "<a href=/content/pdf/10.5555/978-3-030-77310-1_1.pdf>Download chapter PDF</a><a href=/content/pdf/bfm:978-3-030-77310-1/1>PDF</a>";
    let page = read(
        "10.5555/978-3-030-77310-1",
        "http://books.example/book/10.5555/978-3-030-77310-1",
        "",
        chapters,
        &HeaderMap::new(),
    );
    assert_eq!(sure(&page), [] as [&str; 0]);
    let papers = "<a href=/doi/pdf/10.5555/3292500.3330701>PDF</a><a href=/doi/pdf/10.5555/3292500.3330702>PDF</a>";
    let page = read(
        "10.5555/3292500",
        "http://papers.example/doi/proceedings/10.5555/3292500",
        "",
        papers,
        &HeaderMap::new(),
    );
    assert_eq!(sure(&page), [] as [&str; 0]);
}

#[test]
fn an_id_counts_where_it_names_the_article() {
    let (doi, url) = ("10.5555/marsh.7731", "http://marsh.example/articles/7731");
    let advert = "<a href='http://ads.example/pdf/get?ref=http://marsh.example/marsh.7731'>Sponsor</a><a href=/articles/7731.pdf>PDF</a>";
    assert_eq!(
        sure(&read(doi, url, "", advert, &HeaderMap::new())),
        ["http://marsh.example/articles/7731.pdf"]
    );
    let cited = "<a href='/get.pdf?cited_in=7731&id=9'>[12]</a>";
    assert_eq!(
        sure(&read(doi, url, "", cited, &HeaderMap::new())),
        [] as [&str; 0]
    );
    let galleys = "<a class='obj_galley_link pdf' href=/index.php/j/article/view/4100/7731>PDF</a>";
    assert_eq!(
        sure(&read(
            doi,
            "http://ojs.example/index.php/j/article/view/7731",
            "",
            galleys,
            &HeaderMap::new()
        )),
        [] as [&str; 0]
    );
}

#[test]
fn a_link_that_is_only_labelled_counts_on_the_work_s_own_page_and_alone() {
    let doi = "10.5555/marsh.7731";
    let two = "<a href=/download/77>PDF</a><p>Subscribe: <a href=/files/subscribe2020.pdf>Download PDF</a></p>";
    assert_eq!(
        sure(&read(
            doi,
            "http://marsh.example/a/b",
            "",
            two,
            &HeaderMap::new()
        )),
        [] as [&str; 0]
    );
    let one = "<p><a href=/files/marshes.pdf>Download PDF</a></p>";
    assert_eq!(
        sure(&read(
            doi,
            "http://marsh.example/a/b",
            "",
            one,
            &HeaderMap::new()
        )),
        ["http://marsh.example/files/marshes.pdf"]
    );
    let news = "<html><head><meta property=og:type content=article></head><body><h1>We moved</h1><a href=/files/report.pdf>Download PDF</a></body></html>";
    let page = extract(
        news,
        &Url::parse("http://marsh.example/news/").unwrap(),
        &HeaderMap::new(),
        Some(&Work::new(Identifier::parse(doi).unwrap())),
    );
    assert_eq!(sure(&page), [] as [&str; 0]);
}

#[test]
fn only_stubs_send_on() {
    let doi = "10.5555/marsh.7731";
    let next = |head: &str, body: &str| {
        let html = format!("<html><head>{head}</head><body>{body}</body></html>");
        extract(
            &html,
            &Url::parse("http://marsh.example/a").unwrap(),
            &HeaderMap::new(),
            Some(&Work::new(Identifier::parse(doi).unwrap())),
        )
        .next
    };
    let form = "<form action=/go><input type=hidden name=redirectURL value=/articles/7731></form>";
    assert!(
        next("", form).is_some()
            && next(
                "<meta http-equiv=refresh content='2;url=/articles/7731'>",
                ""
            )
            .is_some()
    );
    assert!(next("<meta name=citation_title content=T>", form).is_none());
    assert!(next("", &format!("{form}<input type=password name=p>")).is_none());
    assert!(next("<meta http-equiv=refresh content='900;url=/home'>", "").is_none());
}

#[test]
fn a_page_that_states_another_doi_does_not_prove_its_own_files() {
    let wanted = Work::new(Identifier::parse("10.5555/wanted.1").unwrap());
    let html = "<meta name=citation_title content='Quite another matter of some length'><meta name=citation_doi content=10.5555/other.99>\
                <meta name=citation_pdf_url content=/o.pdf>";
    let page = extract(
        html,
        &Url::parse("http://j.example/articles/other").unwrap(),
        &HeaderMap::new(),
        Some(&wanted),
    );
    assert!(
        page.learned.title.is_none() && page.candidates.iter().all(|found| found.needs_evidence),
        "{page:?}"
    );
    let version = html.replace("10.5555/other.99", "10.5555/wanted.1.v2");
    let page = extract(
        &version,
        &Url::parse("http://j.example/articles/other").unwrap(),
        &HeaderMap::new(),
        Some(&wanted),
    );
    assert!(
        page.candidates.iter().all(|found| !found.needs_evidence),
        "{page:?}"
    );
}
