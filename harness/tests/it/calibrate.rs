//! `epochcost profile calibrate` writes a profile that plans can use, from every kind of measurement, and
//! says where one cannot be used.
use epochcost_record::{NewRun, RunDirectory};
use epochcost_systems::Record;
use serde_json::Value;

use crate::fixture;
use crate::support::{Ended, Scene, cases, holds, items, lacks, shipped};

fn calibrate(scene: &Scene, arguments: &str) -> Ended {
    epochcost_testing::watch_for(300);
    scene.run(&format!("profile calibrate {arguments}"))
}

const HEADER: &str =
    "series,operation,client,memory_mb,functions,streams,bytes,new_connection,statistic,measured,n";
const READ: &str = "today,get,compiled,1769,1,1,65536,,mean,0.031,10";

fn table(lines: &[&str]) -> String {
    format!("{HEADER}\n{}\n", lines.join("\n"))
}

/// The constants that `from` moves, with their factors.
#[track_caller]
fn moved(scene: &Scene, from: &str, client: &str) -> Vec<(String, f64)> {
    let ended = calibrate(scene, &format!("{from} --json --client {client}"));
    let of = |moved: &Value| {
        let value = |when: &str| moved[when][0].as_f64().unwrap();
        let path = moved["path"].as_str().unwrap().to_owned();
        (path, value("after") / value("before"))
    };
    let json = ended.ends(0).json();
    items(&json, "constants").iter().map(of).collect()
}

/// The factor of one of them.
#[track_caller]
fn factor(moved: &[(String, f64)], path: &str) -> f64 {
    let of_path = moved.iter().find(|(own, _)| own == path);
    of_path.unwrap_or_else(|| panic!("{path}: {moved:?}")).1
}

#[test]
fn the_profile_that_is_written_is_planned_on() {
    let rows = [
        READ,
        "today,put,compiled,1769,1,1,65536,,mean,0.05,10",
        "today,get,compiled,1769,1,1,268435456,,mean,4.4,3",
    ];
    let scene = Scene::of("mine.csv", &table(&rows));
    let said = calibrate(&scene, "mine.csv --out mine.yaml").ends(0).text();
    for constant in ["request_latency_s", "write_latency_s", "stream_bytes_per_s"] {
        holds(&said, &[&format!("object_store.service.{constant}")]);
    }
    lacks(&said, &["queue.", "cold_start_s"]);
    let again = calibrate(&scene, "mine.csv --out mine.yaml");
    again.ends(2).says(&["--force"]);
    calibrate(&scene, "mine.csv --out mine.yaml --force").ends(0);
    // A constant says where it comes from, and the program reads its own file.
    let written = scene.read("mine.yaml");
    holds(&written, &["before, 0.0238 (0.012 to 0.0471)"]);
    calibrate(&scene, "--probe --profile ./mine.yaml").ends(0);
    let said = scene.text("plan smoke --profile ./mine.yaml");
    holds(&said, &["Profile mine", "never compared"]);
}

/// Rows of one setting and day that no constant can explain together.
#[test]
fn rows_that_disagree_are_warned_of() {
    let scene = Scene::empty();
    let said = |rows: &[&str]| {
        scene.write("mine.csv", &table(rows));
        calibrate(&scene, "mine.csv").ends(0).text()
    };
    let other = READ.replace("0.031", "0.2").replace("65536", "65000");
    let warning = ["times as much as their errors"];
    holds(said(&[READ, &other]), &warning);
    lacks(said(&[READ]), &warning);
}

/// The table that --probe prints is one that can be read once it is filled in.
#[test]
fn proposed_measurements_have_a_price_and_narrow_ranges() {
    let scene = Scene::empty();
    for client in ["compiled", "interpreted"] {
        let probe = format!("--probe --client {client}");
        let said = calibrate(&scene, &probe).ends(0).text();
        let (_, lines) = said.split_once(HEADER).unwrap();
        let filled = lines.replace(",mean,,", ",mean,0.5,");
        let filled: Vec<&str> = filled.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!((filled.len(), said.matches('$').count()), (3, 3), "{said}");
        scene.write("mine.csv", &table(&filled));
        assert!(!moved(&scene, "mine.csv", client).is_empty());
        let json = calibrate(&scene, &format!("{probe} --json")).ends(0).json();
        let proposed = &json["proposed"];
        let mut before = proposed["deviation"].as_f64().unwrap();
        for measurement in items(proposed, "measurements") {
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
    let [dated, json] =
        ["46", "56"].map(|start| cold.replace("3604209a", &format!("{start}04209a")));
    let json = json.replace('\t', "\\t");
    let log = format!(
        "START RequestId: {request} Version: 1\n{cold}\n2026-11-27T03:00:00Z {dated}\n{warm}\n\
         {{\"message\": \"{json}\\n\"}}\n"
    );
    let scene = Scene::of("log.txt", &log).with("warm.txt", &warm);
    // Towards 0.3 s, from 1.23 s and from 0.0175 s.
    for (client, constant, factors) in [
        ("interpreted", "interpreted.init_s", 0.22..0.5),
        ("compiled", "function.init_s", 5.0..20.0),
    ] {
        let found = moved(&scene, "log.txt", client);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(factors.contains(&factor(&found, constant)), "{found:?}");
        // What is there twice counts once.
        assert_eq!(moved(&scene, "log.txt log.txt", client), found);
    }
    let twice = calibrate(&scene, "log.txt log.txt --client interpreted").ends(0);
    holds(twice.text(), &["4 left out"]);
    let refused = calibrate(&scene, "warm.txt").ends(2);
    refused.says(&["no REPORT line has an Init Duration"]);
}

/// Cold starts of a run, and its steps with one write and one read of half a megabyte.
#[test]
fn a_run_on_aws_moves_constants_and_another_run_is_refused() {
    let scene = Scene::empty();
    let at = |name: &str, platform: &str, rehearsed: bool| {
        let run = NewRun {
            platform: platform.to_owned(),
            rehearsed,
            ..fixture::new_run("[]", 1)
        };
        let run = RunDirectory::create(Some(&scene.file(name)), run).unwrap();
        for system in fixture::SYSTEMS {
            let plan = fixture::plan(system, 0);
            let mut outcome = fixture::outcome(&plan, 1.0);
            for record in &mut outcome.records {
                let Record::Step(step) = record else { continue };
                step.traffic = Default::default();
                let objects = &mut step.traffic.exchange.objects;
                (objects.puts, objects.bytes_up) = (1, 500_000);
                (objects.gets, objects.bytes_down) = (1, 500_000);
            }
            run.append_trial(&plan, &outcome).unwrap();
        }
    };
    at("aws", "aws", false);
    at("local", "local", false);
    at("rehearsed", "aws", true);
    let found = moved(&scene, "aws", "compiled");
    // 120 ms, 80 to 160 ms and 200 ms, where the profile has 18, 38 and 24.
    assert!(factor(&found, "function.init_s") > 2.0);
    assert!(factor(&found, "object_store.service.write_latency_s") > 1.5);
    assert!(factor(&found, "object_store.service.request_latency_s") > 2.0);
    for ([runs], words) in cases(&[
        "aws local | platform `local` | alone",
        "aws rehearsed | rehearsed is a rehearsal",
    ]) {
        calibrate(&scene, runs).ends(2).says(&words);
    }
}

/// Quantities of whole functions, in the table of their settings.
#[test]
fn rounds_of_aggregation_move_the_constants_that_they_show() {
    let scene = Scene::empty();
    let text = shipped("experiments/validation/predictions/gradssharding.csv");
    let write = |measured: &str| {
        let column = ["measured", measured, measured, measured];
        let lines = text.lines().zip(column);
        let lines = lines.map(|(line, last)| format!("{line},{last}\n"));
        scene.write("rounds.csv", &lines.collect::<String>());
    };
    let [slow, quick] = ["30", "2"].map(|measured| {
        write(measured);
        let found = moved(&scene, "rounds.csv", "compiled");
        factor(&found, "function.arithmetic_bytes_per_s")
    });
    assert!(slow < 1.0 && quick > 1.0, "{slow} {quick}");
    write("soon");
    let refused = calibrate(&scene, "rounds.csv").ends(2);
    refused.says(&["rounds.csv:2:"]);
}

#[test]
fn what_cannot_be_used_is_named_with_its_place() {
    let scene = Scene::empty();
    let refused =
        |arguments: &str, words: &[&str]| calibrate(&scene, arguments).ends(2).says(words);
    for ([old, new], words) in cases(&[
        "get | got | mine.csv:2:operation",
        "0.031 | soon | mine.csv:2:",
        "0.031 | 0 | mine.csv:2:measured",
        ",10 | ,0 | mine.csv:2:n",
        ",1,1, | ,0,1, | mine.csv:2:functions",
        "mean | row:a | takes single operations",
        "0.031 | 31 | give seconds",
    ]) {
        scene.write("mine.csv", &table(&[&READ.replace(old, new)]));
        refused("mine.csv", &words);
    }
    let renamed = HEADER.replace("measured", "seconds");
    for ([text], words) in cases(&[
        &format!("{HEADER}\n{READ}\n{READ} | there twice"),
        &format!("{HEADER} | there is no row"),
        &format!("{renamed}\n{READ} | no column \"measured\""),
        "REPORT RequestId: 1\tDuration | mine.csv:1:",
        " | mine.csv",
    ]) {
        scene.write("mine.csv", text);
        refused("mine.csv", &words);
    }
    scene.write("mine.csv", &table(&[READ]));
    scene.write("copy.csv", &table(&[READ]));
    refused(
        "mine.csv copy.csv",
        &["copy.csv has the measurements of mine.csv"],
    );
    let interpreted = READ.replace("compiled", "interpreted");
    scene.write("mine.csv", &table(&[&interpreted]));
    for ([arguments], words) in cases(&[
        " | --probe",
        "mine.csv --profile aws-us-east | aws-us-east-1",
        "mine.csv --profile aws-us-east-1 | describes none",
        "--probe --client interpreted --profile laptop | describes no",
    ]) {
        refused(arguments, &words);
    }
}
