//! Limits of a platform, by name.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A limit of a platform that makes a setting impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Memory of a function.
    Memory,
    /// The longest invocation.
    Duration,
    /// Concurrent invocations of an account.
    Concurrency,
    /// Size of a message, or of a value in a store.
    MessageSize,
    /// Size of a function's package.
    PackageSize,
    /// Size of a state machine's definition.
    WorkflowDefinition,
    /// Events of one execution of a state machine.
    WorkflowHistory,
}

impl Limit {
    /// Returns the name used in results.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Duration => "15 minutes",
            Self::Concurrency => "concurrency",
            Self::MessageSize => "message size",
            Self::PackageSize => "package size",
            Self::WorkflowDefinition => "workflow definition",
            Self::WorkflowHistory => "workflow history",
        }
    }
}

/// The reason why a setting is impossible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Infeasible {
    /// The limit.
    pub limit: Limit,
    /// The part that hit the limit, and by how much.
    pub reason: String,
}

impl fmt::Display for Infeasible {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, reason } = self;
        write!(formatter, "infeasible ({}): {reason}", limit.as_str())
    }
}
