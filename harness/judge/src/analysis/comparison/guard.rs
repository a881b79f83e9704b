//! Conditions under which two runs' figures are of the same thing.

use std::collections::BTreeMap;

use epochcost_platform::{Site, site_of};
use epochcost_record::{
    ConstantRecord, Machine, Manifest, PlannedRow, RunDirectory, SimulationRecord,
};
use epochcost_spec::cost::PriceBook;
use epochcost_spec::rows::sandbox::Network;
use serde_json::Value;

use super::{Guard, Repeats};
use crate::analysis::{Analysis, RowAnalysis};

/// Share by which the memory of one machine, as its kernel reports it, may
/// differ.
const SAME_MEMORY: f64 = 0.02;

/// A load beyond this share of its CPUs makes a machine busy.
const BUSY: f64 = 0.5;

/// Returns how trials of both runs repeat; where they differ, as the less exact
/// ones do.
pub(super) fn repeats(before: &Manifest, after: &Manifest) -> Repeats {
    let of = |manifest: &Manifest| match &manifest.simulation {
        None => Repeats::Measured,
        Some(simulation) if simulation.sample => Repeats::Sampled,
        Some(_) => Repeats::Exactly,
    };
    match (of(before), of(after)) {
        (one, other) if one == other => one,
        _ => Repeats::Measured,
    }
}

/// Returns everything that differs between the runs beside their figures.
pub(super) fn guard(
    before: (&RunDirectory, &Analysis),
    after: (&RunDirectory, &Analysis),
) -> Guard {
    let runs = [before.0, after.0];
    let settings = settings(before.1, after.1);
    Guard {
        timed: timed(runs),
        timed_rows: shaped(before.1, after.1),
        learned: learned(runs),
        total_rows: epochs(&settings),
        notes: notes(runs),
        settings,
    }
}

/// Returns rows of which one run trains more epochs.
fn epochs(settings: &[(String, Vec<String>)]) -> BTreeMap<String, String> {
    let of_row = |(id, own): &(String, Vec<String>)| {
        let changed = own
            .iter()
            .find_map(|one| one.strip_prefix("job.epochs: "))?;
        let why = format!("of whole trials, whose epochs differ ({changed})");
        Some((id.clone(), why))
    };
    settings.iter().filter_map(of_row).collect()
}

/// Returns why times are not of the same thing.
fn timed(runs: [&RunDirectory; 2]) -> Option<String> {
    let [before, after] = runs.map(RunDirectory::manifest);
    if before.platform != after.platform {
        let [one, other] = [before, after].map(|manifest| described(&manifest.platform));
        return Some(format!(
            "the first run is {one}, the second {other}: such times are never compared"
        ));
    }
    let [one, other] = [before, after].map(|manifest| &manifest.epochcost.profile);
    if one != other {
        return Some(format!(
            "the first run's build is {one}, the second's {other}"
        ));
    }
    match (&before.simulation, &after.simulation) {
        (Some(before), Some(after)) => simulated(before, after),
        _ if is_this_machine(&before.platform) => machines(runs.map(RunDirectory::machine)),
        _ => None,
    }
}

fn described(platform: &str) -> String {
    match site_of(platform) {
        Some(Site::ThisMachine) => format!("measured on this kind of machine ({platform})"),
        Some(Site::VirtualTime) => format!("simulated ({platform})"),
        Some(Site::Cloud(title)) => format!("measured on {title} ({platform})"),
        None => platform.to_owned(),
    }
}

fn is_this_machine(platform: &str) -> bool {
    site_of(platform) == Some(Site::ThisMachine)
}

/// Returns why two simulations do not stand on the same machine.
fn simulated(before: &SimulationRecord, after: &SimulationRecord) -> Option<String> {
    let (one, other) = (&before.profile, &after.profile);
    if one != other {
        return Some(format!(
            "the first run stands on the profile {one}, the second on {other}"
        ));
    }
    let is_kept = |constant: &ConstantRecord| {
        let mut others = after.constants.iter();
        let same = others.find(|other| other.path == constant.path);
        same.is_some_and(|other| other.value == constant.value)
    };
    let changed = (before.constants.iter()).filter(|constant| !is_kept(constant));
    let changed: Vec<&str> = changed.map(|constant| &*constant.path).collect();
    if !changed.is_empty() {
        return Some(format!("constants differ: {}", changed.join(", ")));
    }
    if before.compute != after.compute {
        return Some("they stand on different compute times".to_owned());
    }
    (before.sample != after.sample)
        .then(|| "one samples the ranges of its constants, the other does not".to_owned())
}

/// Returns why two local runs were not on the same machine, as far as the
/// records show.
fn machines([before, after]: [&Machine; 2]) -> Option<String> {
    let gpus_differ = before.gpus != after.gpus;
    let quotas_differ = before.cpu_quota != after.cpu_quota;
    if before.cpu != after.cpu || before.cores != after.cores || quotas_differ || gpus_differ {
        let described_as = |machine: &Machine| {
            let cpu = machine.cpu.as_deref().unwrap_or("an unknown CPU");
            let gpus = Some(&machine.gpus).filter(|_| gpus_differ);
            let gpus = gpus.map(|gpus| format!(" and GPUs [{}]", gpus.join(", ")));
            let quota = machine.cpu_quota;
            let quota = quota.map(|cpus| format!(" in a container of {cpus} CPUs"));
            let [quota, gpus] = [quota, gpus].map(Option::unwrap_or_default);
            format!("{cpu} with {} CPUs{quota}{gpus}", machine.cores)
        };
        let [one, other] = [before, after].map(described_as);
        return Some(format!("other machines: {one} and {other}"));
    }
    if let (Some(memory), Some(other)) = (before.memory_bytes, after.memory_bytes)
        && (memory as f64 / other as f64 - 1.0).abs() > SAME_MEMORY
    {
        let both = format!("{memory} and {other} bytes of memory");
        return Some(format!("other machines: {both}"));
    }
    // A limit that one of the two programs did not know yet proves nothing.
    let differs = before.limits.iter().any(|limit| {
        let other = after.limits.iter().find(|other| other.what == limit.what);
        other.is_some_and(|other| other.enforced != limit.enforced)
    });
    differs.then(|| {
        "limits of functions were enforced in one run and not in the other; `epochcost doctor` \
         reports why"
            .to_owned()
    })
}

/// Returns rows whose network is another: nothing that is timed is of the same
/// thing.
fn shaped(before: &Analysis, after: &Analysis) -> BTreeMap<String, String> {
    let described_as = |network: Option<&Network>| match network {
        None => "left as it is".to_owned(),
        Some(network) => format!("shaped to {network}"),
    };
    let pairs = before.rows.iter().filter_map(|row| {
        let (id, one) = (&row.planned.row.id, &row.planned.row.sandbox.network);
        let other = &row_of(after, id)?.planned.row.sandbox.network;
        (one != other).then(|| {
            let [one, other] = [one, other].map(|network| described_as(network.as_ref()));
            let why = format!("the first run's network is {one}, the second's {other}");
            (id.clone(), why)
        })
    });
    pairs.collect()
}

/// Returns why losses and accuracies are not of the same data.
fn learned(runs: [&RunDirectory; 2]) -> Option<String> {
    let [before, after] = runs.map(|run| &run.manifest().datasets);
    (before != after).then(|| "they were trained on different files".to_owned())
}

/// Notes for readers.
fn notes(runs: [&RunDirectory; 2]) -> Vec<String> {
    let [before, after] = runs.map(RunDirectory::manifest);
    let mut notes = Vec::new();
    if before.worker_sha256 != after.worker_sha256 {
        notes.push("the worker is another binary".to_owned());
    }
    if before.epochcost.sha256 != after.epochcost.sha256 {
        notes.push("the harness is another binary".to_owned());
    }
    let (one, other) = (&before.services, &after.services);
    if one != other {
        notes.push(format!(
            "the first ran on {one} services, the second on {other} ones"
        ));
    } else if runs[0].machine().servers != runs[1].machine().servers {
        notes.push("the servers are of other versions or settings".to_owned());
    }
    notes.extend(priced(runs.map(RunDirectory::prices)));
    if is_this_machine(&before.platform) && is_this_machine(&after.platform) {
        notes.extend(busy(runs));
    }
    notes
}

/// Returns the note on price books that differ.
fn priced([first, second]: [&PriceBook; 2]) -> Option<String> {
    let [one, other] = [first, second].map(|book| format!("{}, {}", book.region(), book.date()));
    if first.text() == second.text() {
        return None;
    }
    let books = if one == other {
        format!("two books of {one}")
    } else {
        format!("of {one}, and of {other}")
    };
    Some(format!("costs are at each run's own prices: {books}"))
}

fn busy(runs: [&RunDirectory; 2]) -> Vec<String> {
    let mut notes = Vec::new();
    let [before, after] = runs.map(RunDirectory::machine);
    if before.kernel != after.kernel {
        notes.push("the kernel is another one".to_owned());
    }
    for (which, machine) in [("first", before), ("second", after)] {
        let cores = machine.cores as f64;
        if let Some(load) = machine.load_average.filter(|load| *load > BUSY * cores) {
            notes.push(format!(
                "the machine was busy when the {which} run began (load {load:.2} on {cores} \
                 CPUs): repeat it on a quiet one before believing a difference of times"
            ));
        }
    }
    notes
}

/// Returns, for each row that both runs have, the settings that differ.
fn settings(before: &Analysis, after: &Analysis) -> Vec<(String, Vec<String>)> {
    let of_row = |row: &RowAnalysis| {
        let id = &row.planned.row.id;
        let other = row_of(after, id)?;
        let mut found = Vec::new();
        let [one, other] = [row, other].map(|row| comparable(&row.planned));
        differences("", &one, &other, &mut found);
        (!found.is_empty()).then(|| (id.clone(), found))
    };
    before.rows.iter().filter_map(of_row).collect()
}

/// Returns a row by its id.
fn row_of<'a>(analysis: &'a Analysis, id: &str) -> Option<&'a RowAnalysis> {
    let mut rows = analysis.rows.iter();
    rows.find(|row| row.planned.row.id == id)
}

/// Returns a row without what differs in every run.
fn comparable(planned: &PlannedRow) -> Value {
    let mut value = serde_json::to_value(&planned.row).unwrap_or(Value::Null);
    if let Some(job) = value.get_mut("job").and_then(Value::as_object_mut) {
        job.remove("trial");
        job.remove("seed");
    }
    value
}

/// Every path at which two values differ: `job.batch_size: 32 -> 16`.
fn differences(path: &str, before: &Value, after: &Value, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(one), Value::Object(other)) => {
            let new = other.keys().filter(|key| !one.contains_key(*key));
            for key in one.keys().chain(new) {
                let path = match path {
                    "" => key.clone(),
                    path => format!("{path}.{key}"),
                };
                let [one, other] = [one, other].map(|map| map.get(key).unwrap_or(&Value::Null));
                differences(&path, one, other, found);
            }
        }
        (before, after) if before != after => {
            found.push(format!("{path}: {before} -> {after}"));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use epochcost_record::Limit;
    use epochcost_spec::claims::Metric;
    use serde_json::json;

    use super::*;
    use crate::testing::holds;

    #[test]
    fn differences_name_their_path() {
        let before = json!({"a": 1, "b": {"c": 2, "d": [1]}});
        let after = json!({"a": 1, "b": {"c": 3, "d": [1], "e": true}});
        let mut found = Vec::new();
        differences("", &before, &after, &mut found);
        assert_eq!(found, ["b.c: 2 -> 3", "b.e: null -> true"]);
    }

    /// Half of the training was once called cheaper.
    #[test]
    fn rows_of_unlike_epochs_have_times_but_no_totals_in_common() {
        let row = |setting: &str| vec![("a".to_owned(), vec![setting.to_owned()])];
        let unlike = Guard {
            total_rows: epochs(&row("job.epochs: 2 -> 1")),
            ..Guard::default()
        };
        let why = |row, metric| unlike.why_unlike(row, metric);
        assert!(why("a", Metric::CostFullUsd).is_some_and(|why| why.contains("2 -> 1")));
        assert!(why("a", Metric::Puts).is_some());
        assert_eq!(why("a", Metric::SecondsPerEpoch), None);
        assert_eq!(why("b", Metric::Puts), None);
        assert!(epochs(&row("job.batch_size: 2 -> 1")).is_empty());
    }

    #[test]
    fn other_machines_have_other_times() {
        let other = Guard {
            timed: Some("another machine".to_owned()),
            ..Guard::default()
        };
        use Metric::{Bytes, CostFullUsd, PeakMemoryMb, SecondsPerEpoch};
        for metric in [SecondsPerEpoch, CostFullUsd, PeakMemoryMb] {
            assert_eq!(other.why_unlike("a", metric), Some("another machine"));
        }
        assert_eq!(other.why_unlike("a", Bytes), None);
    }

    fn machine() -> Machine {
        let machine = json!({
            "cpu": "A", "cores": 2, "memory_bytes": 1_000_000_000, "kernel": "6.1",
            "load_average": 0.1, "gpus": [], "limits": [], "servers": [],
        });
        serde_json::from_value(machine).unwrap()
    }

    #[test]
    fn one_machine_may_lose_a_little_memory_to_its_kernel() {
        let other = |change: fn(&mut Machine)| {
            let mut other = machine();
            change(&mut other);
            machines([&machine(), &other])
        };
        assert_eq!(other(|of| of.memory_bytes = Some(995_000_000)), None);
        assert_eq!(other(|of| of.kernel = None), None);
        assert!(other(|of| of.memory_bytes = Some(2_000_000_000)).is_some());
        assert!(other(|of| of.cpu = None).is_some());
        let why = |change| other(change).unwrap();
        holds(why(|of| of.cores = 4), &["4 CPUs"]);
        let quota = why(|of| of.cpu_quota = Some(1.5));
        holds(quota, &["container of 1.5 CPUs"]);
        holds(why(|of| of.gpus = vec!["T4".into()]), &["[T4]"]);
    }

    #[test]
    fn limits_of_functions_must_hold_in_both_runs_or_in_neither() {
        let limit = |(what, enforced): &(&str, bool)| Limit {
            what: (*what).to_owned(),
            enforced: *enforced,
            how: "somehow".to_owned(),
        };
        let with = |limits: &[(&str, bool)]| Machine {
            limits: limits.iter().map(limit).collect(),
            ..machine()
        };
        let held = with(&[("cpu", true), ("memory", true)]);
        let newer = with(&[("cpu", true), ("memory", true), ("storage", true)]);
        let not_held = with(&[("cpu", false), ("memory", true)]);
        assert_eq!(machines([&held, &newer]), None);
        assert_eq!(machines([&newer, &held]), None);
        assert!(machines([&held, &not_held]).is_some_and(|why| why.contains("doctor")));
    }
}
