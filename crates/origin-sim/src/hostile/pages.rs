//! Web pages that are expensive to parse into a tree.

/// Repeats `text` as often as fits into `size` bytes.
fn filled(text: &str, size: usize) -> String {
    text.repeat(size / text.len())
}

fn numbered(count: usize, size: usize, text: impl Fn(usize) -> String) -> String {
    let mut page = String::new();
    for number in 0..count {
        if page.len() >= size {
            break;
        }
        page.push_str(&text(number));
    }
    page.truncate(size);
    page
}

/// Creates web pages that are expensive to parse, each of about `size` bytes, with the name of its
/// fault.
#[must_use]
pub fn pages(size: usize) -> Vec<(&'static str, String)> {
    vec![
        ("nested", filled("<div>", size)),
        ("nested and closed wrongly", filled("<div></p>", size)),
        (
            "unclosed formatting",
            numbered(150_000, size, |n| format!("<font color={n}><p>")),
        ),
        ("misnested formatting", filled("<b><p></b>", size)),
        (
            "attributes",
            format!("<p {}>", numbered(200_000, size, |n| format!("a{n}=1 "))),
        ),
        ("tables in tables", filled("<table><tr><td>", size)),
        ("text in tables", filled("<table>x", size)),
        (
            "anchors",
            numbered(60_000, size, |n| format!("<a href=/{n}.pdf>PDF</a>")),
        ),
        ("anchors in anchors", filled("<a href=/x.pdf>", size)),
        (
            "buttons around text",
            format!("{}{}", "<button>".repeat(380), filled("text ", size)),
        ),
        (
            "headings around text",
            format!("{}{}", "<h1><div>".repeat(180), filled("text ", size)),
        ),
        ("lists", filled("<ul><li>", size)),
        ("foreign", filled("<svg><g>", size)),
        ("templates", filled("<template>", size)),
        ("frames", filled("<select><option>", size)),
        ("entities", filled("&amp;&#x41;&notin;", size)),
        (
            "metas",
            numbered(40_000, size, |n| {
                format!("<meta name=citation_reference content=\"{n} 10.5555/{n}\">")
            }),
        ),
        ("comments", filled("<!--", size)),
        ("quotes", filled("<p a=\"", size)),
        ("angles", filled("<", size)),
        ("nul", filled("\0<b>", size)),
        ("paragraphs", filled("<p>", size)),
        ("breaks and letters", filled("<br>x", size)),
        ("elements of a letter", filled("<i>x</i>", size)),
        ("small comments", filled("<!---->", size)),
        ("rows", format!("<table>{}", filled("<tr><td>", size))),
        (
            "elements of many attributes",
            numbered(100_000, size, |n| {
                format!("<p a b c d e f g h i j k l m n o p q r s t{n}>")
            }),
        ),
        ("characters that are replaced", filled("\u{1}&#0;", size)),
    ]
}
