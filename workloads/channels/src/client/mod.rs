//! Clients of the channels' services, embedded or real: S3's HTTP for objects,
//! the Redis protocol for tensors and queues.
//!
//! One call is one request: nothing is retried, and no connection is opened
//! again behind the caller's back. A connection that broke is an error.

mod redis;
mod redis_queue;
mod redis_tensors;
mod s3;

pub use redis_queue::RedisQueue;
pub use redis_tensors::RedisTensors;
pub use s3::S3Objects;
