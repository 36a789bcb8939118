//! Learned limits as lines of configuration.

use std::num::NonZeroU32;
use std::time::Duration;

use docstokg_hub::policy::host_model::learner::{ConfirmedLimit, LimitShape};
use docstokg_hub::policy::rate::Window;

use super::LearnedSite;

/// The number of seconds of the window in which a measured rate is written.
const RATE_SECONDS: u16 = 10;

/// Writes learned limits as YAML for a configuration file; `None` if the list is empty.
pub(super) fn yaml(learned: &[LearnedSite]) -> Option<String> {
    let mut hosts = String::new();
    let mut sites = String::new();
    for site in learned.iter().filter(|site| !site.limits.is_empty()) {
        let limits = flow(&site.limits);
        match (&site.site, site.hosts.as_slice(), site.roles.as_slice()) {
            (Some(name), ..) => {
                sites += &format!("  {}:\n    common: {limits}\n", quoted(name));
            }
            (None, [host], [role]) => {
                let host = quoted(host.as_str());
                hosts += &format!("    {host}:\n      {role}: {limits}\n");
            }
            // A learned limit applies to all roles of a host together.
            (None, [host], _) => {
                let (name, host) = (host.as_str().replace(['.', ':'], "_"), host.as_str());
                let host = quoted(host);
                sites += &format!("  {name}:\n    hosts: [{host}]\n    common: {limits}\n");
            }
            (None, ..) => {}
        }
    }
    let section = |name: &str, entries: &str| match entries {
        "" => String::new(),
        entries => format!("{name}{entries}"),
    };
    let text = section("limits:\n  hosts:\n", &hosts) + &section("sites:\n", &sites);
    (!text.is_empty()).then_some(text)
}

fn quoted(name: &str) -> String {
    if name.contains(':') {
        format!("\"{name}\"")
    } else {
        name.to_owned()
    }
}

/// Writes the keys of the limits, in flow style.
fn flow(limits: &[ConfirmedLimit]) -> String {
    let (mut rates, mut most, mut even) = (Vec::new(), None, false);
    for limit in limits.iter().map(written) {
        match limit {
            WrittenLimit::Window(window) => rates.push(format!("\"{window}\"")),
            WrittenLimit::Rate(window) => {
                rates.push(format!("\"{window}\""));
                even = true;
            }
            WrittenLimit::Cap(cap) => {
                most = Some(most.map_or(cap, |most: NonZeroU32| most.min(cap)));
            }
        }
    }
    let mut keys = Vec::new();
    if !rates.is_empty() {
        keys.push(format!("rates: [{}]", rates.join(", ")));
    }
    if let Some(most) = most {
        // The server counts the requests of all processes.
        keys.push(format!("max_concurrent: {most}, concurrency: shared"));
    }
    if even {
        keys.push("pacing: even".to_owned());
    }
    format!("{{ {} }}", keys.join(", "))
}

/// The form in which a limit is written.
enum WrittenLimit {
    /// The window that the server counts.
    Window(Window),
    /// A window that keeps its rate if requests are evenly spaced.
    Rate(Window),
    /// A maximum of concurrent requests.
    Cap(NonZeroU32),
}

fn written(limit: &ConfirmedLimit) -> WrittenLimit {
    match limit.shape {
        // A length that is not a whole number of seconds fits the refusals, but no server is
        // configured like that.
        LimitShape::Window { seconds } if (seconds - seconds.round()).abs() < 0.01 => {
            let length = Duration::from_secs_f32(seconds.round().max(1.0));
            WrittenLimit::Window(Window::new(whole(limit.amount), length))
        }
        LimitShape::Window { seconds } => WrittenLimit::Rate(rate(limit.amount / seconds)),
        LimitShape::Rate => WrittenLimit::Rate(rate(limit.amount)),
        LimitShape::Cap => WrittenLimit::Cap(whole(limit.amount)),
    }
}

/// Returns a window of whole seconds that admits at most this rate.
fn rate(per_second: f32) -> Window {
    if per_second >= 1.0 {
        let count = whole((per_second * f32::from(RATE_SECONDS)).floor());
        return Window::new(count, Duration::from_secs(u64::from(RATE_SECONDS)));
    }
    let distance = (1.0 / per_second.max(1e-4)).ceil();
    Window::new(NonZeroU32::MIN, Duration::from_secs_f32(distance))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an amount is positive and far below 2^24"
)]
fn whole(amount: f32) -> NonZeroU32 {
    NonZeroU32::new(amount.round() as u32).unwrap_or(NonZeroU32::MIN)
}

#[cfg(test)]
mod tests {
    use docstokg_hub::Host;

    use super::*;

    fn learned(host: &str, roles: &[&str], limits: &[(LimitShape, f32)]) -> LearnedSite {
        LearnedSite {
            site: None,
            hosts: vec![Host::parse(host).expect("a host")],
            roles: roles.iter().map(ToString::to_string).collect(),
            limits: limits
                .iter()
                .map(|(shape, amount)| ConfirmedLimit::of(*shape, *amount, 3))
                .collect(),
            searching: false,
            refusals: super::super::saved::HostRefusals::default(),
        }
    }

    #[test]
    fn every_shape_is_written_as_a_window_or_a_cap() {
        let five = LimitShape::Window { seconds: 5.0 };
        let text = yaml(&[
            learned("api.example", &["artifact"], &[(five, 10.2)]),
            learned("b.example:81", &["artifact"], &[(LimitShape::Rate, 9.87)]),
            learned("c.example", &["artifact"], &[(LimitShape::Cap, 4.0)]),
            learned("d.example", &["artifact"], &[(LimitShape::Rate, 0.3)]),
            learned("e.example", &["artifact", "landing"], &[(five, 3.0)]),
            learned("f.example", &["artifact"], &[]),
            learned(
                "g.example",
                &["artifact"],
                &[(LimitShape::Window { seconds: 1.426 }, 11.0)],
            ),
        ])
        .expect("lines");
        assert_eq!(
            text,
            "limits:
  hosts:
    api.example:
      artifact: { rates: [\"10/5SECOND\"] }
    \"b.example:81\":
      artifact: { rates: [\"98/10SECOND\"], pacing: even }
    c.example:
      artifact: { max_concurrent: 4, concurrency: shared }
    d.example:
      artifact: { rates: [\"1/4SECOND\"], pacing: even }
    g.example:
      artifact: { rates: [\"77/10SECOND\"], pacing: even }
sites:
  e_example:
    hosts: [e.example]
    common: { rates: [\"3/5SECOND\"] }
"
        );
        assert_eq!(yaml(&[learned("f.example", &["artifact"], &[])]), None);
    }
}
