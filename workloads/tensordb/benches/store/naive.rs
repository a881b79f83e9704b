//! The papers' other arm, done well: a client that fetches values from plain
//! Redis, computes, and stores the result.

use std::sync::Arc;

use epochcost_channels::client::PlainTensors;
use epochcost_channels::{Payload, TensorStore};
use epochcost_kernels::codec::{decode_f32, encode_f32};
use epochcost_kernels::optimizer::Sgd;
use epochcost_kernels::reduce::mean_bytes;

use super::ping::Ping;
use super::record::Arm;
use super::server::Server;
use super::{RATE, time};

pub fn arms(
    allocator: &'static str,
    server: &Server,
    sent: &[Vec<u8>],
    repetitions: usize,
) -> Vec<Arm> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let client = runtime
        .block_on(PlainTensors::connect(server.url().parse().unwrap()))
        .unwrap();
    let client = TensorStore::new(Arc::new(client));
    let keys: Vec<String> = (0..sent.len()).map(|i| format!("g{i}")).collect();
    runtime.block_on(async {
        for (key, value) in keys.iter().zip(sent) {
            set(&client, key, value.clone()).await;
        }
        set(&client, "w", sent[0].clone()).await;
    });
    let run = |operation, work: &dyn Fn()| {
        work();
        let ping = Ping::start(server);
        let milliseconds = time(repetitions, work);
        Arm::new("fetch, compute, store", operation, milliseconds).with(allocator, ping.stop())
    };
    vec![
        run("mean", &|| runtime.block_on(mean(&client, &keys))),
        run("step", &|| runtime.block_on(step(&client))),
    ]
}

async fn set(client: &TensorStore, key: &str, value: Vec<u8>) {
    client.set(key, value.into()).await.unwrap();
}

async fn get(client: &TensorStore, key: &str) -> Payload {
    client.expect(key).await.unwrap()
}

async fn mean(client: &TensorStore, keys: &[String]) {
    let mut values = Vec::new();
    for key in keys {
        values.push(get(client, key).await);
    }
    let values: Vec<&[u8]> = values
        .iter()
        .map(|value| value.bytes().unwrap().as_ref())
        .collect();
    set(client, "m", encode_f32(&mean_bytes(&values).unwrap())).await;
}

async fn step(client: &TensorStore) {
    let (parameters, gradient) = (get(client, "w").await, get(client, "g1").await);
    let sgd = Sgd {
        learning_rate: RATE.parse().unwrap(),
        momentum: 0.0,
        weight_decay: 0.0,
    };
    let mut parameters = decode_f32(parameters.bytes().unwrap()).unwrap();
    let gradient = decode_f32(gradient.bytes().unwrap()).unwrap();
    sgd.step(&mut parameters, &gradient, &mut Vec::new())
        .unwrap();
    set(client, "w", encode_f32(&parameters)).await;
}
