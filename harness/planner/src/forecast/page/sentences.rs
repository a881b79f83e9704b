//! What a forecast comes to, in sentences.

use std::collections::BTreeSet;

use epochcost_judge::analysis::SLIGHTLY;
use epochcost_judge::analysis::titles::model_title;
use epochcost_spec::cost::instances::{gpus, vcpus};
use epochcost_spec::cost::{CostModel, is_ec2};
use epochcost_spec::format::{number, usd};

use super::{Contender, seconds};
use crate::forecast::Forecast;
use crate::forecast::rows::PlannedRow;

/// Models and numbers of samples that are spoken of one by one; more models are counted.
const NAMED: usize = 3;

/// Returns a number of rows beside one that was named.
fn more_rows(count: usize) -> String {
    match count {
        1 => "1 more row".to_owned(),
        count => format!("{count} more rows"),
    }
}

/// Returns which instance types have other vCPUs than `has`, those of every simulated instance.
fn unlike<'a>(has: f64, types: impl Iterator<Item = &'a str>) -> Option<String> {
    let unlike = types.filter(|name| is_ec2(name) && f64::from(vcpus(name)) != has);
    let unlike: BTreeSet<String> = unlike
        .map(|name| format!("{name} has {}", vcpus(name)))
        .collect();
    (!unlike.is_empty()).then(|| {
        let unlike: Vec<String> = unlike.into_iter().collect();
        format!(
            "Every instance is simulated with {} vCPUs, whatever its type: {}.",
            number(has),
            unlike.join(", ")
        )
    })
}

/// Returns which of the rows behind the best tie with it: the first and the plain alternative by
/// name, the others counted.
fn ties(rest: &[Contender<'_>], is_tied: impl Fn(&Contender<'_>) -> bool) -> Option<String> {
    let tied: Vec<&Contender<'_>> = rest.iter().take_while(|one| is_tied(one)).collect();
    let (first, more) = tied.split_first()?;
    let plain = more.iter().find(|one| one.row.is_alone());
    let more = more.len() - usize::from(plain.is_some());
    let plain = plain.map(|plain| plain.row.name.clone());
    let more = Some(more).filter(|more| *more > 0).map(more_rows);
    let named = [Some(first.row.name.clone()), plain, more];
    let named: Vec<String> = named.into_iter().flatten().collect();
    Some(format!("; it ties with {}", named.join(" and ")))
}

impl Forecast {
    /// Returns what the forecast comes to: where to train under the goal; without one, what
    /// is fastest, what is cheapest beside one instance alone, and what is not possible.
    pub fn sentences(&self) -> Vec<String> {
        if let Some(answer) = &self.answer {
            return answer.sentences().to_vec();
        }
        let models = self.models();
        let several = models.len() > 1;
        let of = |sentence: fn(&Self, &str) -> Option<String>| {
            let found = models.iter().take(NAMED).filter_map(|model| {
                let sentence = sentence(self, model)?;
                Some(if several {
                    format!("{}: {sentence}", model_title(model))
                } else {
                    sentence
                })
            });
            found.collect::<Vec<_>>().join("; ")
        };
        let rest = match models.len().saturating_sub(NAMED) {
            0 => String::new(),
            rest => format!("; {rest} more models below"),
        };
        let mut sentences: Vec<String> = self.unranked.iter().cloned().collect();
        if sentences.is_empty() {
            let lines = [
                ("Fastest", of(Self::fastest)),
                ("Cheapest", of(Self::cheapest)),
            ];
            let lines = lines.into_iter().filter(|(_, text)| !text.is_empty());
            sentences
                .extend(lines.map(|(word, text)| format!("{word} (simulated): {text}{rest}.")));
        }
        sentences.extend(self.fewer_steps());
        sentences.push(self.beyond_limits().unwrap_or_else(|| self.possible()));
        let in_draws = self
            .rows
            .iter()
            .filter_map(|row| Some((row, row.in_draws()?)));
        sentences.extend(
            in_draws
                .map(|(row, draws)| format!("{} is {draws}: its figures are of these.", row.name)),
        );
        let rounded = self.samples_rounded.iter().take(NAMED);
        sentences.extend(rounded.map(|rounded| rounded.text.clone()));
        let on_cpu = self.rows.iter().filter(|row| row.cpu_for_gpu);
        sentences.extend(on_cpu.map(|row| {
            format!(
                "{} is left out: no compute profile knows {} on a GPU, and a CPU's speed is not \
                 its.",
                row.name,
                model_title(&row.model)
            )
        }));
        let types = || (self.rows.iter()).filter_map(|row| row.instance_type.as_deref());
        sentences.extend(
            self.simulation
                .instance_vcpus()
                .and_then(|has| unlike(has, types())),
        );
        let types = types().filter(|name| gpus(name) > 0);
        let families: BTreeSet<&str> = types.filter_map(|name| name.split('.').next()).collect();
        if families.len() > 1 {
            let families: Vec<&str> = families.into_iter().collect();
            sentences.push(format!(
                "{} differ in price alone: each computes as the compute profile's GPU. `--deadline` \
                 compares their hardware.",
                families.join(" and ")
            ));
        }
        sentences
    }

    fn fastest(&self, model: &str) -> Option<String> {
        let mut order = self.contenders(model);
        order.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let (best, rest) = order.split_first()?;
        let time = |one: &Contender<'_>| seconds(one.seconds);
        let next = ties(rest, |one| one.seconds < best.seconds * SLIGHTLY);
        let next = next.or_else(|| {
            let next = rest.first()?;
            Some(format!("; next: {}, {}", next.row.name, time(next)))
        });
        let next = next.unwrap_or_default();
        let basis = self.basis();
        Some(format!("{}, {}{basis}{next}", best.row.name, time(best)))
    }

    fn cheapest(&self, model: &str) -> Option<String> {
        let mut order = self.contenders(model);
        order.sort_by(|a, b| a.usd.total_cmp(&b.usd));
        let (best, rest) = order.split_first()?;
        let account = match self.account {
            CostModel::Full => "with everything billed",
            CostModel::Paper => "by the paper's cost model",
        };
        let (name, cost, basis) = (&best.row.name, usd(best.usd), self.basis());
        let mut text = format!("{name}, {cost}{basis} {account}");
        let tied = ties(rest, |one| one.usd < best.usd * SLIGHTLY);
        let behind = rest.first().filter(|_| tied.is_none());
        text.extend(tied);
        let plain = order.iter().find(|one| one.row.is_alone());
        match plain {
            Some(plain) if plain.row.id == best.row.id => {
                text.push_str(", which is the plain alternative");
                text.extend(behind.map(|next| {
                    let factor = number(next.usd / best.usd);
                    format!("; next: {}, {factor} times as much", next.row.name)
                }));
            }
            Some(plain) => text.push_str(&format!(
                "; one instance alone costs {} times as much ({}) and takes {}{basis}",
                number(plain.usd / best.usd),
                usd(plain.usd),
                seconds(plain.seconds)
            )),
            None => text
                .extend(behind.map(|next| format!("; next: {}, {}", next.row.name, usd(next.usd)))),
        }
        Some(text)
    }

    /// Returns which rows take fewer optimizer steps than the others, if some do: they train on the same
    /// samples and learn less from them. One instance alone has its own mini-batches.
    fn fewer_steps(&self) -> Option<String> {
        let rows = || {
            let rows = self.rows.iter().filter(|row| !row.is_alone());
            rows.filter(|row| row.estimate.is_some())
        };
        let most = rows().map(|row| row.steps_per_epoch).max()?;
        let mut fewer = rows().filter(|row| row.steps_per_epoch < most);
        let (first, more) = (fewer.next()?, fewer.count());
        let (name, steps) = (&first.name, first.steps_per_epoch);
        let more = match more {
            0 => String::new(),
            more => format!(", {} fewer than {most}", more_rows(more)),
        };
        Some(format!(
            "Optimizer steps per epoch differ: {name} takes {steps} where others take {most}{more}; an \
             epoch is not the same training."
        ))
    }

    /// Returns how many rows the platform would refuse if limits held.
    fn beyond_limits(&self) -> Option<String> {
        if self.simulation.limits {
            return None;
        }
        let needs = |row: &PlannedRow| {
            let used = row.estimate.as_ref()?.function_peak_memory_mb;
            let has = row.memory_mb?;
            (used > has).then_some((used, has))
        };
        let mut over = self.rows.iter().filter_map(|row| Some((row, needs(row)?)));
        let (first, (used, has)) = over.next()?;
        let more = match over.count() {
            0 => String::new(),
            more => format!(" and {}", more_rows(more)),
        };
        Some(format!(
            "Limits of functions are switched off; with them {}{more} would not be possible: it uses \
             {used} of its {has} MB.",
            first.name
        ))
    }

    /// Returns how many rows are possible, and what keeps the first of the others from it; further
    /// reasons are counted.
    fn possible(&self) -> String {
        let all = self.rows.len();
        let rows = self.rows.iter();
        let mut others = rows.filter_map(|row| Some((row, row.why_not()?)));
        let Some((row, why)) = others.next() else {
            return format!("All {all} rows are possible.");
        };
        let (same, other): (Vec<_>, Vec<_>) = others.partition(|(_, reason)| *reason == why);
        let named = match same.len() {
            0 => row.name.clone(),
            more => format!("{} and {more} more", row.name),
        };
        let why = why.trim_end_matches('.');
        let rest = match other.len() {
            0 => String::new(),
            rest => format!("; {rest} for reasons given below"),
        };
        let count = 1 + same.len() + other.len();
        let verb = if count == 1 { "is" } else { "are" };
        format!("Of {all} rows {count} {verb} not possible ({named}: {why}{rest}).")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The profile's instance stands for every type.
    #[test]
    fn types_with_other_vcpus_are_named() {
        let types = ["t2.small", "g4dn.xlarge", "t2.large", "lab-box", "t2.small"];
        let said = unlike(4.0, types.into_iter()).unwrap();
        let end = ": t2.large has 2, t2.small has 1.";
        assert!(said.ends_with(end), "{said}");
        assert_eq!(unlike(4.0, ["g4dn.xlarge"].into_iter()), None);
    }
}
