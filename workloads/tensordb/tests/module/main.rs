//! The module inside real servers.
//!
//! Without a `redis-server` these tests pass and report that they were skipped;
//! with `EPOCHCOST_REQUIRE_SERVERS=1`, as in CI, its absence is a failure.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod client;
mod concurrency;
mod durability;
mod fuzz;
mod rules;
mod server;

use bytes::Bytes;
use client::{Client, ok};
use redis_protocol::resp2::types::BytesFrame;
use server::Server;

/// Starts a server; `None` if none is installed.
fn start(configuration: &str) -> Option<Server> {
    Server::start(configuration)
}

/// The words of a command, parted by spaces.
fn words(command: &str) -> Vec<&str> {
    command.split(' ').collect()
}

impl Client {
    /// Sends commands of words that must succeed.
    #[track_caller]
    fn does(&mut self, commands: &[&str]) {
        for command in commands {
            assert_eq!(self.reply(command), ok(), "{command}");
        }
    }

    /// The reply to a command of words.
    fn reply(&mut self, command: &str) -> BytesFrame {
        self.call(&words(command))
    }

    #[track_caller]
    fn integer(&mut self, command: &str) -> i64 {
        match self.reply(command) {
            BytesFrame::Integer(value) => value,
            other => panic!("{command}: {other:?}"),
        }
    }

    #[track_caller]
    fn bulk(&mut self, command: &str) -> Bytes {
        match self.reply(command) {
            BytesFrame::BulkString(bytes) => bytes,
            other => panic!("{command}: {other:?}"),
        }
    }

    /// The message of a command that must be refused.
    #[track_caller]
    fn refusal(&mut self, command: &str) -> String {
        match self.reply(command) {
            BytesFrame::Error(text) => text.to_string(),
            other => panic!("{command}: {other:?}"),
        }
    }

    /// Stores a tensor at a key.
    fn set(&mut self, key: &str, values: &[f32]) {
        self.done(&[b"TENSOR.SET", key.as_bytes(), &tensor(values)]);
    }

    /// Adds a tensor to that at a key.
    fn add(&mut self, key: &str, values: &[f32]) {
        self.done(&[b"TENSOR.ACCUMULATE", key.as_bytes(), &tensor(values)]);
    }
}

/// A tensor so long that reductions run in the background.
fn long(value: f32) -> Vec<f32> {
    vec![value; 300_000]
}

/// The little-endian bytes of a tensor.
fn tensor(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}
