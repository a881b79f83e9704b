use std::sync::Arc;

use epochcost_channels::client::RedisTensors;
use epochcost_channels::embedded::TensorServer;
use epochcost_channels::{ChannelError, OperationKind, Payload, Result, SgdStep, TensorStore};
use epochcost_kernels::codec::encode_f32;

use super::names;

async fn client_of(endpoint: &str) -> Result<TensorStore> {
    let client = RedisTensors::connect(endpoint.parse()?).await?;
    Ok(TensorStore::new(Arc::new(client)))
}

async fn start() -> (TensorServer, TensorStore) {
    epochcost_testing::watch();
    let server = TensorServer::start(Arc::default()).await.unwrap();
    let client = client_of(&server.endpoint()).await.unwrap();
    (server, client)
}

fn constant(value: f32, count: usize) -> Payload {
    encode_f32(&vec![value; count]).into()
}

#[tokio::test(flavor = "multi_thread")]
async fn large_tensors_are_averaged_and_stepped_where_they_lie() {
    let (_server, client) = start().await;
    // ResNet-18's 11.2 million parameters: 44.7 MB.
    let count = 11_173_962;
    for (key, value) in [("w", 1.0), ("g0", 1.0), ("g1", 3.0)] {
        client.set(key, constant(value, count)).await.unwrap();
    }
    let step = OperationKind::Step(SgdStep {
        learning_rate: 0.25,
        momentum: 0.5,
        weight_decay: 0.0,
    });
    let sources = names(&["g0", "g1"]);
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

#[tokio::test]
async fn a_stopped_server_is_unreachable() {
    let (server, client) = start().await;
    client.ping().await.unwrap();
    let endpoint = server.endpoint();
    drop(server);
    let error = loop {
        match client.ping().await {
            Err(error) => break error,
            Ok(()) => tokio::task::yield_now().await,
        }
    };
    let is_unreachable = |error: &_| matches!(error, ChannelError::Unreachable { .. });
    assert!(is_unreachable(&error), "{error:?}");
    let again = client_of(&endpoint).await;
    assert!(again.err().as_ref().is_some_and(is_unreachable));
    let nonsense = client_of("nonsense").await.err();
    assert!(matches!(nonsense, Some(ChannelError::Endpoint { .. })));
}
