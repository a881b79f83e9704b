//! A tensor store in unmodified Redis with Lua scripts: SPIRT's published variant.

use std::sync::Mutex;

use async_trait::async_trait;
use bytes::Bytes;
use epochcost_tensor_commands::velocity_key;
use redis_protocol::resp2::types::BytesFrame;

use super::PlainTensors;
use super::redis::blob;
use crate::{
    Channel, ChannelError, Endpoint, Operation, Payload, Reply, Result, TensorCommand, locked,
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
    /// SHA-1 name of the script, once Redis has loaded it.
    loaded: Mutex<Option<String>>,
}

/// Every command that computes, by its name on the wire.
const SCRIPT: &str = concat!(include_str!("tensors.lua"), include_str!("robust.lua"));

impl LuaTensors {
    /// Connects to `redis+lua://:PASSWORD@HOST:PORT`.
    ///
    /// # Errors
    /// [`ChannelError`].
    pub async fn connect(endpoint: Endpoint) -> Result<Self> {
        Ok(Self {
            redis: PlainTensors::connect(endpoint).await?,
            loaded: Mutex::default(),
        })
    }

    /// Runs the script's command `name`; loads the script first if Redis does not have it.
    async fn script(&self, name: &str, keys: &[String], more: Vec<Bytes>) -> Result<BytesFrame> {
        let arguments = [vec![Bytes::copy_from_slice(name.as_bytes())], more].concat();
        let loaded = locked(&self.loaded).clone();
        let script = match loaded {
            Some(script) => script,
            None => self.load().await?,
        };
        match self.evaluate(script, keys, arguments.clone()).await {
            // Redis was restarted or its script cache was flushed: it has run nothing.
            Err(ChannelError::Refused { reason, .. }) if reason.starts_with("NOSCRIPT") => {
                let script = self.load().await?;
                self.evaluate(script, keys, arguments).await
            }
            result => result,
        }
    }

    async fn load(&self) -> Result<String> {
        let arguments = vec!["LOAD".into(), SCRIPT.into()];
        let name = self.redis.commands().value("SCRIPT", arguments).await?;
        let name = name.as_ref().and_then(|name| name.bytes().ok());
        let name = name.map(|name| String::from_utf8_lossy(name).into_owned());
        let name = name.unwrap_or_default();
        *locked(&self.loaded) = Some(name.clone());
        Ok(name)
    }

    async fn evaluate(
        &self,
        script: String,
        keys: &[String],
        more: Vec<Bytes>,
    ) -> Result<BytesFrame> {
        let mut arguments = vec![script.into(), keys.len().to_string().into()];
        arguments.extend(keys.iter().cloned().map(Bytes::from));
        arguments.extend(more);
        let redis = self.redis.commands();
        let longer = redis.limit() * (SCRIPT_PATIENCE - 1);
        redis.call_for("EVALSHA", arguments, longer).await
    }

    async fn operate(&self, operation: Operation, sent: Option<Payload>) -> Result<()> {
        operation.check()?;
        // A script in f64 would read the decimal text of an f32 as another number.
        let (name, settings) = operation.kind.words(|value| f64::from(value).to_string());
        let sent = sent.as_ref().map(blob).transpose()?;
        let arguments = settings.into_iter().map(Bytes::from).chain(sent);
        let velocity = velocity_key(&operation.target);
        let keys = [vec![operation.target, velocity], operation.sources].concat();
        let reply = self.script(name, &keys, arguments.collect());
        reply.await.map(drop)
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
                let reply = self.script("TENSOR.JSONMEAN", &[key], count).await?;
                let mean = self.redis.commands().payload("EVALSHA", reply);
                mean.map(Reply::Value)
            }
            other => self.redis.run(other).await,
        }
    }
}
