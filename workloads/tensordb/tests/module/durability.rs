//! What replicas and files hold is what the server holds, bit for bit.

use redis_protocol::resp2::types::BytesFrame;

use super::fuzz::{same_digest, wait_for_rewrite};
use super::server::Server;
use super::tensor;

/// Small and large, ragged and not a number, strings and lists, with an expiry.
fn fill(server: &Server) {
    let mut client = server.client();
    let large: Vec<f32> = (0..300_000).map(|i| (i as f32).sin()).collect();
    client.done(&[b"TENSOR.SET", b"large".as_slice(), &tensor(&large)]);
    client.done(&[
        b"TENSOR.SET",
        b"odd".as_slice(),
        &tensor(&[f32::NAN, -0.0, 1e-45]),
    ]);
    client.done(&[b"TENSOR.SET", b"ragged".as_slice(), b"12345"]);
    client.done(&[b"TENSOR.SET", b"empty".as_slice(), b""]);
    client.done(&[b"TENSOR.ACCUMULATE", b"sum".as_slice(), &tensor(&large)]);
    client.done(&[b"TENSOR.ACCUMULATE", b"sum".as_slice(), &tensor(&large)]);
    client.done(&["TENSOR.MEAN", "mean", "3", "large", "sum", "sum"]);
    client.done(&[
        "TENSOR.MEANSGD",
        "mean",
        "0.1",
        "0.9",
        "0.01",
        "2",
        "large",
        "sum",
    ]);
    client.done(&["TENSOR.SGD", "mean", "large", "0.1", "0.9", "0.01"]);
    client.done(&[
        "TENSOR.ROBUST",
        "krum",
        "KRUM",
        "0",
        "3",
        "large",
        "sum",
        "mean",
    ]);
    client.done(&["SET", "text", "12345678"]);
    client.done(&["SELECT", "2"]);
    client.done(&[b"TENSOR.SET", b"large".as_slice(), &tensor(&large)]);
    client.done(&["TENSOR.ROBUST", "median", "MEDIAN", "2", "large", "large"]);
    assert_eq!(
        client.call(&["EXPIRE", "median", "1000"]),
        BytesFrame::Integer(1)
    );
}

#[test]
fn the_log_of_commands_brings_everything_back() {
    for preamble in ["yes", "no"] {
        let configuration = format!("appendonly yes\naof-use-rdb-preamble {preamble}");
        let Some(server) = Server::start(&configuration) else {
            return;
        };
        fill(&server);
        let digest = server.client().digest();
        let server = Server::start_in(server.shut_down(), &configuration);
        assert_eq!(server.client().digest(), digest, "commands replayed");
        let mut client = server.client();
        client.call(&["BGREWRITEAOF"]);
        wait_for_rewrite(&mut client);
        let server = Server::start_in(server.shut_down(), &configuration);
        assert_eq!(
            server.client().digest(),
            digest,
            "rewritten, preamble {preamble}"
        );
    }
}

#[test]
fn a_snapshot_brings_everything_back() {
    let Some(server) = Server::start("") else {
        return;
    };
    fill(&server);
    let digest = server.client().digest();
    server.client().done(&["SAVE"]);
    let server = Server::start_in(server.shut_down(), "");
    assert_eq!(server.client().digest(), digest);
}

#[test]
fn a_replica_follows_from_a_snapshot_and_then_by_commands() {
    let Some(primary) = Server::start("") else {
        return;
    };
    fill(&primary);
    let replica = Server::start(&primary.as_primary()).unwrap();
    let mut client = primary.client();
    client.done(&["SET", "again", "1"]);
    same_digest(&mut client, &mut replica.client());
    fill(&primary);
    client.done(&["TENSOR.SGD", "mean", "large", "0.1", "0.9", "0.01"]);
    same_digest(&mut client, &mut replica.client());
    let refused = replica.client().call(&["TENSOR.MEAN", "m", "1", "large"]);
    assert!(
        matches!(&refused, BytesFrame::Error(text) if text.starts_with("READONLY")),
        "{refused:?}"
    );
}
