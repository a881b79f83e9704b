//! Selection of the rows that stand beside a table.

use epochcost_systems::Fidelity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rows::Row;

/// A selection of rows: those that agree with every field given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Selector {
    /// The row's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<String>,
    /// The training system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The dataset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// The description followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fidelity: Option<Fidelity>,
    /// Data-parallel replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub workers: Option<usize>,
    /// Samples in a mini-batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub batch_size: Option<usize>,
    /// Memory size of the functions, MB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub memory_mb: Option<u32>,
}

/// Returns whether `row` agrees with every field that `selector` gives.
pub fn matches(selector: &Selector, row: &Row) -> bool {
    let job = &row.job;
    agrees(selector.row.as_ref(), &row.id)
        && agrees(selector.system.as_ref(), &job.system)
        && agrees(selector.model.as_ref(), &job.model)
        && agrees(selector.dataset.as_ref(), &job.data.dataset)
        && agrees(selector.fidelity.as_ref(), &job.fidelity)
        && agrees(selector.workers.as_ref(), &job.workers)
        && agrees(selector.batch_size.as_ref(), &job.batch_size)
        && agrees(selector.memory_mb.as_ref(), &row.memory_mb)
}

fn agrees<T: PartialEq>(wanted: Option<&T>, value: &T) -> bool {
    wanted.is_none_or(|wanted| wanted == value)
}
