//! Pages of the other verbs, with the figures of their JSON.

use super::*;

#[test]
fn a_comparison_is_a_page_with_the_figures_of_its_json() {
    let directory = tempfile::tempdir().unwrap();
    let simulated = |name: &str, memory_mb: &str| {
        let out = directory.path().join(name);
        let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments/mobilenet.yaml");
        let ended = program()
            .arg("run")
            .arg(all)
            .args(["--platform", "sim", "--set", "systems=[spirt, allreduce]"])
            .args(["--set", memory_mb, "--out"])
            .arg(&out)
            .output()
            .unwrap();
        assert!(
            ended.status.success(),
            "{}",
            String::from_utf8_lossy(&ended.stderr)
        );
        out
    };
    let (before, after) = (
        simulated("before", "memory_mb=2048"),
        simulated("after", "memory_mb=1024"),
    );
    let page = directory.path().join("compare.html");
    let output = program()
        .arg("compare")
        .args([&before, &after])
        .arg("--html")
        .arg(&page)
        .arg("--json")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let compared: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = fs::read_to_string(&page).unwrap();
    for sentence in compared["answer"].as_array().unwrap() {
        let sentence = sentence
            .as_str()
            .unwrap()
            .split(['&', '<', '>', '"', '\''])
            .next()
            .unwrap();
        assert!(text.contains(sentence), "{sentence}");
    }
    let rows = compared["comparison"]["rows"].as_array().unwrap();
    let tables = text.matches("<table class=\"sortable\"").count();
    assert_eq!(
        tables,
        1 + rows.len(),
        "that of both runs, and one of each row"
    );
    // Metrics that are the same are named, all others have a line.
    let metrics = rows
        .iter()
        .flat_map(|row| row["metrics"].as_array().unwrap());
    let changed = metrics.filter(|metric| metric["change"] != "same").count();
    assert!(changed > 2 * 2, "{changed}");
    assert_eq!(text.matches("<span class=\"badge ").count(), changed);
    // Of a run and itself nothing has changed, and no table is empty.
    let mut same = program();
    same.arg("compare").args([&before, &before]);
    let same = same.arg("--html").arg(&page).output().unwrap();
    assert!(same.status.success(), "{same:?}");
    let text = fs::read_to_string(&page).unwrap();
    let mut tables = text.split("<tbody>").skip(1);
    assert!(tables.all(|table| table.trim_start().starts_with("<tr")));
}

/// Text as pages escape it.
fn escaped(text: &str) -> String {
    let text = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}

/// Runs a verb with `--html` and `--json`; what it printed, and its page.
fn page_of(arguments: &[&str]) -> (Value, String) {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("page.html");
    let output = program()
        .args(arguments)
        .arg("--json")
        .arg("--html")
        .arg(&page)
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}");
    let printed = serde_json::from_slice(&output.stdout).unwrap();
    (printed, fs::read_to_string(&page).unwrap())
}

/// The page has a figure, but for the last digit, which a reader of JSON may round otherwise.
#[track_caller]
fn has_figure(page: &str, figure: &Value) {
    let wanted = figure.as_f64().unwrap();
    let values = page.split("data-value=\"").skip(1);
    let mut values = values.filter_map(|rest| rest.split('"').next()?.parse::<f64>().ok());
    let is_same = |value: f64| (value - wanted).abs() <= 1e-12 * wanted.abs();
    assert!(values.any(is_same), "{wanted} is not on the page");
}

/// Nothing that a browser would ask for, and a policy that names the script.
#[track_caller]
fn stands_alone(page: &str) {
    for foreign in ["src=", "<link", "@import", "url("] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    // A screen reader lists regions by name.
    let regions = page.split("role=\"region\" aria-label=\"").skip(1);
    let names = regions.filter_map(|rest| rest.split('"').next());
    let mut seen = std::collections::BTreeSet::new();
    let twice = names.into_iter().find(|name| !seen.insert(*name));
    assert_eq!(twice, None);
    assert!(page.contains("default-src 'none'"));
    assert!(page.contains("<div class=\"answer\""));
}

#[test]
fn a_plan_is_a_page_with_the_figures_of_its_json() {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments/mobilenet.yaml");
    let all = all.to_str().unwrap();
    let (plan, page) = page_of(&["plan", all, "--set", "memory_mb=512"]);
    stands_alone(&page);
    let rows = plan["rows"].as_array().unwrap();
    let mut possible = 0;
    for row in rows {
        assert!(page.contains(&format!(
            "<th scope=\"row\">{}</th>",
            row["id"].as_str().unwrap()
        )));
        let estimate = &row["estimate"];
        if estimate.is_null() {
            continue;
        }
        possible += 1;
        for field in [
            "seconds",
            "seconds_per_epoch",
            "cost_full_usd",
            "cost_paper_usd",
        ] {
            has_figure(&page, &estimate[field]);
        }
    }
    assert!(possible > 0);
    // The fastest, the cheapest, and what is not possible are said first.
    let least = |field: &str| {
        let known = rows.iter().filter(|row| !row["estimate"].is_null());
        let value = |row: &&Value| row["estimate"][field].as_f64().unwrap();
        let best = known.min_by(|a, b| value(a).total_cmp(&value(b))).unwrap();
        best["name"].as_str().unwrap()
    };
    let (_, answer) = page.split_once("<div class=\"answer\"").unwrap();
    let (answer, _) = answer.split_once("</div>").unwrap();
    assert!(
        answer.contains(&format!("Fastest (simulated): {}, ", least("seconds"))),
        "{answer}"
    );
    assert!(
        answer.contains(&format!(
            "Cheapest (simulated): {}, ",
            least("cost_full_usd")
        )),
        "{answer}"
    );
    let impossible = rows.len() - possible;
    let said = match impossible {
        0 => format!("All {possible} rows are possible."),
        1 => format!("Of {} rows 1 is not possible", rows.len()),
        count => format!("Of {} rows {count} are not possible", rows.len()),
    };
    assert!(answer.contains(&said), "{said}: {answer}");
    assert_eq!(
        page.matches("<tr class=\"infeasible\">").count(),
        impossible
    );
}

#[test]
fn a_plan_with_a_goal_begins_with_where_to_train() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments/own-model.yaml");
    let own = own.to_str().unwrap();
    let goal = [
        "--deadline",
        "1h",
        "--place",
        "lambda-x86",
        "--samples",
        "2000",
    ];
    let (plan, page) = page_of(&[&["plan", own], &goal[..]].concat());
    stands_alone(&page);
    for sentence in plan["answer"]["sentences"].as_array().unwrap() {
        assert!(
            page.contains(&escaped(sentence.as_str().unwrap())),
            "{sentence}"
        );
    }
    for choice in plan["answer"]["frontier"].as_array().unwrap() {
        assert!(
            page.contains(&escaped(choice["what"].as_str().unwrap())),
            "{choice}"
        );
    }
}

#[test]
fn an_audit_is_a_page_with_every_finding() {
    let (audited, page) = page_of(&["audit"]);
    stands_alone(&page);
    let findings = audited["findings"].as_array().unwrap();
    let rows = page.matches("<th scope=\"row\">").count();
    assert_eq!(rows, findings.len());
    for sentence in audited["answer"].as_array().unwrap() {
        assert!(
            page.contains(&escaped(sentence.as_str().unwrap())),
            "{sentence}"
        );
    }
    for finding in findings {
        for note in finding["notes"].as_array().unwrap() {
            assert!(page.contains(&escaped(note.as_str().unwrap())), "{note}");
        }
    }
}
