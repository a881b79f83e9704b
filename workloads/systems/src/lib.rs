//! Training systems as their papers describe them, over abstract channels.
//!
//! A [`TrainingSystem`] is a file or a folder of `systems`: settings that name
//! every difference between what a paper says and what its code does, an
//! ordinary async function over a [`World`] that reads like the paper's numbered
//! steps, and its traffic as a closed form. Systems share `mechanics` and never
//! import from each other; `contract` is what they and their platforms see of
//! each other. Nothing here knows where it runs: time comes from a [`Clock`],
//! values travel as payloads that a simulation may leave empty, and gradients
//! come from a [`Compute`].

mod contract;
mod mechanics;
mod systems;
pub mod testing;

pub use contract::arithmetic::{Arithmetic, ArithmeticMeter};
pub use contract::attack::{Attack, AttackKind, Attackers};
pub use contract::bound::Bound;
pub use contract::compute_hook::{ComputeHook, HookedCompute};
pub use contract::data::{
    DATASET_BUCKET, DataLayout, TEST_KEY, TRAIN_KEY, VALIDATION_KEY, minibatch_in, minibatch_key,
    shard_key,
};
pub use contract::dataset::{dataset_objects, phantom_objects};
pub use contract::deployment::{
    Deployment, Function, Host, Machines, PaperAccount, QueueService, Role,
};
pub use contract::drive::{ByHost, DriveError, Driven, Functions, InvokeError, drive};
pub use contract::error::SystemError;
pub use contract::fault::{Breakdown, BrokenServer, Fault, FaultKind, Faults, Server};
pub use contract::job::{DataPlan, Device, Evaluate, Fidelity, Job, Task};
pub use contract::messages::MessageFaults;
pub use contract::models::{ModelSizes, find_model, models};
pub use contract::pause::{Pause, PollTarget, SkippedPolls};
pub use contract::process;
pub use contract::record::{
    ChannelTraffic, Evaluation, GpuUsage, InvokedTask, LAST_LINE_PREFIX, OUTCOME_PREFIX, Polls,
    PurposeTraffic, RECORD_PREFIX, Record, Stage, StageSeconds, StepRecord, TASK_PREFIX, Waits,
};
pub use contract::requests::{
    ExecutionStatus, FollowUp, FollowUps, Requests, execution_name, requests,
};
pub use contract::resources::{Reading, Resources, StageUsage, StageUsages};
pub use contract::running::{Running, named};
pub use contract::settings::SettingsError;
pub use contract::stage_hook::{StageEntry, StageHook};
pub use contract::state_dict::{Entry, EntryKind, state_dict};
pub use contract::states;
pub use contract::symmetry::{Alike, Parties, StoreUse, Symmetry};
pub use contract::system::{
    BoundSystem, Launch, Names, OfJob, Outcome, Replicas, Sizes, Steps, System,
};
pub use contract::technique::{EarlyStopping, ReduceOnPlateau, Techniques};
pub use contract::totals::{Kept, Totals};
pub use contract::training_system::TrainingSystem;
pub use contract::vector::Vector;
pub use contract::weight;
pub use contract::workflow::{FanOut, State};
pub use contract::world::{
    Batch, Channels, Clock, Compute, GradientOutput, Invoke, Recorder, TensorStores, World,
};

pub use systems::registry::{find, systems};
pub use systems::{aggregation, kubeml, mlless, p2p, p2p_lambda, spirt};

/// Result of training code.
pub type Result<T, E = SystemError> = std::result::Result<T, E>;
