//! Sections of a made-up program: reading, layering, problems, documentation.

#![allow(clippy::expect_used, reason = "a failed expectation is a failed test")]

use docstokg_config::{
    Ceiling, ConfigNode, ConfigProblem, HiddenText, Layers, NamedSections, Naming, UnreadSection,
    ValueSource, both, document, nearest, read_text, section, words,
};

words! {
    /// A kind of tea.
    Tea {
        /// Not fermented.
        Green = "green",
        /// Fermented.
        Black = "black",
    }
}

#[derive(Clone, Debug, Default)]
struct ByGuest;

impl Naming for ByGuest {
    type Name = String;
    const PLACEHOLDER: &'static str = "GUEST";
    const NOUN: &'static str = "guest";

    fn name(text: &str) -> Result<String, String> {
        let name = text.to_lowercase();
        let is_name = name.chars().all(char::is_alphabetic);
        is_name
            .then_some(name)
            .ok_or_else(|| format!("'{text}' is not a name"))
    }
}

section! {
    /// How tea is made.
    TeaSettings {
        /// What it is
        kind: Tea = "black",
        /// How long it steeps, in seconds
        steep_s: f64 = 180 => "180; longer for black tea",
    }
}

section! {
    /// What other crates know.
    Basics {
        /// The most guests
        guests: Ceiling => "none",
        +orders: NamedSections<ByGuest, TeaSettings>,
    }
}

section! {
    /// The whole house.
    House {
        ..basics: Basics,
        /// What the safe opens with
        code: HiddenText => "none",
        @tea: TeaSettings,
        @garden: UnreadSection,
    }
}

fn read(text: &str) -> (House, Vec<String>) {
    let mut problems = Vec::new();
    let node = read_text(text, "house.yaml", &mut problems).expect("YAML");
    let house = document::read(node, &mut problems);
    (house, problems.iter().map(ToString::to_string).collect())
}

#[test]
fn every_problem_has_its_line_its_key_and_the_nearest_word_of_all_sections() {
    let (house, problems) = read(
        "version: 2
guests: -1
gardn: {}
tea: { kind: grene, steep_s: long }
orders:
  Ann: { kind: green }
  ann: {}
  b2: {}
code: [1]
ordrs: {}
",
    );
    assert_eq!(
        problems,
        [
            "house.yaml:1: version: version 2 is not known; this program reads version 1",
            "house.yaml:2: guests: -1 is negative; expected a whole number of zero or more",
            "house.yaml:7: orders.ann: the guest ann is there twice",
            "house.yaml:8: orders.b2: 'b2' is not a name",
            "house.yaml:9: code: expected a text",
            "house.yaml:4: tea.kind: 'grene' is not green or black; did you mean 'green'?",
            "house.yaml:4: tea.steep_s: expected a number, found 'long'",
            "house.yaml:3: gardn: unknown key; did you mean 'garden'?",
            "house.yaml:10: ordrs: unknown key; did you mean 'orders'?",
        ]
    );
    assert_eq!(house.basics.orders.0.len(), 1);
}

#[test]
fn a_section_of_another_program_is_accepted_and_not_read() {
    let (house, problems) = read("garden: { anything: [goes, 1] }\nguests: 0\n");
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(house.basics.guests.map(|set| set.value.0), Some(None));
}

#[test]
fn later_layers_win_key_by_key_and_keep_their_source() {
    let mut layers = Layers::<House>::default();
    layers.add(|_, _| {
        read("tea: { kind: green, steep_s: 90 }\norders: { ann: { kind: green } }\n").0
    });
    layers.add(|below, problems| {
        assert!(below.tea.kind.is_some());
        let source = ValueSource::Flag("--order".into());
        let pairs = ConfigNode::pairs("orders.Ann.steep_s:7", &source, problems);
        document::read(pairs, problems)
    });
    let ((), house) = layers.resolve(|_| Ok(())).expect("no problem");
    let (name, tea) = &house.basics.orders.0[0];
    assert_eq!(name, "ann");
    let source = |set: &ValueSource| set.to_string();
    assert_eq!(
        (
            tea.kind.as_ref().map(|set| source(&set.source)),
            tea.steep_s.as_ref().map(|set| source(&set.source))
        ),
        (Some("house.yaml:2".to_owned()), Some("--order".to_owned()))
    );
}

#[test]
fn a_default_is_the_lowest_layer_and_below_names_it_is_left_out() {
    let (house, _) = read("orders: { ann: { kind: green } }\n");
    let ann = &house.basics.orders.0[0].1;
    assert_eq!(
        (ann.kind().value, ann.steep_s().value.to_string()),
        (Tea::Green, "180".to_owned())
    );

    let mut layers = Layers::<House>::default();
    layers.add(|below, _| {
        let source =
            |set: Option<&docstokg_config::SourcedValue<Tea>>| set.map(|set| set.source.clone());
        assert_eq!(source(below.tea.kind.as_ref()), Some(ValueSource::Default));
        house
    });
    let ((), house) = layers.resolve(|_| Ok(())).expect("no problem");
    assert_eq!(
        document::show(&house).to_string(),
        r#"{"version":1,"orders":{"ann":{"kind":"green"}},"tea":{"kind":"black","steep_s":180.0}}"#
    );
}

#[test]
fn problems_of_layers_and_of_resolving_come_together_by_line() {
    let mut layers = Layers::<House>::default();
    layers.add(|_, problems| {
        let node = read_text("tea:\n  kind: 5\n", "house.yaml", problems).expect("YAML");
        document::read(node, problems)
    });
    let line = |line| ValueSource::File {
        path: "house.yaml".into(),
        line,
    };
    let found = layers.resolve(|_| {
        both::<(), ()>(
            Err(vec![ConfigProblem::new(&ValueSource::Program, "c", "last")]),
            Err(vec![ConfigProblem::new(&line(1), "a", "first")]),
        )
    });
    let text = found.expect_err("problems").to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "house.yaml:1: a: first",
            "house.yaml:2: tea.kind: expected green or black, found 5",
            "program: c: last",
        ]
    );
}

#[test]
fn shown_settings_have_no_secret_and_are_read_again() {
    let (house, _) = read("code: OPEN\ntea: { kind: Black }\n");
    let shown = document::show(&house).to_string();
    assert_eq!(
        shown,
        r#"{"version":1,"orders":{},"code":"***","tea":{"kind":"black"}}"#
    );
    assert!(read(&shown).1.is_empty() && !format!("{house:?}").contains("OPEN"));
}

#[test]
fn schema_and_key_list_have_every_key() {
    let keys = document::keys::<House>();
    let paths: Vec<&str> = keys.iter().map(|key| key.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "version",
            "guests",
            "orders.GUEST.kind",
            "orders.GUEST.steep_s",
            "code",
            "tea.kind",
            "tea.steep_s"
        ]
    );
    let list = document::markdown(&keys);
    assert!(list.contains("### `orders.GUEST`\n\n- `kind`: word (default: black). What it is\n"));
    assert!(list.contains("### `tea`\n\nThe same keys as `orders.GUEST`.\n"));
    assert!(list.contains("- `guests`: whole number, or null (default: none). The most guests\n"));
    assert!(list.contains("default: 180; longer for black tea)"));
    let schema = document::schema::<House>("a house");
    assert_eq!(
        schema["properties"]["orders"]["additionalProperties"]["properties"]["kind"]["enum"][0],
        "green"
    );
    assert_eq!(
        schema["properties"]["guests"]["description"],
        "The most guests"
    );
    assert_eq!(schema["additionalProperties"], false);
}

#[test]
fn a_word_that_is_far_from_all_suggests_none() {
    assert_eq!(
        nearest("attemps", ["attempts", "ceiling"]).as_deref(),
        Some("attempts")
    );
    assert_eq!(nearest("zzzzzz", ["attempts", "ceiling"]), None);
}

#[test]
fn deep_nesting_is_a_problem_and_takes_little_stack() {
    for depth in [17, 60, 100, 10_000] {
        for (open, close) in [("[", "]"), ("{a: ", "}")] {
            let text = format!("tea: {}1{}\n", open.repeat(depth), close.repeat(depth));
            let mut problems = Vec::new();
            let read = read_text(&text, "house.yaml", &mut problems);
            assert!(read.is_none(), "{depth} of {open}: {problems:?}");
            assert_eq!(
                problems[0].to_string(),
                "house.yaml:1: it is nested more than 16 levels deep"
            );
        }
    }
}

#[test]
fn nesting_and_chains_of_every_form_end_with_a_result() {
    let depth = 100_000;
    let anchors: Vec<_> = (1..20_000)
        .map(|n| format!("a{n}: &a{n} [*a{}]\n", n - 1))
        .collect();
    for text in [
        "- ".repeat(depth),
        "? ".repeat(depth),
        "a: ".repeat(depth),
        "&a ".repeat(depth),
        "!t ".repeat(depth),
        "[".repeat(depth),
        "{a: ".repeat(depth),
        format!("{}{}", "[".repeat(depth), "]".repeat(depth)),
        format!("a0: &a0 1\n{}", anchors.concat()),
    ] {
        let mut problems = Vec::new();
        let read = read_text(&text, "house.yaml", &mut problems);
        let start = text.get(..12);
        assert!(read.is_some() || !problems.is_empty(), "{start:?}");
    }
}
