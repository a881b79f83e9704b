//! A model in the tensor store, an entry of its state dictionary a key.

use epochcost_channels::{ChannelError, Payload, TensorStore};

use crate::contract::state_dict::{Entry, EntryKind, state_dict};
use crate::mechanics::transfers::in_turn;
use crate::{Result, Sizes, Vector, World};

/// The whole state of a model.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) parameters: Vector,
    pub(super) statistics: Vector,
    /// Batches that its batch norms have seen; a mean of such counts after a merge.
    pub(super) batches_seen: f32,
}

/// Owner of a copy of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copy {
    /// The one that all functions begin an interval with.
    Reference,
    /// A function's copy.
    Of(usize),
}

/// The tensors of a job's models, and where they lie: what batch norm keeps is
/// state, everything else is exchanged, so that both are metered apart.
#[derive(Clone)]
pub(super) struct Tensors {
    job: String,
    entries: Vec<Entry>,
    exchange: TensorStore,
    state: TensorStore,
}

impl Tensors {
    pub(super) fn new(world: &World) -> Result<Self> {
        let sizes = Sizes {
            parameters: world.compute.parameters(),
            statistics: world.compute.statistics(),
        };
        Ok(Self {
            job: world.task.job.trial.clone(),
            entries: state_dict(&world.task.job.model, sizes)?,
            exchange: world.exchange.store(0)?,
            state: world.state.store(0)?,
        })
    }

    /// L: how many there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    fn store(&self, layer: usize) -> &TensorStore {
        match self.entries[layer].kind {
            EntryKind::Parameters => &self.exchange,
            EntryKind::Statistics | EntryKind::Counter => &self.state,
        }
    }

    /// `{job}:{layer}` of the reference, `{job}:{layer}/{function}` of a function.
    fn key(&self, layer: usize, copy: Copy) -> String {
        match copy {
            Copy::Reference => format!("{}:{layer}", self.job),
            Copy::Of(function) => format!("{}:{layer}/{function}", self.job),
        }
    }

    /// Fetches a copy; `None` if it was never stored.
    pub(super) async fn get(&self, copy: Copy, limit: usize) -> Result<Option<Model>> {
        let get = |layer: usize| {
            let (store, key) = (self.store(layer), self.key(layer, copy));
            async move { Ok(store.get(&key).await?) }
        };
        let found = in_turn(limit, self.len(), get).await?;
        let found: Option<Vec<Payload>> = found.into_iter().collect();
        found.map(|found| self.assemble(&found)).transpose()
    }

    /// Fetches the reference, which must be there.
    pub(super) async fn reference(&self, limit: usize) -> Result<Model> {
        let missing = || ChannelError::Missing {
            service: "tensor store",
            key: self.key(0, Copy::Reference),
        };
        let found = self.get(Copy::Reference, limit).await?;
        Ok(found.ok_or_else(missing)?)
    }

    fn assemble(&self, found: &[Payload]) -> Result<Model> {
        let of = |kind: EntryKind| -> Result<Vector> {
            let entries = self.entries.iter().zip(found);
            let of_kind = entries.filter(|(entry, _)| entry.kind == kind);
            let parts: Result<Vec<Vector>> = of_kind
                .map(|(_, payload)| Vector::decode(payload))
                .collect();
            Ok(Vector::concat(&parts?))
        };
        let counters = of(EntryKind::Counter)?;
        let seen = counters.real().and_then(<[f32]>::first);
        Ok(Model {
            parameters: of(EntryKind::Parameters)?,
            statistics: of(EntryKind::Statistics)?,
            batches_seen: seen.copied().unwrap_or(0.0),
        })
    }

    /// Whether a copy was ever stored: its first tensor shows it.
    pub(super) async fn holds(&self, copy: Copy) -> Result<bool> {
        if self.entries.is_empty() {
            return Ok(false);
        }
        let found = self.store(0).get_range(&self.key(0, copy), 0..0).await?;
        Ok(found.is_some())
    }

    /// Stores a copy.
    pub(super) async fn set(&self, copy: Copy, model: &Model, limit: usize) -> Result<()> {
        let (mut parameter, mut statistic) = (0, 0);
        let mut values = Vec::with_capacity(self.entries.len());
        for entry in &self.entries {
            let next = |at: &mut usize, vector: &Vector| {
                let start = *at;
                *at += entry.elements;
                Ok::<_, crate::SystemError>(vector.slice(start..*at)?.encode())
            };
            values.push(match entry.kind {
                EntryKind::Parameters => next(&mut parameter, &model.parameters)?,
                EntryKind::Statistics => next(&mut statistic, &model.statistics)?,
                EntryKind::Counter => Vector::Real(vec![model.batches_seen]).encode(),
            });
        }
        let set = |layer: usize| {
            let (store, key) = (self.store(layer), self.key(layer, copy));
            let value = values[layer].clone();
            async move { Ok(store.set(&key, value).await?) }
        };
        in_turn(limit, self.len(), set).await.map(drop)
    }

    /// Has the store make the reference the mean of the functions' copies.
    pub(super) async fn merge_in_store(&self, functions: &[usize], limit: usize) -> Result<()> {
        let merge = |layer: usize| {
            let (store, reference) = (self.store(layer), self.key(layer, Copy::Reference));
            let copies: Vec<String> = functions
                .iter()
                .map(|function| self.key(layer, Copy::Of(*function)))
                .collect();
            async move { Ok(store.mean(&reference, &copies).await?) }
        };
        in_turn(limit, self.len(), merge).await.map(drop)
    }

    /// Deletes copies, at most a thousand keys per command.
    pub(super) async fn delete(&self, copies: &[Copy]) -> Result<()> {
        for layer in 0..self.len() {
            let keys: Vec<String> = copies.iter().map(|copy| self.key(layer, *copy)).collect();
            for keys in keys.chunks(1000) {
                self.store(layer).delete(keys).await?;
            }
        }
        Ok(())
    }
}

/// The uniform mean of models, in their order; `divisor` is how many they
/// count for.
pub(super) fn mean(models: &[&Model], divisor: usize) -> Result<Model> {
    let of = |vector: fn(&Model) -> &Vector| -> Result<Vector> {
        let vectors: Vec<Vector> = models.iter().map(|model| vector(model).clone()).collect();
        let mut sum = Vector::sum(&vectors)?;
        sum.divide(divisor as f32);
        Ok(sum)
    };
    let seen: f32 = models.iter().map(|model| model.batches_seen).sum();
    Ok(Model {
        parameters: of(|model| &model.parameters)?,
        statistics: of(|model| &model.statistics)?,
        batches_seen: seen / divisor as f32,
    })
}
