//! What instances run when they start. Every script first schedules its
//! instance's end: with the behaviour `terminate`, a shutdown is its removal,
//! whether or not the harness is still there.

use jiff::Timestamp;

use crate::AwsError;
use crate::run::seconds_left;

/// The port of tensor stores.
pub const REDIS_PORT: u16 = 6379;
/// The port of queues.
pub const AMQP_PORT: u16 = 5672;

/// RabbitMQ of the release line that Amazon MQ offers, from a registry that asks
/// for no account and is in AWS itself. Its image lets the default user in from
/// everywhere; the security group admits members of the run alone.
const RABBITMQ_IMAGE: &str = "public.ecr.aws/docker/library/rabbitmq:3.13";

/// A line of a worker's log on an instance that starts with this says when it
/// `started` or `ended`, in seconds since the Unix epoch.
pub const CLOCK_PREFIX: &str = "EPOCHCOST-CLOCK ";

/// A service that a host is rented for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service {
    /// Redis.
    TensorStore {
        /// `s3://` address of the tensor store's module; none where clients
        /// compute themselves.
        module: Option<String>,
        /// `MALLOC_CONF`: how its allocator treats freed memory.
        malloc_conf: Option<String>,
    },
    /// RabbitMQ.
    Queue,
}

/// What an instance is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Duty {
    /// A service for others of the run.
    Host {
        /// Which.
        service: Service,
        /// `s3://` address that its own address is put to once it answers.
        address: String,
        /// `s3://` address that its log is put to if it ends.
        log: String,
    },
    /// A worker that runs one task, with its environment.
    Worker {
        /// `s3://` address of the worker binary.
        worker: String,
        /// `s3://` address of the task, JSON.
        task: String,
        /// `s3://` address that its log is put to at its end.
        log: String,
        /// Where the services are; names and values, never secrets.
        environment: Vec<(String, String)>,
    },
}

/// The script of an instance that must be gone at `expires`.
///
/// # Errors
/// When that is less than a minute ahead, or a value cannot be written into a
/// script.
pub fn script(duty: &Duty, expires: Timestamp) -> Result<String, AwsError> {
    let minutes = seconds_left(expires)?.div_ceil(60);
    let mut lines = vec![
        "#!/bin/bash".to_owned(),
        // First of all: whatever fails below, the instance ends.
        format!("shutdown -h +{minutes}"),
        "set -euo pipefail".to_owned(),
        "mkdir -p /opt/epochcost".to_owned(),
        "cd /opt/epochcost".to_owned(),
    ];
    match duty {
        Duty::Host {
            service,
            address,
            log,
        } => {
            lines.push("exec > log.txt 2>&1".to_owned());
            // One that cannot serve says why, and ends its instance, too.
            let log = quoted(log)?;
            lines.push(format!(
                "finish() {{ aws s3 cp --quiet log.txt {log}; shutdown -h now; }}"
            ));
            lines.push("trap finish EXIT".to_owned());
            // Before anything makes a network of its own.
            lines.push("address=$(hostname -I | cut -d' ' -f1)".to_owned());
            let (commands, port) = serve(service)?;
            lines.extend(commands);
            lines.push("server=$!".to_owned());
            lines.push(format!(
                "until (exec 3<>\"/dev/tcp/$address/{port}\") 2>/dev/null; do kill -0 \"$server\"; sleep 0.2; done"
            ));
            lines.push("echo \"$address\" > address.txt".to_owned());
            lines.push(format!(
                "aws s3 cp --quiet address.txt {}",
                quoted(address)?
            ));
            lines.push("wait \"$server\"".to_owned());
        }
        Duty::Worker {
            worker,
            task,
            log,
            environment,
        } => {
            // A worker that fails says so in its log, and ends its instance, too.
            let note = |what: &str| format!("date '+{CLOCK_PREFIX}{what} %s.%N'");
            lines.push(format!("{} > log.txt", note("started")));
            lines.push(format!(
                "finish() {{ {} >> log.txt; aws s3 cp --quiet log.txt {}; shutdown -h now; }}",
                note("ended"),
                quoted(log)?
            ));
            lines.push("trap finish EXIT".to_owned());
            lines.push(format!("aws s3 cp --quiet {} bootstrap", quoted(worker)?));
            lines.push(format!("aws s3 cp --quiet {} task.json", quoted(task)?));
            lines.push("chmod +x bootstrap".to_owned());
            for (name, value) in environment {
                lines.push(format!("export {}={}", identifier(name)?, quoted(value)?));
            }
            // Its standard input stays open: its end would end the worker.
            lines.push("mkfifo input".to_owned());
            lines.push("exec 3<>input".to_owned());
            lines.push("cat task.json >&3".to_owned());
            lines.push("./bootstrap --instance <&3 >>log.txt 2>&1".to_owned());
        }
    }
    lines.push(String::new());
    Ok(lines.join("\n"))
}

/// The commands that start a service in the background, the last of them, and
/// its port.
fn serve(service: &Service) -> Result<(Vec<String>, u16), AwsError> {
    Ok(match service {
        Service::TensorStore {
            module,
            malloc_conf,
        } => {
            let mut lines = vec!["dnf install -y -q redis6".to_owned()];
            let mut load = "";
            if let Some(module) = module {
                lines.push(format!("aws s3 cp --quiet {} module.so", quoted(module)?));
                // Redis loads no module that cannot be executed.
                lines.push("chmod +x module.so".to_owned());
                load = " --loadmodule /opt/epochcost/module.so";
            }
            if let Some(value) = malloc_conf {
                // The distribution's allocator reads one name, Redis' own copy of it the other.
                for name in ["MALLOC_CONF", "JE_MALLOC_CONF"] {
                    lines.push(format!("export {name}={}", quoted(value)?));
                }
            }
            // The security group admits members of the run alone.
            lines.push(format!(
                "redis6-server --port {REDIS_PORT} --bind \"$address\" --protected-mode no \
                 --save '' --appendonly no{load} &"
            ));
            (lines, REDIS_PORT)
        }
        Service::Queue => {
            let lines = [
                "dnf install -y -q docker",
                "systemctl start docker",
                &format!("docker run --rm --network host {RABBITMQ_IMAGE} &"),
            ];
            (lines.map(str::to_owned).to_vec(), AMQP_PORT)
        }
    })
}

/// A word of a shell that stands for itself.
fn quoted(value: &str) -> Result<String, AwsError> {
    if value.contains(['\0', '\n', '\r']) {
        return Err(AwsError::Unusable {
            problem: format!("{value:?} cannot be written into a start script"),
            remedy: "leave out line breaks".to_owned(),
        });
    }
    Ok(format!("'{}'", value.replace('\'', r"'\''")))
}

fn identifier(name: &str) -> Result<&str, AwsError> {
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !name.is_empty()
        && name.chars().all(letter)
        && !name.starts_with(|c: char| c.is_ascii_digit())
    {
        return Ok(name);
    }
    Err(AwsError::Unusable {
        problem: format!("{name:?} is no name of an environment variable"),
        remedy: "use letters, digits and underscores".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;
    use std::process::Command;

    use super::*;

    fn in_an_hour() -> Timestamp {
        Timestamp::from_second(Timestamp::now().as_second() + 3600).unwrap()
    }

    fn worker() -> Duty {
        Duty::Worker {
            worker: "s3://code/it's here".into(),
            task: "s3://code/task.json".into(),
            log: "s3://exchange/log.txt".into(),
            environment: vec![("GREETING".into(), "it's $HOME `id`".into())],
        }
    }

    /// Programs that say how they were called, in place of the instance's.
    fn stand_ins(directory: &Path) {
        let put = |name: &str, text: &str| {
            let path = directory.join(name);
            std::fs::write(&path, format!("#!/bin/bash\n{text}\n")).unwrap();
            let chmod = Command::new("chmod").arg("+x").arg(path).status();
            assert!(chmod.unwrap().success());
        };
        let calls = directory.join("calls");
        let say = |name: &str| format!("echo {name} \"$@\" >> {}", calls.display());
        put("shutdown", &say("shutdown"));
        put("dnf", &say("dnf"));
        put(
            "redis6-server",
            &format!("echo this is Redis; {}", say("redis6-server")),
        );
        put("hostname", "echo 127.9.9.9 172.17.0.1");
        // A worker that says what it was given, and a log that comes to a file.
        let worker = "read task; echo \"$1 $task $GREETING\"; exit ${FAILS:-0}";
        let fetch = format!(
            "{}\ncase \"$5\" in\n bootstrap) printf '#!/bin/bash\\n%s\\n' '{worker}' > bootstrap;;\n \
             task.json) echo '{{\"a\": 1}}' > task.json;;\n module.so) touch module.so;;\n s3:*) cp log.txt {}/log;;\nesac",
            say("aws"),
            directory.display()
        );
        put("aws", &fetch);
    }

    /// Runs a script as its instance would, somewhere else.
    fn run(script: &str, fails: bool) -> (String, String) {
        let directory = tempfile::tempdir().unwrap();
        stand_ins(directory.path());
        let here = directory.path().join("opt");
        let script = script.replace("/opt/epochcost", &here.display().to_string());
        let path = format!("{}:/usr/bin:/bin", directory.path().display());
        let mut bash = Command::new("bash");
        bash.args(["-c", &script]).env("PATH", path);
        if fails {
            bash.env("FAILS", "3");
        }
        bash.status().unwrap();
        let read = |name: &str| std::fs::read_to_string(directory.path().join(name));
        (read("calls").unwrap(), read("log").unwrap_or_default())
    }

    #[test]
    fn a_worker_runs_its_task_hands_in_its_log_and_ends_its_instance() {
        for fails in [false, true] {
            let (calls, log) = run(&script(&worker(), in_an_hour()).unwrap(), fails);
            let lines: Vec<&str> = log.lines().collect();
            assert!(lines[0].starts_with("EPOCHCOST-CLOCK started 1"), "{log}");
            assert_eq!(lines[1], "--instance {\"a\": 1} it's $HOME `id`");
            assert!(lines[2].starts_with("EPOCHCOST-CLOCK ended 1"), "{log}");
            let calls: Vec<&str> = calls.lines().collect();
            assert_eq!(calls.first(), Some(&"shutdown -h +60"));
            assert_eq!(calls.last(), Some(&"shutdown -h now"));
            assert!(
                calls.contains(&"aws s3 cp --quiet s3://code/it's here bootstrap"),
                "{calls:?}"
            );
        }
    }

    fn host(service: Service) -> Duty {
        Duty::Host {
            service,
            address: "s3://objects/address.txt".into(),
            log: "s3://objects/log.txt".into(),
        }
    }

    fn store(module: Option<&str>) -> Duty {
        host(Service::TensorStore {
            module: module.map(str::to_owned),
            malloc_conf: Some("dirty_decay_ms:-1".into()),
        })
    }

    /// The server of the stand-ins ends at once: no address is told, and the log is.
    #[test]
    fn a_tensor_store_that_does_not_come_up_hands_in_its_log_and_ends_its_instance() {
        let (calls, log) = run(
            &script(&store(Some("s3://code/module.so")), in_an_hour()).unwrap(),
            false,
        );
        let lines: Vec<&str> = calls.lines().collect();
        assert_eq!(lines.first(), Some(&"shutdown -h +60"));
        assert_eq!(lines.last(), Some(&"shutdown -h now"));
        assert!(
            lines.contains(&"aws s3 cp --quiet s3://code/module.so module.so"),
            "{calls}"
        );
        assert!(
            calls.contains("redis6-server --port 6379 --bind 127.9.9.9"),
            "{calls}"
        );
        assert!(calls.contains("--loadmodule"), "{calls}");
        assert!(!calls.contains("address.txt"), "{calls}");
        // What the server said, and that it is gone.
        assert!(log.contains("this is Redis"), "{log}");
    }

    #[test]
    fn what_is_not_asked_for_is_not_loaded() {
        let text = script(&store(None), in_an_hour()).unwrap();
        assert!(!text.contains("module"), "{text}");
        let text = script(&host(Service::Queue), in_an_hour()).unwrap();
        assert!(!text.contains("redis"), "{text}");
        assert!(text.contains("rabbitmq:3.13 &"), "{text}");
        assert!(text.contains("$address/5672"), "{text}");
    }

    #[test]
    fn no_instance_is_started_for_a_run_that_is_over() {
        let past = Timestamp::from_second(Timestamp::now().as_second() - 1).unwrap();
        assert!(script(&worker(), past).is_err());
    }

    #[test]
    fn what_cannot_be_a_word_is_refused() {
        let mut duty = worker();
        if let Duty::Worker { environment, .. } = &mut duty {
            environment[0] = ("A;B".into(), "x".into());
        }
        assert!(script(&duty, in_an_hour()).is_err());
        assert!(script(&store(Some("s3://a\nreboot")), in_an_hour()).is_err());
    }
}
