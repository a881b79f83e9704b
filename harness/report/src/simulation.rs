//! Profiles and constants of a simulation, for the report.

use epochcost_judge::analysis::titles::model_title;
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
        let columns = [
            "model:",
            "on:",
            "training step:",
            "evaluation:",
            "sped up by vCPUs",
            "memory:",
            "fit:",
            "profile:",
            "source…",
        ];
        let mut compute = Table::new("Compute profiles that the rows use", &columns);
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
    let fact = |name: &str, value| Fact {
        name: name.to_owned(),
        value,
    };
    let switch = |on: bool, yes: &str, no: &str| if on { yes } else { no }.to_owned();
    // Profiles and the functions' device.
    let mut facts = vec![fact(
        "platform profile",
        format!("{}: {}", record.profile, record.about.trim()),
    )];
    facts.extend(record.compute.iter().map(|known| {
        let (name, about) = (&known.name, known.about.trim());
        let value = format!("{name} ({}): {about}", origin(known.origin));
        fact("compute profile", value)
    }));
    facts.push(fact(
        "functions compute on",
        switch(
            record.function_device == FunctionDevice::Cpu,
            "vCPUs, by memory size",
            "a GPU of their own",
        ),
    ));
    if let Some(price) = &record.function_price {
        facts.push(fact("functions are charged by", price.clone()));
    }
    // What the simulation leaves out or draws.
    facts.extend([
        fact(
            "limits of functions",
            switch(
                record.limits,
                "hold: what they refuse is infeasible",
                "switched off",
            ),
        ),
        fact(
            "models",
            switch(
                record.real_compute,
                "trained for real, in virtual time",
                "exist as sizes and durations only",
            ),
        ),
        fact(
            "constants",
            switch(
                record.sample,
                "as stated in trial 0, sampled from their ranges in every other",
                "as stated",
            ),
        ),
    ]);
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
        format!(
            "R² {}, at most {} off, {} points",
            format::number(fit.r_squared),
            format::percent(fit.largest_error),
            fit.points
        )
    });
    let (device, parallel) = match cost.device {
        Device::Cpu => ("CPU", Some(cost.parallel)),
        Device::Cuda => ("GPU", None),
    };
    vec![
        Cell::text(model_title(&cost.model)),
        Cell::text(device),
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
    let parts: Vec<String> = parts
        .map(|(part, times)| format!("{} {unit}{times}", format::number(*part)))
        .collect();
    if parts.is_empty() {
        format::UNKNOWN.into()
    } else {
        parts.join(" + ")
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
