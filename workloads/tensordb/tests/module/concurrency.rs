//! Many clients at once.

use std::thread;
use std::time::Duration;

use redis_protocol::resp2::types::BytesFrame;

use super::client::{Client, ok};
use super::fuzz::same_digest;
use super::server::Server;
use super::{long, start, tensor, words};

const LOGGED: &str = "appendonly yes\nappendfsync no";

/// Checks that the replica and the log of commands give what the server holds.
fn is_everywhere(client: &mut Client, replica: &Server) {
    client.does(&["SET last 1"]);
    same_digest(client, &mut replica.client());
    let digest = client.digest();
    client.does(&["DEBUG LOADAOF"]);
    assert_eq!(client.digest(), digest, "the log gives something else");
}

#[test]
fn additions_of_many_clients_all_count() {
    let Some(server) = start("") else { return };
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let mut client = server.client();
                for _ in 0..8 {
                    client.add("sum", &long(1.0));
                    // Reading keeps the tensor from being changed in place.
                    let seen = client.values("sum").unwrap();
                    assert!(seen.iter().all(|x| *x == seen[0]), "half an addition");
                }
            });
        }
    });
    assert!(server.client().values("sum").unwrap() == long(48.0));
}

/// Sources and targets of long operations are replaced and deleted under them:
/// what is replicated must still give the same bits.
#[test]
fn a_replica_agrees_when_clients_write_the_same_keys_at_once() {
    let Some(primary) = start(LOGGED) else { return };
    let replica = start(&primary.as_primary()).unwrap();
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
    is_everywhere(&mut primary.client(), &replica);
}

/// Begins a command with many times the same source: long enough to do something meanwhile.
fn begin_long_median(client: &mut Client, other: &mut Client) {
    client.send(&[words(&format!(
        "TENSOR.ROBUST m MEDIAN 64{}",
        " g".repeat(64)
    ))]);
    wait_until_begun(other);
}

/// Waits until some client waits for the background thread, and that has begun.
fn wait_until_begun(client: &mut Client) {
    loop {
        let info = client.bulk("INFO clients");
        if String::from_utf8_lossy(&info).contains("blocked_clients:1") {
            break;
        }
    }
    thread::sleep(Duration::from_millis(20));
}

#[test]
fn what_changes_under_a_long_command_is_read_anew() {
    let Some(primary) = start(LOGGED) else { return };
    let replica = start(&primary.as_primary()).unwrap();
    let (mut client, mut other) = (primary.client(), primary.client());
    client.set("g", &long(1.5));
    begin_long_median(&mut client, &mut other);
    other.set("g", &long(2.5));
    assert_eq!(other.integer("EXISTS m"), 0);
    assert_eq!(client.receive(), ok());
    assert!(client.values("m").unwrap() == long(2.5));
    client.does(&["SET last 1"]);
    same_digest(&mut client, &mut replica.client());

    assert_eq!(client.integer("DEL m"), 1);
    begin_long_median(&mut client, &mut other);
    assert_eq!(other.integer("DEL g"), 1);
    let missing = BytesFrame::Error("ERR no such key \"g\"".into());
    assert_eq!(client.receive(), missing);
    assert_eq!(client.values("m"), None);
    is_everywhere(&mut client, &replica);
}

/// A result that is ready while writing is paused waits: a server that
/// replicates then stops itself.
#[test]
fn a_pause_of_writing_holds_results_back() {
    let Some(primary) = start(LOGGED) else { return };
    let (mut client, mut other) = (primary.client(), primary.client());
    client.set("g", &long(1.5));
    begin_long_median(&mut client, &mut other);
    other.does(&["CLIENT PAUSE 400 WRITE"]);
    let paused = other.integer("EXISTS m");
    assert_eq!(client.receive(), ok());
    assert!(client.values("m").unwrap() == long(1.5));
    // The result took longer than the pause took to arrive, or the test says
    // nothing about pauses.
    assert_eq!(paused, 0);
}

/// Commands that may fail, since another client may have deleted their keys.
fn one_round(client: &mut Client, round: usize) {
    let value = tensor(&long(round as f32));
    let key = format!("g{}", round % 3);
    client.call(&[b"TENSOR.SET".as_slice(), key.as_bytes(), &value]);
    client.reply("TENSOR.MEAN w 3 g0 g1 g2");
    client.reply("TENSOR.MEANSGD w 0.1 0.9 0 3 g0 g1 g2");
    client.reply("TENSOR.SGD w g0 0.1 0.9 0");
    client.call(&[b"TENSOR.ACCUMULATE".as_slice(), b"w", &value]);
    client.reply("TENSOR.ROBUST g1 TRIMMED 1 3 g0 w g2");
    let swept = [
        "COPY w g2 REPLACE",
        "RENAME g1 g0",
        "UNLINK w:velocity",
        "DEL w:velocity",
    ];
    client.reply(swept[round % 4]);
}
