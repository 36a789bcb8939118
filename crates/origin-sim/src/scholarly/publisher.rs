//! Responses of publishers and repositories: their pages, their files, and what robots get.

use std::time::Duration;

use super::decoded_request::{DecodedRequest, page};
use super::file::{self, escaped};
use super::hosts::{Behaviour, Publisher, Signal};
use super::paper::{Copy, Paper, Trouble};
use super::world::ScholarlyWorld;
use crate::ledger::Arrival;
use crate::reply::{Piece, ScriptedReply};

/// Number of bytes that a slow host sends between two pauses of [`DRIP_PAUSE`].
const DRIP_BYTES: usize = 16 << 10;
const DRIP_PAUSE: Duration = Duration::from_millis(20);

/// Responds for a [`Publisher`]. `nth` is the number of earlier requests for the same path.
pub(super) fn answer(
    world: &ScholarlyWorld,
    publisher: &Publisher,
    arrival: &Arrival,
    nth: usize,
) -> ScriptedReply {
    let asked = DecodedRequest::of(arrival);
    let faults = world.has_faults();
    match publisher.behaviour {
        Behaviour::Down if faults => return ScriptedReply::dead(Piece::Reset),
        _ if asked.path == "/robots.txt" => return robots(publisher, faults),
        Behaviour::BotChallenge if faults => return bot_challenge(),
        _ => {}
    }
    let Some(paper) = world.at(publisher, &asked.path) else {
        return page(
            404,
            "<html><title>Not found</title><h1>No such page</h1></html>",
        );
    };
    match paper.copy_at(publisher) {
        Some(copy) if copy.path == asked.path => give(world, paper, copy, arrival, nth),
        Some(copy) => describe(paper, publisher, Some(copy), &asked.path),
        None => describe(paper, publisher, None, &asked.path),
    }
}

/// Responds for the host of the second publisher's files.
pub(super) fn cdn(world: &ScholarlyWorld, arrival: &Arrival, nth: usize) -> ScriptedReply {
    let path = DecodedRequest::of(arrival).path;
    let number = path
        .strip_prefix("/files/")
        .and_then(|name| name.strip_suffix(".pdf")?.parse::<usize>().ok());
    let paper = number.and_then(|number| world.papers.get(number));
    let copy = |paper: &Paper| {
        paper
            .copies
            .iter()
            .position(|copy| matches!(copy.publisher.behaviour, Behaviour::SendsOn(_)))
    };
    match paper.and_then(|paper| Some((paper, copy(paper)?))) {
        Some((paper, at)) => transfer(world, paper, &paper.copies[at], arrival, nth),
        None => ScriptedReply::status(404),
    }
}

fn robots(publisher: &Publisher, faults: bool) -> ScriptedReply {
    let plain =
        |body: &str| ScriptedReply::ok(body.to_owned()).header("content-type", "text/plain");
    match publisher.behaviour {
        Behaviour::CrawlDelay => plain("User-agent: *\nCrawl-delay: 1\nDisallow: /admin/\n"),
        Behaviour::Disallows if faults => plain("User-agent: *\nDisallow: /pdf/\n"),
        _ => page(404, "<html><title>Not found</title></html>"),
    }
}

/// Returns the bot challenge that robots get.
fn bot_challenge() -> ScriptedReply {
    let html = "<!DOCTYPE html><html lang=\"en-US\"><head><title>Just a moment...</title></head>\
                <body><noscript>Enable JavaScript and cookies to continue</noscript>\
                <script src=\"/cdn-cgi/challenge-platform/h/b/orchestrate/chl_page/v1\"></script>\
                </body></html>";
    page(403, html)
        .header("server", "cloudflare")
        .header("cf-mitigated", "challenge")
}

/// Returns the file, or what this publisher sends in its place.
fn give(
    world: &ScholarlyWorld,
    paper: &Paper,
    copy: &Copy,
    arrival: &Arrival,
    nth: usize,
) -> ScriptedReply {
    let faults = world.has_faults();
    match copy.publisher.behaviour {
        Behaviour::SendsOn(elsewhere) => ScriptedReply::redirect(
            302,
            &format!(
                "http://{elsewhere}/files/{}.pdf?token={:08x}",
                paper.number,
                paper.number * 7919
            ),
        ),
        Behaviour::Gone if faults => page(
            if paper.number.is_multiple_of(2) {
                404
            } else {
                410
            },
            "<html><title>Gone</title></html>",
        ),
        Behaviour::Stub if faults => {
            let filler = "<p>You are being taken to the article.</p>".repeat(60);
            ScriptedReply::ok(format!(
                "<!DOCTYPE html><html><head><title>{}</title></head><body>{filler}</body></html>",
                escaped(&paper.title)
            ))
            .header("content-type", "application/pdf")
        }
        Behaviour::Prepares if faults && nth < 2 => {
            ScriptedReply::status(202).header("retry-after", "1")
        }
        _ => transfer(world, paper, copy, arrival, nth),
    }
}

/// Sends the file, with the [`Trouble`] of the copy if there is one, and slowly from a slow host.
fn transfer(
    world: &ScholarlyWorld,
    paper: &Paper,
    copy: &Copy,
    arrival: &Arrival,
    nth: usize,
) -> ScriptedReply {
    let bytes = world.file(paper, copy);
    let reply = file::serve(arrival, &bytes, "application/pdf");
    let [Piece::Bytes(body)] = reply.pieces.as_slice() else {
        return reply;
    };
    let body = body.clone();
    if copy.trouble == Trouble::CutOnce && nth == 0 {
        let length = body.len() as u64;
        return reply
            .claiming(length)
            .pieces([Piece::Bytes(body.slice(..body.len() / 2)), Piece::Cut]);
    }
    if copy.publisher.behaviour == Behaviour::Slow && world.has_faults() {
        reply.drip(&body, DRIP_BYTES, DRIP_PAUSE)
    } else {
        reply
    }
}

/// Returns the page of a work, which declares the location of the file by the publisher's
/// [`Signal`].
fn describe(
    paper: &Paper,
    publisher: &Publisher,
    copy: Option<&Copy>,
    path: &str,
) -> ScriptedReply {
    if publisher.signal == Signal::Refresh && !path.ends_with("/full") {
        let refresh = format!("<meta http-equiv=\"refresh\" content=\"0; url={path}/full\">");
        let html = format!("<html><head>{refresh}</head><body>One moment</body></html>");
        return page(200, html);
    }
    let title = escaped(&paper.title);
    let mut head = format!(
        "<title>{title} | {}</title><meta name=\"citation_title\" content=\"{title}\">\
         <meta name=\"citation_publication_date\" content=\"{}/03/01\">",
        publisher.name, paper.year
    );
    if let Some((doi, _)) = &paper.doi {
        head.push_str(&meta("citation_doi", &escaped(doi)));
    }
    let mut body = format!("<h1>{title}</h1>");
    let mut reply = page(200, "");
    match copy {
        None => body
            .push_str("<p>This article is for subscribers.</p><a href=\"/access\">Get access</a>"),
        Some(copy) => {
            body.push_str("<a href=\"/about/policies.pdf\">Policies (PDF)</a>");
            match publisher.signal {
                Signal::Anchor => body.push_str(&format!(
                    "<a class=\"pdf-download\" href=\"./{}\">Download PDF</a>",
                    copy.path.trim_start_matches("/doi/")
                )),
                Signal::LinkHeader => {
                    let url = copy.url();
                    let link = format!("<{url}>; rel=\"item\"; type=\"application/pdf\"");
                    reply = reply.header("link", &link);
                }
                _ => {}
            }
            head.push_str(&signal_in_head(publisher.signal, copy));
        }
    }
    reply.body(format!(
        "<!DOCTYPE html><html><head>{head}</head><body>{body}</body></html>"
    ))
}

fn meta(name: &str, content: &str) -> String {
    format!("<meta name=\"{name}\" content=\"{content}\">")
}

/// Writes the declaration of the file in the head of a page.
fn signal_in_head(signal: Signal, copy: &Copy) -> String {
    let (url, path) = (copy.url(), &copy.path);
    match signal {
        Signal::CitationMeta => meta("citation_pdf_url", &url),
        Signal::LinkAlternate => {
            format!("<link rel=\"alternate\" type=\"application/pdf\" href=\"{path}\">")
        }
        Signal::Refresh => meta("bepress_citation_pdf_url", &url),
        Signal::Eprints => meta("eprints.document_url", &url),
        Signal::DublinCore => meta("DC.identifier", &url),
        Signal::JsonLd => {
            let media = serde_json::json!({
                "@type": "MediaObject",
                "encodingFormat": "application/pdf",
                "contentUrl": url,
            });
            let article = serde_json::json!({
                "@context": "https://schema.org",
                "@type": "ScholarlyArticle",
                "encoding": [media],
            });
            format!("<script type=\"application/ld+json\">{article}</script>")
        }
        Signal::Anchor => "<base href=\"/doi/\">".to_owned(),
        Signal::LinkHeader => String::new(),
    }
}
