//! Two threads besides Redis' own: one computes, one answers with large values.
//!
//! Long operations run in the order of their arrival, one at a time: each is
//! bound by memory bandwidth, and the memory that it takes is bounded by one
//! result.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use crate::blocked::Blocked;

/// A client, and the work for it.
type Task = (Blocked, Box<dyn FnOnce(&Blocked) + Send>);

/// A background thread.
pub(crate) struct Worker(OnceLock<Sender<Task>>);

/// Computes.
pub(crate) static COMPUTE: Worker = Worker(OnceLock::new());
/// Copies large values into replies.
pub(crate) static REPLY: Worker = Worker(OnceLock::new());

impl Worker {
    /// Starts the thread.
    pub(crate) fn start(&self, name: &str) -> std::io::Result<()> {
        let (sender, tasks) = channel::<Task>();
        thread::Builder::new()
            .name(name.into())
            .spawn(move || tasks.into_iter().for_each(run))?;
        let _ = self.0.set(sender);
        Ok(())
    }

    /// Does `work` for `client`, which goes on after it.
    pub(crate) fn run(&self, client: Blocked, work: impl FnOnce(&Blocked) + Send + 'static) {
        let task: Task = (client, Box::new(work));
        let refused = match self.0.get() {
            Some(sender) => sender.send(task).err().map(|unsent| unsent.0),
            None => Some(task),
        };
        if let Some((client, _)) = refused {
            client.error("ERR the module's thread has ended");
        }
    }
}

fn run((client, work): Task) {
    if catch_unwind(AssertUnwindSafe(|| work(&client))).is_err() {
        client.error("ERR internal error: see the server's log");
    }
}
