//! Servers that end or fall silent in the middle of an operation: an error
//! within a bounded time, never a hang.

use std::process::Command;
use std::time::Duration;

use epochcost_channels::client::{create_bucket, open_objects, open_queue, open_tensors};
use epochcost_channels::{ChannelError, Payload, Result, Scheme};
use epochcost_servers::{ObjectServer, RabbitMq, Redis, RedisSettings};

use super::servers::present;
use super::{endpoint, fresh_scope, objects, text};

/// Far less than the default time-out of a command, and time enough on a busy
/// machine.
const BOUND: Duration = Duration::from_secs(60);

/// Work that goes on until it fails.
type Working = tokio::task::JoinHandle<Result<()>>;

/// The error in which `work` must end.
async fn ends_in_error<T>(work: impl Future<Output = Result<T>>) -> ChannelError {
    let ended = tokio::time::timeout(BOUND, work).await;
    ended.expect("it hangs").err().expect("an error")
}

async fn assert_unreachable<T>(work: impl Future<Output = Result<T>>) {
    let error = ends_in_error(work).await;
    assert!(matches!(error, ChannelError::Unreachable { .. }), "{error}");
}

fn signal(process: u32, signal: &str) {
    let sent = Command::new("kill")
        .args([signal, &process.to_string()])
        .status();
    assert!(sent.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_killed_under_commands() {
    for scheme in [Scheme::RedisPlain, Scheme::RedisLua] {
        let Some(mut redis) = present(Redis::start(&RedisSettings::default())) else {
            return;
        };
        let at = endpoint(&redis.url()).with_scheme(scheme);
        let store = open_tensors(&at, &fresh_scope(), &objects()).await.unwrap();
        let value: Payload = vec![0_u8; 8 << 20].into();
        let adding = store.clone();
        let working: Working = tokio::spawn(async move {
            loop {
                adding.accumulate("sum", value.clone()).await?;
            }
        });
        tokio::time::sleep(Duration::from_millis(300)).await;
        redis.kill();
        assert_unreachable(async { working.await.unwrap() }).await;
        // It stays broken: no connection is opened again behind the caller's back.
        assert_unreachable(store.get("sum")).await;
        assert_unreachable(open_tensors(&at, &fresh_scope(), &objects())).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_redis_is_given_up() {
    let Some(redis) = present(Redis::start(&RedisSettings::default())) else {
        return;
    };
    let at = endpoint(&format!("{}?timeout_s=1", redis.url())).with_scheme(Scheme::RedisPlain);
    let store = open_tensors(&at, &fresh_scope(), &objects()).await.unwrap();
    store.set("k", text("1234")).await.unwrap();
    signal(redis.process(), "-STOP");
    let large: Payload = vec![0_u8; 64 << 20].into();
    let get = ends_in_error(store.get("k")).await.to_string();
    assert!(get.contains("no answer to GET within 1 s"), "{get}");
    let set = ends_in_error(store.set("k", large)).await.to_string();
    assert!(set.contains("no answer to SET within 1 s"), "{set}");
    signal(redis.process(), "-CONT");
}

/// A server that accepts connections and never answers.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_answers_is_given_up() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let at = |scheme: &str| endpoint(&format!("{scheme}://u:p@{address}/x?timeout_s=1"));
    let (scope, objects) = (fresh_scope(), objects());
    for scheme in ["redis", "redis+plain", "redis+lua"] {
        assert_unreachable(open_tensors(&at(scheme), &scope, &objects)).await;
    }
    for scheme in ["redis", "amqp"] {
        assert_unreachable(open_queue(&at(scheme), &scope, &objects)).await;
    }
    let store = open_objects(&at("http"), &scope).unwrap();
    assert_unreachable(store.get("b", "k")).await;
    #[cfg(feature = "aws")]
    {
        let queue = open_queue(&at("sqs+http"), &scope, &objects).await.unwrap();
        assert_unreachable(queue.count("q")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rabbitmq_killed_under_a_consumer_and_a_publisher() {
    let Some(mut broker) = present(RabbitMq::start()) else {
        return;
    };
    let at = endpoint(&broker.url());
    let queue = open_queue(&at, &fresh_scope(), &objects()).await.unwrap();
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.consume("empty", Duration::from_secs(3600)).await }
    });
    let publisher = queue.clone();
    let message: Payload = vec![0_u8; 4 << 20].into();
    let publishing: Working = tokio::spawn(async move {
        loop {
            publisher.publish("q", message.clone()).await?;
            publisher.purge("q").await?;
        }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!waiting.is_finished() && !publishing.is_finished());
    broker.kill();
    assert_unreachable(async { waiting.await.unwrap() }).await;
    assert_unreachable(async { publishing.await.unwrap() }).await;
    assert_unreachable(queue.count("q")).await;
    assert_unreachable(queue.publish("q", text("x"))).await;
    assert_unreachable(open_queue(&at, &fresh_scope(), &objects())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_store_killed_under_requests() {
    let Some(mut server) = present(ObjectServer::start()) else {
        return;
    };
    let at = endpoint(&format!("{}/bucket", server.url()));
    create_bucket(&at).await.unwrap();
    let store = open_objects(&at, &fresh_scope()).unwrap();
    let (writer, body) = (store.clone(), Payload::from(vec![0_u8; 16 << 20]));
    let working: Working = tokio::spawn(async move {
        loop {
            writer.put("b", "k", body.clone()).await?;
        }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.kill();
    assert_unreachable(async { working.await.unwrap() }).await;
    assert_unreachable(store.get("b", "k")).await;
}
