//! The papers' other arm, done well: a client that fetches values from plain
//! Redis, computes, and stores the result.

use bytes::Bytes;
use epochcost_kernels::codec::{decode_f32, encode_f32};
use epochcost_kernels::optimizer::Sgd;
use epochcost_kernels::reduce::mean_bytes;
use fred::clients::Client;
use fred::interfaces::{ClientLike, KeysInterface};
use fred::types::config::Config;

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
    let config = Config::from_url(&server.url()).unwrap();
    let client = Client::new(config, None, None, None);
    runtime.block_on(client.init()).unwrap();
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

async fn set(client: &Client, key: &str, value: Vec<u8>) {
    let value = Bytes::from(value);
    client
        .set::<(), _, _>(key, value, None, None, false)
        .await
        .unwrap();
}

async fn mean(client: &Client, keys: &[String]) {
    let mut values: Vec<Bytes> = Vec::new();
    for key in keys {
        values.push(client.get(key.as_str()).await.unwrap());
    }
    let values: Vec<&[u8]> = values.iter().map(Bytes::as_ref).collect();
    set(client, "m", encode_f32(&mean_bytes(&values).unwrap())).await;
}

async fn step(client: &Client) {
    let parameters: Bytes = client.get("w").await.unwrap();
    let gradient: Bytes = client.get("g1").await.unwrap();
    let sgd = Sgd {
        learning_rate: RATE.parse().unwrap(),
        momentum: 0.0,
        weight_decay: 0.0,
    };
    let mut parameters = decode_f32(&parameters).unwrap();
    let gradient = decode_f32(&gradient).unwrap();
    sgd.step(&mut parameters, &gradient, &mut Vec::new())
        .unwrap();
    set(client, "w", encode_f32(&parameters)).await;
}
