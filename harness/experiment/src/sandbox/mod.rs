//! The surroundings of a row's worker processes, as the experiment states them.

use std::collections::BTreeMap;

use epochcost_channels::{LatencyMs, NetworkShape};
use epochcost_spec::profiles;
use epochcost_spec::rows::StatedConstant;
use epochcost_spec::rows::sandbox::{ENVIRONMENT_BYTES, Network, Sandbox, is_name, is_reserved};
use epochcost_systems::Host;

use super::check::RowChecker;
use super::document::Node;
use super::error::ExperimentError;
use super::raw::NetworkChoice;
use super::simulation::profile;

/// A row's own constants of the platform profile, by path.
type Constants = BTreeMap<String, StatedConstant>;

impl RowChecker<'_> {
    /// The surroundings of a row's worker processes, and its constants. On the
    /// local platform they are enforced; a simulation has the account's limits
    /// as constants, and the rest by its profile.
    pub(super) fn sandbox(&self) -> Result<(Sandbox, Constants), ExperimentError> {
        let sandbox = Sandbox {
            account: self.row.account.unwrap_or_default(),
            ephemeral_storage_mb: u32::try_from(self.row.ephemeral_storage_mb).unwrap_or(u32::MAX),
            environment: self.environment()?,
            network: (self.row.network.as_ref())
                .map(|choice| self.network(choice))
                .transpose()?,
        };
        let mut constants = self.row.constants.clone();
        if self.all.simulation.is_none() {
            return Ok((sandbox, constants));
        }
        let stated = self.row.account.map(|account| {
            [
                ("function.concurrency_limit", account.concurrency_limit),
                ("function.scaling_per_10_s", account.scaling_per_10_s),
            ]
        });
        for (path, limit) in stated.into_iter().flatten() {
            let stated = StatedConstant::by_field(limit.into(), "account");
            if constants.insert(path.to_owned(), stated).is_some() {
                let problem = format!("`account` and the constant `{path}` set the same value");
                return Err(self.error("account", problem, "remove one of the two"));
            }
        }
        Ok((Sandbox::default(), constants))
    }

    fn environment(&self) -> Result<BTreeMap<String, String>, ExperimentError> {
        let node = self.fields.get("environment").unwrap_or(self.fields);
        for name in self.row.environment.keys() {
            let refused = |problem: String, remedy| {
                Err(self
                    .all
                    .document
                    .error(node.origin_of(name), problem, remedy))
            };
            if is_reserved(name) {
                let problem = format!("`{name}` is reserved: the platform sets it");
                return refused(problem, "leave it out");
            }
            if !is_name(name) {
                let problem = format!("Lambda takes no variable of the name `{name}`");
                let remedy = "start with a letter and go on with letters, digits and `_`";
                return refused(problem, remedy);
            }
        }
        let pairs = self.row.environment.iter();
        let bytes: usize = pairs.map(|(name, value)| name.len() + value.len()).sum();
        if bytes > ENVIRONMENT_BYTES {
            let problem = format!("{bytes} bytes of environment variables, of 4096 at most");
            return Err(self.error("environment", problem, "shorten them"));
        }
        Ok(self.row.environment.clone())
    }

    fn network(&self, choice: &NetworkChoice) -> Result<Network, ExperimentError> {
        let node = self.fields.get("network").unwrap_or(self.fields);
        let figures = choice.bandwidth_mbit_s.is_some() || choice.latency_ms.is_some();
        let (origin, problem, remedy) = match &choice.profile {
            Some(name) if !figures => return self.of_profile(node, name),
            Some(_) => (
                node.origin_of("profile"),
                "a profile's network and figures beside it",
                "give one of the two",
            ),
            None if figures => {
                let shape = NetworkShape {
                    bandwidth_mbit_s: choice.bandwidth_mbit_s,
                    latency_ms: choice.latency_ms.unwrap_or_default(),
                };
                let profile = None;
                return Ok(Network { shape, profile });
            }
            None => (
                node.origin.clone(),
                "a network without figures",
                "give `bandwidth_mbit_s` and `latency_ms`, or a `profile`",
            ),
        };
        Err(self.all.document.error(origin, problem, remedy))
    }

    /// The bandwidth of the row's functions, or of its instances where there are
    /// no functions, and the latency of each service, as the profile states them.
    fn of_profile(&self, node: &Node, name: &str) -> Result<Network, ExperimentError> {
        let origin = node.origin_of("profile");
        let name = profile(self.all.document, &origin, name);
        let profile = profiles::platform(&name)
            .map_err(|error| self.all.document.error(origin, error.problem, error.remedy))?;
        let profile = profile.values();
        let memory_mb = u32::try_from(self.row.memory_mb).unwrap_or(u32::MAX);
        let bytes_per_s = if self.system.deployment().runs_on(Host::Function) {
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
