//! Emulated cloud for tests: this crate's emulator serves Lambda, Step Functions and
//! CloudWatch and runs the instances of moto's EC2; moto serves everything else.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use epochcost_record::RunDirectory;
use epochcost_servers::find;
use epochcost_systems::Host;
use epochcost_testing::or_skip;
use serde_json::Value;
use tempfile::TempDir;

use crate::server::{Server, moto};

/// The region of the shipped prices: a run elsewhere is refused without others.
pub const REGION: &str = "us-east-1";

/// Time for which processes of this machine may go on after the emulated time is over.
const PATIENCE: Duration = Duration::from_secs(120);

/// Path of a program: that of a variable, or the one of its name beside the emulator.
fn beside(name: &str, variable: &str) -> PathBuf {
    let beside = || Path::new(env!("CARGO_BIN_EXE_epochcost-aws-emulator")).with_file_name(name);
    std::env::var_os(variable).map_or_else(beside, PathBuf::from)
}

/// Path of the program under test. It must have been built with the feature `aws`.
pub fn epochcost() -> PathBuf {
    let program = beside("epochcost", "EPOCHCOST_BIN");
    assert!(
        program.is_file(),
        "there is no {}: build it with `cargo build --release -p epochcost --features \
         epochcost/aws`, or set EPOCHCOST_BIN",
        program.display()
    );
    program
}

/// Path of the worker.
pub fn worker() -> PathBuf {
    beside("bootstrap", "EPOCHCOST_WORKER")
}

/// Arguments of a run of the experiment of a [`Cloud::of`].
pub const RUN: &str = "run x.yaml --platform aws --yes";

/// Emulated cloud, and a directory in which the program runs.
pub struct Cloud {
    pub moto: Server,
    pub emulator: Server,
    /// Endpoint of the emulator's S3.
    pub objects: String,
    directory: TempDir,
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
            directory: TempDir::new().unwrap(),
            _files: files,
        })
    }

    /// Returns nothing where a program of the hosts of services is not installed.
    pub fn start_with_services() -> Option<Self> {
        let programs = find::redis().and(find::rabbitmq()).and(find::module());
        or_skip(programs)?;
        Self::start()
    }

    /// Starts what a small experiment `x.yaml` of systems needs, parted by commas.
    pub fn of(systems: &str) -> Option<Self> {
        let has_services = systems.contains("spirt") || systems.contains("mlless");
        let cloud = if has_services {
            Self::start_with_services()?
        } else {
            Self::start()?
        };
        let text = format!(
            "schema: 1\nname: small\nseed: 7\ntrials: 1\n\
             dataset: {{name: synthetic-mnist, train: 120, test: 40, seed: 1}}\n\
             model: lenet5\nworkers: 3\nbatch_size: 8\nbatches_per_worker: 2\nepochs: 2\n\
             evaluate: last\ndevice: {{kind: cpu}}\nmemory_mb: 1024\ntimeout_s: 60\n\
             systems: [{systems}]\n"
        );
        cloud.write("x.yaml", &text);
        Some(cloud)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file of the directory; its folders are made.
    pub fn write(&self, name: &str, text: &str) {
        let file = self.path(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// Replaces a text that the file must have.
    #[track_caller]
    pub fn edit(&self, name: &str, before: &str, after: &str) {
        let text = self.read(name);
        assert!(text.contains(before), "{before} in {name}");
        self.write(name, &text.replace(before, after));
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// The rows of a run's trials; empty if there are none.
    pub fn trials(&self, out: &str) -> String {
        fs::read_to_string(self.path(out).join("trials.jsonl")).unwrap_or_default()
    }

    /// The state of each form for AWS that was reproduced into `out`.
    pub fn states(&self) -> Vec<String> {
        let summary: Value = serde_json::from_str(&self.read("out/summary.json")).unwrap();
        let items = summary["items"].as_array().unwrap().iter();
        let forms = items.filter(|item| item["id"].as_str().unwrap().ends_with(".aws"));
        forms
            .map(|item| item["state"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Lines of the journals of a run.
    pub fn journaled(&self, out: &str) -> usize {
        journaled(&self.path(out))
    }

    /// Returns the emulated cloud's time, charges, rented resources and running executions.
    pub fn account(&self) -> Value {
        let answer = self.control("GET /emulator/account");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap()
    }

    fn control(&self, place: &str) -> String {
        let answer = ask(&self.emulator.url, place, "x", "text/plain", "");
        assert!(answer.starts_with("HTTP/1.1 200"), "{place}: {answer}");
        answer
    }

    /// Sets the emulated cloud's clock forward.
    pub fn skip(&self, seconds: u64) {
        self.control(&format!("POST /emulator/skip/{seconds}"));
    }

    /// Lets `times` spans of `seconds` pass, longer than any wait of a workflow. A span begins when all
    /// executions wait: what they do between their waits takes real time, on a busy machine more of
    /// it, and none of the cloud's.
    pub fn pass(&self, times: usize, seconds: u64) {
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
                if running.all(waits_again) || since.elapsed() > PATIENCE {
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
        self.control("POST /emulator/rewind");
    }

    /// Has S3 refuse the logs of instances from now on.
    pub fn refuse_logs(&self) {
        self.control("POST /emulator/refuse-logs");
    }

    /// Fails unless soon nothing is paid by the hour, and no execution runs if `whole`.
    #[track_caller]
    pub fn costs_nothing(&self, whole: bool, when: &str) {
        let since = Instant::now();
        loop {
            let account = self.account();
            let mut left = texts(&account["rented"]);
            if whole {
                left.extend(texts(&account["running"]));
            }
            if left.is_empty() {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "{when}: {left:?}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// The program with arguments, parted by spaces outside of single quotes.
    pub fn command(&self, arguments: &str) -> Command {
        self.command_of(&epochcost(), arguments)
    }

    /// Returns a command of another build of the program.
    pub fn command_of(&self, program: &Path, arguments: &str) -> Command {
        let mut command = Command::new(program);
        for (place, part) in arguments.split('\'').enumerate() {
            if place % 2 == 1 {
                command.arg(part);
            } else {
                command.args(part.split_whitespace());
            }
        }
        command
            .current_dir(&self.directory)
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

    /// Runs the program to its end.
    pub fn run(&self, arguments: &str) -> Ended {
        Ended::of(&mut self.command(arguments))
    }

    /// Starts `command`, and kills it `delay` after the journals in `out` have `lines`; returns its exit
    /// code if it ended before.
    pub fn kill_after(
        &self,
        mut command: Command,
        out: &str,
        lines: usize,
        delay: Duration,
    ) -> Option<i32> {
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return Some(status.code().unwrap());
            }
            if self.journaled(out) >= lines {
                std::thread::sleep(delay);
                child.kill().unwrap();
                child.wait().unwrap();
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Takes away what is left of runs.
    #[track_caller]
    pub fn clean(&self) {
        self.run(&format!("aws clean --yes --region {REGION}"))
            .ends(0);
        self.assert_empty();
    }

    /// Checks that nothing is left by tags and names, and in moto's own lists.
    pub fn assert_empty(&self) {
        let left = self.run(&format!("aws clean --dry-run --json --region {REGION}"));
        assert_eq!(left.ends(0).json(), Value::Array(vec![]));
        let form = "application/x-www-form-urlencoded";
        let json = "application/x-amz-json-1.1\r\nx-amz-target: Logs_20140328.DescribeLogGroups";
        let roles = "Version=2010-05-08&Action=ListRoles";
        let running = "Version=2016-11-15&Action=DescribeInstances&\
                       Filter.1.Name=instance-state-name&Filter.1.Value.1=running";
        let networks = "Version=2016-11-15&Action=DescribeVpcs&\
                        Filter.1.Name=is-default&Filter.1.Value.1=false";
        let groups = "Version=2016-11-15&Action=DescribeSecurityGroups&\
                      Filter.1.Name=group-name&Filter.1.Value.1=epochcost-*";
        for (service, content, body, mark) in [
            ("iam", form, roles, "<RoleName>"),
            ("ec2", form, running, "<instanceId>"),
            ("ec2", form, networks, "<vpcId>"),
            ("ec2", form, groups, "<groupId>"),
            ("logs", json, "{}", "logGroupName"),
        ] {
            let answer = ask(&self.moto.url, "POST /", service, content, body);
            assert!(!answer.contains(mark), "{service}: {answer}");
            assert!(answer.starts_with("HTTP/1.1 200"), "{service}: {answer}");
        }
        let buckets = ask(&self.moto.url, "GET /", "s3", form, "");
        assert!(!buckets.contains("<Bucket>"), "{buckets}");
        assert!(buckets.contains("ListAllMyBucketsResult"), "{buckets}");
        let place = "GET /2015-03-31/functions";
        let functions = ask(&self.emulator.url, place, "lambda", form, "");
        assert!(functions.contains(r#"{"Functions":[]}"#), "{functions}");
        let json = "application/x-amz-json-1.0\r\nx-amz-target: AWSStepFunctions.ListStateMachines";
        let machines = ask(&self.emulator.url, "POST /", "states", json, "{}");
        assert!(machines.contains(r#"{"stateMachines":[]}"#), "{machines}");
    }
}

/// Sends a request, of a method and a path, to a server on this machine that checks no signature; returns
/// the whole answer.
fn ask(url: &str, place: &str, service: &str, content: &str, body: &str) -> String {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "{place} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
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

/// A program that has ended.
pub struct Ended(Output);

impl Ended {
    /// Runs a command to its end.
    pub fn of(command: &mut Command) -> Self {
        Self(command.output().unwrap())
    }

    pub fn code(&self) -> i32 {
        self.0.status.code().unwrap()
    }

    /// Fails on another exit code.
    #[track_caller]
    pub fn ends(self, code: i32) -> Self {
        assert_eq!(self.code(), code, "{}", self.message());
        self
    }

    /// Fails unless standard error holds every word.
    #[track_caller]
    pub fn says(self, words: &[&str]) -> Self {
        holds(&self.message(), words);
        self
    }

    /// Standard output.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }

    /// Standard error.
    pub fn message(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.0.stdout).unwrap()
    }
}

/// Fails unless the text holds every word.
#[track_caller]
pub fn holds(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "no {word:?} in:\n{text}");
    }
}

/// Whole lines of the journals of a run.
pub fn journaled(run: &Path) -> usize {
    let entries = fs::read_dir(run).into_iter().flatten();
    let journals = entries.map(|entry| entry.unwrap().path()).filter(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("aws-journal-")
    });
    let text = journals.map(|path| fs::read_to_string(path).unwrap_or_default());
    text.map(|text| text.matches('\n').count()).sum()
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
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text += &written(&path)
        } else {
            text += &String::from_utf8_lossy(&fs::read(path).unwrap())
        }
    }
    text
}
