//! Facts of a run's origin, for the report's end.

use epochcost_judge::analysis::pace;
use epochcost_record::{DatasetRecord, RunDirectory, Server};
use epochcost_spec::format;
use epochcost_spec::profiles;

use super::view::Fact;

/// Returns every fact of the manifest, the machine and the price book.
pub(super) fn facts(run: &RunDirectory) -> Vec<Fact> {
    let (manifest, machine, prices) = (run.manifest(), run.machine(), run.prices());
    let program = &manifest.epochcost;
    // Values that are put together from several fields.
    let git = match &manifest.git {
        None => "not in a git checkout".into(),
        Some(git) => {
            let commit = git.commit.as_deref().unwrap_or("no commit yet");
            let dirty = if git.dirty {
                ", with uncommitted changes"
            } else {
                ""
            };
            format!("{commit}{dirty}")
        }
    };
    let datasets = manifest.datasets.iter().map(|dataset| {
        let files = dataset.files.iter().map(|file| {
            let hash = file.sha256.get(..12).unwrap_or(&file.sha256);
            format!("{} {hash}", file.name)
        });
        let files: Vec<String> = files.collect();
        let origin = origin(dataset);
        format!("{} ({origin}): {}", dataset.name, files.join(", "))
    });
    let limits = machine.limits.iter().map(|limit| {
        let not = if limit.enforced { "" } else { "not " };
        format!("{} {not}enforced ({})", limit.what, limit.how)
    });
    let seeds: Vec<String> = manifest.seeds.iter().map(u64::to_string).collect();
    let platform = match &manifest.simulation {
        Some(record) => format!("{}, profile {}", manifest.platform, record.profile),
        None => {
            let servers = servers(&machine.servers);
            let (platform, services) = (&manifest.platform, &manifest.services);
            format!("{platform}, {services} services{servers}")
        }
    };
    let build = [
        &*program.version,
        &program.profile,
        known(&program.toolchain),
    ]
    .join(", ");
    let worker = match (&manifest.worker_sha256, &manifest.simulation) {
        (None, Some(_)) => "no worker was started",
        (hash, _) => known(hash),
    };
    let quota = machine.cpu_quota;
    let quota = quota.map_or(String::new(), |cpus| format!(" in a container of {cpus}"));
    let memory = machine.memory_bytes.map(|bytes| bytes as f64);
    let memory = format::or_unknown(memory, format::bytes);
    let (cpu, cores) = (known(&machine.cpu), machine.cores);
    let hardware = format!("{cpu}, {cores} CPUs{quota}, {memory} memory");
    let load = format::or_unknown(machine.load_average, format::number);
    let system = format!("Linux {}, load {load} at the start", known(&machine.kernel));
    // Facts in the order in which they are shown.
    let fact = Fact::new;
    vec![
        fact("run", manifest.run_id.clone()),
        fact("started", manifest.created.clone()),
        fact("command", format::shell_words(&manifest.command)),
        fact("platform", platform),
        fact(
            "epochcost",
            format!("{build}, sha256 {}", known(&program.sha256)),
        ),
        fact("worker sha256", worker.to_owned()),
        fact("git", git),
        fact("seeds", seeds.join(", ")),
        fact(
            "data",
            if manifest.datasets.is_empty() && manifest.simulation.is_some() {
                "none was read: only their sizes count".into()
            } else {
                datasets.collect::<Vec<_>>().join("; ")
            },
        ),
        fact("machine", format!("{hardware}, {system}")),
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
            format!("{}, {}: {}", prices.region(), prices.date(), prices.note()),
        ),
    ]
}

/// Returns a text, or that it is not known.
fn known(text: &Option<String>) -> &str {
    text.as_deref().unwrap_or("unknown")
}

/// Returns where the data of a set comes from.
pub(super) fn origin(dataset: &DatasetRecord) -> &'static str {
    if dataset.generated {
        "generated"
    } else {
        "published"
    }
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
    match servers.iter().map(one).collect::<Vec<_>>().as_slice() {
        [] => String::new(),
        servers => format!(": {}", servers.join("; ")),
    }
}
