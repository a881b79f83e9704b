#![allow(clippy::unwrap_used)]

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use futures_util::future::join_all;
use proptest::prelude::*;

use super::*;
use crate::memory::{MemoryLinks, MemoryObjects, MemoryQueue, MemoryTensors};
use crate::{Links, ObjectStore, Payload, Queue, TensorStore};

/// 8 Mbit/s are a million bytes per second.
const SHAPE: NetworkShape = NetworkShape {
    bandwidth_mbit_s: Some(8.0),
    latency_ms: LatencyMs {
        objects: 100.0,
        tensors: 1.0,
        queue: 2.0,
    },
};

/// Waiting tasks with the end of each wait.
type Waiting = Vec<(Duration, Waker)>;

/// Time that passes only while every task waits.
#[derive(Clone, Default)]
struct Virtual(Arc<Mutex<(Duration, Waiting)>>);

#[async_trait]
impl Time for Virtual {
    fn now(&self) -> Duration {
        self.0.lock().unwrap().0
    }

    async fn until(&self, at: Duration) {
        poll_fn(|context| {
            let mut state = self.0.lock().unwrap();
            if state.0 >= at {
                return Poll::Ready(());
            }
            state.1.push((at, context.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

impl Virtual {
    /// Runs `work` to its end and returns its seconds.
    fn run<T>(&self, work: impl Future<Output = Result<T>>) -> f64 {
        let began = self.now();
        let mut work = pin!(work);
        while work
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .map(|done| drop(done.unwrap()))
            .is_pending()
        {
            let mut state = self.0.lock().unwrap();
            let next = state.1.iter().map(|(at, _)| *at).min();
            state.0 = next.expect("a task waits for a time");
            let now = state.0;
            let (due, later) = state.1.drain(..).partition(|(at, _)| *at <= now);
            state.1 = later;
            drop(state);
            let due: Vec<(Duration, Waker)> = due;
            due.into_iter().for_each(|(_, waker)| waker.wake());
        }
        (self.now() - began).as_secs_f64()
    }

    fn link(&self) -> Arc<Link> {
        Link::in_time(&SHAPE, Box::new(self.clone()))
    }
}

fn objects(link: &Arc<Link>) -> ObjectStore {
    let store = ObjectStore::new(Arc::new(MemoryObjects::default()));
    store.shaped(link, SHAPE.latency_ms.objects)
}

fn tensors(link: &Arc<Link>) -> TensorStore {
    let store = TensorStore::new(Arc::new(MemoryTensors::default()));
    store.shaped(link, SHAPE.latency_ms.tensors)
}

fn bytes(count: usize) -> Payload {
    vec![0; count].into()
}

#[track_caller]
fn assert_near(found_s: f64, expected_s: f64) {
    assert!(
        (found_s - expected_s).abs() < 1e-6,
        "{found_s} s, not {expected_s} s"
    );
}

#[test]
fn a_request_takes_its_latency_and_its_bytes() {
    let time = Virtual::default();
    let link = time.link();
    let (objects, tensors) = (objects(&link), tensors(&link));
    assert_near(time.run(objects.put("b", "k", bytes(500_000))), 0.1 + 0.5);
    assert_near(time.run(objects.get("b", "k")), 0.6);
    assert_near(time.run(objects.get_range("b", "k", 0..100_000)), 0.1 + 0.1);
    // A request without bytes takes the latency alone.
    assert_near(time.run(objects.get("b", "none")), 0.1);
    assert_near(time.run(objects.list("b", "", None)), 0.1);
    assert_near(time.run(tensors.set("t", bytes(400_000))), 0.4 + 0.001);
    let sources = ["t".to_owned()];
    assert_near(time.run(tensors.mean("m", &sources)), 0.001);
}

#[test]
fn messages_are_carried_like_values() {
    let time = Virtual::default();
    let queue = Queue::new(Arc::new(MemoryQueue::default()));
    let queue = queue.shaped(&time.link(), SHAPE.latency_ms.queue);
    assert_near(time.run(queue.publish("q", bytes(100_000))), 0.1 + 0.002);
    assert_near(time.run(queue.count("q")), 0.002);
    assert_near(time.run(queue.consume("q", Duration::ZERO)), 0.1 + 0.002);
}

/// A message between workers takes its latency on its way, and none when it is taken.
#[test]
fn links_have_latency_on_sending_alone() {
    let time = Virtual::default();
    let memory = Links::new(Arc::new(MemoryLinks::default()));
    let links = memory.shaped(&time.link(), SHAPE.latency_ms.tensors);
    assert_near(time.run(links.listen(1)), 0.0);
    assert_near(time.run(links.connect(0, 1, "memory:1")), 0.001);
    assert_near(time.run(links.send(0, 1, bytes(100_000))), 0.1 + 0.001);
    assert_near(time.run(links.receive(1, 0)), 0.1);
}

#[test]
fn both_directions_are_carried_at_once() {
    let time = Virtual::default();
    let link = time.link();
    let (one, other) = (tensors(&link), tensors(&link));
    time.run(one.set("t", bytes(1_000_000)));
    let both = async {
        let (up, down) = futures_util::join!(other.set("t", bytes(1_000_000)), one.get("t"));
        up.and(down.map(drop))
    };
    assert_near(time.run(both), 1.001);
}

#[test]
fn a_network_of_no_bandwidth_given_has_latency_only() {
    let time = Virtual::default();
    let link = Link::in_time(&NetworkShape::default(), Box::new(time.clone()));
    let put = time.run(objects(&link).put("b", "k", bytes(50_000_000)));
    assert_near(put, 0.1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Transfers that start together end together with their sum, however many
    /// channels they go over, and none waits for longer than its turns take.
    #[test]
    fn a_link_carries_its_bandwidth_and_no_more(
        sizes in proptest::collection::vec(20_000usize..2_000_000, 1..6)
    ) {
        let time = Virtual::default();
        let link = time.link();
        let ends = Mutex::new(Vec::new());
        let all = async {
            let sent = join_all(sizes.iter().map(async |size| {
                tensors(&link).set("t", bytes(*size)).await?;
                ends.lock().unwrap().push((*size, time.now().as_secs_f64() - 0.001));
                Ok(())
            }));
            sent.await.into_iter().collect::<Result<()>>()
        };
        let sum: usize = sizes.iter().sum();
        assert_near(time.run(all), sum as f64 / 1e6 + 0.001);
        for (size, end) in ends.into_inner().unwrap() {
            let turns = (size as f64 / 1e4).ceil();
            let most = sizes.len() as f64 * turns * 0.01;
            prop_assert!(end >= size as f64 / 1e6 - 1e-6 && end <= most + 1e-6, "{sizes:?}: {size} at {end}");
        }
    }
}

/// A transfer takes at least the time of its link, on the clock of this machine.
#[tokio::test]
async fn a_real_link_holds_back() {
    let shape = NetworkShape {
        bandwidth_mbit_s: Some(80.0),
        latency_ms: LatencyMs::default(),
    };
    let began = Instant::now();
    tensors(&Link::new(&shape))
        .set("t", bytes(1_000_000))
        .await
        .unwrap();
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(100), "{took:?}");
    assert!(took < Duration::from_secs(60), "{took:?}");
}

#[test]
fn a_shape_is_read_as_it_is_written() {
    let text = serde_json::to_string(&SHAPE).unwrap();
    assert_eq!(serde_json::from_str::<NetworkShape>(&text).unwrap(), SHAPE);
}
