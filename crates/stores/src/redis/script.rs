//! The script that appends to the record of a site on the server.

/// The version of the records that the script writes.
pub(super) const SCRIPT_LAYOUT_VERSION: u8 = 4;
/// The length of the header of a record in bytes: layout, creation, version of the program, dropped
/// length, beginning of the log.
pub(super) const HEADER: usize = 1 + 8 + 8 + 8 + 4;

/// Returns the text of the script.
pub(super) fn text() -> String {
    let body = include_str!("script/append.lua");
    format!("local LAYOUT, HEADER = {SCRIPT_LAYOUT_VERSION}, {HEADER}\n{body}")
}
