//! Plan of a reproduction on a cloud: what each item needs of the account and costs, and what a budget
//! buys. Needs no clients, no account and no data.

use std::collections::BTreeMap;

use epochcost_experiment::{FormName, PlatformKind};
use epochcost_planner::error::Error;
use epochcost_planner::forecast::{OnAccount, Percentiles, Sampling, on_account, parallel};
use epochcost_platform::aws_plan::{NEW_ACCOUNT_MEMORY_MB, Quota};
use epochcost_spec::claims::{Claim, ClaimKind};
use epochcost_spec::cost::PriceBook;
use epochcost_spec::exit::Exit;
use epochcost_spec::format::{UNKNOWN, duration, number, usd, wrapped};
use epochcost_spec::ui::{Output, table, table_of};
use serde::Serialize;

use super::task::Task;

/// Draws of constants and times of steps, for the range of dollars.
const SAMPLING: Sampling = Sampling {
    samples: 20,
    seed: 42,
};
/// Budgets that the plan says the worth of, US dollars.
const BUDGETS_USD: [f64; 4] = [1.0, 5.0, 20.0, 100.0];

/// Plan of all items.
#[derive(Serialize)]
struct Plan {
    platform: &'static str,
    region: String,
    /// Day of the prices.
    prices: String,
    /// Draws that percentiles are of.
    draws: u32,
    /// Items that can be run, most verdicts per expected dollar first.
    items: Vec<Line>,
    /// Items that are not run there, with the reasons.
    left_out: BTreeMap<String, String>,
    /// Quotas that all of them together need, as trials run one after another.
    quotas: Vec<Needed>,
    /// Largest memory of a function, MB, and that of a new account.
    memory_mb: [u32; 2],
    budgets: Vec<Budget>,
}

/// Plan of one item.
#[derive(Serialize)]
struct Line {
    id: String,
    description: String,
    /// What its form changes.
    changes: Vec<String>,
    /// Claims on the paper's figures and statements that it would have verdicts on.
    verdicts: usize,
    #[serde(flatten)]
    account: OnAccount,
}

#[derive(Serialize)]
struct Needed {
    #[serde(flatten)]
    quota: Quota,
    needed: u32,
}

/// What a budget buys.
#[derive(Serialize)]
struct Budget {
    usd: f64,
    /// Items whose expected costs together are within it, in the plan's order.
    expected: Vec<String>,
    expected_usd: f64,
    /// Items that end within it, each alone, in 19 of 20 draws: a trial starts while what is spent and
    /// its own bound are.
    alone: Vec<String>,
}

/// Prints the plan.
///
/// # Errors
/// When an item cannot be simulated, or something has no price.
pub(super) fn show(
    tasks: &[Task],
    (platform, form): (PlatformKind, FormName),
    prices: &PriceBook,
    output: Output,
) -> Result<Exit, Error> {
    let (planned, others): (Vec<&Task>, Vec<&Task>) =
        tasks.iter().partition(|task| task.is_planned());
    let lines = parallel::map(&planned, |task| line(task, form, prices));
    let mut items = lines.into_iter().collect::<Result<Vec<Line>, Error>>()?;
    items.sort_by(|a, b| b.worth().total_cmp(&a.worth()).then(a.id.cmp(&b.id)));
    let left_out = others.iter().map(|task| (task.id.clone(), task.why()));
    let plan = Plan {
        platform: platform.as_str(),
        region: prices.region().to_owned(),
        prices: prices.date().to_string(),
        draws: SAMPLING.samples,
        left_out: left_out.collect(),
        quotas: quotas(&items),
        memory_mb: [
            items.iter().map(Line::memory_mb).max().unwrap_or_default(),
            NEW_ACCOUNT_MEMORY_MB,
        ],
        budgets: BUDGETS_USD.map(|usd| Budget::of(usd, &items)).into(),
        items,
    };
    output.text(plan.text(platform));
    output.json(&plan);
    Ok(Exit::Done)
}

fn line(task: &Task, form: FormName, prices: &PriceBook) -> Result<Line, Error> {
    let item = task.item();
    let is_judged = |claim: &&Claim| {
        claim.kind == ClaimKind::Published
            && claim.excluded.is_none()
            && claim.not_comparable.is_none()
    };
    Ok(Line {
        verdicts: item.claims.iter().filter(is_judged).count(),
        id: item.id,
        description: item.description,
        changes: item.reduced,
        account: on_account(&task.entry.file, form, prices, SAMPLING)?,
    })
}

/// Returns every quota with the most that an item needs.
fn quotas(items: &[Line]) -> Vec<Needed> {
    let mut quotas: Vec<Needed> = Vec::new();
    for (quota, needed) in items.iter().flat_map(|item| item.account.needs.quotas()) {
        match quotas.iter_mut().find(|known| known.quota == quota) {
            Some(known) => known.needed = known.needed.max(needed),
            None => quotas.push(Needed { quota, needed }),
        }
    }
    quotas
}

impl Line {
    /// Returns the verdicts per expected US dollar; 0 of what cannot be run whole.
    fn worth(&self) -> f64 {
        match self.expected_usd() {
            Some(usd) if usd > 0.0 => self.verdicts as f64 / usd,
            _ => 0.0,
        }
    }

    /// Returns the expected cost; none where rows keep it from being run.
    fn expected_usd(&self) -> Option<f64> {
        let is_possible = self.account.impossible.is_empty();
        let usd = self.account.usd.filter(|_| is_possible);
        usd.map(|usd| usd.p50)
    }

    fn memory_mb(&self) -> u32 {
        self.account.memory_mb.map_or(0, |[_, most]| most)
    }

    /// Returns the most that it costs, and how many times the expected that is.
    fn at_most(&self) -> String {
        let at_most_usd = self.account.at_most_usd;
        match self.account.usd {
            Some(expected) if expected.p50 > 0.0 => {
                let times = at_most_usd / expected.p50;
                format!("{} ({times:.1})", usd(at_most_usd))
            }
            _ => usd(at_most_usd),
        }
    }

    fn cells(&self) -> [String; 11] {
        let account = &self.account;
        let unknown = || UNKNOWN.to_owned();
        let memory = |[least, most]: [u32; 2]| {
            if least == most {
                return least.to_string();
            }
            format!("{least}–{most}")
        };
        let instances = account.instances.iter();
        let instances = instances.map(|(kind, count)| format!("{count} {kind}"));
        [
            self.id.clone(),
            self.verdicts.to_string(),
            account.rows.to_string(),
            account.trials.to_string(),
            account.needs.concurrency.to_string(),
            account.memory_mb.map_or_else(unknown, memory),
            instances.collect::<Vec<_>>().join(", "),
            account.seconds.map_or_else(unknown, |s| duration(s.p50)),
            account.usd.map_or_else(unknown, dollars),
            self.at_most(),
            account.new_account_rows.to_string(),
        ]
    }
}

fn dollars(range: Percentiles) -> String {
    format!("{} ({})", usd(range.p50), range.ends(number))
}

impl Budget {
    fn text(&self) -> String {
        let joined = |ids: &[String]| match ids {
            [] => "nothing".to_owned(),
            ids => ids.join(", "),
        };
        let (expected, alone) = (joined(&self.expected), joined(&self.alone));
        let [budget, cost] = [self.usd, self.expected_usd].map(usd);
        let usd = self.usd;
        let text = format!(
            "{budget} buys {expected} (expected {cost}). Alone, `--max-usd {usd}` is enough for {alone}."
        );
        wrapped("", &text)
    }

    /// Returns what `budget` US dollars buy: every item that still fits, in the order of the plan.
    fn of(budget: f64, items: &[Line]) -> Self {
        let (mut expected, mut expected_usd) = (Vec::new(), 0.0);
        for item in items {
            if let Some(usd) = item.expected_usd()
                && expected_usd + usd <= budget
            {
                expected_usd += usd;
                expected.push(item.id.clone());
            }
        }
        let is_enough = |item: &&Line| {
            let dearest = item.account.usd.filter(|_| item.expected_usd().is_some());
            dearest.is_some_and(|usd| usd.p95 + item.account.trial_at_most_usd <= budget)
        };
        let alone = items.iter().filter(is_enough);
        Self {
            usd: budget,
            expected,
            expected_usd,
            alone: alone.map(|item| item.id.clone()).collect(),
        }
    }
}

impl Plan {
    fn text(&self, platform: PlatformKind) -> String {
        let heading = [
            "item",
            "verdicts",
            "rows",
            "trials",
            "functions at once",
            "MB",
            "instances at once",
            "time",
            "expected $ (5 to 95 %)",
            "at most $ (÷ expected)",
            "rows, new account",
        ];
        let about = format!(
            "On {} in {}, prices of {}; nothing is created. Most verdicts per expected dollar first. \
             Expected: simulated over {} draws of constants and times of steps, by the cost model `full`; \
             addresses, volumes, endpoints, logs and failed trials come on top. At most: the bound that \
             a run announces; with `--max-usd` a trial starts while what is spent and its own bound fit.",
            platform.title(),
            self.region,
            self.prices,
            self.draws
        );
        let mut parts = vec![
            wrapped("", &about),
            table_of(heading, &self.items, Line::cells),
        ];
        parts.extend(self.impossible());
        parts.push(self.account());
        parts.extend(self.budgets.iter().map(Budget::text));
        let changes = self.items.iter();
        let changes = changes.map(|item| (item.changes.join("; "), item.id.as_str()));
        parts.extend(listed(
            "Changes of the forms:",
            changes.map(|(what, id)| (id, what)),
        ));
        parts.extend(self.left_out());
        parts.join("\n\n")
    }

    /// Returns the items that are left out, those of one reason together.
    fn left_out(&self) -> Option<String> {
        let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (id, why) in &self.left_out {
            by_reason.entry(why).or_default().push(id);
        }
        let lines = by_reason.into_iter();
        listed("Left out:", lines.map(|(why, ids)| (why, ids.join(", "))))
    }

    /// Returns the rows that cannot be run; none if there are none.
    fn impossible(&self) -> Option<String> {
        let rows = self.items.iter().flat_map(|item| {
            let rows = item.account.impossible.iter();
            rows.map(|(row, why)| (item.id.as_str(), format!("{row}: {why}")))
        });
        listed("Impossible rows, which refuse their items:", rows)
    }

    /// Returns the quotas to ask for.
    fn account(&self) -> String {
        let rows = self.quotas.iter().map(|Needed { quota, needed }| {
            [
                quota.name.to_owned(),
                format!("{}/{}", quota.service, quota.code),
                needed.to_string(),
                quota.new_account.to_string(),
            ]
        });
        let [memory_mb, new_mb] = self.memory_mb;
        let memory = [
            "Memory of a function, MB (AWS Support raises it)".to_owned(),
            "lambda".to_owned(),
            memory_mb.to_string(),
            new_mb.to_string(),
        ];
        let rows: Vec<[String; 4]> = rows.chain([memory]).collect();
        table(["quota", "code", "needed", "new account"], &rows)
    }
}

/// Returns lines under a heading; none without lines.
fn listed<'a>(heading: &str, lines: impl Iterator<Item = (&'a str, String)>) -> Option<String> {
    let lines = lines.map(|(name, text)| wrapped("  ", &format!("{name}: {text}")));
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| format!("{heading}\n{}", lines.join("\n")))
}
