//! Where the answer of a hop leads: to the caller, to another URL, or to the URL as it was stated.

use std::borrow::Borrow;

use http::HeaderValue;
use url::Url;

use super::Hopped;
use crate::error::ErrorKind;
use crate::event::What;
use crate::exchange::{Answered, Delivery, Leg};
use crate::hub::HubParts;
use crate::journey::Track;
use crate::redact::redact;
use crate::redirect::{self, Hop, RedirectRules, Redirected, Visited, is_not_served};
use crate::request::Follow;
use crate::response::Head;
use crate::target::NamedHop;

/// The hops that led to an answer.
pub(super) struct Trail<'a> {
    /// Those before the one that was answered.
    pub(super) visited: &'a mut Vec<Visited>,
    /// The cookies that the answered one carried.
    pub(super) cookies: Option<HeaderValue>,
}

impl HubParts {
    /// Returns whether https was tried in place of the URL that was stated, and is not served:
    /// remembers a host that cannot be reached by it.
    pub(super) fn leads_to_stated<D, T>(
        &self,
        leg: &Leg<'_, D>,
        answered: &Result<Answered<T>, ErrorKind>,
    ) -> bool {
        if leg.hop.or_else.is_none() {
            return false;
        }
        match answered {
            Err(ErrorKind::Fault { .. }) => {
                self.known_hosts.remember_plain(leg.target.host.clone());
                true
            }
            Ok(answered) => is_not_served(answered.head.status),
            Err(_) => false,
        }
    }

    /// Reads where the answer of a hop leads.
    pub(super) fn follow_or_return<D: Delivery, T: Borrow<NamedHop>>(
        &self,
        leg: &Leg<'_, D, T>,
        answered: Answered<D::Output>,
        trail: Trail<'_>,
        track: &mut Track,
    ) -> Result<Hopped<D::Output>, ErrorKind> {
        match self.follow(leg, &answered.head, trail, track)? {
            Some(next) => Ok(Hopped::Next(next)),
            None => Ok(Hopped::Final(answered)),
        }
    }

    /// Reads where an answer leads, where redirects are followed.
    fn follow<D, T: Borrow<NamedHop>>(
        &self,
        leg: &Leg<'_, D, T>,
        head: &Head,
        trail: Trail<'_>,
        track: &mut Track,
    ) -> Result<Option<Box<Hop>>, ErrorKind> {
        let (request, target) = (leg.request, leg.target.borrow());
        if request.follow == Follow::Nothing {
            return Ok(None);
        }
        let rules = RedirectRules {
            secret_headers: &request.secret_headers,
            allow_downgrade: self.config.transport.allow_downgrade,
            gate: request.redirect_gate.as_ref(),
            is_plain: &|url: &Url| self.known_hosts.is_plain(url),
        };
        let redirected = redirect::read(leg.hop, head.status, &head.headers, &rules);
        let refused = |why: String| ErrorKind::Redirect {
            host: target.host.clone(),
            why,
        };
        match redirected {
            Redirected::No => Ok(None),
            Redirected::Refused(why) => Err(refused(why)),
            Redirected::To { hop, stripped } => {
                let Trail { visited, cookies } = trail;
                visited.push((leg.hop.url.clone(), cookies));
                let cookies = request.jar().and_then(|jar| jar.header(&hop.url));
                let most = self.config.transport.max_redirects;
                redirect::check_chain(visited, &hop, cookies, most).map_err(refused)?;
                track.note(&target.host, target.role, || What::Redirect {
                    to: redact(&hop.url),
                    stripped,
                });
                track.journey.redirects += 1;
                Ok(Some(hop))
            }
        }
    }
}
