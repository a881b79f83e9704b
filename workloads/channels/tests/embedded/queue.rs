use std::sync::Arc;
use std::time::Duration;

use epochcost_channels::client::RedisQueue;
use epochcost_channels::embedded::QueueServer;
use epochcost_channels::memory::MemoryQueue;
use epochcost_channels::{ChannelError, Queue};

use super::{LONG, payload};

async fn start() -> (QueueServer, Arc<MemoryQueue>, Arc<RedisQueue>) {
    epochcost_testing::watch();
    let store = Arc::new(MemoryQueue::default());
    let server = QueueServer::start(Arc::clone(&store)).await.unwrap();
    let client = Arc::new(RedisQueue::connect(&server.endpoint()).await.unwrap());
    (server, store, client)
}

#[tokio::test]
async fn fan_out_reaches_every_bound_queue() {
    let (_server, _store, client) = start().await;
    for queue in ["w0", "w1", "supervisor"] {
        client.bind("x", queue).await.unwrap();
    }
    client.publish_fanout("x", payload("go")).await.unwrap();
    client.publish("w0", payload("more")).await.unwrap();
    assert_eq!(client.count("w0").await.unwrap(), 2);
    for queue in ["w0", "w1", "supervisor"] {
        assert_eq!(
            client.consume(queue, LONG).await.unwrap(),
            Some(payload("go"))
        );
    }
    assert_eq!(client.consume("w1", Duration::ZERO).await.unwrap(), None);
    client.purge("w0").await.unwrap();
    assert_eq!(client.count("w0").await.unwrap(), 0);
    let unknown = client.publish_fanout("y", payload("go")).await;
    assert!(matches!(unknown, Err(ChannelError::Missing { key, .. }) if key == "y"));
}

#[tokio::test]
async fn a_consumer_that_waits_blocks_no_other_client() {
    let (_server, _store, client) = start().await;
    let waiting: Vec<_> = (0..4)
        .map(|i| {
            let client = Arc::clone(&client);
            tokio::spawn(async move { client.consume(&format!("q{i}"), LONG).await })
        })
        .collect();
    // All from one client: each consume above must wait on a connection of its own.
    for i in (0..4).rev() {
        client
            .publish(&format!("q{i}"), payload(format!("{i}")))
            .await
            .unwrap();
    }
    for (i, consumer) in waiting.into_iter().enumerate() {
        assert_eq!(
            consumer.await.unwrap().unwrap(),
            Some(payload(format!("{i}")))
        );
    }
    assert_eq!(
        client.consume("q0", Duration::from_nanos(1)).await.unwrap(),
        None
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_goes_away_takes_no_message() {
    let (_server, store, client) = start().await;
    for round in 0..20 {
        let gone = tokio::spawn({
            let client = Arc::clone(&client);
            async move { client.consume("q", LONG).await }
        });
        // Some are dropped while they connect, some while they wait.
        tokio::time::sleep(Duration::from_millis(round)).await;
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
    }
    // The server notices a closed connection at its next turn: let it.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let sent: Vec<_> = (0..50).map(|i| payload(format!("{i}"))).collect();
    for message in &sent {
        client.publish("q", message.clone()).await.unwrap();
    }
    assert_eq!(store.count("q").await.unwrap(), 50);
    for message in sent {
        assert_eq!(client.consume("q", LONG).await.unwrap(), Some(message));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_peeked_at_stays() {
    let (_server, store, client) = start().await;
    assert_eq!(client.peek("q").await.unwrap(), None);
    client.replace("q", payload("old")).await.unwrap();
    client.replace("q", payload("new")).await.unwrap();
    for _ in 0..2 {
        assert_eq!(client.peek("q").await.unwrap(), Some(payload("new")));
    }
    assert_eq!(store.count("q").await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_messages_and_many_consumers() {
    let (server, _store, client) = start().await;
    let large = payload(vec![7; 45_000_000]);
    client.publish("large", large.clone()).await.unwrap();
    assert!(client.consume("large", LONG).await.unwrap() == Some(large));
    let mut consumers = Vec::new();
    for _ in 0..8 {
        let consumer = RedisQueue::connect(&server.endpoint()).await.unwrap();
        consumers.push(tokio::spawn(async move {
            let mut taken = Vec::new();
            for _ in 0..25 {
                let message = consumer.consume("q", LONG).await.unwrap().unwrap();
                taken.push(message.bytes().unwrap().to_vec());
            }
            taken
        }));
    }
    for i in 0..200_u32 {
        client.publish("q", payload(i.to_be_bytes())).await.unwrap();
    }
    let mut all = Vec::new();
    for consumer in consumers {
        all.extend(consumer.await.unwrap());
    }
    all.sort();
    assert_eq!(
        all,
        (0..200_u32)
            .map(|i| i.to_be_bytes().to_vec())
            .collect::<Vec<_>>()
    );
}
