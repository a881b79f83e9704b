//! Processor and memory by stage, as in Table I of the P2P paper.

use epochcost_systems::Stage;
use serde::Serialize;

use super::cell::Cell;
use super::charts::Labelled;
use crate::analysis::{TrialAnalysis, machine_epochs};
use crate::claims::Estimate;
use crate::format;

#[derive(Debug, Serialize)]
pub(super) struct UsageLine {
    pub name: String,
    pub system: String,
    pub stage: String,
    pub seconds: Cell,
    pub cpu: Cell,
    pub memory: Cell,
}

/// Returns what each stage of a row's workers used; nothing where nothing is
/// known.
pub(super) fn usage_lines(labelled: &Labelled<'_>) -> Vec<UsageLine> {
    let mean = |value: &dyn Fn(&TrialAnalysis) -> Option<f64>| {
        let values: Vec<f64> = labelled.row.succeeded().filter_map(value).collect();
        Estimate::of(&values).mean
    };
    let line = |stage: Stage| {
        let memory_mb = mean(&|trial| trial.usage.memory_mb(stage))?;
        let cpu_percent = mean(&|trial| trial.usage.cpu_percent(stage));
        let job = &labelled.row.planned.row.job;
        let each = machine_epochs(job);
        let seconds = mean(&|trial| Some(trial.seconds.of(stage) / each));
        Some(UsageLine {
            name: labelled.name.to_owned(),
            system: labelled.system.clone(),
            stage: stage.as_str().replace('_', " "),
            seconds: Cell::of(seconds, format::seconds),
            cpu: Cell::of(cpu_percent, |percent| format!("{percent:.0} %")),
            memory: Cell::of(Some(memory_mb), |mb| format!("{mb:.0} MB")),
        })
    };
    Stage::ALL.into_iter().filter_map(line).collect()
}
