//! Emulated cloud for tests: this crate's emulator serves Lambda, Step Functions and
//! CloudWatch and runs the instances of moto's EC2; moto serves everything else.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use epochcost_record::RunDirectory;
use epochcost_servers::find;
use epochcost_systems::Host;
use epochcost_testing::{or_skip, watch};
use serde_json::Value;
use tempfile::TempDir;

/// The region of the shipped prices: a run elsewhere is refused without others.
pub const REGION: &str = "us-east-1";

/// Process that ends with its test.
pub struct Server {
    child: Child,
    pub url: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a moto server; nothing where it is not installed.
fn moto() -> Option<Server> {
    watch();
    let program = std::env::var_os("EPOCHCOST_MOTO_SERVER")
        .map_or_else(|| PathBuf::from("moto_server"), PathBuf::from);
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let child = Command::new(&program)
        .args(["-H", "127.0.0.1", "-p", &port.to_string()])
        .env("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let child = match child {
        Ok(child) => child,
        Err(error) => return or_skip(Err(format!("{}: {error}", program.display()))),
    };
    let server = Server {
        child,
        url: format!("http://127.0.0.1:{port}"),
    };
    let since = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(
            since.elapsed() < Duration::from_secs(60),
            "moto did not start"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    Some(server)
}

/// Path of the program under test: `EPOCHCOST_BIN`, or `epochcost` beside the emulator.
/// It must have been built with the feature `aws`.
pub fn epochcost() -> PathBuf {
    let beside =
        || Path::new(env!("CARGO_BIN_EXE_epochcost-aws-emulator")).with_file_name("epochcost");
    let program = std::env::var_os("EPOCHCOST_BIN").map_or_else(beside, PathBuf::from);
    assert!(
        program.is_file(),
        "there is no {}: build it with `cargo build --release -p epochcost --features \
         epochcost/aws`, or set EPOCHCOST_BIN",
        program.display()
    );
    program
}

/// Path of the worker: `EPOCHCOST_WORKER`, or `bootstrap` beside the emulator.
pub fn worker() -> PathBuf {
    let beside =
        || Path::new(env!("CARGO_BIN_EXE_epochcost-aws-emulator")).with_file_name("bootstrap");
    std::env::var_os("EPOCHCOST_WORKER").map_or_else(beside, PathBuf::from)
}

/// Emulated cloud.
pub struct Cloud {
    pub moto: Server,
    pub emulator: Server,
    /// Endpoint of the emulator's S3.
    pub objects: String,
    /// Temporary files of the emulator, which is killed before it can remove its own.
    _files: TempDir,
}

impl Cloud {
    pub fn start() -> Option<Self> {
        let moto = moto()?;
        let files = TempDir::new().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_epochcost-aws-emulator"))
            .args(["--backend", &moto.url, "--region", REGION])
            .env("TMPDIR", files.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let of = |service: &str| {
            let value = line.split(&format!("AWS_ENDPOINT_URL_{service}=")).nth(1);
            value.unwrap().split_whitespace().next().unwrap().to_owned()
        };
        let objects = of("S3");
        let emulator = Server {
            url: of("LAMBDA"),
            child,
        };
        Some(Self {
            moto,
            emulator,
            objects,
            _files: files,
        })
    }

    /// Returns nothing where a program of the hosts of services is not installed.
    pub fn start_with_services() -> Option<Self> {
        let programs = find::redis().and(find::rabbitmq()).and(find::module());
        or_skip(programs)?;
        Self::start()
    }

    /// Returns the emulated cloud's time, charges, rented resources and running executions.
    pub fn account(&self) -> Value {
        let answer = ask_at(
            &self.emulator.url,
            "GET",
            "/emulator/account",
            "x",
            "text/plain",
            "",
        );
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap()
    }

    fn control(&self, path: &str) {
        let answer = ask_at(&self.emulator.url, "POST", path, "x", "text/plain", "");
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }

    /// Sets the emulated cloud's clock forward.
    pub fn skip(&self, seconds: u64) {
        self.control(&format!("/emulator/skip/{seconds}"));
    }

    /// Lets `times` spans of `seconds` pass, longer than any wait of a workflow. A span begins when all
    /// executions wait: what they do between their waits takes real time, on a busy machine more of
    /// it, and none of the cloud's.
    pub fn pass(&self, times: usize, seconds: u64, patience: Duration) {
        let since = Instant::now();
        // How often each had waited when the last span passed.
        let mut passed = Value::Null;
        for _ in 0..times {
            loop {
                let account = self.account();
                let mut running = texts(&account["running"]).into_iter();
                let waits_again = |arn: String| {
                    let entered = &account["waiting"][&arn];
                    !entered.is_null() && *entered != passed[&arn]
                };
                if running.all(waits_again) || since.elapsed() > patience {
                    passed = account["waiting"].clone();
                    break;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            self.skip(seconds);
        }
    }

    /// Sets the emulated cloud's clock back to the time that runs go by.
    pub fn rewind(&self) {
        self.control("/emulator/rewind");
    }

    /// Has S3 refuse the logs of instances from now on.
    pub fn refuse_logs(&self) {
        self.control("/emulator/refuse-logs");
    }

    /// Waits until nothing is paid by the hour, and no execution runs if `whole`; returns what is
    /// left after a time.
    pub fn left(&self, whole: bool, patience: Duration) -> Vec<String> {
        let since = Instant::now();
        loop {
            let account = self.account();
            let mut left = texts(&account["rented"]);
            if whole {
                left.extend(texts(&account["running"]));
            }
            if left.is_empty() || since.elapsed() > patience {
                return left;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    pub fn command(&self, arguments: &[impl AsRef<OsStr>]) -> Command {
        self.command_of(&epochcost(), arguments)
    }

    /// Returns a command of another build of the program.
    pub fn command_of(&self, program: &Path, arguments: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .env("AWS_REGION", REGION)
            .env("AWS_ACCESS_KEY_ID", "c4n4ry-key")
            .env("AWS_SECRET_ACCESS_KEY", "c4n4ry-secret")
            .env("AWS_SESSION_TOKEN", "c4n4ry-token")
            .env("AWS_ENDPOINT_URL", &self.moto.url)
            .env("AWS_ENDPOINT_URL_S3", &self.objects)
            .env("AWS_ENDPOINT_URL_LAMBDA", &self.emulator.url)
            .env("AWS_ENDPOINT_URL_SFN", &self.emulator.url)
            .env("AWS_ENDPOINT_URL_CLOUDWATCH", &self.emulator.url)
            .env("EPOCHCOST_METRICS_PATIENCE_S", "10");
        command
    }

    /// Runs the program in `directory`, with generated data beside it.
    pub fn run(&self, directory: &Path, arguments: &[&str]) -> Output {
        let mut command = self.command(arguments);
        command.current_dir(directory).output().unwrap()
    }

    /// Checks that nothing is left by tags and names, and in moto's own lists.
    pub fn assert_empty(&self) {
        let arguments = ["aws", "clean", "--dry-run", "--json", "--region", REGION];
        let left = self.run(Path::new("."), &arguments);
        assert_eq!(left.status.code(), Some(0), "{}", printed(&left));
        let found: Value = serde_json::from_slice(&left.stdout).unwrap();
        assert_eq!(found, Value::Array(vec![]));
        let form = "application/x-www-form-urlencoded";
        let json = "application/x-amz-json-1.1\r\nx-amz-target: Logs_20140328.DescribeLogGroups";
        let running = "Version=2016-11-15&Action=DescribeInstances&\
                       Filter.1.Name=instance-state-name&Filter.1.Value.1=running";
        let networks = "Version=2016-11-15&Action=DescribeVpcs&\
                        Filter.1.Name=is-default&Filter.1.Value.1=false";
        let groups = "Version=2016-11-15&Action=DescribeSecurityGroups&\
                      Filter.1.Name=group-name&Filter.1.Value.1=epochcost-*";
        for (service, content, body, mark) in [
            (
                "iam",
                form,
                "Version=2010-05-08&Action=ListRoles",
                "<RoleName>",
            ),
            ("ec2", form, running, "<instanceId>"),
            ("ec2", form, networks, "<vpcId>"),
            ("ec2", form, groups, "<groupId>"),
            ("logs", json, "{}", "logGroupName"),
        ] {
            let answer = ask(&self.moto.url, "POST", service, content, body);
            assert!(!answer.contains(mark), "{service}: {answer}");
            assert!(answer.starts_with("HTTP/1.1 200"), "{service}: {answer}");
        }
        let buckets = ask(&self.moto.url, "GET", "s3", form, "");
        assert!(!buckets.contains("<Bucket>"), "{buckets}");
        assert!(buckets.contains("ListAllMyBucketsResult"), "{buckets}");
        let functions = ask_at(
            &self.emulator.url,
            "GET",
            "/2015-03-31/functions",
            "lambda",
            form,
            "",
        );
        assert!(functions.contains(r#"{"Functions":[]}"#), "{functions}");
        let json = "application/x-amz-json-1.0\r\nx-amz-target: AWSStepFunctions.ListStateMachines";
        let machines = ask(&self.emulator.url, "POST", "states", json, "{}");
        assert!(machines.contains(r#"{"stateMachines":[]}"#), "{machines}");
    }
}

fn ask(url: &str, method: &str, service: &str, content: &str, body: &str) -> String {
    ask_at(url, method, "/", service, content, body)
}

/// Sends a request to a server on this machine that checks no signature; returns the whole
/// answer.
fn ask_at(url: &str, method: &str, path: &str, service: &str, content: &str, body: &str) -> String {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         authorization: AWS4-HMAC-SHA256 Credential=t/20260101/{REGION}/{service}/aws4_request, \
         SignedHeaders=host, Signature=0\r\n\
         content-type: {content}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().unwrap().iter();
    list.map(|text| text.as_str().unwrap().to_owned()).collect()
}

pub fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Writes a small experiment of systems that use only functions and buckets.
pub fn experiment(directory: &Path, more: &str) -> String {
    let path = directory.join("x.yaml");
    let text = format!(
        "schema: 1\nname: small\nseed: 7\ntrials: 1\n\
         dataset: {{name: synthetic-mnist, train: 120, test: 40, seed: 1}}\n\
         model: lenet5\nworkers: 3\nbatch_size: 8\nbatches_per_worker: 2\nepochs: 2\n\
         evaluate: last\ndevice: {{kind: cpu}}\nmemory_mb: 1024\ntimeout_s: 60\n{more}"
    );
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Returns the digest of the parameters after each step of each worker.
pub fn digests(run: &Path) -> BTreeMap<String, String> {
    let run = RunDirectory::open_whole(run).unwrap();
    let mut digests = BTreeMap::new();
    for trial in run.trials().unwrap() {
        for step in run.steps(&trial).unwrap() {
            let at = (&trial.id, step.rank, step.epoch, step.batch);
            if let Some(digest) = step.parameters_digest {
                digests.insert(format!("{at:?}"), digest);
            }
        }
    }
    digests
}

/// Checks that CloudWatch's metrics of each trial agree with its REPORT lines and count no
/// throttles; returns the number of trials with functions.
pub fn assert_metrics_agree(run: &Path) -> usize {
    let run = RunDirectory::open_whole(run).unwrap();
    let (trials, invocations) = (run.trials().unwrap(), run.invocations().unwrap());
    let of_functions = trials.iter().filter(|trial| {
        let ran = invocations
            .iter()
            .filter(|row| row.trial == trial.id && row.invocation.host == Host::Function)
            .map(|row| row.invocation.duration_ms);
        let (count, ran_ms) = (ran.clone().count(), ran.sum::<f64>());
        let all = |metric: &str| {
            let of_it = trial.cloudwatch.iter().filter(|one| one.metric == metric);
            of_it.filter_map(|one| one.value).sum::<f64>()
        };
        assert_eq!(all("Invocations"), count as f64, "{:?}", trial.id);
        assert!((all("Duration") - ran_ms).abs() < 1e-6, "{:?}", trial.id);
        assert_eq!(all("Errors"), 0.0, "{:?}", trial.id);
        assert_eq!(trial.throttles, (count > 0).then_some(0), "{:?}", trial.id);
        count > 0
    });
    of_functions.count()
}

/// Returns all text of the files under a directory.
pub fn written(directory: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text += &written(&path)
        } else {
            text += &String::from_utf8_lossy(&std::fs::read(path).unwrap())
        }
    }
    text
}
