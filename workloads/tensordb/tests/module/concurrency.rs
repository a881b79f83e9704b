//! Many clients at once.

use std::thread;

use redis_protocol::resp2::types::BytesFrame;

use super::client::ok;
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
    assert_eq!(server.client().values("sum").unwrap(), vec![48.0; ELEMENTS]);
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
    let words = [&["TENSOR.ROBUST", "m", "MEDIAN", "48"][..], &["g"; 48]].concat();
    client.send(&[&words]);
    let mut other = primary.client();
    other.done(&["CLIENT", "PAUSE", "400", "WRITE"]);
    let paused = other.call(&["EXISTS", "m"]);
    assert_eq!(client.receive(), ok());
    assert_eq!(client.values("m").unwrap(), vec![1.5; ELEMENTS]);
    // The result took longer than the pause took to arrive, or the test says
    // nothing about pauses.
    assert_eq!(paused, BytesFrame::Integer(0));
}

/// Commands that may fail, since another client may have deleted their keys.
fn one_round(client: &mut super::client::Client, round: usize) {
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
