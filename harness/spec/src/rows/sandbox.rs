//! What surrounds the worker processes of a row: the account that functions are
//! invoked in, their storage and environment, and the network.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sizes of a function's `/tmp`, MB (AWS Lambda quotas).
pub const EPHEMERAL_STORAGE_MB: std::ops::RangeInclusive<u32> = 512..=10_240;

/// Bytes that a function's own environment variables may take, names and values
/// (AWS Lambda quotas: 4 KB).
pub const ENVIRONMENT_BYTES: usize = 4_096;

/// Everything but the size of a function's memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sandbox {
    /// What the account lets functions do.
    pub account: Account,
    /// The size of each sandbox's `/tmp`, MB.
    pub ephemeral_storage_mb: u32,
    /// The functions' own environment variables.
    pub environment: BTreeMap<String, String>,
    /// The network that is imposed on every worker process; null where it
    /// is left as it is.
    pub network: Option<Network>,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self {
            account: Account::default(),
            ephemeral_storage_mb: *EPHEMERAL_STORAGE_MB.start(),
            environment: BTreeMap::new(),
            network: None,
        }
    }
}

impl Sandbox {
    /// Returns whether nothing differs from what an experiment that says
    /// nothing gets.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How many functions an account runs. Its fields have the names of the
/// simulation's constants `function.*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Account {
    /// Invocations that run at once (AWS Lambda quotas: 1,000 by default).
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub concurrency_limit: u32,
    /// Sandboxes that one function may gain in ten seconds (AWS Lambda, "Lambda
    /// scaling behavior": 1,000, refilled continuously).
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub scaling_per_10_s: u32,
}

impl Default for Account {
    fn default() -> Self {
        Self {
            concurrency_limit: 1_000,
            scaling_per_10_s: 1_000,
        }
    }
}

/// The network between one worker process and the services.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// What it is shaped to.
    pub shape: epochcost_channels::NetworkShape,
    /// Origin of the figures: a profile's name; null if the experiment states them.
    pub profile: Option<String>,
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shape.bandwidth_mbit_s {
            Some(mbit) => write!(f, "{mbit:.0} Mbit/s each way per worker process, ")?,
            None => f.write_str("as fast as loopback, ")?,
        }
        let latency = self.shape.latency_ms;
        write!(
            f,
            "{} ms per request to the object store, {} ms to a tensor store, {} ms to the queue",
            latency.objects, latency.tensors, latency.queue
        )?;
        match &self.profile {
            Some(profile) => write!(f, " (profile {profile})"),
            None => Ok(()),
        }
    }
}

/// Reserved by Lambda ("Using Lambda environment variables"), or by the worker.
const RESERVED: [&str; 14] = [
    "_HANDLER",
    "_X_AMZN_TRACE_ID",
    "AWS_DEFAULT_REGION",
    "AWS_REGION",
    "AWS_EXECUTION_ENV",
    "AWS_ACCESS_KEY",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_SECRET_KEY",
    "AWS_SECURITY_TOKEN",
    "LAMBDA_TASK_ROOT",
    "LAMBDA_RUNTIME_DIR",
    "TZ",
];

/// Returns whether a function's configuration cannot set the variable.
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
        || name.starts_with("AWS_LAMBDA_")
        || name.starts_with(epochcost_environment::PREFIX)
}

/// Returns whether Lambda takes it for a variable's name: a letter, then
/// letters, digits and underscores, two characters at least.
pub fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|c| c.is_ascii_alphabetic())
        && name.len() >= 2
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lambdas() {
        for name in ["RUST_LOG", "a1", "MALLOC_CONF"] {
            assert!(is_name(name) && !is_reserved(name), "{name}");
        }
        for name in ["", "A", "1A", "A-B", "_A", "A B"] {
            assert!(!is_name(name), "{name}");
        }
        for name in ["AWS_REGION", "AWS_LAMBDA_ANYTHING", "EPOCHCOST_FAULTS"] {
            assert!(is_reserved(name), "{name}");
        }
    }
}
