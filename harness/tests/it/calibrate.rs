//! `epochcost profile calibrate` writes a profile that plans can use, from every kind of measurement, and
//! says where one cannot be used.
use std::fs;
use std::path::Path;

use epochcost_channels::Traffic;
use epochcost_record::{NewRun, RunDirectory};
use epochcost_systems::Record;
use serde_json::Value;

use crate::fixture;
use crate::support::epochcost;

#[track_caller]
fn ends(directory: &Path, arguments: &[&str], code: i32) -> (String, String) {
    epochcost_testing::watch_for(300);
    let output = epochcost(directory, &[&["profile", "calibrate"], arguments].concat());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(code), "{out}{err}");
    (out, err)
}

const HEADER: &str =
    "series,operation,client,memory_mb,functions,streams,bytes,new_connection,statistic,measured,n";
const READ: &str = "today,get,compiled,1769,1,1,65536,,mean,0.031,10";

fn table(lines: &[&str]) -> String {
    format!("{HEADER}\n{}\n", lines.join("\n"))
}

/// The constants that `from` moves, with their factors.
#[track_caller]
fn moved(directory: &Path, from: &str, client: &str) -> Vec<(String, f64)> {
    let (json, _) = ends(directory, &[from, "--json", "--client", client], 0);
    let json: Value = serde_json::from_str(&json).unwrap();
    let of = |moved: &Value| {
        let value = |when: &str| moved[when][0].as_f64().unwrap();
        let path = moved["path"].as_str().unwrap().to_owned();
        (path, value("after") / value("before"))
    };
    json["constants"]
        .as_array()
        .unwrap()
        .iter()
        .map(of)
        .collect()
}

#[test]
fn the_profile_that_is_written_is_planned_on() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let rows = [
        READ,
        "today,put,compiled,1769,1,1,65536,,mean,0.05,10",
        "today,get,compiled,1769,1,1,268435456,,mean,4.4,3",
    ];
    fs::write(directory.join("mine.csv"), table(&rows)).unwrap();
    let (said, _) = ends(directory, &["mine.csv", "--out", "mine.yaml"], 0);
    for constant in ["request_latency_s", "write_latency_s", "stream_bytes_per_s"] {
        assert!(
            said.contains(&format!("object_store.service.{constant}")),
            "{said}"
        );
    }
    assert!(
        !said.contains("queue.") && !said.contains("cold_start_s"),
        "{said}"
    );
    let (_, error) = ends(directory, &["mine.csv", "--out", "mine.yaml"], 2);
    assert!(error.contains("--force"), "{error}");
    ends(directory, &["mine.csv", "--out", "mine.yaml", "--force"], 0);
    // A constant says where it comes from, and the program reads its own file.
    let written = fs::read_to_string(directory.join("mine.yaml")).unwrap();
    assert!(
        written.contains("before, 0.0238 (0.012 to 0.0471)"),
        "{written}"
    );
    ends(directory, &["--probe", "--profile", "./mine.yaml"], 0);
    let plan = epochcost(directory, &["plan", "smoke", "--profile", "./mine.yaml"]);
    let said = String::from_utf8(plan.stdout).unwrap();
    assert!(plan.status.success(), "{said}");
    assert!(
        said.contains("Profile mine") && said.contains("never compared"),
        "{said}"
    );
}

/// Rows of one setting and day that no constant can explain together.
#[test]
fn rows_that_disagree_are_warned_of() {
    let directory = tempfile::tempdir().unwrap();
    let said = |rows: &[&str]| {
        fs::write(directory.path().join("mine.csv"), table(rows)).unwrap();
        ends(directory.path(), &["mine.csv"], 0).0
    };
    let other = READ.replace("0.031", "0.2").replace("65536", "65000");
    assert!(said(&[READ, &other]).contains("times as much as their errors"));
    assert!(!said(&[READ]).contains("times as much as their errors"));
}

/// The table that --probe prints is one that can be read once it is filled in.
#[test]
fn proposed_measurements_have_a_price_and_narrow_ranges() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    for client in ["compiled", "interpreted"] {
        let (said, _) = ends(directory, &["--probe", "--client", client], 0);
        let (_, lines) = said.split_once(HEADER).unwrap();
        let filled = lines.replace(",mean,,", ",mean,0.5,");
        let filled: Vec<&str> = filled.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!((filled.len(), said.matches('$').count()), (3, 3), "{said}");
        fs::write(directory.join("mine.csv"), table(&filled)).unwrap();
        assert!(!moved(directory, "mine.csv", client).is_empty());
        let (json, _) = ends(directory, &["--probe", "--client", client, "--json"], 0);
        let proposed = serde_json::from_str::<Value>(&json).unwrap()["proposed"].take();
        let mut before = proposed["deviation"].as_f64().unwrap();
        for measurement in proposed["measurements"].as_array().unwrap() {
            let after = measurement["deviation"].as_f64().unwrap();
            assert!(after < before && measurement["usd"].as_f64().unwrap() < 0.01);
            before = after;
        }
    }
}

#[test]
fn init_durations_of_a_log_move_the_init_of_its_client() {
    let request = "3604209a-e9a3-11e6-939a-754dd98c7be3";
    let warm = format!(
        "REPORT RequestId: {request}\tDuration: 12.34 ms\tBilled Duration: 13 ms\t\
         Memory Size: 512 MB\tMax Memory Used: 55 MB\t"
    );
    let cold = format!("{warm}Init Duration: 300.00 ms\t");
    let json = cold.replace('\t', "\\t");
    let log = format!(
        "START RequestId: {request} Version: 1\n{cold}\n2026-11-27T03:00:00Z {cold}\n{warm}\n\
         {{\"message\": \"{json}\\n\"}}\n"
    );
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("log.txt"), log).unwrap();
    // Towards 0.3 s, from 1.23 s and from 0.0175 s.
    for (client, constant, factors) in [
        ("interpreted", "interpreted.init_s", 0.22..0.5),
        ("compiled", "function.init_s", 5.0..20.0),
    ] {
        let found = moved(directory.path(), "log.txt", client);
        let [(path, factor)] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert!(path == constant && factors.contains(factor), "{found:?}");
    }
    fs::write(directory.path().join("warm.txt"), warm).unwrap();
    let (_, error) = ends(directory.path(), &["warm.txt"], 2);
    assert!(
        error.contains("no REPORT line has an Init Duration"),
        "{error}"
    );
}

/// Cold starts of a run, and its steps with one write and one read of half a megabyte.
#[test]
fn a_run_on_aws_moves_constants_and_another_run_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str, platform: &str, rehearsed: bool| {
        let run = NewRun {
            platform: platform.to_owned(),
            rehearsed,
            ..fixture::new_run("[]", 1)
        };
        let run = RunDirectory::create(Some(&directory.path().join(name)), run).unwrap();
        for system in fixture::SYSTEMS {
            let plan = fixture::plan(system, 0);
            let mut outcome = fixture::outcome(&plan, 1.0);
            for record in &mut outcome.records {
                let Record::Step(step) = record else { continue };
                step.traffic = Default::default();
                step.traffic.exchange.objects = Traffic {
                    puts: 1,
                    gets: 1,
                    bytes_up: 500_000,
                    bytes_down: 500_000,
                    ..Default::default()
                };
            }
            run.append_trial(&plan, &outcome).unwrap();
        }
    };
    at("aws", "aws", false);
    let found = moved(directory.path(), "aws", "compiled");
    let factor = |path: &str| {
        let of_path = found.iter().find(|(own, _)| own == path);
        of_path.unwrap_or_else(|| panic!("{path}: {found:?}")).1
    };
    // 120 ms, 80 to 160 ms and 200 ms, where the profile has 18, 38 and 24.
    assert!(factor("function.init_s") > 2.0);
    assert!(factor("object_store.service.write_latency_s") > 1.5);
    assert!(factor("object_store.service.request_latency_s") > 2.0);
    at("local", "local", false);
    let (_, error) = ends(directory.path(), &["aws", "local"], 2);
    assert!(
        error.contains("platform `local`") && error.contains("alone"),
        "{error}"
    );
    at("rehearsed", "aws", true);
    let (_, error) = ends(directory.path(), &["aws", "rehearsed"], 2);
    assert!(error.contains("rehearsed is a rehearsal"), "{error}");
}

/// Quantities of whole functions, in the table of their settings.
#[test]
fn rounds_of_aggregation_move_the_constants_that_they_show() {
    let directory = tempfile::tempdir().unwrap();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../experiments/validation/predictions/gradssharding.csv");
    let text = fs::read_to_string(shipped).unwrap();
    let with = |measured: &str| {
        let lines = text.lines().take(4).enumerate().map(|(index, line)| {
            let last = if index == 0 { "measured" } else { measured };
            format!("{line},{last}\n")
        });
        fs::write(
            directory.path().join("rounds.csv"),
            lines.collect::<String>(),
        )
        .unwrap();
    };
    with("30");
    let slow = moved(directory.path(), "rounds.csv", "compiled");
    with("2");
    let quick = moved(directory.path(), "rounds.csv", "compiled");
    let arithmetic = |found: &[(String, f64)]| {
        let path = "function.arithmetic_bytes_per_s";
        let own = found.iter().find(|(own, _)| own == path);
        own.unwrap_or_else(|| panic!("{found:?}")).1
    };
    assert!(
        arithmetic(&slow) < 1.0 && arithmetic(&quick) > 1.0,
        "{slow:?} {quick:?}"
    );
    with("soon");
    let (_, error) = ends(directory.path(), &["rounds.csv"], 2);
    assert!(error.contains("rounds.csv:2:"), "{error}");
}

#[test]
fn what_cannot_be_used_is_named_with_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let other = |old: &str, new: &str| table(&[&READ.replace(old, new)]);
    let renamed = HEADER.replace("measured", "seconds");
    let cases = [
        (other("get", "got"), "mine.csv:2:operation"),
        (other("0.031", "soon"), "mine.csv:2:"),
        (other("0.031", "0"), "mine.csv:2:measured"),
        (other(",10", ",0"), "mine.csv:2:n"),
        (other(",1,1,", ",0,1,"), "mine.csv:2:functions"),
        (other("mean", "row:a"), "takes single operations"),
        (other("0.031", "31"), "give seconds"),
        (table(&[READ, READ]), "there twice"),
        (table(&[]), "there is no row"),
        (format!("{renamed}\n{READ}\n"), "no column \"measured\""),
        ("REPORT RequestId: 1\tDuration".to_owned(), "mine.csv:1:"),
        (String::new(), "mine.csv"),
    ];
    let mine = directory.path().join("mine.csv");
    for (text, expected) in cases {
        fs::write(&mine, &text).unwrap();
        let (_, error) = ends(directory.path(), &["mine.csv"], 2);
        assert!(error.contains(expected), "{text}: {error}");
    }
    fs::write(&mine, other("compiled", "interpreted")).unwrap();
    for (arguments, expected) in [
        (&[][..], "--probe"),
        (&["mine.csv", "--profile", "aws-us-east"], "aws-us-east-1"),
        (
            &["mine.csv", "--profile", "aws-us-east-1"],
            "describes none",
        ),
        (
            &["--probe", "--client", "interpreted", "--profile", "laptop"],
            "describes no",
        ),
    ] {
        let (_, error) = ends(directory.path(), arguments, 2);
        assert!(error.contains(expected), "{error}");
    }
}
