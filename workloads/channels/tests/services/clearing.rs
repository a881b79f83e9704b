//! Clearing deletes everything of a scope and nothing else.

use epochcost_channels::client::{clear, create_bucket, open_objects, open_tensors};
use epochcost_channels::{Scheme, Scope};

use super::{endpoint, fresh_scope, objects, servers, text};

/// More than one page of a listing and one answer of a scan hold.
const KEYS: usize = 2_100;

#[tokio::test]
async fn keys_of_one_scope_leave_a_redis() {
    let Some(redis) = servers::redis() else {
        return;
    };
    let at = endpoint(&redis.url()).with_scheme(Scheme::RedisPlain);
    let objects = objects();
    let (one, other) = (fresh_scope(), fresh_scope());
    let open = async |scope: &Scope| open_tensors(&at, scope, &objects).await.unwrap();
    let (ours, theirs) = (open(&one).await, open(&other).await);
    for key in 0..KEYS {
        ours.set(&key.to_string(), text("ours")).await.unwrap();
    }
    theirs.set("0", text("theirs")).await.unwrap();
    clear(&at, &one).await.unwrap();
    for key in 0..KEYS {
        assert_eq!(ours.get(&key.to_string()).await.unwrap(), None, "{key}");
    }
    assert_eq!(theirs.get("0").await.unwrap(), Some(text("theirs")));
    clear(&at, &one).await.unwrap();
}

#[tokio::test]
async fn objects_of_one_scope_leave_a_bucket() {
    let Some(server) = servers::s3() else {
        return;
    };
    let at = endpoint(&format!("{}/clearing", server.url()));
    create_bucket(&at).await.unwrap();
    let (one, other) = (fresh_scope(), fresh_scope());
    let ours = open_objects(&at, &one).unwrap();
    let theirs = open_objects(&at, &other).unwrap();
    for key in 0..KEYS / 2 {
        let (bucket, key) = (["a", "b"][key % 2], key.to_string());
        ours.put(bucket, &key, text("ours")).await.unwrap();
    }
    theirs.put("a", "0", text("theirs")).await.unwrap();
    clear(&at, &one).await.unwrap();
    for bucket in ["a", "b"] {
        assert!(ours.list(bucket, "", None).await.unwrap().keys.is_empty());
    }
    let kept = theirs.get("a", "0").await.unwrap();
    assert_eq!(kept, Some(text("theirs")));
}

#[tokio::test]
async fn nothing_is_cleared_without_a_scope() {
    let nowhere = endpoint("redis://127.0.0.1:1");
    let refused = clear(&nowhere, &Scope::default()).await.unwrap_err();
    assert!(refused.to_string().contains("scope"), "{refused}");
    let queue = endpoint("amqp://127.0.0.1:1");
    assert!(clear(&queue, &fresh_scope()).await.is_err());
}
