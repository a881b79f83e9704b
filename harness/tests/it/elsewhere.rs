//! Other machines: containers, small limits, odd names, places that may not be written to.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use epochcost_platform::local::worker::WORKER_VARIABLE;
use epochcost_record::{NewRun, RunDirectory};
use epochcost_spec::cost::PriceBook;
use epochcost_testing::or_skip;

use crate::fixture;
use crate::support::{epochcost, program};

/// Three kinds of systems with sizes alone: on functions, in workflows, on instances.
const SIZES: &str = "\
schema: 1
name: sizes
platform: sim
dataset: {name: cifar10}
model: mobilenet
workers: 2
batch_size: 64
batches_per_worker: 2
epochs: 1
evaluate: never
systems: [spirt, mlless, p2p, p2p_lambda, scatterreduce, gpu_baseline]
";

/// A system of the local platform that runs 8 x 24 functions at the same time.
const WIDE: &str = "\
schema: 1
name: wide
dataset: {name: synthetic-mnist, train: 1536, test: 32}
model: lenet5
workers: 8
batch_size: 8
batches_per_worker: 24
epochs: 1
systems: [spirt]
";

fn scene(experiment: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("sizes.yaml"), experiment).unwrap();
    directory
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn ends_with(code: i32, output: &Output, words: &[&str]) {
    let message = errors(output);
    assert_eq!(output.status.code(), Some(code), "{message}");
    for word in words {
        assert!(message.contains(word), "no {word:?} in:\n{message}");
    }
}

/// Runs a shell's line with the program as `$0`.
fn shell(directory: &Path, line: &str) -> Output {
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).arg(program().get_program());
    shell.current_dir(directory).output().unwrap()
}

/// The program as process 1 of a namespace, as in a container: the kernel ends it on no signal
/// that it does not handle. It is blocked, as it reads a pipe that nothing writes to.
#[test]
fn a_signal_ends_process_1() {
    let directory = scene(SIZES);
    let pipe = Command::new("mkfifo")
        .arg(directory.path().join("pipe.yaml"))
        .status();
    assert!(pipe.unwrap().success());
    for (signal, code) in [("TERM", 143), ("INT", 130)] {
        let mut unshare = Command::new("unshare");
        unshare.args(["--map-root-user", "--pid", "--fork", "--kill-child"]);
        unshare.arg(program().get_program());
        let unshare = unshare.args(["plan", "pipe.yaml"]);
        let unshare = unshare.current_dir(directory.path()).stderr(Stdio::piped());
        let mut container = unshare.spawn().unwrap();
        let children = format!("/proc/{0}/task/{0}/children", container.id());
        let ended = loop {
            if let Some(ended) = container.try_wait().unwrap() {
                break ended;
            }
            let child = fs::read_to_string(&children).unwrap_or_default();
            if !child.trim().is_empty() {
                let kill = ["-s", signal, child.trim()];
                Command::new("kill").args(kill).status().unwrap();
            }
            sleep(Duration::from_millis(20));
        };
        let output = container.wait_with_output().unwrap();
        if errors(&output).contains("unshare") {
            or_skip::<()>(Err("this user may not make namespaces of processes"));
            return;
        }
        assert_eq!(ended.code(), Some(code), "{signal}: {}", errors(&output));
    }
}

/// The soft limit is raised to the hard one, which then must do.
#[test]
fn handles_are_counted_before_a_run() {
    let directory = scene(WIDE);
    let soft = shell(
        directory.path(),
        "ulimit -Sn 256; exec \"$0\" run sizes.yaml --dry-run",
    );
    ends_with(0, &soft, &[]);
    let hard = shell(
        directory.path(),
        "ulimit -n 1024; exec \"$0\" run sizes.yaml --out run",
    );
    // Eight peers of SPIRT with 2 mini-batches had 1,240 files open; these have 24.
    ends_with(5, &hard, &["248 processes", "2480 to", "1024", "ulimit -n"]);
    assert!(!directory.path().join("run").exists());
}

#[test]
fn a_machine_without_loopback_is_named() {
    let directory = scene(&WIDE.replace("24\n", "1\n"));
    let mut unshare = Command::new("unshare");
    unshare.args(["--map-root-user", "--net"]);
    unshare.arg(program().get_program());
    let output = unshare.args(["run", "sizes.yaml"]);
    let output = output.current_dir(directory.path()).output().unwrap();
    if errors(&output).contains("unshare") {
        or_skip::<()>(Err("this user may not make network namespaces"));
        return;
    }
    ends_with(5, &output, &["127.0.0.1", "loopback", "--platform sim"]);
}

#[test]
fn a_worker_that_is_none_names_its_variable() {
    let directory = scene(&WIDE.replace("24\n", "1\n"));
    fs::write(directory.path().join("closed"), "").unwrap();
    for named in ["nonsense", ".", "closed", "sizes.yaml"] {
        let output = program()
            .args(["run", "sizes.yaml"])
            .current_dir(directory.path())
            .env(WORKER_VARIABLE, named)
            .output()
            .unwrap();
        ends_with(5, &output, &[WORKER_VARIABLE, named, "unset"]);
    }
    // An empty one is none.
    let mut run = program();
    let run = run.args(["run", "sizes.yaml"]).env(WORKER_VARIABLE, "");
    ends_with(0, &run.current_dir(directory.path()).output().unwrap(), &[]);
}

/// Where nothing can be mounted, sandboxes have directories in `TMPDIR`.
#[test]
fn a_directory_for_temporary_files_that_is_not_there_is_named() {
    let directory = scene(&WIDE.replace("24\n", "1\n"));
    let mut unshare = Command::new("unshare");
    // Two namespaces without a user that may mount.
    unshare.args(["--user", "sh", "-c", "exec \"$0\" run sizes.yaml --out run"]);
    unshare
        .arg(program().get_program())
        .env("TMPDIR", "/nonexistent");
    let output = unshare.current_dir(directory.path()).output().unwrap();
    if errors(&output).contains("unshare") {
        or_skip::<()>(Err("this user may not make namespaces"));
        return;
    }
    ends_with(5, &output, &["/nonexistent", "set TMPDIR"]);
    assert!(!directory.path().join("run/trials.jsonl").exists());
}

#[test]
fn what_is_not_utf_8_is_no_panic() {
    let directory = scene(SIZES);
    let name = OsString::from_vec(b"r\xff".to_vec());
    let mut run = program();
    let run = run.args(["run", "sizes.yaml", "--out"]).arg(&name);
    let output = run.current_dir(directory.path()).output().unwrap();
    ends_with(0, &output, &[]);
    let mut report = program();
    let report = report.arg("report").arg(&name).env("NAME", &name);
    let output = report.current_dir(directory.path()).output().unwrap();
    ends_with(0, &output, &[]);
}

/// A finished run on a file system that has become read-only.
#[test]
fn a_read_only_run_is_drawn_elsewhere() {
    let directory = scene(SIZES);
    let output = epochcost(directory.path(), &["run", "sizes.yaml", "--out", "run"]);
    ends_with(0, &output, &[]);
    let script = "mount --bind run run && mount -o remount,bind,ro run || exit 99\n\
                  \"$0\" report run --figures figures || exit 1\n\
                  \"$0\" report run --out page || exit 2\n\
                  \"$0\" report run --json > report.json || exit 3\n\
                  \"$0\" report run; exit $((40 + $?))";
    let mut unshare = Command::new("unshare");
    unshare.args(["--map-root-user", "--mount", "sh", "-c", script]);
    unshare.arg(program().get_program());
    let output = unshare.current_dir(directory.path()).output().unwrap();
    if output.status.code() == Some(99) || errors(&output).contains("unshare") {
        or_skip::<()>(Err("this user may not mount"));
        return;
    }
    ends_with(42, &output, &["was not written", "Read-only", "--figures"]);
    assert!(directory.path().join("figures/bytes.svg").exists());
    assert!(directory.path().join("page/report.html").exists());
    let json = fs::read(directory.path().join("report.json")).unwrap();
    assert!(serde_json::from_slice::<serde_json::Value>(&json).is_ok());
}

/// What is asked for is checked before the work.
#[test]
fn a_page_that_cannot_be_written_is_named_first() {
    let directory = scene(SIZES);
    fs::write(directory.path().join("file"), "").unwrap();
    for verb in [
        &["plan", "sizes.yaml", "--html"][..],
        &["audit", "--html"],
        &["compare", "none", "none", "--html"],
        &["plan", "map", "--out"],
    ] {
        for place in ["file/page.html", "."] {
            let output = epochcost(directory.path(), &[verb, &[place]].concat());
            ends_with(2, &output, &["failed to write", "help: "]);
            assert!(output.stdout.is_empty(), "{verb:?}");
        }
    }
}

#[test]
fn data_that_cannot_be_written_name_their_directory() {
    let directory = scene(&WIDE.replace("24\n", "1\n"));
    let set = ["--set", "dataset.directory=/proc/none/set"];
    let output = epochcost(
        directory.path(),
        &[&["run", "sizes.yaml"][..], &set].concat(),
    );
    ends_with(2, &output, &["/proc/none", "--set dataset.directory=DIR"]);
}

/// A directory of another user, whatever verb writes there.
#[test]
fn a_place_of_another_user_is_a_usage_error() {
    let directory = tempfile::tempdir().unwrap();
    let script =
        "mkdir closed && mount -t tmpfs none closed && mount -o remount,ro closed || exit 99\n";
    for line in [
        "run smoke --set dataset.directory=closed/set",
        "check smoke --set 'dataset={name: mnist, directory: closed/set}' --fetch",
        "list --write closed/set",
    ] {
        let mut unshare = Command::new("unshare");
        let script = format!("{script}\"$0\" {line}");
        unshare.args(["--map-root-user", "--mount", "sh", "-c", &script]);
        unshare.arg(program().get_program());
        let output = unshare.current_dir(directory.path()).output().unwrap();
        let _ = fs::remove_dir(directory.path().join("closed"));
        if output.status.code() == Some(99) || errors(&output).contains("unshare") {
            or_skip::<()>(Err("this user may not mount"));
            return;
        }
        ends_with(2, &output, &["failed to write", "Read-only", "help: "]);
    }
}

/// Names of rows become names of files, whatever their length and letters.
#[test]
fn long_names_are_shortened_or_refused() {
    let long = "x".repeat(300);
    let systems = format!("[{{system: spirt, name: {long}a}}, {{system: spirt, name: {long}b}}]");
    let two = SIZES.split_once("systems: ").unwrap().0.to_owned() + "systems: ";
    let directory = scene(&format!("{two}{systems}\n"));
    let output = epochcost(directory.path(), &["run", "sizes.yaml", "--out", "run"]);
    ends_with(0, &output, &[]);
    let files = fs::read_dir(directory.path().join("run/events")).unwrap();
    assert_eq!(files.count(), 2);
    let figures = ["report", "run", "--figures", "figures"];
    ends_with(0, &epochcost(directory.path(), &figures), &[]);

    let named = SIZES.replace("name: sizes", &format!("name: {}", "n".repeat(101)));
    let output = epochcost(scene(&named).path(), &["check", "sizes.yaml"]);
    ends_with(2, &output, &["101 characters", "100 or fewer"]);
}

/// Returns the text of a price book without the entry of a dimension.
fn without(book: &PriceBook, dimension: &str) -> String {
    let text = book.text();
    let start = text.find(&format!("  - dimension: {dimension}\n")).unwrap();
    let end = text[start + 1..].find("  - dimension: ");
    let end = end.map_or(text.len(), |length| start + 1 + length);
    [&text[..start], &text[end..]].concat()
}

/// Every dimension that a bill of these systems names is looked up before anything is simulated.
#[test]
fn prices_are_looked_up_before_the_first_trial() {
    let directory = scene(SIZES);
    let path = directory.path();
    let plan = epochcost(path, &["plan", "sizes.yaml", "--json"]);
    ends_with(0, &plan, &[]);
    let plan = String::from_utf8(plan.stdout).unwrap();
    let shipped = PriceBook::shipped().unwrap();
    let named = |name: &str| plan.contains(&format!("\"dimension\": \"{name}\""));
    let charged: Vec<&str> = (shipped.prices().iter())
        .map(|price| price.dimension.as_str())
        .filter(|name| named(name))
        .collect();
    assert!(charged.len() > 8, "{charged:?}");
    for name in charged {
        fs::write(path.join("book.yaml"), without(&shipped, name)).unwrap();
        for verb in [&["run", "--dry-run"][..], &["run"], &["check"]] {
            let options = ["sizes.yaml", "--prices", "book.yaml"];
            let output = epochcost(path, &[verb, &options].concat());
            ends_with(2, &output, &[name, "price book"]);
            assert!(!path.join("results").exists());
        }
    }
}

/// A service that no row uses needs no price.
#[test]
fn services_that_no_row_uses_need_no_price() {
    let shipped = PriceBook::shipped().unwrap();
    for (systems, unused) in [
        ("[scatterreduce]", "ec2/t2.medium"),
        ("[scatterreduce]", "ipv4_address_hour"),
        ("[scatterreduce]", "broker/mq.m5.large"),
        ("[gpu_baseline]", "lambda_gb_second"),
    ] {
        let (before, _) = SIZES.split_once("systems: ").unwrap();
        let directory = scene(&format!("{before}systems: {systems}\n"));
        let book = directory.path().join("book.yaml");
        fs::write(book, without(&shipped, unused)).unwrap();
        let run = ["run", "sizes.yaml", "--prices", "book.yaml", "--out", "run"];
        ends_with(0, &epochcost(directory.path(), &run), &[]);
    }
}

#[test]
fn prices_of_places_are_looked_up_before_the_search() {
    let place = concat!(env!("CARGO_MANIFEST_DIR"), "/places/modal-t4.yaml");
    let text = fs::read_to_string(place).unwrap();
    let (unpriced, _) = text.split_once("prices:").unwrap();
    let sizes = SIZES.replace("spirt, mlless, p2p, p2p_lambda, scatterreduce, ", "");
    let directory = scene(&sizes);
    let file = directory.path().join("place.yaml");
    fs::write(file, format!("{unpriced}prices: []\n")).unwrap();
    for verb in [
        &["plan", "sizes.yaml", "--deadline", "2h"][..],
        &["plan", "map"],
    ] {
        let options = [verb, &["-v", "--place", "./place.yaml"]].concat();
        let output = epochcost(directory.path(), &options);
        ends_with(2, &output, &["place modal-t4", "ec2/modal-t4", "help: "]);
        assert!(!errors(&output).contains("search"), "{}", errors(&output));
    }
}

/// A run of an earlier version, whose book lacks a price that its bills need.
#[test]
fn another_book_prices_a_run_whose_own_lacks_a_price() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let shipped = PriceBook::shipped().unwrap();
    let lacking = without(&shipped, "s3_get");
    let run = RunDirectory::create(
        Some(&path.join("run")),
        NewRun {
            prices: Some(PriceBook::parse("lacking.yaml", &lacking).unwrap()),
            ..fixture::new_run("[]", 1)
        },
    )
    .unwrap();
    let plan = fixture::plan("spirt", 0);
    run.append_trial(&plan, &fixture::outcome(&plan, 1.0))
        .unwrap();
    drop(run);
    fs::write(path.join("book.yaml"), shipped.text()).unwrap();
    let output = epochcost(path, &["report", "run"]);
    ends_with(2, &output, &["s3_get", "report run --prices FILE"]);
    let output = epochcost(path, &["report", "run", "--prices", "book.yaml"]);
    ends_with(0, &output, &[]);
    let page = fs::read_to_string(path.join("run/report.md")).unwrap();
    assert!(page.contains("not by the one of the run"), "{page}");
}
