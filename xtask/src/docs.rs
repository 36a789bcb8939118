//! The book of `docs/`: `cargo xtask docs` builds the book with mdBook and checks every page that it made.
//!
//! [`words`] checks the links of the Markdown files, which readers of the repository follow. This
//! module checks those of the built pages, whose anchors mdBook makes in its own way.

mod built_page;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::process::{cargo, cargo_with, root, run_command, runs_version, say};
use crate::words;
use built_page::BuiltPage;

/// The version of mdBook that the pages were checked with.
const MDBOOK_VERSION: &str = "0.5.4";

/// The directory of mdBook, from the root of the workspace.
const TOOL_DIRECTORY: &str = "target/tools";

/// The directory of the built book, from the root of the workspace; `docs/book.toml` names it, too.
const BOOK_DIRECTORY: &str = "target/book";

/// Pages of mdBook itself: all chapters at once, the table of contents, and the page for a wrong address.
const TOOL_PAGES: &[&str] = &["print.html", "toc.html", "404.html"];

/// Runs `cargo xtask docs` with its arguments.
pub(crate) fn run(arguments: &[&str]) -> anyhow::Result<()> {
    match arguments {
        [] => build(),
        ["--write"] => write_reference().and_then(|()| build()),
        _ => bail!("cargo xtask docs [--write]"),
    }
}

/// Writes the generated part of the reference of both command lines.
fn write_reference() -> anyhow::Result<()> {
    let arguments = [
        "test",
        "--quiet",
        "--package",
        "docstokg-cli",
        "--lib",
        "command_line_page_is_current",
    ];
    cargo_with(&arguments, &[("DOCSTOKG_WRITE_DOCS", "1")])
}

/// Builds the book and checks its links.
fn build() -> anyhow::Result<()> {
    words::check_links()?;
    let mdbook = need_mdbook()?;
    let root = root()?;
    let book = root.join(BOOK_DIRECTORY);
    run_command(
        std::process::Command::new(mdbook)
            .arg("build")
            .arg(root.join("docs")),
    )?;
    let pages = read_pages(&book)?;
    let problems = link_problems(&pages, |path| book.join(path).is_file());
    if !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    let links: usize = pages.values().map(|page| page.targets.len()).sum();
    say(&format!(
        "{} pages, {links} links: {}",
        pages.len(),
        book.join("index.html").display()
    ));
    Ok(())
}

/// Returns the path of mdBook, and installs the program if its version is missing.
fn need_mdbook() -> anyhow::Result<PathBuf> {
    let directory = root()?.join(TOOL_DIRECTORY);
    let program = directory.join("bin/mdbook");
    let version = format!("mdbook v{MDBOOK_VERSION}");
    if runs_version(&program, &version) {
        return Ok(program);
    }
    say(&format!(
        "xtask: installing mdBook {MDBOOK_VERSION} into {TOOL_DIRECTORY}"
    ));
    let build = directory.join("build");
    cargo(&[
        "install",
        "mdbook",
        "--version",
        MDBOOK_VERSION,
        "--locked",
        "--force",
        "--no-default-features",
        "--features",
        "search",
        "--root",
        &directory.to_string_lossy(),
        "--target-dir",
        &build.to_string_lossy(),
    ])?;
    // Its objects have several hundred megabytes and are not needed again.
    std::fs::remove_dir_all(&build)
        .with_context(|| format!("{} cannot be removed", build.display()))?;
    Ok(program)
}

/// Reads the pages of a built book by their paths.
fn read_pages(book: &Path) -> anyhow::Result<BTreeMap<String, BuiltPage>> {
    let mut pages = BTreeMap::new();
    let mut directories = vec![book.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let path = entry?.path();
            let name = path.strip_prefix(book)?.to_string_lossy().into_owned();
            if path.is_dir() {
                directories.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| extension == "html")
                && !TOOL_PAGES.contains(&name.as_str())
            {
                pages.insert(name, BuiltPage::parse(&std::fs::read_to_string(&path)?));
            }
        }
    }
    Ok(pages)
}

/// Returns the links of pages that lead to no page, no file or no anchor.
fn link_problems(
    pages: &BTreeMap<String, BuiltPage>,
    is_file: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, page) in pages {
        for target in &page.targets {
            if let Some(problem) = target_problem(name, target, pages, &is_file) {
                problems.push(format!("{name}: link to `{target}`: {problem}"));
            }
        }
    }
    problems
}

/// Returns why a link of a page leads nowhere; `None` for a good link.
fn target_problem(
    page: &str,
    target: &str,
    pages: &BTreeMap<String, BuiltPage>,
    is_file: impl Fn(&str) -> bool,
) -> Option<&'static str> {
    let (relative, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = match relative {
        "" => page.to_owned(),
        _ => match words::joined_path(page, relative) {
            Some(path) => path,
            None => return Some("leads out of the book"),
        },
    };
    match pages.get(&path) {
        Some(_) if anchor.is_empty() => None,
        Some(found) => (!found.anchors.contains(anchor)).then_some("there is no such anchor"),
        None => (!is_file(&path)).then_some("there is no such page or file"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(html: &str) -> Vec<String> {
        let other = r##"<h2 id="one"><a class="header" href="#one">One</a></h2>"##;
        let page = |name: &str, text: &str| (name.to_owned(), BuiltPage::parse(text));
        let pages = [page("a/index.html", html), page("a/b/other.html", other)].into();
        link_problems(&pages, |path| path == "book.js")
    }

    #[test]
    fn links_to_pages_files_and_anchors_are_good() {
        let html = r##"<p id="top"><a href="b/other.html#one">x</a> <a href="./b/other.html">x</a>
            <a href="#top">x</a> <script src="../book.js"></script> <a href="https://x.example/#y">x</a>"##;
        assert_eq!(problems(html), [""; 0]);
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let html = r##"<a href="b/other.html#two">x</a><a href="#top">x</a><img src="none.png">
            <a href="../../README.md">x</a>"##;
        let expected = [
            "a/index.html: link to `b/other.html#two`: there is no such anchor",
            "a/index.html: link to `#top`: there is no such anchor",
            "a/index.html: link to `../../README.md`: leads out of the book",
            "a/index.html: link to `none.png`: there is no such page or file",
        ];
        assert_eq!(problems(html), expected);
    }
}
