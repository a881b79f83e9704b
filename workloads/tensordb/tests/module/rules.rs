//! Rules of the keyspace that the embedded store has no words for.

use bytes::Bytes;
use redis_protocol::resp2::types::BytesFrame;

use super::client::{Client, ok};
use super::server::Server;
use super::tensor;

fn error(reply: BytesFrame) -> String {
    match reply {
        BytesFrame::Error(text) => text.to_string(),
        other => panic!("no error: {other:?}"),
    }
}

fn integer(client: &mut Client, words: &[&str]) -> i64 {
    match client.call(words) {
        BytesFrame::Integer(value) => value,
        other => panic!("{words:?}: {other:?}"),
    }
}

/// Long enough that reductions run in the background.
fn long(value: f32) -> Vec<u8> {
    tensor(&vec![value; 300_000])
}

#[test]
fn a_new_value_forgets_the_expiry_and_a_changed_one_keeps_it() {
    let Some(server) = Server::start("") else {
        return;
    };
    let mut client = server.client();
    for (key, value) in [("w", tensor(&[1.0])), ("big", long(1.0))] {
        let set = [b"TENSOR.SET", key.as_bytes(), &value];
        client.done(&set);
        client.done(&[b"TENSOR.SET", b"g".as_slice(), &value]);
        assert_eq!(integer(&mut client, &["EXPIRE", key, "1000"]), 1);
        client.done(&[b"TENSOR.ACCUMULATE", key.as_bytes(), &value]);
        client.done(&["TENSOR.SGD", key, "g", "0.1", "0.9", "0"]);
        client.done(&["TENSOR.SGD", key, "g", "0.1", "0.9", "0"]);
        assert!(integer(&mut client, &["TTL", key]) > 0, "{key}");
        client.done(&["TENSOR.MEAN", key, "2", "g", "g"]);
        assert_eq!(integer(&mut client, &["TTL", key]), -1, "{key}");
        assert_eq!(integer(&mut client, &["EXPIRE", key, "1000"]), 1);
        client.done(&set);
        assert_eq!(integer(&mut client, &["TTL", key]), -1, "{key}");
    }
}

#[test]
fn long_commands_in_transactions_and_scripts_are_carried_out_in_turn() {
    let Some(server) = Server::start("") else {
        return;
    };
    let mut client = server.client();
    client.done(&[b"TENSOR.SET", b"a".as_slice(), &long(1.0)]);
    client.done(&[b"TENSOR.SET", b"b".as_slice(), &long(3.0)]);
    let replies = client.pipeline(&[
        &["MULTI"][..],
        &["TENSOR.MEAN", "m", "2", "a", "b"],
        &["TENSOR.SGD", "m", "a", "1", "0", "0"],
        &["TENSOR.GETRANGE", "m", "299999", "1"],
        &["EXEC"],
    ]);
    let last = BytesFrame::BulkString(tensor(&[1.0]).into());
    assert_eq!(
        replies[4],
        BytesFrame::Array(vec![ok(), ok(), last.clone()])
    );
    let script = "redis.call('TENSOR.MEANSGD', 'm', '1', '0', '0', '2', 'a', 'b') \
                  return redis.call('TENSOR.GETRANGE', 'm', '0', '1')";
    let stepped = client.call(&["EVAL", script, "0"]);
    assert_eq!(stepped, BytesFrame::BulkString(tensor(&[-1.0]).into()));
}

#[test]
fn a_command_belongs_to_its_database() {
    let Some(server) = Server::start("") else {
        return;
    };
    let mut client = server.client();
    client.done(&["SELECT", "3"]);
    client.done(&[b"TENSOR.SET", b"a".as_slice(), &long(1.0)]);
    client.done(&["TENSOR.MEAN", "m", "2", "a", "a"]);
    assert!(client.values("m").unwrap() == vec![1.0; 300_000]);
    client.done(&["SELECT", "0"]);
    assert_eq!(integer(&mut client, &["DBSIZE"]), 0);
}

#[test]
fn a_command_is_carried_out_though_its_client_is_gone() {
    let Some(server) = Server::start("") else {
        return;
    };
    let mut client = server.client();
    client.done(&[b"TENSOR.SET", b"a".as_slice(), &long(2.0)]);
    let mut leaving = server.client();
    leaving.send(&[&["TENSOR.MEAN", "m", "3", "a", "a", "a"]]);
    // Whatever it leaves unread, the server has read its command by then.
    assert_eq!(leaving.receive(), ok());
    leaving.send(&[&["TENSOR.MEANSGD", "a", "1", "0", "0", "2", "m", "m"]]);
    drop(leaving);
    let zero = vec![0.0; 300_000];
    while client.values("a").unwrap() != zero {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn a_watched_tensor_that_changes_stops_the_transaction() {
    let Some(server) = Server::start("") else {
        return;
    };
    let (mut watcher, mut writer) = (server.client(), server.client());
    writer.done(&[b"TENSOR.SET", b"a".as_slice(), &long(2.0)]);
    writer.done(&["TENSOR.MEAN", "m", "1", "a"]);
    let changes: [&[&str]; 2] = [
        &["TENSOR.SGD", "m", "a", "1", "0", "0"],
        &["TENSOR.MEAN", "m", "2", "a", "a"],
    ];
    for change in changes {
        watcher.done(&["WATCH", "m"]);
        writer.done(change);
        let replies = watcher.pipeline(&[&["MULTI"][..], &["PING"], &["EXEC"]]);
        assert_eq!(replies[2], BytesFrame::Null, "{change:?}");
    }
    watcher.done(&["WATCH", "m"]);
    error(writer.call(&["TENSOR.MEAN", "m", "2", "a", "none"]));
    let replies = watcher.pipeline(&[&["MULTI"][..], &["PING"], &["EXEC"]]);
    assert_ne!(
        replies[2],
        BytesFrame::Null,
        "a failed command changes nothing"
    );
}

#[test]
fn sources_are_keys_to_access_control() {
    let Some(server) = Server::start("") else {
        return;
    };
    let mut client = server.client();
    let keys = client.call(&[
        "COMMAND",
        "GETKEYS",
        "TENSOR.MEANSGD",
        "w",
        "1",
        "0",
        "0",
        "2",
        "a",
        "b",
    ]);
    let named =
        ["w", "a", "b"].map(|key| BytesFrame::BulkString(Bytes::from_static(key.as_bytes())));
    assert_eq!(keys, BytesFrame::Array(named.to_vec()));
    client.done(&["ACL", "SETUSER", "peer", "on", ">secret", "~own*", "+@all"]);
    client.done(&[b"TENSOR.SET", b"other".as_slice(), &tensor(&[1.0])]);
    let mut peer = server.client();
    peer.done(&["AUTH", "peer", "secret"]);
    peer.done(&[b"TENSOR.SET", b"own".as_slice(), &tensor(&[1.0])]);
    peer.done(&["TENSOR.MEAN", "own:m", "1", "own"]);
    let refused = error(peer.call(&["TENSOR.MEAN", "own:m", "2", "own", "other"]));
    assert!(refused.starts_with("NOPERM"), "{refused}");
}

#[test]
fn a_full_server_refuses_what_takes_memory() {
    let Some(server) = Server::start("maxmemory-policy noeviction") else {
        return;
    };
    let mut client = server.client();
    client.done(&[b"TENSOR.SET", b"a".as_slice(), &tensor(&[1.0])]);
    client.done(&["CONFIG", "SET", "maxmemory", "1"]);
    for words in [
        &["TENSOR.SET", "b", "1234"][..],
        &["TENSOR.MEAN", "m", "1", "a"],
        &["TENSOR.ACCUMULATE", "a", "1234"],
        &["TENSOR.SGD", "a", "a", "1", "0", "0"],
    ] {
        let refused = error(client.call(words));
        assert!(refused.starts_with("OOM"), "{refused}");
    }
    assert_eq!(client.values("a").unwrap(), [1.0]);
}

#[test]
fn the_module_stays_while_its_values_are_there() {
    let Some(server) = Server::start("enable-module-command local") else {
        return;
    };
    let refused = error(server.client().call(&["MODULE", "UNLOAD", "epochcost"]));
    assert!(refused.contains("data types"), "{refused}");
}

/// Every byte of a payload changed in turn, with the checksum not verified:
/// lengths of exabytes, cut-off strings, other versions.
#[test]
fn damaged_payloads_are_refused_or_restored_but_never_fatal() {
    let Some(server) = Server::start("sanitize-dump-payload yes") else {
        return;
    };
    let mut client = server.client();
    client.done(&["DEBUG", "SET-SKIP-CHECKSUM-VALIDATION", "1"]);
    client.done(&[b"TENSOR.SET", b"a".as_slice(), &tensor(&[1.0, -2.0, 3.5])]);
    let BytesFrame::BulkString(dump) = client.call(&["DUMP", "a"]) else {
        panic!("no dump");
    };
    let mut refused = 0;
    for at in 0..dump.len() {
        for byte in [0x00, 0x7f, 0x80, 0x81, 0xc3, 0xff] {
            let mut damaged = dump.to_vec();
            damaged[at] = byte;
            let restore = [b"RESTORE".as_slice(), b"r", b"0", &damaged, b"REPLACE"];
            match client.call(&restore) {
                BytesFrame::Error(_) => refused += 1,
                _ => {
                    client.call(&["TENSOR.MEAN", "m", "1", "r"]);
                }
            }
        }
    }
    assert!(refused > dump.len());
    let restore = [b"RESTORE".as_slice(), b"r", b"0", &dump, b"REPLACE"];
    client.done(&restore);
    assert_eq!(client.values("r").unwrap(), [1.0, -2.0, 3.5]);
}
