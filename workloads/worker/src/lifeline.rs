//! Standard input as a lifeline: the harness keeps the other end open, and when the
//! harness ends, however it does, this process ends, too.

use std::io::{self, BufRead, Read, stdin};
use std::os::fd::AsFd;
use std::{process, thread};

/// Exit status of a worker whose harness has ended.
const ORPHANED: i32 = 70;

/// Ends this process with standard input if that is a pipe, as a local harness passes
/// it. On Lambda it is no pipe, and its end means nothing.
pub fn watch_if_piped() {
    use std::os::unix::fs::FileTypeExt;
    let is_pipe = stdin()
        .as_fd()
        .try_clone_to_owned()
        .and_then(|fd| std::fs::File::from(fd).metadata())
        .is_ok_and(|metadata| metadata.file_type().is_fifo());
    if is_pipe {
        watch();
    }
}

/// Reads the first line of standard input, whose end then ends this process.
///
/// # Errors
/// When standard input cannot be read.
pub fn first_line() -> io::Result<String> {
    let mut line = String::new();
    stdin().lock().read_line(&mut line)?;
    watch();
    Ok(line)
}

/// Starts a thread that ends this process at the end of standard input.
#[expect(
    clippy::disallowed_methods,
    reason = "a worker that cannot notice the end of its harness does not run"
)]
fn watch() {
    thread::spawn(|| {
        let mut input = stdin().lock();
        let mut bytes = [0; 64];
        loop {
            match input.read(&mut bytes) {
                Ok(0) => process::exit(ORPHANED),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => process::exit(ORPHANED),
            }
        }
    });
}
