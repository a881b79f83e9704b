//! Every field of the traffic counts what its name states, over the wire, and through every layer of a
//! worker's channels: a link, a scope, and references to values that are large.

use std::sync::Arc;
use std::time::Duration;

use epochcost_channels::client::{open_objects, open_queue, open_tensors};
use epochcost_channels::embedded::{ObjectServer, QueueServer, TensorServer};
use epochcost_channels::memory::MemoryObjects;
use epochcost_channels::{
    Endpoint, Link, Meter, NetworkShape, ObjectStore, OperationKind, RobustRule, Scope, SgdStep,
    Traffic,
};

use super::{LONG, names, payload};

/// Values above these bytes go by reference.
const LIMIT: &str = "?limit_bytes=4";

fn endpoint(of: &str, limit: &str) -> Endpoint {
    format!("{of}{limit}").parse().unwrap()
}

fn scope() -> Scope {
    "run.t1".parse().unwrap()
}

/// A link that carries at once.
fn link() -> Arc<Link> {
    Link::new(&NetworkShape::default())
}

fn behind() -> ObjectStore {
    ObjectStore::new(Arc::<MemoryObjects>::default())
}

#[tokio::test]
async fn objects() {
    let server = ObjectServer::start(Arc::default()).await.unwrap();
    let meter = Meter::timed(|| Duration::ZERO);
    let store = open_objects(&endpoint(&server.endpoint(), ""), &scope()).unwrap();
    let store = store.shaped(&link(), 0.01).metered(&meter);
    store.put("b", "k", payload("12345")).await.unwrap();
    store.put("b", "l", payload("678")).await.unwrap();
    store.get("b", "k").await.unwrap();
    store.get_range("b", "k", 1..3).await.unwrap();
    store.get("b", "none").await.unwrap();
    store.get_range("b", "none", 0..1).await.unwrap();
    store.list("b", "", None).await.unwrap();
    store.delete("b", &names(&["k", "l"])).await.unwrap();
    // Failed requests are not counted.
    store.get_range("b", "k", 7..7).await.unwrap_err();
    assert_eq!(
        meter.read(),
        Traffic {
            puts: 2,
            gets: 2,
            missed_gets: 2,
            lists: 1,
            deletes: 1,
            bytes_up: 8,
            bytes_down: 7,
            ..Traffic::default()
        }
    );
    assert_eq!(meter.take_stored(Duration::ZERO).removed_bytes, 8);
}

#[tokio::test]
async fn tensors() {
    for limit in ["", LIMIT] {
        tensors_within(limit).await;
    }
}

async fn tensors_within(limit: &str) {
    let server = TensorServer::start(Arc::default()).await.unwrap();
    let meter = Meter::default();
    let store = open_tensors(&endpoint(&server.endpoint(), limit), &scope(), &behind()).await;
    let store = store.unwrap().shaped(&link(), 0.01).metered(&meter);
    let step = SgdStep {
        learning_rate: 0.1,
        momentum: 0.0,
        weight_decay: 0.0,
    };
    store.ping().await.unwrap();
    store.set("a", payload([0; 8])).await.unwrap();
    store.accumulate("a", payload([0; 8])).await.unwrap();
    store.push("l", payload("[1]")).await.unwrap();
    store.get("a").await.unwrap();
    store.get("none").await.unwrap();
    store.get_range("a", 0..1).await.unwrap();
    let before = meter.read();
    store.mean("m", &names(&["a"])).await.unwrap();
    let median = RobustRule::CoordinateMedian.into();
    let robust = store.robust_mean("m", median, &names(&["a"])).await;
    robust.unwrap();
    store.sgd("a", "m", step).await.unwrap();
    let (step, sources) = (OperationKind::Step(step), names(&["m"]));
    store.compute("a", step, &sources).await.unwrap();
    assert_eq!(
        meter.read() - before,
        Traffic {
            in_store: 4,
            ..Traffic::default()
        }
    );
    assert_eq!(store.json_mean("l", 1).await.unwrap(), payload("[1]"));
    store.delete(&names(&["a", "m"])).await.unwrap();
    assert_eq!(
        meter.read(),
        Traffic {
            puts: 3,
            gets: 2,
            missed_gets: 1,
            deletes: 1,
            in_store: 5,
            bytes_up: 19,
            bytes_down: 15,
            ..Traffic::default()
        }
    );
}

#[tokio::test]
async fn queues() {
    for limit in ["", LIMIT] {
        queues_within(limit).await;
    }
}

async fn queues_within(limit: &str) {
    let server = QueueServer::start(Arc::default()).await.unwrap();
    let meter = Meter::default();
    let queue = open_queue(&endpoint(&server.endpoint(), limit), &scope(), &behind()).await;
    let queue = queue.unwrap().shaped(&link(), 0.01).metered(&meter);
    queue.bind("x", "a").await.unwrap();
    queue.bind("x", "b").await.unwrap();
    queue.publish_fanout("x", payload("12345")).await.unwrap();
    queue.publish("a", payload("678")).await.unwrap();
    queue.consume("a", LONG).await.unwrap();
    queue.consume("b", LONG).await.unwrap();
    queue.consume("b", Duration::ZERO).await.unwrap();
    queue.count("a").await.unwrap();
    queue.purge("a").await.unwrap();
    assert_eq!(
        meter.read(),
        Traffic {
            messages: 2,
            deliveries: 2,
            polls: 3,
            bytes_up: 8,
            bytes_down: 10,
            ..Traffic::default()
        }
    );
}
