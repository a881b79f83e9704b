//! Provenance of figures, and the sentences that state it.

use std::fmt;

use serde::Serialize;

use epochcost_platform::{Figures, Site, figures_of, site_of};
use epochcost_record::{Manifest, SimulationRecord};

/// The provenance of a figure. The three are never mixed, and look different
/// wherever they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// Measured on processes that ran.
    Measured,
    /// Computed in virtual time from a profile.
    Simulated,
    /// Read off a paper.
    Published,
}

impl Provenance {
    /// Returns where the figures of a run on `platform` come from.
    pub fn of_platform(platform: &str) -> Self {
        match figures_of(platform) {
            Figures::Simulated => Self::Simulated,
            Figures::Measured => Self::Measured,
        }
    }

    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Simulated => "simulated",
            Self::Published => "published",
        }
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Returns the sentence on the origin of every figure of the run.
pub(super) fn headline(manifest: &Manifest) -> String {
    if let Some(record) = &manifest.simulation {
        return simulated(record);
    }
    let measured_on = |place: &str| {
        format!(
            "Every figure here was measured on {place}. Published figures are hollow or in \
             italics."
        )
    };
    match site_of(&manifest.platform) {
        Some(Site::VirtualTime) => {
            "Every figure here is simulated: computed in virtual time.".into()
        }
        Some(Site::ThisMachine) => {
            measured_on("this machine: real processes, real bytes over loopback, real time")
        }
        Some(Site::Cloud(title)) if manifest.rehearsed => measured_on(&format!(
            "servers that stood in for those of {title}: a rehearsal"
        )),
        Some(Site::Cloud(title)) => measured_on(title),
        None => measured_on(&manifest.platform),
    }
}

fn simulated(record: &SimulationRecord) -> String {
    let compute: Vec<&str> = record.compute.iter().map(|known| &*known.name).collect();
    let compute = match compute.as_slice() {
        [] => String::new(),
        names => format!(" and the compute profile {}", names.join(", ")),
    };
    let learned = if record.real_compute {
        "Losses and accuracies alone are of models that really trained."
    } else {
        "No model was trained: only sizes and durations exist, so that filters of values leave nothing out."
    };
    format!(
        "Every figure here is simulated: computed in virtual time from the platform profile \
         {}{compute}. {} {learned} Published figures are hollow or in italics.",
        record.profile,
        record.misses()
    )
}

/// Returns the sentence on the costs.
pub(super) fn money(manifest: &Manifest) -> &'static str {
    match site_of(&manifest.platform) {
        Some(Site::ThisMachine) => {
            "Costs are what AWS would have billed for these durations: local durations at list \
             prices. Nothing was spent."
        }
        Some(Site::VirtualTime) => {
            "Costs are list prices for what the simulation used, before tax and without the free \
             tier. Nothing was spent."
        }
        Some(Site::Cloud(_)) | None => {
            "Costs are list prices for what was used, before tax and without the free tier."
        }
    }
}

/// Returns the note on the interval behind a mean in tables.
pub(super) fn interval(manifest: &Manifest) -> &'static str {
    let simulation = manifest.simulation.as_ref();
    if simulation.is_some_and(|record| record.sample) {
        "Behind a mean stand the 2.5th and 97.5th percentiles of the trials, which sample the \
         ranges of the profile's constants."
    } else {
        "± is half a 95 % interval (Student's t), left out with fewer than two trials."
    }
}
