//! Real servers answer once they are started, and are gone afterwards.
//!
//! Servers that are not installed are skipped with a message; with
//! `EPOCHCOST_REQUIRE_SERVERS=1`, as in CI, they are a failure.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use epochcost_servers::{
    Allocator, ObjectServer, RabbitMq, Redis, RedisSettings, ServerError, find,
};
use epochcost_testing::{or_skip, watch};

fn started<T>(server: Result<T, ServerError>) -> Option<T> {
    watch();
    match server {
        Err(error @ ServerError::Missing { .. }) => or_skip(Err(error)),
        other => Some(other.unwrap()),
    }
}

/// Drops a server, of which nothing may be left; returns the directory that it had.
fn is_gone_after<T>(server: T, address: SocketAddr, process: u32) -> PathBuf {
    let directory = directory_of(process);
    drop(server);
    assert!(TcpStream::connect(address).is_err(), "{address} is served");
    assert!(!Path::new(&format!("/proc/{process}")).exists());
    assert!(!directory.exists());
    directory
}

/// Returns the working directory of a process, which is its server's directory.
fn directory_of(process: u32) -> PathBuf {
    std::fs::read_link(format!("/proc/{process}/cwd")).unwrap()
}

fn redis_says(redis: &Redis, lines: &str) -> String {
    let mut stream = TcpStream::connect(redis.address()).unwrap();
    write!(stream, "{lines}\r\nQUIT\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

#[test]
fn redis_starts_empty_asks_for_its_password_and_is_gone_afterwards() {
    let settings = RedisSettings {
        allocator: Allocator::Tuned,
        ..RedisSettings::default()
    };
    let Some(redis) = started(Redis::start(&settings)) else {
        return;
    };
    let other = Redis::start(&settings).unwrap();
    assert_ne!(redis.address(), other.address());
    assert_ne!(redis.password(), other.password());
    assert!(redis_says(&redis, "DBSIZE").starts_with("-NOAUTH"));
    let authorise = format!("AUTH {}", redis.password());
    let size = redis_says(&redis, &format!("{authorise}\r\nDBSIZE"));
    assert_eq!(size, "+OK\r\n:0\r\n+OK\r\n");
    let memory = redis_says(&redis, &format!("{authorise}\r\nMEMORY MALLOC-STATS"));
    assert!(memory.contains("opt.dirty_decay_ms: -1"), "{memory}");
    let arguments = std::fs::read_to_string(format!("/proc/{}/cmdline", redis.process())).unwrap();
    assert!(!arguments.contains(redis.password()), "{arguments}");
    assert!(!format!("{redis:?}").contains(redis.password()));
    let (address, process) = (redis.address(), redis.process());
    is_gone_after(redis, address, process);
}

fn configured(configuration: &str) -> RedisSettings {
    RedisSettings {
        configuration: configuration.into(),
        ..RedisSettings::default()
    }
}

#[test]
fn redis_that_cannot_start_says_why() {
    match Redis::start(&configured("no-such-setting 1")) {
        Err(ServerError::Missing { .. }) => {}
        Err(error) => assert!(error.to_string().contains("no-such-setting"), "{error}"),
        Ok(_) => panic!("it started"),
    }
}

#[test]
fn redis_files_are_found_by_the_next() {
    let settings = configured("appendonly yes");
    let Some(redis) = started(Redis::start(&settings)) else {
        return;
    };
    redis_says(&redis, &format!("AUTH {}\r\nSET a 1", redis.password()));
    let redis = Redis::start_in(redis.shut_down(), &settings).unwrap();
    let reply = redis_says(&redis, &format!("AUTH {}\r\nGET a", redis.password()));
    assert_eq!(reply, "+OK\r\n$1\r\n1\r\n+OK\r\n");
}

#[test]
fn rabbitmq_starts_and_leaves_nothing_of_erlang_behind() {
    let Some(mut rabbitmq) = started(RabbitMq::start()) else {
        return;
    };
    let version = rabbitmq.version().unwrap();
    assert!(version.starts_with(|c: char| c.is_ascii_digit()));
    let installed = find::rabbitmq_version(&find::rabbitmq().unwrap());
    assert_eq!(installed.as_deref(), rabbitmq.version());
    assert!(rabbitmq.ended().is_none());
    let (address, process) = (rabbitmq.address(), rabbitmq.process());
    assert_ne!(processes_in(&directory_of(process)), Vec::<String>::new());
    let directory = is_gone_after(rabbitmq, address, process);
    // Erlang's helpers leave the group, and end once their pipe is closed.
    let waited = Instant::now();
    while !processes_in(&directory).is_empty() && waited.elapsed() < Duration::from_secs(5) {
        sleep(Duration::from_millis(10));
    }
    assert_eq!(processes_in(&directory), Vec::<String>::new());
}

#[test]
fn an_s3_server_refuses_strangers_and_is_gone_afterwards() {
    let Some(mut objects) = started(ObjectServer::start()) else {
        return;
    };
    // Before any of a body comes; a form's signature is behind it.
    for request in [
        "PUT /bucket HTTP/1.1\r\n",
        "POST /bucket HTTP/1.1\r\ncontent-type: multipart/form-data; boundary=x\r\n",
    ] {
        let mut stream = TcpStream::connect(objects.address()).unwrap();
        let head = "host: localhost\r\ncontent-length: 1073741824\r\n\r\n";
        write!(stream, "{request}{head}").unwrap();
        let mut reply = [0; 12];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply, *b"HTTP/1.1 403", "{request}");
    }
    assert!(objects.ended().is_none());
    let (address, process) = (objects.address(), objects.process());
    is_gone_after(objects, address, process);
}

/// Returns the running processes whose environment names the directory.
fn processes_in(directory: &Path) -> Vec<String> {
    let home = format!("HOME={}\0", directory.display());
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter(|process| {
            let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&home)
        })
        .map(|process| process.path().display().to_string())
        .collect()
}
