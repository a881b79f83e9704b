//! The requests of an epoch of SPIRT, through every layer of a worker's channels, count what they counted
//! when they were recorded.

use std::collections::BTreeMap;
use std::time::Duration;

use epochcost_channels::client::{open_objects, open_queue, open_tensors};
use epochcost_channels::embedded::{ObjectServer, QueueServer, TensorServer};
use epochcost_channels::{
    Endpoint, Link, Meter, NetworkShape, ObjectStore, Payload, Queue, Scope, SgdStep, TensorStore,
    Traffic,
};

/// Lines of `settings channel command names… bytes`, in the order in which requests were answered; the
/// dataset is put before. After those of each settings `settings = traffic`, of object store, tensor
/// stores and queue. Channels are the peers' tensor stores, by number, `objects` and `queue`.
const LOG: &str = include_str!("spirt-epoch.log");

/// Values above this go by reference; texts that the published code pushes cannot.
fn limit(settings: &str) -> u64 {
    if settings == "code" { 1_000 } else { 100 }
}

/// Channels behind a link, a reference and a scope, each with a meter.
struct Layers {
    link: std::sync::Arc<Link>,
    meters: [Meter; 3],
    objects: ObjectStore,
    queue: Queue,
    tensors: BTreeMap<String, (TensorServer, TensorStore)>,
    scope: Scope,
    bare: ObjectStore,
    _servers: (ObjectServer, QueueServer),
}

fn limited(endpoint: &str, settings: &str) -> Endpoint {
    let limit = limit(settings);
    format!("{endpoint}?limit_bytes={limit}").parse().unwrap()
}

impl Layers {
    async fn new(settings: &str) -> Self {
        let object_server = ObjectServer::start(Default::default()).await.unwrap();
        let queue_server = QueueServer::start(Default::default()).await.unwrap();
        let scope: Scope = "run.t1".parse().unwrap();
        let bare = open_objects(&object_server.endpoint().parse().unwrap(), &scope).unwrap();
        let endpoint = limited(&queue_server.endpoint(), settings);
        let queue = open_queue(&endpoint, &scope, &bare);
        let (link, meters) = (Link::new(&NetworkShape::default()), <[Meter; 3]>::default());
        Self {
            objects: bare.clone().shaped(&link, 0.01).metered(&meters[0]),
            queue: queue.await.unwrap().shaped(&link, 0.01).metered(&meters[2]),
            tensors: BTreeMap::new(),
            link,
            meters,
            scope,
            bare,
            _servers: (object_server, queue_server),
        }
    }

    async fn tensors(&mut self, settings: &str, number: &str) -> TensorStore {
        if let Some((_, store)) = self.tensors.get(number) {
            return store.clone();
        }
        let server = TensorServer::start(Default::default()).await.unwrap();
        let endpoint = limited(&server.endpoint(), settings);
        let store = open_tensors(&endpoint, &self.scope, &self.bare);
        let store = store.await.unwrap().shaped(&self.link, 0.01);
        let store = store.metered(&self.meters[1]);
        self.tensors
            .insert(number.to_owned(), (server, store.clone()));
        store
    }

    async fn replay(&mut self, words: &[&str]) {
        let &[settings, channel, command, ref words @ ..] = words else {
            panic!("{words:?} is no line of the log");
        };
        let (first, last) = (words.first().copied().unwrap_or(""), words.last());
        let bytes = last.and_then(|word| word.parse().ok()).unwrap_or(0);
        let names = |from: usize| -> Vec<String> {
            words[from..].iter().map(|&word| word.to_owned()).collect()
        };
        let zeros = || -> Payload { vec![0_u8; bytes].into() };
        let text = || -> Payload { format!("{:bytes$}", "[1]").into_bytes().into() };
        let step = SgdStep {
            learning_rate: 0.1,
            momentum: 0.0,
            weight_decay: 0.0,
        };
        let done = match (channel, command) {
            ("objects", "put") => self.objects.put(first, words[1], zeros()).await,
            ("objects", "get") => self.objects.get(first, words[1]).await.map(drop),
            ("objects", "delete") => self.objects.delete(first, &names(1)).await,
            ("queue", "publish") => self.queue.publish(first, zeros()).await,
            ("queue", "fanout") => self.queue.publish_fanout(first, zeros()).await,
            ("queue", "bind") => self.queue.bind(first, words[1]).await,
            ("queue", "consume") => {
                let consumed = self.queue.consume(first, Duration::ZERO).await;
                consumed.map(drop)
            }
            ("queue", "purge") => self.queue.purge(first).await,
            ("queue", "count") => self.queue.count(first).await.map(drop),
            (number, command) => {
                let store = self.tensors(settings, number).await;
                match command {
                    "set" => store.set(first, zeros()).await,
                    "get" => store.get(first).await.map(drop),
                    "mean" => store.mean(first, &names(1)).await,
                    "sgd" => store.sgd(first, words[1], step).await,
                    "accumulate" => store.accumulate(first, zeros()).await,
                    "delete" => store.delete(&names(0)).await,
                    "push" => store.push(first, text()).await,
                    "json_mean" => store.json_mean(first, bytes as u64).await.map(drop),
                    "ping" => store.ping().await,
                    other => panic!("no command {other} in the log"),
                }
            }
        };
        done.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_epoch_of_spirt_counts_what_it_counted() {
    let mut trials: BTreeMap<&str, Layers> = BTreeMap::new();
    let mut compared = 0;
    for line in LOG.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if !trials.contains_key(words[0]) {
            trials.insert(words[0], Layers::new(words[0]).await);
        }
        let layers = trials.get_mut(words[0]).unwrap();
        if let [_, "=", traffic] = words[..] {
            let expected: [Traffic; 3] = serde_json::from_str(traffic).unwrap();
            assert_eq!(
                layers.meters.each_ref().map(Meter::read),
                expected,
                "{line}"
            );
            compared += 1;
        } else {
            layers.replay(&words).await;
        }
    }
    assert_eq!(compared, trials.len());
}
