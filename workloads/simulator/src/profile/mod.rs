//! The parts of a platform and the cost of a training step, as data.
//!
//! A platform profile states every number as a [`Constant`] with its source. A
//! simulation runs on a [`Profile`] of plain numbers: the stated values, or a
//! sample of their ranges. A [`ComputeProfile`] gives how long a step takes.

mod compute;
mod constant;
mod fit;
mod levels;
mod parts;
mod platform;
mod refinement;
mod spread;

pub use compute::{ComputeOrigin, ComputeProfile, Fit, GPU_VECTOR_BYTES_PER_S, ModelCost};
pub use constant::{Constant, FittedTo};
pub use fit::{Line, median, parallel_share};
pub use levels::Level;
pub use parts::{
    BandwidthPoint, FunctionModel, GpuModel, HostModel, InstanceModel, InterpretedModel,
    LevelModel, NetworkCredit, ObjectStoreModel, QueueModel, ServiceModel, TensorStoreModel,
    WorkflowModel,
};
pub use platform::{Client, FunctionDevice, Profile, too_slow};
pub use refinement::Refinement;
pub use spread::Spread;
