//! MLLess: workers that send each other only the significant part of their
//! updates, kept in step by a supervisor over a message queue
//! (Sánchez-Artigas and Sarroca 2021; re-implemented by Barrak et al. 2025).
//!
//! A step of a `worker`, with its place in the comparison paper (Barrak et al. 2025) or in the
//! original's published code:
//!
//! 1. Fetch a mini-batch; compute its gradient (§2 ¶3, Table 1).
//! 2. Take a local optimizer step, so that the model changes at once (published code; §2 ¶3 updates
//!    after step 7 alone).
//! 3. Add the change to what was not sent yet (published code); what of it is significant now is
//!    the update (§2 ¶3, Table 1; by entry: published code, by norm: §4.2 ¶2).
//! 4. If there is one, store it and announce it to all (U) (§2 ¶3, Table 1).
//! 5. Report to the supervisor (I) (§2 ¶3; without an update, too: published code).
//! 6. Wait until the announced updates are those that the supervisor names (C) (§2 ¶3, Table 1).
//! 7. Fetch the peers' updates (§2 ¶3, Table 1) and add them (published code; aggregated gradients:
//!    §2 ¶3, Table 1).
//!
//! The `supervisor` sends C (§2 ¶3) once it has heard I from all workers (published code).
//!
//! Under `paper` this runs as in the original, with the comparison paper's
//! model, optimizer (Adam) and store (S3 instead of Redis). Under `code` it
//! runs as re-implemented: gradients are exchanged whole, the worker's own is
//! downloaded like the others, and every worker steps with their mean. The
//! filter added there is never called; [`Filter::Norm`] calls it.
//!
//! # Order of mini-batches
//!
//! All W·B mini-batches form one list. Worker i starts at position i and
//! advances by W; whenever it wraps, all shuffle the list anew with the same
//! seed. As the list has W·B entries, that is once per epoch.
//!
//! # Final model
//!
//! Replicas differ by what was not sent. Before the end, worker 0's replica is
//! evaluated; after the last epoch, [`FinalModel`] states what.
//!
//! # Fewer workers, and an early end
//!
//! With [`Settings::scale_in`] the supervisor removes workers after the knee of the loss
//! (`scale_in.rs`). It names the worker (K) before it opens the barrier of a step; that worker
//! stores its model and announces it (D), and every other averages its own with it. From the
//! next step on those that are left go through the list of mini-batches: an epoch then has
//! fewer steps per worker left out and more steps in all, and ends where fewer mini-batches are
//! left than workers. The worker removed is the last that reported, as published, but never worker
//! 0, which evaluates.
//!
//! Training ends before its last epoch at a loss ([`Settings::stop_at_loss`]) or after a time
//! ([`Settings::stop_after_s`]); the supervisor names the last step (F) before it opens that
//! step's barrier.
//!
//! # Slack
//!
//! With [`Settings::slack`] s > 0 no barrier holds a worker that is at most s steps ahead: after
//! step t it adds the updates that have come, and waits for nothing but the barrier of step
//! t − s. After its last step it waits for all barriers, so that every update is added once,
//! everywhere. The published code has messages of its own for this (P, from workers, and S,
//! the slowest step, to them); I and C carry the same here. It calls a worker free to go on
//! while "step − slowest < slack" and keeps integers where losses should be: which step is
//! counted from which is our reading.
//!
//! # Encoding
//!
//! Under `paper` an update has the original's 16 bytes per entry, index and value of 8 bytes each,
//! which is more than the dense vector from a quarter of the entries on. The original
//! compresses its pickles with zlib; values that are noise shrink by 7 % or so, to a size that
//! has no closed form, and here nothing is compressed. `tuned` has the shorter of 8 bytes per
//! entry and 4 per parameter.
//!
//! # Start
//!
//! Messages to a fan-out reach only queues bound to it. The supervisor binds
//! all workers' queues and then sends a start message through the exchange;
//! workers send nothing before they have it.
//!
//! # What is left out
//!
//! Statistics to a client (R, T, TD), and zlib. The re-implementation's supervisor divides losses by 1,024, which nothing but its log sees, and adds vectors element by
//! element in Python, a cost of its language and not of its protocol.
//!
//! # Traffic
//!
//! See [`traffic()`].
//!
//! # Objects and keys
//!
//! Bucket `updates`: `{trial}_up_w{rank}_i{step}` holds an update, `{trial}_model_r_w{rank}` a final
//! model (a vector). An update of 4n bytes is a vector; any other is sparse: n (u32), entries (u32),
//! then 8 bytes per entry, index (u32) and value (f32), indices strictly ascending.
//!
//! Exchange `{trial}` fans out to the queues `{trial}_w{rank}`; workers report to `{trial}_supervisor`.
//! `message.rs` has the messages.

mod inbox;
mod message;
mod scale_in;
mod settings;
mod supervisor;
mod traffic;
mod update;
mod worker;

use async_trait::async_trait;
use epochcost_channels::Traffic;
use epochcost_kernels::optimizer::{Adam, OptimizerSpec};

pub use self::message::{FINISH_BYTES, REPORT_BYTES, START_BYTES, UPDATE_BYTES, barrier_bytes};
pub use self::scale_in::ScaleIn;
pub use self::settings::{
    AdditionOrder, Aggregate, Encoding, Exchange, Filter, FinalModel, Settings, StopAtLoss,
};
pub use self::traffic::{Sent, traffic};
use crate::{
    Alike, Bound, BoundSystem, DataLayout, Deployment, Fidelity, Function, Host, Job, Launch,
    Names, Outcome, Replicas, Result, SettingsError, Sizes, Steps, Symmetry, TrainingSystem, World,
};

const NAME: &str = "mlless";
const WORKER: &str = "worker";
const SUPERVISOR: &str = "supervisor";

/// MLLess.
#[derive(Clone, Copy, Debug)]
pub struct MlLess;

/// The queue of worker `rank`, bound to the exchange named after the trial.
fn worker_queue(trial: &str, rank: usize) -> String {
    format!("{trial}_w{rank}")
}

fn supervisor_queue(trial: &str) -> String {
    format!("{trial}_supervisor")
}

const FUNCTIONS: [Function; 2] = [
    Function::worker(WORKER, Host::Function),
    Function::coordinator(SUPERVISOR, Host::Function),
];

#[async_trait]
impl TrainingSystem for MlLess {
    type Settings = Settings;

    fn names(&self) -> Names {
        let about = "MLLess (Sánchez-Artigas and Sarroca 2021). paper: significant updates are summed, a \
         supervisor keeps workers in step; model, optimizer and store of Barrak et al. 2025. code: \
         their re-implementation, which averages whole gradients and never calls its filter";
        Names::new(NAME, "MLLess", about)
    }

    fn deployment(&self) -> Deployment {
        Deployment::new(&FUNCTIONS)
    }

    fn defaults(&self, fidelity: Fidelity) -> Settings {
        Settings::new(fidelity)
    }

    fn check(&self, settings: &Settings) -> Result<(), SettingsError> {
        settings.check()
    }

    fn optimizer(&self, _: Fidelity) -> OptimizerSpec {
        OptimizerSpec::Adam(Adam::new(0.01))
    }

    async fn run(&self, world: &mut World, settings: Settings) -> Result<Outcome> {
        match world.task.function.as_str() {
            SUPERVISOR => supervisor::run(world, &settings).await,
            _ => worker::run(world, settings).await,
        }
    }
}

impl BoundSystem for Bound<'_, MlLess> {
    fn data_layout(&self) -> DataLayout {
        DataLayout::Minibatches
    }

    fn launch(&self) -> Launch {
        let workers = (0..self.job.workers).map(|rank| (WORKER, rank));
        Launch::Workers(workers.chain([(SUPERVISOR, 0)]).collect())
    }

    /// Before a trial, every worker sends a whole update in every step; [`traffic()`] takes what was
    /// really sent.
    fn closed_form(&self, job: &Job, sizes: Sizes, steps: Steps<'_>) -> Result<Traffic> {
        let settings = &self.settings;
        let sent = match steps {
            None => Sent::whole(job, settings, sizes),
            Some(steps) if settings.depends_on_course() => {
                return Ok(traffic::of_course(job, settings, sizes, steps));
            }
            Some(steps) => {
                let densities = steps.iter().filter_map(|step| step.update_density);
                Sent::recorded(settings, sizes, densities)
            }
        };
        Ok(traffic::traffic(job, settings, sizes, sent))
    }

    /// A replica's parameters and momentum, the change, what the filter keeps
    /// back, all updates and their sum; the supervisor holds none. A sparse update of half of the
    /// entries takes as much as a vector, and one that a filter let through less.
    fn resident_vectors(&self, function: &str, _rank: usize) -> usize {
        match function {
            SUPERVISOR => 0,
            _ => self.job.workers + 5,
        }
    }

    fn symmetry(&self) -> Symmetry {
        let instead = if self.settings.rewrites_log {
            "settings: {rewrites_log: false}"
        } else if self.settings.slack > 0 {
            "settings: {slack: 0}"
        } else {
            return Symmetry::Alike(Alike {
                objects: &["_up_w{from}_i{n}", "_model_r_w{from}"],
                queues: &["_w{to}"],
                sender_at: Some(message::RANK_AT),
                drawn: true,
                ..Alike::default()
            });
        };
        Symmetry::Unlike { instead }
    }

    fn replicas(&self) -> Replicas {
        let reason = if !self.settings.seeded_replicas {
            "every worker draws its own initial parameters"
        } else if self.settings.exchange == Exchange::Updates {
            "replicas differ by updates not yet sent and by the order in which they are added"
        } else if self.settings.addition_order == AdditionOrder::Arrival {
            "gradients are added in the order in which they come"
        } else {
            return Replicas::Identical;
        };
        Replicas::Differ { reason }
    }
}
