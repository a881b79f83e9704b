//! Figures, tables and verdicts as files of their own.

use super::*;
use crate::reliability::SIZES;

/// An SVG that was saved from the page was once shown as a tree of XML.
#[test]
fn figures_and_tables_stand_alone() {
    let scene = Scene::empty();
    written(&scene.file("run"), fixture::CLAIMS);
    // A trial of the fixture failed.
    scene.run("report run --figures out").ends(3);
    let read = |name: &str| scene.read(&format!("out/{name}"));
    for name in "time-cost accuracy stages costs bytes loss timeline-spirt".split(' ') {
        let image = read(&format!("{name}.svg"));
        holds(&image, &["xmlns='http://www.w3.org/2000/svg'"]);
        lacks(&image, &["var(--", "display: none"]);
        assert!(is_well_formed(&image), "{name}");
    }
    // Every digit of the summary.
    let summary = scene.value("run/summary.json");
    let exact = &summary["rows"][3]["figures"]["cost_full_usd"]["mean"];
    holds(read("table-summary.csv"), &[&exact.to_string()]);
    let data = read("time-cost.csv");
    assert!(data.starts_with("name,origin,"), "{data}");
    holds(&data, &["SPIRT,measured,10,"]);
    assert_eq!(data.lines().count(), 1 + fixture::SYSTEMS.len());
    // Figures have their units.
    let heading = |name: &str| read(name).lines().next().unwrap().to_owned();
    let of_bytes = heading("bytes.csv");
    let units = "name,part,value (bytes per worker and trial)";
    assert!(of_bytes.starts_with(units), "{of_bytes}");
    let units = ["(USD)", "(s)", "(MB)", "(bytes)", "(share)"];
    holds(heading("table-summary.csv"), &units);
    let verdicts = read("table-verdicts.csv");
    let mut units = verdicts.lines().map(|line| {
        let unquoted: String = line.split('"').step_by(2).collect();
        unquoted.split(',').nth(7).unwrap().to_owned()
    });
    assert_eq!(units.next().unwrap(), "unit");
    assert!(units.all(|unit| !unit.is_empty()), "{verdicts}");
    let words = ["\\toprule", "every system learns something"];
    holds(read("table-verdicts.tex"), &words);
    assert!(read("table-stages.md").starts_with("| system | fetch dataset |"));
    let id = summary["run_id"].as_str().unwrap();
    holds(read("CITATION.bib"), &[id]);
}

#[test]
fn junit_has_a_case_for_every_verdict() {
    let scene = Scene::empty();
    // Characters of a terminal, which XML does not have, are named.
    let claims =
        fixture::CLAIMS.replace("every system learns", "every SPIRT \\u001b[1mlearns\\u0007");
    let run = written(scene.path(), &claims);
    for name in ["junit.xml", "report.html", "report.md"] {
        let text = scene.read(name);
        assert!(text.contains("SPIRT [U+001B]"), "{name}");
        let is_control = |c: &char| c.is_control() && !"\n\t".contains(*c);
        assert_eq!(text.chars().find(is_control), None, "{name}");
    }
    let text = scene.read("junit.xml");
    let verdicts = analysis::summarise(&run).unwrap().summary.verdicts.len();
    assert!(is_well_formed(&text), "{text}");
    // One more for the row with a failed trial; one claim has no row.
    assert_eq!(text.matches("<testcase ").count(), verdicts + 1);
    holds(&text, &["failures=\"1\" errors=\"0\" skipped=\"1\""]);
    let mut lines = text.lines();
    let row = lines.find(|line| line.contains("trials failed"));
    holds(row.unwrap(), &["time=\"", "<failure ", " s: "]);
}

/// Two rows whose epochs differ are set against each other by a thousand samples, and neither
/// is called the fastest of an epoch.
#[test]
fn no_chart_sets_unlike_epochs_side_by_side() {
    let scene = Scene::of("unlike.yaml", SIZES);
    let rows = "systems=[{system: allreduce, batches_per_worker: 6}, spirt]";
    scene.text(&format!("run unlike.yaml --out run --set '{rows}'"));
    scene.text("report run --figures out");
    let data = scene.read("out/time-cost.csv");
    let heading = data.lines().next().unwrap();
    assert_eq!(heading.matches("of 1,000 samples").count(), 2, "{heading}");
    assert!(!heading.contains("epoch"), "{heading}");
    let unlike = "No two rows of this run do the same work";
    let words = [unlike, "so that 1,000 samples are compared"];
    holds(scene.read("run/report.html"), &words);
}

/// Runs an experiment into `name`. Returns what is said of it, and the title of its chart of time and cost.
fn said_and_titled(scene: &Scene, name: &str, experiment: &str) -> (String, String) {
    scene.write(&format!("{name}.yaml"), experiment);
    let said = scene.text(&format!("run {name}.yaml --out {name}"));
    let page = scene.read(&format!("{name}/report.html"));
    let (_, title) = page.split_once("<h2 id=\"time-cost\">").unwrap();
    let (title, _) = title.split_once(" <span").unwrap();
    (said, title.to_owned())
}

/// A simulation that trains names no winner among rows that guess, in its answer and in the chart's
/// title, and none that guesses beside one that has learned.
#[test]
fn a_simulation_that_trains_crowns_none_that_guesses() {
    let scene = Scene::empty();
    let answer = |name: &str, rows: &str| {
        let text = format!(
            "schema: 1\nname: {name}\nplatform: sim\nmodel: lenet5\nworkers: 2\nbatch_size: 32\n\
             dataset: {{name: synthetic-mnist, train: 512, test: 200, seed: 1}}\n\
             batches_per_worker: 8\nevaluate: every_epoch\n\
             simulation: {{compute: [stated-flops], real_compute: true}}\nsystems:\n{rows}"
        );
        let (said, title) = said_and_titled(&scene, name, &text);
        // On one line, however wide.
        let said: Vec<&str> = said.split_whitespace().collect();
        (said.join(" "), title)
    };
    let row = |system: &str, rate: f64, epochs: usize| {
        let sgd = format!("{{sgd: {{learning_rate: {rate}, momentum: 0.9}}}}");
        format!("  - {{system: {system}, epochs: {epochs}, optimizer: {sgd}}}\n")
    };
    let none = ["allreduce", "gpu_baseline"].map(|system| row(system, 1e-6, 1));
    let (said, title) = answer("guessing", &none.concat());
    let guesses = "What was trained in this simulation is hardly better than guessing";
    assert!(said.starts_with(guesses), "{said}");
    assert!(!said.contains("Fastest"), "{said}");
    assert_eq!(title, "Time against cost: nothing was learned, no ranking");
    let some = ["allreduce", "gpu_baseline"].map(|system| row(system, 0.05, 4));
    let (said, _) = answer(
        "learning",
        &(some.concat() + &row("scatterreduce", 1e-6, 4)),
    );
    assert!(said.starts_with("Fastest: "), "{said}");
    let left_out = "Left out, since hardly better than guessing: 1 of 3 rows.";
    holds(&said, &[left_out]);
}

/// Virtual time is that of AWS, and names the fastest and the cheapest with the basis; many
/// settings are no votes.
#[test]
fn a_simulated_run_names_the_fastest_and_many_settings_none() {
    let scene = Scene::empty();
    let answer = |name: &str, sweep: &str| {
        let text = format!(
            "schema: 1\nname: settings\nplatform: sim\ndataset: {{name: cifar10}}\nmodel: mobilenet\n\
             workers: 4\nbatch_size: 64\nbatches_per_worker: 2\nepochs: 2\nevaluate: never\n\
             simulation: {{compute: [stated-flops], limits: false}}\n\
             systems: [allreduce, gpu_baseline]\n{sweep}"
        );
        let (_, title) = said_and_titled(&scene, name, &text);
        let summary = scene.value(&format!("{name}/summary.json"));
        (summary["answer"].clone(), title)
    };
    let (one, title) = answer("one", "");
    let text = |field: &str| one[field].as_str().unwrap().to_owned();
    let fastest = text("fastest");
    assert!(fastest.starts_with("Fastest: "), "{fastest}");
    holds(&fastest, &[" per epoch (simulated); next: "]);
    let cheapest = text("cheapest");
    let first = "Cheapest: AllReduce on functions, $";
    assert!(cheapest.starts_with(first), "{cheapest}");
    let rented = "on rented instances, GPU baseline on 4 × g4dn.xlarge, costs";
    holds(&cheapest, &[rented]);
    // The chart's title says the same.
    let leader = |sentence: &str, end: &str| {
        let (_, rest) = sentence.split_once(": ").unwrap();
        rest.split_once(end).unwrap().0.to_owned()
    };
    let (fast, cheap) = (leader(&fastest, ","), leader(&cheapest, " on functions"));
    let told = if fast == cheap {
        format!("{fast} is fastest and cheapest per epoch")
    } else {
        format!("{fast} is fastest, {cheap} is cheapest per epoch")
    };
    assert_eq!(title, told);
    let (many, _) = answer("many", "sweep: {workers: [2, 3, 4, 6, 8]}\n");
    let fastest = many["fastest"].as_str().unwrap();
    let settings = "5 settings that differ in their work (simulated)";
    assert!(fastest.starts_with(settings), "{fastest}");
    assert_eq!(many["cheapest"], "");
}
