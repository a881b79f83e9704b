use std::ops::Range;

use epochcost_tensor_commands::{Operation, OperationKind};

use crate::{
    Caller, ChannelError, Command, Fare, Payload, Result, RobustMean, SgdStep, TensorCommand,
};

pub(crate) const SERVICE: &str = "tensor store";

impl Command for TensorCommand {
    fn fare(&self) -> Fare {
        match self {
            Self::Set { value, .. }
            | Self::Push { value, .. }
            | Self::Compute {
                sent: Some(value), ..
            } => Fare::Put(value.len()),
            Self::Get { .. } | Self::GetRange { .. } => Fare::Get,
            Self::Compute { .. } | Self::JsonMean { .. } => Fare::InStore,
            Self::Delete { .. } => Fare::Delete,
            Self::Ping => Fare::Uncounted,
        }
    }

    fn names(&mut self) -> Vec<&mut String> {
        self.keys_mut()
    }
}

/// A store of flat f32 vectors (little-endian, 4 bytes per element) that computes on them in place.
///
/// Reductions add in the order of their sources.
pub type TensorStore = Caller<TensorCommand>;

impl Caller<TensorCommand> {
    /// Stores a value, replacing what was there.
    pub async fn set(&self, key: &str, value: Payload) -> Result<()> {
        let key = key.to_owned();
        self.done(TensorCommand::Set { key, value }).await
    }

    /// Returns the value, or `None` if there is none.
    pub async fn get(&self, key: &str) -> Result<Option<Payload>> {
        let key = key.to_owned();
        self.run(TensorCommand::Get { key }).await?.value()
    }

    /// Returns the value, which must be there.
    ///
    /// # Errors
    /// [`ChannelError::Missing`] if it is not.
    pub async fn expect(&self, key: &str) -> Result<Payload> {
        self.get(key).await?.ok_or_else(|| missing(key))
    }

    /// Returns `elements` (not bytes) of the tensor, or `None` if there is none.
    pub async fn get_range(&self, key: &str, elements: Range<u64>) -> Result<Option<Payload>> {
        if elements.start > elements.end {
            return Err(refused_range(key, &elements, "it ends before it starts"));
        }
        let key = key.to_owned();
        let get = TensorCommand::GetRange { key, elements };
        self.run(get).await?.value()
    }

    /// Adds `value` to the tensor at `key`, or stores it if there is none.
    pub async fn accumulate(&self, key: &str, value: Payload) -> Result<()> {
        let (operation, sent) = (Operation::accumulate(key.to_owned()), Some(value));
        self.done(TensorCommand::Compute { operation, sent }).await
    }

    /// Computes the tensor at `target` of those at `sources`.
    pub async fn compute(&self, target: &str, by: OperationKind, sources: &[String]) -> Result<()> {
        let operation = Operation::new(target.to_owned(), by, sources.to_vec());
        let sent = None;
        self.done(TensorCommand::Compute { operation, sent }).await
    }

    /// Stores the elementwise mean of `sources` at `destination`.
    pub async fn mean(&self, destination: &str, sources: &[String]) -> Result<()> {
        let kind = OperationKind::Mean;
        self.compute(destination, kind, sources).await
    }

    /// Stores the robust mean of `sources` at `destination`. Centred clipping starts from
    /// the tensor that is there, if there is one.
    pub async fn robust_mean(
        &self,
        destination: &str,
        rule: RobustMean,
        sources: &[String],
    ) -> Result<()> {
        let kind = OperationKind::Robust(rule);
        self.compute(destination, kind, sources).await
    }

    /// Takes one SGD step on `parameters` with the tensor at `gradient`.
    pub async fn sgd(&self, parameters: &str, gradient: &str, step: SgdStep) -> Result<()> {
        let (kind, sources) = (OperationKind::Step(step), [gradient.to_owned()]);
        self.compute(parameters, kind, &sources).await
    }

    /// Appends a value to the list at `key`: Redis' RPUSH.
    pub async fn push(&self, key: &str, value: Payload) -> Result<()> {
        let key = key.to_owned();
        self.done(TensorCommand::Push { key, value }).await
    }

    /// Returns the mean of the first `count` JSON texts of the list at `key`, as
    /// JSON text, divided by the number of items found: SPIRT's published Lua script.
    pub async fn json_mean(&self, key: &str, count: u64) -> Result<Payload> {
        let mean = TensorCommand::JsonMean {
            key: key.to_owned(),
            count,
        };
        let mean = self.run(mean).await?.value()?;
        mean.ok_or_else(|| missing(key))
    }

    /// Deletes `keys` in one command; absent keys are no error.
    pub async fn delete(&self, keys: &[String]) -> Result<()> {
        let keys = keys.to_vec();
        self.done(TensorCommand::Delete { keys }).await
    }

    /// Answers if the store is alive.
    pub async fn ping(&self) -> Result<()> {
        self.done(TensorCommand::Ping).await
    }
}

pub(crate) fn refused_range(
    key: &str,
    range: &Range<u64>,
    reason: impl Into<String>,
) -> ChannelError {
    let operation = format!("a read of elements {range:?} of {key:?}");
    ChannelError::refused(SERVICE, operation, reason)
}

pub(crate) fn missing(key: &str) -> ChannelError {
    ChannelError::missing(SERVICE, key)
}
