//! The table of hardware: how fast each trains, relative to the reference of its kind.

use epochcost_simulator::profile::Constant;
use epochcost_systems::Device;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::yaml;

/// The table that this program brings along.
const SHIPPED: &str = include_str!("../../../hardware/factors.yaml");

/// A vCPU or a GPU.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hardware {
    /// Name in places.
    pub name: String,
    /// Kind, which decides the reference: a vCPU of a Lambda function, or a T4.
    pub device: Device,
    /// What it is.
    pub about: String,
    /// Speed, relative to the reference.
    pub speed: Constant,
    /// Operations per second of a product of two f32 matrices on one vCPU; stated of the
    /// reference CPU, to which steps that were measured elsewhere are carried by it.
    #[serde(default)]
    pub product_flops_per_s: Option<Constant>,
    /// Operations per second that trainings reach in f32; stated of the reference GPU, to
    /// which counted operations are carried by it.
    #[serde(default)]
    pub training_flops_per_s: Option<Constant>,
    /// Most times as fast as in f32 that trainings are in mixed precision on tensor cores; stated
    /// of the reference GPU.
    #[serde(default)]
    pub mixed_precision: Option<Constant>,
    /// Words of the names by which drivers call a GPU of this kind.
    #[serde(default)]
    pub names: Vec<String>,
}

impl Hardware {
    /// Returns whether a driver's name of a GPU means this hardware.
    pub fn is_called(&self, name: &str) -> bool {
        let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
        words.any(|word| {
            self.names
                .iter()
                .any(|known| known.eq_ignore_ascii_case(word))
        })
    }
}

/// The table of hardware: how fast each trains, relative to the reference of its kind.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Version of this format.
    #[schemars(extend("const" = 1))]
    schema: u64,
    /// vCPUs and GPUs.
    hardware: Vec<Hardware>,
}

/// Returns the shipped table.
///
/// # Errors
/// Never for the shipped file; a test holds that.
pub fn shipped() -> Result<Vec<Hardware>, String> {
    let table: Table =
        yaml::read("hardware", SHIPPED, |_| Ok(())).map_err(|(problem, _)| problem)?;
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

/// Returns the reference of a kind: its speed is 1 by definition.
///
/// # Errors
/// Never for the shipped file; a test holds that.
pub fn reference(table: &[Hardware], device: Device) -> Result<&Hardware, String> {
    let found = table.iter().find(|known| {
        let is_stated = match device {
            Device::Cpu => known.product_flops_per_s.is_some(),
            Device::Cuda => known.training_flops_per_s.is_some(),
        };
        known.device == device && is_stated
    });
    found.ok_or_else(|| format!("no hardware states the rate of the reference of {device}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_reference_whose_speed_is_one() {
        let table = shipped().unwrap();
        for device in [Device::Cpu, Device::Cuda] {
            let reference = reference(&table, device).unwrap();
            assert_eq!(reference.speed.value, 1.0);
            let rate = match device {
                Device::Cpu => &reference.product_flops_per_s,
                Device::Cuda => &reference.training_flops_per_s,
            };
            let rate = rate.clone().unwrap();
            let (low, high) = rate.range();
            assert!(0.0 < low && low < rate.value && rate.value < high);
            assert!(!rate.source.is_empty());
        }
    }

    #[test]
    fn a_gpu_is_known_by_what_its_driver_calls_it() {
        let table = shipped().unwrap();
        let named = |name: &str| {
            let found = table.iter().find(|known| known.is_called(name));
            found.map(|known| known.name.as_str())
        };
        for (driver, name) in [
            ("Tesla T4", Some("t4")),
            ("NVIDIA L4", Some("l4")),
            ("NVIDIA A10G", Some("a10g")),
            ("NVIDIA A100-SXM4-40GB", Some("a100")),
            ("NVIDIA H100 80GB HBM3", Some("h100")),
            ("NVIDIA H200", None),
            ("NVIDIA L40S", Some("l40s")),
        ] {
            assert_eq!(named(driver), name, "{driver}");
        }
    }
}
