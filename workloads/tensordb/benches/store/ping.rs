//! What another client's PING takes while a command runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::server::Server;

pub struct Ping {
    stop: Arc<AtomicBool>,
    worst: JoinHandle<f64>,
}

impl Ping {
    /// Sends a PING, waits for its answer and a millisecond more, and again.
    pub fn start(server: &Server) -> Self {
        let mut client = server.client();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (begun, begin) = std::sync::mpsc::channel();
        let worst = thread::spawn(move || {
            client.call(&["PING"]);
            let _ = begun.send(());
            let mut worst = Duration::ZERO;
            while !stopped.load(Ordering::Relaxed) {
                let sent = Instant::now();
                client.call(&["PING"]);
                worst = worst.max(sent.elapsed());
                thread::sleep(Duration::from_millis(1));
            }
            1e3 * worst.as_secs_f64()
        });
        let _ = begin.recv();
        Self { stop, worst }
    }

    /// The longest answer, in milliseconds.
    pub fn stop(self) -> f64 {
        self.stop.store(true, Ordering::Relaxed);
        self.worst.join().unwrap()
    }
}
