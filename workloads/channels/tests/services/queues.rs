//! Properties of every queue.

use std::sync::Arc;
use std::time::{Duration, Instant};

use epochcost_channels::client::open_queue;
use epochcost_channels::embedded::QueueServer;
use epochcost_channels::memory::MemoryQueue;
use epochcost_channels::{ObjectStore, Payload, Queue, Scope};

use tokio::time::timeout;

use super::{LONG, NOT, endpoint, fresh_scope, is_missing, objects, servers, taken, text};

/// A queue under test, and a second client of it.
struct Backend {
    name: &'static str,
    queue: Queue,
    other: Queue,
    /// Kept while the queue is used.
    _server: Option<QueueServer>,
}

/// Every queue that there is here.
async fn backends() -> Vec<Backend> {
    let memory = Queue::new(Arc::new(MemoryQueue::default()));
    let mut all = vec![Backend {
        name: "memory",
        queue: memory.clone(),
        other: memory,
        _server: None,
    }];
    let server = QueueServer::start(Arc::default()).await.unwrap();
    let url = server.endpoint();
    all.push(opened("embedded", &url, Some(server)).await);
    if let Some(broker) = servers::rabbitmq() {
        all.push(opened("RabbitMQ", &broker.url(), None).await);
    }
    #[cfg(feature = "aws")]
    if let Some(url) = servers::sqs() {
        all.push(opened("SQS", url, None).await);
    }
    all
}

async fn open(url: &str, scope: &Scope, objects: &ObjectStore) -> Queue {
    open_queue(&endpoint(url), scope, objects).await.unwrap()
}

async fn opened(name: &'static str, url: &str, _server: Option<QueueServer>) -> Backend {
    let (scope, objects) = (fresh_scope(), objects());
    Backend {
        name,
        queue: open(url, &scope, &objects).await,
        other: open(url, &scope, &objects).await,
        _server,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_leave_in_the_order_they_came() {
    for backend in backends().await {
        let (name, queue) = (backend.name, backend.queue);
        assert_eq!(queue.consume("q", NOT).await.unwrap(), None, "{name}");
        for message in ["1", "2", "3", ""] {
            queue.publish("q", text(message)).await.unwrap();
        }
        assert_eq!(queue.count("q").await.unwrap(), 4, "{name}");
        assert_eq!(backend.other.count("q").await.unwrap(), 4, "{name}");
        for (message, wait) in [("1", LONG), ("2", NOT), ("3", LONG), ("", NOT)] {
            let found = queue.consume("q", wait).await.unwrap();
            assert_eq!(found, Some(text(message)), "{name}");
        }
        assert_eq!(queue.count("q").await.unwrap(), 0, "{name}");
        for short in [Duration::from_nanos(1), Duration::from_millis(20)] {
            assert_eq!(queue.consume("q", short).await.unwrap(), None, "{name}");
        }
        let large: Payload = vec![7; 45_000_000].into();
        queue.publish("q", large.clone()).await.unwrap();
        assert!(taken(&queue, "q").await == large, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peek_leaves_the_message_where_it_is() {
    for backend in backends().await {
        let (name, queue, other) = (backend.name, backend.queue, backend.other);
        assert_eq!(queue.peek("q").await.unwrap(), None, "{name}");
        queue.publish("q", text("1")).await.unwrap();
        queue.publish("q", text("2")).await.unwrap();
        for client in [&queue, &other, &queue] {
            // A broker may take a moment to put back what another client peeked at: until then the
            // next message is the first.
            let began = Instant::now();
            loop {
                let found = client.peek("q").await.unwrap();
                if found == Some(text("1")) {
                    break;
                }
                assert!(began.elapsed() < LONG, "{name}: {found:?}");
                tokio::task::yield_now().await;
            }
        }
        queue.replace("q", text("3")).await.unwrap();
        assert_eq!(taken(&other, "q").await, text("3"), "{name}");
        assert_eq!(other.peek("q").await.unwrap(), None, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_drops_what_waits_and_nothing_else() {
    for backend in backends().await {
        let (name, queue) = (backend.name, backend.queue);
        queue.purge("never named").await.unwrap();
        queue.publish("q", text("1")).await.unwrap();
        queue.publish("q", text("2")).await.unwrap();
        queue.publish("p", text("3")).await.unwrap();
        queue.consume("q", NOT).await.unwrap();
        queue.purge("q").await.unwrap();
        assert_eq!(queue.count("q").await.unwrap(), 0, "{name}");
        assert_eq!(queue.count("p").await.unwrap(), 1, "{name}");
        queue.publish("q", text("4")).await.unwrap();
        assert_eq!(taken(&queue, "q").await, text("4"), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fan_out_reaches_every_bound_queue() {
    for backend in backends().await {
        let (name, queue) = (backend.name, backend.queue);
        let missing = queue.publish_fanout("x", text("lost")).await.unwrap_err();
        assert!(is_missing(&missing, "x"), "{name}: {missing}");
        // Binding creates the queue, and twice is once.
        for bound in ["a", "b", "b"] {
            queue.bind("x", bound).await.unwrap();
        }
        backend.other.publish_fanout("x", text("1")).await.unwrap();
        queue.publish_fanout("x", text("2")).await.unwrap();
        for bound in ["a", "b"] {
            assert_eq!(queue.count(bound).await.unwrap(), 2, "{name}");
            for message in ["1", "2"] {
                assert_eq!(taken(&queue, bound).await, text(message), "{name}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_wakes_a_consumer_that_waits() {
    for backend in backends().await {
        let (name, queue) = (backend.name, backend.queue.clone());
        let waiting = tokio::spawn(async move { queue.consume("q", LONG).await });
        // Most likely it waits by now; if not, it must find the message all the same.
        tokio::time::sleep(Duration::from_millis(100)).await;
        backend.other.publish("q", text("1")).await.unwrap();
        assert_eq!(waiting.await.unwrap().unwrap(), Some(text("1")), "{name}");
        // It took one, and left the next to others.
        backend.other.publish("q", text("2")).await.unwrap();
        assert_eq!(backend.other.count("q").await.unwrap(), 1, "{name}");
        assert_eq!(taken(&backend.other, "q").await, text("2"), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_is_dropped_while_it_waits_loses_no_message() {
    for backend in backends().await {
        let (name, queue, other) = (backend.name, backend.queue, backend.other);
        if name == "SQS" {
            // It comes back when its visibility ends, after 30 s: not waited for.
            continue;
        }
        for number in 0..20_u32 {
            let message = text(&number.to_string());
            let consumer = queue.clone();
            let waiting = tokio::spawn(async move { consumer.consume("q", LONG).await });
            // Dropped before, while and after the message comes.
            tokio::time::sleep(Duration::from_micros(u64::from(number) * 500)).await;
            other.publish("q", message.clone()).await.unwrap();
            tokio::time::sleep(Duration::from_micros(u64::from(number % 7) * 300)).await;
            waiting.abort();
            let found = match waiting.await {
                Ok(found) => found.unwrap(),
                Err(_) => other.consume("q", LONG).await.unwrap(),
            };
            assert_eq!(found, Some(message), "{name}");
        }
        assert_eq!(other.consume("q", NOT).await.unwrap(), None, "{name}");
    }
}

/// It was sent to the consumer, which has not looked.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_is_dropped_when_its_message_has_come_loses_none() {
    for backend in backends().await {
        let (name, queue, other) = (backend.name, backend.queue, backend.other);
        if name == "SQS" {
            continue;
        }
        let mut waiting = Box::pin(queue.consume("q", LONG));
        let asked = timeout(Duration::from_millis(100), &mut waiting).await;
        assert!(asked.is_err(), "{name}");
        for number in ["1", "2"] {
            other.publish("q", text(number)).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        drop(waiting);
        // What was on its way comes back a moment later, to the front.
        while other.count("q").await.unwrap() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        for number in ["1", "2"] {
            assert_eq!(taken(&other, "q").await, text(number), "{name}");
        }
        assert_eq!(other.consume("q", NOT).await.unwrap(), None, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_consumers_share_what_comes() {
    for backend in backends().await {
        let (name, queue) = (backend.name, backend.queue);
        let each = if name == "memory" { 500 } else { 10 };
        let consumers: Vec<_> = (0..4)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move {
                    let mut found = Vec::new();
                    for _ in 0..each {
                        found.extend(queue.consume("q", LONG).await.unwrap());
                    }
                    found
                })
            })
            .collect();
        // A consumer that waits blocks no other work of its own client.
        let publishers = [&queue, &backend.other].into_iter().cycle();
        for (number, publisher) in (0..4 * each).zip(publishers) {
            let message = text(&number.to_string());
            publisher.publish("q", message).await.unwrap();
        }
        let mut found = Vec::new();
        for consumer in consumers {
            let number = |message: Payload| {
                let message = std::str::from_utf8(message.bytes().unwrap()).unwrap();
                message.parse::<u32>().unwrap()
            };
            let numbers: Vec<u32> = consumer.await.unwrap().into_iter().map(number).collect();
            let is_in_order = numbers.is_sorted() || name == "SQS";
            assert!(
                is_in_order,
                "{name}: one consumer saw messages out of order"
            );
            found.extend(numbers);
        }
        found.sort_unstable();
        assert!(found.iter().copied().eq(0..4 * each), "{name}: {found:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_scope_left_on_the_same_broker_is_not_met() {
    let server = QueueServer::start(Arc::default()).await.unwrap();
    let mut urls = vec![server.endpoint()];
    urls.extend(servers::rabbitmq().map(|broker| broker.url()));
    for url in urls {
        let objects = objects();
        let earlier = open(&url, &fresh_scope(), &objects).await;
        let later = open(&url, &fresh_scope(), &objects).await;
        earlier.bind("x", "q").await.unwrap();
        earlier.publish("q", text("stale")).await.unwrap();
        assert_eq!(later.count("q").await.unwrap(), 0);
        assert_eq!(later.consume("q", NOT).await.unwrap(), None);
        let missing = later.publish_fanout("x", text("lost")).await.unwrap_err();
        assert!(is_missing(&missing, "x"), "{missing}");
    }
}
