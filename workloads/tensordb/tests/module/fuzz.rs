//! The module against the embedded store: random commands, the same replies,
//! and the same content of every key after every command.
//!
//! What the embedded store does not know (transactions, scripts, COPY, expiry,
//! files) it receives as the commands that it has.

mod commands;

use std::collections::HashMap;
use std::sync::Arc;

use epochcost_channels::embedded::TensorServer;
use epochcost_channels::memory::MemoryTensors;
use redis_protocol::resp2::types::BytesFrame;

use self::commands::{Carry, Generator, KEYS, LIST_KEYS, NO_KEY, OTHER_KEY, Step, Words};
use super::client::{Client, floats, shown};
use super::start;

/// Commands between two checks that replica and files keep up.
const CHECKPOINT: usize = 2_500;

fn setting(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}: {text}")),
        Err(_) => otherwise,
    }
}

/// `EPOCHCOST_FUZZ_COMMANDS` (10,000) commands from `EPOCHCOST_FUZZ_SEED` (1).
#[test]
fn random_commands_do_the_same_in_both_stores() {
    let count = setting("EPOCHCOST_FUZZ_COMMANDS", 10_000) as usize;
    let seed = setting("EPOCHCOST_FUZZ_SEED", 1);
    let files = "appendonly yes\nappendfsync no\nauto-aof-rewrite-percentage 0";
    let Some(primary) = start(files) else { return };
    let replica = start(&primary.as_primary()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let embedded = TensorServer::start(Arc::new(MemoryTensors::default()));
    let embedded = runtime.block_on(embedded).unwrap();
    let endpoint = embedded.endpoint();
    let (_, address) = endpoint.split_once("//").unwrap();
    let address = address.parse().unwrap();

    let mut fuzz = Fuzz {
        module: primary.client(),
        twin: Client::connect(address, ""),
        values: HashMap::new(),
    };
    fuzz.module.does(&["DEBUG SET-ACTIVE-EXPIRE 0"]);
    let mut generator = Generator::new(seed);
    let mut sent = 0;
    let mut checkpoint = CHECKPOINT;
    while sent < count {
        let step = generator.step();
        sent += step.commands();
        fuzz.carry_out(&step, &format!("seed {seed}, command {sent}"));
        if sent >= checkpoint {
            checkpoint += CHECKPOINT;
            same_digest(&mut fuzz.module, &mut replica.client());
        }
    }
    same_digest(&mut fuzz.module, &mut replica.client());
    let digest = fuzz.module.digest();
    for rewrite in [false, true] {
        if rewrite {
            fuzz.module.does(&["CONFIG SET aof-use-rdb-preamble no"]);
            fuzz.module.reply("BGREWRITEAOF");
            wait_for_rewrite(&mut fuzz.module);
        }
        fuzz.module.does(&["DEBUG LOADAOF"]);
        assert_eq!(fuzz.module.digest(), digest, "after loading the file");
        fuzz.compare_keys("after loading the file");
    }
    for log in [primary.log(), replica.log()] {
        assert!(!log.contains("panicked") && !log.contains("crash"), "{log}");
    }
    println!("seed {seed}: {sent} commands, no mismatch");
}

struct Fuzz {
    module: Client,
    twin: Client,
    /// Tensors and strings as they lay after the last step.
    values: HashMap<Vec<u8>, Vec<u8>>,
}

impl Fuzz {
    fn carry_out(&mut self, step: &Step, place: &str) {
        let (here, there) = match step {
            Step::Both(words) => (vec![self.module.call(words)], vec![self.twin.call(words)]),
            Step::Pipeline(commands) => {
                (self.module.pipeline(commands), self.twin.pipeline(commands))
            }
            Step::Transaction(commands) => {
                (self.transaction(commands), self.twin.pipeline(commands))
            }
            Step::Script(words) => {
                let script = b"return redis.pcall(unpack(ARGV))".to_vec();
                let mut eval = vec![b"EVAL".to_vec(), script, b"0".to_vec()];
                eval.extend(words.iter().cloned());
                (vec![self.module.call(&eval)], vec![self.twin.call(words)])
            }
            Step::Translated { module, twin } => {
                self.module.pipeline(module);
                self.twin.pipeline(twin);
                (Vec::new(), Vec::new())
            }
            Step::Carried { by, from, to } => {
                self.carry(*by, from, to);
                (Vec::new(), Vec::new())
            }
        };
        for (here, there) in here.iter().zip(&there) {
            assert_eq!(plain(here), plain(there), "{place}: {step}");
        }
        self.compare_keys(&format!("{place}: {step}"));
    }

    fn transaction(&mut self, commands: &[Words]) -> Vec<BytesFrame> {
        let mut all = vec![vec![b"MULTI".to_vec()]];
        all.extend(commands.iter().cloned());
        all.push(vec![b"EXEC".to_vec()]);
        match self.module.pipeline(&all).pop() {
            Some(BytesFrame::Array(replies)) => replies,
            other => panic!("EXEC: {other:?}"),
        }
    }

    /// Carries a value in the module, and stores a copy in the other.
    fn carry(&mut self, by: Carry, from: &[u8], to: &[u8]) {
        let Some(value) = self.values.get(from).filter(|_| from != to) else {
            return;
        };
        let is_text = matches!(self.module.call(&[b"GET", from]), BytesFrame::BulkString(_));
        match by {
            Carry::Dump => {
                let BytesFrame::BulkString(dump) = self.module.call(&[b"DUMP", from]) else {
                    panic!("{} is there, but has no dump", shown(&[from]));
                };
                let restore: [&[u8]; 5] = [b"RESTORE", to, b"0", &dump, b"REPLACE"];
                self.module.done(&restore);
            }
            Carry::Copy => {
                let copied = self.module.call(&[b"COPY", from, to, b"REPLACE"]);
                assert_eq!(copied, BytesFrame::Integer(1));
            }
            Carry::Rename => self.module.done(&[b"RENAME", from, to]),
        }
        let set: &[u8] = if is_text { b"SET" } else { b"TENSOR.SET" };
        self.twin.done(&[set, to, value]);
        if matches!(by, Carry::Rename) {
            self.twin.call(&[b"DEL", from]);
        }
    }

    fn compare_keys(&mut self, place: &str) {
        let mut reads: Vec<Words> = Vec::new();
        for key in KEYS.iter().chain([&OTHER_KEY, &NO_KEY]) {
            for key in [key.to_vec(), velocity_of(key)] {
                reads.push(vec![b"TENSOR.GET".to_vec(), key.clone()]);
                reads.push(vec![b"GET".to_vec(), key]);
            }
        }
        for key in LIST_KEYS {
            let range = [b"LRANGE".as_slice(), key, b"0", b"-1"];
            reads.push(range.map(<[u8]>::to_vec).to_vec());
        }
        reads.push(vec![b"DBSIZE".to_vec()]);
        self.module.send(&reads);
        self.twin.send(&reads);
        self.values.clear();
        for read in &reads {
            let (here, there) = (self.module.receive(), self.twin.receive());
            assert_eq!(plain(&here), plain(&there), "{} after {place}", shown(read));
            if let BytesFrame::BulkString(bytes) = here {
                self.values.insert(read[1].clone(), bytes.to_vec());
            }
        }
    }
}

fn velocity_of(key: &[u8]) -> Vec<u8> {
    [key, b":velocity"].concat()
}

/// A reply as the format promises it: of an unknown command, only the beginning.
fn plain(reply: &BytesFrame) -> BytesFrame {
    match reply {
        BytesFrame::Error(text) if text.starts_with("ERR unknown command") => {
            BytesFrame::Error("ERR unknown command".into())
        }
        // Which NaN an operation gives depends on how the compiler orders its operands.
        BytesFrame::BulkString(bytes) if bytes.len().is_multiple_of(4) => {
            let bits = floats(bytes).into_iter();
            let bits = bits.map(|value| if value.is_nan() { f32::NAN } else { value });
            BytesFrame::BulkString(bits.flat_map(f32::to_le_bytes).collect())
        }
        BytesFrame::Array(replies) => BytesFrame::Array(replies.iter().map(plain).collect()),
        other => other.clone(),
    }
}

/// Waits until the replica has all that the primary sent, and compares.
pub fn same_digest(primary: &mut Client, replica: &mut Client) {
    let followed = primary.integer("WAIT 1 60000");
    assert_eq!(followed, 1, "the replica has fallen behind");
    assert_eq!(primary.digest(), replica.digest(), "the replica differs");
}

/// Waits for BGREWRITEAOF to end.
pub fn wait_for_rewrite(client: &mut Client) {
    loop {
        let info = client.bulk("INFO persistence");
        let info = String::from_utf8_lossy(&info).into_owned();
        let idle = ["aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0"];
        if idle.iter().all(|line| info.contains(line)) {
            assert!(info.contains("aof_last_bgrewrite_status:ok"), "{info}");
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
