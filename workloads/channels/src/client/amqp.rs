//! Client of RabbitMQ.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt, future};
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicGetOptions, BasicNackOptions,
    BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions, ExchangeDeclareOptions,
    QueueBindOptions, QueueDeclareOptions, QueuePurgeOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ExchangeKind};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::amqp_address::{Address, NAME_BYTES, SERVICE};
use super::amqp_channel::{Idle, Lease};
use crate::{ChannelError, Endpoint, Payload, QueueCommand, Reply, Result, locked};

/// AMQP's delivery mode of messages that survive a restart of the broker.
const PERSISTENT: u8 = 2;

/// Time after which the broker deletes an unused queue, so that a broker which
/// outlives its trials does not fill up. No trial waits this long.
const UNUSED: Duration = Duration::from_secs(24 * 3600);

/// A message queue in RabbitMQ.
///
/// Queues and exchanges are durable and messages persistent; a publish has
/// happened once the broker confirmed it. A consume that waits is a push
/// consumer with a prefetch of one, cancelled once it has its message. The
/// message is acknowledged when the caller receives it, so that a consume dropped
/// while it waits leaves the message to other consumers.
pub struct RabbitQueue {
    address: Address,
    connection: Connection,
    idle: Idle,
    queues: Mutex<HashSet<String>>,
    exchanges: Mutex<HashSet<String>>,
}

impl RabbitQueue {
    /// Connects to `amqp://USER:PASSWORD@HOST:PORT/VHOST`.
    ///
    /// # Errors
    /// [`crate::ChannelError`].
    pub async fn connect(endpoint: Endpoint) -> Result<Self> {
        let address = Address(endpoint);
        let connecting = Connection::connect_uri(address.uri(), Address::properties());
        let limit = address.0.connect_timeout();
        let connected = timeout(limit, connecting).await;
        let connected = connected.map_err(|_| address.silent("connect", limit))?;
        let connection = connected.map_err(|error| address.error("connect", None, &error))?;
        Ok(Self {
            address,
            connection,
            idle: Idle::default(),
            queues: Mutex::default(),
            exchanges: Mutex::default(),
        })
    }

    /// Runs `work` within the time-out of the endpoint. `missing` is the name that does not exist if
    /// the broker answers NOT_FOUND.
    async fn limited<T>(
        &self,
        operation: &str,
        missing: Option<&str>,
        work: impl Future<Output = lapin::Result<T>>,
    ) -> Result<T> {
        let limit = self.address.0.options.timeout;
        match timeout(limit, work).await {
            Ok(result) => result.map_err(|error| self.address.error(operation, missing, &error)),
            Err(_) => Err(self.address.silent(operation, limit)),
        }
    }

    /// Returns an idle channel, or opens a new one.
    async fn channel(&self) -> Result<Lease> {
        if let Some(lease) = self.idle.take() {
            return Ok(lease);
        }
        self.limited("open a channel", None, async {
            let channel = Lease::new(self.connection.create_channel().await?);
            channel
                .confirm_select(ConfirmSelectOptions::default())
                .await?;
            channel.basic_qos(1, BasicQosOptions::default()).await?;
            Ok(channel)
        })
        .await
    }

    /// Creates `queue` if there is none, and returns the number of its messages.
    async fn declare(&self, channel: &Channel, queue: &str) -> Result<u64> {
        let name = self.name(queue)?;
        let expires = u32::try_from(UNUSED.as_millis()).unwrap_or(u32::MAX);
        let mut arguments = FieldTable::default();
        arguments.insert("x-expires".into(), AMQPValue::LongUInt(expires));
        let declared = channel.queue_declare(name, QueueDeclareOptions::durable(), arguments);
        let declared = self.limited("declare a queue", None, declared).await?;
        locked(&self.queues).insert(queue.to_owned());
        Ok(declared.message_count().into())
    }

    /// Creates `queue` unless this client has done so.
    async fn ensure(&self, channel: &Channel, queue: &str) -> Result<()> {
        if !locked(&self.queues).contains(queue) {
            self.declare(channel, queue).await?;
        }
        Ok(())
    }

    /// Returns `name` if it fits the wire.
    fn name(&self, name: &str) -> Result<ShortString> {
        if name.len() <= NAME_BYTES {
            return Ok(name.into());
        }
        let reason = format!("{name:?} has more than {NAME_BYTES} bytes");
        Err(ChannelError::refused(SERVICE, "use a name", reason))
    }

    async fn send(
        &self,
        channel: &Channel,
        exchange: &str,
        queue: &str,
        message: &Payload,
    ) -> Result<()> {
        let body = message.bytes()?;
        let options = BasicPublishOptions {
            // A message to one queue comes back if the queue is gone.
            mandatory: exchange.is_empty(),
            ..BasicPublishOptions::default()
        };
        let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
        let (to, key) = (self.name(exchange)?, self.name(queue)?);
        let sending = async {
            let sent = channel.basic_publish(to, key, options, body, properties);
            sent.await?.await
        };
        match self.limited("publish", None, sending).await? {
            Confirmation::Ack(None) => Ok(()),
            Confirmation::Ack(Some(returned)) | Confirmation::Nack(Some(returned)) => {
                let reason = format!("it came back: {}", returned.reply_text);
                Err(ChannelError::refused(SERVICE, "publish", reason))
            }
            Confirmation::Nack(None) | Confirmation::NotRequested => {
                let reason = "the broker did not confirm it";
                Err(ChannelError::refused(SERVICE, "publish", reason))
            }
        }
    }

    /// Returns the message of `delivery`, and acknowledges it and frees the channel
    /// in the background. Nothing is awaited, so that a caller that is dropped
    /// cannot lose the message.
    fn hand_over(
        &self,
        channel: Lease,
        mut delivery: Delivery,
        tag: Option<ShortString>,
    ) -> Payload {
        let body = std::mem::take(&mut delivery.data);
        let idle = self.idle.clone();
        let mut settling = async move {
            // The consumer ends before the acknowledgement makes room for another message.
            let cancelling = async {
                match tag {
                    Some(tag) => {
                        channel
                            .basic_cancel(tag, BasicCancelOptions { nowait: true })
                            .await
                    }
                    None => Ok(()),
                }
            };
            let acknowledging = delivery.acker.ack(BasicAckOptions::default());
            let (cancelled, acknowledged) = future::join(cancelling, acknowledging).await;
            if cancelled.is_ok() && acknowledged.is_ok() {
                idle.give(channel);
            }
        }
        .boxed();
        // The first poll sends both; the task that is spawned waits until they are written.
        if settling.as_mut().now_or_never().is_none()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(settling);
        }
        body.into()
    }

    /// Waits for the next message of `queue` as a push consumer.
    async fn wait(&self, channel: Lease, queue: &str, wait: Duration) -> Result<Option<Payload>> {
        let subscribing = channel.basic_consume(
            self.name(queue)?,
            ShortString::default(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        );
        let mut consumer = self.limited("consume", None, subscribing).await?;
        let mut tag = Some(consumer.tag());
        let mut next = timeout(wait, consumer.next()).await;
        if next.is_err() {
            // The broker pushes nothing after its answer, but a message may have arrived before.
            let cancelling = channel.basic_cancel(consumer.tag(), BasicCancelOptions::default());
            self.limited("cancel", None, cancelling).await?;
            tag = None;
            next = Ok(consumer.next().now_or_never().flatten());
            if matches!(next, Ok(None)) {
                self.idle.give(channel);
                return Ok(None);
            }
        }
        match next {
            Ok(Some(Ok(delivery))) => Ok(Some(self.hand_over(channel, delivery, tag))),
            Ok(Some(Err(error))) => Err(self.address.error("consume", None, &error)),
            Ok(None) | Err(_) => Err(self.address.unreachable("the broker ended the consumer")),
        }
    }

    /// Refuses a fan-out to an exchange that does not exist.
    async fn find(&self, channel: &Channel, exchange: &str) -> Result<()> {
        if locked(&self.exchanges).contains(exchange) {
            return Ok(());
        }
        let options = ExchangeDeclareOptions {
            passive: true,
            ..ExchangeDeclareOptions::default()
        };
        let (name, kind) = (self.name(exchange)?, ExchangeKind::Fanout);
        let found = channel.exchange_declare(name, kind, options, FieldTable::default());
        let found = self.limited("publish", Some(exchange), found);
        found.await?;
        locked(&self.exchanges).insert(exchange.to_owned());
        Ok(())
    }

    async fn bind(&self, channel: &Channel, exchange: String, queue: &str) -> Result<()> {
        let (to, from) = (self.name(&exchange)?, self.name(queue)?);
        self.limited("bind", None, async {
            let options = ExchangeDeclareOptions {
                durable: true,
                // The broker deletes the exchange with the last of its queues.
                auto_delete: true,
                ..ExchangeDeclareOptions::default()
            };
            let table = FieldTable::default;
            channel
                .exchange_declare(to.clone(), ExchangeKind::Fanout, options, table())
                .await?;
            let key = ShortString::default();
            channel
                .queue_bind(from, to, key, QueueBindOptions::default(), table())
                .await
        })
        .await?;
        locked(&self.exchanges).insert(exchange);
        Ok(())
    }

    async fn consume(&self, channel: Lease, queue: &str, wait: Duration) -> Result<Reply> {
        let getting = channel.basic_get(self.name(queue)?, BasicGetOptions::default());
        if let Some(message) = self.limited("consume", None, getting).await? {
            let message = self.hand_over(channel, message.delivery, None);
            return Ok(Reply::Value(Some(message)));
        }
        if wait.is_zero() {
            self.idle.give(channel);
            return Ok(Reply::Value(None));
        }
        self.wait(channel, queue, wait).await.map(Reply::Value)
    }

    /// Gets the message without acknowledging it and returns it to its position in
    /// the queue. Until it is returned, other clients find no message.
    async fn peek(&self, channel: &Channel, queue: &str) -> Result<Option<Payload>> {
        let getting = channel.basic_get(self.name(queue)?, BasicGetOptions::default());
        let found = self.limited("peek", None, getting).await?;
        let Some(mut message) = found else {
            return Ok(None);
        };
        let body = std::mem::take(&mut message.delivery.data);
        let options = BasicNackOptions {
            requeue: true,
            ..BasicNackOptions::default()
        };
        let returning = message.delivery.acker.nack(options);
        self.limited("hand back", None, returning).await?;
        Ok(Some(body.into()))
    }
}

#[async_trait]
impl crate::Channel<QueueCommand> for RabbitQueue {
    async fn run(&self, command: QueueCommand) -> Result<Reply> {
        let channel = self.channel().await?;
        if let QueueCommand::Publish { queue, .. }
        | QueueCommand::Bind { queue, .. }
        | QueueCommand::Consume { queue, .. }
        | QueueCommand::Peek { queue }
        | QueueCommand::Purge { queue } = &command
        {
            self.ensure(&channel, queue).await?;
        }
        let reply = match command {
            QueueCommand::Publish { queue, message } => {
                self.send(&channel, "", &queue, &message).await?.into()
            }
            QueueCommand::FanOut { exchange, message } => {
                self.find(&channel, &exchange).await?;
                self.send(&channel, &exchange, "", &message).await?.into()
            }
            QueueCommand::Bind { exchange, queue } => {
                self.bind(&channel, exchange, &queue).await?.into()
            }
            QueueCommand::Consume { queue, wait } => {
                return self.consume(channel, &queue, wait).await;
            }
            QueueCommand::Peek { queue } => self.peek(&channel, &queue).await?.into(),
            QueueCommand::Count { queue } => Reply::Count(self.declare(&channel, &queue).await?),
            QueueCommand::Purge { queue } => {
                let purging = channel.queue_purge(self.name(&queue)?, QueuePurgeOptions::default());
                self.limited("purge", None, purging).await?;
                Reply::Done
            }
        };
        self.idle.give(channel);
        Ok(reply)
    }
}
