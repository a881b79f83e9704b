//! The functions of SPIRT's workflow, in its order and words.

use epochcost_channels::{Payload, TensorStore};
use epochcost_kernels::codec;

use super::attack::{EARLIER, corrupt};
use super::barrier::synchronise;
use super::membership::{self, members};
use super::robust::{note_refused, screen};
use super::signatures::{self, Signatures, signature_key};
use super::{
    Averaging, GradientFormat, ReadingOrder, RobustAt, Settings, TEXT_BYTES_PER_PARAMETER, Update,
    in_store_step, sgd_of,
};
use crate::contract::data;
use crate::mechanics::continuation::{load_monitor, save_monitor};
use crate::mechanics::monitor::Monitor;
use crate::mechanics::replica::initial_seed;
use crate::mechanics::transfers::{at_once, in_turn};
use crate::{Batch, Outcome, Result, Stage, Vector, World};

const PARAMETERS: &str = "params";
/// Key under which the store itself keeps the momentum of [`PARAMETERS`].
const VELOCITY: &str = "params:velocity";
const STATISTICS: &str = "statistics";
/// Aggregate of centred clipping, from which the next round's starts.
const CENTRE: &str = "aggregated_gradient";
/// The model, and the state of its optimizer and of its rule.
pub(super) const MODEL: [&str; 4] = [PARAMETERS, VELOCITY, STATISTICS, CENTRE];
/// Momentum of the averages that a peer shares.
const MOMENTUM: &str = "averaged_momentum";

/// The list of a round's gradients; rounds are counted from the first epoch's first.
fn gradients_key(round: usize) -> String {
    format!("gradients_{round}")
}

/// One gradient of a round, where they are no list.
fn gradient_key(round: usize, batch: usize) -> String {
    format!("gradients_{round}_{batch}")
}

fn averaged_key(round: usize) -> String {
    format!("averaged_gradient_{round}")
}

/// The running sum of a round's gradients, where they are added as they come.
fn summed_key(round: usize) -> String {
    format!("summed_gradient_{round}")
}

/// Returns the key of the gradient of a peer's mini-batches, which other peers fetch.
pub(super) fn shared_key(settings: &Settings, round: usize) -> String {
    match settings.averaging {
        Averaging::OnArrival => summed_key(round),
        Averaging::InStore | Averaging::Fetch => averaged_key(round),
    }
}

/// Returns the key of the gradient that the model is updated with. One that is the state of
/// the next round's has one key for all rounds.
fn aggregated_key(settings: &Settings, round: usize) -> String {
    if settings.has_centre() {
        return CENTRE.to_owned();
    }
    format!("aggregated_gradient_{round}")
}

/// Returns the key of another peer's average, in the store of the peer that aggregates it.
fn peer_key(rank: usize) -> String {
    format!("peer_gradient_{rank}")
}

/// Stores the initial parameters, and batch-norm statistics if they are kept.
pub(super) async fn init_peer(world: &mut World, settings: &Settings) -> Result<()> {
    let seed = initial_seed(world, settings.seeded_replicas);
    let store = world.exchange.store(world.rank())?;
    let state = world.state.store(world.rank())?;
    let keeps_statistics = settings.batch_norm.is_kept(world);

    world.enter(Stage::UpdateModel);
    let parameters = world.compute.initial_parameters(seed).await?;
    world.enter(Stage::Put);
    // A store that served an earlier trial may remember its state.
    let remembered = [VELOCITY, CENTRE, MOMENTUM, EARLIER];
    let remembered = remembered.into_iter().chain(membership::REMEMBERED);
    let remembered = remembered.chain(signatures::REMEMBERED);
    let remembered: Vec<String> = remembered.map(str::to_owned).collect();
    store.delete(&remembered).await?;
    store.set(PARAMETERS, parameters.encode()).await?;
    if keeps_statistics {
        let initial = world.compute.initial_statistics();
        state.set(STATISTICS, initial.encode()).await?;
    }
    if settings.signatures != Signatures::None {
        signatures::make_key(world).await?;
    }
    Ok(())
}

/// Reaches every peer's store, so that an epoch that cannot end does not begin.
pub(super) async fn authenticate(world: &mut World, settings: &Settings) -> Result<()> {
    world.enter(Stage::Wait);
    if settings.rejoin || settings.joins.is_some() {
        membership::come_in(world).await?;
    }
    ping_peers(world, settings).await?;
    if settings.signatures != Signatures::None {
        signatures::trust(world, settings).await?;
    }
    Ok(())
}

async fn ping_peers(world: &World, settings: &Settings) -> Result<()> {
    for peer in members(world, settings).await? {
        world.exchange.store(peer)?.ping().await?;
    }
    Ok(())
}

/// Computes the gradient of one mini-batch and stores it.
pub(super) async fn compute_gradients(world: &mut World, settings: &Settings) -> Result<()> {
    let (rank, epoch) = (world.rank(), world.task.epoch);
    let batch = world.task.minibatch("the input of compute_gradients")?;
    let store = world.exchange.store(rank)?;
    let state = world.state.store(rank)?;
    let round = settings.round_number(&world.task);
    let batches = world.task.minibatches(settings.rounds(&world.task.job));
    let keeps_statistics = batch == batches.start && settings.batch_norm.is_kept(world);

    world.enter(Stage::Get);
    let parameters = Vector::decode(&store.expect(PARAMETERS).await?)?;
    let mut statistics = if keeps_statistics {
        Vector::decode(&state.expect(STATISTICS).await?)?
    } else {
        world.compute.initial_statistics()
    };

    world.enter(Stage::FetchDataset);
    let (owner, pass, index) = membership::dealt(world, settings, batch).await?;
    let minibatch = Batch {
        rank,
        epoch,
        index: batch,
        ..data::minibatch(world, owner, pass, index).await?
    };

    world.enter(Stage::ComputeGradients);
    let computing = world.gradient(&parameters, &mut statistics, &minibatch);
    let gradient = computing.await?;

    world.enter(Stage::Serialise);
    let gradient = encode(settings.gradient_format, &gradient)?;
    world.enter(Stage::Put);
    if settings.averaging == Averaging::OnArrival {
        store.accumulate(&summed_key(round), gradient).await?;
    } else if settings.uses_list() {
        store.push(&gradients_key(round), gradient).await?;
    } else {
        store.set(&gradient_key(round, batch), gradient).await?;
    }
    if keeps_statistics {
        state.set(STATISTICS, statistics.encode()).await?;
    }
    Ok(())
}

fn encode(format: GradientFormat, gradient: &Vector) -> Result<Payload> {
    Ok(match (format, gradient) {
        (GradientFormat::Binary, _) => gradient.encode(),
        (GradientFormat::Json, Vector::Real(values)) => codec::encode_json(values)?.into(),
        (GradientFormat::Json, Vector::Phantom { len }) => Payload::Phantom {
            bytes: TEXT_BYTES_PER_PARAMETER * *len as u64,
        },
    })
}

fn decode(format: GradientFormat, gradient: &Payload) -> Result<Vector> {
    Ok(match (format, gradient) {
        (GradientFormat::Binary, _) => Vector::decode(gradient)?,
        (GradientFormat::Json, Payload::Bytes(text)) => Vector::Real(codec::decode_json(text)?),
        (GradientFormat::Json, phantom) => Vector::Phantom {
            len: (phantom.len() / TEXT_BYTES_PER_PARAMETER) as usize,
        },
    })
}

/// Averages the gradients of this peer's mini-batches, then waits for all peers.
pub(super) async fn average_gradients(world: &mut World, settings: &Settings) -> Result<()> {
    let round = settings.round_number(&world.task);
    let batches = world.task.minibatches(settings.rounds(&world.task.job));
    let store = world.exchange.store(world.rank())?;
    let destination = averaged_key(round);
    let sources: Vec<String> = batches
        .clone()
        .map(|batch| gradient_key(round, batch))
        .collect();

    match settings.averaging {
        // The last gradient function left the sum complete.
        Averaging::OnArrival => {}
        Averaging::InStore if settings.uses_list() => {
            world.enter(Stage::Aggregate);
            let list = gradients_key(round);
            let text = store.json_mean(&list, batches.len() as u64).await?;
            world.enter(Stage::Serialise);
            let averaged = decode(GradientFormat::Json, &text)?.encode();
            world.enter(Stage::Put);
            store.set(&destination, averaged).await?;
        }
        Averaging::InStore => {
            world.enter(Stage::Aggregate);
            store.mean(&destination, &sources).await?;
        }
        Averaging::Fetch => {
            world.enter(Stage::Get);
            let mut gradients = Vec::with_capacity(batches.len());
            for key in &sources {
                gradients.push(decode(settings.gradient_format, &store.expect(key).await?)?);
            }
            world.enter(Stage::Aggregate);
            let averaged = Vector::mean(&gradients)?;
            world.enter(Stage::Put);
            store.set(&destination, averaged.encode()).await?;
        }
    }

    if settings.worker_momentum > 0.0 {
        apply_momentum(world, settings, &store, &destination).await?;
    }
    world.enter(Stage::Wait);
    corrupt(world, settings).await?;
    if settings.signatures != Signatures::None {
        signatures::sign(world, settings).await?;
    }
    synchronise(world, settings).await
}

/// Shares the momentum of a peer's averages instead of its average.
async fn apply_momentum(
    world: &mut World,
    settings: &Settings,
    store: &TensorStore,
    average: &str,
) -> Result<()> {
    world.enter(Stage::Get);
    let mut shared = Vector::decode(&store.expect(average).await?)?;
    let before = store.get(MOMENTUM).await?;
    let before = before.map(|before| Vector::decode(&before)).transpose()?;
    world.enter(Stage::Aggregate);
    shared.blend(before.as_ref(), settings.worker_momentum as f32)?;
    world.enter(Stage::Put);
    store.set(MOMENTUM, shared.encode()).await?;
    Ok(store.set(average, shared.encode()).await?)
}

/// Pings every peer and drops what no peer needs any more.
///
/// All peers have passed this round's barrier, so all have left the last round
/// and no peer will fetch its averages again.
pub(super) async fn check_heartbeat(world: &mut World, settings: &Settings) -> Result<()> {
    let round = settings.round_number(&world.task);
    let store = world.exchange.store(world.rank())?;
    world.enter(Stage::Wait);
    ping_peers(world, settings).await?;
    let batches = world.task.minibatches(settings.rounds(&world.task.job));
    let mut stale: Vec<String> = match settings.averaging {
        Averaging::OnArrival => Vec::new(),
        _ if settings.uses_list() => vec![gradients_key(round)],
        _ => batches.map(|batch| gradient_key(round, batch)).collect(),
    };
    if let Some(last) = round.checked_sub(1).filter(|_| !settings.keeps_averages) {
        stale.push(shared_key(settings, last));
        if settings.signatures != Signatures::None {
            stale.push(signature_key(last));
        }
        if !settings.has_centre() {
            stale.push(aggregated_key(settings, last));
        }
    }
    if stale.is_empty() {
        return Ok(());
    }
    Ok(store.delete(&stale).await?)
}

/// Fetches every peer's average, stores their mean in rank order.
pub(super) async fn aggregate_gradients(world: &mut World, settings: &Settings) -> Result<()> {
    let round = settings.round_number(&world.task);
    let batches = world.task.minibatches(settings.rounds(&world.task.job));
    world.enter(Stage::Get);
    let view = &*world;
    let peers = members(view, settings).await?;
    let number = peers.len();
    let after_own = peers.partition_point(|peer| *peer <= world.rank());
    let first = match settings.reading_order {
        ReadingOrder::Rank => 0,
        ReadingOrder::Neighbour => after_own % number.max(1),
    };
    let keys = match settings.signatures {
        Signatures::None => None,
        _ => Some(signatures::trusted(view).await?),
    };
    let (ranks, keys) = (&peers, keys.as_deref());
    // Each peer's average; none where its signature is refused.
    let fetched = move |turn: usize| async move {
        let peer = ranks[(first + turn) % number];
        let store = view.exchange.store(peer)?;
        let average = store.expect(&shared_key(settings, round)).await?;
        let is_refused = match keys {
            Some(keys) => !signatures::is_signed(view, settings, keys, peer, &average).await?,
            None => false,
        };
        (!is_refused).then(|| Vector::decode(&average)).transpose()
    };
    let mut averages = in_turn(settings.transfers_at_once, number, fetched).await?;
    // Back in rank order, in which they are added.
    averages.rotate_right(first);
    let (peers, averages) = signatures::admitted(world, settings, peers, averages)?;
    if settings.is_robust() {
        return aggregate_robustly(world, settings, &peers, averages).await;
    }
    world.enter(Stage::Aggregate);
    let mut aggregated = Vector::mean(&averages)?;
    if settings.averaging == Averaging::OnArrival {
        aggregated.divide(batches.len() as f32);
    }
    world.enter(Stage::Put);
    let store = world.exchange.store(world.rank())?;
    let destination = aggregated_key(settings, round);
    Ok(store.set(&destination, aggregated.encode()).await?)
}

/// Stores the robust mean of the averages of `peers`, given in their order.
async fn aggregate_robustly(
    world: &mut World,
    settings: &Settings,
    peers: &[usize],
    mut averages: Vec<Vector>,
) -> Result<()> {
    let (round, rank) = (settings.round_number(&world.task), world.rank());
    let store = world.exchange.store(rank)?;

    // Refuse what no rule can use.
    world.enter(Stage::Aggregate);
    let are_sums = settings.averaging == Averaging::OnArrival;
    if are_sums {
        let batches = world.task.minibatches(settings.rounds(&world.task.job));
        for average in &mut averages {
            average.divide(batches.len() as f32);
        }
    }
    // A peer that is dead is one of those to survive.
    let f = settings.f.saturating_sub(world.workers() - peers.len());
    let screened = screen(&averages, world.compute.parameters(), f)?;
    note_refused(world, &screened, peers);
    let mean = settings.robust_mean(screened.kept.len(), screened.f);
    let destination = aggregated_key(settings, round);

    // In the function: the state of the rule comes and goes with the result.
    if settings.robust_at == RobustAt::Function {
        let mut centre = None;
        if mean.has_state() {
            world.enter(Stage::Get);
            let found = store.get(&destination).await?;
            centre = found.map(|found| Vector::decode(&found)).transpose()?;
            world.enter(Stage::Aggregate);
        }
        let kept: Vec<Vector> = screened
            .kept
            .iter()
            .map(|position| std::mem::replace(&mut averages[*position], Vector::Phantom { len: 0 }))
            .collect();
        let aggregated = Vector::robust_mean(mean, &kept, centre.as_ref())?;
        world.enter(Stage::Put);
        return Ok(store.set(&destination, aggregated.encode()).await?);
    }

    // In the store: the averages of others go there first.
    world.enter(Stage::Put);
    let mut sources = Vec::with_capacity(screened.kept.len());
    let mut moved = Vec::with_capacity(screened.kept.len());
    for position in screened.kept {
        let peer = peers[position];
        if peer == rank && !are_sums {
            sources.push(shared_key(settings, round));
            continue;
        }
        sources.push(peer_key(peer));
        moved.push((peer_key(peer), averages[position].encode()));
    }
    let puts = moved.into_iter().map(|(key, body)| {
        let store = store.clone();
        async move { Ok(store.set(&key, body).await?) }
    });
    at_once(settings.transfers_at_once, puts).await?;
    world.enter(Stage::Aggregate);
    Ok(store.robust_mean(&destination, mean, &sources).await?)
}

/// Takes one SGD step with the aggregated gradient.
pub(super) async fn update_model(world: &mut World, settings: &Settings) -> Result<()> {
    let mut sgd = sgd_of(&world.task.job)?;
    let last = world.task.epoch.checked_sub(1);
    if let Some(last) = last.filter(|_| settings.reduce_on_plateau.is_some()) {
        sgd.learning_rate = load_monitor(world, last).await?.learning_rate;
    }
    let gradient_key = aggregated_key(settings, settings.round_number(&world.task));
    let store = world.exchange.store(world.rank())?;
    world.enter(Stage::UpdateModel);
    if settings.update == Update::InStore {
        let step = in_store_step(sgd);
        return Ok(store.sgd(PARAMETERS, &gradient_key, step).await?);
    }
    let mut parameters = Vector::decode(&store.expect(PARAMETERS).await?)?;
    let gradient = Vector::decode(&store.expect(&gradient_key).await?)?;
    let has_momentum = sgd.momentum != 0.0;
    let mut velocity = Vector::Real(Vec::new());
    if has_momentum && let Some(found) = store.get(VELOCITY).await? {
        velocity = Vector::decode(&found)?;
    }
    match (&mut parameters, &gradient, &mut velocity) {
        (Vector::Real(w), Vector::Real(g), Vector::Real(v)) => sgd.step(w, g, v)?,
        (w, _, v) => *v = Vector::Phantom { len: w.len() },
    }
    store.set(PARAMETERS, parameters.encode()).await?;
    if has_momentum {
        store.set(VELOCITY, velocity.encode()).await?;
    }
    Ok(())
}

/// Notes the parameters; the first member, rank 0 while it lives, evaluates them after the epoch's last round.
pub(super) async fn check_convergence(world: &mut World, settings: &Settings) -> Result<()> {
    let (rank, epoch) = (world.rank(), world.task.epoch);
    world.enter(Stage::DetectConvergence);
    let store = world.exchange.store(rank)?;
    let parameters = Vector::decode(&store.expect(PARAMETERS).await?)?;
    world.note_parameters(&parameters);
    let is_last = world.task.round + 1 == settings.rounds(&world.task.job);
    let is_first = members(world, settings).await?.first() == Some(&rank);
    if !is_first || !is_last || !world.task.job.evaluates_after(epoch) {
        return Ok(());
    }
    let statistics = if settings.batch_norm.is_kept(world) {
        Vector::decode(&world.state.store(rank)?.expect(STATISTICS).await?)?
    } else {
        world.compute.initial_statistics()
    };
    let loss = world.evaluate(&parameters, &statistics, epoch).await?;
    // Follow the loss for all peers.
    let Some(mut monitor) = Monitor::new(&world.task.job) else {
        return Ok(());
    };
    if let Some(last) = epoch.checked_sub(1) {
        monitor = load_monitor(world, last).await?;
    }
    monitor.follow(loss);
    save_monitor(world, &monitor, epoch).await
}

/// Starts the workflow of the next round, in this epoch or the next, if there is one and
/// training does not end early.
pub(super) async fn trigger_next(world: &mut World, settings: &Settings) -> Result<Outcome> {
    let rounds = settings.rounds(&world.task.job);
    let Some(next) = world.task.next_round(rounds) else {
        return Ok(Outcome::Finished);
    };
    let (epoch, ended) = (next.epoch, world.task.epoch);
    if epoch > ended {
        if settings.early_stopping.is_some() && load_monitor(world, ended).await?.is_over {
            return Ok(Outcome::Finished);
        }
        if settings.membership {
            membership::turn(world, settings, &next).await?;
        }
    }
    world.invoke.start_workflow(next).await?;
    Ok(Outcome::Continued { epoch })
}
