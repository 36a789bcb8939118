//! HTML pages for people: one document with one style sheet, without external resources.
//!
//! Pages have a light and a dark scheme, and are readable on a phone. Pages are written with
//! `maud`, which escapes all text.

use maud::{DOCTYPE, Markup, PreEscaped, Render, html};

const PAGE_STYLE: &str = include_str!("html/page.css");

/// Writes a page. Control characters except line breaks and tabs become U+FFFD, because they would
/// control a terminal that prints the page.
#[must_use]
pub fn document(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(PAGE_STYLE)) }
            }
            body { main { (body) } }
        }
    };
    let is_unsafe = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    page.into_string().replace(is_unsafe, "\u{fffd}") + "\n"
}

/// Writes a card: a figure with its name, and a note unless `note` is empty. The class `good` or
/// `bad` colours the figure.
pub fn card(class: &str, name: &str, figure: impl Render, note: &str) -> Markup {
    html! {
        div class={ "card " (class) } {
            span { (name) }
            strong { (figure) }
            @if !note.is_empty() { small { (note) } }
        }
    }
}

/// The layout of a table on a narrow screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableLayout {
    /// For many columns: the table is scrolled sideways.
    Wide,
    /// For columns of text: the cells of a row are shown one below the other.
    Stacked,
}

/// Writes a table around its rows, in a [`TableLayout`].
#[must_use]
pub fn table(layout: TableLayout, columns: &[&str], rows: &Markup) -> Markup {
    let class = match layout {
        TableLayout::Wide => "wide",
        TableLayout::Stacked => "stacked",
    };
    html! {
        div class=(class) {
            table {
                thead { tr { @for name in columns { th scope="col" { (name) } } } }
                tbody { (rows) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_neither_ends_an_attribute_nor_steers_a_terminal() {
        let text = "<a href='x' title=\"y\">&\u{1b}[2J\u{9b}31m\u{0}\u{7f}\r\n\té";
        let page = document(text, &html! { i title=(text) { (text) } });
        let shown = "&lt;a href='x' title=&quot;y&quot;&gt;&amp;\
                     \u{fffd}[2J\u{fffd}31m\u{fffd}\u{fffd}\u{fffd}\n\té";
        assert!(page.contains(&format!("<title>{shown}</title>")), "{page}");
        assert!(
            page.contains(&format!("<i title=\"{shown}\">{shown}</i>")),
            "{page}"
        );
    }
}
