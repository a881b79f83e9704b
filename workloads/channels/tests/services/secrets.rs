//! Passwords are in no message, whatever goes wrong.

use epochcost_channels::client::{create_bucket, open_objects, open_queue, open_tensors};
use epochcost_channels::{Endpoint, Result};

use super::{endpoint, fresh_scope, objects, servers, text};

const CANARY: &str = "canary";

/// An error, with everything that could be printed of it.
fn message<T>(result: Result<T>) -> String {
    let error = result.err().expect("an error");
    let mut text = format!("{error} {error:?}");
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text = format!("{text} {error} {error:?}");
        cause = error.source();
    }
    text
}

/// Errors of every client for an endpoint that it cannot use.
async fn all_errors(endpoint: &Endpoint) -> Vec<String> {
    let objects = objects();
    let scope = fresh_scope();
    let mut all = vec![message(open_tensors(endpoint, &scope, &objects).await)];
    match open_queue(endpoint, &scope, &objects).await {
        // SQS has no connection to open.
        Ok(queue) => all.push(message(queue.count("q").await)),
        error => all.push(message(error)),
    }
    match open_objects(endpoint, &scope) {
        Ok(store) => {
            all.push(message(store.put("b", "k", text("x")).await));
            all.push(message(create_bucket(endpoint).await));
        }
        error => all.push(message(error)),
    }
    all
}

#[tokio::test]
async fn no_error_holds_a_password() {
    // Nothing listens on port 1.
    let mut addresses = vec!["127.0.0.1:1".to_owned()];
    let mut add = |url: Option<String>| {
        let address = url.and_then(|url| Some(url.split_once('@')?.1.to_owned()));
        addresses.extend(address);
    };
    add(servers::redis().map(|server| server.url()));
    add(servers::rabbitmq().map(|server| server.url()));
    add(servers::s3().map(|server| format!("{}/bucket", server.url())));
    for address in &addresses {
        for scheme in [
            "redis",
            "redis+plain",
            "redis+lua",
            "amqp",
            "http",
            "sqs+http",
        ] {
            let url = format!("{scheme}://user-{CANARY}:{CANARY}@{address}");
            let endpoint = endpoint(&url);
            assert!(!format!("{endpoint} {endpoint:?}").contains(CANARY));
            for text in all_errors(&endpoint).await {
                assert!(!text.contains(CANARY), "{scheme} at {address}: {text}");
            }
        }
    }
}

#[tokio::test]
async fn a_wrong_password_is_refused_and_not_unreachable() {
    let objects = objects();
    if let Some(redis) = servers::redis() {
        let url = format!("redis+plain://:{CANARY}@{}", redis.address());
        let text = message(open_tensors(&endpoint(&url), &fresh_scope(), &objects).await);
        assert!(text.contains("refused connect"), "{text}");
        let url = format!("redis+plain://{}", redis.address());
        let store = open_tensors(&endpoint(&url), &fresh_scope(), &objects).await;
        let text = match store {
            Ok(store) => message(store.ping().await),
            refused => message(refused),
        };
        assert!(text.contains("NOAUTH"), "{text}");
    }
    if let Some(broker) = servers::rabbitmq() {
        let url = format!("amqp://guest:{CANARY}@{}", broker.address());
        let text = message(open_queue(&endpoint(&url), &fresh_scope(), &objects).await);
        assert!(
            text.contains("refused connect") && text.contains("ACCESS_REFUSED"),
            "{text}"
        );
    }
}
