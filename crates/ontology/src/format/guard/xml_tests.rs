use super::*;
use std::sync::Arc;

const HEAD: &str = "<rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\">";

/// Returns the output of the guard for reads of `step` bytes, or the problem if it refuses.
fn pass(text: &str, step: usize) -> Result<String, FormatProblem> {
    let watch = SharedWatch::default();
    let mut guard = XmlGuard::new(text.as_bytes(), FormatLimits::default(), Arc::clone(&watch));
    let mut out = Vec::new();
    let mut buffer = vec![0; step];
    loop {
        match guard.read(&mut buffer) {
            Ok(0) => return Ok(String::from_utf8(out).unwrap()),
            Ok(read) => out.extend_from_slice(&buffer[..read]),
            Err(_) => return Err(watch.lock().failure.take().unwrap()),
        }
    }
}

fn refusal(text: &str) -> String {
    let whole = pass(text, 8192).unwrap_err();
    assert_eq!(pass(text, 1).unwrap_err().message, whole.message);
    whole.to_string()
}

#[test]
fn well_formed_files_pass_as_they_are() {
    for body in [
        "",
        "text &amp; more",
        "<a b='\"' c=\">\"/>",
        "<!-- <a> -- > --><![CDATA[ <a> ]] > ]]><?x <a> ?>",
        "<a rdf:parseType='Literal'><b><c/></b>x</a>",
    ] {
        let text = format!("<?xml version='1.0'?>\n<!-- c -->\n{HEAD}{body}</rdf:RDF>\n<!-- e -->");
        for step in [1, 2, 3, 7, 8192] {
            assert_eq!(pass(&text, step).as_deref(), Ok(text.as_str()), "{body}");
        }
    }
}

#[test]
fn xml_cut_at_any_byte_is_reported() {
    let text = format!("{HEAD}<a x='1'>t<!-- c --><b/><![CDATA[x]]></a></rdf:RDF>");
    for end in 0..text.len() {
        assert!(pass(&text[..end], 8192).is_err(), "{}", &text[..end]);
    }
    assert!(pass(&text, 8192).is_ok());
    assert_eq!(
        refusal(&format!("{HEAD}\n<a>\n</a>\n")),
        "line 4: the file is cut short: 1 elements are not closed"
    );
}

#[test]
fn what_costs_too_much_is_refused() {
    let deep = format!("{HEAD}{}", "<a>".repeat(5000));
    assert!(refusal(&deep).contains("nested more than 4096 deep"));
    let long = format!("{HEAD}{}", "x".repeat(9 << 20));
    assert!(
        pass(&long, 8192)
            .unwrap_err()
            .message
            .contains("longer than")
    );
    let comment = format!("{HEAD}<!--{}", "x".repeat(9 << 20));
    assert!(
        pass(&comment, 8192)
            .unwrap_err()
            .message
            .contains("longer than")
    );
    let literal = format!(
        "{HEAD}<a rdf:parseType='Literal'>{}",
        "<b>x</b>".repeat(2 << 20)
    );
    assert!(
        pass(&literal, 8192)
            .unwrap_err()
            .message
            .contains("longer than")
    );
    // Each outermost element of a literal repeats the namespaces.
    let namespaces: Vec<_> = (0..400)
        .map(|n| format!(" xmlns:n{n}='http://example.org/{n}'"))
        .collect();
    let literal = format!(
        "{HEAD}<a{} rdf:parseType='Literal'>{}",
        namespaces.concat(),
        "<b/>".repeat(2000)
    );
    assert!(refusal(&literal).contains("longer than"));
    let bases = format!("{HEAD}{}", "<a xml:base='aaaaaaaa/'>".repeat(2000));
    assert!(refusal(&bases).contains("the base of an element"));
    let whole = "<a xml:base='http://example.org/'><b xml:base='c/'/></a>".repeat(2000);
    assert!(pass(&format!("{HEAD}{whole}</rdf:RDF>"), 8192).is_ok());
    let attributes: Vec<_> = (0..2000).map(|n| format!(" a{n}=''")).collect();
    let attributes = attributes.concat();
    assert!(refusal(&format!("{HEAD}<a{attributes}/></rdf:RDF>")).contains("attributes"));
    let second = format!("{HEAD}</rdf:RDF><a/>");
    assert!(refusal(&second).contains("second root"));
}

#[test]
fn entities_may_be_used_often_but_not_without_end() {
    let doctype = |length: usize| format!("<!DOCTYPE r [<!ENTITY e \"{}\">]>", "x".repeat(length));
    let fair = format!(
        "{}{HEAD}{}</rdf:RDF>",
        doctype(30),
        "<a b='&e;c'/>".repeat(10_000)
    );
    assert!(pass(&fair, 8192).is_ok());
    let one_value = format!("{}{HEAD}{}", doctype(60_000), "&e;".repeat(1000));
    assert!(
        pass(&one_value, 8192)
            .unwrap_err()
            .message
            .contains("longer than")
    );
    let spread = format!("{}{HEAD}{}", doctype(60_000), "<a>&e;</a>".repeat(20_000));
    assert!(
        pass(&spread, 8192)
            .unwrap_err()
            .message
            .contains("expand to too much")
    );
}
