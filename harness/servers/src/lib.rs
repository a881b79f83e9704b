//! Real servers for a run or a test: [`Redis`], with or without the tensor store's
//! module, [`RabbitMq`] and an S3-compatible [`ObjectServer`].
//!
//! Each listens on loopback alone, on a port that was free, with a random
//! password and a directory of its own. Each is up when `start` returns, and
//! gone, with its directory and with all processes that it started, when its
//! value is dropped or when the process that holds it ends, however it ends
//! (see `group.rs`).
//!
//! Passwords are in files that only their owner may read and in environments,
//! never among a program's arguments, which every user of a machine can read.

mod error;
pub mod find;
mod group;
mod port;
mod process;
mod rabbitmq;
mod redis;
mod s3;
mod secret;
mod server;
mod start;

pub use error::ServerError;
pub use rabbitmq::RabbitMq;
pub use redis::{Allocator, Redis, RedisSettings};
pub use s3::ObjectServer;
pub use server::Server;
