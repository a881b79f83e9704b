use std::sync::Arc;
use std::time::Duration;

use epochcost_channels::Queue;
use epochcost_channels::client::RedisQueue;
use epochcost_channels::embedded::QueueServer;
use epochcost_channels::memory::MemoryQueue;

use super::{LONG, payload};

async fn client_of(endpoint: &str) -> Queue {
    Queue::new(Arc::new(
        RedisQueue::connect(endpoint.parse().unwrap())
            .await
            .unwrap(),
    ))
}

async fn start() -> (QueueServer, Queue, Queue) {
    epochcost_testing::watch();
    let store = Arc::new(MemoryQueue::default());
    let server = QueueServer::start(Arc::clone(&store)).await.unwrap();
    let client = client_of(&server.endpoint()).await;
    (server, Queue::new(store), client)
}

#[tokio::test]
async fn a_consumer_that_waits_blocks_no_other_client() {
    let (_server, _store, client) = start().await;
    let waiting: Vec<_> = (0..4)
        .map(|i| {
            let client = client.clone();
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
            let client = client.clone();
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
async fn large_messages_and_many_consumers() {
    let (server, _store, client) = start().await;
    let large = payload(vec![7; 45_000_000]);
    client.publish("large", large.clone()).await.unwrap();
    assert!(client.consume("large", LONG).await.unwrap() == Some(large));
    let mut consumers = Vec::new();
    for _ in 0..8 {
        let consumer = client_of(&server.endpoint()).await;
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
