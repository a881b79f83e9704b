//! Instances of an emulated EC2, as processes of this machine. Their user data
//! starts with the instance, and the instance is terminated when it ends, as by a
//! shutdown.
//!
//! Each instance has a loopback address of its own, so that all can listen on the
//! same ports. Scripts replace the programs that only an instance's image has.

use std::collections::HashMap;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use epochcost_servers::find;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use crate::backend::{Backend, authorization};
use crate::clock::Clock;
use crate::endpoints::Endpoints;
use crate::meter::Meter;

/// File with the minutes until an instance's shutdown.
const SCHEDULED: &str = "shutdown-minutes";
/// Polling interval of the emulated EC2.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Working directory of start scripts; replaced by a temporary one.
const HOME: &str = "/opt/epochcost";

/// AWS CLI, as far as it fetches and puts objects: `aws s3 cp --quiet FROM TO`.
const AWS: &str = include_str!("programs/aws.sh");
/// Shutdown: `shutdown -h +MINUTES` leaves the minutes for the emulator; the end of the script ends
/// the instance by itself.
const SHUTDOWN: &str = include_str!("programs/shutdown.sh");
/// Package and service managers: everything is installed already.
const INSTALLED: &str = "#!/bin/bash\nexit 0\n";
/// Address at which others reach the instance.
const HOSTNAME: &str = "#!/bin/bash\necho \"$EMULATOR_ADDRESS\"\n";
/// Redis under its name on Amazon Linux.
const REDIS: &str = "#!/bin/bash\nexec redis-server \"$@\"\n";
/// Docker, as far as it runs one container: RabbitMQ on the host's network, which
/// admits its default user from anywhere.
const DOCKER: &str = include_str!("programs/docker.sh");
/// Programs of an instance: name and script.
const PROGRAMS: [(&str, &str); 7] = [
    ("aws", AWS),
    ("shutdown", SHUTDOWN),
    ("dnf", INSTALLED),
    ("systemctl", INSTALLED),
    ("hostname", HOSTNAME),
    ("redis6-server", REDIS),
    ("docker", DOCKER),
];

/// Services that instances reach.
pub(crate) struct Surroundings {
    /// Emulator of EC2, S3 and the rest.
    pub(crate) backend: Backend,
    /// Endpoints of all services.
    pub(crate) endpoints: Endpoints,
    /// Region whose instances run here.
    pub(crate) region: String,
    /// Clock of their shutdowns.
    pub(crate) clock: Arc<Clock>,
    /// Charges.
    pub(crate) meter: Arc<Meter>,
}

/// Running instance.
struct Instance {
    process: Child,
    directory: TempDir,
    /// Time of its start, seconds since the Unix epoch.
    started_s: f64,
}

impl Instance {
    /// Returns whether its own shutdown is due.
    fn is_over(&self, now_s: f64) -> bool {
        let scheduled = std::fs::read_to_string(self.directory.path().join(SCHEDULED));
        let minutes: Option<f64> = scheduled.ok().and_then(|text| text.trim().parse().ok());
        minutes.is_some_and(|minutes| now_s >= self.started_s + 60.0 * minutes)
    }
}

impl Drop for Instance {
    /// Ends the instance with everything that it started.
    fn drop(&mut self) {
        if let Some(id) = self.process.id() {
            let group = format!("-{id}");
            // The process may have ended already.
            let _ = std::process::Command::new("kill")
                .args(["-KILL", "--", &group])
                .stderr(Stdio::null())
                .status();
        }
    }
}

/// Instances of a region.
#[derive(Default)]
struct Instances {
    /// Running instances by id.
    running: HashMap<String, Instance>,
    /// Number of instances started so far.
    started: u32,
}

/// Runs the instances of a region until the handle is dropped.
pub(crate) fn follow(cloud: Surroundings) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut instances = Instances::default();
        loop {
            if let Err(error) = poll(&cloud, &mut instances).await {
                eprintln!("failed to follow the instances: {error}");
            }
            sleep(POLL_INTERVAL).await;
        }
    }))
}

/// Starts what the emulated EC2 runs and this machine does not yet, and terminates
/// what has ended here.
async fn poll(cloud: &Surroundings, instances: &mut Instances) -> Result<(), String> {
    let (backend, region) = (&cloud.backend, cloud.region.as_str());
    let running: HashMap<String, String> = (backend.running_instances(region).await?)
        .into_iter()
        .collect();
    charge(cloud, &running).await?;
    instances.running.retain(|id, _| running.contains_key(id));
    for id in running.into_keys() {
        match instances.running.get_mut(&id) {
            None => {
                let script = backend.user_data(region, &id).await?;
                instances.started += 1;
                let instance = start(&script, cloud, address(instances.started));
                let instance = instance.map_err(|error| error.to_string())?;
                instances.running.insert(id, instance);
            }
            Some(instance) => {
                let ended = instance.process.try_wait();
                let ended = ended.map_err(|error| error.to_string())?.is_some();
                if ended || instance.is_over(cloud.clock.now_s()) {
                    backend.terminate(region, &id).await?;
                    instances.running.remove(&id);
                }
            }
        }
    }
    Ok(())
}

/// Charges what exists and is paid by the hour: running instances by type, with their addresses,
/// and interface endpoints.
async fn charge(cloud: &Surroundings, running: &HashMap<String, String>) -> Result<(), String> {
    let mut rented: HashMap<String, String> = HashMap::new();
    for (id, kind) in running {
        rented.insert(id.clone(), format!("ec2/{kind}"));
        rented.insert(format!("address of {id}"), "ipv4_address_hour".to_owned());
    }
    for id in cloud.backend.interface_endpoints(&cloud.region).await? {
        rented.insert(id, "vpc_endpoint_hour".to_owned());
    }
    cloud.meter.rented(&rented, cloud.clock.now_s());
    Ok(())
}

/// Returns the loopback address of an instance: derived from this process's id, so
/// that several emulators can run at once, and from the instance's number.
fn address(number: u32) -> Ipv4Addr {
    let [.., high, low] = std::process::id().to_be_bytes();
    // 127.0.0.x is used by other programs; last bytes 0 and 255 are not host addresses.
    Ipv4Addr::new(127, high | 1, low, (1 + number % 253) as u8)
}

/// Starts an instance with its encoded user data.
fn start(user_data: &str, cloud: &Surroundings, address: Ipv4Addr) -> std::io::Result<Instance> {
    let script = STANDARD.decode(user_data).map_err(std::io::Error::other)?;
    let script = String::from_utf8(script).map_err(std::io::Error::other)?;
    // A directory with the programs of its image, in front of the path.
    let directory = TempDir::with_prefix("epochcost-instance-")?;
    for (name, text) in PROGRAMS {
        write(directory.path(), name, text)?;
    }
    let home = directory.path().join("home").display().to_string();
    let path = directory.path().display();
    let [mapper, nodes] = free_ports()?;
    let mut command = Command::new("bash");
    command
        .args(["-c", &script.replace(HOME, &home)])
        .env_clear()
        .env("PATH", format!("{path}:/usr/local/bin:/usr/bin:/bin"))
        .env("HOME", directory.path())
        .env("AWS_REGION", &cloud.region)
        // Keys of the instance's role.
        .env("AWS_ACCESS_KEY_ID", "emulator")
        .env("AWS_SECRET_ACCESS_KEY", "emulator")
        .env("AWS_SESSION_TOKEN", "emulator")
        .envs(cloud.endpoints.variables())
        .env("EMULATOR_AUTHORIZATION", authorization("s3", &cloud.region))
        .env("EMULATOR_ADDRESS", address.to_string())
        .env("EMULATOR_SCHEDULED", directory.path().join(SCHEDULED))
        .env("EMULATOR_PORT_MAPPER", mapper.to_string())
        .env("EMULATOR_PORT_NODES", nodes.to_string());
    if let Ok(rabbitmq) = find::rabbitmq() {
        command.env("EMULATOR_RABBITMQ", rabbitmq);
    }
    // A process group, so that everything ends with the instance.
    let process = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    Ok(Instance {
        process,
        directory,
        started_s: cloud.clock.now_s(),
    })
}

/// Returns two free ports of the loopback interface.
fn free_ports() -> std::io::Result<[u16; 2]> {
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let (one, other) = (listen()?, listen()?);
    Ok([one.local_addr()?.port(), other.local_addr()?.port()])
}

/// Writes an executable script.
fn write(directory: &Path, name: &str, text: &str) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o755)
        .open(directory.join(name))?;
    std::io::Write::write_all(&mut file, text.as_bytes())
}
