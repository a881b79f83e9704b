//! `run --resume`: nothing is lost when it is killed, and nothing is taken that `report`
//! refuses or that another program ran.

use std::io::Write;

use epochcost_platform::local::worker::{WORKER_VARIABLE, find_or_build};

use super::*;
use crate::support::{LENET5, program};

/// A limit on the size of files ends a run while it writes, with words: what was there before is
/// there afterwards, byte for byte, and nothing else.
#[test]
fn trials_survive_an_end_while_they_are_rewritten() {
    let files = ["run/trials.jsonl", "run/invocations.jsonl"];
    for cut in ["", "{\"id\":{\"row\":\"cut"] {
        let scene = finished();
        let read = || files.map(|name| scene.read(name));
        let before = read();
        scene.write(files[0], &(before[0].clone() + cut));
        // In blocks of 512 or 1,024 bytes.
        let ended = scene.shell(&format!("ulimit -f 1; exec \"$0\" {RESUME}"));
        ended.ends(1).says(&["`ulimit -f`"]);
        let left = fs::read_dir(scene.file("run")).unwrap().flatten();
        let mut left = left.map(|entry| entry.file_name().into_string().unwrap());
        assert_eq!(left.find(|name| name.contains(".partial")), None);
        for (now, before) in read().iter().zip(&before) {
            assert!(now.starts_with(before), "{now}");
        }
        // With room for its files, the run goes on where it was, and leaves nothing else.
        scene.text(RESUME);
        assert_eq!(read(), before);
        let names = kept_files(&scene.file("run"));
        let mut names = names.iter().map(|path| path.to_str().unwrap());
        assert_eq!(names.find(|name| name.contains(".partial")), None);
    }
}

#[test]
fn lines_that_a_report_refuses_are_not_gone_on_with() {
    let scene = finished();
    let file = "run/invocations.jsonl";
    let whole = scene.read(file);
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let (last, others) = lines.split_last().unwrap();
    for mutant in [
        others.concat(),
        String::new(),
        lines[..lines.len() / 2].concat(),
        whole[..whole.len() - 20].to_owned(),
        whole.clone() + last,
        lines[1..].concat(),
    ] {
        scene.write(file, &mutant);
        scene.run("report run").ends(2);
        scene.run(RESUME).ends(2).says(&["trials.jsonl, line"]);
        assert_eq!(scene.read(file), mutant);
    }
    scene.write(file, &whole);
    scene.text(RESUME);
}

/// Adds a byte to a program.
fn change(file: &Path) {
    let mut file = fs::OpenOptions::new().append(true).open(file).unwrap();
    file.write_all(b"x").unwrap();
}

#[test]
fn another_build_of_epochcost_does_not_go_on() {
    let scene = finished();
    let other = scene.file("epochcost2");
    fs::copy(program().get_program(), &other).unwrap();
    change(&other);
    let ended = scene.shell(&format!("./epochcost2 {RESUME}")).ends(2);
    ended.says(&["epochcost (SHA-256", "start a new run"]);
}

#[test]
fn another_build_of_the_worker_does_not_go_on() {
    let scene = Scene::of("sizes.yaml", &format!("{LENET5}systems: [allreduce]\n"));
    let worker = scene.file("bootstrap");
    fs::copy(find_or_build().unwrap().path, &worker).unwrap();
    let run = |arguments| scene.end(scene.command(arguments).env(WORKER_VARIABLE, &worker));
    run(RUN).ends(0);
    run(RESUME).ends(0);
    change(&worker);
    let words = ["the worker (SHA-256", "start a new run"];
    run(RESUME).ends(2).says(&words);
}
