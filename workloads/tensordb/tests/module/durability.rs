//! What replicas and files hold is what the server holds, bit for bit.

use super::fuzz::{same_digest, wait_for_rewrite};
use super::server::Server;
use super::start;

/// Small and large, ragged and not a number, strings and lists, with an expiry.
fn fill(server: &Server) {
    let mut client = server.client();
    let large: Vec<f32> = (0..300_000).map(|i| (i as f32).sin()).collect();
    client.set("large", &large);
    client.set("odd", &[f32::NAN, -0.0, 1e-45]);
    client.set("empty", &[]);
    client.add("sum", &large);
    client.add("sum", &large);
    client.does(&[
        "TENSOR.SET ragged 12345",
        "TENSOR.MEAN mean 3 large sum sum",
        "TENSOR.MEANSGD mean 0.1 0.9 0.01 2 large sum",
        "TENSOR.SGD mean large 0.1 0.9 0.01",
        "TENSOR.ROBUST krum KRUM 0 3 large sum mean",
        "SET text 12345678",
        "SELECT 2",
    ]);
    client.set("large", &large);
    client.does(&["TENSOR.ROBUST median MEDIAN 2 large large"]);
    assert_eq!(client.integer("EXPIRE median 1000"), 1);
}

#[test]
fn the_log_of_commands_brings_everything_back() {
    for preamble in ["yes", "no"] {
        let configuration = format!("appendonly yes\naof-use-rdb-preamble {preamble}");
        let Some(server) = start(&configuration) else {
            return;
        };
        fill(&server);
        let digest = server.client().digest();
        let server = Server::start_in(server.shut_down(), &configuration);
        assert_eq!(server.client().digest(), digest, "commands replayed");
        let mut client = server.client();
        client.reply("BGREWRITEAOF");
        wait_for_rewrite(&mut client);
        let server = Server::start_in(server.shut_down(), &configuration);
        let when = format!("rewritten, preamble {preamble}");
        assert_eq!(server.client().digest(), digest, "{when}");
    }
}

#[test]
fn a_snapshot_brings_everything_back() {
    let Some(server) = start("") else { return };
    fill(&server);
    let digest = server.client().digest();
    server.client().does(&["SAVE"]);
    let server = Server::start_in(server.shut_down(), "");
    assert_eq!(server.client().digest(), digest);
}

#[test]
fn a_replica_follows_from_a_snapshot_and_then_by_commands() {
    let Some(primary) = start("") else { return };
    fill(&primary);
    let replica = start(&primary.as_primary()).unwrap();
    let mut client = primary.client();
    client.does(&["SET again 1"]);
    same_digest(&mut client, &mut replica.client());
    fill(&primary);
    client.does(&["TENSOR.SGD mean large 0.1 0.9 0.01"]);
    same_digest(&mut client, &mut replica.client());
    let refused = replica.client().refusal("TENSOR.MEAN m 1 large");
    assert!(refused.starts_with("READONLY"), "{refused}");
}
