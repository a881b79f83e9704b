//! P2P: instances without a server that leave their gradients in message queues
//! (Barrak et al. 2023, "Exploring the Impact of Serverless Computing on Peer
//! To Peer Training Machine Learning", and its published code).
//!
//! An epoch of a `peer`, with the paper's places:
//!
//! 1. Compute the gradients of all its mini-batches at the same parameters, and
//!    average them (Algorithm 1, §III-B2).
//! 2. Send: compress the mean (§III-B4) and leave it in the peer's own queue (Algorithm 1,
//!    §III-B3 ¶1). Where it is larger than the broker takes, it goes into the object store, and
//!    its key into the queue (§III-B3 ¶5).
//! 3. Receive: read the other peers' gradients without taking them (§III-B3 ¶2). Synchronous
//!    peers poll until they have all (Algorithm 1; up to a threshold: §III-B3 ¶4, `threshold`);
//!    asynchronous ones take what they find, however old (§III-B6 ¶2, §V-D), and poll once (here).
//! 4. Average all (Algorithm 1, §III-B5) in rank order (here).
//! 5. Synchronous: leave a token in the synchronisation queue, and wait until it
//!    holds as many as there are peers (§III-B6 ¶4). At this place: Algorithm 1; §III-B6 ¶4 and
//!    the code wait behind step 7 (`barrier_at: end`).
//! 6. Take one optimizer step (Algorithm 1, §III-B5).
//! 7. Detect convergence (Algorithm 1, §III-B7): every peer evaluates its model.
//!
//! So an epoch is one step on the mean of means, an effective batch of W·B·b.
//! The paper's algorithm adds the gradient; its code subtracts it, as is done
//! here.
//!
//! # Published defects
//!
//! Each is a setting, on under `code`: QSGD that sends more than it was given
//! (`compression: qsgd_published`), gradients that are fetched anew in every
//! poll (`downloads_again`), a sleep after the last poll, a barrier that opens
//! at W tokens exactly and which every peer empties, replicas that start from
//! parameters of their own, no limit of a message. With them, a peer whose
//! gradients take less time than the pause between two polls of the barrier
//! may read another's gradient of the epoch before, and its token may be lost:
//! then all wait for ever, as the published peers would.
//!
//! # What is left out
//!
//! Published defects of convergence: peers that stop early leave before they post their
//! token, and the others wait for ever; a learning-rate schedule that is never stepped.
//! Here all peers stop, and step their schedules, together.
//!
//! # Validation
//!
//! The paper's peers evaluate validation data (Algorithm 1) that it does not name; its code holds
//! a tenth of each peer's own out. With [`Validation::OwnShare`] and a share `validation` of the dataset, each peer evaluates its own
//! part of the validation split in every epoch. The paper does not say how peers agree:
//! here each gives its result to all (24 bytes, counted as state), and all follow the mean
//! loss, weighted by samples, so that replicas stay identical. Peer 0 also evaluates the test
//! split, for the report alone.
//!
//! # Batch-norm statistics
//!
//! Every peer keeps its own, over all mini-batches that it computes; they are
//! not exchanged.
//!
//! # Traffic
//!
//! With S bytes of a gradient as it is sent and T = 4 of a token: W·E gradients
//! up and W(W − 1)·E down, S bytes each, and W·E tokens. Asynchronous peers send
//! no tokens, 8 bytes more with each gradient, and read what they find: as many
//! as their steps report.

mod settings;

use std::time::Duration;

use async_trait::async_trait;
use epochcost_channels::Traffic;
use epochcost_kernels::optimizer::OptimizerSpec;

pub use self::settings::Settings;
use crate::contract::data::Shard;
pub use crate::mechanics::compression::{Compression, Method, Norm};
use crate::mechanics::monitor::Monitor;
pub use crate::mechanics::p2p::{
    Barrier, BarrierAt, EPOCH_BYTES, KEY_BYTES, Mode, PeerQueue, SyncQueue, TOKEN_BYTES, Validation,
};
use crate::mechanics::p2p::{
    Gate, Mailbox, Rules, between_peers, check_threshold, detect_convergence, received, replicas,
    symmetry,
};
use crate::mechanics::published::sgd;
use crate::mechanics::replica::Replica;
use crate::{
    Bound, BoundSystem, DataLayout, Deployment, Fidelity, Function, Host, Job, Names, Outcome,
    PaperAccount, Replicas, Result, SettingsError, Sizes, Stage, Steps, Symmetry, SystemError,
    TrainingSystem, Vector, World,
};

const NAME: &str = "p2p";
const PEER: &str = "peer";

/// P2P.
#[derive(Clone, Copy, Debug)]
pub struct P2p;

fn rules(settings: &Settings) -> Rules {
    Rules {
        mode: settings.mode,
        compression: settings.compression(),
        queue: settings.mode.queue(settings.peer_queue),
        threshold: settings.threshold,
        averages_own: settings.averages_own,
        message_limit_bytes: settings.message_limit_bytes,
        downloads_again: settings.downloads_again,
        poll: Duration::from_millis(settings.poll_ms),
        sleeps_after_last_look: settings.sleeps_after_last_look,
        wait_limit: settings.wait_limit_s.map(Duration::from_secs),
        downloads_at_once: settings.downloads_at_once,
        deletes_objects: settings.deletes_objects,
    }
}

fn gate(settings: &Settings) -> Gate {
    Gate {
        opens: settings.mode.barrier(settings.barrier),
        at: settings.barrier_at,
        queue: settings.sync_queue,
        before: Duration::from_millis(settings.barrier_before_ms),
        poll: Duration::from_millis(settings.barrier_poll_ms),
        settle: Duration::from_millis(settings.barrier_settle_ms),
        wait_limit: settings.wait_limit_s.map(Duration::from_secs),
    }
}

/// The mean gradient of a peer's mini-batches of `epoch`, all at the same
/// parameters; their mean loss is noted.
async fn mean_gradient(
    world: &mut World,
    replica: &mut Replica,
    shard: &Shard,
    epoch: usize,
) -> Result<Vector> {
    let batches = world.task.job.batches_per_worker;
    world.enter(Stage::FetchDataset);
    let order = shard.batches(world, world.rank() as u64, epoch, 1);
    let mut sum: Option<Vector> = None;
    let mut losses = Vec::with_capacity(batches);
    for index in 0..batches {
        world.enter(Stage::FetchDataset);
        let batch = shard.batch(&order, index)?;
        world.enter(Stage::ComputeGradients);
        let statistics = &mut replica.statistics;
        let computing = world
            .compute
            .gradient(&replica.parameters, statistics, &batch);
        let output = computing.await?;
        losses.extend(output.loss);
        match &mut sum {
            Some(sum) => sum.add(&output.gradient)?,
            None => sum = Some(output.gradient),
        }
    }
    world.note_losses(&losses);
    let mut mean = sum.ok_or_else(|| SystemError::Compute("an epoch has no mini-batch".into()))?;
    mean.divide(batches as f32);
    Ok(mean)
}

async fn train(world: &mut World, settings: &Settings) -> Result<()> {
    let job = world.task.job.clone();
    let mut replica = Replica::initial(world, settings.seeded_replicas).await?;
    let shard = Shard::fetch(world, DataLayout::Shards).await?;
    let (rules, gate) = (rules(settings), gate(settings));
    let empties = rules.mode == Mode::Synchronous && rules.queue == PeerQueue::Latest;
    let mut mailbox = Mailbox::new(world, rules);
    let mut monitor = Monitor::new(&job);
    for epoch in 0..job.epochs {
        world.at(epoch, None);
        if empties {
            mailbox.empty(world, epoch).await?;
        }
        let gradient = mean_gradient(world, &mut replica, &shard, epoch).await?;
        let mean = mailbox.exchange(world, &gradient, epoch).await?;
        gate.pass(world, BarrierAt::Update, epoch).await?;
        world.enter(Stage::UpdateModel);
        replica.update(&mean)?;
        world.note_parameters(&replica.parameters);
        let rule = settings.mode.validation(settings.validation);
        detect_convergence(world, rule, &mut monitor, &mut replica, epoch).await?;
        gate.pass(world, BarrierAt::End, epoch).await?;
        world.end_step();
        if monitor.as_ref().is_some_and(|monitor| monitor.is_over) {
            break;
        }
    }
    Ok(())
}

/// P2P's exchange in one trial, where peers read `received` gradients.
///
/// With W peers, E epochs, S bytes of a gradient as it is sent and T of a
/// token: W·E gradients and, with a barrier, as many tokens; up
/// W·E·(S + T), down `received` · S. Synchronous peers read W(W − 1)·E unless
/// they fetch gradients again that they have.
fn traffic(settings: &Settings, job: &Job, sizes: Sizes, received: u64) -> Result<Traffic> {
    let rounds = (job.workers * job.epochs) as u64;
    let mut traffic = between_peers(&rules(settings), sizes, rounds, received)?;
    traffic += gate(settings).traffic(rounds);
    Ok(traffic)
}

const FUNCTIONS: [Function; 1] = [Function::worker(PEER, Host::Instance)];

#[async_trait]
impl TrainingSystem for P2p {
    type Settings = Settings;

    fn names(&self) -> Names {
        let about = "Peers on instances that leave gradients in message queues (Barrak et al. 2023). paper: \
         QSGD that compresses, large gradients by reference, a synchronisation queue. code: as \
         published, with gradients fetched again in every poll, a barrier of exact equality and \
         QSGD that sends more than it was given. Asynchronous by the setting mode";
        Names::new(NAME, "P2P", about)
    }

    fn deployment(&self) -> Deployment {
        Deployment {
            // That of VGG-11, Table III; smaller models ran on t2.medium.
            instance_type: "t2.large",
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

    /// SGD at 0.001, as the paper's synchronous run; the code has 0.02.
    fn optimizer(&self, fidelity: Fidelity) -> OptimizerSpec {
        match fidelity {
            Fidelity::Paper | Fidelity::Tuned => sgd(0.001, 0.0, 0.0),
            Fidelity::Code => sgd(0.02, 0.0, 0.0),
        }
    }

    async fn run(&self, world: &mut World, settings: Settings) -> Result<Outcome> {
        train(world, &settings).await?;
        Ok(Outcome::Finished)
    }
}

impl BoundSystem for Bound<'_, P2p> {
    /// As PyTorch's `DataLoader` cuts what is left.
    fn trains_on_the_rest(&self) -> bool {
        true
    }

    /// The mean gradient of all mini-batches is one step.
    fn steps_per_epoch(&self) -> usize {
        1
    }

    /// Every gradient is read once by every other peer; asynchronous peers, and those that fetch
    /// gradients again, read what their steps report.
    fn closed_form(&self, job: &Job, sizes: Sizes, steps: Steps<'_>) -> Result<Traffic> {
        let reads_once = rules(&self.settings).reads_once();
        let once = (job.workers * (job.workers - 1) * job.epochs) as u64;
        let read = steps.filter(|_| !reads_once).map_or(once, received);
        traffic(&self.settings, job, sizes, read)
    }

    /// Parameters, momentum, the sum and a mini-batch's gradient, the message,
    /// what top-k keeps back, and every peer's gradient.
    fn resident_vectors(&self, _function: &str, _rank: usize) -> usize {
        self.job.workers + 6
    }

    fn symmetry(&self) -> Symmetry {
        symmetry(&rules(&self.settings))
    }

    fn replicas(&self) -> Replicas {
        replicas(&rules(&self.settings), self.settings.seeded_replicas)
    }
}
