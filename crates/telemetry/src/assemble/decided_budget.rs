//! Determines which budget a decision of the limiter is about: that of the service, or that of the
//! host and role.

use docstokg_hub::config::Config;
use docstokg_hub::policy::rate::Window;

use crate::record::{ChargedBudget, RequestContext};

impl ChargedBudget {
    /// Returns the budget that delayed a request. A request of a service uses two budgets, and
    /// `waited`, the window that delayed it, shows which. Without a wait, the budget of the service
    /// is returned.
    pub(crate) fn of(context: &RequestContext, waited: Option<Window>, config: &Config) -> Self {
        let (host, role) = (&context.host, context.role);
        let own = &config.limits.of(host, role).rates.value;
        let of_role = || Self::new(format!("{host}:{role}"), own);
        let Some(service) = &context.service else {
            return of_role();
        };
        let Some(limits) = config.limits.services.get(service) else {
            return of_role();
        };
        let windows = &limits.rates.value;
        let is_of_service = match waited {
            Some(waited) => distance(windows, &waited) <= distance(own, &waited),
            None => true,
        };
        if is_of_service {
            Self::new(format!("{service}:{host}"), windows)
        } else {
            of_role()
        }
    }

    fn new(key: String, windows: &[Window]) -> Self {
        Self {
            key: key.into(),
            rates: windows.iter().map(ToString::to_string).collect(),
        }
    }
}

/// Returns the factor, at least 1, by which the rate of `waited` differs from the nearest rate
/// among `windows`. The two need not be equal: even pacing waits for a window of its own, with the
/// rate of the window whose requests it spreads.
fn distance(windows: &[Window], waited: &Window) -> f64 {
    let per_second = |window: &Window| f64::from(window.limit.get()) / window.per.as_secs_f64();
    let target = per_second(waited);
    let factors = windows.iter().map(|window| {
        let factor = per_second(window) / target;
        factor.max(factor.recip())
    });
    factors.fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use docstokg_hub::config::flags::CommandLineFlags;
    use docstokg_hub::config::load::{ConfigSources, load};
    use docstokg_hub::config::{BudgetLimits, SourcedValue, ValueSource};
    use docstokg_hub::{Host, Role};

    use super::*;

    fn config() -> Config {
        let flags = CommandLineFlags {
            rate: vec!["files.test:artifact=rates:8/SECOND+300/MINUTE".to_owned()],
            ..CommandLineFlags::default()
        };
        let (mut config, _) = load(&ConfigSources {
            flags,
            ..ConfigSources::default()
        })
        .expect("a configuration");
        let rates = ["2/SECOND", "300/MINUTE"].map(rate);
        let limits = BudgetLimits {
            rates: SourcedValue::new(rates.to_vec(), ValueSource::Program),
            max_concurrent: SourcedValue::new(None, ValueSource::Program),
            shared_slots: false,
            pacing: None,
        };
        config.limits.services.insert("direct".into(), limits);
        config
    }

    fn rate(text: &str) -> Window {
        text.parse().expect("a rate")
    }

    fn key(service: Option<&str>, waited: Option<Window>) -> String {
        let context = RequestContext {
            request: 1,
            host: Host::parse("files.test").expect("a host"),
            role: Role::Artifact,
            resolver: None,
            kind: None,
            service: service.map(Into::into),
        };
        ChargedBudget::of(&context, waited, &config())
            .key
            .to_string()
    }

    #[test]
    fn the_window_that_was_waited_for_names_the_budget() {
        let spaced = Window::new(NonZeroU32::MIN, Duration::from_millis(500));
        for (service, waited, wanted) in [
            (None, Some(rate("8/SECOND")), "files.test:artifact"),
            (Some("unlimited"), None, "files.test:artifact"),
            (Some("direct"), None, "direct:files.test"),
            (Some("direct"), Some(rate("2/SECOND")), "direct:files.test"),
            // Even pacing of `2/SECOND` waits for this window.
            (Some("direct"), Some(spaced), "direct:files.test"),
            // Both budgets have this window, so the budget of the service is returned.
            (
                Some("direct"),
                Some(rate("300/MINUTE")),
                "direct:files.test",
            ),
            (
                Some("direct"),
                Some(rate("8/SECOND")),
                "files.test:artifact",
            ),
        ] {
            assert_eq!(key(service, waited), wanted, "{service:?} {waited:?}");
        }
    }
}
