//! The hosts of the simulated web: services under their real names, and invented publishers and
//! repositories.

/// The way in which a page declares the location of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// The meta element `citation_pdf_url`.
    CitationMeta,
    /// `link rel=alternate` with the type of a PDF.
    LinkAlternate,
    /// JSON-LD with an `encoding`.
    JsonLd,
    /// A link for people, and a `base` element to which it is relative.
    Anchor,
    /// The `Link` header. The page itself does not declare the file.
    LinkHeader,
    /// A stub that redirects browsers to a page with `bepress_citation_pdf_url`.
    Refresh,
    /// The meta element `eprints.document_url`.
    Eprints,
    /// The meta element `DC.identifier`.
    DublinCore,
}

/// The way in which a host treats requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behaviour {
    /// No special behaviour.
    Plain,
    /// The files are at another host, to which requests are redirected. This is not a fault.
    SendsOn(&'static str),
    /// robots.txt declares a delay of a second between requests. This is not a fault.
    CrawlDelay,
    /// Every response arrives slowly.
    Slow,
    /// Robots get a bot challenge instead of the page or file.
    BotChallenge,
    /// Connections to the host are reset.
    Down,
    /// Responses declare a PDF, but the body is a web page.
    Stub,
    /// robots.txt forbids the files.
    Disallows,
    /// The host has removed its files.
    Gone,
    /// The host prepares a file first: two responses have status 202, and the third has the file.
    Prepares,
}

/// A publisher or repository, with its [`Signal`] and its [`Behaviour`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Publisher {
    pub(super) host: &'static str,
    pub(super) name: &'static str,
    /// The DOI prefix of the publisher.
    pub(super) prefix: &'static str,
    pub(super) signal: Signal,
    pub(super) behaviour: Behaviour,
    /// True if Crossref lists the publisher's links for text mining.
    pub(super) mining: bool,
}

const fn publisher(
    host: &'static str,
    name: &'static str,
    prefix: &'static str,
    signal: Signal,
    behaviour: Behaviour,
    mining: bool,
) -> Publisher {
    Publisher {
        host,
        name,
        prefix,
        signal,
        behaviour,
        mining,
    }
}

/// The host of the second publisher's files.
pub(super) const CDN: &str = "cdn.press-two.example";

/// Publishers that serve their files.
pub(super) static PRESSES: [Publisher; 6] = [
    publisher(
        "journals.press-one.example",
        "Press One",
        "10.99901",
        Signal::CitationMeta,
        Behaviour::Plain,
        true,
    ),
    publisher(
        "www.press-two.example",
        "Press Two",
        "10.99902",
        Signal::LinkAlternate,
        Behaviour::SendsOn(CDN),
        false,
    ),
    publisher(
        "academic.press-three.example",
        "Press Three",
        "10.99903",
        Signal::JsonLd,
        Behaviour::CrawlDelay,
        true,
    ),
    publisher(
        "open.press-four.example",
        "Press Four",
        "10.99904",
        Signal::Anchor,
        Behaviour::Slow,
        false,
    ),
    publisher(
        "articles.press-five.example",
        "Press Five",
        "10.99905",
        Signal::LinkHeader,
        Behaviour::Plain,
        true,
    ),
    publisher(
        "journal.press-six.example",
        "Press Six",
        "10.99906",
        Signal::Refresh,
        Behaviour::Plain,
        false,
    ),
];

/// The publisher behind a bot challenge.
pub(super) static BOT_CHALLENGE: Publisher = publisher(
    "www.press-seven.example",
    "Press Seven",
    "10.99907",
    Signal::CitationMeta,
    Behaviour::BotChallenge,
    false,
);
/// The publisher that is down.
pub(super) static DOWN: Publisher = publisher(
    "www.press-eight.example",
    "Press Eight",
    "10.99908",
    Signal::CitationMeta,
    Behaviour::Down,
    true,
);
/// The publisher that sends web pages in place of its PDFs.
pub(super) static STUB: Publisher = publisher(
    "link.press-nine.example",
    "Press Nine",
    "10.99909",
    Signal::CitationMeta,
    Behaviour::Stub,
    true,
);
/// The publisher whose robots.txt forbids its files.
pub(super) static STRICT: Publisher = publisher(
    "papers.press-ten.example",
    "Press Ten",
    "10.99910",
    Signal::CitationMeta,
    Behaviour::Disallows,
    true,
);
/// The publisher that removed its files.
pub(super) static OLD: Publisher = publisher(
    "old.press-eleven.example",
    "Press Eleven",
    "10.99911",
    Signal::CitationMeta,
    Behaviour::Gone,
    false,
);

/// Repositories of universities. The last repository registers its own DOIs, with `DataCite`.
pub(super) static REPOSITORIES: [Publisher; 3] = [
    publisher(
        "repository.uni-one.example",
        "University One",
        "10.99921",
        Signal::Eprints,
        Behaviour::Plain,
        false,
    ),
    publisher(
        "repository.uni-two.example",
        "University Two",
        "10.99922",
        Signal::CitationMeta,
        Behaviour::Prepares,
        false,
    ),
    publisher(
        "archive.uni-three.example",
        "University Three",
        "10.99923",
        Signal::DublinCore,
        Behaviour::Plain,
        false,
    ),
];

/// Returns all publishers and repositories.
pub(super) fn publishers() -> impl Iterator<Item = &'static Publisher> {
    PRESSES
        .iter()
        .chain([&BOT_CHALLENGE, &DOWN, &STUB, &STRICT, &OLD])
        .chain(&REPOSITORIES)
}

pub(super) const OPENALEX: &str = "api.openalex.org";
pub(super) const UNPAYWALL: &str = "api.unpaywall.org";
pub(super) const CROSSREF: &str = "api.crossref.org";
pub(super) const DATACITE: &str = "api.datacite.org";
pub(super) const ARXIV: &str = "export.arxiv.org";
pub(super) const ARXIV_PAGES: &str = "arxiv.org";
pub(super) const PMC: &str = "pmc.ncbi.nlm.nih.gov";
pub(super) const PMC_BUCKET: &str = "pmc-oa-opendata.s3.amazonaws.com";
pub(super) const EBI: &str = "www.ebi.ac.uk";
pub(super) const EUROPE_PMC: &str = "europepmc.org";
pub(super) const DOI: &str = "doi.org";
pub(super) const WAYBACK: &str = "web.archive.org";
pub(super) const ZENODO: &str = "zenodo.org";
pub(super) const FIGSHARE: &str = "api.figshare.com";
pub(super) const FIGSHARE_FILES: &str = "ndownloader.figshare.com";
pub(super) const OSF_API: &str = "api.osf.io";
pub(super) const OSF: &str = "osf.io";
pub(super) const OSF_FILES: &str = "files.osf.io";
pub(super) const HAL_API: &str = "api.archives-ouvertes.fr";
pub(super) const HAL: &str = "hal.science";
pub(super) const DOAJ: &str = "doaj.org";
/// A journal that DOAJ lists.
pub(super) const OPEN_JOURNAL: &str = "open-journal.example";

/// A rate limit of a host: the role or kind of the requests and the prefix of the paths that it
/// applies to, the number of requests, and the window.
pub(super) struct PathLimit {
    pub(super) host: &'static str,
    pub(super) role: &'static str,
    pub(super) prefix: &'static str,
    count: u32,
    per: &'static str,
}

impl PathLimit {
    /// Writes the [`PathLimit`] as a rate.
    pub(super) fn rate(&self, scale: u32) -> String {
        format!("{}/{}", self.count.saturating_mul(scale.max(1)), self.per)
    }
}

const fn all(host: &'static str, count: u32, per: &'static str) -> PathLimit {
    PathLimit {
        host,
        role: "all",
        prefix: "",
        count,
        per,
    }
}

/// Returns the limits of every host.
pub(super) fn limits() -> Vec<PathLimit> {
    let mut limits = vec![
        all(OPENALEX, 10, "SECOND"),
        all(UNPAYWALL, 10, "SECOND"),
        all(CROSSREF, 10, "SECOND"),
        PathLimit {
            host: CROSSREF,
            role: "list",
            prefix: "/works?",
            count: 3,
            per: "SECOND",
        },
        all(DATACITE, 3, "SECOND"),
        all(ARXIV, 1, "3SECOND"),
        all(ARXIV_PAGES, 1, "3SECOND"),
        all(PMC, 3, "SECOND"),
        all(PMC_BUCKET, 20, "SECOND"),
        all(EBI, 5, "SECOND"),
        all(EUROPE_PMC, 5, "SECOND"),
        all(DOI, 5, "SECOND"),
        PathLimit {
            host: WAYBACK,
            role: "metadata",
            prefix: "/cdx/",
            count: 24,
            per: "MINUTE",
        },
        PathLimit {
            host: WAYBACK,
            role: "artifact",
            prefix: "/web/",
            count: 1,
            per: "SECOND",
        },
    ];
    limits.extend(publishers().map(|publisher| all(publisher.host, 2, "SECOND")));
    limits.push(all(CDN, 2, "SECOND"));
    limits.extend([
        all(ZENODO, 60, "MINUTE"),
        all(FIGSHARE, 1, "SECOND"),
        all(FIGSHARE_FILES, 2, "SECOND"),
        all(OSF_API, 100, "HOUR"),
        all(OSF, 2, "SECOND"),
        all(OSF_FILES, 2, "SECOND"),
        all(HAL_API, 2, "SECOND"),
        all(HAL, 2, "SECOND"),
        all(DOAJ, 2, "SECOND"),
        all(OPEN_JOURNAL, 2, "SECOND"),
    ]);
    limits
}

/// Returns the base URL of a service, by its name in the configuration of clients.
pub(super) fn endpoint(service: &str) -> Option<String> {
    let (host, path) = match service {
        "openalex" => (OPENALEX, "/"),
        // No files are sold here, so every request gets status 404.
        "openalex_content" => (OPENALEX, "/content/"),
        "unpaywall" => (UNPAYWALL, "/v2/"),
        "crossref" => (CROSSREF, "/"),
        "datacite" => (DATACITE, "/"),
        "arxiv" => (ARXIV, "/"),
        "pmc_id_converter" => (PMC, "/tools/idconv/api/v1/articles/"),
        "pmc_bucket" => (PMC_BUCKET, "/"),
        "europe_pmc" => (EBI, "/europepmc/webservices/rest/"),
        "europe_pmc_articles" => (EUROPE_PMC, "/articles/"),
        "doi" => (DOI, "/"),
        "wayback" => (WAYBACK, "/"),
        "zenodo" => (ZENODO, "/api/"),
        "figshare" => (FIGSHARE, "/v2/"),
        "osf" => (OSF_API, "/v2/"),
        "hal" => (HAL_API, "/"),
        "doaj" => (DOAJ, "/api/v4/"),
        _ => return None,
    };
    Some(format!("http://{host}{path}"))
}
