//! Instances of an emulated EC2, as processes of this machine: their user data
//! runs when they do, and they are terminated when it ends, as by a shutdown.
//!
//! Each has a loopback address of its own, so that all can listen on the same
//! ports. Programs that only their image has are stood in for by scripts.

use std::collections::HashMap;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use epochcost_servers::find;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use super::Endpoints;
use super::backend::{Backend, authorization};

/// From one look at the emulated EC2 to the next.
const LOOK: Duration = Duration::from_millis(200);
/// Where scripts work, and what stands for it here.
const HOME: &str = "/opt/epochcost";

/// Fetches and puts objects as the AWS CLI does: `aws s3 cp --quiet FROM TO`.
const AWS: &str = r#"#!/bin/bash
signed=(-fsS -H "authorization: $EMULATOR_AUTHORIZATION")
case "$4" in
s3://*) exec curl "${signed[@]}" -o "$5" "$AWS_ENDPOINT_URL_S3/${4#s3://}" ;;
esac
exec curl "${signed[@]}" -T "$4" "$AWS_ENDPOINT_URL_S3/${5#s3://}"
"#;
/// The end of the script is the instance's end.
const SHUTDOWN: &str = "#!/bin/bash\nexit 0\n";
/// What is to be installed is here already.
const INSTALLED: &str = "#!/bin/bash\nexit 0\n";
/// The address that others reach this instance at.
const HOSTNAME: &str = "#!/bin/bash\necho \"$EMULATOR_ADDRESS\"\n";
/// Redis under the name that Amazon Linux gives it.
const REDIS: &str = "#!/bin/bash\nexec redis-server \"$@\"\n";
/// The one container that is run: RabbitMQ, on the host's network, whose image
/// lets its default user in from anywhere.
const DOCKER: &str = r#"#!/bin/bash
set -euo pipefail
here=$HOME/rabbitmq
mkdir -p "$here"
cat > "$here/rabbitmq.conf" <<CONF
listeners.tcp.1 = $EMULATOR_ADDRESS:5672
loopback_users = none
log.console = true
log.file = false
CONF
echo '[].' > "$here/plugins"
export ERL_EPMD_ADDRESS=127.0.0.1 ERL_EPMD_PORT=$EMULATOR_PORT_MAPPER
export RABBITMQ_NODENAME=emulated@localhost RABBITMQ_CONFIG_FILE=$here/rabbitmq
export RABBITMQ_CONF_ENV_FILE=/dev/null RABBITMQ_ENABLED_PLUGINS_FILE=$here/plugins
export RABBITMQ_MNESIA_BASE=$here/mnesia RABBITMQ_LOG_BASE=$here/log RABBITMQ_LOGS=-
export RABBITMQ_DIST_PORT=$EMULATOR_PORT_NODES
export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1}'
# RabbitMQ starts one where there is none, and leaves it behind.
epmd -address 127.0.0.1 -port "$ERL_EPMD_PORT" &
trap "kill $!" EXIT
until (exec 3<>"/dev/tcp/127.0.0.1/$ERL_EPMD_PORT") 2>/dev/null; do sleep 0.1; done
"$EMULATOR_RABBITMQ"
"#;
/// Programs of an instance, by their names.
const PROGRAMS: [(&str, &str); 7] = [
    ("aws", AWS),
    ("shutdown", SHUTDOWN),
    ("dnf", INSTALLED),
    ("systemctl", INSTALLED),
    ("hostname", HOSTNAME),
    ("redis6-server", REDIS),
    ("docker", DOCKER),
];

/// What instances reach.
pub(super) struct Surroundings {
    /// S3, EC2 and the rest.
    pub(super) backend: Backend,
    /// Where all of it is.
    pub(super) endpoints: Endpoints,
    /// The region whose instances run here.
    pub(super) region: String,
}

/// An instance that runs.
struct Machine {
    process: Child,
    _directory: TempDir,
}

impl Drop for Machine {
    /// With everything that it started.
    fn drop(&mut self) {
        if let Some(id) = self.process.id() {
            let group = format!("-{id}");
            // It may have ended meanwhile.
            let _ = std::process::Command::new("kill")
                .args(["-KILL", "--", &group])
                .stderr(Stdio::null())
                .status();
        }
    }
}

/// The instances of a region, by their ids.
#[derive(Default)]
struct Machines {
    running: HashMap<String, Machine>,
    /// How many were started.
    started: u32,
}

/// Follows the instances of a region until it is dropped.
pub(super) fn follow(cloud: Surroundings) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut machines = Machines::default();
        loop {
            if let Err(error) = look(&cloud, &mut machines).await {
                eprintln!("failed to follow the instances: {error}");
            }
            sleep(LOOK).await;
        }
    }))
}

async fn look(cloud: &Surroundings, machines: &mut Machines) -> Result<(), String> {
    let (backend, region) = (&cloud.backend, cloud.region.as_str());
    let running = backend.running_instances(region).await?;
    machines.running.retain(|id, _| running.contains(id));
    for id in running {
        match machines.running.get_mut(&id) {
            None => {
                let script = backend.user_data(region, &id).await?;
                machines.started += 1;
                let machine = start(&script, cloud, address(machines.started));
                let machine = machine.map_err(|error| error.to_string())?;
                machines.running.insert(id, machine);
            }
            Some(machine) => {
                let ended = machine.process.try_wait();
                if ended.map_err(|error| error.to_string())?.is_some() {
                    backend.terminate(region, &id).await?;
                    machines.running.remove(&id);
                }
            }
        }
    }
    Ok(())
}

/// The loopback address of an instance: by this process, so that several
/// emulators get on, and by its number.
fn address(number: u32) -> Ipv4Addr {
    let [.., high, low] = std::process::id().to_be_bytes();
    // 127.0.0.x is everybody's, and 0 and 255 are nobody's.
    Ipv4Addr::new(127, high | 1, low, (1 + number % 253) as u8)
}

/// Runs encoded user data.
fn start(user_data: &str, cloud: &Surroundings, address: Ipv4Addr) -> std::io::Result<Machine> {
    let script = STANDARD.decode(user_data).map_err(std::io::Error::other)?;
    let script = String::from_utf8(script).map_err(std::io::Error::other)?;
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
        // The keys of the instance's role.
        .env("AWS_ACCESS_KEY_ID", "emulator")
        .env("AWS_SECRET_ACCESS_KEY", "emulator")
        .env("AWS_SESSION_TOKEN", "emulator")
        .envs(cloud.endpoints.variables())
        .env("EMULATOR_AUTHORIZATION", authorization("s3", &cloud.region))
        .env("EMULATOR_ADDRESS", address.to_string())
        .env("EMULATOR_PORT_MAPPER", mapper.to_string())
        .env("EMULATOR_PORT_NODES", nodes.to_string());
    if let Ok(rabbitmq) = find::rabbitmq() {
        command.env("EMULATOR_RABBITMQ", rabbitmq);
    }
    let process = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    Ok(Machine {
        process,
        _directory: directory,
    })
}

/// Two ports of loopback that nobody listens on.
fn free_ports() -> std::io::Result<[u16; 2]> {
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let (one, other) = (listen()?, listen()?);
    Ok([one.local_addr()?.port(), other.local_addr()?.port()])
}

fn write(directory: &Path, name: &str, text: &str) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o755)
        .open(directory.join(name))?;
    std::io::Write::write_all(&mut file, text.as_bytes())
}
