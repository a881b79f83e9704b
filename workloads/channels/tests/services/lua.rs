//! Bits of the results that the Lua scripts give.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use epochcost_channels::client::{LuaTensors, open_tensors};
use epochcost_channels::memory::MemoryTensors;
use epochcost_channels::{OperationKind, Scheme, SgdStep, TensorStore};
use epochcost_kernels::codec::encode_json;
use epochcost_kernels::hash::{mix, unit_f32};
use epochcost_servers::{Redis, RedisSettings};

use super::{endpoint, fresh_scope, keys, objects, servers, stored, tensors, vector};

/// Elements: more than a script packs by one call.
const LENGTH: usize = 257;

/// Numbers of many sizes, the same for a seed every time.
fn drawn(seed: u64) -> Vec<f32> {
    let number = |index| {
        let bits = mix(seed, index);
        (unit_f32(bits) - 0.5) * 10_f32.powi((bits % 13) as i32 - 6)
    };
    (0..LENGTH as u64).map(number).collect()
}

async fn lua() -> Option<TensorStore> {
    Some(tensors(&servers::redis()?.url(), Scheme::RedisLua).await)
}

/// Scripts compute in f64 and round once: exactly what this does.
#[tokio::test]
async fn scripts_round_once_from_f64() {
    let Some(store) = lua().await else { return };
    let wide = |seed| drawn(seed).into_iter().map(f64::from).collect::<Vec<_>>();
    let names = keys(&["g0", "g1", "g2"]);
    for (seed, name) in names.iter().enumerate() {
        store.set(name, vector(&drawn(seed as u64))).await.unwrap();
    }
    let (a, b, c) = (wide(0), wide(1), wide(2));
    let mean: Vec<f64> = (0..LENGTH).map(|i| (a[i] + b[i] + c[i]) / 3.0).collect();
    let rounded = |values: &[f64]| values.iter().map(|x| *x as f32).collect::<Vec<_>>();
    store.mean("m", &names).await.unwrap();
    assert_eq!(stored(&store, "m").await, rounded(&mean));

    store.accumulate("sum", vector(&drawn(0))).await.unwrap();
    store.accumulate("sum", vector(&drawn(1))).await.unwrap();
    let sum: Vec<f64> = (0..LENGTH).map(|i| a[i] + b[i]).collect();
    assert_eq!(stored(&store, "sum").await, rounded(&sum));

    let step = SgdStep {
        learning_rate: 0.01,
        momentum: 0.9,
        weight_decay: 1e-4,
    };
    let [rate, momentum, decay] =
        [step.learning_rate, step.momentum, step.weight_decay].map(f64::from);
    store.set("w", vector(&drawn(3))).await.unwrap();
    let (mut w, mut v) = (drawn(3), vec![0.0_f32; LENGTH]);
    for _ in 0..2 {
        let kind = OperationKind::Step(step);
        store.compute("w", kind, &names).await.unwrap();
        for i in 0..LENGTH {
            let gradient = mean[i] + decay * f64::from(w[i]);
            let velocity = momentum * f64::from(v[i]) + gradient;
            v[i] = velocity as f32;
            w[i] = (f64::from(w[i]) - rate * velocity) as f32;
        }
        assert_eq!(stored(&store, "w:velocity").await, v);
        assert_eq!(stored(&store, "w").await, w);
    }
}

/// The average of texts is the same bytes everywhere, whole gradients too.
#[tokio::test]
async fn averages_of_texts_are_those_of_the_other_stores() {
    let Some(store) = lua().await else { return };
    let kernels = TensorStore::new(Arc::new(MemoryTensors::default()));
    for seed in 0..5 {
        let text = encode_json(&drawn(seed)).unwrap();
        store.push("list", text.clone().into()).await.unwrap();
        kernels.push("list", text.into()).await.unwrap();
    }
    for count in [1, 3, 5] {
        let found = store.json_mean("list", count).await.unwrap();
        assert_eq!(found, kernels.json_mean("list", count).await.unwrap());
    }
}

/// Sends Redis a command, and returns its reply.
fn answer(redis: &Redis, command: &str) -> String {
    let mut stream = TcpStream::connect(redis.address()).unwrap();
    let ask = format!("AUTH {}\r\n{command}\r\nQUIT\r\n", redis.password());
    stream.write_all(ask.as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

/// Redis refuses all others while a long script runs: they ask again.
#[tokio::test(flavor = "multi_thread")]
async fn others_wait_while_a_script_runs() {
    let settings = RedisSettings {
        configuration: "busy-reply-threshold 20\n".into(),
        ..RedisSettings::default()
    };
    let Some(redis) = servers::present(Redis::start(&settings)) else {
        return;
    };
    let objects = objects();
    let endpoint = endpoint(&redis.url()).with_scheme(Scheme::RedisLua);
    let scope = fresh_scope();
    let store = open_tensors(&endpoint, &scope, &objects).await.unwrap();
    let other = open_tensors(&endpoint, &scope, &objects).await.unwrap();
    let text = encode_json(&vec![0.1; 100_000]).unwrap();
    for _ in 0..8 {
        store.push("list", text.clone().into()).await.unwrap();
    }
    let averaging = tokio::spawn(async move { store.json_mean("list", 8).await });
    while !averaging.is_finished() {
        other.ping().await.unwrap();
        other.set("k", vector(&[1.0])).await.unwrap();
    }
    averaging.await.unwrap().unwrap();
    let counted = answer(&redis, "INFO errorstats");
    assert!(
        counted.contains("errorstat_BUSY:"),
        "no command met the script"
    );
}

#[tokio::test]
async fn scripts_that_redis_forgot_are_loaded_again() {
    let Some(redis) = servers::redis() else {
        return;
    };
    let url = redis.url().replacen("redis:", "redis+lua:", 1);
    let lua = LuaTensors::connect(url.parse().unwrap()).await.unwrap();
    let store = TensorStore::new(Arc::new(lua));
    let scope = fresh_scope();
    let (sum, one) = (scope.name("sum"), vector(&[1.0]));
    store.accumulate(&sum, one.clone()).await.unwrap();
    // As a restart does.
    answer(redis, "SCRIPT FLUSH");
    store.accumulate(&sum, one).await.unwrap();
    assert_eq!(stored(&store, &sum).await, [2.0]);
}
