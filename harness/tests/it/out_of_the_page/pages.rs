//! Pages of the other verbs, with the figures of their JSON.

use super::*;

#[test]
fn a_comparison_is_a_page_with_the_figures_of_its_json() {
    let scene = Scene::empty();
    for (name, memory_mb) in [("before", 2048), ("after", 1024)] {
        scene.text(&format!(
            "run mobilenet --platform sim --set 'systems=[spirt, allreduce]' \
             --set memory_mb={memory_mb} --out {name}"
        ));
    }
    let compared = scene.json("compare before after --html page.html --json");
    let text = scene.read("page.html");
    holds_texts(&text, items(&compared, "answer"));
    let rows = items(&compared["comparison"], "rows");
    let tables = text.matches("<table class=\"sortable\"").count();
    // That of both runs, and one of each row.
    assert_eq!(tables, 1 + rows.len());
    // Metrics that are the same are named, all others have a line.
    let metrics = rows.iter().flat_map(|row| items(row, "metrics"));
    let changed = metrics.filter(|metric| metric["change"] != "same").count();
    assert!(changed > 2 * 2, "{changed}");
    assert_eq!(text.matches("<span class=\"badge ").count(), changed);
    // Of a run and itself nothing has changed, and no table is empty.
    scene.text("compare before before --html page.html");
    let text = scene.read("page.html");
    let mut tables = text.split("<tbody>").skip(1);
    assert!(tables.all(|table| table.trim_start().starts_with("<tr")));
}

/// The page has these texts, as pages escape them.
#[track_caller]
fn holds_texts(page: &str, texts: &[Value]) {
    for text in texts {
        let text = text.as_str().unwrap().replace('&', "&amp;");
        let text = text.replace('<', "&lt;").replace('>', "&gt;");
        let text = text.replace('"', "&quot;").replace('\'', "&#39;");
        assert!(page.contains(&text), "{text}");
    }
}

/// Runs a verb with `--html` and `--json`; what it printed, and its page.
fn page_of(arguments: &str) -> (Value, String) {
    let scene = Scene::empty();
    let printed = scene.json(&format!("{arguments} --json --html page.html"));
    (printed, scene.read("page.html"))
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
    lacks(page, &["src=", "<link", "@import", "url("]);
    // A screen reader lists regions by name.
    let regions = page.split("role=\"region\" aria-label=\"").skip(1);
    let mut names = regions.filter_map(|rest| rest.split('"').next());
    let mut seen = std::collections::BTreeSet::new();
    assert!(names.all(|name| seen.insert(name)), "{seen:?}");
    holds(page, &["default-src 'none'", "<div class=\"answer\""]);
}

#[test]
fn a_plan_is_a_page_with_the_figures_of_its_json() {
    let (plan, page) = page_of("plan mobilenet --set memory_mb=512");
    stands_alone(&page);
    let rows = items(&plan, "rows");
    let mut possible = 0;
    for row in rows {
        let id = row["id"].as_str().unwrap();
        holds(&page, &[&format!("<th scope=\"row\">{id}</th>")]);
        let estimate = &row["estimate"];
        if estimate.is_null() {
            continue;
        }
        possible += 1;
        for field in "seconds seconds_per_epoch cost_full_usd cost_paper_usd".split(' ') {
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
    for (title, field) in [("Fastest", "seconds"), ("Cheapest", "cost_full_usd")] {
        let said = format!("{title} (simulated): {}, ", least(field));
        holds(answer, &[&said]);
    }
    let impossible = rows.len() - possible;
    let said = match impossible {
        0 => format!("All {possible} rows are possible."),
        1 => format!("Of {} rows 1 is not possible", rows.len()),
        count => format!("Of {} rows {count} are not possible", rows.len()),
    };
    holds(answer, &[&said]);
    let marked = page.matches("<tr class=\"infeasible\">").count();
    assert_eq!(marked, impossible);
}

#[test]
fn a_plan_with_a_goal_begins_with_where_to_train() {
    let goal = "--deadline 1h --place lambda-x86 --samples 2000";
    let (plan, page) = page_of(&format!("plan own-model {goal}"));
    stands_alone(&page);
    let answer = &plan["answer"];
    holds_texts(&page, items(answer, "sentences"));
    for choice in items(answer, "frontier") {
        holds_texts(&page, std::slice::from_ref(&choice["what"]));
    }
}

#[test]
fn an_audit_is_a_page_with_every_finding() {
    let (audited, page) = page_of("audit");
    stands_alone(&page);
    let findings = items(&audited, "findings");
    let rows = page.matches("<th scope=\"row\">").count();
    assert_eq!(rows, findings.len());
    holds_texts(&page, items(&audited, "answer"));
    for finding in findings {
        holds_texts(&page, items(finding, "notes"));
    }
}
