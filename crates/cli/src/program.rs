//! The running program: its name in messages, and the word for its items.

use std::sync::OnceLock;

/// A program.
#[derive(Debug)]
pub(crate) struct Program {
    /// The name of the program.
    pub(crate) name: &'static str,
    /// The word for an item, in singular and plural.
    items: [&'static str; 2],
}

const DOCSTOKG: Program = Program {
    name: "docstokg",
    items: ["work", "works"],
};

const ONTOFETCH: Program = Program {
    name: "ontofetch",
    items: ["ontology", "ontologies"],
};

static RUNNING_PROGRAM: OnceLock<&'static Program> = OnceLock::new();

/// Makes `ontofetch` the running program.
pub(crate) fn run_as_ontofetch() {
    let _ = RUNNING_PROGRAM.set(&ONTOFETCH);
}

/// Tells whether `ontofetch` runs.
pub(crate) fn runs_ontofetch() -> bool {
    running().name == ONTOFETCH.name
}

/// Returns the program that runs.
pub(crate) fn running() -> &'static Program {
    RUNNING_PROGRAM.get_or_init(|| &DOCSTOKG)
}

impl Program {
    /// Formats a count of items: `1 work`, `2 works`.
    pub(crate) fn count(&self, number: u64) -> String {
        let [one, many] = self.items;
        format!("{number} {}", if number == 1 { one } else { many })
    }

    /// Returns the word for several items.
    pub(crate) const fn items(&self) -> &'static str {
        self.items[1]
    }
}
