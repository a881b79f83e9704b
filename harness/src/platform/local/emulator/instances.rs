//! Instances of an emulated EC2, as processes of this machine: their user data
//! runs when they do, and they are terminated when it ends, as by a shutdown.

use std::collections::HashMap;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use super::backend::{Backend, authorization};

/// From one look at the emulated EC2 to the next.
const LOOK: Duration = Duration::from_millis(200);
/// Where scripts work, and what stands for it here.
const HOME: &str = "/opt/epochcost";

/// Fetches and puts objects as the AWS CLI does: `aws s3 cp --quiet FROM TO`.
const AWS: &str = r#"#!/bin/bash
signed=(-fsS -H "authorization: $EMULATOR_AUTHORIZATION")
case "$4" in
s3://*) exec curl "${signed[@]}" -o "$5" "$AWS_ENDPOINT_URL/${4#s3://}" ;;
esac
exec curl "${signed[@]}" -T "$4" "$AWS_ENDPOINT_URL/${5#s3://}"
"#;
/// The end of the script is the instance's end.
const SHUTDOWN: &str = "#!/bin/bash\nexit 0\n";

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

/// Follows the instances of a region until it is dropped.
pub(super) fn follow(backend: Backend, region: String) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut machines: HashMap<String, Machine> = HashMap::new();
        loop {
            if let Err(error) = look(&backend, &region, &mut machines).await {
                eprintln!("failed to follow the instances: {error}");
            }
            sleep(LOOK).await;
        }
    }))
}

async fn look(
    backend: &Backend,
    region: &str,
    machines: &mut HashMap<String, Machine>,
) -> Result<(), String> {
    let running = backend.running_instances(region).await?;
    machines.retain(|id, _| running.contains(id));
    for id in running {
        match machines.get_mut(&id) {
            None => {
                let script = backend.user_data(region, &id).await?;
                let machine = start(&script, backend.endpoint(), region);
                machines.insert(id, machine.map_err(|error| error.to_string())?);
            }
            Some(machine) => {
                let ended = machine
                    .process
                    .try_wait()
                    .map_err(|error| error.to_string())?;
                if ended.is_some() {
                    backend.terminate(region, &id).await?;
                    machines.remove(&id);
                }
            }
        }
    }
    Ok(())
}

/// Runs encoded user data.
fn start(user_data: &str, endpoint: &str, region: &str) -> std::io::Result<Machine> {
    let script = STANDARD.decode(user_data).map_err(std::io::Error::other)?;
    let script = String::from_utf8(script).map_err(std::io::Error::other)?;
    let directory = TempDir::with_prefix("epochcost-instance-")?;
    write(directory.path(), "aws", AWS)?;
    write(directory.path(), "shutdown", SHUTDOWN)?;
    let home = directory.path().join("home").display().to_string();
    let process = Command::new("bash")
        .args(["-c", &script.replace(HOME, &home)])
        .env_clear()
        .env(
            "PATH",
            format!(
                "{}:/usr/local/bin:/usr/bin:/bin",
                directory.path().display()
            ),
        )
        .env("HOME", directory.path())
        .env("AWS_REGION", region)
        // The keys of the instance's role.
        .env("AWS_ACCESS_KEY_ID", "emulator")
        .env("AWS_SECRET_ACCESS_KEY", "emulator")
        .env("AWS_SESSION_TOKEN", "emulator")
        .env("AWS_ENDPOINT_URL", endpoint)
        .env("EMULATOR_AUTHORIZATION", authorization("s3", region))
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

fn write(directory: &Path, name: &str, text: &str) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o755)
        .open(directory.join(name))?;
    std::io::Write::write_all(&mut file, text.as_bytes())
}
