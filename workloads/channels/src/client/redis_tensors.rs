use async_trait::async_trait;

use super::redis::{Address, Connection, blob};
use crate::tensors::SERVICE;
use crate::{Channel, Endpoint, Reply, Result, TensorCommand};

/// A tensor store behind the Redis protocol that knows the commands `TENSOR.*`:
/// the embedded one, or Redis with the module.
pub struct RedisTensors(Connection);

impl RedisTensors {
    /// Connects to `redis://:PASSWORD@HOST:PORT`.
    ///
    /// # Errors
    /// [`ChannelError`](crate::ChannelError).
    pub async fn connect(endpoint: Endpoint) -> Result<Self> {
        let address = Address::new(SERVICE, endpoint);
        Connection::open(address).await.map(Self)
    }
}

#[async_trait]
impl Channel<TensorCommand> for RedisTensors {
    async fn run(&self, command: TensorCommand) -> Result<Reply> {
        if matches!(&command, TensorCommand::Delete { keys } if keys.is_empty()) {
            return Ok(Reply::Done);
        }
        let has_answer = matches!(
            command,
            TensorCommand::Get { .. }
                | TensorCommand::GetRange { .. }
                | TensorCommand::JsonMean { .. }
        );
        let (name, words) = command.words(|value| blob(&value))?;
        if has_answer {
            return self.0.value(name, words).await.map(Reply::Value);
        }
        self.0.done(name, words).await.map(Reply::from)
    }
}
