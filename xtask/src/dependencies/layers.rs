//! The allowed dependencies between crates of the workspace, from the last column of the table in
//! `crates/README.md`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Prefix of the names of all packages of the workspace.
const PREFIX: &str = "docstokg-";
/// The feature of the simulator that only tests may enable.
const TEST_FEATURE: &str = "test-util";

/// Returns the differences between the manifests of the workspace and the table.
pub(super) fn layer_problems(packages: &[Value], readme: &str) -> Vec<String> {
    let allowed = allowed_dependencies(readme);
    let mut problems = Vec::new();
    let mut found = BTreeSet::new();
    for package in packages {
        let Some(name) = crate_name(&package["name"]) else {
            continue;
        };
        found.insert(name);
        let Some(allowed) = allowed.get(name) else {
            problems.push(format!("crates/README.md has no row for {name}"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let is_for_tests = dependency["kind"].as_str() == Some("dev");
            let Some(other) = crate_name(&dependency["name"]).filter(|_| !is_for_tests) else {
                continue;
            };
            if !allowed.contains(other) {
                problems.push(format!(
                    "{name} depends on {other}, which its row in crates/README.md does not allow"
                ));
            }
            let features = dependency["features"].as_array().into_iter().flatten();
            if features.into_iter().any(|feature| feature == TEST_FEATURE) {
                problems.push(format!(
                    "{name} enables {TEST_FEATURE} of {other} outside of its dev-dependencies"
                ));
            }
        }
    }
    let gone = allowed.keys().filter(|name| !found.contains(*name));
    problems.extend(gone.map(|name| format!("crates/README.md has a row for {name}: no crate")));
    problems
}

fn crate_name(name: &Value) -> Option<&str> {
    name.as_str()?.strip_prefix(PREFIX)
}

/// Reads the table: each crate, and its allowed dependencies.
fn allowed_dependencies(readme: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let rows = readme.lines().filter(|line| line.starts_with("| `"));
    rows.filter_map(|row| {
        let mut cells = row.trim_matches('|').split('|');
        let name = cells.next()?.trim().trim_matches('`');
        // Every second part stands between backticks.
        let others = cells.next_back()?.split('`').skip(1).step_by(2);
        Some((name, others.collect()))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TABLE: &str =
        "| crate | may depend on |\n| --- | --- |\n| `hub` | |\n| `cli` | `hub` |\n";

    fn package(name: &str, dependencies: &Value) -> Value {
        json!({ "name": name, "dependencies": dependencies })
    }

    #[test]
    fn dependencies_outside_the_table_are_named_except_those_of_tests() {
        let hub = package(
            "docstokg-hub",
            &json!([{ "name": "docstokg-cli", "kind": "dev", "features": [] }]),
        );
        let on_hub = json!([{ "name": "docstokg-hub", "kind": null, "features": [] }]);
        let cli = package("docstokg-cli", &on_hub);
        let fine = [hub.clone(), cli.clone(), package("serde", &json!([]))];
        assert_eq!(layer_problems(&fine, TABLE), Vec::<String>::new());
        let upward = json!([{ "name": "docstokg-cli", "kind": null, "features": ["test-util"] }]);
        let wrong = [package("docstokg-hub", &upward), cli];
        let problems = layer_problems(&wrong, TABLE);
        assert!(
            matches!(problems.as_slice(), [layer, feature]
                if layer.starts_with("hub depends on cli") && feature.contains("test-util")),
            "{problems:?}"
        );
        let other = [hub, package("docstokg-new", &json!([]))];
        assert_eq!(
            layer_problems(&other, TABLE),
            [
                "crates/README.md has no row for new",
                "crates/README.md has a row for cli: no crate"
            ]
        );
    }
}
