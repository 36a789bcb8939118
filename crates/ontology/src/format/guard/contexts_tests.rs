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

/// A context whose terms each refer to the next, as `definition` does it.
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
