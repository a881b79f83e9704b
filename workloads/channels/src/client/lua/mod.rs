//! A tensor store in unmodified Redis with Lua scripts: SPIRT's published variant.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use epochcost_tensor_commands::velocity_key;
use fred::types::Value;

use super::PlainTensors;
use super::redis::{blob, with_keys};
use crate::{
    Channel, ChannelError, Endpoint, Operation, OperationKind, Payload, Reply, Result,
    TensorCommand,
};

/// Time-out of a script, in multiples of the time-out of a command.
const SCRIPT_PATIENCE: u32 = 3;

/// A tensor store in Redis without the module, which computes by Lua scripts.
///
/// [`JsonMean`](TensorCommand::JsonMean) is what SPIRT's published function
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
    async fn script(
        &self,
        script: &'static str,
        keys: &[String],
        more: Vec<Value>,
    ) -> Result<Value> {
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
        let mut arguments = with_keys(
            vec![name.into(), keys.len().to_string().into()],
            keys.to_vec(),
        );
        arguments.extend(more);
        let redis = self.redis.commands();
        let longer = redis.limit() * (SCRIPT_PATIENCE - 1);
        redis.call_for("EVALSHA", arguments, longer).await
    }

    /// Runs the script of `operation`.
    async fn operate(&self, operation: Operation, sent: Option<Payload>) -> Result<()> {
        operation.check()?;
        // A script in f64 would read the decimal text of an f32 as another number.
        let float = |value: f32| f64::from(value).to_string();
        let (script, more) = match operation.kind {
            OperationKind::Accumulate => {
                let sent = sent.as_ref().map(blob).transpose()?;
                (ACCUMULATE, sent.into_iter().collect())
            }
            OperationKind::Mean => (MEAN, Vec::new()),
            OperationKind::Robust(mean) => {
                let mixed = mean.mixed.map(|faulty| faulty.to_string());
                let words = [mixed.unwrap_or_default()].into_iter();
                let words = words.chain(mean.rule.words(float));
                (ROBUST, words.map(Value::from).collect())
            }
            OperationKind::Step(step) => (
                STEP,
                step.settings().map(|value| float(value).into()).into(),
            ),
        };
        let mut keys = vec![operation.target.clone()];
        if let OperationKind::Step(_) = operation.kind {
            keys.push(velocity_key(&operation.target));
        }
        keys.extend(operation.sources);
        self.script(script, &keys, more).await.map(drop)
    }
}

#[async_trait]
impl Channel<TensorCommand> for LuaTensors {
    async fn run(&self, command: TensorCommand) -> Result<Reply> {
        match command {
            TensorCommand::Compute { operation, sent } => {
                self.operate(operation, sent).await.map(Reply::from)
            }
            TensorCommand::JsonMean { key, count } => {
                let count = vec![count.to_string().into()];
                let reply = self.script(JSON_MEAN, &[key], count).await?;
                let mean = self.redis.commands().payload("EVALSHA", reply);
                mean.map(Reply::Value)
            }
            other => self.redis.run(other).await,
        }
    }
}
