//! `reproduce --platform aws`: one limit for all items, paid runs that stay, and the end of a visit.

use std::path::Path;
use std::process::Output;

use epochcost_record::Reproduction;
use serde_json::Value;

use crate::cloud::{Cloud, epochcost, printed};
use crate::faults::{Fate, ProxiedRequest, is_invocation, proxy};

/// A paper of one table, whose two items are simulated, and have a form for AWS: one that costs
/// little, and one with instances.
fn paper(directory: &Path) {
    let folder = directory.join("experiments/one");
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    let mut verdicts = "experiment,claim,verdict,date,why\n".to_owned();
    for (name, system) in [
        ("functions", "scatterreduce"),
        ("instances", "gpu_baseline"),
    ] {
        let text = format!(
            "schema: 1\nname: {name}\ndescription: the item {name}\nplatform: sim\nseed: 7\n\
             dataset: {{name: synthetic-mnist, train: 120, test: 40, seed: 1}}\nmodel: lenet5\n\
             workers: 3\nbatch_size: 8\nbatches_per_worker: 2\nepochs: 1\nevaluate: never\n\
             device: {{kind: cpu}}\nmemory_mb: 1024\ntimeout_s: 60\nsystems: [{system}]\n\
             beside: [{{table: t, keys: {{system: system}}}}]\n\
             forms: {{aws: {{set: {{platform: aws, trials: 2}}}}}}\n"
        );
        write(&format!("{name}.yaml"), &text);
        verdicts += &format!("{name},puts[{system}],agrees,2026-11-01,\n");
    }
    write("verdicts.csv", &verdicts);
    write(
        "paper.yaml",
        "cite: a paper\ntables:\n  t:\n    place: Table 1\n    file: t.csv\n    keys: [system]\n    \
         columns: {puts: {unit: count, metric: puts}}\n",
    );
    write("t.csv", "system,puts\nscatterreduce,18\ngpu_baseline,6\n");
}

/// Arguments of the command that is given again and again.
const REPRODUCE: [&str; 7] = [
    "reproduce",
    "one",
    "--platform",
    "aws",
    "--yes",
    "--out",
    "out",
];

fn reproduce(cloud: &Cloud, directory: &Path, more: &[&str]) -> (i32, String) {
    let output: Output = cloud.run(directory, &[&REPRODUCE[..], more].concat());
    (output.status.code().unwrap(), printed(&output))
}

/// Gives a command whose credentials expire at the first invocation of a function.
fn with_expired_credentials(cloud: &Cloud, directory: &Path, arguments: &[&str]) -> (i32, String) {
    let refuses = |request: &ProxiedRequest<'_>| {
        if is_invocation(request) {
            Fate::Refused(403, "ExpiredTokenException")
        } else {
            Fate::Through
        }
    };
    let own = proxy(&cloud.emulator.url, std::sync::Arc::new(refuses));
    let mut command = cloud.command(arguments);
    command.env("AWS_ENDPOINT_URL_LAMBDA", &own);
    let output = command.current_dir(directory).output().unwrap();
    (output.status.code().unwrap(), printed(&output))
}

/// Returns the state of each form for AWS.
fn states(directory: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(directory.join("out/summary.json")).unwrap();
    let summary: Value = serde_json::from_str(&text).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let items = summary["items"].as_array().unwrap().iter();
    let items = items.map(|item| (text(&item["id"]), text(&item["state"])));
    items.filter(|(id, _)| id.ends_with(".aws")).collect()
}

fn trials(directory: &Path, item: &str) -> String {
    let path = directory.join(format!("out/one/{item}.aws/trials.jsonl"));
    std::fs::read_to_string(path).unwrap_or_default()
}

/// A limit is that of all items: what does not fit is left, and started under a higher one, without
/// paying again for what is there; what would be made otherwise now is kept, since it was paid for.
#[test]
fn a_limit_is_that_of_all_items_and_what_was_paid_stays() {
    let Some(cloud) = Cloud::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    paper(directory);
    let is = |states: &[(String, String)], expected: [&str; 2]| {
        let found: Vec<&str> = states.iter().map(|(_, state)| state.as_str()).collect();
        assert_eq!(found, expected, "{states:?}");
    };
    let (code, said) = reproduce(&cloud, directory, &["--max-usd", "0"]);
    assert_eq!(code, 6, "{said}");
    cloud.assert_empty();
    is(&states(directory), ["not_reached", "not_reached"]);
    // Enough for two trials of functions, and for none on instances.
    let (code, said) = reproduce(&cloud, directory, &["--max-usd", "0.1"]);
    assert_eq!(code, 6, "{said}");
    is(&states(directory), ["done", "not_reached"]);
    let paid = trials(directory, "functions");
    assert_eq!(paid.lines().count(), 2, "{paid}");
    assert_eq!(trials(directory, "instances"), "");
    // It would be made otherwise now.
    let file = directory.join("experiments/one/functions.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("seed: 7", "seed: 8")).unwrap();
    let (code, said) = reproduce(&cloud, directory, &["--max-usd", "100"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(trials(directory, "functions"), paid);
    assert_eq!(trials(directory, "instances").lines().count(), 2);
    is(&states(directory), ["done", "done"]);
    cloud.assert_empty();
}

/// Lets a day pass for the reproduction and for the account, which is charged nothing.
fn a_day_passes(cloud: &Cloud, directory: &Path) {
    let out = directory.join("out");
    let mut record = Reproduction::read(&out).unwrap();
    record.visits.as_mut().unwrap().began_s -= 86_400.0;
    record.write(&out).unwrap();
    let before = cloud.account();
    cloud.skip(86_400);
    for part in ["charged", "rented", "running"] {
        assert_eq!(cloud.account()[part], before[part], "{part}");
    }
    // The next visit reckons by real time.
    cloud.rewind();
}

/// Seven trials of each row in seven days: a visit runs one, and leaves nothing in the account. Credentials
/// that expire on the third day and another build on the fifth lose nothing and buy nothing twice.
#[test]
fn visits_of_seven_days_run_what_is_due() {
    let Some(cloud) = Cloud::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    paper(directory);
    for name in ["functions", "instances"] {
        let file = directory.join(format!("experiments/one/{name}.yaml"));
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("trials: 2", "trials: 7")).unwrap();
    }
    let ended = || ["functions", "instances"].map(|item| trials(directory, item).lines().count());
    let visit = [&REPRODUCE[..], &["--days", "7"]].concat();
    let visits = |trials: usize, says: &str| {
        let (code, said) = reproduce(&cloud, directory, &["--days", "7"]);
        assert_eq!((code, ended()), (0, [trials, trials]), "{said}");
        assert!(said.contains(says), "{said}");
        cloud.assert_empty();
    };
    let is_due = "the next trial is due on 20";
    // A timer that calls again on the same day changes nothing.
    visits(1, is_due);
    visits(1, is_due);
    a_day_passes(&cloud, directory);
    visits(2, is_due);
    a_day_passes(&cloud, directory);
    let (code, said) = with_expired_credentials(&cloud, directory, &visit);
    assert!(said.contains("aws sso login"), "{said}");
    assert_ne!(code, 0, "{said}");
    assert_eq!(ended(), [2, 2]);
    visits(3, is_due);
    a_day_passes(&cloud, directory);
    visits(4, is_due);
    a_day_passes(&cloud, directory);
    // Another build keeps what was paid for, and does not mix with it.
    let other = directory.join("rebuilt");
    let mut program = std::fs::read(epochcost()).unwrap();
    program.push(b'\n');
    std::fs::write(&other, program).unwrap();
    let mode = std::fs::metadata(epochcost()).unwrap().permissions();
    std::fs::set_permissions(&other, mode).unwrap();
    let mut command = cloud.command_of(&other, &visit);
    let said = printed(&command.current_dir(directory).output().unwrap());
    assert!(said.contains("another build"), "{said}");
    assert_eq!(ended(), [4, 4]);
    cloud.assert_empty();
    visits(5, is_due);
    // Nobody comes on the sixth day: a visit makes up for one trial.
    a_day_passes(&cloud, directory);
    a_day_passes(&cloud, directory);
    visits(6, "");
    let incomplete = |(_, state): &(String, String)| state == "incomplete";
    assert!(states(directory).iter().all(incomplete));
    let (code, said) = reproduce(&cloud, directory, &["--days", "7", "--wait"]);
    assert_eq!((code, ended()), (0, [7, 7]), "{said}");
    assert!(states(directory).iter().all(|(_, state)| state == "done"));
    cloud.assert_empty();
}

/// Credentials that expire end the visit, not every item after it; the same command goes on.
#[test]
fn expired_credentials_end_the_visit() {
    let Some(cloud) = Cloud::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    paper(directory);
    let (code, said) = with_expired_credentials(&cloud, directory, &REPRODUCE);
    assert_ne!(code, 0, "{said}");
    let summary = std::fs::read_to_string(directory.join("out/summary.json")).unwrap();
    assert!(summary.matches("aws sso login").count() >= 2, "{summary}");
    let found = states(directory);
    assert!(found.iter().all(|(_, state)| state != "done"), "{found:?}");
    assert_eq!(trials(directory, "instances"), "");
    let (code, said) = reproduce(&cloud, directory, &[]);
    assert_eq!(code, 0, "{said}");
    assert!(states(directory).iter().all(|(_, state)| state == "done"));
    cloud.assert_empty();
}
