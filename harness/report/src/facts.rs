//! Facts of a run's origin, for the report's end.

use epochcost_judge::analysis::pace;
use epochcost_record::{RunDirectory, Server};
use epochcost_spec::format;
use epochcost_spec::profiles;

use super::view::Fact;

/// Returns every fact of the manifest, the machine and the price book.
pub(super) fn facts(run: &RunDirectory) -> Vec<Fact> {
    let (manifest, machine) = (run.manifest(), run.machine());
    let unknown = || "unknown".to_owned();
    // Values that are put together from several fields.
    let git = manifest.git.as_ref().map_or_else(
        || "not in a git checkout".into(),
        |git| {
            let commit = git.commit.clone().unwrap_or_else(|| "no commit yet".into());
            if git.dirty {
                format!("{commit}, with uncommitted changes")
            } else {
                commit
            }
        },
    );
    let datasets = manifest.datasets.iter().map(|dataset| {
        let kind = if dataset.generated {
            "generated"
        } else {
            "published"
        };
        let files = dataset.files.iter().map(|file| {
            format!(
                "{} {}",
                file.name,
                file.sha256.get(..12).unwrap_or(&file.sha256)
            )
        });
        format!(
            "{} ({kind}): {}",
            dataset.name,
            files.collect::<Vec<_>>().join(", ")
        )
    });
    let limits = machine.limits.iter().map(|limit| {
        let state = if limit.enforced {
            "enforced"
        } else {
            "not enforced"
        };
        format!("{} {state} ({})", limit.what, limit.how)
    });
    let seeds = manifest
        .seeds
        .iter()
        .map(u64::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    let platform = match &manifest.simulation {
        Some(record) => format!("{}, profile {}", manifest.platform, record.profile),
        None => format!(
            "{}, {} services{}",
            manifest.platform,
            manifest.services,
            servers(&machine.servers)
        ),
    };
    // Facts in the order in which they are shown.
    let fact = |name: &str, value| Fact {
        name: name.to_owned(),
        value,
    };
    vec![
        fact("run", manifest.run_id.clone()),
        fact("started", manifest.created.clone()),
        fact("command", format::shell_words(&manifest.command)),
        fact("platform", platform),
        fact(
            "epochcost",
            format!(
                "{}, {}, {}, sha256 {}",
                manifest.epochcost.version,
                manifest.epochcost.profile,
                manifest.epochcost.toolchain.clone().unwrap_or_else(unknown),
                manifest.epochcost.sha256.clone().unwrap_or_else(unknown)
            ),
        ),
        fact(
            "worker sha256",
            match (&manifest.worker_sha256, &manifest.simulation) {
                (Some(hash), _) => hash.clone(),
                (None, Some(_)) => "no worker was started".into(),
                (None, None) => unknown(),
            },
        ),
        fact("git", git),
        fact("seeds", seeds),
        fact(
            "data",
            if manifest.datasets.is_empty() && manifest.simulation.is_some() {
                "none was read: only their sizes count".into()
            } else {
                datasets.collect::<Vec<_>>().join("; ")
            },
        ),
        fact(
            "machine",
            format!(
                "{}, {} CPUs{}, {} memory, Linux {}, load {} at the start",
                machine.cpu.clone().unwrap_or_else(unknown),
                machine.cores,
                machine.cpu_quota.map_or(String::new(), |cpus| {
                    format!(" in a container of {cpus}")
                }),
                format::or_unknown(
                    machine.memory_bytes.map(|bytes| bytes as f64),
                    format::bytes
                ),
                machine.kernel.clone().unwrap_or_else(unknown),
                format::or_unknown(machine.load_average, format::number)
            ),
        ),
        fact(
            "limits of functions",
            match manifest.simulation {
                Some(_) => "the profile's".into(),
                None => limits.collect::<Vec<_>>().join("; "),
            },
        ),
        fact("polls while waiting", polls(run)),
        fact(
            "prices",
            format!(
                "{}, {}: {}",
                run.prices().region(),
                run.prices().date(),
                run.prices().note()
            ),
        ),
    ]
}

/// Returns the pace at which the full account bills polls.
fn polls(run: &RunDirectory) -> String {
    match pace::of_run(run.manifest()) {
        Some(pace) => format!(
            "billed as many as the services of {} would have answered, at {} s per request to the \
             object store and {} s to the queue; not as many as were made here",
            profiles::DEFAULT,
            format::number(pace.objects_s),
            format::number(pace.queue_s)
        ),
        None => "billed as many as were made".to_owned(),
    }
}

/// Returns what real services were, behind a colon; nothing of embedded ones.
fn servers(servers: &[Server]) -> String {
    let one = |server: &Server| {
        let version = server.version.as_deref().unwrap_or("of an unknown version");
        format!("{} {version} ({})", server.name, server.settings)
    };
    if servers.is_empty() {
        String::new()
    } else {
        format!(
            ": {}",
            servers.iter().map(one).collect::<Vec<_>>().join("; ")
        )
    }
}
