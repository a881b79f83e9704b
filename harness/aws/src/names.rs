//! Names of what a run makes on AWS, and constants that several deployments share.

use std::fmt;

use crate::Scope;

/// Amazon Linux 2023 ("Reference the latest AMIs using Systems Manager public
/// parameters").
pub(crate) const IMAGE: &str =
    "resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64";

/// Role of functions.
pub(crate) const FUNCTIONS: &str = "functions";
/// Role of state machines.
pub(crate) const MACHINES: &str = "machines";
/// Dead man's switch, and its role.
pub(crate) const SWITCH: &str = "switch";
/// Role and profile of instances.
pub(crate) const INSTANCES: &str = "instances";
/// Security group of all members of a run.
pub(crate) const MEMBERS: &str = "members";
/// VPC of a run, its gateway and its subnet.
const NETWORK: &str = "network";

/// Key of the worker in the bucket of programs.
pub const WORKER_KEY: &str = "bootstrap";
/// Key of this program in the bucket of programs, for instances that run the local platform.
pub const PROGRAM_KEY: &str = "epochcost";
/// Key of the tensor store's module in the bucket of programs.
pub const MODULE_KEY: &str = "tensor-store.so";

/// Returns a part of a name: lower-case letters, digits and hyphens, which the
/// strictest service (S3) accepts.
fn part(text: &str) -> String {
    let letter = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_alphanumeric() => c,
        _ => '-',
    };
    text.chars().map(letter).collect()
}

/// Position of a trial in its run: part of the names of everything that is made for
/// one trial alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrialIndex {
    /// Number of the row in the run, from 0.
    pub row: usize,
    /// Number of the trial in its row, from 0.
    pub trial: usize,
}

impl TrialIndex {
    /// Returns this trial's name for `what`.
    pub(crate) fn name(self, scope: &Scope, what: &str) -> String {
        scope.run.name(&format!("{}-{self}", part(what)))
    }
}

impl fmt::Display for TrialIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { row, trial } = self;
        write!(f, "r{row}t{trial}")
    }
}

/// Returns the name of one of a system's functions for a trial.
pub fn function_name(
    scope: &Scope,
    system: &str,
    function: &str,
    trial_index: TrialIndex,
) -> String {
    trial_index.name(scope, &format!("{system}-{function}"))
}

/// Returns the name of a system's state machine for a trial.
pub fn state_machine_name(scope: &Scope, system: &str, trial_index: TrialIndex) -> String {
    trial_index.name(scope, system)
}

/// Returns the name of a function's log group.
pub fn log_group_name(function: &str) -> String {
    format!("/aws/lambda/{function}")
}

/// Returns the name of the bucket of programs.
pub fn code_bucket(scope: &Scope) -> String {
    scope.run.name("code")
}

/// Returns the name of the bucket of datasets and exchanged objects.
pub fn objects_bucket(scope: &Scope) -> String {
    scope.run.name("objects")
}

/// Returns the name of a run's VPC, of its gateway and of its subnet.
pub(crate) fn network(scope: &Scope) -> String {
    scope.run.name(NETWORK)
}
