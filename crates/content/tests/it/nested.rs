//! Pages and lists nested to 100,000: each is read, on a thread with a small stack.

use docstokg_content::bot_challenge;
use docstokg_content::identifier::Identifier;
use docstokg_content::input::{InputReader, ListFormat};
use docstokg_content::landing_page::extract;
use docstokg_content::sniff::{classify, pdf_tail};
use docstokg_content::titles;
use docstokg_content::work::Work;
use http::{HeaderMap, StatusCode};
use url::Url;

const DEPTH: usize = 100_000;

fn nested(open: &str, close: &str) -> String {
    format!("{}x{}", open.repeat(DEPTH), close.repeat(DEPTH))
}

/// Runs on a stack that stands for that of any thread.
fn on_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(work);
    thread.unwrap().join().unwrap();
}

#[test]
fn pages_of_any_depth_are_read() {
    on_small_stack(|| {
        let page = Url::parse("https://journal.example/article/1").unwrap();
        let work = Work::new(Identifier::parse("10.5555/jw.42").unwrap());
        for (open, close) in [
            ("<div>", "</div>"),
            ("<table><tr><td>", "</td></tr></table>"),
            ("<b>", "</b>"),
            ("<a href=x.pdf>", "</a>"),
            ("<svg>", "</svg>"),
            ("<template>", "</template>"),
            ("<select><option>", "</select>"),
            ("<!--", "-->"),
        ] {
            let html = format!("<html><body>{}", nested(open, close));
            let read = extract(&html, &page, &HeaderMap::new(), Some(&work));
            let is_link = |url: &Url| matches!(url.scheme(), "http" | "https");
            assert!(read.candidates.iter().all(|found| is_link(&found.url)));
            let _ = bot_challenge::detect(StatusCode::OK, html.as_bytes());
            let _ = classify(html.as_bytes());
        }
        let script = format!(
            "<html><head><script type=application/ld+json>{}</script></head>",
            nested("{\"a\":[", "]}")
        );
        let _ = extract(&script, &page, &HeaderMap::new(), None);
        let _ = pdf_tail(nested("<<", ">>").as_bytes());
        let _ = titles::clean(&nested("<i>", "</i>"));
    });
}

#[test]
fn lists_of_any_depth_are_read_to_their_end() {
    on_small_stack(|| {
        let json = nested("[", "]");
        let object = nested("{\"ids\":", "}");
        let xml = format!(
            "<xml><records>{}</records></xml>",
            nested("<record><titles><title>", "</title></titles></record>")
        );
        let entry = nested("{", "}");
        // With the number of works and refusals that are read.
        let lists = [
            ("CSL-JSON", ListFormat::CslJson, json.clone(), 1),
            ("objects", ListFormat::CslJson, format!("[{object}]"), 1),
            (
                "JSON lines",
                ListFormat::Jsonl,
                format!("{object}\n{json}\n"),
                2,
            ),
            (
                "braces",
                ListFormat::Bibtex,
                format!("@article{{k, title = {entry}}}\n@misc{{m, doi = {{10.5555/jw.42}}}}\n"),
                2,
            ),
            (
                "entries in one line",
                ListFormat::Bibtex,
                "@article{".repeat(DEPTH),
                1,
            ),
            // Each is found out after 256 KiB.
            (
                "entries",
                ListFormat::Bibtex,
                "@article{a,\n".repeat(DEPTH),
                5,
            ),
            ("RIS", ListFormat::Ris, "TY  - JOUR\n".repeat(DEPTH), DEPTH),
            ("EndNote", ListFormat::Enw, "%0 Book\n".repeat(DEPTH), DEPTH),
            ("PubMed", ListFormat::Nbib, "PMID- 1\n".repeat(DEPTH), DEPTH),
            (
                "Web of Science",
                ListFormat::Wos,
                "PT J\n".repeat(DEPTH),
                DEPTH,
            ),
            ("EndNote XML", ListFormat::EndnoteXml, xml, 1),
            (
                "a quote",
                ListFormat::Csv,
                format!("doi,title\n{}", "\"".repeat(DEPTH)),
                1,
            ),
            (
                "quotes",
                ListFormat::Csv,
                format!("doi,title\n{}", "\"\n".repeat(DEPTH)),
                DEPTH / 2,
            ),
        ];
        let counted = lists.map(|(name, format, list, expected)| {
            let _ = InputReader::new(list.as_bytes(), ListFormat::Auto).count();
            let read = InputReader::new(list.as_bytes(), format).count();
            (name, read, expected)
        });
        let is_wrong = |(_, read, expected): &&(&str, usize, usize)| read != expected;
        let wrong: Vec<_> = counted.iter().filter(is_wrong).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    });
}
