//! stdout is data, stderr is for people. A closed pipe ends the output, not the program's good manners.

use std::io::Write;

use serde_json::Value;

/// Writes data to stdout.
pub(crate) fn data(bytes: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    // Whoever closed the pipe has seen enough.
    let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
}

/// Writes a line to stdout.
pub(crate) fn line(text: &str) {
    data(format!("{text}\n").as_bytes());
}

/// Writes JSON to stdout, one object.
pub(crate) fn json(value: &Value) {
    line(&format!("{value:#}"));
}

/// Writes a line for a person to stderr.
pub(crate) fn tell(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Writes what went wrong.
pub(crate) fn complain(message: &str) {
    tell(&format!("docstokg: {message}"));
}

/// Writes what could be done about it.
pub(crate) fn hint(message: &str) {
    tell(&format!("hint: {message}"));
}

/// Lays out rows in columns, two spaces apart.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let widths: Vec<usize> =
        (0..header.len()).map(|column| rows.iter().map(|row| row[column].chars().count()).chain([header[column].len()]).max().unwrap_or(0)).collect();
    let lay = |cells: Vec<&str>| {
        let padded: Vec<String> = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        padded.join("  ").trim_end().to_owned()
    };
    let mut lines = vec![lay(header.to_vec())];
    lines.extend(rows.iter().map(|row| lay(row.iter().map(String::as_str).collect())));
    lines.join("\n")
}

/// Rounds a time up to whole milliseconds.
pub(crate) fn millis(length: std::time::Duration) -> u64 {
    u64::try_from(length.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}
