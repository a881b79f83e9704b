use std::sync::Arc;

use epochcost_channels::client::S3Objects;
use epochcost_channels::embedded::ObjectServer;
use epochcost_channels::memory::MemoryObjects;
use epochcost_channels::{ChannelError, ObjectStore, Payload};

use super::{names, payload};

fn client_of(endpoint: &str) -> ObjectStore {
    ObjectStore::new(Arc::new(S3Objects::new(endpoint.parse().unwrap())))
}

async fn start() -> (ObjectServer, ObjectStore, ObjectStore) {
    epochcost_testing::watch();
    let store = Arc::new(MemoryObjects::default());
    let server = ObjectServer::start(Arc::clone(&store)).await.unwrap();
    let client = client_of(&server.endpoint());
    (server, ObjectStore::new(store), client)
}

#[tokio::test]
async fn odd_keys_arrive_as_they_are() {
    let (_server, store, client) = start().await;
    let keys = [
        "a b",
        " leads",
        "trails ",
        "a&b<c>\"'",
        "é/ü/漢",
        "a+b%20c",
        "x?y=z#w",
        "job:layer/1",
        "a\\b|c^d`e{f}~",
        "&amp;",
        "..c/d..",
    ];
    for key in keys {
        client.put("b", key, payload(key)).await.unwrap();
        for (store, how) in [(&store, "stored"), (&client, "read")] {
            let found = store.get("b", key).await.unwrap();
            assert_eq!(found, Some(payload(key)), "{key:?} {how}");
        }
    }
    let listed = client.list("b", "", None).await.unwrap();
    assert_eq!(listed, store.list("b", "", None).await.unwrap());
    for key in keys {
        let before: String = key.chars().take(key.chars().count() - 1).collect();
        let found = client.list("b", key, Some(&before)).await.unwrap();
        assert_eq!(*found.keys, [key], "listed by prefix and after {before:?}");
    }
    client.delete("b", &names(&keys)).await.unwrap();
    let left = store.list("b", "", None).await.unwrap();
    assert!(left.keys.is_empty());
}

#[tokio::test]
async fn keys_that_would_be_changed_are_refused() {
    let (_server, _store, client) = start().await;
    for key in ["", "/a", "a/", "a//b", "a/../b", ".", "tab\there"] {
        let put = client.put("b", key, payload("x")).await;
        assert!(
            matches!(put, Err(ChannelError::Refused { .. })),
            "{key:?}: {put:?}"
        );
    }
}

#[tokio::test]
async fn large_objects_go_through_whole_and_in_ranges() {
    let (_server, store, client) = start().await;
    let body: Vec<u8> = (0..45_000_000_u32).map(|i| (i % 251) as u8).collect();
    client.put("b", "large", body.clone().into()).await.unwrap();
    for store in [&store, &client] {
        let read = store.get("b", "large").await.unwrap().unwrap();
        assert!(read == body.clone().into(), "the content changed");
    }
    let end = client.get_range("b", "large", 44_999_990..45_000_100).await;
    assert_eq!(end.unwrap(), Some(payload(&body[44_999_990..])));
}

#[tokio::test]
async fn a_phantom_does_not_cross_the_wire() {
    let (_server, store, client) = start().await;
    let phantom = Payload::Phantom { bytes: 8 };
    let put = client.put("b", "k", phantom.clone()).await;
    assert!(matches!(put, Err(ChannelError::Phantom { bytes: 8 })));
    store.put("b", "k", phantom).await.unwrap();
    assert!(matches!(
        client.get("b", "k").await,
        Err(ChannelError::Refused { .. })
    ));
}

#[tokio::test]
async fn a_stopped_server_is_unreachable() {
    let (server, _store, client) = start().await;
    client.put("b", "k", payload("x")).await.unwrap();
    let endpoint = server.endpoint();
    drop(server);
    // The stop is asynchronous: the listener closes at the server's next turn.
    let error = loop {
        match client_of(&endpoint).get("b", "k").await {
            Err(error) => break error,
            Ok(_) => tokio::task::yield_now().await,
        }
    };
    assert!(
        matches!(&error, ChannelError::Unreachable { endpoint: at, .. } if *at == endpoint),
        "{error:?}"
    );
}
