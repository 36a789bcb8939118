//! Who is on the simulated web: the services by their real names, and invented publishers and
//! repositories.

/// How a page says where the file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// `citation_pdf_url`.
    CitationMeta,
    /// `link rel=alternate` with the type of a PDF.
    LinkAlternate,
    /// JSON-LD with an `encoding`.
    JsonLd,
    /// A link to click, and a base for it.
    Anchor,
    /// The `Link` header, and nothing on the page.
    LinkHeader,
    /// A stub that sends browsers on to a page with `bepress_citation_pdf_url`.
    Refresh,
    /// `eprints.document_url`.
    Eprints,
    /// `DC.identifier`.
    DublinCore,
}

/// What is peculiar about a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conduct {
    /// Nothing.
    Plain,
    /// Files are at another host, behind a redirect. No fault.
    SendsOn(&'static str),
    /// robots.txt asks for a second between requests. No fault.
    CrawlDelay,
    /// Everything takes long.
    Slow,
    /// Robots are kept out.
    Walled,
    /// Connections are reset.
    Down,
    /// Files are pages that say they are PDFs.
    Stub,
    /// robots.txt keeps everybody from the files.
    Disallows,
    /// Files were taken away.
    Gone,
    /// Files are prepared first: accepted twice, then given.
    Prepares,
}

/// A publisher or repository.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct House {
    pub(super) host: &'static str,
    pub(super) name: &'static str,
    /// The prefix of its DOIs.
    pub(super) prefix: &'static str,
    pub(super) signal: Signal,
    pub(super) conduct: Conduct,
    /// Whether Crossref has its links for text mining.
    pub(super) mining: bool,
}

const fn house(
    host: &'static str,
    name: &'static str,
    prefix: &'static str,
    signal: Signal,
    conduct: Conduct,
    mining: bool,
) -> House {
    House {
        host,
        name,
        prefix,
        signal,
        conduct,
        mining,
    }
}

/// Where the second publisher keeps its files.
pub(super) const CDN: &str = "cdn.press-two.example";

/// Publishers that do as they should, more or less.
pub(super) static PRESSES: [House; 6] = [
    house(
        "journals.press-one.example",
        "Press One",
        "10.99901",
        Signal::CitationMeta,
        Conduct::Plain,
        true,
    ),
    house(
        "www.press-two.example",
        "Press Two",
        "10.99902",
        Signal::LinkAlternate,
        Conduct::SendsOn(CDN),
        false,
    ),
    house(
        "academic.press-three.example",
        "Press Three",
        "10.99903",
        Signal::JsonLd,
        Conduct::CrawlDelay,
        true,
    ),
    house(
        "open.press-four.example",
        "Press Four",
        "10.99904",
        Signal::Anchor,
        Conduct::Slow,
        false,
    ),
    house(
        "articles.press-five.example",
        "Press Five",
        "10.99905",
        Signal::LinkHeader,
        Conduct::Plain,
        true,
    ),
    house(
        "journal.press-six.example",
        "Press Six",
        "10.99906",
        Signal::Refresh,
        Conduct::Plain,
        false,
    ),
];

/// The publisher behind a wall.
pub(super) static WALLED: House = house(
    "www.press-seven.example",
    "Press Seven",
    "10.99907",
    Signal::CitationMeta,
    Conduct::Walled,
    false,
);
/// The publisher that is down.
pub(super) static DOWN: House = house(
    "www.press-eight.example",
    "Press Eight",
    "10.99908",
    Signal::CitationMeta,
    Conduct::Down,
    true,
);
/// The publisher whose files are pages.
pub(super) static STUB: House = house(
    "link.press-nine.example",
    "Press Nine",
    "10.99909",
    Signal::CitationMeta,
    Conduct::Stub,
    true,
);
/// The publisher that wants no robot at its files.
pub(super) static STRICT: House = house(
    "papers.press-ten.example",
    "Press Ten",
    "10.99910",
    Signal::CitationMeta,
    Conduct::Disallows,
    true,
);
/// The publisher that took its files away.
pub(super) static OLD: House = house(
    "old.press-eleven.example",
    "Press Eleven",
    "10.99911",
    Signal::CitationMeta,
    Conduct::Gone,
    false,
);

/// Repositories of universities. The last one registers its own DOIs, with `DataCite`.
pub(super) static REPOSITORIES: [House; 3] = [
    house(
        "repository.uni-one.example",
        "University One",
        "10.99921",
        Signal::Eprints,
        Conduct::Plain,
        false,
    ),
    house(
        "repository.uni-two.example",
        "University Two",
        "10.99922",
        Signal::CitationMeta,
        Conduct::Prepares,
        false,
    ),
    house(
        "archive.uni-three.example",
        "University Three",
        "10.99923",
        Signal::DublinCore,
        Conduct::Plain,
        false,
    ),
];

/// All publishers and repositories.
pub(super) fn houses() -> impl Iterator<Item = &'static House> {
    PRESSES
        .iter()
        .chain([&WALLED, &DOWN, &STUB, &STRICT, &OLD])
        .chain(&REPOSITORIES)
}

pub(super) const OPENALEX: &str = "api.openalex.org";
pub(super) const UNPAYWALL: &str = "api.unpaywall.org";
pub(super) const CROSSREF: &str = "api.crossref.org";
pub(super) const DATACITE: &str = "api.datacite.org";
pub(super) const ARXIV: &str = "export.arxiv.org";
pub(super) const ARXIV_FOR_PEOPLE: &str = "arxiv.org";
pub(super) const PMC: &str = "pmc.ncbi.nlm.nih.gov";
pub(super) const PMC_BUCKET: &str = "pmc-oa-opendata.s3.amazonaws.com";
pub(super) const EBI: &str = "www.ebi.ac.uk";
pub(super) const EUROPE_PMC: &str = "europepmc.org";
pub(super) const DOI: &str = "doi.org";
pub(super) const WAYBACK: &str = "web.archive.org";

/// One limit of a host: the role or kind it is for, the beginning of the paths it is for, how many,
/// in what time.
pub(super) struct Limit {
    pub(super) host: &'static str,
    pub(super) role: &'static str,
    pub(super) prefix: &'static str,
    count: u32,
    per: &'static str,
}

impl Limit {
    /// Writes the limit as a rate.
    pub(super) fn rate(&self, scale: u32) -> String {
        format!("{}/{}", self.count.saturating_mul(scale.max(1)), self.per)
    }
}

const fn all(host: &'static str, count: u32, per: &'static str) -> Limit {
    Limit {
        host,
        role: "all",
        prefix: "",
        count,
        per,
    }
}

/// Returns what every host allows.
pub(super) fn limits() -> Vec<Limit> {
    let mut limits = vec![
        all(OPENALEX, 10, "SECOND"),
        all(UNPAYWALL, 10, "SECOND"),
        all(CROSSREF, 10, "SECOND"),
        Limit {
            host: CROSSREF,
            role: "list",
            prefix: "/works?",
            count: 3,
            per: "SECOND",
        },
        all(DATACITE, 3, "SECOND"),
        all(ARXIV, 1, "3SECOND"),
        all(ARXIV_FOR_PEOPLE, 1, "3SECOND"),
        all(PMC, 3, "SECOND"),
        all(PMC_BUCKET, 20, "SECOND"),
        all(EBI, 5, "SECOND"),
        all(EUROPE_PMC, 5, "SECOND"),
        all(DOI, 5, "SECOND"),
        Limit {
            host: WAYBACK,
            role: "metadata",
            prefix: "/cdx/",
            count: 24,
            per: "MINUTE",
        },
        Limit {
            host: WAYBACK,
            role: "artifact",
            prefix: "/web/",
            count: 1,
            per: "SECOND",
        },
    ];
    limits.extend(houses().map(|house| all(house.host, 2, "SECOND")));
    limits.push(all(CDN, 2, "SECOND"));
    limits
}

/// Returns the base of a service, named as in the settings of those who ask.
pub(super) fn endpoint(service: &str) -> Option<String> {
    let (host, path) = match service {
        "openalex" => (OPENALEX, "/"),
        // Nobody sells files here: whoever asks is told that there are none.
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
        _ => return None,
    };
    Some(format!("http://{host}{path}"))
}
