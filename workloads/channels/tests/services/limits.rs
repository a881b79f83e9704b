//! Values over a limit go through the object store.

use std::sync::Arc;
use std::time::Duration;

use epochcost_channels::client::open_queue;
use epochcost_channels::memory::{MemoryObjects, MemoryQueue, MemoryTensors};
use epochcost_channels::reference::{BUCKET, ByReference};
use epochcost_channels::{
    Channel, ObjectCommand, ObjectStore, OperationKind, Payload, Queue, Reply, RobustRule, Scheme,
    TensorStore,
};

use super::tensors::STEP;
use super::{
    LONG, NOT, endpoint, fresh_scope, keys, objects, servers, stored, taken, tensors, text, vector,
};

const LIMIT: u64 = 1_000;

fn large() -> Payload {
    vec![7_u8; 1_001].into()
}

async fn objects_left(objects: &ObjectStore) -> usize {
    objects.list(BUCKET, "", None).await.unwrap().keys.len()
}

fn limited_queue(objects: &ObjectStore) -> Queue {
    let memory = Arc::new(MemoryQueue::default());
    let limited = ByReference::new(memory, objects.clone(), LIMIT, "m");
    Queue::new(Arc::new(limited))
}

/// Every queue that there is here, with the object store behind it.
async fn queues() -> Vec<(&'static str, Queue, ObjectStore)> {
    let behind = objects();
    let mut all = vec![("memory", limited_queue(&behind), behind)];
    let mut urls = Vec::new();
    urls.extend(servers::rabbitmq().map(|broker| ("RabbitMQ", broker.url())));
    #[cfg(feature = "aws")]
    urls.extend(servers::sqs().map(|url| ("SQS", url.to_owned())));
    for (name, url) in urls {
        let (endpoint, behind) = (endpoint(&format!("{url}?limit_bytes={LIMIT}")), objects());
        let queue = open_queue(&endpoint, &fresh_scope(), &behind).await;
        all.push((name, queue.unwrap(), behind));
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn large_messages_arrive_as_they_were_sent() {
    for (name, queue, objects) in queues().await {
        let small: Payload = vec![7_u8; 1_000].into();
        queue.publish("q", small.clone()).await.unwrap();
        assert_eq!(objects_left(&objects).await, 0, "{name}");
        queue.publish("q", large()).await.unwrap();
        assert_eq!(objects_left(&objects).await, 1, "{name}");
        assert_eq!(queue.count("q").await.unwrap(), 2, "{name}");
        queue.publish("peeked at", large()).await.unwrap();
        for _ in 0..2 {
            let found = queue.peek("peeked at").await.unwrap();
            assert_eq!(found, Some(large()), "{name}");
        }
        queue.consume("peeked at", LONG).await.unwrap();
        assert_eq!(taken(&queue, "q").await, small, "{name}");
        assert_eq!(taken(&queue, "q").await, large(), "{name}");
        // Its only receiver has it.
        assert_eq!(objects_left(&objects).await, 0, "{name}");

        for bound in ["a", "b"] {
            queue.bind("x", bound).await.unwrap();
        }
        queue.publish_fanout("x", large()).await.unwrap();
        let left = objects_left(&objects).await;
        assert_eq!(left, 1, "{name}: one object for all");
        for bound in ["a", "b"] {
            assert_eq!(taken(&queue, bound).await, large(), "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_looks_like_a_reference_arrives_as_itself() {
    for (name, queue, _) in queues().await {
        let lookalike = text("\u{93}EPOCHCOST-REFERENCE1");
        let mut bytes = b"\x93EPOCHCOST-REFERENCE1".to_vec();
        bytes.extend_from_slice(&[0; 30]);
        for message in [lookalike, bytes.into()] {
            queue.publish("q", message.clone()).await.unwrap();
            assert_eq!(taken(&queue, "q").await, message, "{name}");
        }
    }
}

/// An object store whose reads never end.
struct Stuck(MemoryObjects);

#[async_trait::async_trait]
impl Channel<ObjectCommand> for Stuck {
    async fn run(&self, command: ObjectCommand) -> epochcost_channels::Result<Reply> {
        match command {
            ObjectCommand::Get { .. } => std::future::pending().await,
            other => self.0.run(other).await,
        }
    }
}

#[tokio::test]
async fn a_consumer_dropped_while_it_fetches_keeps_the_message() {
    let stuck = Stuck(MemoryObjects::default());
    let queue = limited_queue(&ObjectStore::new(Arc::new(stuck)));
    queue.publish("q", large()).await.unwrap();
    queue.publish("q", text("next")).await.unwrap();
    for _ in 0..2 {
        let fetching = tokio::time::timeout(Duration::from_millis(10), queue.consume("q", LONG));
        assert!(fetching.await.is_err(), "the fetch ended");
        assert_eq!(queue.count("q").await.unwrap(), 2);
    }
    queue.purge("q").await.unwrap();
    assert_eq!(queue.consume("q", NOT).await.unwrap(), None);
}

/// Messages just within the limit of a broker, and just over it.
async fn arrive_around_the_limit(url: &str, limit: usize) {
    let behind = objects();
    let queue = open_queue(&endpoint(url), &fresh_scope(), &behind).await;
    let queue = queue.unwrap();
    for (bytes, by_reference) in [(limit, 0), (limit + 1, 1)] {
        let body: Vec<u8> = (0..bytes).map(|place| (place % 251) as u8).collect();
        let message: Payload = body.into();
        queue.publish("q", message.clone()).await.unwrap();
        assert_eq!(objects_left(&behind).await, by_reference);
        let found = taken(&queue, "q").await;
        assert!(found == message, "{bytes} bytes came back otherwise");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_around_the_limit_of_rabbitmq() {
    let Some(broker) = servers::rabbitmq() else {
        return;
    };
    arrive_around_the_limit(&broker.url(), 128 << 20).await;
}

#[cfg(feature = "aws")]
#[tokio::test(flavor = "multi_thread")]
async fn messages_around_the_limit_of_sqs() {
    let Some(url) = servers::sqs() else { return };
    arrive_around_the_limit(url, 786_429).await;
}

/// Every tensor store that computes as the kernels do.
async fn stores() -> Vec<(&'static str, TensorStore)> {
    let objects = objects();
    let memory = Arc::new(MemoryTensors::default());
    let limited = ByReference::new(memory, objects.clone(), LIMIT, "m");
    let mut all = vec![("memory", TensorStore::new(Arc::new(limited)))];
    let mut urls = Vec::new();
    urls.extend(servers::redis().map(|redis| ("plain Redis", redis.url(), Scheme::RedisPlain)));
    let module = servers::redis_with_module();
    urls.extend(module.map(|redis| ("Redis with the module", redis.url(), Scheme::Redis)));
    for (name, url, scheme) in urls {
        let url = format!("{url}?limit_bytes={LIMIT}");
        all.push((name, tensors(&url, scheme).await));
    }
    all
}

#[tokio::test]
async fn large_tensors_are_computed_on_by_the_client() {
    let many = |value: f32| vector(&[value; 300]);
    for (name, store) in stores().await {
        store.set("a", many(1.0)).await.unwrap();
        store.set("b", many(2.0)).await.unwrap();
        store.set("small", vector(&[1.0; 20])).await.unwrap();
        assert_eq!(store.get("a").await.unwrap(), Some(many(1.0)), "{name}");
        // Within the reference, beyond it, and beyond the tensor.
        for elements in [0..2, 298..300, 5..5] {
            let part = store.get_range("b", elements.clone()).await.unwrap();
            assert_eq!(
                part,
                Some(vector(&[2.0, 2.0][..elements.count()])),
                "{name}"
            );
        }
        assert!(store.get_range("b", 299..301).await.is_err(), "{name}");

        store.mean("m", &keys(&["a", "b"])).await.unwrap();
        assert_eq!(stored(&store, "m").await, [1.5; 300], "{name}");
        store.accumulate("sum", many(1.0)).await.unwrap();
        store.accumulate("sum", many(2.0)).await.unwrap();
        assert_eq!(stored(&store, "sum").await, [3.0; 300], "{name}");
        store.sgd("a", "b", STEP).await.unwrap();
        assert_eq!(stored(&store, "a").await, [0.0; 300], "{name}");
        assert_eq!(stored(&store, "a:velocity").await, [2.0; 300], "{name}");
        let (step, sources) = (OperationKind::Step(STEP), keys(&["b", "b"]));
        store.compute("a", step, &sources).await.unwrap();
        assert_eq!(stored(&store, "a").await, [-1.5; 300], "{name}");
        let rule = RobustRule::CoordinateMedian.into();
        let sources = keys(&["a", "b", "m"]);
        store.robust_mean("r", rule, &sources).await.unwrap();
        assert_eq!(stored(&store, "r").await, [1.5; 300], "{name}");

        let refused = store.mean("m", &keys(&["a", "small"])).await;
        assert!(refused.is_err(), "{name}");
        let refused = store.accumulate("a", vector(&[1.0; 20])).await;
        assert!(refused.is_err(), "{name}");
        assert_eq!(stored(&store, "a").await, [-1.5; 300], "{name}");
        let message = store.push("list", large()).await.unwrap_err().to_string();
        assert!(
            message.contains("over its limit of 1000"),
            "{name}: {message}"
        );
        store.set("a", vector(&[1.0])).await.unwrap();
        assert_eq!(stored(&store, "a").await, [1.0], "{name}");
    }
}
