//! Schemas of the files that users write: what editors complete and check.

use serde_json::Value;

use epochcost_experiment as experiment;
use epochcost_planner::forecast;
use epochcost_spec::cost;
use epochcost_spec::profiles;
use epochcost_spec::published;
use epochcost_spec::yaml::schema::of;

/// A kind of file.
pub struct Kind {
    /// Name, and that of its schema.
    pub name: &'static str,
    /// What such a file is.
    pub about: &'static str,
    /// Returns its schema.
    pub schema: fn() -> Value,
}

/// Every kind of file.
pub const KINDS: [Kind; 8] = [
    Kind {
        name: "experiment",
        about: "rows to train or to simulate, and what is claimed of them",
        schema: experiment::of_experiment,
    },
    Kind {
        name: "paper",
        about: "a paper's tables and names: `paper.yaml`",
        schema: || (*of::<published::PaperFile>()).clone(),
    },
    Kind {
        name: "place",
        about: "a place to train at, for `plan --deadline`",
        schema: || (*of::<forecast::Place>()).clone(),
    },
    Kind {
        name: "profile",
        about: "a platform profile: times and limits of a platform",
        schema: || (*of::<profiles::PlatformFile>()).clone(),
    },
    Kind {
        name: "compute",
        about: "a compute profile: times of training steps",
        schema: || (*of::<profiles::ComputeFile>()).clone(),
    },
    Kind {
        name: "hardware",
        about: "speeds of vCPUs and GPUs, relative to a reference",
        schema: || (*of::<profiles::hardware::Table>()).clone(),
    },
    Kind {
        name: "prices",
        about: "a price book",
        schema: || (*of::<cost::Book>()).clone(),
    },
    Kind {
        name: "validation",
        about: "measurements of others, and targets for predictions of them",
        schema: || (*of::<forecast::Validation>()).clone(),
    },
];

/// Returns a schema as its file holds it.
pub fn text(schema: &Value) -> String {
    // Names and values: nothing that JSON could refuse.
    serde_json::to_string_pretty(schema).unwrap_or_default() + "\n"
}
