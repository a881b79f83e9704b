//! The surroundings of a row's worker processes, as the experiment states them.

use std::collections::BTreeMap;

use epochcost_channels::{LatencyMs, NetworkShape};
use epochcost_spec::profiles;
use epochcost_spec::rows::StatedConstant;
use epochcost_spec::rows::sandbox::{
    Account, ENVIRONMENT_BYTES, Network, Sandbox, is_name, is_reserved,
};
use epochcost_systems::{Host, System};

use super::check::Checker;
use super::document::Node;
use super::error::ExperimentError;
use super::raw::{NetworkChoice, Training};
use super::simulation::profile;

/// A row's own constants of the platform profile, by path.
type Constants = BTreeMap<String, StatedConstant>;

impl Checker<'_> {
    /// The surroundings of a row's worker processes, and its constants. On the
    /// local platform they are enforced; a simulation has the account's limits
    /// as constants, and the rest by its profile.
    pub(super) fn sandbox(
        &self,
        fields: &Node,
        row: &Training,
        system: &dyn System,
    ) -> Result<(Sandbox, Constants), ExperimentError> {
        let sandbox = Sandbox {
            account: row.account.unwrap_or_default(),
            ephemeral_storage_mb: u32::try_from(row.ephemeral_storage_mb).unwrap_or(u32::MAX),
            environment: self.environment(fields, row)?,
            network: match &row.network {
                Some(choice) => Some(self.network(fields, row, choice, system)?),
                None => None,
            },
        };
        let mut constants = row.constants.clone();
        if self.simulation.is_none() {
            return Ok((sandbox, constants));
        }
        if let Some(account) = row.account {
            self.state_account(fields, account, &mut constants)?;
        }
        Ok((Sandbox::default(), constants))
    }

    fn state_account(
        &self,
        fields: &Node,
        account: Account,
        constants: &mut Constants,
    ) -> Result<(), ExperimentError> {
        let stated = [
            ("function.concurrency_limit", account.concurrency_limit),
            ("function.scaling_per_10_s", account.scaling_per_10_s),
        ];
        for (path, limit) in stated {
            let stated = StatedConstant::by_field(limit.into(), "account");
            if constants.insert(path.to_owned(), stated).is_some() {
                let problem = format!("`account` and the constant `{path}` set the same value");
                return Err(self.error(fields, "account", problem, "remove one of the two"));
            }
        }
        Ok(())
    }

    fn environment(
        &self,
        fields: &Node,
        row: &Training,
    ) -> Result<BTreeMap<String, String>, ExperimentError> {
        let node = fields.get("environment").unwrap_or(fields);
        for name in row.environment.keys() {
            let (problem, remedy) = if is_reserved(name) {
                (
                    format!("`{name}` is reserved: the platform sets it"),
                    "leave it out",
                )
            } else if !is_name(name) {
                (
                    format!("Lambda takes no variable of the name `{name}`"),
                    "start with a letter and go on with letters, digits and `_`",
                )
            } else {
                continue;
            };
            let origin = node.origin_of(name);
            return Err(self.document.error(origin, problem, remedy));
        }
        let pairs = row.environment.iter();
        let bytes: usize = pairs.map(|(name, value)| name.len() + value.len()).sum();
        if bytes > ENVIRONMENT_BYTES {
            let problem = format!("{bytes} bytes of environment variables, of 4096 at most");
            return Err(self.error(fields, "environment", problem, "shorten them"));
        }
        Ok(row.environment.clone())
    }

    fn network(
        &self,
        fields: &Node,
        row: &Training,
        choice: &NetworkChoice,
        system: &dyn System,
    ) -> Result<Network, ExperimentError> {
        let node = fields.get("network").unwrap_or(fields);
        let figures = choice.bandwidth_mbit_s.is_some() || choice.latency_ms.is_some();
        match &choice.profile {
            None if figures => Ok(Network {
                shape: NetworkShape {
                    bandwidth_mbit_s: choice.bandwidth_mbit_s,
                    latency_ms: choice.latency_ms.unwrap_or_default(),
                },
                profile: None,
            }),
            None => Err(self.document.error(
                node.origin.clone(),
                "a network without figures",
                "give `bandwidth_mbit_s` and `latency_ms`, or a `profile`",
            )),
            Some(_) if figures => Err(self.document.error(
                node.origin_of("profile"),
                "a profile's network and figures beside it",
                "give one of the two",
            )),
            Some(name) => self.of_profile(node, row, name, system),
        }
    }

    /// The bandwidth of the row's functions, or of its instances where there are
    /// no functions, and the latency of each service, as the profile states them.
    fn of_profile(
        &self,
        node: &Node,
        row: &Training,
        name: &str,
        system: &dyn System,
    ) -> Result<Network, ExperimentError> {
        let name = profile(self.document, &node.origin_of("profile"), name);
        let profile = profiles::platform(&name).map_err(|error| {
            let origin = node.origin_of("profile");
            self.document.error(origin, error.problem, error.remedy)
        })?;
        let profile = profile.values();
        let memory_mb = u32::try_from(row.memory_mb).unwrap_or(u32::MAX);
        let bytes_per_s = if system.deployment().runs_on(Host::Function) {
            profile.function.bytes_per_s(memory_mb)
        } else {
            profile.instance.bytes_per_s
        };
        Ok(Network {
            shape: NetworkShape {
                bandwidth_mbit_s: Some(bytes_per_s / 125_000.0).filter(|mbit| mbit.is_finite()),
                latency_ms: LatencyMs {
                    objects: profile.object_store.service.request_latency_s * 1e3,
                    tensors: profile.tensor_store.service.request_latency_s * 1e3,
                    queue: profile.queue.service.request_latency_s * 1e3,
                },
            },
            profile: Some(profile.name),
        })
    }
}

#[cfg(test)]
mod tests;
