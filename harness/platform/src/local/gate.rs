//! Gates: ports in front of a trial's servers, at which injected faults make a server die,
//! hang, restart or be slow, as its clients see it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use epochcost_environment::worker as variable;
use epochcost_systems::{Breakdown, BrokenServer, Fault, FaultKind, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

/// Bytes that are passed on at once.
const CHUNK_BYTES: usize = 64 << 10;
/// Pause before a port is listened at again, or a connection taken, after that failed.
const AGAIN: Duration = Duration::from_millis(10);

/// The gates of a trial's servers, and the faults that close them.
pub(super) struct Gates {
    faults: Vec<Fault>,
    /// Gates of the servers of each kind.
    gates: Vec<(Server, Vec<Gate>)>,
}

impl Gates {
    /// Puts a gate before every server that `environment` names, and its address into the
    /// server's place; none for rows without faults of servers.
    ///
    /// # Errors
    /// When there is no free port.
    pub(super) async fn before(
        environment: &mut [(String, String)],
        faults: &[Fault],
    ) -> io::Result<Self> {
        let mut gates = Self {
            faults: faults.to_vec(),
            gates: Vec::new(),
        };
        let is_of_server = |fault: &Fault| matches!(fault.kind, FaultKind::Server(_));
        if !faults.iter().any(is_of_server) {
            return Ok(gates);
        }
        for (name, addresses) in environment {
            let kind = match name.as_str() {
                variable::OBJECTS => Server::ObjectStore,
                variable::TENSORS => Server::TensorStore,
                variable::QUEUE => Server::Queue,
                _ => continue,
            };
            let (mut own, mut gated) = (Vec::new(), Vec::new());
            // No store is no address.
            for address in addresses.split(',').filter(|one| !one.is_empty()) {
                let (before, server, after) = parts(address);
                let gate = Gate::before(server.to_owned()).await?;
                gated.push(format!("{before}{}{after}", gate.address));
                own.push(gate);
            }
            *addresses = gated.join(",");
            gates.gates.push((kind, own));
        }
        Ok(gates)
    }

    /// Breaks the server of a fault, as its clients see it from then on; returns whether it is one
    /// of a server.
    pub(super) async fn suffer(&self, number: usize) -> bool {
        let Some((gate, does)) = self.of(number) else {
            return false;
        };
        gate.suffer(does).await;
        true
    }

    /// Returns the gate of the server that a fault breaks, and how: of tensor stores that of the
    /// fault's worker.
    fn of(&self, number: usize) -> Option<(&Gate, Breakdown)> {
        let fault = self.faults.get(number)?;
        let FaultKind::Server(BrokenServer { which, does }) = fault.kind else {
            return None;
        };
        let (_, gates) = self.gates.iter().find(|(kind, _)| *kind == which)?;
        let place = fault.rank.checked_rem(gates.len())?;
        Some((&gates[place], does))
    }
}

/// Splits `SCHEME://[CREDENTIALS@]HOST:PORT[/PATH]` around host and port.
fn parts(address: &str) -> (&str, &str, &str) {
    let start = address.find("://").map_or(0, |at| at + 3);
    let credentials = address[start..].rfind('@');
    let start = credentials.map_or(start, |at| start + at + 1);
    let path = address[start..].find('/');
    let end = path.map_or(address.len(), |at| start + at);
    (&address[..start], &address[start..end], &address[end..])
}

/// What a server does to its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    Sound,
    Dead,
    /// Dead for a time, which the gate's task measures: no absence is too short to be noticed.
    Away(Duration),
    Silent,
    Slow(Duration),
}

/// Waits for a condition that is `wanted`, and returns it; none when the gate is gone.
async fn when(
    condition: &mut watch::Receiver<Condition>,
    wanted: fn(&Condition) -> bool,
) -> Option<Condition> {
    let found = condition.wait_for(wanted).await;
    found.ok().map(|found| *found)
}

/// A port in front of one server. Dropping it ends its connections.
struct Gate {
    address: SocketAddr,
    condition: Arc<watch::Sender<Condition>>,
    /// How often its connections have ended.
    ends: Arc<watch::Sender<u64>>,
    _serving: AbortOnDropHandle<()>,
}

impl Gate {
    async fn before(server: String) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let condition = Arc::new(watch::Sender::new(Condition::Sound));
        let ends = Arc::new(watch::Sender::new(0));
        let (own, count) = (condition.clone(), ends.clone());
        let serving = serve(listener, address, server.into(), own, count);
        Ok(Self {
            address,
            condition,
            ends,
            _serving: AbortOnDropHandle::new(tokio::spawn(serving)),
        })
    }

    /// Breaks the server; returns once no connection to it is left, where it dies.
    async fn suffer(&self, breakdown: Breakdown) {
        let mut ends = self.ends.subscribe();
        let before = self.condition.send_replace(match breakdown {
            Breakdown::Dies => Condition::Dead,
            Breakdown::RestartsAfterMs(away_ms) => Condition::Away(Duration::from_millis(away_ms)),
            Breakdown::Hangs => Condition::Silent,
            Breakdown::SlowByMs(late_ms) => Condition::Slow(Duration::from_millis(late_ms)),
        });
        let dies = matches!(breakdown, Breakdown::Dies | Breakdown::RestartsAfterMs(_));
        if dies && !before.is_dead() {
            // The sender is this gate's own.
            let _ = ends.changed().await;
        }
    }
}

impl Condition {
    fn is_dead(&self) -> bool {
        matches!(self, Self::Dead | Self::Away(_))
    }
}

/// Takes connections as long as the server is not dead, and again when it is there again.
async fn serve(
    listener: TcpListener,
    address: SocketAddr,
    server: Arc<str>,
    condition: Arc<watch::Sender<Condition>>,
    ends: Arc<watch::Sender<u64>>,
) {
    let mut listener = Some(listener);
    let mut watched = condition.subscribe();
    loop {
        let now = *watched.borrow_and_update();
        // Also where it died before it took any again.
        ends.send_modify(|ends| *ends += u64::from(now.is_dead()));
        match now {
            Condition::Dead => {
                // The sender is this task's own.
                let _ = watched.changed().await;
                continue;
            }
            Condition::Away(away) => {
                sleep(away).await;
                let back = |now: &mut Condition| {
                    let is_back = matches!(now, Condition::Away(_));
                    if is_back {
                        *now = Condition::Sound;
                    }
                    is_back
                };
                condition.send_if_modified(back);
                continue;
            }
            _ => {}
        }
        let taken = match listener.take() {
            Some(listener) => Ok(listener),
            None => TcpListener::bind(address).await,
        };
        let Ok(taken) = taken else {
            sleep(AGAIN).await;
            continue;
        };
        let mut connections = JoinSet::new();
        let dead = when(&mut watched, Condition::is_dead);
        tokio::pin!(dead);
        loop {
            tokio::select! {
                _ = &mut dead => break,
                Some(_) = connections.join_next() => {}
                accepted = taken.accept() => match accepted {
                    Ok((client, _)) => {
                        connections.spawn(pass(client, server.clone(), condition.subscribe()));
                    }
                    Err(_) => sleep(AGAIN).await,
                }
            }
        }
        connections.shutdown().await;
        // For no time it is not away.
        let is_kept = *condition.borrow() == Condition::Away(Duration::ZERO);
        listener = is_kept.then_some(taken);
        ends.send_modify(|ends| *ends += 1);
    }
}

/// Passes on what a client and the server say, until one of them ends.
async fn pass(client: TcpStream, server: Arc<str>, condition: watch::Receiver<Condition>) {
    let passing = async {
        let server = TcpStream::connect(&*server).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let answered = AtomicBool::new(true);
        let up = copy(from_client, to_server, condition.clone(), || {
            answered.swap(false, Ordering::Relaxed)
        });
        let down = copy(from_server, to_client, condition.clone(), || {
            answered.store(true, Ordering::Relaxed);
            false
        });
        tokio::try_join!(up, down).map(drop)
    };
    // A connection that breaks is closed, as the server's own would be.
    let passed: io::Result<()> = passing.await;
    drop(passed);
}

/// Passes bytes on. What `begins` a request waits for a slow server.
async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut condition: watch::Receiver<Condition>,
    begins: impl Fn() -> bool,
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = from.read(&mut chunk).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        let now = when(&mut condition, |now| *now != Condition::Silent).await;
        let begins = begins();
        if let Some(Condition::Slow(late)) = now
            && begins
        {
            sleep(late).await;
        }
        to.write_all(&chunk[..read]).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_split_around_its_host() {
        for (before, host, behind) in [
            ("redis://:word@", "127.0.0.1:1", ""),
            ("http://k:s@", "h:9", "/bucket"),
            ("amqp://u:p@", "h:5672", "/%2f"),
            ("redis://", "127.0.0.1:2", ""),
        ] {
            let address = format!("{before}{host}{behind}");
            assert_eq!(parts(&address), (before, host, behind));
        }
    }

    /// A row without tensor stores names none, and a fault of a shared one is of that one.
    #[tokio::test]
    async fn gates_are_before_the_servers_that_there_are() {
        let broken = |which| {
            let does = Breakdown::Dies;
            Fault::at_gradient(2, 0, 0, FaultKind::Server(BrokenServer { which, does }))
        };
        let faults = [Server::ObjectStore, Server::TensorStore].map(broken);
        for (stores, names) in [("", false), ("redis://127.0.0.1:2", true)] {
            let named = |name: &str, address: &str| (name.to_owned(), address.to_owned());
            let mut environment = [
                named(variable::OBJECTS, "http://k:s@127.0.0.1:1/b"),
                named(variable::TENSORS, stores),
            ];
            let gates = Gates::before(&mut environment, &faults).await.unwrap();
            assert_eq!(environment[1].1.is_empty(), !names);
            assert_eq!(gates.gates[1].1.len(), usize::from(names));
            assert!(gates.suffer(0).await);
            assert_eq!(gates.suffer(1).await, names);
        }
    }

    /// A server that says what it hears, and a gate before it.
    async fn echo() -> (Gate, AbortOnDropHandle<()>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serving = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
        let gate = Gate::before(address).await.unwrap();
        (gate, AbortOnDropHandle::new(serving))
    }

    async fn asked(stream: &mut TcpStream) -> io::Result<[u8; 4]> {
        stream.write_all(b"ping").await?;
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).await?;
        Ok(answer)
    }

    #[tokio::test]
    async fn a_gate_passes_dies_and_is_there_again() {
        let (gate, _server) = echo().await;
        let mut stream = TcpStream::connect(gate.address).await.unwrap();
        assert_eq!(asked(&mut stream).await.unwrap(), *b"ping");
        gate.suffer(Breakdown::RestartsAfterMs(300)).await;
        assert!(asked(&mut stream).await.is_err(), "its connections end");
        assert!(TcpStream::connect(gate.address).await.is_err());
        let mut condition = gate.condition.subscribe();
        let sound = condition.wait_for(|now| *now == Condition::Sound).await;
        drop(sound.unwrap());
        let mut stream = loop {
            match TcpStream::connect(gate.address).await {
                Ok(stream) => break stream,
                Err(_) => sleep(AGAIN).await,
            }
        };
        assert_eq!(asked(&mut stream).await.unwrap(), *b"ping");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_restart_ends_every_connection_however_short_it_is() {
        let (gate, _server) = echo().await;
        for restart in 0..200 {
            let mut stream = TcpStream::connect(gate.address).await.unwrap();
            assert_eq!(asked(&mut stream).await.unwrap(), *b"ping");
            gate.suffer(Breakdown::RestartsAfterMs(0)).await;
            assert!(asked(&mut stream).await.is_err(), "restart {restart}");
        }
    }

    #[tokio::test]
    async fn a_silent_gate_takes_connections_and_answers_nothing() {
        let (gate, _server) = echo().await;
        gate.suffer(Breakdown::Hangs).await;
        let mut stream = TcpStream::connect(gate.address).await.unwrap();
        let answer = tokio::time::timeout(Duration::from_millis(200), asked(&mut stream));
        assert!(answer.await.is_err(), "it waits");
        // What it had been asked before it was slow is answered in the end.
        gate.suffer(Breakdown::SlowByMs(50)).await;
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, *b"ping");
    }
}
