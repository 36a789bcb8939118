//! Ontologies in every format that are nested to a given depth, or have a chain of a given length.

/// Returns a JSON-LD context with `length` terms. `definition` gets the number of the next term,
/// and returns the definition of the current term, which can then refer to the next.
fn chain(length: usize, definition: impl Fn(usize) -> String) -> String {
    let terms: Vec<_> = (0..length)
        .map(|n| format!("\"t{n}\":{}", definition(n + 1)))
        .collect();
    format!(
        "{{\"@context\":{{\"@vocab\":\"http://v/\",{}}},\"@id\":\"http://a\",\"t0:x\":1}}",
        terms.join(",")
    )
}

/// Creates JSON-LD contexts in which each term refers to the next, in every possible way.
#[must_use]
pub fn term_chains(length: usize) -> Vec<String> {
    let definitions: [fn(usize) -> String; 6] = [
        |n| format!("\"t{n}\""),
        |n| format!("\"t{n}:x\""),
        |n| format!("{{\"@id\":\"t{n}:x\"}}"),
        |n| format!("{{\"@id\":\"http://v/\",\"@type\":\"t{n}\"}}"),
        |n| format!("{{\"@reverse\":\"t{n}\"}}"),
        |n| format!("{{\"@id\":\"http://v/\",\"@container\":\"@index\",\"@index\":\"t{n}\"}}"),
    ];
    definitions
        .map(|definition| chain(length, definition))
        .into()
}

/// Returns `1` within `depth` pairs of the brackets `open` and `close`.
#[must_use]
pub fn nested(open: &str, close: &str, depth: usize) -> String {
    format!("{}1{}", open.repeat(depth), close.repeat(depth))
}

fn in_rdf(body: &str) -> String {
    format!(
        "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns:a='http://a#'>\
         {body}</rdf:RDF>"
    )
}

/// Creates ontologies that are nested to a depth, or have chains of this length: the name of each
/// file, and its text.
#[must_use]
pub fn deep_ontologies(depth: usize) -> Vec<(String, String)> {
    let nested = |open: &str, close: &str| nested(open, close, depth);
    let node = |open: &str, close: &str| in_rdf(&nested(open, close));
    let line = "<http://a> <http://b> ".to_owned();
    let mut all = vec![
        ("jsonld", nested("[", "]")),
        ("jsonld", nested("{\"@graph\":", "}")),
        ("jsonld", nested("{\"@context\":", "}")),
        ("jsonld", nested("{\"@context\":{},\"http://a/\":", "}")),
        (
            "jsonld",
            nested(
                "{\"@context\":{\"t\":{\"@id\":\"http://a\",\"@context\":",
                "}}}",
            ),
        ),
        ("json", nested("[", "]")),
        (
            "json",
            format!("{{\"graphs\":[{{\"meta\":{}}}]}}", nested("{\"a\":", "}")),
        ),
        (
            "rdf",
            node("<rdf:Description><a:p>", "</a:p></rdf:Description>"),
        ),
        ("rdf", node("<a:b rdf:parseType='Literal'>", "</a:b>")),
        ("rdf", node("<a:b xml:base='x/'>", "</a:b>")),
        ("owx", nested("<Ontology>", "</Ontology>")),
        ("ttl", format!("{line}{} .", nested("[ <http://p> ", "]"))),
        ("ttl", format!("{line}{} .", nested("(", ")"))),
        ("ttl", "@base <x/> .\n".repeat(depth)),
        ("trig", format!("<http://g> {}", nested("{", "}"))),
        ("nt", format!("{} {line}", nested("<< ", ">>"))),
        ("nq", format!("{} {line}", nested("<<(", ")>>"))),
        (
            "obo",
            format!(
                "format-version: 1.2\n\n[Term]\nid: A:1\nname: {}\n",
                nested("{", "}")
            ),
        ),
        (
            "obo",
            format!(
                "format-version: 1.2\n\n[Term]\nid: A:1\ndef: {}\n",
                nested("\"[", "]")
            ),
        ),
    ];
    all.extend(term_chains(depth).into_iter().map(|text| ("jsonld", text)));
    let stanzas: Vec<_> = (0..depth)
        .map(|n| format!("[Term]\nid: A:{n}\nis_a: A:{}\n\n", n + 1))
        .collect();
    let stanzas = stanzas.concat();
    all.push((
        "obo",
        format!("format-version: 1.2\nontology: a\n\n{stanzas}"),
    ));
    let named = all.into_iter().enumerate();
    let named = named.map(|(number, (ending, text))| (format!("deep{number}.{ending}"), text));
    named.collect()
}
