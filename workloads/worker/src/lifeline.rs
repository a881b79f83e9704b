//! Standard input as the harness's lifeline: the harness holds the other end
//! open, and its end, however the harness came to it, ends this process.

use std::io::{self, BufRead, Read, stdin};
use std::os::fd::AsFd;
use std::{process, thread};

/// Exit status of a worker whose harness is no more.
const ORPHANED: i32 = 70;

/// Holds on to standard input if a local harness gave a pipe. On Lambda it is
/// something else, and its end means nothing.
pub fn hold_if_piped() {
    use std::os::unix::fs::FileTypeExt;
    let is_pipe = stdin()
        .as_fd()
        .try_clone_to_owned()
        .and_then(|fd| std::fs::File::from(fd).metadata())
        .is_ok_and(|metadata| metadata.file_type().is_fifo());
    if is_pipe {
        hold();
    }
}

/// The first line of standard input, which is then held on to.
pub fn first_line() -> io::Result<String> {
    let mut line = String::new();
    stdin().lock().read_line(&mut line)?;
    hold();
    Ok(line)
}

fn hold() {
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
