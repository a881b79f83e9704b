//! Signals that end the work.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::select_all;
use rustix::process::Signal as Number;
use tokio::runtime::{self, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

use epochcost_planner::error::Error;
use epochcost_spec::ui::eprint_line;

/// Makes a write beyond the limit on the size of files fail, where the kernel would end the program.
pub fn survive_file_limit() {
    // Where it cannot be listened for, the program ends as any other.
    let _ = signal(SignalKind::from_raw(Number::XFSZ.as_raw()));
}

/// Receiver of a signal that ends the work.
pub type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Time after a signal in which the work ends without a message.
const GRACE: Duration = Duration::from_secs(1);

/// Whether the verb ends its own work on a signal.
static IS_AWAITED: AtomicBool = AtomicBool::new(false);

/// SIGINT, SIGTERM and SIGHUP.
struct Signals(Vec<(SignalKind, Signal)>);

impl Signals {
    fn listen() -> io::Result<Self> {
        let mut kinds = vec![SignalKind::interrupt(), SignalKind::terminate()];
        // Listening would replace the disposition that ignores it.
        if !ignores_hangup() {
            kinds.push(SignalKind::hangup());
        }
        let signals = kinds.into_iter().map(|kind| Ok((kind, signal(kind)?)));
        Ok(Self(signals.collect::<io::Result<_>>()?))
    }

    /// Waits for one of them, and returns it.
    async fn next(&mut self) -> SignalKind {
        let arrivals = self.0.iter_mut().map(|(kind, signal)| {
            Box::pin(async {
                signal.recv().await;
                *kind
            })
        });
        select_all(arrivals).await.0
    }
}

/// Waits for SIGINT, SIGTERM or SIGHUP, from now on. The program ends by itself if a second
/// one arrives and the work does not end.
///
/// # Errors
/// When the signals cannot be listened for.
pub fn stop_signal() -> Result<Stop, Error> {
    let failed = Error::io("listen for signals");
    IS_AWAITED.store(true, Ordering::SeqCst);
    watch().map_err(&failed)?;
    let mut signals = Signals::listen().map_err(failed)?;
    Ok(Box::pin(async move {
        signals.next().await;
    }))
}

/// Ends the program on a signal: at once where the verb does not wait for signals; on the second
/// one where it does and is still busy. After the first, says so.
///
/// The kernel does the same for a verb that does not wait, except in process 1, the program of a
/// container.
///
/// # Errors
/// When the signals cannot be listened for, or there is no thread for it.
pub fn watch() -> io::Result<()> {
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    if IS_WATCHED.swap(true, Ordering::SeqCst) {
        return Ok(());
    }
    let (ready, is_ready) = mpsc::channel();
    let listen = || -> io::Result<(Runtime, Signals)> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let signals = runtime.block_on(async { Signals::listen() })?;
        Ok((runtime, signals))
    };
    // A runtime cannot begin on the thread of another.
    let watching = move || match listen() {
        Ok((runtime, signals)) => {
            // The other end waits for this.
            let _ = ready.send(Ok(()));
            runtime.block_on(end_on(signals))
        }
        Err(error) => {
            let _ = ready.send(Err(error));
        }
    };
    let thread = thread::Builder::new().name("signals".to_owned());
    thread.spawn(watching)?;
    let gone = |_| Err(io::Error::other("the thread that listens has ended"));
    is_ready.recv().unwrap_or_else(gone)
}

/// Waits for signals, and ends the program as [`watch`] says.
async fn end_on(mut signals: Signals) -> ! {
    let mut kind = signals.next().await;
    if IS_AWAITED.load(Ordering::SeqCst) {
        tokio::time::sleep(GRACE).await;
        // Sent twice, as by `timeout`, to the process and to its group.
        while signals.next().now_or_never().is_some() {}
        eprint_line(
            "interrupted: waiting for what was started to end; a second signal ends this program \
             at once",
        );
        kind = signals.next().await;
        tokio::time::sleep(GRACE).await;
    }
    std::process::exit(128 + kind.as_raw_value())
}

/// Returns whether the program was started with SIGHUP ignored, as `nohup` does: then the end
/// of the terminal is not to end the run.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let ignored = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let hangup = 1 << (SignalKind::hangup().as_raw_value() - 1);
    ignored.is_some_and(|mask| mask & hangup != 0)
}
