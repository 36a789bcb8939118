//! Resolution of the sections `sites`, `retry`, `transport` and `identity`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use docstokg_config::{ByName, ConfigProblem, NamedSections, SourcedValue};
use docstokg_policy::host::Host;
use docstokg_policy::retry::RetryPolicy;

use super::limits::budget;
use super::seconds;
use crate::config::settings::{IdentitySettings, RetrySettings, SiteSettings, TransportSettings};
use crate::config::{IdentityConfig, SiteConfig, TransportConfig};

pub(super) fn sites(
    written: &NamedSections<ByName, SiteSettings>,
    problems: &mut Vec<ConfigProblem>,
) -> Vec<SiteConfig> {
    let mut owner: HashMap<Host, String> = HashMap::new();
    let mut sites = Vec::new();
    for (name, site) in written {
        let Some(hosts) = &site.hosts else { continue };
        for host in &hosts.value.0 {
            if let Some(other) = owner.insert(host.clone(), name.clone()) {
                let message =
                    format!("{host} belongs to the site {other} already; a host has one site");
                let key = format!("sites.{name}.hosts");
                problems.push(ConfigProblem::new(&hosts.source, key, message));
            }
        }
        let common = (site.common.rates.is_some() || site.common.max_concurrent.is_some())
            .then(|| budget(&site.common));
        sites.push(SiteConfig {
            name: Arc::from(name.as_str()),
            hosts: hosts.value.0.clone(),
            common,
        });
    }
    sites
}

pub(super) fn retry(written: &RetrySettings) -> RetryPolicy {
    RetryPolicy {
        attempts: written.attempts().value,
        transient_base: Duration::from_millis(written.transient_base_ms().value),
        throttled_base: Duration::from_millis(written.throttled_base_ms().value),
        ceiling: Duration::from_millis(written.ceiling_ms().value),
    }
}

pub(super) fn transport(
    written: &TransportSettings,
    problems: &mut Vec<ConfigProblem>,
) -> TransportConfig {
    let deadline = seconds(&written.deadline_s(), "transport.deadline_s", problems);
    let mut length = |set: SourcedValue<f64>, name: &str| {
        let key = format!("transport.{name}");
        if set.value == 0.0 {
            let message = "0 is too small; expected more than 0";
            problems.push(ConfigProblem::new(&set.source, key.as_str(), message));
        }
        seconds(&set, &key, problems)
    };
    TransportConfig {
        connect_timeout: length(written.connect_timeout_s(), "connect_timeout_s"),
        header_timeout: length(written.header_timeout_s(), "header_timeout_s"),
        idle_timeout: length(written.idle_timeout_s(), "idle_timeout_s"),
        min_throughput: written.min_throughput_bytes_s().value,
        throughput_window: length(written.throughput_window_s(), "throughput_window_s"),
        consumer_timeout: length(written.consumer_timeout_s(), "consumer_timeout_s"),
        max_body: written.max_body_bytes().value,
        max_file: written.max_file_bytes().value,
        max_decode_ratio: u64::from(written.max_decode_ratio().value.get()),
        max_redirects: written.max_redirects().value,
        allow_downgrade: written.allow_downgrade().value,
        allow_internal: written.allow_internal().value,
        deadline: (!deadline.is_zero()).then_some(deadline),
        durability: written.durability().value,
    }
}

pub(super) fn identity(
    written: &IdentitySettings,
    problems: &mut Vec<ConfigProblem>,
) -> IdentityConfig {
    let mut text =
        |set: &Option<SourcedValue<String>>, key: &str, is_right: fn(&str) -> bool, form: &str| {
            let set = set.as_ref()?;
            if !is_right(&set.value) {
                let message = format!("'{}' is not {form}", set.value);
                problems.push(ConfigProblem::new(
                    &set.source,
                    format!("identity.{key}"),
                    message,
                ));
            }
            Some(set.value.clone())
        };
    IdentityConfig {
        mailto: text(
            &written.mailto,
            "mailto",
            is_email_address,
            "an e-mail address",
        ),
        url: text(&written.url, "url", is_page, "an http or https URL"),
        contact: written.contact().value,
    }
}

/// Returns whether a text is an e-mail address that fits into a header and a query.
#[must_use]
pub fn is_email_address(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_graphic() && !"();<>,".contains(c);
    text.chars().all(is_plain)
        && text.split_once('@').is_some_and(|(user, host)| {
            !user.is_empty()
                && host.contains('.')
                && !host.contains('@')
                && !host.starts_with('.')
                && !host.ends_with('.')
        })
}

/// Returns whether a text is the URL of a page that fits into the `User-Agent`.
fn is_page(text: &str) -> bool {
    (text.starts_with("https://") || text.starts_with("http://"))
        && text
            .chars()
            .all(|c| c.is_ascii() && !c.is_ascii_control() && !matches!(c, '(' | ')' | ';'))
}
