//! Profiles and constants of a simulation, for the report.

use epochcost_simulator::profile::{ComputeOrigin, FunctionDevice, ModelCost};
use epochcost_systems::Device;
use serde::Serialize;

use super::view::Fact;
use crate::format;
use crate::results::{ComputeRecord, ConstantRecord, SimulationRecord};

/// The section; texts are not yet escaped.
#[derive(Debug, Serialize)]
pub(super) struct SimulationView {
    pub facts: Vec<Fact>,
    pub compute: Vec<ComputeLine>,
    pub constants: Vec<ConstantLine>,
}

#[derive(Debug, Serialize)]
pub(super) struct ComputeLine {
    pub profile: String,
    pub origin: &'static str,
    pub model: String,
    pub device: &'static str,
    pub step: String,
    pub evaluation: String,
    pub parallel: String,
    pub memory: String,
    pub fit: String,
    pub source: String,
    pub date: String,
}

#[derive(Debug, Serialize)]
pub(super) struct ConstantLine {
    pub path: String,
    pub value: String,
    pub range: String,
    pub source: String,
    pub date: String,
    pub stated: bool,
}

impl SimulationView {
    pub(super) fn of(record: &SimulationRecord) -> Self {
        let costs = |known: &ComputeRecord| -> Vec<ComputeLine> {
            known
                .costs
                .iter()
                .map(|cost| compute(known, cost))
                .collect()
        };
        Self {
            facts: facts(record),
            compute: record.compute.iter().flat_map(costs).collect(),
            constants: record.constants.iter().map(constant).collect(),
        }
    }
}

fn facts(record: &SimulationRecord) -> Vec<Fact> {
    let fact = |name, value| Fact { name, value };
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

fn compute(known: &ComputeRecord, cost: &ModelCost) -> ComputeLine {
    ComputeLine {
        profile: known.name.clone(),
        origin: origin(known.origin),
        model: cost.model.clone(),
        device: match cost.device {
            Device::Cpu => "CPU",
            Device::Cuda => "GPU",
        },
        step: line(cost.fixed_s * 1e3, cost.sample_s * 1e3, "ms"),
        evaluation: line(0.0, cost.evaluate_sample_s * 1e3, "ms"),
        parallel: match cost.device {
            Device::Cpu => format::percent(cost.parallel),
            Device::Cuda => format::UNKNOWN.into(),
        },
        memory: line(cost.fixed_mb, cost.sample_mb, "MB"),
        fit: cost.fit.as_ref().map_or_else(
            || format::UNKNOWN.into(),
            |fit| {
                format!(
                    "R² {}, at most {} off, {} points",
                    format::number(fit.r_squared),
                    format::percent(fit.largest_error),
                    fit.points
                )
            },
        ),
        source: cost.source.trim().to_owned(),
        date: cost.date.clone(),
    }
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

fn constant(known: &ConstantRecord) -> ConstantLine {
    let range = match (known.low, known.high) {
        (None, None) => String::new(),
        (low, high) => {
            let end = |end: Option<f64>| format::exact(end.unwrap_or(known.value));
            format!("{} to {}", end(low), end(high))
        }
    };
    ConstantLine {
        path: known.path.clone(),
        value: format::exact(known.value),
        range,
        source: known.source.trim().to_owned(),
        date: known.date.clone().unwrap_or_default(),
        stated: known.stated,
    }
}
