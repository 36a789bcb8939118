//! The permissions of a site for robots: robots.txt of RFC 9309.
//!
//! The module is pure. The caller fetches the file, keeps it for up to a day, and applies the
//! rules. The parser accepts deviations that crawlers have always accepted: byte order marks, stray
//! spaces, any line end. At least the 500 KiB that section 2.5 requires are parsed. `Crawl-delay`
//! is not part of the RFC, but sites rely on it.

use std::time::Duration;

use http::StatusCode;

mod line;
mod pattern;

use line::RobotsLine;
use pattern::Pattern;

/// The number of bytes of a file that are parsed (RFC 9309 section 2.5 requires at least 500 KiB).
pub const LIMIT_BYTES: usize = 512 * 1024;

/// The longest accepted crawl delay in seconds.
const MAX_CRAWL_DELAY_S: f64 = 86_400.0;

/// The rules of one site.
#[derive(Clone, Debug, Default)]
pub struct Robots {
    groups: Vec<Group>,
}

/// The rules for some robots.
#[derive(Clone, Debug, Default)]
struct Group {
    /// Product tokens in lower case; `*` for every robot.
    agents: Vec<String>,
    rules: Vec<PathRule>,
    /// The delays, each with the number of agents that were named above it.
    delays: Vec<(usize, Duration)>,
}

impl Group {
    /// Returns the delay for an agent.
    fn delay(&self, agent: &str) -> Option<Duration> {
        let index = self.agents.iter().position(|known| known == agent)?;
        self.delays
            .iter()
            .filter(|(agents, _)| index < *agents)
            .map(|(_, delay)| *delay)
            .max()
    }
}

#[derive(Clone, Debug)]
struct PathRule {
    allow: bool,
    pattern: Pattern,
}

impl Robots {
    /// Parses a file. Unknown lines are skipped (RFC 9309 section 2.2.4).
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        let bytes = &bytes[..bytes.len().min(LIMIT_BYTES)];
        let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
        let mut groups: Vec<Group> = Vec::new();
        // Several user-agent lines in a row share the following rules; the first rule ends the row
        // (RFC 9309 section 2.1).
        let mut naming = false;
        for line in text.split(['\n', '\r']).filter_map(RobotsLine::read) {
            match (line, groups.last_mut()) {
                (RobotsLine::UserAgent(value), last) => {
                    let agent = product_token(value);
                    match last {
                        Some(group) if naming => group.agents.push(agent),
                        _ => groups.push(Group {
                            agents: vec![agent],
                            ..Group::default()
                        }),
                    }
                    naming = true;
                }
                (RobotsLine::Allow(value), Some(group)) => {
                    naming = false;
                    group.rules.extend(rules(true, value));
                }
                (RobotsLine::Disallow(value), Some(group)) => {
                    naming = false;
                    group.rules.extend(rules(false, value));
                }
                // A crawl delay is not a rule of the RFC, so it does not end a row of user-agent
                // lines (RFC 9309 section 2.2.4).
                (RobotsLine::CrawlDelay(value), Some(group)) => {
                    let seconds = value
                        .parse::<f64>()
                        .ok()
                        .filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
                    let delay = seconds
                        .map(|seconds| Duration::from_secs_f64(seconds.min(MAX_CRAWL_DELAY_S)));
                    group
                        .delays
                        .extend(delay.map(|delay| (group.agents.len(), delay)));
                }
                _ => {}
            }
        }
        Self { groups }
    }

    /// Returns whether a robot may fetch a path with its query. The longest matching rule decides;
    /// of two equal rules, the one that allows (RFC 9309 section 2.2.2).
    ///
    /// The agent is a product token or a whole `User-Agent` value. `/robots.txt` itself is always
    /// allowed.
    ///
    /// ```
    /// use docstokg_policy::robots::Robots;
    ///
    /// let robots = Robots::parse(b"User-agent: *\nDisallow: /private\nAllow: /private/open\n");
    /// assert!(!robots.allows("docstokg/0.1", "/private/a"));
    /// assert!(robots.allows("docstokg/0.1", "/private/open/a?page=2"));
    /// ```
    #[must_use]
    pub fn allows(&self, agent: &str, path_and_query: &str) -> bool {
        let path = pattern::path(path_and_query.split('#').next().unwrap_or_default());
        if path == "/robots.txt" {
            return true;
        }
        let rules = self
            .groups_for(agent)
            .1
            .into_iter()
            .flat_map(|group| &group.rules);
        let strongest = rules
            .filter(|rule| rule.pattern.matches(&path))
            .max_by_key(|rule| (rule.pattern.specificity(), rule.allow));
        strongest.is_none_or(|rule| rule.allow)
    }

    /// Returns the delay between requests that the site requires of a robot, if any.
    ///
    /// ```
    /// use std::time::Duration;
    /// use docstokg_policy::robots::Robots;
    ///
    /// let robots = Robots::parse(b"User-agent: docstokg\nCrawl-delay: 2.5\n");
    /// assert_eq!(robots.crawl_delay("docstokg"), Some(Duration::from_millis(2_500)));
    /// assert_eq!(robots.crawl_delay("other"), None);
    /// ```
    #[must_use]
    pub fn crawl_delay(&self, agent: &str) -> Option<Duration> {
        let (name, groups) = self.groups_for(agent);
        groups
            .into_iter()
            .filter_map(|group| group.delay(&name))
            .max()
    }

    /// Returns the groups for an agent, and the name that selected them. The groups that name the
    /// agent count as one group; without such a [`Group`], the groups for every robot apply (RFC
    /// 9309 section 2.2.1).
    fn groups_for(&self, agent: &str) -> (String, Vec<&Group>) {
        let agent = product_token(agent);
        let named = |name: &str| -> Vec<&Group> {
            self.groups
                .iter()
                .filter(|group| group.agents.iter().any(|known| known == name))
                .collect()
        };
        let own = if agent.is_empty() || agent == "*" {
            Vec::new()
        } else {
            named(&agent)
        };
        if own.is_empty() {
            ("*".to_owned(), named("*"))
        } else {
            (agent, own)
        }
    }
}

/// Returns the rules of a line. An empty value is not a [`PathRule`]: `Disallow:` allows every
/// path.
///
/// A rule that allows a directory's index allows the directory, as in Google's parser.
fn rules(allow: bool, value: &str) -> Vec<PathRule> {
    let rule = |path: &str| PathRule {
        allow,
        pattern: Pattern::new(path),
    };
    let mut rules: Vec<PathRule> = (!value.is_empty())
        .then(|| rule(value))
        .into_iter()
        .collect();
    if allow
        && let Some((directory, _)) = value
            .rsplit_once('/')
            .filter(|(_, name)| name.starts_with("index.htm"))
    {
        rules.push(rule(&format!("{directory}/$")));
    }
    rules
}

/// Returns the product token of a `User-Agent` value in lower case: letters, `_` and `-` (RFC 9309
/// section 2.2.1).
///
/// Only a single star means every robot. `*WordPress*` is a name that no robot has.
fn product_token(agent: &str) -> String {
    let agent = agent.trim();
    if agent
        .strip_prefix('*')
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
    {
        return "*".to_owned();
    }
    agent
        .chars()
        .take_while(|c| c.is_ascii_alphabetic() || matches!(c, '_' | '-'))
        .collect::<String>()
        .to_ascii_lowercase()
}

/// The meaning of the response to a request for robots.txt (RFC 9309 section 2.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RobotsRuling {
    /// The file exists: parse it.
    Parse,
    /// The file does not exist: every path is allowed.
    AllowAll,
    /// The rules are unknown: no path is allowed until a later request succeeds.
    DisallowForNow,
}

impl RobotsRuling {
    /// Decides by the final status, after redirects; `None` means that the site could not be
    /// reached.
    ///
    /// A redirect that was not followed counts as unavailable, like any 4xx. A 429 is the
    /// exception: it means that the site is overloaded, not that the file is missing.
    ///
    /// ```
    /// use docstokg_policy::robots::RobotsRuling;
    /// use http::StatusCode;
    ///
    /// assert_eq!(RobotsRuling::from_status(Some(StatusCode::NOT_FOUND)), RobotsRuling::AllowAll);
    /// assert_eq!(RobotsRuling::from_status(None), RobotsRuling::DisallowForNow);
    /// ```
    #[must_use]
    pub fn from_status(status: Option<StatusCode>) -> Self {
        match status.map(|status| status.as_u16()) {
            Some(200..=299) => Self::Parse,
            Some(429) | None => Self::DisallowForNow,
            Some(300..=499) => Self::AllowAll,
            Some(_) => Self::DisallowForNow,
        }
    }
}
