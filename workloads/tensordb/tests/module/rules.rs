//! Rules of the keyspace that the embedded store has no words for.

use redis_protocol::resp2::types::BytesFrame;

use super::client::ok;
use super::{long, start, tensor, words};

#[test]
fn a_new_value_forgets_the_expiry_and_a_changed_one_keeps_it() {
    let Some(server) = start("") else { return };
    let mut client = server.client();
    for (key, value) in [("w", vec![1.0]), ("big", long(1.0))] {
        let (expire, ttl) = (format!("EXPIRE {key} 1000"), format!("TTL {key}"));
        let step = format!("TENSOR.SGD {key} g 0.1 0.9 0");
        client.set(key, &value);
        client.set("g", &value);
        assert_eq!(client.integer(&expire), 1);
        client.add(key, &value);
        client.does(&[&step, &step]);
        assert!(client.integer(&ttl) > 0, "{key}");
        client.does(&[&format!("TENSOR.MEAN {key} 2 g g")]);
        assert_eq!(client.integer(&ttl), -1, "{key}");
        assert_eq!(client.integer(&expire), 1);
        client.set(key, &value);
        assert_eq!(client.integer(&ttl), -1, "{key}");
    }
}

#[test]
fn long_commands_in_transactions_and_scripts_are_carried_out_in_turn() {
    let Some(server) = start("") else { return };
    let mut client = server.client();
    client.set("a", &long(1.0));
    client.set("b", &long(3.0));
    let transaction = [
        "MULTI",
        "TENSOR.MEAN m 2 a b",
        "TENSOR.SGD m a 1 0 0",
        "TENSOR.GETRANGE m 299999 1",
        "EXEC",
    ];
    let replies = client.pipeline(&transaction.map(words));
    let one = |value| BytesFrame::BulkString(tensor(&[value]).into());
    assert_eq!(replies[4], BytesFrame::Array(vec![ok(), ok(), one(1.0)]));
    let script = "redis.call('TENSOR.MEANSGD', 'm', '1', '0', '0', '2', 'a', 'b') \
                  return redis.call('TENSOR.GETRANGE', 'm', '0', '1')";
    assert_eq!(client.call(&["EVAL", script, "0"]), one(-1.0));
}

#[test]
fn a_command_belongs_to_its_database() {
    let Some(server) = start("") else { return };
    let mut client = server.client();
    client.does(&["SELECT 3"]);
    client.set("a", &long(1.0));
    client.does(&["TENSOR.MEAN m 2 a a"]);
    assert!(client.values("m").unwrap() == long(1.0));
    client.does(&["SELECT 0"]);
    assert_eq!(client.integer("DBSIZE"), 0);
}

#[test]
fn a_command_is_carried_out_though_its_client_is_gone() {
    let Some(server) = start("") else { return };
    let mut client = server.client();
    client.set("a", &long(2.0));
    let mut leaving = server.client();
    // Whatever it leaves unread, the server has read its command by then.
    leaving.does(&["TENSOR.MEAN m 3 a a a"]);
    leaving.send(&[words("TENSOR.MEANSGD a 1 0 0 2 m m")]);
    drop(leaving);
    while client.values("a").unwrap() != long(0.0) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn a_watched_tensor_that_changes_stops_the_transaction() {
    let Some(server) = start("") else { return };
    let (mut watcher, mut writer) = (server.client(), server.client());
    let transaction = ["MULTI", "PING", "EXEC"].map(words);
    writer.set("a", &long(2.0));
    writer.does(&["TENSOR.MEAN m 1 a"]);
    for change in ["TENSOR.SGD m a 1 0 0", "TENSOR.MEAN m 2 a a"] {
        watcher.does(&["WATCH m"]);
        writer.does(&[change]);
        let replies = watcher.pipeline(&transaction);
        assert_eq!(replies[2], BytesFrame::Null, "{change:?}");
    }
    watcher.does(&["WATCH m"]);
    writer.refusal("TENSOR.MEAN m 2 a none");
    let replies = watcher.pipeline(&transaction);
    let none = BytesFrame::Null;
    assert_ne!(replies[2], none, "a failed command changes nothing");
}

#[test]
fn sources_are_keys_to_access_control() {
    let Some(server) = start("") else { return };
    let mut client = server.client();
    let keys = client.reply("COMMAND GETKEYS TENSOR.MEANSGD w 1 0 0 2 a b");
    let named = ["w", "a", "b"].map(|key| BytesFrame::BulkString(key.into()));
    assert_eq!(keys, BytesFrame::Array(named.to_vec()));
    client.does(&["ACL SETUSER peer on >secret ~own* +@all"]);
    client.set("other", &[1.0]);
    let mut peer = server.client();
    peer.does(&["AUTH peer secret"]);
    peer.set("own", &[1.0]);
    peer.does(&["TENSOR.MEAN own:m 1 own"]);
    let refused = peer.refusal("TENSOR.MEAN own:m 2 own other");
    assert!(refused.starts_with("NOPERM"), "{refused}");
}

#[test]
fn a_full_server_refuses_what_takes_memory() {
    let Some(server) = start("maxmemory-policy noeviction") else {
        return;
    };
    let mut client = server.client();
    client.set("a", &[1.0]);
    client.does(&["CONFIG SET maxmemory 1"]);
    for command in [
        "TENSOR.SET b 1234",
        "TENSOR.MEAN m 1 a",
        "TENSOR.ACCUMULATE a 1234",
        "TENSOR.SGD a a 1 0 0",
    ] {
        let refused = client.refusal(command);
        assert!(refused.starts_with("OOM"), "{refused}");
    }
    assert_eq!(client.values("a").unwrap(), [1.0]);
}

#[test]
fn the_module_stays_while_its_values_are_there() {
    let Some(server) = start("enable-module-command local") else {
        return;
    };
    let refused = server.client().refusal("MODULE UNLOAD epochcost");
    assert!(refused.contains("data types"), "{refused}");
}

/// The words that bring a payload back.
fn restore(dump: &[u8]) -> [&[u8]; 5] {
    [b"RESTORE", b"r", b"0", dump, b"REPLACE"]
}

/// Every byte of a payload changed in turn, with the checksum not verified:
/// lengths of exabytes, cut-off strings, other versions.
#[test]
fn damaged_payloads_are_refused_or_restored_but_never_fatal() {
    let Some(server) = start("sanitize-dump-payload yes") else {
        return;
    };
    let mut client = server.client();
    client.does(&["DEBUG SET-SKIP-CHECKSUM-VALIDATION 1"]);
    client.set("a", &[1.0, -2.0, 3.5]);
    let dump = client.bulk("DUMP a");
    let mut refused = 0;
    for at in 0..dump.len() {
        for byte in [0x00, 0x7f, 0x80, 0x81, 0xc3, 0xff] {
            let mut damaged = dump.to_vec();
            damaged[at] = byte;
            match client.call(&restore(&damaged)) {
                BytesFrame::Error(_) => refused += 1,
                _ => drop(client.reply("TENSOR.MEAN m 1 r")),
            }
        }
    }
    assert!(refused > dump.len());
    client.done(&restore(&dump));
    assert_eq!(client.values("r").unwrap(), [1.0, -2.0, 3.5]);
}
