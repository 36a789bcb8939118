//! The script that runs an operation on the server, joined from its files.

/// The version of what the script writes.
pub(super) const LAYOUT: u32 = 3;

const FILES: &str = concat!(
    include_str!("script/opening.lua"),
    include_str!("script/history.lua"),
    include_str!("script/budget.lua"),
    include_str!("script/limits.lua"),
    include_str!("script/kinds.lua"),
    include_str!("script/breaker.lua"),
    include_str!("script/site.lua"),
    include_str!("script/steps.lua"),
);

/// Returns the text of the script.
pub(super) fn text() -> String {
    format!("local LAYOUT = {LAYOUT}\n{FILES}")
}
