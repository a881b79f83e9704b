//! The measurements for people.

use epochcost_spec::format::{bytes, count, duration, percent, seconds};
use epochcost_spec::ui::table;

use super::points::Point;
use super::{Measured, ScriptPlan};

/// Returns the measurements for people.
pub(super) fn text(plan: &ScriptPlan, measured: &Measured) -> String {
    let model = &measured.model;
    let mut said: Vec<String> = Vec::new();
    if let Some(trainable) = model.trainable {
        let dtype = model.dtype.as_deref().unwrap_or("scalars");
        let exchanged = bytes(model.trainable_bytes.unwrap_or(4.0 * trainable));
        let whole = model.parameters.map_or(String::new(), |whole| {
            format!(" of {} parameters", count(whole))
        });
        said.push(format!(
            "{} trains {}{whole} ({dtype}): {exchanged} per exchange",
            plan.name,
            count(trainable)
        ));
    }
    if let Some(state) = model.optimizer_bytes {
        said.push(format!("the optimizer keeps {}", bytes(state)));
    }
    if let Some(flops) = measured.flops_per_sample {
        said.push(format!("a sample takes {:.3e} operations", flops));
    }
    let time = &measured.fitted.time;
    said.push(format!(
        "a step of b samples takes {} + b x {} here on one thread (r² {:.3}, largest error {})",
        seconds(time.fixed),
        seconds(time.per_sample),
        time.fit.r_squared,
        percent(time.fit.largest_error)
    ));
    said.push(format!(
        "100,000 samples take {} at batch {}",
        duration(1e5 * time.at(largest(measured)) / largest(measured) as f64),
        largest(measured)
    ));
    format!("{}\n\n{}", points_table(&measured.points), said.join("\n"))
}

pub(super) fn largest(measured: &Measured) -> usize {
    let sizes = measured.points.iter().map(|point| point.samples);
    sizes.max().unwrap_or(1)
}

fn points_table(points: &[Point]) -> String {
    let rows: Vec<[String; 8]> = (points.iter())
        .map(|point| {
            let memory = point.peak_mb.map(|mb| bytes(mb * f64::from(1 << 20)));
            [
                point.samples.to_string(),
                point.threads.to_string(),
                point.steps.to_string(),
                seconds(point.step_s),
                format!("{} to {}", seconds(point.low_s), seconds(point.high_s)),
                seconds(point.optimizer_s),
                seconds(point.data_s),
                memory.unwrap_or_else(|| "–".into()),
            ]
        })
        .collect();
    let heading = [
        "samples",
        "threads",
        "steps",
        "passes",
        "95 % interval",
        "optimizer",
        "data",
        "peak memory",
    ];
    table(heading, &rows)
}
