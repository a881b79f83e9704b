//! A moto server for one test, also of the emulator's.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use epochcost_testing::{or_skip, watch};

/// Variable with the path of the program, where it is not on the path.
const VARIABLE: &str = "EPOCHCOST_MOTO_SERVER";

/// Process that ends with its test.
pub struct Server {
    pub child: Child,
    pub url: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a moto server; returns nothing where it is not installed.
pub fn moto() -> Option<Server> {
    watch();
    let program = std::env::var_os(VARIABLE).map_or_else(|| "moto_server".into(), PathBuf::from);
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let child = Command::new(&program)
        .args(["-H", "127.0.0.1", "-p", &port.to_string()])
        // Its Lambda would start containers, and its AMIs take long to load.
        .env("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let missing = |error: std::io::Error| {
        let program = program.display();
        format!("{program}: {error}; pip install 'moto[server,all]' or name it in {VARIABLE}")
    };
    let server = Server {
        child: or_skip(child.map_err(missing))?,
        url: format!("http://127.0.0.1:{port}"),
    };
    let since = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(since.elapsed().as_secs() < 60, "moto did not start");
        sleep(Duration::from_millis(50));
    }
    Some(server)
}
