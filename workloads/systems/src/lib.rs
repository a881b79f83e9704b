//! Training systems as their papers describe them, over abstract channels.
//!
//! A [`System`] is one file here: settings that name every difference between
//! what a paper says and what its code does, an ordinary async function over a
//! [`World`] that reads like the paper's numbered steps, and its traffic as a
//! closed form. Nothing here knows where it runs: time comes from a
//! [`Clock`], values travel as payloads that a simulation may leave empty, and
//! gradients come from a [`Compute`].

mod allreduce;
mod arithmetic;
mod before;
mod compression;
mod continuation;
mod data;
mod dataset;
mod drive;
mod error;
#[cfg(test)]
mod gossip {
    //! The example of `docs/adding-a-system.md`, from there.
    include!(concat!(env!("OUT_DIR"), "/gossip.rs"));

    mod tests {
        #![allow(clippy::unwrap_used)]
        include!(concat!(env!("OUT_DIR"), "/gossip_tests.rs"));
    }
}
mod gpu_baseline;
mod in_store;
mod job;
pub mod kubeml;
mod lambdaml;
mod listing;
mod mirrored;
pub mod mlless;
mod models;
pub mod p2p;
pub mod p2p_lambda;
pub mod process;
mod published;
mod record;
mod registry;
mod replica;
mod requests;
mod resources;
mod scatterreduce;
mod settings;
pub mod spirt;
mod state_dict;
mod synchronous;
mod system;
mod technique;
pub mod testing;
mod transfers;
mod vector;
mod waiting;
mod workflow;
mod world;

pub use arithmetic::ArithmeticMeter;
pub use before::{Before, after};
pub use data::{DATASET_BUCKET, DataLayout, TEST_KEY, TRAIN_KEY, minibatch_key, shard_key};
pub use dataset::{dataset_objects, phantom_objects};
pub use drive::{ByHost, DriveError, Driven, Functions, InvokeError, drive};
pub use error::SystemError;
pub use job::{DataPlan, Device, Evaluate, Fidelity, Job, Task};
pub use models::{ModelSizes, find_model, models};
pub use record::{
    ChannelTraffic, Evaluation, GpuUsage, InvokedTask, LAST_LINE_PREFIX, OUTCOME_PREFIX,
    PurposeTraffic, RECORD_PREFIX, Record, Stage, StageSeconds, StepRecord, TASK_PREFIX,
};
pub use registry::{find, systems};
pub use requests::{ExecutionStatus, FollowUp, FollowUps, Requests, execution_name, requests};
pub use resources::{Reading, Resources, StageUsage, StageUsages};
pub use settings::SettingsError;
pub use state_dict::{Entry, EntryKind, state_dict};
pub use system::{Host, Launch, Outcome, PaperAccount, QueueService, Replicas, Sizes, System};
pub use technique::{EarlyStopping, ReduceOnPlateau};
pub use vector::Vector;
pub use waiting::{LeftOut, Pause, Watched};
pub use workflow::State;
pub use world::{
    Batch, Channels, Clock, Compute, GradientOutput, Invoke, Recorder, TensorStores, World,
};

/// What training code returns.
pub type Result<T, E = SystemError> = std::result::Result<T, E>;
