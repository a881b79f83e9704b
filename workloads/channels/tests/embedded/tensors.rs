use std::sync::Arc;

use epochcost_channels::client::RedisTensors;
use epochcost_channels::embedded::TensorServer;
use epochcost_channels::memory::MemoryTensors;
use epochcost_channels::{ChannelError, OperationKind, Payload, Result, SgdStep, TensorStore};
use epochcost_kernels::codec::encode_f32;

use super::{names, payload};

async fn client_of(endpoint: &str) -> Result<TensorStore> {
    let client = RedisTensors::connect(endpoint.parse()?).await?;
    Ok(TensorStore::new(Arc::new(client)))
}

async fn start() -> (TensorServer, TensorStore, TensorStore) {
    epochcost_testing::watch();
    let store = Arc::new(MemoryTensors::default());
    let server = TensorServer::start(Arc::clone(&store)).await.unwrap();
    let client = client_of(&server.endpoint()).await.unwrap();
    (server, TensorStore::new(store), client)
}

fn constant(value: f32, count: usize) -> Payload {
    encode_f32(&vec![value; count]).into()
}

const fn step(learning_rate: f32, momentum: f32) -> SgdStep {
    SgdStep {
        learning_rate,
        momentum,
        weight_decay: 0.0,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_tensors_are_averaged_and_stepped_where_they_lie() {
    let (_server, _store, client) = start().await;
    // ResNet-18's 11.2 million parameters: 44.7 MB.
    let count = 11_173_962;
    for (key, value) in [("w", 1.0), ("g0", 1.0), ("g1", 3.0)] {
        client.set(key, constant(value, count)).await.unwrap();
    }
    let (step, sources) = (OperationKind::Step(step(0.25, 0.5)), names(&["g0", "g1"]));
    client.compute("w", step, &sources).await.unwrap();
    let weights = client.get("w").await.unwrap().unwrap();
    assert!(
        weights == constant(0.5, count),
        "w = 1 - 0.25 · (1 + 3) / 2"
    );
    let last = client
        .get_range("w:velocity", count as u64 - 2..count as u64)
        .await
        .unwrap();
    assert_eq!(last, Some(constant(2.0, 2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn additions_of_many_clients_all_count() {
    let (server, store, _client) = start().await;
    let endpoint = server.endpoint();
    let mut workers = Vec::new();
    for _ in 0..8 {
        let client = client_of(&endpoint).await.unwrap();
        workers.push(tokio::spawn(async move {
            for _ in 0..10 {
                let one = constant(1.0, 70_000);
                client.accumulate("sum", one).await.unwrap();
            }
        }));
    }
    for worker in workers {
        worker.await.unwrap();
    }
    assert!(store.get("sum").await.unwrap() == Some(constant(80.0, 70_000)));
}

#[tokio::test]
async fn settings_arrive_with_all_their_bits() {
    let (_server, store, client) = start().await;
    let odd = f32::from_bits(0x3dcc_ccce);
    for learning_rate in [odd, f32::MIN_POSITIVE, 1e-45, f32::MAX, -0.1] {
        client.set("w", constant(0.0, 1)).await.unwrap();
        client.set("g", constant(-1.0, 1)).await.unwrap();
        client
            .sgd("w", "g", step(learning_rate, 0.0))
            .await
            .unwrap();
        let stepped = store.get("w").await.unwrap();
        assert_eq!(stepped, Some(constant(learning_rate, 1)));
    }
    let refused = client.sgd("w", "g", step(f32::NAN, 0.0)).await;
    assert!(refused.is_err());
}

#[tokio::test]
async fn errors_repeat_what_the_store_answered() {
    let (_server, _store, client) = start().await;
    let missing = client.mean("m", &["odd \"key\"\r\n/é".into()]).await;
    assert!(
        matches!(&missing, Err(ChannelError::Missing { key, .. }) if key == "odd \"key\"\r\n/é"),
        "{missing:?}"
    );
    client.push("list", payload("[1]")).await.unwrap();
    let wrong = client.get("list").await.unwrap_err().to_string();
    assert!(wrong.contains("WRONGTYPE"), "{wrong}");
    client.set("ragged", payload("12345")).await.unwrap();
    let ragged = client.mean("m", &names(&["ragged"])).await;
    let ragged = ragged.unwrap_err().to_string();
    assert!(ragged.contains("not a multiple of 4"), "{ragged}");
}

#[tokio::test]
async fn a_stopped_server_is_unreachable() {
    let (server, _store, client) = start().await;
    client.ping().await.unwrap();
    let endpoint = server.endpoint();
    drop(server);
    let error = loop {
        match client.ping().await {
            Err(error) => break error,
            Ok(()) => tokio::task::yield_now().await,
        }
    };
    assert!(
        matches!(error, ChannelError::Unreachable { .. }),
        "{error:?}"
    );
    let again = client_of(&endpoint).await;
    assert!(matches!(
        again.err(),
        Some(ChannelError::Unreachable { .. })
    ));
    let nonsense = client_of("nonsense").await;
    assert!(matches!(
        nonsense.err(),
        Some(ChannelError::Endpoint { .. })
    ));
}
