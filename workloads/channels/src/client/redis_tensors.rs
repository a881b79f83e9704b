use std::ops::Range;

use async_trait::async_trait;
use fred::types::Value;

use super::redis::{Address, Connection, blob, with_keys};
use crate::memory::check_elements;
use crate::{
    ChannelError, Endpoint, Payload, Result, RobustMean, RobustRule, SgdStep, TensorStore,
};

/// A tensor store behind the Redis protocol that knows the commands `TENSOR.*`:
/// the embedded one, or Redis with the module.
pub struct RedisTensors(Connection);

impl RedisTensors {
    /// Connects to `redis://:PASSWORD@HOST:PORT`.
    ///
    /// # Errors
    /// [`ChannelError`].
    pub async fn connect(endpoint: &str) -> Result<Self> {
        Self::open(endpoint.parse()?).await
    }

    pub(super) async fn open(endpoint: Endpoint) -> Result<Self> {
        let address = Address {
            service: "tensor store",
            endpoint,
        };
        Connection::open(address).await.map(Self)
    }
}

/// Formats a value as the shortest text that parses to the same f32.
fn float(value: f32) -> Value {
    value.to_string().into()
}

fn integer(value: impl ToString) -> Value {
    value.to_string().into()
}

fn sources(mut arguments: Vec<Value>, keys: &[String]) -> Vec<Value> {
    arguments.push(integer(keys.len()));
    with_keys(arguments, keys)
}

fn robust(mean: RobustMean) -> Vec<Value> {
    let mut words: Vec<Value> = match mean.mixed {
        Some(faulty) => vec!["MIXED".into(), integer(faulty)],
        None => Vec::new(),
    };
    words.extend(match mean.rule {
        RobustRule::CoordinateMedian => vec!["MEDIAN".into()],
        RobustRule::TrimmedMean { trim } => vec!["TRIMMED".into(), integer(trim)],
        RobustRule::Krum { faulty } => vec!["KRUM".into(), integer(faulty)],
        RobustRule::MultiKrum { faulty, kept } => {
            vec!["MULTIKRUM".into(), integer(faulty), integer(kept)]
        }
        RobustRule::GeometricMedian {
            iterations,
            smoothing,
        } => vec!["GEOMETRIC".into(), integer(iterations), float(smoothing)],
        RobustRule::CentredClipping { radius, iterations } => {
            vec!["CLIPPED".into(), float(radius), integer(iterations)]
        }
    });
    words
}

fn step(step: SgdStep) -> [Value; 3] {
    [
        float(step.learning_rate),
        float(step.momentum),
        float(step.weight_decay),
    ]
}

#[async_trait]
impl TensorStore for RedisTensors {
    async fn set(&self, key: &str, value: Payload) -> Result<()> {
        self.0
            .done("TENSOR.SET", vec![key.into(), blob(&value)?])
            .await
    }

    async fn get(&self, key: &str) -> Result<Option<Payload>> {
        self.0.value("TENSOR.GET", vec![key.into()]).await
    }

    async fn get_range(&self, key: &str, elements: Range<u64>) -> Result<Option<Payload>> {
        check_elements(key, &elements)?;
        let count = elements.end - elements.start;
        let arguments = vec![key.into(), integer(elements.start), integer(count)];
        self.0.value("TENSOR.GETRANGE", arguments).await
    }

    async fn accumulate(&self, key: &str, value: Payload) -> Result<()> {
        self.0
            .done("TENSOR.ACCUMULATE", vec![key.into(), blob(&value)?])
            .await
    }

    async fn mean(&self, destination: &str, keys: &[String]) -> Result<()> {
        self.0
            .done("TENSOR.MEAN", sources(vec![destination.into()], keys))
            .await
    }

    async fn robust_mean(&self, destination: &str, by: RobustMean, keys: &[String]) -> Result<()> {
        let mut arguments = vec![destination.into()];
        arguments.extend(robust(by));
        self.0.done("TENSOR.ROBUST", sources(arguments, keys)).await
    }

    async fn sgd(&self, parameters: &str, gradient: &str, by: SgdStep) -> Result<()> {
        let mut arguments = vec![parameters.into(), gradient.into()];
        arguments.extend(step(by));
        self.0.done("TENSOR.SGD", arguments).await
    }

    async fn mean_sgd(&self, parameters: &str, keys: &[String], by: SgdStep) -> Result<()> {
        let mut arguments = vec![parameters.into()];
        arguments.extend(step(by));
        self.0
            .done("TENSOR.MEANSGD", sources(arguments, keys))
            .await
    }

    async fn push(&self, key: &str, value: Payload) -> Result<()> {
        self.0.done("RPUSH", vec![key.into(), blob(&value)?]).await
    }

    async fn json_mean(&self, key: &str, count: u64) -> Result<Payload> {
        let mean = self
            .0
            .value("TENSOR.JSONMEAN", vec![key.into(), integer(count)])
            .await?;
        mean.ok_or_else(|| ChannelError::Missing {
            service: "tensor store",
            key: key.to_owned(),
        })
    }

    async fn delete(&self, keys: &[String]) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        self.0.done("DEL", with_keys(Vec::new(), keys)).await
    }

    async fn ping(&self) -> Result<()> {
        self.0.done("PING", Vec::new()).await
    }
}
