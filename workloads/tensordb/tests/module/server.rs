//! A Redis server with the module, for as long as a test needs it.

use std::ops::Deref;

use epochcost_servers::{Allocator, Redis, RedisSettings, find};
use epochcost_testing::{or_skip, watch};
use tempfile::TempDir;

use super::client::Client;

/// A running server with a directory of its own; both are gone when dropped,
/// also when a test panics.
pub struct Server(Redis);

/// Whether there are a server and the module to run in it; a message if not.
pub fn is_installed() -> bool {
    watch();
    or_skip(find::redis().and(find::module())).is_some()
}

fn settings(configuration: &str, allocator: Allocator) -> RedisSettings {
    RedisSettings {
        module: Some(find::module().unwrap()),
        allocator,
        configuration: format!("enable-debug-command yes\n{configuration}"),
    }
}

impl Server {
    /// Starts a server with further lines of configuration; `None` if none is
    /// installed.
    pub fn start(configuration: &str) -> Option<Self> {
        let settings = settings(configuration, Allocator::Stock);
        is_installed().then(|| Self(Redis::start(&settings).unwrap()))
    }

    /// Starts a server on the files that another one left.
    #[allow(dead_code, reason = "not for the benchmark, which shares this file")]
    pub fn start_in(directory: TempDir, configuration: &str) -> Self {
        let settings = settings(configuration, Allocator::Stock);
        Self(Redis::start_in(directory, &settings).unwrap())
    }

    /// Starts a server with nothing in it.
    #[allow(dead_code, reason = "for the benchmark, which shares this file")]
    pub fn with_allocator(allocator: Allocator) -> Self {
        Self(Redis::start(&settings("", allocator)).unwrap())
    }

    pub fn client(&self) -> Client {
        Client::connect(self.0.address(), self.0.password())
    }

    /// Lets the server write its files and end; its directory stays.
    #[allow(dead_code, reason = "not for the benchmark, which shares this file")]
    pub fn shut_down(self) -> TempDir {
        self.0.shut_down()
    }
}

impl Deref for Server {
    type Target = Redis;

    fn deref(&self) -> &Redis {
        &self.0
    }
}
