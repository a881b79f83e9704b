//! What a simulated run stands on, as `manifest.json` and `plan.json` keep it.

use epochcost_simulator::profile::{Client, ComputeOrigin, FittedTo, FunctionDevice, ModelCost};
use epochcost_systems::Device;
use serde::{Deserialize, Serialize};

use epochcost_spec::cost::{EC2_MINIMUM_S, Rates};
use epochcost_spec::profiles::{self, misses};
use epochcost_spec::rows::{OwnModel, Row, STATED_BY_EXPERIMENT, Simulation, device};

/// The name under which the costs of an experiment's own `models` are recorded.
const OWN_MODELS: &str = "the experiment's own models";

/// The profiles, constants and switches of a simulated run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulationRecord {
    /// The platform profile's name.
    pub profile: String,
    /// What it describes.
    pub about: String,
    /// What functions compute on.
    pub function_device: FunctionDevice,
    /// The dimension that a second of a function is charged by, where it is
    /// not Lambda's GB-second.
    pub function_price: Option<String>,
    /// Every number of the platform profile, in its order.
    pub constants: Vec<ConstantRecord>,
    /// Client of functions in rows that name none; absent if compiled.
    #[serde(default, skip_serializing_if = "Client::is_default")]
    pub client: Client,
    /// The compute profiles that rows stand on, with what they took from them.
    pub compute: Vec<ComputeRecord>,
    /// Whether the platform's limits on functions held.
    pub limits: bool,
    /// Whether models really trained; else only sizes existed.
    pub real_compute: bool,
    /// Whether every trial but the first stands on a sample of the constants' ranges.
    pub sample: bool,
    /// Draws of the constants that rankings are judged over.
    pub draws: u32,
}

/// A constant of the platform profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConstantRecord {
    /// Path; the last part names the unit.
    pub path: String,
    /// Value.
    pub value: f64,
    /// The lowest value that its sources give.
    pub low: Option<f64>,
    /// The highest.
    pub high: Option<f64>,
    /// Source of the value.
    pub source: String,
    /// Date of the source; null if the experiment states it.
    pub date: Option<String>,
    /// Whether the experiment states it in the place of the profile.
    pub stated: bool,
    /// Published figures that the value was fitted to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fitted_to: Option<FittedTo>,
}

/// A compute profile, as far as a row stands on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComputeRecord {
    /// Name.
    pub name: String,
    /// Origin of its numbers.
    pub origin: ComputeOrigin,
    /// What it describes.
    pub about: String,
    /// What steps cost, by model and device.
    pub costs: Vec<ModelCost>,
}

/// The source of a row's compute time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComputeUsed {
    /// The compute profile's name.
    pub profile: String,
    /// Origin of its numbers.
    pub origin: ComputeOrigin,
    /// The device that it speaks of; the CPU also where nothing is known of
    /// the GPU that the row asks for, and it may fall back.
    pub device: Device,
}

impl SimulationRecord {
    /// Returns the record of a simulation of `rows`.
    pub fn of(simulation: &Simulation, rows: &[Row]) -> Self {
        let profile = &simulation.profile;
        let constants = profile.constants().into_iter().map(|(path, constant)| {
            let stated = constant.source.starts_with(STATED_BY_EXPERIMENT);
            ConstantRecord {
                path,
                value: constant.value,
                low: constant.low,
                high: constant.high,
                source: constant.source,
                date: (!stated).then_some(constant.date),
                stated,
                fitted_to: constant.fitted_to,
            }
        });
        let mut record = Self {
            profile: profile.name.clone(),
            about: profile.about.clone(),
            function_device: profile.function_device,
            function_price: profile.function_price.clone(),
            constants: constants.collect(),
            client: simulation.client,
            compute: Vec::new(),
            limits: simulation.limits,
            real_compute: simulation.real_compute,
            sample: simulation.sample,
            draws: simulation.draws,
        };
        for (used, about, cost) in rows.iter().filter_map(|row| known(simulation, row)) {
            let mut compute = record.compute.iter_mut();
            match compute.find(|known| known.name == used.profile) {
                Some(known) if known.costs.contains(&cost) => {}
                Some(known) => known.costs.push(cost),
                None => record.compute.push(ComputeRecord {
                    name: used.profile,
                    origin: used.origin,
                    about,
                    costs: vec![cost],
                }),
            }
        }
        record
    }

    /// Returns the sentence on what its platform profile misses by; one whose constants are not those
    /// of the shipped profile of its name was never compared.
    pub fn misses(&self) -> String {
        let shipped = profiles::shipped_platform(&self.profile);
        let shipped = shipped.map_or_else(Vec::new, |profile| profile.constants());
        let is_as_shipped = |known: &ConstantRecord| {
            let mut of_path = shipped.iter().filter(|(path, _)| *path == known.path);
            of_path.any(|(_, own)| {
                (own.value, own.low, own.high) == (known.value, known.low, known.high)
            })
        };
        let stated = self.constants.iter().filter(|known| known.stated).count();
        let mut own = self.constants.iter().filter(|known| !known.stated);
        let client = Some(self.client);
        let said = if own.all(is_as_shipped) {
            misses::sentence(&self.profile, client)
        } else {
            misses::unknown(&self.profile, client)
        };
        match stated {
            0 => said,
            1 => format!("{said} One constant is the experiment's own, and was not compared."),
            many => {
                format!("{said} {many} constants are the experiment's own, and were not compared.")
            }
        }
    }

    fn value(&self, path: &str) -> Option<f64> {
        let constant = self.constants.iter().find(|known| known.path == path);
        constant.map(|constant| constant.value)
    }

    /// Returns the vCPUs of every instance, whatever its type; none where workers share one host.
    pub fn instance_vcpus(&self) -> Option<f64> {
        self.value("instance.vcpus").filter(|_| !self.is_one_host())
    }

    /// Returns how its platform charges workers.
    pub fn rates(&self) -> Rates<'_> {
        let minimum_s = self.value("instance.minimum_billed_s");
        Rates {
            function_price: self.function_price.as_deref(),
            minimum_s: minimum_s.unwrap_or(EC2_MINIMUM_S),
        }
    }

    /// Returns whether its platform is one machine that everything shares, and
    /// no cloud.
    pub fn is_one_host(&self) -> bool {
        self.constants.iter().any(|c| c.path.starts_with("host."))
    }
}

impl ComputeUsed {
    /// Returns the source of a row's compute time; none if no profile knows its
    /// model.
    pub fn of(simulation: &Simulation, row: &Row) -> Option<Self> {
        known(simulation, row).map(|(used, ..)| used)
    }
}

fn known(simulation: &Simulation, row: &Row) -> Option<(ComputeUsed, String, ModelCost)> {
    let device = device(simulation, row);
    let profiled = |own: &OwnModel| simulation.cost(&own.name, device, false).is_some();
    if let Some(own) = row.own_model.as_ref().filter(|own| !profiled(own)) {
        let used = ComputeUsed {
            profile: OWN_MODELS.into(),
            origin: ComputeOrigin::Stated,
            device,
        };
        let about = "Operations, bytes and rates that the experiment states.".into();
        return Some((used, about, own.cost(device)?));
    }
    let (profile, cost) = simulation.cost(&row.job.model, device, row.cpu_fallback)?;
    let used = ComputeUsed {
        profile: profile.name.clone(),
        origin: profile.origin,
        device: cost.device,
    };
    Some((used, profile.about.clone(), cost.clone()))
}
