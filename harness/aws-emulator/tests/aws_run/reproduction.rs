//! `reproduce --platform aws`: one limit for all items, paid runs that stay, and the end of a visit.

use epochcost_record::Reproduction;

use crate::cloud::{Cloud, Ended, epochcost, holds};
use crate::faults::{Fate, every, is_invocation, through};

/// A cloud, and a paper of one table, whose two items are simulated, and have a form for AWS: one that costs
/// little, and one with instances.
fn with_paper() -> Option<Cloud> {
    let cloud = Cloud::start()?;
    let write = |name: &str, text: &str| cloud.write(&format!("experiments/one/{name}"), text);
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
    Some(cloud)
}

/// Arguments of the command that is given again and again.
const REPRODUCE: &str = "reproduce one --platform aws --yes --out out";

fn reproduce(cloud: &Cloud, more: &str) -> Ended {
    cloud.run(&format!("{REPRODUCE} {more}"))
}

/// Gives a command whose credentials expire at the first invocation of a function.
fn with_expired_credentials(cloud: &Cloud, arguments: &str) -> Ended {
    let refused = Fate::Refused(403, "ExpiredTokenException");
    let [_, (lambda, own), _] = through(cloud, every(is_invocation, refused));
    Ended::of(cloud.command(arguments).env(lambda, own))
}

fn trials(cloud: &Cloud, item: &str) -> String {
    cloud.trials(&format!("out/one/{item}.aws"))
}

/// The number of trials of each item that have ended.
fn ended(cloud: &Cloud) -> [usize; 2] {
    ["functions", "instances"].map(|item| trials(cloud, item).lines().count())
}

/// A limit is that of all items: what does not fit is left, and started under a higher one, without
/// paying again for what is there; what would be made otherwise now is kept, since it was paid for.
#[test]
fn a_limit_is_that_of_all_items_and_what_was_paid_stays() {
    let Some(cloud) = with_paper() else { return };
    reproduce(&cloud, "--max-usd 0").ends(6);
    cloud.assert_empty();
    assert_eq!(cloud.states(), ["not_reached", "not_reached"]);
    // Enough for two trials of functions, and for none on instances.
    reproduce(&cloud, "--max-usd 0.1").ends(6);
    assert_eq!(cloud.states(), ["done", "not_reached"]);
    let paid = trials(&cloud, "functions");
    assert_eq!(ended(&cloud), [2, 0], "{paid}");
    // It would be made otherwise now.
    cloud.edit("experiments/one/functions.yaml", "seed: 7", "seed: 8");
    reproduce(&cloud, "--max-usd 100").ends(0);
    assert_eq!(trials(&cloud, "functions"), paid);
    assert_eq!(ended(&cloud), [2, 2]);
    assert_eq!(cloud.states(), ["done", "done"]);
    cloud.assert_empty();
}

/// Lets a day pass for the reproduction and for the account, which is charged nothing.
fn a_day_passes(cloud: &Cloud) {
    let out = cloud.path("out");
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
    let Some(cloud) = with_paper() else { return };
    for name in ["functions", "instances"] {
        let file = format!("experiments/one/{name}.yaml");
        cloud.edit(&file, "trials: 2", "trials: 7");
    }
    let visit = format!("{REPRODUCE} --days 7");
    let visits = |trials: usize, says: &str| {
        let said = cloud.run(&visit).ends(0).message();
        assert_eq!(ended(&cloud), [trials, trials], "{said}");
        holds(&said, &[says]);
        cloud.assert_empty();
    };
    let is_due = "the next trial is due on 20";
    // A timer that calls again on the same day changes nothing.
    visits(1, is_due);
    visits(1, is_due);
    a_day_passes(&cloud);
    visits(2, is_due);
    a_day_passes(&cloud);
    let expired = with_expired_credentials(&cloud, &visit).says(&["aws sso login"]);
    assert_ne!(expired.code(), 0, "{}", expired.message());
    assert_eq!(ended(&cloud), [2, 2]);
    visits(3, is_due);
    a_day_passes(&cloud);
    visits(4, is_due);
    a_day_passes(&cloud);
    // Another build keeps what was paid for, and does not mix with it.
    let other = cloud.path("rebuilt");
    let mut program = std::fs::read(epochcost()).unwrap();
    program.push(b'\n');
    std::fs::write(&other, program).unwrap();
    let mode = std::fs::metadata(epochcost()).unwrap().permissions();
    std::fs::set_permissions(&other, mode).unwrap();
    Ended::of(&mut cloud.command_of(&other, &visit)).says(&["another build"]);
    assert_eq!(ended(&cloud), [4, 4]);
    cloud.assert_empty();
    visits(5, is_due);
    // Nobody comes on the sixth day: a visit makes up for one trial.
    a_day_passes(&cloud);
    a_day_passes(&cloud);
    visits(6, "");
    assert_eq!(cloud.states(), ["incomplete", "incomplete"]);
    let said = reproduce(&cloud, "--days 7 --wait").ends(0).message();
    assert_eq!(ended(&cloud), [7, 7], "{said}");
    assert_eq!(cloud.states(), ["done", "done"]);
    cloud.assert_empty();
}

/// Credentials that expire end the visit, not every item after it; the same command goes on.
#[test]
fn expired_credentials_end_the_visit() {
    let Some(cloud) = with_paper() else { return };
    let expired = with_expired_credentials(&cloud, REPRODUCE);
    assert_ne!(expired.code(), 0, "{}", expired.message());
    let summary = cloud.read("out/summary.json");
    assert!(summary.matches("aws sso login").count() >= 2, "{summary}");
    let found = cloud.states();
    assert!(found.iter().all(|state| state != "done"), "{found:?}");
    assert_eq!(trials(&cloud, "instances"), "");
    reproduce(&cloud, "").ends(0);
    assert_eq!(cloud.states(), ["done", "done"]);
    cloud.assert_empty();
}
