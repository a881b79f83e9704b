//! The servers that the tests of this program share. They end with it.

use std::path::PathBuf;
use std::sync::OnceLock;

use epochcost_servers::{ObjectServer, RabbitMq, Redis, RedisSettings, ServerError, find};

/// The Redis module, beside this test or where this says.
const MODULE_VARIABLE: &str = "EPOCHCOST_REDIS_MODULE";
const MODULE: &str = "libepochcost_tensordb.so";

/// Redis as it is.
pub fn redis() -> Option<&'static Redis> {
    static SERVER: OnceLock<Option<Redis>> = OnceLock::new();
    let start = || present(Redis::start(&RedisSettings::default()));
    SERVER.get_or_init(start).as_ref()
}

/// Redis with the module.
pub fn redis_with_module() -> Option<&'static Redis> {
    static SERVER: OnceLock<Option<Redis>> = OnceLock::new();
    let start = || {
        let settings = RedisSettings {
            module: Some(module()?),
            ..RedisSettings::default()
        };
        present(Redis::start(&settings))
    };
    SERVER.get_or_init(start).as_ref()
}

pub fn rabbitmq() -> Option<&'static RabbitMq> {
    static SERVER: OnceLock<Option<RabbitMq>> = OnceLock::new();
    SERVER.get_or_init(|| present(RabbitMq::start())).as_ref()
}

/// An S3-compatible server that checks signatures.
pub fn s3() -> Option<&'static ObjectServer> {
    static SERVER: OnceLock<Option<ObjectServer>> = OnceLock::new();
    SERVER
        .get_or_init(|| present(ObjectServer::start()))
        .as_ref()
}

/// The server, or `None` with a message if its program is not here.
pub fn present<T>(started: Result<T, ServerError>) -> Option<T> {
    match started {
        Ok(server) => Some(server),
        Err(missing @ ServerError::Missing { .. }) => absent(&missing.to_string()),
        Err(error) => panic!("{error}"),
    }
}

fn module() -> Option<PathBuf> {
    let named = std::env::var_os(MODULE_VARIABLE).map(PathBuf::from);
    named.or_else(|| find::beside(MODULE)).or_else(|| {
        absent(&format!(
            "{MODULE} is not beside this test: cargo build --release -p epochcost-tensordb, or \
             name it in {MODULE_VARIABLE}"
        ))
    })
}

pub fn absent<T>(what: &str) -> Option<T> {
    assert!(
        std::env::var_os("EPOCHCOST_REQUIRE_SERVERS").is_none(),
        "{what}; EPOCHCOST_REQUIRE_SERVERS is set"
    );
    eprintln!("SKIPPED: {what}");
    None
}
