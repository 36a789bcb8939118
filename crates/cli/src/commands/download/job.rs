//! The job of a directory: the options that all of its runs have in common.
//!
//! They are stored with the queue, and a later run uses those that its command leaves out. An option
//! that decides what the files of the directory are may not change. Any other may, and the run says
//! so. Options of a single run are not stored: workers, bytes, free space, and the global ones.

use std::collections::BTreeSet;
use std::path::Path;

use docstokg_bulk::directory::Directory;
use docstokg_content::run::query::WorkQuery;
use docstokg_content::work_state::ArtifactKind;
use docstokg_hub::policy::role::Role;
use serde::{Deserialize, Serialize};

use super::input_list::{InputList, list_name};
use super::kinds;
use super::options::{JobOption, OptionJoin};
use crate::arguments::{DownloadArguments, ResolverFlags};
use crate::exit::CommandFailure;

/// The setting of the queue with the job.
pub(super) const JOB_SETTING: &str = "job";
/// The version of the stored form. Options that are added have defaults and need no new version.
const JOB_VERSION: u32 = 1;

/// The options of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct JobOptions {
    version: u32,
    pub(super) kinds: BTreeSet<ArtifactKind>,
    pub(super) content_addressed: bool,
    role: String,
    sources: SourceOptions,
    pub(super) mailto: Option<String>,
    pub(super) min_pdf_bytes: u64,
    pub(super) max_attempts: u32,
    pub(super) item_deadline_s: Option<f64>,
    pub(super) max_wait_s: f64,
    pub(super) ignore_robots: bool,
    /// The latest query.
    query: Option<WorkQuery>,
    /// The latest inputs.
    inputs: InputList,
    /// Files, and `-` for stdin, that were given as untrusted.
    untrusted_inputs: BTreeSet<String>,
}

/// The choice of sources, as the flags have it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct SourceOptions {
    order: Option<String>,
    preset: Option<String>,
    enable: Vec<String>,
    disable: Vec<String>,
}

impl Default for JobOptions {
    fn default() -> Self {
        Self {
            version: JOB_VERSION,
            kinds: BTreeSet::from([ArtifactKind::Pdf]),
            content_addressed: false,
            role: Role::Artifact.as_str().to_owned(),
            sources: SourceOptions::default(),
            mailto: None,
            min_pdf_bytes: 1_024,
            max_attempts: 20,
            item_deadline_s: None,
            max_wait_s: 3_600.0,
            ignore_robots: false,
            query: None,
            inputs: InputList::default(),
            untrusted_inputs: BTreeSet::new(),
        }
    }
}

/// The job of a run: what it uses and stores.
pub(super) struct JobPlan {
    pub(super) options: JobOptions,
    /// The messages about options that the run takes over or changes.
    pub(super) notices: Vec<String>,
    /// The directory has a stored job.
    pub(super) is_stored: bool,
    /// The query that this command gives.
    pub(super) query: Option<WorkQuery>,
    /// The command gives neither inputs nor a query: it continues those of the job.
    pub(super) is_continuation: bool,
}

impl JobOptions {
    /// Reads the job of a directory; `None` if it has no job.
    ///
    /// # Errors
    /// A later version wrote it.
    pub(super) fn read(out: &Path) -> Result<Option<Self>, CommandFailure> {
        let Some(text) = Directory::read_setting(out, JOB_SETTING) else {
            return Ok(None);
        };
        match serde_json::from_str::<Self>(&text) {
            Ok(read) if read.version <= JOB_VERSION => Ok(Some(read)),
            _ => Err(CommandFailure::Usage(format!(
                "the options of the job in {} cannot be read by this version; continue with the \
                 version that wrote them, or choose another --out",
                out.display()
            ))),
        }
    }

    /// Returns the form that is stored.
    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the role of requests for files.
    pub(super) fn role(&self) -> Role {
        self.role.parse().unwrap_or(Role::Artifact)
    }

    /// Returns the flags that choose the sources.
    pub(super) fn resolver_flags(&self) -> ResolverFlags {
        let SourceOptions {
            order,
            preset,
            enable,
            disable,
        } = self.sources.clone();
        ResolverFlags {
            resolver_order: order,
            resolver_preset: preset,
            enable,
            disable,
            mailto: self.mailto.clone(),
        }
    }

    /// Returns the latest query.
    pub(super) const fn query(&self) -> Option<&WorkQuery> {
        self.query.as_ref()
    }

    /// Returns the latest inputs.
    pub(super) const fn inputs(&self) -> &InputList {
        &self.inputs
    }
}

impl JobPlan {
    /// Joins what a command says with the job of its directory.
    ///
    /// # Errors
    /// The command contradicts the job.
    pub(super) fn join(
        arguments: &DownloadArguments,
        stored: Option<JobOptions>,
    ) -> Result<Self, CommandFailure> {
        let is_stored = stored.is_some();
        let mut options = stored.unwrap_or_default();
        let mut join = OptionJoin::new(is_stored);
        join_files(&mut join, &mut options, arguments)?;
        join_sources(&mut join, &mut options, arguments);
        join_limits(&mut join, &mut options, arguments);
        let query = given_query(arguments);
        join_query(&mut join, &mut options, query.as_ref());
        join_trust(&mut join, &mut options, arguments);
        let notices = join.end(&arguments.out)?;
        if !arguments.inputs.is_empty() {
            options.inputs = InputList::of(arguments);
        }
        Ok(Self {
            options,
            notices,
            is_stored,
            is_continuation: query.is_none() && arguments.inputs.is_empty(),
            query,
        })
    }
}

/// Joins what decides which files the directory has.
fn join_files(
    join: &mut OptionJoin,
    options: &mut JobOptions,
    arguments: &DownloadArguments,
) -> Result<(), CommandFailure> {
    let usual = JobOptions::default();
    join.fix(JobOption {
        flag: "--kinds",
        value: &mut options.kinds,
        usual: usual.kinds,
        given: arguments.kinds.as_deref().map(kinds).transpose()?,
        shown: |kinds| {
            let kinds: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
            kinds.join(",")
        },
    });
    join.fix(JobOption {
        flag: "--content-addressed",
        value: &mut options.content_addressed,
        usual: usual.content_addressed,
        given: arguments.content_addressed,
        shown: bool::to_string,
    });
    join.set(JobOption {
        flag: "--min-pdf-bytes",
        value: &mut options.min_pdf_bytes,
        usual: usual.min_pdf_bytes,
        given: arguments.min_pdf_bytes,
        shown: u64::to_string,
    });
    Ok(())
}

/// Joins which sources are asked, and in whose name.
fn join_sources(join: &mut OptionJoin, options: &mut JobOptions, arguments: &DownloadArguments) {
    let given = arguments.choice.clone();
    let sources = &mut options.sources;
    let texts = [
        (
            "--resolver-preset",
            &mut sources.preset,
            given.resolver_preset,
        ),
        ("--resolver-order", &mut sources.order, given.resolver_order),
        ("--mailto", &mut options.mailto, given.mailto),
    ];
    for (flag, value, given) in texts {
        join.set(JobOption {
            flag,
            value,
            usual: None,
            given: given.map(Some),
            shown: |text| text.clone().unwrap_or_default(),
        });
    }
    let lists = [
        ("--enable", &mut sources.enable, given.enable),
        ("--disable", &mut sources.disable, given.disable),
    ];
    for (flag, value, given) in lists {
        join.set(JobOption {
            flag,
            value,
            usual: Vec::new(),
            given: (!given.is_empty()).then_some(given),
            shown: |names| names.join(","),
        });
    }
}

/// Joins how far a run goes for a work, and how it requests.
fn join_limits(join: &mut OptionJoin, options: &mut JobOptions, arguments: &DownloadArguments) {
    let usual = JobOptions::default();
    join.set(JobOption {
        flag: "--role",
        value: &mut options.role,
        usual: usual.role,
        given: arguments.role.map(|role| role.as_str().to_owned()),
        shown: String::clone,
    });
    join.set(JobOption {
        flag: "--max-attempts",
        value: &mut options.max_attempts,
        usual: usual.max_attempts,
        given: arguments.max_attempts,
        shown: u32::to_string,
    });
    join.set(JobOption {
        flag: "--item-deadline",
        value: &mut options.item_deadline_s,
        usual: None,
        given: arguments
            .item_deadline
            .map(|given| Some(given.as_secs_f64())),
        shown: |seconds| seconds.map_or_else(String::new, |seconds| format!("{seconds}s")),
    });
    join.set(JobOption {
        flag: "--max-wait",
        value: &mut options.max_wait_s,
        usual: usual.max_wait_s,
        given: arguments.max_wait.map(|given| given.as_secs_f64()),
        shown: |seconds| format!("{seconds}s"),
    });
    join.set(JobOption {
        flag: "--ignore-robots",
        value: &mut options.ignore_robots,
        usual: false,
        given: arguments.ignore_robots,
        shown: bool::to_string,
    });
}

/// Joins the query. Inputs that are given instead leave the stored one as it is.
fn join_query(join: &mut OptionJoin, options: &mut JobOptions, given: Option<&WorkQuery>) {
    let is_first = options.query.is_none();
    let Some(given) = given else {
        return;
    };
    if is_first {
        options.query = Some(given.clone());
        return;
    }
    join.set(JobOption {
        flag: "the query",
        value: &mut options.query,
        usual: None,
        given: Some(Some(given.clone())),
        shown: query_text,
    });
}

/// Remembers which inputs are untrusted. One that was given as such may not be given as trusted.
fn join_trust(join: &mut OptionJoin, options: &mut JobOptions, arguments: &DownloadArguments) {
    for input in &arguments.inputs {
        let Some(name) = list_name(input) else {
            continue;
        };
        if arguments.untrusted_input {
            options.untrusted_inputs.insert(name);
        } else if options.untrusted_inputs.contains(&name) {
            join.refuse(format!(
                "{input} was given with --untrusted-input, and this command gives it without: add \
                 --untrusted-input, or put what you trust into another file"
            ));
        }
    }
}

/// Returns the query of a command.
fn given_query(arguments: &DownloadArguments) -> Option<WorkQuery> {
    (arguments.topic.is_some() || arguments.filter.is_some()).then(|| WorkQuery {
        topic: arguments.topic.clone(),
        filter: arguments.filter.clone(),
        year_start: arguments.year_start,
        year_end: arguments.year_end,
        most: arguments.max,
    })
}

/// Writes a query as its flags.
fn query_text(query: &Option<WorkQuery>) -> String {
    let Some(query) = query else {
        return String::new();
    };
    let number = |flag: &str, value: Option<String>| value.map(|value| format!("{flag} {value}"));
    let parts = [
        number("--topic", query.topic.clone()),
        number("--filter", query.filter.clone()),
        number(
            "--year-start",
            query.year_start.map(|year| year.to_string()),
        ),
        number("--year-end", query.year_end.map(|year| year.to_string())),
        number("--max", query.most.map(|most| most.to_string())),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}
