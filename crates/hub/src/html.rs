//! Text in HTML pages that are shown to people: it stays text, whatever it says.

/// Escapes text for HTML, within elements and quoted attributes. Control characters other than
/// line breaks and tabs become U+FFFD: they would steer a terminal that shows the page.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(letter),
            letter if letter.is_control() => safe.push(char::REPLACEMENT_CHARACTER),
            letter => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_neither_ends_an_attribute_nor_steers_a_terminal() {
        assert_eq!(
            escape("<a href='x' title=\"y\">&\u{1b}[2J\u{9b}31m\u{0}\u{7f}\r\n\té"),
            "&lt;a href=&#39;x&#39; title=&quot;y&quot;&gt;&amp;\
             \u{fffd}[2J\u{fffd}31m\u{fffd}\u{fffd}\u{fffd}\n\té"
        );
    }
}
