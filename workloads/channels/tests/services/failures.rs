//! Servers that end or fall silent in the middle of an operation: an error
//! within a bounded time, never a hang.

use std::process::Command;
use std::time::Duration;

use epochcost_channels::client::{open_objects, open_queue, open_tensors};
use epochcost_channels::{ChannelError, Payload, Result, Scheme};
use epochcost_servers::{ObjectServer, RabbitMq, Redis, RedisSettings};

use super::servers::present;
use super::{endpoint, fresh_scope, objects, text};

/// Far less than the default time-out of a command, and time enough on a busy
/// machine.
const BOUND: Duration = Duration::from_secs(60);

/// The error in which `work` must end.
async fn ends_in_error<T>(work: impl Future<Output = Result<T>>) -> ChannelError {
    let ended = tokio::time::timeout(BOUND, work).await;
    ended.expect("it hangs").err().expect("an error")
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
        let working = tokio::spawn({
            let (store, value) = (store.clone(), value.clone());
            async move {
                loop {
                    if let Err(error) = store.accumulate("sum", value.clone()).await {
                        break Err::<(), _>(error);
                    }
                }
            }
        });
        tokio::time::sleep(Duration::from_millis(300)).await;
        redis.kill();
        let error = ends_in_error(async { working.await.unwrap() }).await;
        assert!(matches!(error, ChannelError::Unreachable { .. }), "{error}");
        // It stays broken: no connection is opened again behind the caller's back.
        let error = ends_in_error(store.get("sum")).await;
        assert!(matches!(error, ChannelError::Unreachable { .. }), "{error}");
        let error = ends_in_error(open_tensors(&at, &fresh_scope(), &objects())).await;
        assert!(matches!(error, ChannelError::Unreachable { .. }), "{error}");
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
    let error = ends_in_error(store.get("k")).await;
    assert!(
        error.to_string().contains("no answer to GET within 1 s"),
        "{error}"
    );
    let large: Payload = vec![0_u8; 64 << 20].into();
    let error = ends_in_error(store.set("k", large)).await;
    assert!(
        error.to_string().contains("no answer to SET within 1 s"),
        "{error}"
    );
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
        let error = ends_in_error(open_tensors(&at(scheme), &scope, &objects)).await;
        assert!(matches!(error, ChannelError::Unreachable { .. }), "{error}");
    }
    for scheme in ["redis", "amqp"] {
        let error = ends_in_error(open_queue(&at(scheme), &scope, &objects)).await;
        assert!(matches!(error, ChannelError::Unreachable { .. }), "{error}");
    }
    let store = open_objects(&at("http"), &scope).unwrap();
    let error = ends_in_error(store.get("b", "k")).await;
    assert!(matches!(error, ChannelError::Unreachable { .. }), "{error}");
    #[cfg(feature = "aws")]
    {
        let queue = open_queue(&at("sqs+http"), &scope, &objects).await.unwrap();
        let error = ends_in_error(queue.count("q")).await;
        assert!(matches!(error, ChannelError::Unreachable { .. }), "{error}");
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
    let publishing = tokio::spawn({
        let queue = queue.clone();
        let message: Payload = vec![0_u8; 4 << 20].into();
        async move {
            loop {
                if let Err(error) = queue.publish("q", message.clone()).await {
                    break Err::<(), _>(error);
                }
                queue.purge("q").await?;
            }
        }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!waiting.is_finished() && !publishing.is_finished());
    broker.kill();
    for error in [
        ends_in_error(async { waiting.await.unwrap() }).await,
        ends_in_error(async { publishing.await.unwrap() }).await,
        ends_in_error(queue.count("q")).await,
        ends_in_error(queue.publish("q", text("x"))).await,
        ends_in_error(open_queue(&at, &fresh_scope(), &objects())).await,
    ] {
        assert!(matches!(error, ChannelError::Unreachable { .. }), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_store_killed_under_requests() {
    let Some(mut server) = present(ObjectServer::start()) else {
        return;
    };
    let at = endpoint(&format!("{}/bucket", server.url()));
    epochcost_channels::client::create_bucket(&at)
        .await
        .unwrap();
    let store = open_objects(&at, &fresh_scope()).unwrap();
    let working = tokio::spawn({
        let (store, body) = (store.clone(), Payload::from(vec![0_u8; 16 << 20]));
        async move {
            loop {
                if let Err(error) = store.put("b", "k", body.clone()).await {
                    break Err::<(), _>(error);
                }
            }
        }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.kill();
    let error = ends_in_error(async { working.await.unwrap() }).await;
    assert!(matches!(error, ChannelError::Unreachable { .. }), "{error}");
    let error = ends_in_error(store.get("b", "k")).await;
    assert!(matches!(error, ChannelError::Unreachable { .. }), "{error}");
}
