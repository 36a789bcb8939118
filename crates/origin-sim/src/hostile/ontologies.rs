//! Ontology files that try to harm their readers: small files from which readers get very many or
//! very long statements, names, errors or levels of nesting.

/// Length of a repeated name, in bytes.
const NAME_BYTES: usize = 100_000;
/// Depth of nesting, or length of a chain.
const NESTING_DEPTH: usize = 100_000;

/// Creates ontology files that are expensive to read: the name of the file, and its text.
#[must_use]
pub fn ontologies() -> Vec<(&'static str, String)> {
    let mut all = repeated_names();
    all.extend(repeated_errors());
    all.extend(nested());
    all
}

fn list(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(",")
}

fn repeated_names() -> Vec<(&'static str, String)> {
    let long = format!("http://a/{}", "A".repeat(NAME_BYTES));
    let ones = list(100_000, |_| "1".to_owned());
    let texts = list(100_000, |_| "\"x\"".to_owned());
    let types = list(100_000, |n| format!("\"p:{n}\""));
    let properties = list(100_000, |n| format!("\"p:{n}\":1"));
    let nodes = list(50_000, |n| format!("{{\"@id\":\"{n}\",\"http://p\":1}}"));
    let padding = "x".repeat(2_200_000);
    vec![
        (
            "id.jsonld",
            format!("{{\"@id\":\"{long}\",\"http://p\":[{ones}]}}"),
        ),
        (
            "id-with-space.jsonld",
            format!("{{\"@context\":{{\"i\":\"@id\"}},\"i\":\"{long} \",\"http://p\":[{ones}]}}"),
        ),
        (
            "graph.jsonld",
            format!("{{\"@id\":\"{long}\",\"@graph\":[{nodes}]}}"),
        ),
        (
            "base.jsonld",
            format!("{{\"@context\":{{\"@base\":\"{long}\"}},\"@graph\":[{nodes}]}}"),
        ),
        (
            "language.jsonld",
            format!("{{\"@context\":{{\"@language\":\"{long}\"}},\"http://p\":[{texts}]}}"),
        ),
        (
            "datatype.jsonld",
            format!(
                "{{\"@context\":{{\"t\":{{\"@id\":\"http://p\",\"@type\":\"{long}\"}}}},\"t\":[{texts}]}}"
            ),
        ),
        (
            "prefix.jsonld",
            format!("{{\"@context\":{{\"p\":\"{long}\"}},{properties}}}"),
        ),
        (
            "types.jsonld",
            format!("{{\"@context\":{{\"p\":\"{long}\"}},\"@type\":[{types}]}}"),
        ),
        (
            "types-streamed.jsonld",
            format!(
                "{{\"@context\":{{\"p\":\"{long}\"}},\"@type\":[{types}],\"http://p\":\"{padding}\"}}"
            ),
        ),
        (
            "prefix.ttl",
            format!(
                "@prefix p: <http://x/{}> .\n{}",
                "A".repeat(1_000_000),
                "p:a p:b p:c .\n".repeat(100_000)
            ),
        ),
    ]
}

fn repeated_errors() -> Vec<(&'static str, String)> {
    let numbers = list(1_000, |_| "1".to_owned());
    let urls = list(900, |_| "\"http://c.invalid/\"".to_owned());
    let ones = list(100_000, |_| "1".to_owned());
    let types = list(30_000, |_| "\"T\"".to_owned());
    vec![
        (
            "errors.jsonld",
            format!(
                "{{\"@context\":{{\"p\":{{\"@id\":\"http://p\",\"@context\":[{numbers}]}}}},\"p\":[{ones}]}}"
            ),
        ),
        (
            "remote-contexts.jsonld",
            format!(
                "{{\"@context\":{{\"T\":{{\"@id\":\"http://t\",\"@context\":[{urls}]}}}},\"@type\":[{types}]}}"
            ),
        ),
    ]
}

fn nested() -> Vec<(&'static str, String)> {
    let rdf = |inner: String| {
        format!(
            "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns:a='http://a#'>\
             {inner}</rdf:RDF>"
        )
    };
    let within = |open: &str, middle: &str, close: &str| {
        format!(
            "{}{middle}{}",
            open.repeat(NESTING_DEPTH),
            close.repeat(NESTING_DEPTH)
        )
    };
    let chain = list(NESTING_DEPTH, |n| format!("\"t{n}\":\"t{}:x\"", n + 1));
    vec![
        (
            "chain.jsonld",
            format!("{{\"@context\":{{\"@vocab\":\"http://v/\",{chain}}},\"t0:x\":1}}"),
        ),
        ("deep.jsonld", within("{\"http://p\":", "1", "}")),
        (
            "deep.rdf",
            rdf(within(
                "<rdf:Description><a:p>",
                "",
                "</a:p></rdf:Description>",
            )),
        ),
        (
            "literal.rdf",
            rdf(format!(
                "<rdf:Description><a:p rdf:parseType='Literal'>{}</a:p></rdf:Description>",
                "<a:b/>".repeat(1_300_000)
            )),
        ),
        (
            "deep.ttl",
            format!(
                "<http://a> <http://b> {} .",
                within("[ <http://p> ", "1", "]")
            ),
        ),
        (
            "bases.ttl",
            format!(
                "@base <http://x/> .\n{}<a> <b> <c> .\n",
                "@base <bbbbbbbb/> .\n".repeat(60_000)
            ),
        ),
        (
            "deep.owx",
            format!(
                "<?xml version='1.0'?><Ontology xmlns='http://www.w3.org/2002/07/owl#'>{}</Ontology>",
                within("<ObjectIntersectionOf>", "", "</ObjectIntersectionOf>")
            ),
        ),
    ]
}
