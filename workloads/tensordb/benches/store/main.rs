//! The module against a client that fetches, computes and stores, and against
//! the papers' Lua script: times, other clients' PINGs, and peak memory.
//!
//! `just bench-store` runs it. What the figures mean is in
//! `docs/tensor-store.md`.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    dead_code
)]

mod floor;
mod lua;
mod naive;
mod ping;
mod record;

#[path = "../../tests/module/client.rs"]
mod client;
#[path = "../../tests/module/server.rs"]
mod server;

use std::time::Instant;

use epochcost_servers::Allocator;

use self::client::Client;
use self::floor::Alone;
use self::ping::Ping;
use self::record::{Arm, Memory, Record};
use self::server::Server;

/// ResNet-18's parameters: 44.7 MB a gradient.
pub const ELEMENTS: usize = 11_173_962;
/// Mini-batches per worker and epoch in the papers' setting.
pub const GRADIENTS: usize = 24;
/// The learning rate of every step.
pub const RATE: &str = "0.01";
/// The momentum of steps that have one.
pub const MOMENTUM: &str = "0.9";

const ALLOCATORS: [(&str, Allocator); 2] =
    [("stock", Allocator::Stock), ("tuned", Allocator::Tuned)];

fn main() {
    let words: Vec<String> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let after = |flag: &str| {
        let at = words.iter().position(|word| word == flag)?;
        words.get(at + 1).cloned()
    };
    let repetitions = after("--repetitions").map_or(7, |text| text.parse().unwrap());
    if !server::is_installed() {
        return;
    }
    let sent: Vec<Vec<u8>> = (0..GRADIENTS).map(|i| bytes(&gradient(i))).collect();
    let mut record = Record::new(repetitions);
    for (name, allocator) in ALLOCATORS {
        eprintln!("{name} allocator");
        record
            .arms
            .extend(module(name, allocator, &sent, repetitions));
        let server = Server::with_allocator(allocator);
        record
            .arms
            .extend(naive::arms(name, &server, &sent, repetitions));
    }
    record.memory = memory(&sent);
    record.lua = Some(lua::measure(
        &Server::with_allocator(Allocator::Stock),
        &sent[0],
    ));
    println!("{}", record.table());
    if let Some(file) = after("--out") {
        record.write(&file);
    }
}

/// Values of the size of gradients, another vector for each `index`.
fn gradient(index: usize) -> Vec<f32> {
    let phase = index as f32;
    (0..ELEMENTS)
        .map(|i| (i as f32 * 0.37 + phase).sin() * 1e-2)
        .collect()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    epochcost_kernels::codec::encode_f32(values)
}

/// Milliseconds of each of some repetitions.
pub fn time(repetitions: usize, mut work: impl FnMut()) -> Vec<f64> {
    (0..repetitions)
        .map(|_| {
            let started = Instant::now();
            work();
            1e3 * started.elapsed().as_secs_f64()
        })
        .collect()
}

/// Commands of the module, and what another client's PING took meanwhile.
fn module(
    name: &'static str,
    allocator: Allocator,
    sent: &[Vec<u8>],
    repetitions: usize,
) -> Vec<Arm> {
    let server = Server::with_allocator(allocator);
    let mut client = server.client();
    let keys: Vec<String> = (0..sent.len()).map(|i| format!("g{i}")).collect();
    for (key, value) in keys.iter().zip(sent) {
        client.done(&[b"TENSOR.SET", key.as_bytes(), value]);
    }
    client.done(&[b"TENSOR.SET", b"w".as_slice(), &sent[0]]);
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let count = keys.len().to_string();
    let mean = [&["TENSOR.MEAN", "m", &count], keys.as_slice()].concat();
    let step = ["TENSOR.SGD", "w", "g1", RATE, "0", "0"];
    let momentum = ["TENSOR.SGD", "w", "g1", RATE, MOMENTUM, "0"];
    let fused = [
        &["TENSOR.MEANSGD", "w", RATE, "0", "0", &count],
        keys.as_slice(),
    ]
    .concat();
    let commands: [(&'static str, &[&str]); 4] = [
        ("mean", &mean),
        ("step", &step),
        ("step with momentum", &momentum),
        ("mean and step", &fused),
    ];
    let mut alone = Alone::new(sent);
    let mut arms = Vec::new();
    for (operation, words) in commands {
        // The first takes new memory and turns what was sent into floats.
        client.done(words);
        let (mut floor, mut kernel, mut module) = (Vec::new(), Vec::new(), Vec::new());
        let mut worst_ping_ms = 0.0_f64;
        // In turn, so that a busy machine falls on all alike.
        for _ in 0..repetitions {
            if operation == "mean" {
                floor.extend(time(1, || alone.read()));
            }
            kernel.extend(time(1, || alone.kernel(operation)));
            let ping = Ping::start(&server);
            module.extend(time(1, || client.done(words)));
            worst_ping_ms = worst_ping_ms.max(ping.stop());
        }
        if !floor.is_empty() {
            arms.push(Arm::new("read floor", operation, floor).with_allocator(name));
        }
        arms.push(Arm::new("bare kernel", operation, kernel).with_allocator(name));
        arms.push(Arm::new("module", operation, module).with(name, worst_ping_ms));
    }
    arms.push(sending(&mut client, &server, sent, repetitions).with_allocator(name));
    arms
}

/// One gradient sent and added up where it lies.
fn sending(client: &mut Client, server: &Server, sent: &[Vec<u8>], repetitions: usize) -> Arm {
    client.done(&[b"TENSOR.ACCUMULATE", b"sum".as_slice(), &sent[0]]);
    let ping = Ping::start(server);
    let milliseconds = time(repetitions, || {
        client.done(&[b"TENSOR.ACCUMULATE", b"sum".as_slice(), &sent[1]]);
    });
    Arm::new("module", "send and accumulate", milliseconds).with_ping(ping.stop())
}

/// Peak memory of both ways to the sum of all gradients, each in a server of
/// its own.
fn memory(sent: &[Vec<u8>]) -> Memory {
    let storing = Server::with_allocator(Allocator::Stock);
    let mut client = storing.client();
    let mut words = vec!["TENSOR.MEAN".to_owned(), "m".into(), sent.len().to_string()];
    for (i, value) in sent.iter().enumerate() {
        let key = format!("g{i}");
        client.done(&[b"TENSOR.SET", key.as_bytes(), value]);
        words.push(key);
    }
    client.done(&words);
    let store_then_average_mb = peak_mb(&storing);
    drop((client, storing));
    let adding = Server::with_allocator(Allocator::Stock);
    let mut client = adding.client();
    let idle_mb = peak_mb(&adding);
    for value in sent {
        client.done(&[b"TENSOR.ACCUMULATE", b"sum".as_slice(), value]);
    }
    Memory {
        idle_mb,
        store_then_average_mb,
        accumulate_on_write_mb: peak_mb(&adding),
    }
}

/// Peak resident memory of the server, in MB of 10⁶ bytes.
fn peak_mb(server: &Server) -> f64 {
    let status = format!("/proc/{}/status", server.process());
    let text = std::fs::read_to_string(status).unwrap();
    let line = text
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    let kibibytes: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kibibytes * 1024.0 / 1e6
}
