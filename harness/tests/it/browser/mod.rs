//! The report page in a real browser. Needs Chromium: without it the tests say
//! that they did not run; with `EPOCHCOST_BROWSER=required` they fail. Pictures
//! of what they saw are kept in `target/tmp/browser/`.

mod chromium;
mod numbers;
mod pages;
mod probes;
mod saved;

use std::collections::BTreeSet;

use self::chromium::{Browser, start};
use self::numbers::{charts_agree, column, tables_agree};
use self::pages::*;
use self::probes::{BEYOND, CONTRAST, COVERED, EMPTY, OVERFLOWING, SHOWN};
use crate::support::{holds, items};
use serde_json::{Value, json};

/// Opens a page in a window of that width, where everything has a place of its own.
#[track_caller]
fn fits(browser: &mut Browser, page: &Page, width: u32, scheme: &str) {
    browser.prefer(scheme, "screen");
    browser.open_at(width, &page.url);
    let place = format!("{}-{width}-{scheme}", page.name());
    for amiss in [OVERFLOWING, COVERED, BEYOND] {
        assert_eq!(browser.value(amiss), json!([]), "{place}");
    }
    browser.picture(&kept(&format!("{place}.png")));
    assert_eq!(browser.complaints(&page.url), [""; 0], "{place}");
}

#[test]
fn pages_fit_every_window_ask_for_nothing_and_complain_of_nothing() {
    let Some(mut browser) = start() else { return };
    let of_runs = [&MEASURED, &SIMULATED, &TABLE2, &MANY, &OVERVIEW];
    let of_verbs = [&COMPARISON, &PLANNED, &AUDITED];
    for page in of_runs.into_iter().chain(of_verbs) {
        // The scheme changes colours alone.
        for width in [390, 800, 1400] {
            fits(&mut browser, page, width, "light");
        }
        fits(&mut browser, page, 800, "dark");
    }
}

/// Pages of all systems, of tables and of sweeps: an experiment of each kind.
#[test]
fn charts_of_shipped_experiments_are_legible_at_every_width() {
    let Some(mut browser) = start() else { return };
    for page in &*SHIPPED {
        for width in [390, 800, 1400] {
            fits(&mut browser, page, width, "light");
            assert_eq!(browser.value(EMPTY), json!([]), "{}", page.name());
        }
    }
}

#[test]
fn exact_values_are_shown_to_the_keyboard() {
    let Some(mut browser) = start() else { return };
    let page = &MEASURED;
    browser.open_at(1400, &page.url);
    browser.value("document.querySelector('svg.for-wide g[tabindex]').focus()");
    let is_hidden = "document.querySelector('#tip').hidden";
    assert_eq!(browser.value(is_hidden), false);
    let shown = browser.value("document.querySelector('#tip').textContent");
    let exact = page.rows()[0]["cost_to_target_full_usd"].to_string();
    holds(shown, &["\"SPIRT (measured)", &exact[..8]]);
    browser.value("document.activeElement.blur()");
    assert_eq!(browser.value(is_hidden), true);
}

#[test]
fn without_a_script_everything_is_there_and_nothing_pretends_to_work() {
    let Some(mut browser) = start() else { return };
    for page in [&MEASURED, &SIMULATED] {
        for width in [390, 1400] {
            let disabled = "Emulation.setScriptExecutionDisabled";
            browser.call(disabled, json!({"value": true}));
            browser.open_at(width, &page.url);
            let metrics = browser.call("Page.getLayoutMetrics", json!({}));
            assert_eq!(metrics["cssContentSize"]["width"], width);
            browser.picture(&kept(&format!("{}-{width}-no-script.png", page.name())));
            let document = browser.call("DOM.getDocument", json!({"depth": 1}));
            let mut count = |selector: &str| {
                let query = json!({"nodeId": document["root"]["nodeId"], "selector": selector});
                let found = browser.call("DOM.querySelectorAll", query);
                found["nodeIds"].as_array().unwrap().len()
            };
            let verdicts = items(&page.summary, "verdicts").len();
            assert_eq!(count("#table-summary tbody tr"), page.rows().len());
            assert_eq!(count("#table-verdicts tbody tr"), verdicts);
            // Nothing is hidden but the empty bar.
            let parts = ["[hidden]:not(#view)", "button", "select", "#view[hidden]"];
            assert_eq!(parts.map(count), [0, 0, 0, 1]);
            browser.call(disabled, json!({"value": false}));
            assert_eq!(browser.complaints(&page.url), [""; 0]);
        }
    }
}

#[test]
fn tables_and_charts_have_the_numbers_of_the_summary() {
    let Some(mut browser) = start() else { return };
    for page in [&MEASURED, &SIMULATED] {
        browser.open(&page.url);
        tables_agree(&mut browser, page);
        charts_agree(&mut browser, page);
    }
}

/// Without the digits in which two readers of one decimal number may differ.
fn without_last_digits(value: Option<f64>) -> Option<f64> {
    value.map(|value| (value * 1e12).round() / 1e12)
}

#[test]
fn tables_sort_by_mouse_and_by_keyboard() {
    let Some(mut browser) = start() else { return };
    let page = &MEASURED;
    browser.open_at(1600, &page.url);
    let mean = |row: &Value| row["figures"]["cost_full_usd"]["mean"].as_f64();
    let costs = page.rows().iter().map(mean).map(without_last_digits);
    let unsorted: Vec<Option<f64>> = costs.collect();
    let mut by_cost = unsorted.clone();
    by_cost.sort_by(|a, b| a.unwrap().total_cmp(&b.unwrap()));
    assert_ne!(by_cost, unsorted);
    let sorted = |browser: &mut Browser| {
        let heading =
            "document.querySelectorAll('#table-summary thead th')[5].getAttribute('aria-sort')";
        let costs = column(browser, "table-summary", 5).into_iter();
        let costs: Vec<Option<f64>> = costs.map(without_last_digits).collect();
        (browser.value(heading), costs)
    };
    let heading = "#table-summary thead th:nth-child(6) button";
    browser.click(heading);
    assert_eq!(sorted(&mut browser), (json!("ascending"), by_cost.clone()));
    browser.value(&format!("document.querySelector({heading:?}).focus()"));
    browser.press("Enter");
    by_cost.reverse();
    assert_eq!(sorted(&mut browser), (json!("descending"), by_cost));
    browser.press(" ");
    assert_eq!(sorted(&mut browser), (json!("none"), unsorted));

    // The failed trial has no accuracy: it is last, whichever way.
    for _ in 0..2 {
        browser.click("#table-trials thead th:nth-child(10) button");
        let accuracies = column(&mut browser, "table-trials", 9);
        let (last, known) = accuracies.split_last().unwrap();
        let is_last = last.is_none() && known.iter().all(Option::is_some);
        assert!(is_last, "{accuracies:?}");
    }

    // What belongs together stays together.
    browser.click("#table-traffic thead th:nth-child(7) button");
    let pairs = browser.value(
        "[...document.querySelectorAll('#table-traffic tbody')].every((b) => \
         b.rows[0].cells[6].textContent === b.rows[1].cells[6].textContent)",
    );
    assert_eq!(pairs, true);
    assert_eq!(browser.complaints(&page.url), [""; 0]);
}

#[test]
fn a_view_can_be_chosen_and_linked_to() {
    let Some(mut browser) = start() else { return };
    let page = &MEASURED;
    browser.open_at(1600, &page.url);
    browser.click("#view button[data-choice=open]");
    browser.value(
        "(() => { const s = document.querySelector('#view select'); s.value = 'ScatterReduce'; \
         s.dispatchEvent(new Event('change')); })()",
    );
    browser.click("#table-verdicts thead th:nth-child(5) button");
    let shown = browser.value(SHOWN);
    let verdicts = items(&page.summary, "verdicts").len();
    assert_eq!(
        shown[0],
        json!(["open ScatterReduce", "open ScatterReduce"])
    );
    assert_eq!(shown[1], format!("2 of {verdicts} verdicts shown"));
    let others = "document.querySelectorAll('svg g.dim[data-system=\"SPIRT\"]').length > 2 && \
                  document.querySelectorAll('svg g.dim[data-system=\"ScatterReduce\"]').length === 0";
    assert_eq!(browser.value(others), true);
    browser.picture(&kept("measured-filtered.png"));

    let link = browser.value("document.querySelector('#view a').href");
    assert_eq!(browser.value("location.href"), link);
    let link = link.as_str().unwrap().replace("html#", "html#verdicts");
    browser.open(&link);
    assert_eq!(browser.value(SHOWN), shown);
    let heading =
        "document.querySelectorAll('#table-verdicts thead th')[4].getAttribute('aria-sort')";
    assert_eq!(browser.value(heading), "ascending");
    let top = browser.value("document.getElementById('verdicts').getBoundingClientRect().top");
    assert!(top.as_f64().is_some_and(|top| top.abs() < 40.0), "{top}");

    // A link inside the page keeps the view; "show all" ends it.
    browser.click("nav a[href='#trials']");
    browser.value("new Promise((done) => setTimeout(done, 50))");
    assert_eq!(browser.value(SHOWN), shown);
    browser.click("#view button:not([data-choice])");
    let all = browser.value(SHOWN);
    assert_eq!(all[0].as_array().unwrap().len(), verdicts);

    // Nothing in a fragment can break the page.
    for fragment in [
        "#nothing?verdict=x&system=y&sort=table-verdicts:99:up",
        "#?sort=view:0:up",
        "#%E0%A4%A",
        "#?verdict=%zz",
    ] {
        browser.open(&format!("{}{fragment}", page.url));
        assert_eq!(browser.value(SHOWN), all, "{fragment}");
        assert_eq!(browser.complaints(&page.url), [""; 0], "{fragment}");
    }
}

#[test]
fn the_page_over_several_runs_sorts_and_filters_too() {
    let Some(mut browser) = start() else { return };
    let page = &OVERVIEW;
    browser.open_at(1600, &format!("{}#?verdict=agrees", page.url));
    let shown = browser.value(
        "[...document.querySelectorAll('tr[data-verdict]')].filter((r) => r.checkVisibility())\
         .map((r) => r.dataset.verdict)",
    );
    assert_eq!(shown, json!(["agrees", "agrees"]));
    browser.click("#view button:not([data-choice])");
    let sorted = browser.value(
        "(() => { const t = [...document.querySelectorAll('table.sortable')].find((t) => t.tBodies[0].rows.length > 4); \
         const i = [...t.tHead.rows[0].cells].findIndex((c) => c.textContent === 'observed'); \
         t.tHead.rows[0].cells[i].querySelector('button').click(); \
         const v = [...t.tBodies[0].rows].map((r) => r.cells[i].dataset.value).filter(Boolean).map(Number); \
         return v.length > 4 && v.every((x, k) => k === 0 || v[k - 1] <= x); })()",
    );
    assert_eq!(sorted, true);
    assert_eq!(browser.complaints(&page.url), [""; 0]);
}

#[test]
fn both_schemes_are_readable() {
    let Some(mut browser) = start() else { return };
    for page in [&MEASURED, &SIMULATED, &MANY, &OVERVIEW, &PLANNED, &AUDITED] {
        let mut backgrounds = Vec::new();
        for scheme in ["light", "dark"] {
            browser.prefer(scheme, "screen");
            browser.open(&page.url);
            let least = browser.value(CONTRAST);
            assert!(least[0].as_f64().unwrap() >= 4.5, "{scheme}: {least}");
            backgrounds.push(browser.value("getComputedStyle(document.body).backgroundColor"));
        }
        assert_ne!(backgrounds[0], backgrounds[1]);
    }
}

#[test]
fn everything_has_a_name_and_the_keyboard_gets_everywhere() {
    let Some(mut browser) = start() else { return };
    for (page, is_of_a_run) in [
        (&MEASURED, true),
        (&SIMULATED, true),
        (&PLANNED, false),
        (&AUDITED, false),
        (&COMPARISON, false),
    ] {
        browser.open_at(1600, &page.url);
        let tree = browser.call("Accessibility.getFullAXTree", json!({}));
        let nodes = tree["nodes"].as_array().unwrap();
        let of_text = ["table", "link", "columnheader", "rowheader"];
        let of_page = ["image", "button", "combobox", "region", "navigation"];
        for role in of_text.into_iter().chain(of_page) {
            let is_of = |node: &&Value| node["role"]["value"] == role && node["ignored"] == false;
            let mut of_role = nodes.iter().filter(is_of).peekable();
            let is_there = of_role.peek().is_some();
            assert!(is_there || !is_of_a_run, "there is no {role}");
            let name = |node: &Value| node["name"]["value"].as_str().map(str::to_owned);
            let nameless = of_role.find(|node| name(node).is_none_or(|name| name.is_empty()));
            assert!(nameless.is_none(), "a nameless {role}: {nameless:?}");
        }
        let charts = browser.value(
            "[...document.querySelectorAll('svg')].filter((s) => !s.querySelector(':scope > title')?.textContent).length",
        );
        assert_eq!(charts, 0);
        let labels = browser.value(
            "[...document.querySelectorAll('svg [aria-label]')].filter((e) => !e.getAttribute('role')).length",
        );
        assert_eq!(labels, 0, "labels of marks without a role are not read");
        if !is_of_a_run {
            continue;
        }

        browser.press("Tab");
        let first = browser.value("[document.activeElement.getAttribute('href'), document.activeElement.getBoundingClientRect().top >= 0]");
        // The first stop skips what is repeated.
        assert_eq!(first, json!(["#summary", true]));
        let mut stops = BTreeSet::new();
        for _ in 0..60 {
            browser.press("Tab");
            let stop = browser.value("(document.activeElement.closest('table, #view, nav') ?? document.activeElement).id || document.activeElement.tagName");
            stops.insert(stop.as_str().unwrap().to_owned());
        }
        for wanted in ["table-summary", "view", "A"] {
            assert!(stops.contains(wanted), "{wanted} is not among {stops:?}");
        }
    }
}

#[test]
fn a_page_prints() {
    let Some(mut browser) = start() else { return };
    let page = &MEASURED;
    browser.prefer("dark", "print");
    browser.open_at(1050, &page.url);
    let seen = browser.value(
        "[getComputedStyle(document.querySelector('nav')).display, \
         getComputedStyle(document.querySelector('#view')).display, \
         getComputedStyle(document.body).backgroundColor, \
         document.querySelector('#table-costs').getBoundingClientRect().height > 50, \
         document.documentElement.scrollWidth <= innerWidth]",
    );
    let printed = json!(["none", "none", "rgb(255, 255, 255)", true, true]);
    assert_eq!(seen, printed);
    browser.picture(&kept("measured-print.png"));
    let how = json!({"preferCSSPageSize": true, "printBackground": true});
    let pdf = browser.call("Page.printToPDF", how);
    assert!(pdf["data"].as_str().unwrap().starts_with("JVBERi0"));
}
