//! The LaTeX that occurs in the fields of BibTeX: escaped characters, accents, links.

/// Accent commands, and the letters that result from them.
const ACCENTS: [(char, &str, &str); 11] = [
    ('"', "aeiouyAEIOU", "äëïöüÿÄËÏÖÜ"),
    ('\'', "aeiouycnszAEIOUYCNSZ", "áéíóúýćńśźÁÉÍÓÚÝĆŃŚŹ"),
    ('`', "aeiouAEIOU", "àèìòùÀÈÌÒÙ"),
    ('^', "aeiouAEIOU", "âêîôûÂÊÎÔÛ"),
    ('~', "anoANO", "ãñõÃÑÕ"),
    ('=', "aeiouAEIOU", "āēīōūĀĒĪŌŪ"),
    ('.', "ezEZ", "ėżĖŻ"),
    ('c', "csCST", "çşÇŞŢ"),
    ('v', "cenrszCENRSZ", "čěňřšžČĚŇŘŠŽ"),
    ('u', "agAG", "ăğĂĞ"),
    ('k', "aeAE", "ąęĄĘ"),
];

/// Letters with a command of their own.
const NAMED_LETTERS: [(&str, &str); 12] = [
    ("ss", "ß"),
    ("ae", "æ"),
    ("AE", "Æ"),
    ("oe", "œ"),
    ("OE", "Œ"),
    ("aa", "å"),
    ("AA", "Å"),
    ("o", "ø"),
    ("O", "Ø"),
    ("l", "ł"),
    ("L", "Ł"),
    ("i", "i"),
];

/// Reads a name such as a DOI or a URL. Escapes are resolved, and a surrounding `\url{...}` is
/// removed.
pub(super) fn name(value: &str) -> String {
    let value = value.trim();
    let inner = ["\\url{", "\\href{", "\\doi{", "\\path{"]
        .iter()
        .find_map(|command| value.strip_prefix(command));
    let value = inner
        .and_then(|inner| inner.split('}').next())
        .unwrap_or(value);
    let mut plain = String::with_capacity(value.len());
    let mut rest = value.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('\\', Some(next)) if "_&%#$~{}".contains(*next) => {}
            ('{' | '}', _) => {}
            _ => plain.push(c),
        }
    }
    plain
}

/// Reads a title: accented letters are composed, braces and commands are removed.
pub(super) fn title(value: &str) -> String {
    let mut plain = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\\' => rest = command(rest, &mut plain),
            '{' | '}' | '$' => {}
            '~' => plain.push(' '),
            _ => plain.push(c),
        }
    }
    plain.replace("---", "\u{2014}").replace("--", "\u{2013}")
}

/// Reads the command after a backslash into `plain`, and returns the rest.
fn command<'a>(rest: &'a str, plain: &mut String) -> &'a str {
    let Some(first) = rest.chars().next() else {
        return rest;
    };
    let behind = &rest[first.len_utf8()..];
    if let Some((_, letters, made)) = ACCENTS.iter().find(|(accent, ..)| *accent == first) {
        // A letter is an accent command only before a brace or a blank: `\v{c}`, but `\varphi`.
        let is_accent = !first.is_ascii_alphabetic() || behind.starts_with(['{', ' ']);
        let letter = behind.trim_start_matches(['{', ' ', '\\']).chars().next();
        if let (true, Some(letter)) = (is_accent, letter)
            && let Some(place) = letters.chars().position(|known| known == letter)
        {
            plain.extend(made.chars().nth(place));
            let end = behind.find(letter).map_or(0, |at| at + letter.len_utf8());
            return behind[end..]
                .strip_prefix('}')
                .filter(|_| behind.starts_with('{'))
                .unwrap_or(&behind[end..]);
        }
    }
    if !first.is_ascii_alphabetic() {
        plain.push(first);
        return behind;
    }
    let end = rest
        .find(|c: char| !c.is_ascii_alphabetic())
        .unwrap_or(rest.len());
    if let Some((_, letter)) = NAMED_LETTERS.iter().find(|(name, _)| *name == &rest[..end]) {
        plain.push_str(letter);
    }
    // The blank after a command ends the command and is not text.
    rest[end..]
        .strip_prefix(' ')
        .filter(|_| NAMED_LETTERS.iter().any(|(name, _)| *name == &rest[..end]))
        .unwrap_or(&rest[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_titles_are_read_as_they_are_meant() {
        assert_eq!(
            name(r"10.1007/978-3-030-12345-6\_1"),
            "10.1007/978-3-030-12345-6_1"
        );
        assert_eq!(
            name(r"\url{https://doi.org/10.1234/a7}"),
            "https://doi.org/10.1234/a7"
        );
        assert_eq!(
            title(r#"{\"U}ber {DNA} \& \'Etude, Garc{\'\i}a, \v{C}ern\'y, Stra{\ss}e"#),
            "Über DNA & Étude, García, Černý, Straße"
        );
        assert_eq!(
            title(r#"\emph{In vitro} growth --- $\alpha$-decay of M\o ller \"{o}"#),
            "In vitro growth \u{2014} -decay of Møller ö"
        );
        for odd in ["\\", "\\\"", "\\'{", "{\\v", "\\c{", "\u{301}\\'"] {
            let _ = (name(odd), title(odd));
        }
    }
}
