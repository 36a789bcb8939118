//! The decision after the response of a hop: return it to the caller, follow a redirect, or repeat
//! the hop with the original URL after a tentative https.

use std::borrow::Borrow;

use http::HeaderValue;
use url::Url;

use super::HopOutcome;
use crate::error::ErrorKind;
use crate::event::EventKind;
use crate::exchange::{Delivery, HopContext, HopResponse};
use crate::hub::HubParts;
use crate::journey::RequestTrack;
use crate::redact::redact;
use crate::redirect::{self, Hop, RedirectOutcome, RedirectRules, VisitedHop, is_not_served};
use crate::request::RedirectPolicy;
use crate::response::ResponseHead;
use crate::target::NamedHop;

/// The hops that led to a response.
pub(super) struct HopTrail<'a> {
    /// The earlier hops.
    pub(super) visited: &'a mut Vec<VisitedHop>,
    /// The cookies of the hop that received the response.
    pub(super) cookies: Option<HeaderValue>,
}

impl HubParts {
    /// Returns whether a tentative https failed, so that the original URL is next. Remembers a host
    /// that cannot be reached by https.
    pub(super) fn leads_to_stated<D, T>(
        &self,
        leg: &HopContext<'_, D>,
        answered: &Result<HopResponse<T>, ErrorKind>,
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

    /// Returns the next hop of a redirect, or the response itself.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Redirect`] for a redirect that must not be followed.
    pub(super) fn follow_or_return<D: Delivery, T: Borrow<NamedHop>>(
        &self,
        leg: &HopContext<'_, D, T>,
        answered: HopResponse<D::Output>,
        trail: HopTrail<'_>,
        track: &mut RequestTrack,
    ) -> Result<HopOutcome<D::Output>, ErrorKind> {
        match self.follow(leg, &answered.head, trail, track)? {
            Some(next) => Ok(HopOutcome::Next(next)),
            None => Ok(HopOutcome::Final(answered)),
        }
    }

    /// Returns the next [`Hop`], or `None` if the response does not redirect or redirects are not
    /// followed.
    fn follow<D, T: Borrow<NamedHop>>(
        &self,
        leg: &HopContext<'_, D, T>,
        head: &ResponseHead,
        trail: HopTrail<'_>,
        track: &mut RequestTrack,
    ) -> Result<Option<Box<Hop>>, ErrorKind> {
        let (request, target) = (leg.request, leg.target.borrow());
        if request.follow == RedirectPolicy::Nothing {
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
            RedirectOutcome::No => Ok(None),
            RedirectOutcome::Refused(why) => Err(refused(why)),
            RedirectOutcome::To { hop, stripped } => {
                let HopTrail { visited, cookies } = trail;
                visited.push((leg.hop.url.clone(), cookies));
                let cookies = request.jar().and_then(|jar| jar.header(&hop.url));
                let most = self.config.transport.max_redirects;
                redirect::check_chain(visited, &hop, cookies, most).map_err(refused)?;
                track.note(&target.host, target.role, || EventKind::Redirect {
                    to: redact(&hop.url),
                    stripped,
                });
                track.journey.redirects += 1;
                Ok(Some(hop))
            }
        }
    }
}
