//! The measurements for people.

use epochcost_spec::format::{bytes, count, duration, percent, seconds};

use super::points::Point;
use super::{Measured, ScriptPlan};
use crate::columns::table;

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
        let (name, trainable) = (&plan.name, count(trainable));
        said.push(format!(
            "{name} trains {trainable}{whole} ({dtype}): {exchanged} per exchange"
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
    let interval = |point: &Point| format!("{} to {}", seconds(point.low_s), seconds(point.high_s));
    let memory = |point: &Point| {
        let memory = point.peak_mb.map(|mb| bytes(mb * f64::from(1 << 20)));
        memory.unwrap_or_else(|| "–".into())
    };
    table(
        points,
        [
            ("samples", &|point| point.samples.to_string()),
            ("threads", &|point| point.threads.to_string()),
            ("steps", &|point| point.steps.to_string()),
            ("passes", &|point| seconds(point.step_s)),
            ("95 % interval", &interval),
            ("optimizer", &|point| seconds(point.optimizer_s)),
            ("data", &|point| seconds(point.data_s)),
            ("peak memory", &memory),
        ],
    )
}
