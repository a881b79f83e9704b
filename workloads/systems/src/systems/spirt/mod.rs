//! SPIRT: peer-to-peer training by a workflow of functions, each peer with a
//! tensor store that averages and updates where the tensors lie (Barrak et al.
//! 2023, and its published functions).
//!
//! An epoch of a peer, one function a line (B + 7 invocations), each with its place in the
//! comparison paper (Barrak et al. 2025):
//!
//! 1. `authenticate`: reach the store of every peer (published code).
//! 2. `compute_gradients`, B in parallel: one mini-batch each (§2 ¶2, Table 1), all at the same
//!    parameters (published code); the gradient goes into the peer's store (§2 ¶2, Table 1).
//! 3. `average_gradients`: the store averages the B gradients (§2 ¶2, §4.2 ¶4, Table 1); then the
//!    synchronisation queue, until all peers have come this far (§2 ¶2, §3.3 ¶2, Table 1).
//! 4. `check_heartbeat`: ping every peer; drop the batch gradients (published code).
//! 5. `aggregate_gradients`: fetch every peer's average, aggregate and store (§2 ¶2, Table 1): the
//!    mean (intended in the published code), taken in rank order (here).
//! 6. `update_model`: the store takes one step (§2 ¶2, §4.2 ¶4), of SGD (intended in the
//!    published code).
//! 7. `check_convergence`: fetch the parameters (published code; early stopping: §4.3 ¶2); rank 0
//!    evaluates (here).
//! 8. `trigger_next`: start the next epoch's workflow (published code; workflows: §3.3 ¶2).
//!
//! So an epoch is one step on the mean of means, an effective batch of W·B·b (published code).
//! Before the first, `init_peer` stores the initial parameters (published code).
//!
//! # Rounds per epoch
//!
//! With R rounds per epoch ([`Settings::rounds_per_epoch`]; the comparison paper's
//! "gradient accumulation", section 5) the workflow is executed R times per epoch, each
//! time with an R-th of the mini-batches: R steps, each on an effective batch of W·B·b/R,
//! for R times the exchanges and B + 7R invocations. Rank 0 evaluates after the last.
//!
//! # What is left out
//!
//! Exchanged passwords: peers of a trial belong to one experiment and are given each
//! other's stores. Without [`Settings::signatures`], `authenticate` proves reachability only.
//! The published check
//! for early stopping, which starts from an empty history at every call and can never
//! stop: by default there is none, and the setting `early_stopping` keeps its history in
//! an object.
//!
//! # Robust aggregation
//!
//! The paper claims accuracy under attack and names no rule; the published functions take
//! the mean. With [`Settings::robust`] `aggregate_gradients` refuses averages that have
//! another length or values that are not finite, puts those of the other peers into the
//! peer's store, and the store aggregates them (or the function does, with
//! [`RobustAt::Function`]). All peers aggregate the same averages in rank order, so
//! replicas stay identical. Attackers replace their average before they announce
//! themselves, and read those of honest peers first where the attack is made of them.
//!
//! # Membership
//!
//! As published, a peer that fails ends the trial: the others wait for it. With
//! [`Settings::membership`] it is noticed by its heartbeat and voted out, and the barrier,
//! the divisor of the mean, the first peer (which evaluates) and the closed form follow
//! (`membership.rs`). A dead peer counts among the f of a robust rule. With
//! [`Settings::rejoin`] it is called again at the end of the epoch, and takes the model from
//! a living peer; so do new peers with [`Settings::joins`]. The mini-batches are dealt out over the
//! members of each epoch.
//!
//! # Signatures
//!
//! With [`Settings::signatures`] peers exchange public keys in the first `authenticate`, sign
//! their averages, and refuse those of others that are not signed for the epoch and round
//! (`signatures.rs`).
//!
//! # Synchronisation
//!
//! The queue of the barrier is RabbitMQ's under `paper`, as in the comparison paper (section
//! 3.3), which is paid by the hour; the published functions use SQS, which is paid by the request.
//! The setting [`Settings::broker`] decides the bill.
//!
//! # Batch-norm statistics
//!
//! The B functions of an epoch start from the same statistics at the same
//! time, and no paper says whose survive. Under [`BatchNorm::FirstBatch`] those
//! of mini-batch 0 do: they live in the peer's store, and only that function
//! reads and writes them. The others start from the initial statistics and
//! discard theirs; gradients do not depend on running statistics. Their traffic
//! is state, not exchange.
//!
//! # Traffic
//!
//! See [`traffic()`].
//!
//! # Objects and keys
//!
//! In the tensor store of each peer:
//!
//! - `params`, `params:velocity`: parameters; their momentum, if there is one
//! - `gradients_{epoch}_{batch}`: a mini-batch's gradient
//! - `gradients_{epoch}`: all of them as a list of JSON texts (`json` averaged `in_store`)
//! - `averaged_gradient_{epoch}`: their mean, a vector
//! - `summed_gradient_{epoch}`: their sum instead (`on_arrival`)
//! - `aggregated_gradient_{epoch}`: the mean of all peers' means
//! - `statistics`: batch-norm statistics (state)
//!
//! Queue `{trial}_sync_{epoch}`, or `{trial}_sync` if shared: messages of 9 bytes, rank (u32), epoch
//! (u32), 1 in a peer's last epoch, else 0 (u8), which peers count. With `push` they go to
//! `{trial}_sync_{epoch}_{peer}` of every other peer, which takes W − 1 of them.

mod attack;
mod barrier;
mod membership;
mod robust;
mod settings;
mod signatures;
mod stages;
mod traffic;

use async_trait::async_trait;
use epochcost_channels::{SgdStep, Traffic};
use epochcost_kernels::optimizer::{OptimizerSpec, Sgd};

pub use self::barrier::TOKEN_BYTES;
pub use self::robust::{Robust, RobustAt};
pub use self::settings::{
    Averaging, Barrier, BarrierBy, Broker, GradientFormat, Joins, ReadingOrder, Settings,
    SyncQueue, Update,
};
pub use self::signatures::Signatures;
pub use self::traffic::{TEXT_BYTES_PER_PARAMETER, Texts, traffic};
pub use crate::mechanics::batch_norm::BatchNorm;
use crate::mechanics::published::plain_sgd;
use crate::{
    Alike, AttackKind, Bound, BoundSystem, DataLayout, Deployment, Fidelity, Function, Host, Job,
    Launch, Machines, Names, Outcome, QueueService, Replicas, Result, SettingsError, Sizes, State,
    Steps, StoreUse, Symmetry, TrainingSystem, World,
};

const NAME: &str = "spirt";

/// SPIRT.
#[derive(Clone, Copy, Debug)]
pub struct Spirt;

/// The function that prepares a peer.
const INIT: &str = "init_peer";
/// The function that computes the gradient of one mini-batch.
const COMPUTE: &str = "compute_gradients";

/// The job's optimizer, which must be one that the store can apply.
fn sgd_of(job: &Job) -> Result<Sgd, SettingsError> {
    match job.optimizer {
        OptimizerSpec::Sgd(sgd) => Ok(sgd),
        OptimizerSpec::Adam(_) => {
            let reason = "the tensor store knows SGD only; use {sgd: {learning_rate: 0.01}}";
            Err(SettingsError::value(NAME, "optimizer", reason))
        }
    }
}

fn in_store_step(sgd: Sgd) -> SgdStep {
    SgdStep {
        learning_rate: sgd.learning_rate as f32,
        momentum: sgd.momentum as f32,
        weight_decay: sgd.weight_decay as f32,
    }
}

/// That which prepares a peer, and those of an epoch, in order.
const FUNCTIONS: [Function; 9] = [
    Function::worker(INIT, Host::Function),
    Function::worker("authenticate", Host::Function),
    Function::worker(COMPUTE, Host::Function),
    Function::worker("average_gradients", Host::Function),
    Function::worker("check_heartbeat", Host::Function),
    Function::worker("aggregate_gradients", Host::Function),
    Function::worker("update_model", Host::Function),
    Function::worker("check_convergence", Host::Function),
    Function::worker("trigger_next", Host::Function),
];

#[async_trait]
impl TrainingSystem for Spirt {
    type Settings = Settings;

    fn names(&self) -> Names {
        let about = "SPIRT (Barrak et al. 2023). paper: binary tensors, averaged and updated in each peer's \
         store, a queue as barrier. code: the published functions where they can run at all: JSON \
         text, averages shipped out and back, unseeded replicas, a naive update. tuned: gradients \
         added up in the store as they come, a barrier that notifies its peers, transfers at once, \
         each peer reading from its neighbour on";
        Names::new(NAME, "SPIRT", about)
    }

    fn deployment(&self) -> Deployment {
        Deployment {
            // One per peer.
            tensor_store_hosts: Some(Machines::PerWorker),
            queue_service: QueueService::Sqs,
            ..Deployment::new(&FUNCTIONS)
        }
    }

    fn defaults(&self, fidelity: Fidelity) -> Settings {
        Settings::new(fidelity)
    }

    fn check(&self, settings: &Settings) -> Result<(), SettingsError> {
        let is_text = settings.gradient_format == GradientFormat::Json;
        let unless_members = "without members nobody becomes one; use membership: true";
        let (field, reason) = if settings.rounds_per_epoch == 0 {
            let reason = "an epoch has one round or more; use 1 to exchange once per epoch";
            ("rounds_per_epoch", reason)
        } else if settings.rejoin && !settings.membership {
            ("rejoin", unless_members)
        } else if settings.joins.is_some() && !settings.membership {
            ("joins", unless_members)
        } else if is_text && settings.averaging == Averaging::OnArrival {
            let reason = "a store cannot add texts as they come; use gradient_format: binary";
            ("averaging", reason)
        } else {
            return Ok(());
        };
        Err(SettingsError::value(NAME, field, reason))
    }

    fn check_job(&self, job: &Job, settings: &Settings) -> Result<(), SettingsError> {
        sgd_of(job)?;
        settings.check_robust(job)?;
        if let Some(Joins { peers, epoch }) = settings.joins {
            let (workers, epochs) = (job.workers, job.epochs);
            if !(1..workers).contains(&peers) || !(1..epochs).contains(&epoch) {
                let reason = format!(
                    "of {workers} peers 1 to {} may join, in an epoch from 1 to {}",
                    workers.saturating_sub(1),
                    epochs.saturating_sub(1)
                );
                return Err(SettingsError::value(NAME, "joins", reason));
            }
        }
        let kind = job.attack.as_ref().map(|attack| attack.kind);
        if kind == Some(AttackKind::WrongKey) && settings.signatures == Signatures::None {
            let reason = "no key is wrong where nothing is signed; use signatures: leave_out";
            return Err(SettingsError::value(NAME, "signatures", reason));
        }
        if settings.averaging == Averaging::OnArrival && kind.is_some_and(AttackKind::needs_honest)
        {
            let reason = "an attacker cannot see when a sum that grows on arrival is complete; use \
                          averaging: in_store";
            return Err(SettingsError::value(NAME, "averaging", reason));
        }
        Ok(())
    }

    /// Attackers poll the stores of honest peers before they announce themselves.
    fn attackers_see_honest(&self) -> bool {
        true
    }

    /// SGD at 0.01 in both: the published gradient function's 0.02 builds an
    /// optimizer that is never stepped.
    fn optimizer(&self, _: Fidelity) -> OptimizerSpec {
        plain_sgd()
    }

    async fn run(&self, world: &mut World, settings: Settings) -> Result<Outcome> {
        // Functions of one of several rounds bear the number of its last mini-batch.
        let rounds = settings.rounds(&world.task.job);
        let last = world.task.minibatches(rounds).last();
        let batch = world.task.batch.or(last.filter(|_| rounds > 1));
        world.at(world.task.epoch, batch);
        world.compute.leave_attack_to_system();
        let mut outcome = Outcome::Finished;
        match world.task.function.as_str() {
            INIT => stages::init_peer(world, &settings).await?,
            "authenticate" => stages::authenticate(world, &settings).await?,
            COMPUTE => stages::compute_gradients(world, &settings).await?,
            "average_gradients" => stages::average_gradients(world, &settings).await?,
            "check_heartbeat" => stages::check_heartbeat(world, &settings).await?,
            "aggregate_gradients" => stages::aggregate_gradients(world, &settings).await?,
            "update_model" => stages::update_model(world, &settings).await?,
            "check_convergence" => stages::check_convergence(world, &settings).await?,
            _ => outcome = stages::trigger_next(world, &settings).await?,
        }
        world.end_step();
        Ok(outcome)
    }
}

impl BoundSystem for Bound<'_, Spirt> {
    fn queue_service(&self) -> QueueService {
        match self.settings.broker {
            Broker::RabbitMq => QueueService::RabbitMq,
            Broker::Sqs => QueueService::Sqs,
        }
    }

    fn data_layout(&self) -> DataLayout {
        DataLayout::Minibatches
    }

    fn launch(&self) -> Launch {
        Launch::Workflow { bootstrap: INIT }
    }

    fn states(&self) -> Vec<State> {
        let fan_out = self.settings.fan_out;
        let state = |function: &Function| match function.name {
            COMPUTE => State::Batches {
                function: COMPUTE,
                fan_out,
            },
            function => State::Task { function },
        };
        FUNCTIONS[1..].iter().map(state).collect()
    }

    fn rounds(&self) -> usize {
        self.settings.rounds(self.job)
    }

    /// The average of a round's gradients is one step.
    fn steps_per_epoch(&self) -> usize {
        self.settings.rounds(self.job)
    }

    fn first_peers(&self) -> usize {
        self.settings.first_peers(self.job.workers)
    }

    fn survives_lost_peers(&self) -> bool {
        self.settings.membership
    }

    /// Texts count at [`TEXT_BYTES_PER_PARAMETER`] with [`GradientFormat::Json`]; [`traffic()`] takes
    /// the real ones. Members of a round are the peers that ended `average_gradients`, whose barrier
    /// decides them.
    fn closed_form(&self, job: &Job, sizes: Sizes, steps: Steps<'_>) -> Result<Traffic> {
        let settings = &self.settings;
        if let Some(steps) = steps.filter(|_| settings.membership) {
            return traffic::of_members(job, settings, sizes, steps);
        }
        traffic::traffic(job, settings, sizes, Texts::nominal(job, settings, sizes))
    }

    fn states_bytes(&self) -> bool {
        self.settings.gradient_format == GradientFormat::Binary
    }

    /// Aggregation holds every peer's average as it comes and decoded, and
    /// their mean; a gradient function its parameters and its gradient, as a
    /// vector and as it is sent. Averages are computed in the store, unless
    /// they are fetched.
    fn resident_vectors(&self, function: &str, _rank: usize) -> usize {
        let (settings, workers) = (&self.settings, self.job.workers);
        match function {
            // Mixing and centres are further vectors of the rule.
            "aggregate_gradients" if settings.robust_at == RobustAt::Function => {
                workers + 3 + usize::from(settings.nearest_neighbour_mixing) * workers
            }
            "aggregate_gradients" => workers + 2,
            "average_gradients" if settings.averaging == Averaging::Fetch => {
                let batches = self.job.batches_per_worker;
                batches.div_ceil(settings.rounds(self.job)) + 2
            }
            _ => 3,
        }
    }

    fn symmetry(&self) -> Symmetry {
        if self.settings.membership {
            return Symmetry::Unlike {
                instead: "settings: {membership: false}",
            };
        }
        Symmetry::Alike(Alike {
            queues: &["_sync_{n}_{to}"],
            sender_at: Some(0),
            stores: match self.settings.reading_order {
                ReadingOrder::Rank => StoreUse::TogetherIn("aggregate_gradients"),
                ReadingOrder::Neighbour => StoreUse::Apart,
            },
            ..Alike::default()
        })
    }

    fn replicas(&self) -> Replicas {
        if self.settings.seeded_replicas {
            Replicas::Identical
        } else {
            Replicas::Differ {
                reason: "every peer draws its own initial parameters",
            }
        }
    }
}
