//! What workers compute on.

use epochcost_platform::Site;
use epochcost_simulator::profile::FunctionDevice;
use epochcost_spec::profiles;
use epochcost_spec::rows::Precision;
use epochcost_systems::{Device, Host, System};

use super::check::Checker;
use super::document::Node;
use super::error::ExperimentError;
use super::raw::{DeviceChoice, Training};

impl Checker<'_> {
    /// Returns the device of a row's workers: the stated one, or that of the publication.
    pub(super) fn device(
        &self,
        fields: &Node,
        system: &dyn System,
        row: &Training,
    ) -> Result<DeviceChoice, ExperimentError> {
        // Where a system has functions, they are what computes.
        let on_functions = system.deployment().runs_on(Host::Function);
        let Some(choice) = row.device else {
            let published = system.deployment().device;
            let kind = if on_functions { Device::Cpu } else { published };
            return Ok(DeviceChoice {
                kind,
                fallback: kind == Device::Cuda,
                precision: Precision::default(),
            });
        };
        if choice.kind == Device::Cpu && choice.precision != Precision::Fp32 {
            let precision = choice.precision.name();
            return Err(self.error(
                fields,
                "device",
                format!("the CPU computes in fp32, not in {precision}"),
                "remove `precision`, or set `kind: cuda`",
            ));
        }
        if on_functions {
            self.function_device(fields, system, choice)?;
        }
        Ok(choice)
    }

    /// Refuses a device that the platform's functions do not have.
    fn function_device(
        &self,
        fields: &Node,
        system: &dyn System,
        choice: DeviceChoice,
    ) -> Result<(), ExperimentError> {
        let (problem, remedy) = match (self.site, self.simulation, choice.kind) {
            (Site::Cloud(cloud), _, Device::Cuda) => (
                format!(
                    "{} runs on functions, and those that this program makes on {cloud} have no GPU",
                    system.name()
                ),
                format!(
                    "run it with --platform local, simulate it with --platform sim and \
                     `simulation.profile` {}, or remove `device`",
                    profiles::with_gpu_functions()
                ),
            ),
            (_, Some(simulation), kind) => {
                let profile = &simulation.profile;
                match (profile.function_device, kind) {
                    (FunctionDevice::Cpu, Device::Cuda) if !choice.fallback => (
                        format!(
                            "{} runs on functions, and those of the profile {} have no GPU",
                            system.name(),
                            profile.name
                        ),
                        format!(
                            "set `simulation.profile` to {}, or `fallback: true` for the CPU",
                            profiles::with_gpu_functions()
                        ),
                    ),
                    (FunctionDevice::Cuda, Device::Cpu) => (
                        format!("functions of the profile {} compute on a GPU", profile.name),
                        "remove `device`, or set `simulation.profile` to one whose functions have none"
                            .to_owned(),
                    ),
                    _ => return Ok(()),
                }
            }
            _ => return Ok(()),
        };
        Err(self.error(fields, "device", problem, remedy))
    }
}
