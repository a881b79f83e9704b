//! Clients of the channels' services, embedded or real: S3's HTTP for objects,
//! Redis for tensors, RabbitMQ or (with the feature `aws`) SQS for queues, and
//! the embedded servers.
//!
//! [`open_objects`], [`open_tensors`] and [`open_queue`] choose by the
//! endpoint's scheme.
//!
//! Each call is one request: nothing is retried, and a broken connection is not
//! reopened. A broken connection is an error, and so is a command without an
//! answer within the endpoint's time-out.

mod amqp;
mod amqp_address;
mod amqp_channel;
mod claim;
mod clear;
mod http;
mod links;
mod lua;
mod open;
mod plain;
mod redis;
mod redis_queue;
mod redis_tensors;
mod s3;
mod signed;
mod sizes;
#[cfg(feature = "aws")]
mod sqs;
mod wire;

pub use amqp::RabbitQueue;
pub use claim::claim;
pub use clear::clear;
pub use http::{https, plain_http};
pub use links::TcpLinks;
pub use lua::LuaTensors;
pub use open::{create_bucket, open_objects, open_queue, open_tensors};
pub use plain::PlainTensors;
pub use redis_queue::RedisQueue;
pub use redis_tensors::RedisTensors;
pub use s3::S3Objects;
pub use signed::Signer;
#[cfg(feature = "aws")]
pub use sqs::SqsQueue;
