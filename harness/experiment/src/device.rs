//! What workers compute on.

use epochcost_platform::Site;
use epochcost_simulator::profile::FunctionDevice;
use epochcost_spec::profiles;
use epochcost_spec::rows::Precision;
use epochcost_systems::{Device, Host};

use super::check::RowChecker;
use super::error::ExperimentError;
use super::raw::DeviceChoice;

impl RowChecker<'_> {
    /// Returns the device of a row's workers: the stated one, or that of the publication.
    pub(super) fn device(&self) -> Result<DeviceChoice, ExperimentError> {
        // Where a system has functions, they are what computes.
        let on_functions = self.system.deployment().runs_on(Host::Function);
        let Some(choice) = self.row.device else {
            let published = self.system.deployment().device;
            let kind = if on_functions { Device::Cpu } else { published };
            return Ok(DeviceChoice {
                kind,
                fallback: kind == Device::Cuda,
                precision: Precision::default(),
            });
        };
        if choice.kind == Device::Cpu && choice.precision != Precision::Fp32 {
            let precision = choice.precision.name();
            let problem = format!("the CPU computes in fp32, not in {precision}");
            let remedy = "remove `precision`, or set `kind: cuda`";
            return Err(self.error("device", problem, remedy));
        }
        if on_functions {
            self.function_device(choice)?;
        }
        Ok(choice)
    }

    /// Refuses a device that the platform's functions do not have.
    fn function_device(&self, choice: DeviceChoice) -> Result<(), ExperimentError> {
        let name = self.system.name();
        let refused = |problem: String, remedy: String| Err(self.error("device", problem, remedy));
        if let (Site::Cloud(cloud), Device::Cuda) = (self.all.site, choice.kind) {
            let problem = format!(
                "{name} runs on functions, and those that this program makes on {cloud} have no GPU"
            );
            let with_gpu = profiles::with_gpu_functions();
            let remedy = format!(
                "run it with --platform local, simulate it with --platform sim and \
                 `simulation.profile` {with_gpu}, or remove `device`"
            );
            return refused(problem, remedy);
        }
        let Some(profile) = self.all.simulation.map(|simulation| &simulation.profile) else {
            return Ok(());
        };
        let of_profile = &profile.name;
        match (profile.function_device, choice.kind) {
            (FunctionDevice::Cpu, Device::Cuda) if !choice.fallback => {
                let problem = format!(
                    "{name} runs on functions, and those of the profile {of_profile} have no GPU"
                );
                let with_gpu = profiles::with_gpu_functions();
                let remedy = format!(
                    "set `simulation.profile` to {with_gpu}, or `fallback: true` for the CPU"
                );
                refused(problem, remedy)
            }
            (FunctionDevice::Cuda, Device::Cpu) => {
                let problem = format!("functions of the profile {of_profile} compute on a GPU");
                let remedy =
                    "remove `device`, or set `simulation.profile` to one whose functions have none";
                refused(problem, remedy.to_owned())
            }
            _ => Ok(()),
        }
    }
}
