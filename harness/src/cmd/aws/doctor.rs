//! `aws doctor`: what an account can do, and what its callers need.

use std::path::Path;

use epochcost_experiment::{Experiment, FormName, Options};
use epochcost_planner::error::Error;
use epochcost_platform::{Finding, PlatformKind, PlatformOptions};
use epochcost_spec::exit::Exit;
use epochcost_spec::ui::Output;

use crate::cmd::findings;
use crate::run::platform_findings;

/// Checks the accounts of clouds, for an experiment where one is named.
///
/// # Errors
/// When this build has no cloud's clients, no region is configured, or the experiment is unusable.
pub async fn account(experiment: Option<&Path>, output: Output) -> Result<Exit, Error> {
    let mut findings = Vec::new();
    let kinds = PlatformKind::all().iter();
    for kind in kinds.filter(|kind| kind.site().is_cloud()) {
        findings.extend(of_account(*kind, experiment).await?);
    }
    findings::show(&findings, output);
    output.json(&findings);
    Ok(Exit::Done)
}

/// Prints the policy of every cloud's callers.
///
/// # Errors
/// When this build has no cloud's clients.
pub fn policy(output: Output) -> Result<Exit, Error> {
    for kind in PlatformKind::all() {
        if let Some(cloud) = kind.cloud()? {
            let policy = cloud.caller_policy();
            output.text(format_args!("{policy:#}"));
            output.json(&policy);
        }
    }
    Ok(Exit::Done)
}

/// Checks an account, for an experiment where one is named.
async fn of_account(kind: PlatformKind, file: Option<&Path>) -> Result<Vec<Finding>, Error> {
    let Some(file) = file else {
        let platform = kind.open(PlatformOptions::default())?;
        return Ok(platform.doctor().await?);
    };
    // What `reproduce` runs there, where the experiment has a form for it.
    let whole = Experiment::load(file, &Options::default())?;
    let form = FormName::of(kind).filter(|name| {
        let form = whole.forms.get(*name);
        form.is_some_and(|form| form.leave_out.is_none())
    });
    let options = Options {
        platform: form.is_none().then_some(kind),
        form,
        ..Options::default()
    };
    platform_findings(&Experiment::load(file, &options)?).await
}
