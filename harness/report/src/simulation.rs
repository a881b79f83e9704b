//! Profiles and constants of a simulation, for the report.

use epochcost_judge::analysis::titles::{device_title, model_title};
use epochcost_record::{ComputeRecord, ConstantRecord, SimulationRecord};
use epochcost_simulator::profile::{ComputeOrigin, FunctionDevice, ModelCost};
use epochcost_spec::format;
use epochcost_systems::Device;
use serde::Serialize;

use super::table::{Cell, Table};
use super::view::{Fact, Shown};

/// The section; texts are not yet escaped.
#[derive(Debug, Serialize)]
pub(super) struct SimulationView {
    pub facts: Vec<Fact>,
    pub compute: Shown,
    pub constants: Shown,
}

impl SimulationView {
    pub(super) fn of(record: &SimulationRecord) -> Self {
        let mut compute = Table::headed(
            "Compute profiles that the rows use",
            "model: | on: | training step: | evaluation: | sped up by vCPUs | memory: | fit: | \
             profile: | source…",
        );
        for known in &record.compute {
            let costs = known.costs.iter();
            costs.for_each(|cost| compute.row(compute_cells(known, cost)));
        }
        let columns = ["constant:", "value", "source…"];
        let mut constants = Table::new("Constants of the platform profile", &columns);
        let known = record.constants.iter();
        known.for_each(|known| constants.row(constant(known)));
        constants.notes.push(
            "A path ends in the unit; bandwidths are bytes per second, by memory size in MB. Below \
             a value stands the range that its sources give, where they differ."
                .to_owned(),
        );
        Self {
            facts: facts(record),
            compute: compute.into(),
            constants: constants.into(),
        }
    }
}

fn facts(record: &SimulationRecord) -> Vec<Fact> {
    let switch = |name: &str, is_on: bool, [no, yes]: [&str; 2]| {
        Fact::new(name, if is_on { yes } else { no }.to_owned())
    };
    // Profiles and the functions' device.
    let profile = format!("{}: {}", record.profile, record.about.trim());
    let mut facts = vec![Fact::new("platform profile", profile)];
    facts.extend(record.compute.iter().map(|known| {
        let (name, about) = (&known.name, known.about.trim());
        let value = format!("{name} ({}): {about}", origin(known.origin));
        Fact::new("compute profile", value)
    }));
    let devices = ["a GPU of their own", "vCPUs, by memory size"];
    let is_cpu = record.function_device == FunctionDevice::Cpu;
    facts.push(switch("functions compute on", is_cpu, devices));
    let price = record.function_price.clone();
    facts.extend(price.map(|price| Fact::new("functions are charged by", price)));
    facts.extend(record.instance_vcpus().map(|vcpus| {
        let value = format!("{} vCPUs each, whatever their type", format::number(vcpus));
        Fact::new("instances", value)
    }));
    // What the simulation leaves out or draws.
    let limits = ["switched off", "hold: what they refuse is infeasible"];
    facts.push(switch("limits of functions", record.limits, limits));
    let (sizes, trained) = (
        "exist as sizes and durations only",
        "trained for real, in virtual time",
    );
    facts.push(switch("models", record.real_compute, [sizes, trained]));
    let sampled = "as stated in trial 0, sampled from their ranges in every other";
    facts.push(switch("constants", record.sample, ["as stated", sampled]));
    facts
}

fn origin(origin: ComputeOrigin) -> &'static str {
    match origin {
        ComputeOrigin::Measured => "measured",
        ComputeOrigin::Published => "published",
        ComputeOrigin::Stated => "stated",
        ComputeOrigin::Scaled => "scaled",
    }
}

fn compute_cells(known: &ComputeRecord, cost: &ModelCost) -> Vec<Cell> {
    let fit = cost.fit.as_ref().map(|fit| {
        let (r2, off) = (
            format::number(fit.r_squared),
            format::percent(fit.largest_error),
        );
        format!("R² {r2}, at most {off} off, {} points", fit.points)
    });
    let parallel = Some(cost.parallel).filter(|_| cost.device == Device::Cpu);
    vec![
        Cell::text(model_title(&cost.model)),
        Cell::text(device_title(cost.device)),
        Cell::text(line(cost.fixed_s * 1e3, cost.sample_s * 1e3, "ms")),
        Cell::text(line(0.0, cost.evaluate_sample_s * 1e3, "ms")),
        Cell::of(parallel, format::percent),
        Cell::text(line(cost.fixed_mb, cost.sample_mb, "MB")),
        Cell::text(fit.unwrap_or_else(|| format::UNKNOWN.into())),
        Cell::text(&known.name).above(origin(known.origin)),
        Cell::text(cost.source.trim()).above(&cost.date),
    ]
}

/// Returns what a batch of b takes: a fixed part, and one per sample.
fn line(fixed: f64, sample: f64, unit: &str) -> String {
    let parts = [(fixed, ""), (sample, " × b")];
    let parts = parts.iter().filter(|(part, _)| *part > 0.0);
    let parts = parts.map(|(part, times)| format!("{} {unit}{times}", format::number(*part)));
    let parts: Vec<String> = parts.collect();
    match parts.as_slice() {
        [] => format::UNKNOWN.into(),
        parts => parts.join(" + "),
    }
}

fn constant(known: &ConstantRecord) -> Vec<Cell> {
    let range = match (known.low, known.high) {
        (None, None) => String::new(),
        (low, high) => {
            let end = |end: Option<f64>| format::exact(end.unwrap_or(known.value));
            format!("{} to {}", end(low), end(high))
        }
    };
    let source = known.source.trim();
    vec![
        Cell::text(&known.path),
        Cell::of(Some(known.value), format::exact).above(range),
        if known.stated {
            Cell::badge("fair", source)
        } else {
            Cell::text(source).above(known.date.clone().unwrap_or_default())
        },
    ]
}
