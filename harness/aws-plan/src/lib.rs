//! What rows of an experiment need on AWS, and cost there at most. Needs no client and no account.

mod endpoint;
mod needs;
mod training;
mod worst_case;

pub use epochcost_channels::Allowance;

pub use endpoint::{EndpointService, endpoints};
pub use needs::{NEW_ACCOUNT_MEMORY_MB, Needs, Quota, vcpus};
pub use training::{
    AROUND_TRIAL_S, AROUND_WORKER_S, FunctionCalls, Limits, MACHINE, Role, SERVICE_INSTANCE,
    Training,
};
pub use worst_case::{
    LEASE_S, Line, METRICS_OF_FUNCTION, METRICS_OF_INSTANCE, Prices, RENEWED_S, SWITCH_RETRIES,
    SWITCH_ROUNDS, Share, Shares, WorstCaseError, lasts_s, object_s, shares, switch_transitions,
    worst_case,
};
