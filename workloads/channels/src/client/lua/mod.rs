//! A tensor store in unmodified Redis with Lua scripts: SPIRT's published variant.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use fred::types::Value;

use super::plain::{PlainTensors, check_sources};
use super::redis::{blob, with_keys};
use crate::{
    ChannelError, Endpoint, Payload, Result, RobustMean, RobustRule, SgdStep, TensorStore,
};

/// Time-out of a script, in multiples of the time-out of a command.
const SCRIPT_PATIENCE: u32 = 3;

/// A tensor store in Redis without the module, which computes by Lua scripts.
///
/// [`json_mean`](TensorStore::json_mean) is what SPIRT's published function
/// does: gradients are JSON texts in a list, and the script decodes, adds,
/// divides and returns text; the bits are those of the other stores, for all of
/// them compute it in f64 and print 14 digits.
///
/// Tensors are strings of f32, as SPIRT stores parameters and averages; scripts
/// on them compute in f64, Lua's only number, and round to f32 once at the end.
/// The results therefore differ in the last bits from the other stores, which
/// round after every operation. Robust means take the time of a script per element and
/// vector, and Redis answers no other client meanwhile.
pub struct LuaTensors {
    redis: PlainTensors,
    /// SHA-1 names of the scripts that Redis has loaded, by their texts.
    loaded: Mutex<HashMap<&'static str, String>>,
}

const JSON_MEAN: &str = include_str!("json_mean.lua");
const ACCUMULATE: &str = concat!(include_str!("tensors.lua"), include_str!("accumulate.lua"));
const MEAN: &str = concat!(include_str!("tensors.lua"), include_str!("mean.lua"));
const ROBUST: &str = concat!(include_str!("tensors.lua"), include_str!("robust.lua"));
const STEP: &str = concat!(include_str!("tensors.lua"), include_str!("step.lua"));

impl LuaTensors {
    /// Connects to `redis+lua://:PASSWORD@HOST:PORT`.
    ///
    /// # Errors
    /// [`ChannelError`].
    pub async fn connect(endpoint: &str) -> Result<Self> {
        Self::open(endpoint.parse()?).await
    }

    pub(super) async fn open(endpoint: Endpoint) -> Result<Self> {
        Ok(Self {
            redis: PlainTensors::open(endpoint).await?,
            loaded: Mutex::default(),
        })
    }

    /// Flushes the script cache of Redis, as a restart does; the next use of a
    /// script loads it again.
    ///
    /// # Errors
    /// [`ChannelError`].
    pub async fn forget_scripts(&self) -> Result<()> {
        let arguments = vec!["FLUSH".into()];
        self.redis.commands().done("SCRIPT", arguments).await
    }

    /// Runs a script by its name; loads it first if Redis does not have it.
    async fn run(&self, script: &'static str, keys: &[String], more: Vec<Value>) -> Result<Value> {
        let known = self
            .loaded
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(script)
            .cloned();
        let name = match known {
            Some(name) => name,
            None => self.load(script).await?,
        };
        match self.evaluate(name, keys, more.clone()).await {
            // Redis was restarted or its script cache was flushed: it has run nothing.
            Err(ChannelError::Refused { reason, .. }) if reason.starts_with("NOSCRIPT") => {
                let name = self.load(script).await?;
                self.evaluate(name, keys, more).await
            }
            result => result,
        }
    }

    async fn load(&self, script: &'static str) -> Result<String> {
        let arguments = vec!["LOAD".into(), script.into()];
        let name = self.redis.commands().value("SCRIPT", arguments).await?;
        let name = name.as_ref().and_then(|name| name.bytes().ok());
        let name = name.map(|name| String::from_utf8_lossy(name).into_owned());
        let name = name.unwrap_or_default();
        self.loaded
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(script, name.clone());
        Ok(name)
    }

    async fn evaluate(&self, name: String, keys: &[String], more: Vec<Value>) -> Result<Value> {
        let mut arguments = with_keys(vec![name.into(), keys.len().to_string().into()], keys);
        arguments.extend(more);
        let redis = self.redis.commands();
        let longer = redis.limit() * (SCRIPT_PATIENCE - 1);
        redis.call_for("EVALSHA", arguments, longer).await
    }

    async fn step(&self, parameters: &str, sources: &[String], step: SgdStep) -> Result<()> {
        check_sources(sources)?;
        let velocity = epochcost_tensor_commands::velocity_key(parameters);
        let mut keys = vec![parameters.to_owned(), velocity];
        keys.extend_from_slice(sources);
        // The f32 values as f64, exactly: a script in f64 would read the decimal text of an f32 as another number.
        let settings = [step.learning_rate, step.momentum, step.weight_decay];
        let settings = settings.map(|value| f64::from(value).to_string().into());
        self.run(STEP, &keys, settings.into()).await.map(drop)
    }
}

/// The rule and its settings, as the script reads them: f32 values as f64, exactly.
fn robust_words(rule: RobustRule) -> Vec<Value> {
    let count = |count: usize| Value::from(count.to_string());
    let float = |value: f32| Value::from(f64::from(value).to_string());
    match rule {
        RobustRule::CoordinateMedian => vec!["MEDIAN".into()],
        RobustRule::TrimmedMean { trim } => vec!["TRIMMED".into(), count(trim)],
        RobustRule::Krum { faulty } => vec!["KRUM".into(), count(faulty)],
        RobustRule::MultiKrum { faulty, kept } => {
            vec!["MULTIKRUM".into(), count(faulty), count(kept)]
        }
        RobustRule::GeometricMedian {
            iterations,
            smoothing,
        } => vec!["GEOMETRIC".into(), count(iterations), float(smoothing)],
        RobustRule::CentredClipping { radius, iterations } => {
            vec!["CLIPPED".into(), float(radius), count(iterations)]
        }
    }
}

#[async_trait]
impl TensorStore for LuaTensors {
    async fn set(&self, key: &str, value: Payload) -> Result<()> {
        self.redis.set(key, value).await
    }

    async fn get(&self, key: &str) -> Result<Option<Payload>> {
        self.redis.get(key).await
    }

    async fn get_range(&self, key: &str, elements: Range<u64>) -> Result<Option<Payload>> {
        self.redis.get_range(key, elements).await
    }

    async fn accumulate(&self, key: &str, value: Payload) -> Result<()> {
        let keys = [key.to_owned()];
        let sent = vec![blob(&value)?];
        self.run(ACCUMULATE, &keys, sent).await.map(drop)
    }

    async fn mean(&self, destination: &str, sources: &[String]) -> Result<()> {
        check_sources(sources)?;
        let mut keys = vec![destination.to_owned()];
        keys.extend_from_slice(sources);
        self.run(MEAN, &keys, Vec::new()).await.map(drop)
    }

    async fn robust_mean(
        &self,
        destination: &str,
        mean: RobustMean,
        sources: &[String],
    ) -> Result<()> {
        check_sources(sources)?;
        let mut keys = vec![destination.to_owned()];
        keys.extend_from_slice(sources);
        let mixed = mean
            .mixed
            .map_or_else(String::new, |faulty| faulty.to_string());
        let mut words: Vec<Value> = vec![mixed.into()];
        words.extend(robust_words(mean.rule));
        self.run(ROBUST, &keys, words).await.map(drop)
    }

    async fn sgd(&self, parameters: &str, gradient: &str, step: SgdStep) -> Result<()> {
        self.step(parameters, &[gradient.to_owned()], step).await
    }

    async fn mean_sgd(&self, parameters: &str, sources: &[String], step: SgdStep) -> Result<()> {
        self.step(parameters, sources, step).await
    }

    async fn push(&self, key: &str, value: Payload) -> Result<()> {
        self.redis.push(key, value).await
    }

    async fn json_mean(&self, key: &str, count: u64) -> Result<Payload> {
        let keys = [key.to_owned()];
        let reply = self.run(JSON_MEAN, &keys, vec![count.to_string().into()]);
        let mean = self.redis.commands().payload("EVALSHA", reply.await?)?;
        mean.ok_or_else(|| ChannelError::Missing {
            service: "tensor store",
            key: key.to_owned(),
        })
    }

    async fn delete(&self, keys: &[String]) -> Result<()> {
        self.redis.delete(keys).await
    }

    async fn ping(&self) -> Result<()> {
        self.redis.ping().await
    }
}
