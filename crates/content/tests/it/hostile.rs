//! Pages that are made to cost: what each takes of the processor is bounded, and what it says before that is read.

use std::time::Duration;

use docstokg_content::landing_page::extract;
use docstokg_content::location::Offers;
use http::HeaderMap;
use rustix::time::{ClockId, clock_gettime};
use url::Url;

const SIZE: usize = 2 << 20;

/// Repeats text up to the largest page that is read.
fn filled(text: &str) -> String {
    text.repeat(SIZE / text.len())
}

fn numbered(count: usize, text: impl Fn(usize) -> String) -> String {
    let mut page = (0..count).map(text).collect::<Vec<_>>().concat();
    page.truncate(SIZE);
    page
}

/// Returns the processor time that this thread has used: other tests run beside it.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[test]
fn any_page_costs_a_bounded_time_and_its_head_is_read() {
    let head = "<html><head><meta name=citation_pdf_url content=/paper.pdf><meta name=citation_title content=T></head><body>";
    let pages = [
        ("nested", filled("<div>")),
        ("nested and closed wrongly", filled("<div></p>")),
        ("unclosed formatting", numbered(150_000, |n| format!("<font color={n}><p>"))),
        ("misnested formatting", filled("<b><p></b>")),
        ("attributes", format!("<p {}>", numbered(200_000, |n| format!("a{n}=1 ")))),
        ("tables in tables", filled("<table><tr><td>")),
        ("text in tables", filled("<table>x")),
        ("anchors", numbered(60_000, |n| format!("<a href=/{n}.pdf>PDF</a>"))),
        ("anchors in anchors", filled("<a href=/x.pdf>")),
        ("buttons around text", format!("{}{}", "<button>".repeat(380), filled("text "))),
        ("headings around text", format!("{}{}", "<h1><div>".repeat(180), filled("text "))),
        ("lists", filled("<ul><li>")),
        ("foreign", filled("<svg><g>")),
        ("templates", filled("<template>")),
        ("frames", filled("<select><option>")),
        ("entities", filled("&amp;&#x41;&notin;")),
        ("metas", numbered(40_000, |n| format!("<meta name=citation_reference content=\"{n} 10.5555/{n}\">"))),
        ("comments", filled("<!--")),
        ("quotes", filled("<p a=\"")),
        ("angles", filled("<")),
        ("nul", filled("\0<b>")),
    ];
    let page = Url::parse("https://journal.example/article/1").expect("a URL");
    // Debug builds are slower by far than what people run.
    let most = if cfg!(debug_assertions) { 4_000 } else { 350 };
    for (name, body) in pages {
        let html = format!("{head}{body}");
        let begun = processor_time();
        let read = extract(&html, &page, &HeaderMap::new(), None);
        let took = processor_time().saturating_sub(begun);
        assert!(took.as_millis() <= most, "{name} takes {took:?}");
        let pdf = read.candidates.iter().find(|candidate| candidate.offers == Offers::Pdf).map(|candidate| candidate.url.as_str());
        assert_eq!(pdf, Some("https://journal.example/paper.pdf"), "{name}");
    }
}
