//! P2P with Lambda: peers on instances whose gradients are computed by
//! functions, one per mini-batch (Barrak et al. 2023, "Exploring the Impact of
//! Serverless Computing on Peer To Peer Training Machine Learning", and its
//! published code).
//!
//! An epoch of a `peer`, with the paper's places:
//!
//! 1. Put the parameters into the object store (here).
//! 2. Start an execution of the state machine (§III-A ¶6, §IV-D3), and ask for its state every 2 s
//!    (published code). Its states: `expand_inputs` makes B inputs of the one (published code);
//!    then B times `compute_gradients` at the same time (§III-C, §IV-D3), each of which fetches its
//!    mini-batch (§IV-D1 ¶1) and the parameters (here), puts its gradient into the object store and
//!    sends the key to the peer's queue (published code).
//! 3. Take all keys from the queue, fetch the gradients (published code), average them
//!    (Algorithm 1, §III-A ¶7) in the order of mini-batches (here).
//! 4. Leave the mean in the peer's own queue (Algorithm 1, §III-A ¶7) or, where it is larger than
//!    the broker takes, its key there and itself in the object store (§III-B3 ¶5); read the other
//!    peers' without taking them (§III-B3 ¶2). Average (Algorithm 1, §III-B5) in rank order (here).
//! 5. Wait in the synchronisation queue until all peers have come this far (Algorithm 1,
//!    §III-B6 ¶4).
//! 6. Take one optimizer step (Algorithm 1, §III-B5); detect convergence (Algorithm 1, §III-B7).
//!
//! # Published defects
//!
//! Each is a setting, on under `code`: functions that never get the weights and
//! each make a model at random (`sends_weights`), replicas that start from
//! parameters of their own, one queue per peer (`peer_queue`) and no barrier, so that a
//! gradient of the epoch before may be read, means that go by reference whatever their size
//! (`message_limit_bytes: 0`), a sleep behind the last poll, objects that are never deleted. Repaired without a setting, because
//! nothing runs otherwise: the functions' call that sends the key is commented
//! out, and a module is used that is never imported.
//!
//! # Batch-norm statistics
//!
//! Functions of an epoch start from the same statistics at the same time. As in
//! SPIRT, those of mini-batch 0 outlive them: only that function reads and
//! writes them, and the peer evaluates with them. Their traffic is state. Under
//! `fresh` none do, and the peer evaluates with the initial ones.
//!
//! # Traffic
//!
//! See `traffic`.

mod functions;
mod peer;
mod settings;
mod traffic;

use std::time::Duration;

use async_trait::async_trait;
use epochcost_channels::Traffic;
use epochcost_kernels::optimizer::OptimizerSpec;

pub use self::settings::Settings;
use crate::mechanics::p2p::{
    BarrierAt, Gate, Mode, PeerQueue, Rules, SyncQueue, check_threshold, object_key, received,
    replicas, symmetry,
};
use crate::mechanics::published::sgd;
use crate::{
    Bound, BoundSystem, DataLayout, Deployment, Fidelity, Function, Host, Job, Names, Outcome,
    PaperAccount, Replicas, Result, SettingsError, Sizes, State, Steps, Symmetry, TrainingSystem,
    World,
};

const NAME: &str = "p2p_lambda";
const PEER: &str = "peer";
const EXPAND: &str = "expand_inputs";
const COMPUTE: &str = "compute_gradients";

/// P2P with Lambda.
#[derive(Clone, Copy, Debug)]
pub struct P2pLambda;

/// Rules of the exchange between peers.
fn rules(settings: &Settings) -> Rules {
    Rules {
        mode: settings.mode,
        compression: settings.compression(),
        queue: settings.mode.queue(settings.peer_queue),
        threshold: settings.threshold,
        averages_own: settings.averages_own,
        message_limit_bytes: settings.message_limit_bytes,
        downloads_again: false,
        poll: Duration::from_millis(settings.poll_ms),
        sleeps_after_last_look: settings.sleeps_after_last_look,
        wait_limit: settings.wait_limit_s.map(Duration::from_secs),
        downloads_at_once: settings.downloads_at_once,
        // A peer that is an epoch ahead may have left a key that another still reads.
        deletes_objects: settings.deletes_objects
            && settings.mode.queue(settings.peer_queue) == PeerQueue::PerEpoch,
    }
}

fn gate(settings: &Settings) -> Gate {
    Gate {
        opens: settings.mode.barrier(settings.barrier),
        at: BarrierAt::Update,
        queue: SyncQueue::PerEpoch,
        before: Duration::ZERO,
        poll: Duration::from_millis(settings.poll_ms),
        settle: Duration::ZERO,
        wait_limit: settings.wait_limit_s.map(Duration::from_secs),
    }
}

/// The queue in which a peer's functions leave the keys of their gradients.
fn lambda_queue(job: &Job, rank: usize) -> String {
    format!("{}_lambda_{rank}", job.trial)
}

fn gradient_key(job: &Job, rank: usize, epoch: usize, batch: usize) -> String {
    let peer = (rank + epoch * job.workers) as u64;
    object_key(job, [0, peer, batch as u64])
}

fn weights_key(job: &Job, rank: usize, epoch: usize) -> String {
    object_key(job, [1, rank as u64, epoch as u64])
}

const FUNCTIONS: [Function; 3] = [
    Function::worker(PEER, Host::Instance),
    // A peer counts the time of its functions itself.
    Function::coordinator(EXPAND, Host::Function),
    Function::coordinator(COMPUTE, Host::Function),
];

#[async_trait]
impl TrainingSystem for P2pLambda {
    type Settings = Settings;

    fn names(&self) -> Names {
        let about = "Peers on instances with one function per mini-batch (Barrak et al. 2023). paper: weights \
         are sent to the functions, large gradients by reference, a synchronisation queue. code: \
         as published, where every function makes a model at random and nobody waits";
        Names::new(NAME, "P2P with Lambda", about)
    }

    fn deployment(&self) -> Deployment {
        Deployment {
            // That of Table II.
            instance_type: "t2.small",
            paper_account: PaperAccount::PeerToPeer,
            ..Deployment::new(&FUNCTIONS)
        }
    }

    fn defaults(&self, fidelity: Fidelity) -> Settings {
        Settings::new(fidelity)
    }

    fn check(&self, settings: &Settings) -> Result<(), SettingsError> {
        check_threshold(NAME, &rules(settings), gate(settings).opens)?;
        settings.compression().check(NAME)
    }

    /// SGD at 0.001, as the paper's synchronous run; the code has 0.01.
    fn optimizer(&self, fidelity: Fidelity) -> OptimizerSpec {
        match fidelity {
            Fidelity::Paper | Fidelity::Tuned => sgd(0.001, 0.0, 0.0),
            Fidelity::Code => sgd(0.01, 0.0, 0.0),
        }
    }

    async fn run(&self, world: &mut World, settings: Settings) -> Result<Outcome> {
        world.at(world.task.epoch, world.task.batch);
        match world.task.function.as_str() {
            PEER => {
                peer::train(world, &settings).await?;
                return Ok(Outcome::Finished);
            }
            // The inputs are the task with each of its mini-batches: the
            // platform's state machine makes them, and this is the call that it takes.
            EXPAND => {}
            _ => functions::compute_gradients(world, &settings).await?,
        }
        world.end_step();
        Ok(Outcome::Finished)
    }
}

impl BoundSystem for Bound<'_, P2pLambda> {
    fn data_layout(&self) -> DataLayout {
        DataLayout::Minibatches
    }

    /// As PyTorch's `DataLoader` cuts what is left.
    fn trains_on_the_rest(&self) -> bool {
        true
    }

    /// The mean gradient of all mini-batches is one step.
    fn steps_per_epoch(&self) -> usize {
        1
    }

    fn states(&self) -> Vec<State> {
        vec![
            State::Task { function: EXPAND },
            State::Batches {
                function: COMPUTE,
                fan_out: self.settings.fan_out,
            },
        ]
    }

    /// Every gradient is read once by every other peer that waits for all.
    fn closed_form(&self, job: &Job, sizes: Sizes, steps: Steps<'_>) -> Result<Traffic> {
        let settings = &self.settings;
        // Peers with a queue of the latest gradient read it once an epoch, whatever its age.
        let reads_once = settings.mode == Mode::Synchronous && settings.threshold.is_none();
        let read = match steps.filter(|_| !reads_once) {
            None => (job.workers * (job.workers - 1) * job.epochs) as u64,
            Some(steps) => {
                // Peers also take the keys of their functions.
                let keys = (job.workers * job.batches_per_worker * job.epochs) as u64;
                received(steps).saturating_sub(keys)
            }
        };
        traffic::traffic(settings, job, sizes, read)
    }

    /// A function holds its parameters, its gradient and the gradient as it is
    /// sent; a peer parameters, momentum, a mini-batch's gradient and their sum,
    /// the message, what top-k keeps back, and every peer's gradient.
    fn resident_vectors(&self, function: &str, _rank: usize) -> usize {
        match function {
            PEER => self.job.workers + 5 + self.settings.downloads_at_once,
            COMPUTE => 3,
            _ => 0,
        }
    }

    fn symmetry(&self) -> Symmetry {
        symmetry(&rules(&self.settings))
    }

    fn replicas(&self) -> Replicas {
        replicas(&rules(&self.settings), self.settings.seeded_replicas)
    }
}
