use super::*;

fn scan(text: &str, step: usize) -> Result<ContextBudget, String> {
    let mut budget = ContextBudget::default();
    let mut scan = ContextScan::default();
    for chunk in text.as_bytes().chunks(step) {
        scan.pass(chunk, &mut budget)?;
    }
    Ok(budget)
}

fn refusal(text: &str) -> String {
    let whole = scan(text, 8192).unwrap_err();
    assert_eq!(scan(text, 1).unwrap_err(), whole);
    whole
}

/// Returns a context whose terms each refer to the next, in the way that `definition` writes.
fn chain(length: usize, definition: impl Fn(usize) -> String) -> String {
    let terms: Vec<_> = (0..length)
        .map(|n| format!("\"t{n}\": {}", definition(n + 1)))
        .collect();
    format!("{{\"@context\": {{{}}}}}", terms.join(", "))
}

#[test]
fn contexts_are_found_wherever_and_however_they_are_written() {
    for (text, contexts) in [
        (r#"{"a": "@context", "b": {"@context": {}}}"#, 1),
        (
            r#"[{"@context": "http://a"}, {"@context" : [{}, "b", null]}]"#,
            4,
        ),
        (r#"{"\u0040cont\u0065xt": {"a": "b:\"{"}}"#, 1),
        (r#"{"x": "\"@context\": {", "@context": {}}"#, 1),
        (r#"{"@context": {"t": {"@id": "a:b", "@context": {}}}}"#, 2),
    ] {
        for step in [1, 3, 8192] {
            assert_eq!(scan(text, step).unwrap().contexts, contexts, "{text}");
        }
    }
}

#[test]
fn chains_of_every_kind_are_refused() {
    for definition in [
        (|n| format!("\"t{n}:x\"")) as fn(usize) -> String,
        |n| format!("\"t{n}\""),
        |n| format!("{{\"@id\": \"a:b\", \"@type\": \"t{n}\"}}"),
        |n| format!("{{\"@reverse\": \"t{n}:x\"}}"),
        |n| format!("{{\"@id\": \"t{n}:x\"}}"),
        |n| format!("{{\"@id\": \"a:b\", \"@container\": \"@index\", \"@index\": \"t{n}\"}}"),
    ] {
        for length in [40, 10_000] {
            assert!(refusal(&chain(length, definition)).contains("in a chain"));
        }
        assert!(scan(&chain(30, definition), 8192).is_ok());
    }
    let by_names: Vec<_> = (0..40)
        .map(|n| format!("\"{}a\": {{\"@type\": \"@id\"}}", "a:".repeat(n)))
        .collect();
    let by_names = format!("{{\"@context\": {{{}}}}}", by_names.join(","));
    assert!(scan(&by_names, 8192).is_ok(), "each needs only its prefix");
    let circle = r#"{"@context": {"a": "b:x", "b": "a:x"}}"#;
    assert!(refusal(circle).contains("in a circle"));
}

#[test]
fn contexts_that_expand_to_much_are_refused() {
    let long = format!(
        "{{\"@context\": {{\"p\": \"http://{}\", {}}}}}",
        "x".repeat(100 << 10),
        (0..1000)
            .map(|n| format!("\"t{n}\": \"p:a\""))
            .collect::<Vec<_>>()
            .join(",")
    );
    assert!(refusal(&long).contains("expand to more than"));
    let nested = format!(
        "{{\"@context\": {}1{}}}",
        "{\"t\": {\"@id\": \"a:b\", \"@context\": ".repeat(9),
        "}}".repeat(9)
    );
    assert!(refusal(&nested).contains("nested more than 8 deep"));
    for deep in [
        format!(
            "{}1{}",
            "{\"@context\": {}, \"a\": ".repeat(9),
            "}".repeat(9)
        ),
        format!(
            "{}1{}",
            "{\"a\": ".repeat(9),
            ", \"@context\": {}}".repeat(9)
        ),
    ] {
        assert!(refusal(&deep).contains("nested more than 8 deep"), "{deep}");
    }
    let large = chain(5000, |_| "\"http://example.org/\"".to_owned());
    assert!(scan(&large, 8192).is_ok());
    assert!(refusal(&format!("[{large}{}]", ", {\"@context\": {}}".repeat(2000))).contains("many"));
    let nulls = format!(
        "{{\"@context\": {{\"T\": {{\"@id\": \"a:b\", \"@context\": [null{}]}}}}}}",
        ", null".repeat(150_000)
    );
    assert!(scan(&nulls, 8192).is_err());
}

#[test]
fn values_that_copy_a_large_context_each_are_refused() {
    let terms: Vec<_> = (0..2_000).map(|n| format!("\"t{n}\": \"a:b\"")).collect();
    let file = |scoped: &str, values: usize| {
        format!(
            "{{\"@context\": {{{}, \"t\": {{\"@id\": \"a:b\"{scoped}}}}}, \"t\": [1{}]}}",
            terms.join(", "),
            ", 1".repeat(values)
        )
    };
    let many = file(", \"@context\": {}", 300_000);
    assert!(refusal(&many).contains("too many values"));
    assert!(scan(&file(", \"@context\": {}", 10_000), 8192).is_ok());
    assert!(scan(&file("", 300_000), 8192).is_ok());
    let context_last = format!("{{\"x\": [1{}], {}", ", 1".repeat(300_000), &many[1..]);
    assert!(refusal(&context_last).contains("too many values"));
}

#[test]
fn contexts_of_a_list_that_lengthen_a_term_are_refused() {
    let long = format!("{{\"a\": \"a:{}\"}}", "x".repeat(50 << 10));
    let list = format!(
        "{{\"@context\": [{long}{}]}}",
        format!(", {long}").repeat(70)
    );
    assert!(refusal(&list).contains("expand to more than"));
}

#[test]
fn remote_contexts_are_judged_with_those_they_refer_to() {
    let mut budget = ContextBudget::default();
    let refers = |to: &str| format!("{{\"@context\": {to}}}");
    let mut add = |url: &str, text: &str| budget.add_remote(url, text.as_bytes());
    add("http://c/a", &refers("[\"b\", \"http://c/d\", {}]")).unwrap();
    add("http://c/b", &refers("{\"t\": \"http://x\"}")).unwrap();
    let circle = add("http://c/d", &refers("\"a\"")).unwrap_err();
    assert!(circle.contains("circle"));
    let scoped = refers("{\"t\": {\"@id\": \"a:b\", \"@context\": \"http://c/e\"}}");
    assert!(add("http://c/e", &scoped).unwrap_err().contains("a term"));
    let many = refers(&format!("[\"f\"{}]", ", \"f\"".repeat(99)));
    let refused = (0..8).find_map(|n| add(&format!("http://c/many{n}"), &many).err());
    assert!(refused.unwrap().contains("too many contexts"));
}

/// Judges a file that is kept as a whole, by
/// [`ContextBudget::judge_kept`](crate::format::guard::contexts::ContextBudget::judge_kept).
fn judge_kept(text: &str) -> Result<(), String> {
    let mut budget = scan(text, 8192)?;
    budget.judge_kept(&serde_json::from_str(text).unwrap())
}

/// Returns a text of 100 KiB without spaces.
fn long_text() -> String {
    format!("http://a/{}", "A".repeat(100 << 10))
}

#[test]
fn long_names_that_many_values_repeat_are_refused() {
    let long = long_text();
    let ones = vec!["1"; 5_000].join(",");
    let nodes = vec![r#"{"@id":"b:c","http://p":1}"#; 2_000].join(",");
    let properties: Vec<_> = (0..5_000).map(|n| format!("\"p:{n}\":1")).collect();
    let properties = properties.join(",");
    for text in [
        format!(r#"{{"@id":"{long}","http://p":[{ones}]}}"#),
        format!(r#"{{"@context":{{"id":"@id"}},"id":"{long}","http://p":[{ones}]}}"#),
        format!(r#"{{"@context":{{"i":"id","id":"@id"}},"i":"{long}","http://p":[{ones}]}}"#),
        format!(r#"{{"@context":{{"@language":"{long}"}},"http://p":[{ones}]}}"#),
        format!(r#"{{"@context":{{"t":{{"@id":"http://p","@type":"{long}"}}}},"t":[{ones}]}}"#),
        format!(r#"{{"@context":{{"p":"{long}"}},{properties}}}"#),
        format!(r#"{{"@context":{{"@base":"{long}"}},"@graph":[{nodes}]}}"#),
        format!(r#"{{"@id":"{long}","@graph":[{nodes}]}}"#),
        format!(r#"{{"{long}":[{ones}]}}"#),
    ] {
        let why = judge_kept(&text).unwrap_err();
        assert!(why.contains("may repeat names"), "{why}");
    }
    let long_literals = [
        format!(r#"{{"http://p":["{long}",{ones}]}}"#),
        format!(r#"{{"http://p":[{{"@value":"{long}"}},{ones}]}}"#),
        format!(r#"{{"@context":{{"v":"@value"}},"http://p":[{{"v":"{long}"}},{ones}]}}"#),
    ];
    for text in long_literals {
        judge_kept(&text).expect("a literal is the value of one statement");
    }
}

#[test]
fn a_remote_context_that_makes_a_key_an_id_is_judged_with_the_file() {
    let ones = vec!["1"; 5_000].join(",");
    let text = format!(
        r#"{{"@context":"http://c/","id":"{}","http://p":[{ones}]}}"#,
        long_text()
    );
    let mut budget = scan(&text, 8192).unwrap();
    budget
        .judge_kept(&serde_json::from_str(&text).unwrap())
        .expect("nothing is known of the key yet");
    let why = budget.add_remote("http://c/", br#"{"@context":{"id":"@id"}}"#);
    assert!(why.unwrap_err().contains("may repeat names"));
}

#[test]
fn a_list_of_types_with_a_long_prefix_is_refused() {
    let types = vec![r#""p:a""#; 5_000].join(",");
    for (alias, key) in [("", "@type"), (r#""kind":"@type","#, "kind")] {
        let text = format!(
            r#"{{"@context":{{{alias}"p":"{}"}},"{key}":[{types}]}}"#,
            long_text()
        );
        assert!(refusal(&text).contains("may repeat names"));
    }
}

#[test]
fn lists_of_contexts_in_terms_and_values_that_are_none_are_refused() {
    let urls = vec![r#""http://c/""#; 900].join(",");
    let values = vec![r#""T""#; 3_000].join(",");
    let text = format!(
        r#"{{"@context":{{"T":{{"@id":"http://t","@context":[{urls}]}}}},"@type":[{values}]}}"#
    );
    assert!(refusal(&text).contains("lists of contexts"));
    for context in ["1", "[{}, true]", r#"{"T":{"@context":[1]}}"#] {
        let text = format!(r#"{{"a":1,"@context":{context}}}"#);
        let is_found = scan(&text, 1).is_err();
        assert_eq!(is_found, context != "1", "{context}");
    }
}
