//! Other machines: containers, small limits, odd names, places that may not be written to.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::process::Command;

use epochcost_platform::local::worker::WORKER_VARIABLE;
use epochcost_record::{NewRun, RunDirectory};
use epochcost_spec::cost::PriceBook;
use epochcost_testing::or_skip;

use crate::fixture;
use crate::support::{Ended, Scene, cases, holds, program, shipped, sized, trained};

/// Three kinds of systems with sizes alone: on functions, in workflows, on instances.
const SIZES: &str = "systems: [spirt, mlless, p2p, p2p_lambda, scatterreduce, gpu_baseline]\n";

/// A system of the local platform that runs 8 x 24 functions at the same time.
const WIDE: &str = "\
dataset: {name: synthetic-mnist, train: 1536, test: 32}
workers: 8
batches_per_worker: 24
systems: [spirt]
";

fn sizes() -> Scene {
    Scene::of("sizes.yaml", &sized(SIZES))
}

/// The wide system with one mini-batch.
fn narrow() -> Scene {
    Scene::of("sizes.yaml", &trained(&WIDE.replace("24\n", "1\n")))
}

/// Runs a shell's line in namespaces of its own, in which the program is `$0`; none where this user
/// may not make them, or the line ends with 99.
pub fn unshared(scene: &Scene, namespaces: &str, line: &str) -> Option<Ended> {
    let mut unshare = Command::new("unshare");
    unshare.args(namespaces.split(' ')).args(["sh", "-c", line]);
    unshare
        .arg(program().get_program())
        .current_dir(scene.path());
    let ended = scene.end(&mut unshare);
    let is_made = ended.output.status.code() != Some(99) && !ended.message().contains("unshare");
    let made = is_made.then_some(ended);
    or_skip(made.ok_or("this user may not make namespaces, or mount"))
}

/// The program as process 1 of a namespace, as in a container: the kernel ends it on no signal
/// that it does not handle. It is blocked, as it reads a pipe that nothing writes to.
#[test]
fn a_signal_ends_process_1() {
    let scene = sizes();
    scene.shell("mkfifo pipe.yaml").ends(0);
    let namespaces = "--map-root-user --pid --fork --kill-child";
    for (signal, code) in [("TERM", 143), ("INT", 130)] {
        let line =
            format!("while sleep 0.02; do kill -{signal} 1; done & exec \"$0\" plan pipe.yaml");
        let Some(ended) = unshared(&scene, namespaces, &line) else {
            return;
        };
        ended.ends(code);
    }
}

/// The soft limit is raised to the hard one, which then must do.
#[test]
fn handles_are_counted_before_a_run() {
    let scene = Scene::of("sizes.yaml", &trained(WIDE));
    let soft = scene.shell("ulimit -Sn 256; exec \"$0\" run sizes.yaml --dry-run");
    soft.ends(0);
    let hard = scene.shell("ulimit -n 1024; exec \"$0\" run sizes.yaml --out run");
    // Eight peers of SPIRT with 2 mini-batches had 1,240 files open; these have 24.
    let words = ["248 processes", "2480 to", "1024", "ulimit -n"];
    hard.ends(5).says(&words);
    assert!(!scene.has("run"));
}

#[test]
fn a_machine_without_loopback_is_named() {
    let line = "exec \"$0\" run sizes.yaml";
    if let Some(ended) = unshared(&narrow(), "--map-root-user --net", line) {
        let words = ["127.0.0.1", "loopback", "--platform sim"];
        ended.ends(5).says(&words);
    }
}

#[test]
fn a_worker_that_is_none_names_its_variable() {
    let scene = narrow().with("closed", "");
    let run = |named: &str| {
        let mut run = scene.command("run sizes.yaml");
        scene.end(run.env(WORKER_VARIABLE, named))
    };
    for named in ["nonsense", ".", "closed", "sizes.yaml"] {
        run(named).ends(5).says(&[WORKER_VARIABLE, named, "unset"]);
    }
    // An empty one is none.
    run("").ends(0);
}

/// Where nothing can be mounted, sandboxes have directories in `TMPDIR`.
#[test]
fn a_directory_for_temporary_files_that_is_not_there_is_named() {
    let scene = narrow();
    let line = "TMPDIR=/nonexistent \"$0\" run sizes.yaml --out run";
    // Two namespaces without a user that may mount.
    if let Some(ended) = unshared(&scene, "--user", line) {
        ended.ends(5).says(&["/nonexistent", "set TMPDIR"]);
        assert!(!scene.has("run/trials.jsonl"));
    }
}

#[test]
fn what_is_not_utf_8_is_no_panic() {
    let scene = sizes();
    let name = OsString::from_vec(b"r\xff".to_vec());
    let mut run = scene.command("run sizes.yaml --out");
    scene.end(run.arg(&name)).ends(0);
    let mut report = scene.command("report");
    scene.end(report.arg(&name).env("NAME", &name)).ends(0);
}

/// A finished run on a file system that has become read-only.
#[test]
fn a_read_only_run_is_drawn_elsewhere() {
    let scene = sizes();
    scene.text("run sizes.yaml --out run");
    let script = "mount --bind run run && mount -o remount,bind,ro run || exit 99\n\
                  \"$0\" report run --figures figures || exit 1\n\
                  \"$0\" report run --out page || exit 2\n\
                  \"$0\" report run --json > report.json || exit 3\n\
                  \"$0\" report run --prices run/prices.yaml || exit 4\n\
                  \"$0\" report run; exit $((40 + $?))";
    let Some(ended) = unshared(&scene, "--map-root-user --mount", script) else {
        return;
    };
    let words = ["was not written", "Read-only", "--out or --figures"];
    ended.ends(42).says(&words);
    assert!(scene.has("figures/bytes.svg") && scene.has("page/report.html"));
    scene.value("report.json");
}

/// What is asked for is checked before the work.
#[test]
fn a_page_that_cannot_be_written_is_named_first() {
    let scene = sizes().with("file", "");
    for verb in [
        "plan sizes.yaml --html",
        "audit --html",
        "compare none none --html",
        "plan map --out",
    ] {
        for place in ["file/page.html", "."] {
            let ended = scene.run(&format!("{verb} {place}")).ends(2);
            let ended = ended.says(&["failed to write", "help: "]);
            assert_eq!(ended.text(), "", "{verb}");
            // The remedy names the option that was given.
            if place != "." {
                let (_, option) = verb.rsplit_once(' ').unwrap();
                ended.says(&[&format!("choose another with {option}")]);
            }
        }
    }
}

#[test]
fn data_that_cannot_be_written_name_their_directory() {
    let ended = narrow().run("run sizes.yaml --set dataset.directory=/proc/none/set");
    let words = ["/proc/none", "--set dataset.directory=DIR"];
    ended.ends(2).says(&words);
}

/// A directory of another user, whatever verb writes there.
#[test]
fn a_place_of_another_user_is_a_usage_error() {
    let scene = Scene::empty();
    for line in [
        "run smoke --set dataset.directory=closed/set",
        "check smoke --set 'dataset={name: mnist, directory: closed/set}' --fetch",
        "list --write closed/set",
    ] {
        let script = format!(
            "mkdir -p closed && mount -t tmpfs none closed && mount -o remount,ro closed || exit 99\n\
             \"$0\" {line}"
        );
        let Some(ended) = unshared(&scene, "--map-root-user --mount", &script) else {
            return;
        };
        let words = ["failed to write", "Read-only", "help: "];
        ended.ends(2).says(&words);
    }
}

/// Names of rows become names of files, whatever their length and letters.
#[test]
fn long_names_are_shortened_or_refused() {
    let long = "x".repeat(300);
    let systems = format!("[{{system: spirt, name: {long}a}}, {{system: spirt, name: {long}b}}]");
    let scene = Scene::of("sizes.yaml", &sized(&format!("systems: {systems}\n")));
    scene.text("run sizes.yaml --out run");
    let files = fs::read_dir(scene.file("run/events")).unwrap();
    assert_eq!(files.count(), 2);
    scene.text("report run --figures figures");

    let named = format!("name: {}\n{SIZES}", "n".repeat(101));
    scene.write("sizes.yaml", &sized(&named));
    let words = ["101 characters", "100 or fewer"];
    scene.run("check sizes.yaml").ends(2).says(&words);
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
    let scene = sizes();
    let plan = scene.text("plan sizes.yaml --json");
    let book = PriceBook::shipped().unwrap();
    let named = |name: &str| plan.contains(&format!("\"dimension\": \"{name}\""));
    let charged: Vec<&str> = (book.prices().iter())
        .map(|price| price.dimension.as_str())
        .filter(|name| named(name))
        .collect();
    assert!(charged.len() > 8, "{charged:?}");
    for name in charged {
        scene.write("book.yaml", &without(&book, name));
        for verb in ["run --dry-run", "run", "check"] {
            let ended = scene.run(&format!("{verb} sizes.yaml --prices book.yaml"));
            ended.ends(2).says(&[name, "price book"]);
            assert!(!scene.has("results"));
        }
    }
}

/// A service that no row uses needs no price.
#[test]
fn services_that_no_row_uses_need_no_price() {
    let book = PriceBook::shipped().unwrap();
    for ([system, unused], _) in cases(&[
        "scatterreduce | ec2/t2.medium",
        "scatterreduce | ipv4_address_hour",
        "scatterreduce | broker/mq.m5.large",
        "gpu_baseline | lambda_gb_second",
    ]) {
        let scene = sizes().with("book.yaml", &without(&book, unused));
        let run = format!("run sizes.yaml --set systems=[{system}] --prices book.yaml");
        scene.text(&run);
    }
}

#[test]
fn prices_of_places_are_looked_up_before_the_search() {
    let text = shipped("harness/places/modal-t4.yaml");
    let (unpriced, _) = text.split_once("prices:").unwrap();
    let scene = Scene::of("sizes.yaml", &sized("systems: [gpu_baseline]\n"));
    scene.write("place.yaml", &format!("{unpriced}prices: []\n"));
    for verb in ["plan sizes.yaml --deadline 2h", "plan map"] {
        let ended = scene.run(&format!("{verb} -v --place ./place.yaml"));
        let words = ["place modal-t4", "ec2/modal-t4", "help: "];
        let ended = ended.ends(2).says(&words);
        assert!(!ended.message().contains("search"), "{}", ended.message());
    }
}

/// A run of an earlier version, whose book lacks a price that its bills need.
#[test]
fn another_book_prices_a_run_whose_own_lacks_a_price() {
    let scene = Scene::empty();
    let book = PriceBook::shipped().unwrap();
    let lacking = without(&book, "s3_get");
    let new = NewRun {
        prices: Some(PriceBook::parse("lacking.yaml", &lacking).unwrap()),
        ..fixture::new_run("[]", 1)
    };
    let run = RunDirectory::create(Some(&scene.file("run")), new).unwrap();
    let plan = fixture::plan("spirt", 0);
    let outcome = fixture::outcome(&plan, 1.0);
    run.append_trial(&plan, &outcome).unwrap();
    drop(run);
    scene.write("book.yaml", book.text());
    let words = ["s3_get", "report run --prices FILE"];
    scene.run("report run").ends(2).says(&words);
    scene.text("report run --prices book.yaml");
    let page = scene.read("run/report.md");
    holds(&page, &["not by the one of the run"]);
}
