//! Properties of every tensor store.

use std::sync::Arc;

use epochcost_channels::client::{open_objects, open_tensors};
use epochcost_channels::embedded::TensorServer;
use epochcost_channels::memory::MemoryTensors;
use epochcost_channels::{OperationKind, Scheme, SgdStep, TensorStore};

use super::{
    endpoint, fresh_scope, is_missing, keys, objects, servers, stored, text, values, vector,
};

/// A tensor store under test.
pub struct Backend {
    pub name: &'static str,
    pub store: TensorStore,
    /// Kept while the store is used.
    _server: Option<TensorServer>,
}

impl Backend {
    /// Lua computes no robust rules.
    pub fn is_lua(&self) -> bool {
        self.name == "Redis with Lua"
    }
}

/// Every store that there is here.
pub async fn backends() -> Vec<Backend> {
    let server = TensorServer::start(Arc::default()).await.unwrap();
    let embedded = opened("embedded", &server.endpoint(), Scheme::Redis).await;
    let mut all = vec![
        Backend {
            name: "memory",
            store: TensorStore::new(Arc::new(MemoryTensors::default())),
            _server: None,
        },
        Backend {
            _server: Some(server),
            ..embedded
        },
    ];
    if let Some(redis) = servers::redis() {
        all.push(opened("plain Redis", &redis.url(), Scheme::RedisPlain).await);
        all.push(opened("Redis with Lua", &redis.url(), Scheme::RedisLua).await);
    }
    if let Some(redis) = servers::redis_with_module() {
        all.push(opened("Redis with the module", &redis.url(), Scheme::Redis).await);
    }
    all
}

async fn opened(name: &'static str, url: &str, scheme: Scheme) -> Backend {
    Backend {
        name,
        store: super::tensors(url, scheme).await,
        _server: None,
    }
}

pub const STEP: SgdStep = SgdStep {
    learning_rate: 0.5,
    momentum: 0.5,
    weight_decay: 0.0,
};

#[tokio::test]
async fn values_are_kept_read_in_part_and_deleted() {
    for backend in backends().await {
        let (name, store) = (backend.name, backend.store);
        assert_eq!(store.get("k").await.unwrap(), None, "{name}");
        assert_eq!(store.get_range("k", 0..1).await.unwrap(), None, "{name}");
        store.set("k", vector(&[1.0, 2.0, 3.0])).await.unwrap();
        store.set("empty", vector(&[])).await.unwrap();
        assert_eq!(stored(&store, "k").await, [1.0, 2.0, 3.0], "{name}");
        let part = store.get_range("k", 1..3).await.unwrap();
        assert_eq!(values(part), [2.0, 3.0], "{name}");
        for (key, at) in [("k", 3), ("empty", 0)] {
            let nothing = store.get_range(key, at..at).await.unwrap();
            assert_eq!(nothing, Some(vector(&[])), "{name}");
        }
        assert!(store.get_range("k", 2..4).await.is_err(), "{name}");
        store.set("k", vector(&[-0.0])).await.unwrap();
        let found = store.get("k").await.unwrap();
        assert_eq!(found, Some(vector(&[-0.0])), "{name}");
        store.delete(&keys(&["k", "none"])).await.unwrap();
        store.delete(&[]).await.unwrap();
        assert_eq!(store.get("k").await.unwrap(), None, "{name}");
        store.ping().await.unwrap();
    }
}

#[tokio::test]
async fn reductions_and_steps_by_hand() {
    for backend in backends().await {
        let (name, store) = (backend.name, backend.store.clone());
        store.set("a", vector(&[1.0, 2.0])).await.unwrap();
        store.set("b", vector(&[3.0, -4.0])).await.unwrap();
        store.accumulate("sum", vector(&[1.0, 2.0])).await.unwrap();
        store.accumulate("sum", vector(&[0.5, 0.5])).await.unwrap();
        assert_eq!(stored(&store, "sum").await, [1.5, 2.5], "{name}");
        store.mean("m", &keys(&["a", "b"])).await.unwrap();
        assert_eq!(stored(&store, "m").await, [2.0, -1.0], "{name}");
        // The destination may be a source, and a source may repeat.
        store.mean("m", &keys(&["m", "m", "b", "b"])).await.unwrap();
        assert_eq!(stored(&store, "m").await, [2.5, -2.5], "{name}");

        store.set("w", vector(&[1.0, 2.0])).await.unwrap();
        store.set("g", vector(&[1.0, -1.0])).await.unwrap();
        store.sgd("w", "g", STEP).await.unwrap();
        assert_eq!(stored(&store, "w").await, [0.5, 2.5], "{name}");
        assert_eq!(stored(&store, "w:velocity").await, [1.0, -1.0], "{name}");
        // v = 0.5·1 + 1 = 1.5; w = 0.5 - 0.5·1.5.
        let (step, sources) = (OperationKind::Step(STEP), keys(&["g", "g"]));
        store.compute("w", step, &sources).await.unwrap();
        assert_eq!(stored(&store, "w").await, [-0.25, 3.25], "{name}");
        let plain = SgdStep {
            momentum: 0.0,
            weight_decay: 1.0,
            ..STEP
        };
        store.set("x", vector(&[2.0, 2.0])).await.unwrap();
        store.sgd("x", "g", plain).await.unwrap();
        assert_eq!(stored(&store, "x").await, [0.5, 1.5], "{name}");
        assert_eq!(store.get("x:velocity").await.unwrap(), None, "{name}");
    }
}

#[tokio::test]
async fn texts_are_averaged_to_the_same_bytes() {
    for backend in backends().await {
        let (name, store) = (backend.name, backend.store);
        for item in [
            "[0.1, 1, 4, 2e-7, 2e15]",
            "[0.2, 0, -1, 0, 0]",
            "[0, 0, 0, 1e-7, 1e15]",
        ] {
            store.push("list", text(item)).await.unwrap();
        }
        let mean = store.json_mean("list", 3).await.unwrap();
        assert_eq!(mean, text("[0.1,0.33333333333333,1,1e-07,1e+15]"), "{name}");
        let first = store.json_mean("list", 1).await.unwrap();
        assert_eq!(first, text("[0.1,1,4,2e-07,2e+15]"), "{name}");
        // Divided by the number found.
        assert_eq!(store.json_mean("list", 9).await.unwrap(), mean, "{name}");
        assert!(store.json_mean("list", 0).await.is_err(), "{name}");
        let missing = store.json_mean("none", 1).await.unwrap_err();
        assert!(is_missing(&missing, "none"), "{name}");
        store.push("empty", text("[]")).await.unwrap();
        let empty = store.json_mean("empty", 1).await.unwrap();
        assert_eq!(empty, text("[]"), "{name}");
        for bad in ["[1]", "no JSON"] {
            store.push("list", text(bad)).await.unwrap();
            assert!(store.json_mean("list", 9).await.is_err(), "{name} {bad}");
        }
    }
}

#[tokio::test]
async fn a_command_that_fails_changes_nothing_and_says_why() {
    for backend in backends().await {
        let (name, store) = (backend.name, backend.store);
        store.set("a", vector(&[1.0, 2.0])).await.unwrap();
        store.set("b", vector(&[1.0])).await.unwrap();
        store.set("ragged", vec![0; 5].into()).await.unwrap();
        store.push("list", text("[1]")).await.unwrap();
        for (number, failed) in [
            store.mean("a", &keys(&["a", "b"])).await,
            store.mean("a", &[]).await,
            store.mean("a", &keys(&["ragged"])).await,
            store.mean("a", &keys(&["list"])).await,
            store.accumulate("a", vector(&[1.0])).await,
            store.accumulate("new", vec![0; 5].into()).await,
            store.sgd("a", "b", STEP).await,
            store.push("a", text("[1]")).await,
        ]
        .into_iter()
        .enumerate()
        {
            assert!(failed.is_err(), "{name}: {number}");
        }
        let wrong = store.get("list").await.unwrap_err().to_string();
        assert!(wrong.contains("WRONGTYPE"), "{name}: {wrong}");
        for (sources, absent) in [(["a", "no \"ü\""], "no \"ü\""), (["none", "b"], "none")] {
            let missing = store.mean("a", &keys(&sources)).await.unwrap_err();
            assert!(is_missing(&missing, absent), "{name}: {missing}");
        }
        let missing = store.sgd("none", "a", STEP).await.unwrap_err();
        assert!(is_missing(&missing, "none"), "{name}");
        assert_eq!(stored(&store, "a").await, [1.0, 2.0], "{name}");
        assert_eq!(store.get("new").await.unwrap(), None, "{name}");
        assert_eq!(store.get("a:velocity").await.unwrap(), None, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn additions_at_once_all_count() {
    for backend in backends().await {
        let (name, store) = (backend.name, backend.store);
        // Long enough that memory computes on threads of its own.
        let one = vector(&[1.0; 70_000]);
        let adding = (0..16).map(|_| {
            let (store, one) = (store.clone(), one.clone());
            tokio::spawn(async move { store.accumulate("sum", one).await })
        });
        for added in adding.collect::<Vec<_>>() {
            added.await.unwrap().unwrap();
        }
        assert!(stored(&store, "sum").await == [16.0; 70_000], "{name}");
    }
}

#[tokio::test]
async fn what_another_scope_left_on_the_same_server_is_not_met() {
    let objects = objects();
    let server = TensorServer::start(Arc::default()).await.unwrap();
    let mut all = vec![endpoint(&server.endpoint())];
    if let Some(redis) = servers::redis() {
        let found = endpoint(&redis.url());
        all.push(found.clone().with_scheme(Scheme::RedisPlain));
        all.push(found.with_scheme(Scheme::RedisLua));
    }
    if let Some(redis) = servers::redis_with_module() {
        all.push(endpoint(&redis.url()));
    }
    for endpoint in all {
        let open = async || open_tensors(&endpoint, &fresh_scope(), &objects).await;
        let (earlier, later) = (open().await.unwrap(), open().await.unwrap());
        earlier.set("w", vector(&[1.0])).await.unwrap();
        earlier.push("list", text("[1]")).await.unwrap();
        assert_eq!(later.get("w").await.unwrap(), None, "{endpoint}");
        let missing = later.mean("m", &keys(&["w"])).await.unwrap_err();
        assert!(is_missing(&missing, "w"), "{endpoint}");
        assert!(later.json_mean("list", 1).await.is_err(), "{endpoint}");
    }
}

#[tokio::test]
async fn an_endpoint_of_another_kind_is_refused() {
    let objects = objects();
    let scope = fresh_scope();
    let wrong = open_tensors(&endpoint("amqp://h"), &scope, &objects).await;
    assert!(wrong.err().unwrap().to_string().contains("redis+plain"));
    assert!(open_objects(&endpoint("redis://h"), &scope).is_err());
}
