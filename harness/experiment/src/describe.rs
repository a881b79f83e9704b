//! What an experiment expands to, for people and for machines.

use epochcost_channels::Traffic;
use epochcost_kernels::optimizer::OptimizerSpec;
use epochcost_spec::claims::{Claim, ClaimKind};
use epochcost_spec::format::{bytes_in_column, megabytes};
use epochcost_spec::rows::Row;
use epochcost_spec::ui::table;
use epochcost_systems::{Host, find};
use serde::Serialize;

use super::{Data, Experiment, PlatformKind, Services};

/// What an experiment expands to.
#[derive(Serialize)]
struct Expanded<'a> {
    file: String,
    name: &'a str,
    description: &'a str,
    platform: PlatformKind,
    services: Services,
    seed: u64,
    trials: usize,
    data: &'a Data,
    rows: Vec<ExpandedRow<'a>>,
    claims: &'a [Claim],
}

#[derive(Serialize)]
struct ExpandedRow<'a> {
    row: &'a Row,
    parameters: usize,
    gradient_bytes: u64,
    /// The exchange of one trial by the system's closed form.
    traffic: Option<Traffic>,
}

/// Returns what the experiment expands to, for machines.
pub fn expanded(experiment: &Experiment) -> impl Serialize + use<'_> {
    Expanded {
        file: experiment.document.file.display().to_string(),
        name: &experiment.name,
        description: &experiment.description,
        platform: experiment.platform,
        services: experiment.services,
        seed: experiment.seed,
        trials: experiment.trials,
        data: &experiment.data,
        rows: experiment.rows.iter().map(expand_row).collect(),
        claims: &experiment.claims,
    }
}

fn expand_row(row: &Row) -> ExpandedRow<'_> {
    let sizes = row.sizes();
    ExpandedRow {
        row,
        parameters: sizes.parameters,
        gradient_bytes: sizes.gradient_bytes(),
        traffic: find(&row.job.system)
            .and_then(|system| system.bind(&row.job).ok()?.traffic(sizes).ok()),
    }
}

/// Returns the experiment in a few lines and a table of its rows.
pub fn describe(experiment: &Experiment) -> String {
    let data = &experiment.data;
    let directory = data.directory.display().to_string();
    let place = Some(format!(" in {directory}")).filter(|_| !directory.is_empty());
    let head = format!(
        "{}: {} rows x {} trials on {} ({} services), seed {}\n\
         data: {}{} ({} training, {} test samples)\n",
        experiment.name,
        experiment.rows.len(),
        experiment.trials,
        experiment.platform.as_str(),
        experiment.services.as_str(),
        experiment.seed,
        data.name,
        place.unwrap_or_default(),
        data.train,
        data.test,
    );
    let rows: Vec<[String; 11]> = experiment.rows.iter().map(describe_row).collect();
    let heading = [
        "row",
        "W",
        "b",
        "B",
        "E",
        "memory",
        "optimizer",
        "puts",
        "gets",
        "up",
        "down",
    ];
    let legend = "W workers, b batch size, B batches per worker and epoch, E epochs; \
                  puts, gets and bytes: the exchange of one trial by closed form";
    let claims = claims(&experiment.claims);
    format!("{head}\n{}\n\n{legend}{claims}\n", table(heading, &rows))
}

/// Returns the number of claims by kind, and those that options exclude, each
/// reason in a line.
fn claims(claims: &[Claim]) -> String {
    if claims.is_empty() {
        return String::new();
    }
    let kinds = [
        (ClaimKind::Published, "published"),
        (ClaimKind::Consequence, "consequences"),
        (ClaimKind::Own, "own findings"),
        (ClaimKind::Check, "checks"),
    ];
    let of_kinds = kinds.into_iter().filter_map(|(kind, name)| {
        let count = claims.iter().filter(|claim| claim.kind == kind).count();
        (count > 0).then(|| format!("{count} {name}"))
    });
    let of_kinds: Vec<String> = of_kinds.collect();
    let mut text = format!("\n{} claims: {}", claims.len(), of_kinds.join(", "));
    // Reasons for exclusion, with the number of claims.
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    for why in claims.iter().filter_map(|claim| claim.excluded.as_deref()) {
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, count)) => *count += 1,
            None => reasons.push((why, 1)),
        }
    }
    for (why, count) in reasons {
        let noun = if count == 1 { "claim is" } else { "claims are" };
        text.push_str(&format!("\n{count} {noun} excluded by {why}"));
    }
    text
}

/// Memory of a row's functions: one size, or the least and the most.
fn sizes(row: &Row) -> String {
    let all = || {
        row.function_memory_mb
            .values()
            .copied()
            .chain([row.memory_mb])
    };
    let (least, most) = (all().min().unwrap_or(0), all().max().unwrap_or(0));
    if least == most {
        megabytes(most.into())
    } else {
        format!("{least} to {}", megabytes(most.into()))
    }
}

fn describe_row(row: &Row) -> [String; 11] {
    let job = &row.job;
    let traffic = expand_row(row).traffic;
    let count = |of: fn(Traffic) -> u64| traffic.map_or("-".to_owned(), |t| of(t).to_string());
    let size = |of: fn(Traffic) -> u64| traffic.map_or("-".to_owned(), |t| bytes_in_column(of(t)));
    let runs_on = |host| find(&job.system).is_none_or(|system| system.deployment().runs_on(host));
    let memory = match (runs_on(Host::Instance), runs_on(Host::Function)) {
        (true, false) => row.instance_type.clone(),
        (false, _) => sizes(row),
        (true, true) => format!("{}, {}", row.instance_type, sizes(row)),
    };
    [
        row.id.clone(),
        job.workers.to_string(),
        job.batch_size.to_string(),
        job.batches_per_worker.to_string(),
        job.epochs.to_string(),
        memory,
        optimizer(&job.optimizer),
        count(|t| t.puts),
        count(|t| t.gets),
        size(|t| t.bytes_up),
        size(|t| t.bytes_down),
    ]
}

fn optimizer(spec: &OptimizerSpec) -> String {
    match spec {
        OptimizerSpec::Sgd(sgd) => {
            let (rate, decay) = (sgd.learning_rate, sgd.weight_decay);
            format!("sgd {rate} momentum {} decay {decay}", sgd.momentum)
        }
        OptimizerSpec::Adam(adam) => {
            format!("adam {} decay {}", adam.learning_rate, adam.weight_decay)
        }
    }
}
