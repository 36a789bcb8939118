//! The messages at the start of a download.

use std::sync::Arc;

use docstokg_content::resolver::order::ResolverChoice;
use docstokg_content::resolver::settings::Settings;
use docstokg_hub::config::Config;

use crate::arguments::GlobalArguments;
use crate::commands::limits;
use crate::{output, services, state};

/// Prints the limits in force, and the flags and sources that have no effect.
pub(super) fn introduce(
    global: &GlobalArguments,
    config: &Config,
    services: &Arc<Settings>,
    choice: &ResolverChoice,
) {
    if global.deadline.is_some() {
        output::tell(
            "docstokg: --deadline bounds single requests of fetch, not a download; \
             --item-deadline SECONDS bounds each work",
        );
    }
    if !global.quiet {
        announce(global, config);
        for line in services::unavailable(services, choice) {
            output::tell(&format!("docstokg: {line}"));
        }
    }
}

/// Prints the limits in force. Once per state directory, also prints that no contact address is
/// configured.
fn announce(global: &GlobalArguments, config: &Config) {
    if global.verbose {
        limits::announce(config, None);
    } else {
        output::tell(&limits::one_line(config));
    }
    if config.identity.mailto.is_none()
        && config.identity.url.is_none()
        && state::mark_first_time(global, "contact-notice")
    {
        output::tell(
            "docstokg: no contact address is configured; operators can reach you with \
             --mailto you@example.org (identity.mailto)",
        );
    }
}
