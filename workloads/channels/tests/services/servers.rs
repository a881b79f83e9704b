//! The servers that the tests of this program share. They end with it.

use std::sync::OnceLock;

use epochcost_servers::{ObjectServer, RabbitMq, Redis, RedisSettings, ServerError, find};
use epochcost_testing::{or_skip, watch};

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
            module: Some(present(find::module())?),
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

/// An address where moto speaks SQS' protocol. A shell ends it when its input
/// does, so when this program ends, however that happens.
#[cfg(feature = "aws")]
pub fn sqs() -> Option<&'static str> {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    const SCRIPT: &str = r#"moto_server -H 127.0.0.1 -p "$1" >&2 & cat; kill $!"#;
    const PATIENCE: Duration = Duration::from_secs(60);
    static SERVER: OnceLock<Option<(Child, String)>> = OnceLock::new();
    let start = || {
        let found = Command::new("moto_server").arg("--help").output();
        if !found.is_ok_and(|output| output.status.success()) {
            return or_skip(Err("moto_server is not here: pip install 'moto[server]'"));
        }
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "sh", &port.to_string()]);
        let command = command.stdin(Stdio::piped()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let started = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(started.elapsed() < PATIENCE, "moto_server does not come up");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some((child, format!("sqs+http://key:secret@127.0.0.1:{port}")))
    };
    let server = SERVER.get_or_init(start).as_ref();
    server.map(|(_, url)| url.as_str())
}

/// The server, or `None` with a message if its program is not here.
pub fn present<T>(started: Result<T, ServerError>) -> Option<T> {
    watch();
    match started {
        Err(missing @ ServerError::Missing { .. }) => or_skip(Err(missing)),
        other => Some(other.unwrap()),
    }
}
