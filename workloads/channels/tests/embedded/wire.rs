//! Requests of stock clients, and of broken ones.

use std::net::SocketAddr;
use std::sync::Arc;

use epochcost_channels::client::{open_objects, open_queue, open_tensors};
use epochcost_channels::embedded::{ObjectServer, QueueServer, TensorServer};
use epochcost_channels::memory::{MemoryObjects, MemoryQueue, MemoryTensors};
use epochcost_channels::{Endpoint, Queue, Scope, TensorStore};
use proptest::collection::vec;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::payload;

fn address(endpoint: &str) -> SocketAddr {
    endpoint.split_once("//").unwrap().1.parse().unwrap()
}

/// Sends `bytes`, closes the sending side and reads all that comes back.
async fn exchange(endpoint: &str, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address(endpoint)).await.unwrap();
    // The server may close before all is sent: that is an answer too.
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    answer
}

fn request(words: &[&str]) -> String {
    let words: String = words
        .iter()
        .map(|w| format!("${}\r\n{w}\r\n", w.len()))
        .collect();
    format!("*{}\r\n{words}", words.matches('$').count())
}

#[tokio::test]
async fn replies_are_those_of_the_format() {
    let server = TensorServer::start(Arc::default()).await.unwrap();
    for (words, reply) in [
        (&["PING"][..], "+PONG\r\n"),
        (&["ping", "hi"], "$2\r\nhi\r\n"),
        (&["ECHO", "hi"], "$2\r\nhi\r\n"),
        (&["HELLO", "4"], "-NOPROTO unsupported protocol version\r\n"),
        (&["CLIENT", "SETINFO", "LIB-NAME", "x"], "+OK\r\n"),
        (&["SELECT", "0"], "+OK\r\n"),
        (&["SELECT", "1"], "-ERR DB index is out of range\r\n"),
        (&["COMMAND", "DOCS"], "*0\r\n"),
        (&["SET", "k", "abcd"], "+OK\r\n"),
        (&["SET", "k", "abcd", "EX", "1"], "-ERR syntax error\r\n"),
        (&["GET", "k"], "$4\r\nabcd\r\n"),
        (&["TENSOR.GET", "k"], "$4\r\nabcd\r\n"),
        (&["GET", "none"], "$-1\r\n"),
        (&["STRLEN", "k"], ":4\r\n"),
        (&["EXISTS", "k", "k", "none"], ":2\r\n"),
        (&["RPUSH", "l", "a", "b"], ":2\r\n"),
        (&["LRANGE", "l", "0", "-1"], "*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
        (&["LLEN", "l"], ":2\r\n"),
        (
            &["GET", "l"],
            "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
        ),
        (&["DBSIZE"], ":2\r\n"),
        (&["TENSOR.GETRANGE", "k", "0", "1"], "$4\r\nabcd\r\n"),
        (
            &["TENSOR.GETRANGE", "k", "1", "1"],
            "-ERR the tensor has 1 elements\r\n",
        ),
        (
            &["TENSOR.MEAN", "m", "0"],
            "-ERR at least one source is needed\r\n",
        ),
        (
            &["TENSOR.MEAN", "m", "1", "none"],
            "-ERR no such key \"none\"\r\n",
        ),
        (&["TENSOR.MEAN", "m", "2", "k", "k"], "+OK\r\n"),
        (
            &["TENSOR.ROBUST", "m", "mode", "1", "k"],
            "-ERR the rule must be MEDIAN, TRIMMED, KRUM, MULTIKRUM, GEOMETRIC or CLIPPED\r\n",
        ),
        (&["TENSOR.ROBUST", "m", "median", "1", "k"], "+OK\r\n"),
        (&["TENSOR.SGD", "k", "m", "1e-3", "0", "0"], "+OK\r\n"),
        (&["DEL", "k", "m", "none"], ":2\r\n"),
        (&["FLUSHALL"], "+OK\r\n"),
        (&["QUIT"], "+OK\r\n"),
        (&["NONSENSE\r\n"], "-ERR unknown command 'nonsense  '\r\n"),
    ] {
        let answer = exchange(&server.endpoint(), request(words).as_bytes()).await;
        assert_eq!(String::from_utf8_lossy(&answer), reply, "{words:?}");
    }
}

#[tokio::test]
async fn a_client_may_ask_for_resp3() {
    let server = TensorServer::start(Arc::default()).await.unwrap();
    let sent = [
        request(&["HELLO", "3"]),
        request(&["GET", "none"]),
        request(&["HELLO", "2"]),
    ];
    let answer = exchange(&server.endpoint(), sent.concat().as_bytes()).await;
    let answer = String::from_utf8(answer).unwrap();
    let begins = "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n";
    assert!(answer.starts_with(begins), "{answer}");
    assert!(answer.contains("$5\r\nproto\r\n:3\r\n"), "{answer}");
    assert!(answer.contains("*0\r\n_\r\n*14\r\n"), "{answer}");
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server = TensorServer::start(Arc::default()).await.unwrap();
    let large = "x".repeat(100_000);
    let sent = [
        request(&["SET", "a", &large]),
        request(&["GET", "a"]),
        request(&["PING"]),
        request(&["GET", "b"]),
    ];
    let answer = exchange(&server.endpoint(), sent.concat().as_bytes()).await;
    let expected = format!("+OK\r\n$100000\r\n{large}\r\n+PONG\r\n$-1\r\n");
    assert!(answer == expected.as_bytes());
}

#[tokio::test]
async fn a_consumer_that_disconnects_while_it_waits_leaves_the_message() {
    let store = Arc::new(MemoryQueue::default());
    let server = QueueServer::start(Arc::clone(&store)).await.unwrap();
    let store = Queue::new(store);
    let consume = request(&["QUEUE.CONSUME", "q", "60000"]);
    // Returns when the server has closed its side: it gave up waiting.
    assert_eq!(exchange(&server.endpoint(), consume.as_bytes()).await, b"");
    store.publish("q", payload("1")).await.unwrap();
    assert_eq!(store.count("q").await.unwrap(), 1);
    let now = request(&["QUEUE.CONSUME", "q", "0"]);
    let mut stream = TcpStream::connect(address(&server.endpoint()))
        .await
        .unwrap();
    stream.write_all(now.as_bytes()).await.unwrap();
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"$1\r\n1\r\n");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_bytes_bring_a_server_down(
        pieces in vec(prop_oneof![
            vec(any::<u8>(), 0..30),
            Just(b"*3\r\n".to_vec()), Just(b"$3\r\n".to_vec()), Just(b"\r\n".to_vec()),
            vec("(TENSOR\\.[A-Z]{2,8}|TENSOR.MEAN|QUEUE.CONSUME|LRANGE|k|[0-9]{1,20}|-1|nan)", 1..6)
                .prop_map(|words| {
                    request(&words.iter().map(String::as_str).collect::<Vec<_>>()).into_bytes()
                }),
            Just(b"PUT /b/k HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551615\r\n\r\n".to_vec()),
            Just(b"POST /b?delete HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n<a>".to_vec()),
            Just(b"GET /b/%ff?max-keys=x HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()),
        ], 0..12),
    ) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let bytes = pieces.concat();
            let tensors = TensorServer::start(Arc::default()).await.unwrap();
            let queue = QueueServer::start(Arc::default()).await.unwrap();
            let objects = ObjectServer::start(Arc::default()).await.unwrap();
            for endpoint in [tensors.endpoint(), queue.endpoint()] {
                exchange(&endpoint, &bytes).await;
                let ping = exchange(&endpoint, request(&["PING"]).as_bytes()).await;
                assert_eq!(ping, b"+PONG\r\n");
            }
            exchange(&objects.endpoint(), &bytes).await;
            let head = b"HEAD /b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
            // HTTP servers take a closed sending side for a client that is gone.
            let mut stream = TcpStream::connect(address(&objects.endpoint())).await.unwrap();
            stream.write_all(head).await.unwrap();
            let mut alive = Vec::new();
            stream.read_to_end(&mut alive).await.unwrap();
            assert!(alive.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&alive));
        });
    }
}

/// Without the password, a request is refused and changes nothing; the clients give it.
#[tokio::test]
async fn private_servers_serve_only_those_who_know_the_password() {
    let store = Arc::new(MemoryTensors::default());
    let server = TensorServer::start_private(Arc::clone(&store))
        .await
        .unwrap();
    let store = TensorStore::new(store);
    let endpoint: Endpoint = server.endpoint().parse().unwrap();
    let printed = format!("{endpoint} {endpoint:?}");
    let plain = server.endpoint();
    let (password, host) = plain
        .strip_prefix("redis://:")
        .and_then(|rest| rest.split_once('@'))
        .unwrap();
    assert!(
        password.len() >= 32 && !printed.contains(password),
        "{printed}"
    );
    let address = format!("redis://{host}");
    let no = "-NOAUTH Authentication required.\r\n";
    for words in [
        &["PING"][..],
        &["FLUSHALL"],
        &["TENSOR.SET", "k", "abcd"],
        &["HELLO", "3"],
    ] {
        let answer = exchange(&address, request(words).as_bytes()).await;
        assert_eq!(String::from_utf8(answer).unwrap(), no, "{words:?}");
    }
    let wrong = request(&["AUTH", "secret"]);
    let answer = exchange(&address, wrong.as_bytes()).await;
    assert!(answer.starts_with(b"-WRONGPASS"));
    // A stranger cannot make the server keep much either.
    let pump = "*2\r\n$4\r\nECHO\r\n$4294967296\r\nabc";
    let answer = exchange(&address, pump.as_bytes()).await;
    assert!(answer.starts_with(b"-ERR Protocol error"));
    assert_eq!(store.get("k").await.unwrap(), None);
    for known in [&["AUTH", password][..], &["AUTH", "default", password]] {
        let both = request(known) + &request(&["PING"]);
        let answer = exchange(&address, both.as_bytes()).await;
        assert_eq!(answer, b"+OK\r\n+PONG\r\n");
    }
    let hello = request(&["HELLO", "3", "AUTH", "default", password]) + &request(&["PING"]);
    let answer = exchange(&address, hello.as_bytes()).await;
    assert!(answer.starts_with(b"%7\r\n") && answer.ends_with(b"+PONG\r\n"));
}

#[tokio::test]
async fn clients_reach_private_servers_and_nobody_else_does() {
    let objects = Arc::new(MemoryObjects::default());
    let object_server = ObjectServer::start_private(Arc::clone(&objects))
        .await
        .unwrap();
    let tensors = TensorServer::start_private(Arc::default()).await.unwrap();
    let queue = QueueServer::start_private(Arc::default()).await.unwrap();
    let endpoint = |text: String| text.parse::<Endpoint>().unwrap();
    let scope = Scope::default();
    let store = open_objects(&endpoint(object_server.endpoint()), &scope).unwrap();
    store.put("b", "k", payload(b"abcd")).await.unwrap();
    assert_eq!(store.get("b", "k").await.unwrap(), Some(payload(b"abcd")));
    let tensors = open_tensors(&endpoint(tensors.endpoint()), &scope, &store)
        .await
        .unwrap();
    tensors.set("k", payload(b"abcd")).await.unwrap();
    let queue = open_queue(&endpoint(queue.endpoint()), &scope, &store)
        .await
        .unwrap();
    queue.publish("q", payload(b"m")).await.unwrap();
    // Another key, and none.
    let private = object_server.endpoint();
    let address = format!("http://{}", private.split_once('@').unwrap().1);
    for credentials in [
        "",
        "authorization: AWS4-HMAC-SHA256 Credential=epochcost/x\r\n",
    ] {
        let delete =
            format!("DELETE /b/k HTTP/1.1\r\nhost: h\r\n{credentials}connection: close\r\n\r\n");
        let answer = exchange(&address, delete.as_bytes()).await;
        assert!(answer.starts_with(b"HTTP/1.1 403"), "{answer:?}");
    }
    assert!(objects.has("b", "k"));
}
