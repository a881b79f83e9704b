//! The surroundings of a row's worker processes, as the experiment states them.

use std::collections::BTreeMap;

use epochcost_channels::{LatencyMs, NetworkShape};
use epochcost_systems::{Host, System};

use super::check::Checker;
use super::document::Node;
use super::error::ExperimentError;
use super::raw::{NetworkChoice, Training};
use crate::profiles;
use crate::rows::StatedConstant;
use crate::rows::sandbox::{
    Account, ENVIRONMENT_BYTES, EPHEMERAL_STORAGE_MB, Network, Sandbox, is_name, is_reserved,
};

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
            account: self.account(fields, row)?,
            ephemeral_storage_mb: self.ephemeral_storage(fields, row)?,
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

    fn account(&self, fields: &Node, row: &Training) -> Result<Account, ExperimentError> {
        let account = row.account.unwrap_or_default();
        let limits = [
            ("concurrency_limit", account.concurrency_limit),
            ("scaling_per_10_s", account.scaling_per_10_s),
        ];
        match limits.iter().find(|(_, limit)| *limit == 0) {
            None => Ok(account),
            Some((field, _)) => {
                let node = fields.get("account").unwrap_or(fields);
                let problem = "an account that runs no function";
                let origin = node.origin_of(field);
                Err(self.document.error(origin, problem, "give 1 or more"))
            }
        }
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

    fn ephemeral_storage(&self, fields: &Node, row: &Training) -> Result<u32, ExperimentError> {
        let asked = row.ephemeral_storage_mb;
        let size = u32::try_from(asked).ok();
        size.filter(|size| EPHEMERAL_STORAGE_MB.contains(size))
            .ok_or_else(|| {
                self.error(
                    fields,
                    "ephemeral_storage_mb",
                    format!("{asked} MB is outside Lambda's range of sizes of /tmp"),
                    "give 512 to 10240",
                )
            })
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
            None if figures => self.in_figures(node, choice),
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

    fn in_figures(&self, node: &Node, choice: &NetworkChoice) -> Result<Network, ExperimentError> {
        let latency_ms = choice.latency_ms.unwrap_or_default();
        if let Some(bandwidth) = choice.bandwidth_mbit_s
            && !(bandwidth.is_finite() && bandwidth >= 0.001)
        {
            let problem = format!("{bandwidth} Mbit/s carry nothing");
            let origin = node.origin_of("bandwidth_mbit_s");
            let remedy = "give 0.001 or more, or leave it out for as much as there is";
            return Err(self.document.error(origin, problem, remedy));
        }
        let latencies = [
            ("objects", latency_ms.objects),
            ("tensors", latency_ms.tensors),
            ("queue", latency_ms.queue),
        ];
        // A minute: a slip of the unit.
        let wrong = latencies
            .iter()
            .find(|(_, ms)| !(0.0..=60_000.0).contains(ms));
        if let Some((channel, ms)) = wrong {
            let place = node.get("latency_ms").unwrap_or(node).origin_of(channel);
            let problem = format!("{ms} ms is no latency of a request");
            return Err(self.document.error(place, problem, "give 0 to 60000"));
        }
        Ok(Network {
            shape: NetworkShape {
                bandwidth_mbit_s: choice.bandwidth_mbit_s,
                latency_ms,
            },
            profile: None,
        })
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
        let name = self.document.profile(&node.origin_of("profile"), name);
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
