//! Keys of peers, which no result holds.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread::{self, JoinHandle};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use epochcost_record::RunDirectory;
use epochcost_servers::Redis;

use super::scene::{Scene, redis};

/// Bytes of a private key.
const KEY_BYTES: usize = 32;

/// Everything that a Redis is asked, from now on.
struct Monitor {
    stream: TcpStream,
    reader: JoinHandle<Vec<u8>>,
}

impl Monitor {
    fn of(redis: &Redis) -> Self {
        let mut stream = TcpStream::connect(redis.address()).unwrap();
        write!(stream, "AUTH {}\r\nMONITOR\r\n", redis.password()).unwrap();
        let mut reading = stream.try_clone().unwrap();
        let reader = thread::spawn(move || {
            let mut said = Vec::new();
            // The end of the connection is the end of what was said.
            let _ = reading.read_to_end(&mut said);
            said
        });
        Self { stream, reader }
    }

    /// Returns the private keys that were stored.
    fn keys(self) -> Vec<Vec<u8>> {
        self.stream.shutdown(Shutdown::Both).unwrap();
        let said = String::from_utf8(self.reader.join().unwrap()).unwrap();
        let stored = said.lines().filter(|line| {
            let line = line.to_lowercase();
            line.contains("set\"") && line.contains("private_key\"")
        });
        let value = |line: &str| {
            let end = line.rfind('"').unwrap();
            let start = line[..end].rfind(" \"").unwrap() + 2;
            let bytes = unescaped(&line[start..end]);
            // Before the key may stand what a payload is.
            bytes[bytes.len() - KEY_BYTES..].to_vec()
        };
        stored.map(value).collect()
    }
}

/// Bytes as Redis prints them.
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next().unwrap() {
            b'x' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'a' => 7,
            b'b' => 8,
            other => other,
        });
    }
    bytes
}

/// The ways in which a program writes bytes. A part of a secret is a leak, too.
fn written(secret: &[u8]) -> Vec<Vec<u8>> {
    let part = &secret[..KEY_BYTES / 2];
    let hex: String = part.iter().map(|byte| format!("{byte:02x}")).collect();
    let list = serde_json::to_string(part).unwrap();
    // Six bits a letter: without the last, which the next bytes would change.
    let base64 = [STANDARD.encode(&part[..15]), URL_SAFE.encode(&part[..15])];
    let texts = [
        hex.to_uppercase(),
        hex,
        list.trim_matches(['[', ']']).to_owned(),
        format!("{part:?}").trim_matches(['[', ']']).to_owned(),
    ];
    let texts = texts.into_iter().chain(base64).map(String::into_bytes);
    texts.chain([part.to_vec()]).collect()
}

#[test]
fn results_of_peers_that_sign_hold_no_key() {
    let Some(scene) = Scene::ready() else { return };
    let redis = [(); 2].map(|()| redis());
    let monitors = redis.each_ref().map(Monitor::of);
    let urls = format!("{},{}", redis[0].url(), redis[1].url());
    let given = [("EPOCHCOST_REAL_REDIS", urls)];
    scene.run("signed", "signed.yaml --services real", &given);
    let keys: Vec<Vec<u8>> = monitors.into_iter().flat_map(Monitor::keys).collect();
    // One of each peer in each trial.
    assert_eq!(keys.len(), 4);
    let run = RunDirectory::open_whole(&scene.path("signed")).unwrap();
    // Files of events are compressed: what they hold is read.
    let mut read = String::new();
    for trial in run.trials().unwrap() {
        assert_eq!(trial.failure, None, "{}", trial.id);
        read += &format!("{trial:?} {:?}", run.steps(&trial).unwrap());
    }
    read += &format!("{:?}", run.invocations().unwrap());
    for key in &keys {
        for text in written(key) {
            assert!(!scene.holds("signed", &text), "a file holds a key");
            let is_read = read.as_bytes().windows(text.len()).any(|part| part == text);
            assert!(!is_read, "an event holds a key");
        }
    }
    // What is looked for would be found.
    std::fs::write(scene.path("signed/leak"), &written(&keys[3])[1]).unwrap();
    assert!(scene.holds("signed", &written(&keys[3])[1]));
}
