//! Many clients at once.

use std::thread;
use std::time::Duration;

use redis_protocol::resp2::types::BytesFrame;

use super::client::{Client, ok};
use super::fuzz::same_digest;
use super::server::Server;
use super::tensor;

const ELEMENTS: usize = 300_000;

#[test]
fn additions_of_many_clients_all_count() {
    let Some(server) = Server::start("") else {
        return;
    };
    let ones = tensor(&vec![1.0; ELEMENTS]);
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let mut client = server.client();
                for _ in 0..8 {
                    client.done(&[b"TENSOR.ACCUMULATE", b"sum".as_slice(), &ones]);
                    // Reading keeps the tensor from being changed in place.
                    let seen = client.values("sum").unwrap();
                    assert!(seen.iter().all(|x| *x == seen[0]), "half an addition");
                }
            });
        }
    });
    assert!(server.client().values("sum").unwrap() == vec![48.0; ELEMENTS]);
}

/// Sources and targets of long operations are replaced and deleted under them:
/// what is replicated must still give the same bits.
#[test]
fn a_replica_agrees_when_clients_write_the_same_keys_at_once() {
    let Some(primary) = Server::start("appendonly yes\nappendfsync no") else {
        return;
    };
    let replica = Server::start(&primary.as_primary()).unwrap();
    thread::scope(|scope| {
        for writer in 0..4_usize {
            let primary = &primary;
            scope.spawn(move || {
                let mut client = primary.client();
                for round in 0..20 {
                    one_round(&mut client, 20 * writer + round);
                }
            });
        }
    });
    let mut client = primary.client();
    client.done(&["SET", "last", "1"]);
    same_digest(&mut client, &mut replica.client());
    let digest = client.digest();
    client.done(&["DEBUG", "LOADAOF"]);
    assert_eq!(client.digest(), digest, "the log gives something else");
}

/// Many times the same source: long enough to do something meanwhile.
fn long_median() -> Vec<&'static str> {
    [&["TENSOR.ROBUST", "m", "MEDIAN", "64"][..], &["g"; 64]].concat()
}

/// Waits until some client waits for the background thread, and that has begun.
fn wait_until_begun(client: &mut Client) {
    loop {
        let BytesFrame::BulkString(info) = client.call(&["INFO", "clients"]) else {
            panic!("INFO gave no text");
        };
        if String::from_utf8_lossy(&info).contains("blocked_clients:1") {
            break;
        }
    }
    thread::sleep(Duration::from_millis(20));
}

#[test]
fn what_changes_under_a_long_command_is_read_anew() {
    let Some(primary) = Server::start("appendonly yes\nappendfsync no") else {
        return;
    };
    let replica = Server::start(&primary.as_primary()).unwrap();
    let (mut client, mut other) = (primary.client(), primary.client());
    let [before, after] = [1.5, 2.5].map(|value| tensor(&vec![value; ELEMENTS]));
    client.done(&[b"TENSOR.SET", b"g".as_slice(), &before]);

    client.send(&[&long_median()]);
    wait_until_begun(&mut other);
    other.done(&[b"TENSOR.SET", b"g".as_slice(), &after]);
    assert_eq!(other.call(&["EXISTS", "m"]), BytesFrame::Integer(0));
    assert_eq!(client.receive(), ok());
    assert!(client.values("m").unwrap() == vec![2.5; ELEMENTS]);
    client.done(&["SET", "last", "1"]);
    same_digest(&mut client, &mut replica.client());

    assert_eq!(client.call(&["DEL", "m"]), BytesFrame::Integer(1));
    client.send(&[&long_median()]);
    wait_until_begun(&mut other);
    assert_eq!(other.call(&["DEL", "g"]), BytesFrame::Integer(1));
    let missing = BytesFrame::Error("ERR no such key \"g\"".into());
    assert_eq!(client.receive(), missing);
    assert_eq!(client.values("m"), None);
    let digest = client.digest();
    client.done(&["DEBUG", "LOADAOF"]);
    assert_eq!(client.digest(), digest, "the log gives something else");
}

/// A result that is ready while writing is paused waits: a server that
/// replicates then stops itself.
#[test]
fn a_pause_of_writing_holds_results_back() {
    let Some(primary) = Server::start("appendonly yes\nappendfsync no") else {
        return;
    };
    let mut client = primary.client();
    let value = tensor(&vec![1.5; ELEMENTS]);
    client.done(&[b"TENSOR.SET", b"g".as_slice(), &value]);
    let mut other = primary.client();
    client.send(&[&long_median()]);
    wait_until_begun(&mut other);
    other.done(&["CLIENT", "PAUSE", "400", "WRITE"]);
    let paused = other.call(&["EXISTS", "m"]);
    assert_eq!(client.receive(), ok());
    assert!(client.values("m").unwrap() == vec![1.5; ELEMENTS]);
    // The result took longer than the pause took to arrive, or the test says
    // nothing about pauses.
    assert_eq!(paused, BytesFrame::Integer(0));
}

/// Commands that may fail, since another client may have deleted their keys.
fn one_round(client: &mut Client, round: usize) {
    let value = tensor(&vec![round as f32; ELEMENTS]);
    let key = format!("g{}", round % 3);
    client.call(&[b"TENSOR.SET".as_slice(), key.as_bytes(), &value]);
    client.call(&["TENSOR.MEAN", "w", "3", "g0", "g1", "g2"]);
    client.call(&[
        "TENSOR.MEANSGD",
        "w",
        "0.1",
        "0.9",
        "0",
        "3",
        "g0",
        "g1",
        "g2",
    ]);
    client.call(&["TENSOR.SGD", "w", "g0", "0.1", "0.9", "0"]);
    client.call(&[b"TENSOR.ACCUMULATE".as_slice(), b"w", &value]);
    client.call(&["TENSOR.ROBUST", "g1", "TRIMMED", "1", "3", "g0", "w", "g2"]);
    let swept = ["COPY", "RENAME", "UNLINK", "DEL"][round % 4];
    match swept {
        "COPY" => client.call(&["COPY", "w", "g2", "REPLACE"]),
        "RENAME" => client.call(&["RENAME", "g1", "g0"]),
        _ => client.call(&[swept, "w:velocity"]),
    };
}
