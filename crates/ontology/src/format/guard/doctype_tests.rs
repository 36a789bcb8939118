use super::*;

fn prolog_of(text: &str) -> Prolog {
    match scan(text.as_bytes(), &FormatLimits::default()) {
        ScannedProlog::Complete(prolog) => prolog,
        other => panic!("{text}: {other:?}"),
    }
}

fn refusal_of(text: &str) -> String {
    match scan(text.as_bytes(), &FormatLimits::default()) {
        ScannedProlog::Refused(_, reason) => reason,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn entities_are_expanded_where_they_are_declared() {
    let prolog = prolog_of(
        "<?xml version='1.0'?>\n<!DOCTYPE rdf:RDF [\n<!ENTITY a 'x&b;&#65;'>\n\
         <!-- > ] --><!ENTITY b \"y>&lt;\"><!ELEMENT q (#PCDATA)>\n]>\n<rdf:RDF/>",
    );
    let text = String::from_utf8(prolog.replacement.clone()).unwrap();
    assert_eq!(
        text,
        "<!DOCTYPE x [<!ENTITY a \"xy&gt;&lt;A\"><!ENTITY b \"y&gt;&lt;\">]\n\n\n>"
    );
    assert_eq!(prolog.entities["a"], 5);
    assert!(prolog.warnings.is_empty());
}

#[test]
fn what_lies_outside_or_holds_markup_is_not_available() {
    let prolog = prolog_of(
        "<!DOCTYPE r PUBLIC \"-//x[>//\" 'http://x/y' [<!ENTITY a SYSTEM \"file:///etc/passwd\">\
         <!ENTITY b \"<i/>\"><!ENTITY c \"&a;\"><!ENTITY % p SYSTEM 'q'> %p; ]><r/>",
    );
    assert!(prolog.entities.is_empty());
    assert_eq!(prolog.warnings.len(), 4, "{:?}", prolog.warnings);
    assert!(prolog.warnings[1].contains("entity a lies outside the file"));
}

#[test]
fn bombs_and_cycles_are_refused() {
    let mut bomb = String::from("<!DOCTYPE r [<!ENTITY a0 \"0123456789\">");
    for level in 1..12 {
        let value = format!("&a{};", level - 1).repeat(10);
        bomb.push_str(&format!("<!ENTITY a{level} \"{value}\">"));
    }
    bomb.push_str("]><r/>");
    assert!(refusal_of(&bomb).contains("expands to more than"));
    let cycle = "<!DOCTYPE r [<!ENTITY a \"&b;\"><!ENTITY b \"&a;\">]><r/>";
    assert!(refusal_of(cycle).contains("refers to itself"));
}

#[test]
fn every_prefix_of_a_prolog_is_incomplete() {
    let text = "<?xml version='1.0'?><!-- c --><!DOCTYPE r [<!ENTITY a '>]'>]><r/>";
    let root = text.find("<r/>").unwrap();
    for end in 1..=root {
        let scanned = scan(&text.as_bytes()[..end], &FormatLimits::default());
        let at_a_boundary = matches!(end, 1 | 21 | 31) || end == root;
        assert!(
            scanned == ScannedProlog::Incomplete
                || matches!(&scanned, ScannedProlog::Complete(p) if p.root_at == end)
                || at_a_boundary,
            "{end}: {scanned:?}"
        );
    }
}
