//! The table of hardware: how fast each trains, relative to the reference of its kind.

use epochcost_simulator::profile::Constant;
use epochcost_systems::Device;
use serde::Deserialize;

/// The table that this program brings along.
const SHIPPED: &str = include_str!("../../../hardware/factors.yaml");

/// A vCPU or a GPU.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::forecast) struct Hardware {
    /// Name in places.
    pub(in crate::forecast) name: String,
    /// Kind, which decides the reference: a vCPU of a Lambda function, or a T4.
    pub(in crate::forecast) device: Device,
    /// What it is.
    pub(in crate::forecast) about: String,
    /// Speed, relative to the reference.
    pub(in crate::forecast) speed: Constant,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    schema: u64,
    hardware: Vec<Hardware>,
}

/// Returns the shipped table.
///
/// # Errors
/// Never for the shipped file; a test holds that.
pub(super) fn shipped() -> Result<Vec<Hardware>, String> {
    let table: Table = serde_yaml::from_str(SHIPPED).map_err(|error| error.to_string())?;
    if table.schema != 1 {
        return Err("this program reads version 1".to_owned());
    }
    let wrong = table.hardware.iter().find(|known| {
        let (low, high) = known.speed.range();
        !(0.0 < low && low <= known.speed.value && known.speed.value <= high)
    });
    match wrong {
        Some(wrong) => Err(format!("the speed of {} is not in its range", wrong.name)),
        None => Ok(table.hardware),
    }
}
