//! The decision after the response of a hop: return it to the caller, follow a redirect, or request
//! the original http URL after https was tried.

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

/// The hops that a request has completed before the current response.
pub(super) struct HopTrail<'a> {
    /// The earlier hops, with the cookies that each sent.
    pub(super) visited: &'a mut Vec<VisitedHop>,
    /// The cookies that the current hop sent.
    pub(super) cookies: Option<HeaderValue>,
}

impl HubParts {
    /// Returns whether https was tried for an http URL and failed, so that the original URL is
    /// requested next. If the host cannot be reached by https, remembers that.
    pub(super) fn leads_to_original<D, T>(
        &self,
        context: &HopContext<'_, D>,
        response: &Result<HopResponse<T>, ErrorKind>,
    ) -> bool {
        if context.hop.or_else.is_none() {
            return false;
        }
        match response {
            Err(ErrorKind::Fault { .. }) => {
                self.known_hosts.remember_plain(context.target.host.clone());
                true
            }
            Ok(response) => is_not_served(response.head.status),
            Err(_) => false,
        }
    }

    /// Returns the next hop if the response is a redirect to follow, otherwise the response itself.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Redirect`] for a redirect that must not be followed.
    pub(super) fn follow_or_return<D: Delivery, T: Borrow<NamedHop>>(
        &self,
        context: &HopContext<'_, D, T>,
        response: HopResponse<D::Output>,
        trail: HopTrail<'_>,
        track: &mut RequestTrack,
    ) -> Result<HopOutcome<D::Output>, ErrorKind> {
        match self.follow(context, &response.head, trail, track)? {
            Some(next) => Ok(HopOutcome::Next(next)),
            None => Ok(HopOutcome::Final(response)),
        }
    }

    /// Returns the next [`Hop`]; `None` if the response is not a redirect, or if the request does
    /// not follow redirects.
    fn follow<D, T: Borrow<NamedHop>>(
        &self,
        context: &HopContext<'_, D, T>,
        head: &ResponseHead,
        trail: HopTrail<'_>,
        track: &mut RequestTrack,
    ) -> Result<Option<Box<Hop>>, ErrorKind> {
        let (request, target) = (context.request, context.target.borrow());
        if request.follow == RedirectPolicy::Nothing {
            return Ok(None);
        }
        let rules = RedirectRules {
            secret_headers: &request.secret_headers,
            allow_downgrade: self.config.transport.allow_downgrade,
            gate: request.redirect_gate.as_ref(),
            is_plain: &|url: &Url| self.known_hosts.is_plain(url),
        };
        let redirected = redirect::read(context.hop, head.status, &head.headers, &rules);
        let refused = |why: String| ErrorKind::Redirect {
            host: target.host.clone(),
            why,
        };
        match redirected {
            RedirectOutcome::No => Ok(None),
            RedirectOutcome::Refused(why) => Err(refused(why)),
            RedirectOutcome::To { hop, stripped } => {
                let HopTrail { visited, cookies } = trail;
                visited.push((context.hop.url.clone(), cookies));
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
