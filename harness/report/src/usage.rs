//! Processor and memory by stage, as in Table I of the P2P paper.

use epochcost_judge::analysis::{TrialAnalysis, machine_epochs};
use epochcost_spec::claims::Estimate;
use epochcost_spec::format;
use epochcost_systems::Stage;

use super::charts::Labelled;
use super::rows::line;
use super::table::{Cell, Line, Table};

/// Returns what each stage of the workers used; no line where nothing is known.
pub(super) fn usage(labelled: &[Labelled<'_>]) -> Table {
    let caption = "Processor and memory of the workers' processes by stage: CPU time over wall time, \
                   100 % per core; the most that was resident behind the stage, a mean over steps";
    let heading = "system: | stage: | seconds | CPU | memory";
    Table::of("usage", caption, heading).with_lines(labelled.iter().flat_map(of_row))
}

fn of_row(labelled: &Labelled<'_>) -> Vec<Line> {
    let mean = |value: &dyn Fn(&TrialAnalysis) -> Option<f64>| {
        let values: Vec<f64> = labelled.row.succeeded().filter_map(value).collect();
        Estimate::of(&values).mean
    };
    let of = |stage: Stage| {
        let memory_mb = mean(&|trial| trial.usage.memory_mb(stage))?;
        let cpu_percent = mean(&|trial| trial.usage.cpu_percent(stage));
        let each = machine_epochs(&labelled.row.planned.row.job);
        let seconds = mean(&|trial| Some(trial.seconds.of(stage) / each));
        let cells = [
            Cell::text(stage.as_str().replace('_', " ")),
            Cell::of(seconds, format::seconds),
            Cell::of(cpu_percent, |percent| format!("{percent:.0} %")),
            Cell::of(Some(memory_mb), format::megabytes),
        ];
        Some(line(labelled, cells))
    };
    Stage::ALL.into_iter().filter_map(of).collect()
}
