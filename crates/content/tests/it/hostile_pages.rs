//! Pages and lists that are made to cost: what each takes of the processor is bounded, and what a
//! page says before that is read.

use std::io::Cursor;
use std::time::Duration;

use docstokg_content::identifier::Identifier;
use docstokg_content::input::{InputReader, ListFormat};
use docstokg_content::landing_page::extract;
use docstokg_content::location::LocationOffer;
use docstokg_content::work::Work;
use docstokg_origin_sim::hostile::pages;
use http::HeaderMap;
use rustix::time::{ClockId, clock_gettime};
use url::Url;

/// Returns the processor time that this thread has used: other tests run beside it.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

#[test]
fn any_page_costs_a_bounded_time_and_its_head_is_read() {
    let head = "<html><head><meta name=citation_pdf_url content=/paper.pdf><meta name=citation_title content=T></head><body>";
    let page = Url::parse("https://journal.example/article/1").expect("a URL");
    // Debug builds are slower by far than what people run.
    let most = if cfg!(debug_assertions) { 4_000 } else { 350 };
    for (name, body) in pages(2 << 20) {
        let html = format!("{head}{body}");
        let begun = processor_time();
        let read = extract(&html, &page, &HeaderMap::new(), None);
        let took = processor_time().saturating_sub(begun);
        assert!(took.as_millis() <= most, "{name} takes {took:?}");
        let pdf = read
            .candidates
            .iter()
            .find(|candidate| candidate.offers == LocationOffer::Pdf)
            .map(|candidate| candidate.url.as_str());
        assert_eq!(pdf, Some("https://journal.example/paper.pdf"), "{name}");
    }
}

/// The words of a page are compared with the title of the work that led there.
#[test]
fn a_page_of_very_many_words_costs_a_bounded_time() {
    let mut work = Work::new(Identifier::parse("10.5555/jw.42").expect("an identifier"));
    work.title = Some("Growth of reed beds along the shores of shallow lakes".to_owned());
    let page = Url::parse("https://journal.example/article/1").expect("a URL");
    let words: Vec<String> = (0..400_000).map(|number| format!("w{number}")).collect();
    let html = format!("<html><body><p>{}", words.join(" "));
    let most = if cfg!(debug_assertions) { 4_000 } else { 350 };
    let begun = processor_time();
    let read = extract(&html, &page, &HeaderMap::new(), Some(&work));
    let took = processor_time().saturating_sub(begun);
    assert_eq!(read.candidates, []);
    assert!(took.as_millis() <= most, "it takes {took:?}");
}

/// A list of a MiB in which no quote or brace that opens is closed takes time in proportion to its
/// length.
#[test]
fn lists_of_what_is_never_closed_cost_a_bounded_time() {
    let lists = [
        (
            "quotes of CSV",
            format!("doi,title\n{}", "a\",\"\n".repeat(200 << 10)),
        ),
        (
            "long lines",
            format!(
                "doi,title\n{}",
                format!("a\",\"{}\n", "x".repeat(640)).repeat(1_600)
            ),
        ),
        (
            "entries of BibTeX",
            format!("@book{{a}}\n@book\n{}", "x\n".repeat(512 << 10)),
        ),
        (
            "braces of BibTeX",
            format!("@book{{a,\n{}", "x={\n".repeat(256 << 10)),
        ),
        (
            "quotes of BibTeX",
            format!("@book{{a,\n{}", "x=\"{\n".repeat(200 << 10)),
        ),
    ];
    // Debug builds are slower by far than what people run.
    let most = if cfg!(debug_assertions) { 4_000 } else { 400 };
    for (name, list) in lists {
        let begun = processor_time();
        let items = InputReader::new(Cursor::new(list), ListFormat::Auto).count();
        let took = processor_time().saturating_sub(begun);
        assert!(
            items > 0 && took.as_millis() <= most,
            "{name}: {items} items in {took:?}"
        );
    }
}
