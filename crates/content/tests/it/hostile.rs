//! Pages that are made to cost: what each takes of the processor is bounded, and what it says
//! before that is read.

use std::time::Duration;

use docstokg_content::landing_page::extract;
use docstokg_content::location::Offers;
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
            .find(|candidate| candidate.offers == Offers::Pdf)
            .map(|candidate| candidate.url.as_str());
        assert_eq!(pdf, Some("https://journal.example/paper.pdf"), "{name}");
    }
}
