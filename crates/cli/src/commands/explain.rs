//! `docstokg explain ID`: the sources that would be tried for a work, with their order and reasons.
//! Sends no request.

use std::process::ExitCode;
use std::sync::Arc;

use docstokg_content::identifier::Identifier;
use docstokg_content::resolver::all;
use docstokg_content::resolver::order::{ResolverPlan, order};
use docstokg_content::work::Work;
use docstokg_telemetry::summary::table;
use serde_json::json;

use crate::arguments::{ExplainArguments, GlobalArguments};
use crate::exit::CommandFailure;
use crate::{output, services};

/// Runs the command.
pub(crate) fn run(
    global: &GlobalArguments,
    arguments: &ExplainArguments,
) -> Result<ExitCode, CommandFailure> {
    let loaded = global.load()?;
    let usage = |text: String| CommandFailure::Usage(text);
    let work =
        Work::new(Identifier::parse(&arguments.id).map_err(|error| usage(error.to_string()))?);
    let choice = services::choice(&arguments.choice, &loaded.resolvers)?;
    let resolvers = all(&Arc::new(services::settings(
        &loaded.config,
        &loaded.resolvers,
        arguments.choice.mailto.as_deref(),
    )));
    let planned = order(&work, &choice, &resolvers);
    let shown = work.shown_id();
    let plan_name = |plan: ResolverPlan| match plan {
        ResolverPlan::Ask => "ask",
        ResolverPlan::Later => "later",
        ResolverPlan::Skip => "skip",
    };
    if global.json {
        let list: Vec<_> = planned
            .iter()
            .map(|planned| {
                json!({
                    "resolver": planned.resolver,
                    "plan": plan_name(planned.plan),
                    "why": planned.why,
                })
            })
            .collect();
        output::json(&json!({ "work_id": shown, "resolvers": list }));
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<Vec<String>> = planned
        .iter()
        .enumerate()
        .map(|(index, planned)| {
            vec![
                (index + 1).to_string(),
                planned.resolver.to_string(),
                plan_name(planned.plan).to_owned(),
                planned.why.clone(),
            ]
        })
        .collect();
    output::line(&shown);
    if matches!(work.supplied(), Identifier::Url(_)) {
        output::line("the URL itself is fetched first; the sources follow if it is not a file");
    }
    output::text(&table(&["", "source", "", "why"], &rows));
    output::line(
        "sources are tried in this order until a file is found; \
         what one reports may make a later one usable",
    );
    Ok(ExitCode::SUCCESS)
}
