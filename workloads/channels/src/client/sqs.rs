//! Client of Amazon SQS, or of a service that speaks its protocol.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::Credentials;
use aws_sdk_sqs::error::{DisplayErrorContext, SdkError};
use aws_sdk_sqs::types::{Message, QueueAttributeName};
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use epochcost_kernels::hash;
use tokio::time::{Instant, sleep};

use crate::endpoint::{Endpoint, Scheme};
use crate::reference::hexadecimal;
use crate::stash::Stash;
use crate::{Channel, ChannelError, ObjectStore, Payload, QueueCommand, Reply, Result, locked};

const SERVICE: &str = "queue";

/// Largest payload whose text fits the 1,048,576 bytes of one message.
pub(super) const MESSAGE_BYTES: u64 = 786_429;

/// First character of every message, since SQS accepts no empty text.
const MARK: char = '=';

/// Longest wait of one request for a message.
const LONGEST_POLL: Duration = Duration::from_secs(20);

/// Polling interval once less than a second is left to wait.
const SHORT_PAUSE: Duration = Duration::from_millis(100);

/// Longest name of a queue.
const NAME_BYTES: usize = 80;

/// Bucket of the bindings of fan-outs.
const BINDINGS: &str = "sqs-bindings";

/// A message queue in SQS: standard queues, so at least once and in no order.
///
/// SQS has no fan-out. Bindings are objects, `{exchange}/{queue}` in
/// hexadecimal, in the bucket `sqs-bindings`; a fan-out lists them and sends one
/// message to each queue. A message is deleted before it is handed over. If a
/// consume is dropped during the deletion, the message goes to the next consume
/// of this client; if it is dropped before, to any consumer, after SQS'
/// visibility time-out of 30 s. Counts are approximate, as SQS' are.
pub struct SqsQueue {
    client: Client,
    endpoint: Endpoint,
    bindings: ObjectStore,
    urls: Mutex<HashMap<String, String>>,
    taken: Stash,
}

impl SqsQueue {
    /// Creates a client of `endpoint` that stores bindings in `bindings`. Without
    /// credentials in the endpoint, the AWS SDK's chain of providers supplies them.
    pub(super) async fn open(endpoint: Endpoint, bindings: ObjectStore) -> Self {
        // Transport: one attempt per request, within the time-outs of the endpoint.
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(endpoint.connect_timeout())
            .operation_timeout(endpoint.options.timeout)
            .build();
        // The TLS library of all other clients here.
        let http =
            aws_smithy_http_client::Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring));
        let mut config = aws_config::defaults(BehaviorVersion::latest())
            .http_client(http.build_https())
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts);
        // Address and region.
        config = match endpoint.scheme {
            Scheme::Sqs => config.region(Region::new(endpoint.host.clone())),
            Scheme::SqsHttp => config.endpoint_url(format!("http://{}", endpoint.authority())),
            _ => config.endpoint_url(format!("https://{}", endpoint.authority())),
        };
        if endpoint.scheme != Scheme::Sqs {
            config = config.region(Region::new(endpoint.options.region.clone()));
        }
        // Credentials of the endpoint, in place of the SDK's chain.
        if !endpoint.user.is_empty() {
            let secret = endpoint.password.reveal();
            config = config.credentials_provider(Credentials::new(
                &endpoint.user,
                secret,
                None,
                None,
                "endpoint",
            ));
        }
        Self {
            client: Client::new(&config.load().await),
            endpoint,
            bindings,
            urls: Mutex::default(),
            taken: Stash::default(),
        }
    }

    /// Returns the address of `queue`, and creates the queue if there is none.
    async fn url(&self, queue: &str) -> Result<String> {
        let known = locked(&self.urls).get(queue).cloned();
        if let Some(url) = known {
            return Ok(url);
        }
        let created = self.client.create_queue().queue_name(queue_name(queue));
        let created = created.send().await;
        let url = created
            .map_err(|error| self.error("create a queue", error))?
            .queue_url
            .ok_or_else(|| refused("create a queue", "the answer names no queue"))?;
        locked(&self.urls).insert(queue.to_owned(), url.clone());
        Ok(url)
    }

    /// Sends one request for a message that waits up to `wait`, in whole seconds.
    /// With `stays`, the message remains visible to other consumers.
    async fn receive(&self, url: &str, wait: Duration, stays: bool) -> Result<Option<Message>> {
        let seconds = i32::try_from(wait.min(LONGEST_POLL).as_secs()).unwrap_or_default();
        let asking = self.client.receive_message().queue_url(url);
        let asking = asking.max_number_of_messages(1).wait_time_seconds(seconds);
        let asking = if stays {
            asking.visibility_timeout(0)
        } else {
            asking
        };
        let answer = asking
            .send()
            .await
            .map_err(|error| self.error("consume", error))?;
        Ok(answer.messages.unwrap_or_default().pop())
    }

    async fn send(&self, queue: &str, text: String) -> Result<()> {
        let url = self.url(queue).await?;
        let sending = self.client.send_message().queue_url(url).message_body(text);
        let sent = sending.send().await;
        sent.map(drop).map_err(|error| self.error("publish", error))
    }

    /// Deletes `message` from the queue and returns its payload.
    async fn take(&self, queue: &str, url: &str, message: Message) -> Result<Payload> {
        let reservation = self.taken.reserve(queue, Self::payload(&message)?);
        let handle = message.receipt_handle.unwrap_or_default();
        let deleting = self.client.delete_message().queue_url(url);
        let deleted = deleting.receipt_handle(handle).send().await;
        deleted.map_err(|error| self.error("delete a message", error))?;
        let message = reservation.release();
        message.ok_or_else(|| refused("consume", "the message is gone"))
    }

    fn payload(message: &Message) -> Result<Payload> {
        let text = message.body.as_deref().unwrap_or_default();
        let encoded = text.strip_prefix(MARK);
        let bytes = encoded.and_then(|text| BASE64_STANDARD.decode(text).ok());
        let foreign = || refused("consume", "a message is none of this program's");
        bytes.map(Payload::from).ok_or_else(foreign)
    }

    fn error<E, R>(&self, operation: &str, error: SdkError<E, R>) -> ChannelError
    where
        E: std::error::Error + 'static,
        R: std::fmt::Debug,
    {
        match &error {
            SdkError::ServiceError(service_error) => refused(
                operation,
                DisplayErrorContext(service_error.err()).to_string(),
            ),
            _ => {
                let reason = DisplayErrorContext(&error).to_string();
                ChannelError::unreachable(SERVICE, &self.endpoint, reason)
            }
        }
    }
}

fn refused(operation: &str, reason: impl Into<String>) -> ChannelError {
    ChannelError::refused(SERVICE, operation, reason)
}

fn text(message: &Payload) -> Result<String> {
    let mut text = String::from(MARK);
    BASE64_STANDARD.encode_string(message.bytes()?, &mut text);
    Ok(text)
}

/// Returns the name of a queue in SQS, which accepts letters, digits, `-` and `_`.
/// A name with other characters or of more than 80 becomes its beginning and its hash.
fn queue_name(queue: &str) -> String {
    let suits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if queue.len() <= NAME_BYTES && !queue.is_empty() && queue.chars().all(suits) {
        return queue.to_owned();
    }
    let kept = queue.chars().map(|c| if suits(c) { c } else { '-' });
    let kept: String = kept.take(NAME_BYTES - 17).collect();
    format!("{kept}-{:016x}", digest(queue))
}

/// Hashes a name to 64 bits.
fn digest(name: &str) -> u64 {
    let bytes = name.bytes();
    bytes.fold(name.len() as u64, |hash, byte| hash::mix(hash, byte.into()))
}

fn from_hexadecimal(text: &str) -> Option<String> {
    let pairs = text.as_bytes().chunks(2);
    let bytes: Option<Vec<u8>> = pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    String::from_utf8(bytes?).ok()
}

impl SqsQueue {
    async fn fan_out(&self, exchange: &str, message: &Payload) -> Result<()> {
        let (text, prefix) = (text(message)?, format!("{}/", hexadecimal(exchange)));
        let mut after: Option<String> = None;
        loop {
            let page = self
                .bindings
                .list(BINDINGS, &prefix, after.as_deref())
                .await?;
            if page.keys.is_empty() && after.is_none() {
                return Err(ChannelError::missing(SERVICE, exchange));
            }
            for key in page.keys.iter() {
                let queue = key.strip_prefix(&prefix).and_then(from_hexadecimal);
                let foreign = || refused("publish", format!("{key:?} is no binding"));
                self.send(&queue.ok_or_else(foreign)?, text.clone()).await?;
            }
            if !page.truncated {
                return Ok(());
            }
            after = page.keys.last().cloned();
        }
    }

    async fn bind(&self, exchange: &str, queue: &str) -> Result<()> {
        self.url(queue).await?;
        let key = format!("{}/{}", hexadecimal(exchange), hexadecimal(queue));
        self.bindings.put(BINDINGS, &key, Vec::new().into()).await
    }

    async fn consume(&self, queue: &str, wait: Duration) -> Result<Option<Payload>> {
        if let Some(message) = self.taken.take(queue) {
            return Ok(Some(message));
        }
        let url = self.url(queue).await?;
        let deadline = Instant::now() + wait;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if let Some(message) = self.receive(&url, left, false).await? {
                return self.take(queue, &url, message).await.map(Some);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            if left < Duration::from_secs(1) {
                sleep(left.min(SHORT_PAUSE)).await;
            }
        }
    }

    async fn peek(&self, queue: &str) -> Result<Option<Payload>> {
        if let Some(message) = self.taken.peek(queue) {
            return Ok(Some(message));
        }
        let url = self.url(queue).await?;
        let found = self.receive(&url, Duration::ZERO, true).await?;
        found.map(|message| Self::payload(&message)).transpose()
    }

    async fn count(&self, queue: &str) -> Result<u64> {
        let url = self.url(queue).await?;
        let name = QueueAttributeName::ApproximateNumberOfMessages;
        let asking = self.client.get_queue_attributes().queue_url(url);
        let answer = asking.attribute_names(name.clone()).send().await;
        let answer = answer.map_err(|error| self.error("count", error))?;
        let count = answer
            .attributes
            .and_then(|all| all.get(&name)?.parse::<u64>().ok());
        let unsaid = || refused("count", "the answer holds no count");
        Ok(count.ok_or_else(unsaid)? + self.taken.count(queue))
    }

    async fn purge(&self, queue: &str) -> Result<()> {
        let url = self.url(queue).await?;
        let purged = self.client.purge_queue().queue_url(url).send().await;
        purged.map_err(|error| self.error("purge", error))?;
        self.taken.purge(queue);
        Ok(())
    }
}

#[async_trait]
impl Channel<QueueCommand> for SqsQueue {
    async fn run(&self, command: QueueCommand) -> Result<Reply> {
        match command {
            QueueCommand::Publish { queue, message } => {
                self.send(&queue, text(&message)?).await.map(Reply::from)
            }
            QueueCommand::FanOut { exchange, message } => {
                self.fan_out(&exchange, &message).await.map(Reply::from)
            }
            QueueCommand::Bind { exchange, queue } => {
                self.bind(&exchange, &queue).await.map(Reply::from)
            }
            QueueCommand::Consume { queue, wait } => {
                self.consume(&queue, wait).await.map(Reply::Value)
            }
            QueueCommand::Peek { queue } => self.peek(&queue).await.map(Reply::Value),
            QueueCommand::Count { queue } => self.count(&queue).await.map(Reply::Count),
            QueueCommand::Purge { queue } => self.purge(&queue).await.map(Reply::from),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_largest_message_fits() {
        let largest = Payload::from(vec![0_u8; MESSAGE_BYTES as usize]);
        let length = text(&largest).unwrap().len();
        assert!(length <= 1_048_576 && length + 4 > 1_048_576, "{length}");
    }

    #[test]
    fn names_are_those_that_sqs_takes() {
        assert_eq!(queue_name("trial_sync-1"), "trial_sync-1");
        let long = "run/".repeat(40);
        for name in [long.as_str(), "scope/q", "", "ü"] {
            let taken = queue_name(name);
            assert!(taken.len() <= NAME_BYTES, "{taken}");
            assert!(
                taken
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
            );
        }
        assert_ne!(queue_name("a/b"), queue_name("a b"));
    }

    #[test]
    fn hexadecimal_names_are_read_back() {
        for name in ["", "a", "scope/ü \n"] {
            assert_eq!(from_hexadecimal(&hexadecimal(name)).as_deref(), Some(name));
        }
        assert_eq!(from_hexadecimal("0"), from_hexadecimal("00"));
        assert_eq!(from_hexadecimal("zz"), None);
    }
}
