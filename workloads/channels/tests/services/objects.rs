//! Properties of every object store.

use std::sync::Arc;

use epochcost_channels::client::{create_bucket, open_objects};
use epochcost_channels::embedded::ObjectServer;
use epochcost_channels::{ChannelError, ObjectStore};
use futures_util::future::join_all;

use super::{endpoint, fresh_scope, keys, objects, servers, text};

/// Every object store that there is here.
async fn backends() -> Vec<(&'static str, ObjectStore, Option<ObjectServer>)> {
    let server = ObjectServer::start(Arc::default()).await.unwrap();
    let buckets = open_objects(&endpoint(&server.endpoint()), &fresh_scope()).unwrap();
    let one = endpoint(&format!("{}/one", server.endpoint()));
    let one = open_objects(&one, &fresh_scope()).unwrap();
    let mut all: Vec<(_, ObjectStore, _)> = vec![
        ("memory", objects(), None),
        ("embedded", buckets, None),
        ("embedded, one bucket", one, Some(server)),
    ];
    if let Some(server) = servers::s3() {
        let one = endpoint(&format!("{}/bucket", server.url()));
        create_bucket(&one).await.unwrap();
        create_bucket(&one).await.unwrap();
        all.push(("S3", open_objects(&one, &fresh_scope()).unwrap(), None));
    }
    all
}

#[tokio::test]
async fn objects_are_kept_listed_read_in_part_and_deleted() {
    for (name, store, _server) in backends().await {
        let read = async |bucket: &str, key: &str| store.get(bucket, key).await.unwrap();
        assert_eq!(read("tmp", "a").await, None, "{name}");
        let part = store.get_range("tmp", "a", 0..1).await.unwrap();
        assert_eq!(part, None, "{name}");
        for key in ["1_0", "1_1", "2_0", "log/ü 1"] {
            store.put("tmp", key, text(key)).await.unwrap();
        }
        store.put("merged", "1_0", text("other")).await.unwrap();
        store.put("tmp", "1_0", text("replaced")).await.unwrap();
        store.put("tmp", "empty", text("")).await.unwrap();
        for (key, content) in [("1_0", "replaced"), ("log/ü 1", "log/ü 1"), ("empty", "")] {
            assert_eq!(read("tmp", key).await, Some(text(content)), "{name}");
        }
        let part = store.get_range("tmp", "1_0", 2..5).await.unwrap();
        assert_eq!(part, Some(text("pla")), "{name}");
        let page = store.list("tmp", "1_", None).await.unwrap();
        assert_eq!(*page.keys, keys(&["1_0", "1_1"]), "{name}");
        assert!(!page.truncated, "{name}");
        let page = store.list("tmp", "", Some("1_0")).await.unwrap();
        let after = keys(&["1_1", "2_0", "empty", "log/ü 1"]);
        assert_eq!(*page.keys, after, "{name}");
        let deleted = keys(&["1_0", "none", "2_0"]);
        store.delete("tmp", &deleted).await.unwrap();
        let page = store.list("tmp", "", None).await.unwrap();
        assert_eq!(*page.keys, keys(&["1_1", "empty", "log/ü 1"]), "{name}");
        let other = read("merged", "1_0").await;
        assert_eq!(other, Some(text("other")), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_page_and_a_delete_hold_a_thousand_keys() {
    for (name, store, _server) in backends().await {
        let all: Vec<String> = (0..1_001).map(|key| format!("g/{key:04}")).collect();
        store.put("b", "h", text("x")).await.unwrap();
        for some in all.chunks(16) {
            let at_once = some.iter().map(async |key| {
                store.put("b", key, text(key)).await.unwrap();
                let found = store.get("b", key).await.unwrap();
                assert_eq!(found, Some(text(key)), "{name}");
            });
            join_all(at_once).await;
        }
        let page = store.list("b", "g/", None).await.unwrap();
        assert!(page.truncated, "{name}");
        assert_eq!(*page.keys, all[..1_000], "{name}");
        let rest = store.list("b", "g/", Some("g/0999")).await.unwrap();
        assert_eq!(*rest.keys, keys(&["g/1000"]), "{name}");
        assert!(!rest.truncated, "{name}");
        assert!(store.delete("b", &all).await.is_err(), "{name}");
        store.delete("b", &all[..1_000]).await.unwrap();
        let left = store.list("b", "", None).await.unwrap();
        assert_eq!(*left.keys, keys(&["g/1000", "h"]), "{name}");
    }
}

#[tokio::test]
async fn a_wrong_signature_is_refused() {
    let Some(server) = servers::s3() else { return };
    let (key, wrong) = (server.access_key(), "canary-secret");
    let url = format!("http://{key}:{wrong}@{}/bucket", server.address());
    let store = open_objects(&endpoint(&url), &fresh_scope()).unwrap();
    for refused in [
        store.put("b", "k", text("x")).await,
        store.get("b", "k").await.map(drop),
        create_bucket(&endpoint(&url)).await,
    ] {
        let error = refused.unwrap_err();
        assert!(matches!(error, ChannelError::Refused { .. }), "{error}");
        assert!(!format!("{error:?} {error}").contains("canary"), "{error}");
    }
}
