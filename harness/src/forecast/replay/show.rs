//! A comparison as text and as a file.

use std::path::Path;

use super::compare::{Comparison, Figures, RowComparison};
use crate::error::Error;
use crate::format;
use crate::results::{pretty, probe_file, write_whole};
use crate::ui::table;

const HEADING: [&str; 14] = [
    "row",
    "figures",
    "wall s",
    "fetch s",
    "compute s",
    "serialise s",
    "put s",
    "wait s",
    "get s",
    "aggregate s",
    "update s",
    "converge s",
    "paper $",
    "full $",
];

/// Names of the stages, in the order of [`numbers`].
pub(super) const STAGES: [&str; 9] = [
    "fetch dataset",
    "compute gradients",
    "serialise",
    "put",
    "wait",
    "get",
    "aggregate",
    "update model",
    "detect convergence",
];

/// Refuses a file that is there or cannot be written, before any work.
///
/// # Errors
/// When it is there and not to be replaced, or its directory cannot be written to.
pub fn check(out: &Path, force: bool) -> Result<(), Error> {
    if out.exists() && !force {
        return Err(Error::Usage {
            problem: format!("{} is there already", out.display()),
            remedy: "replace it with --force, or name another file with --out".into(),
        });
    }
    Ok(probe_file(out)?)
}

/// Writes the comparison so that a reader sees all of it or none.
///
/// # Errors
/// When it cannot be written.
pub fn write(comparison: &Comparison, out: &Path) -> Result<(), Error> {
    Ok(write_whole(out, &pretty(out, comparison)?)?)
}

/// The comparison for people.
pub fn text(comparison: &Comparison) -> String {
    let replay = &comparison.replay;
    let steps = match &replay.compute {
        Some(compute) => format!("steps of the compute profile {compute}"),
        None => "steps as the run recorded them".into(),
    };
    let machine = if replay.is_same_machine {
        "the run's machine"
    } else {
        "another platform"
    };
    let sentences = comparison.sentences();
    let sentences = sentences
        .iter()
        .map(|text| format::wrapped("", text) + "\n");
    let mut text = sentences.collect::<String>();
    text.push_str(&format!(
        "\n{} replayed on {} ({machine}), {steps}; stages are seconds per worker\n\n",
        comparison.run.run_id, replay.profile
    ));
    let rows: Vec<_> = comparison.rows.iter().flat_map(lines).collect();
    text.push_str(&table(HEADING, &rows));
    for row in &comparison.rows {
        if let Some(note) = &row.note {
            text.push_str(&format!("\n{}: {note}", row.id));
        }
    }
    if let Some(within) = comparison.within {
        let off = comparison.rows.iter().filter(|row| row.is_off(within));
        let off: Vec<&str> = off.map(|row| row.id.as_str()).collect();
        let share = format::percent(within);
        text.push_str(&if off.is_empty() {
            format!("\nevery simulated wall time is within {share} of the recorded one")
        } else {
            format!(
                "\noff by more than {share} of the recorded wall time: {}",
                off.join(", ")
            )
        });
    }
    text
}

/// What was recorded, what was simulated, and the one over the other.
fn lines(row: &RowComparison) -> Vec<[String; 14]> {
    let mut lines = Vec::new();
    if let Some(recorded) = &row.recorded {
        lines.push(line(&row.id, "recorded", recorded));
    }
    if let Some(simulated) = &row.simulated {
        lines.push(line(&row.id, "simulated", simulated));
    }
    if let (Some(recorded), Some(simulated)) = (&row.recorded, &row.simulated) {
        lines.push(ratios(&row.id, recorded, simulated));
    }
    lines
}

fn line(id: &str, what: &str, figures: &Figures) -> [String; 14] {
    let wall = format::estimate(figures.wall_s);
    let wall = match figures.wall_s.n {
        1 => wall,
        n => format!("{wall} (n = {n})"),
    };
    cells(id, what, wall, numbers(figures).map(format::number))
}

fn ratios(id: &str, recorded: &Figures, simulated: &Figures) -> [String; 14] {
    /// The ratio of a stage shorter than this share of the whole means nothing.
    const VISIBLE: f64 = 0.005;
    let wall = |figures: &Figures| figures.wall_s.mean.unwrap_or(f64::NAN);
    let least = VISIBLE * wall(recorded);
    let (recorded_s, simulated_s) = (numbers(recorded), numbers(simulated));
    let ratio = |index: usize| {
        let (simulated, recorded) = (simulated_s[index], recorded_s[index]);
        let is_stage = index < 9;
        if is_stage && simulated.max(recorded) < least || recorded == 0.0 {
            "-".to_owned()
        } else {
            format!("{:.2}", simulated / recorded)
        }
    };
    let total = format!("{:.3}", wall(simulated) / wall(recorded));
    cells(id, "ratio", total, std::array::from_fn(ratio))
}

/// Stages in the order of the heading, and both accounts.
pub(super) fn numbers(figures: &Figures) -> [f64; 11] {
    let stages = &figures.stage_seconds;
    [
        stages.fetch_dataset,
        stages.compute_gradients,
        stages.serialise,
        stages.put,
        stages.wait,
        stages.get,
        stages.aggregate,
        stages.update_model,
        stages.detect_convergence,
        figures.cost_paper_usd,
        figures.cost_full_usd,
    ]
}

fn cells(id: &str, what: &str, wall: String, rest: [String; 11]) -> [String; 14] {
    let mut all = [id.to_owned(), what.to_owned(), wall]
        .into_iter()
        .chain(rest);
    // As many as there are places.
    std::array::from_fn(|_| all.next().unwrap_or_default())
}
