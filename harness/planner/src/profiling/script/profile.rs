//! The compute profile that measurements make.

use epochcost_simulator::profile::{
    ComputeOrigin, ComputeProfile, Constant, GPU_VECTOR_BYTES_PER_S, ModelCost,
};
use epochcost_spec::format::{number, rounded};
use epochcost_systems::Device;

use super::points::Fitted;
use super::{Measured, ScriptPlan, carry};
use crate::error::{Error, Result};
use crate::profiling::names;
use crate::profiling::summary::rounded_fit;

/// Forward of forward and backward.
const FORWARD: f64 = 1.0 / 3.0;

/// Returns the profile, and what is to be known of how its times were carried.
pub(super) fn profile(
    plan: &ScriptPlan,
    measured: &Measured,
) -> Result<(ComputeProfile, Vec<String>)> {
    let date = names::today();
    let unusable = |reason: String| Error::Lacks {
        what: format!("the steps cannot be carried: {reason}"),
        remedy: "write them as they are with --as-measured".into(),
    };
    let carried = match (plan.as_measured, measured.device) {
        (true, _) => None,
        (false, Device::Cpu) => Some(carry::to_vcpu(measured.rate, &date).map_err(unusable)?),
        (false, Device::Cuda) => {
            let name = measured.model.device_name.as_deref().unwrap_or("this GPU");
            Some(carry::to_t4(name, &date).map_err(unusable)?)
        }
    };
    let own = cost(plan, measured, carried, &date);
    let mut costs = vec![own];
    let mut notes = Vec::new();
    match (plan.as_measured, measured.device, measured.flops_per_sample) {
        (false, Device::Cpu, Some(flops)) => {
            let per_operation = carry::of_operations(&date).map_err(unusable)?;
            let framework = measured.model.framework.as_deref().unwrap_or_default();
            let by = if framework.starts_with("torch") {
                "counted by PyTorch"
            } else {
                "as the program reported them"
            };
            costs.push(on_gpu(&costs[0], flops, by, per_operation));
            let mixed = carry::mixed_precision().map_err(unusable)?;
            notes.push(format!(
                "times on GPUs are predicted for fp32 only; with automatic mixed precision (AMP) they \
                 are up to {} times faster on tensor cores, and the range reaches that far",
                mixed.value
            ));
        }
        (false, Device::Cpu, None) => notes.push(
            "no operations were counted, so that the profile says nothing of GPUs".to_owned(),
        ),
        _ => {}
    }
    let dtype = measured.model.dtype.as_deref();
    let other = dtype.filter(|dtype| *dtype != "float32");
    notes.extend(other.map(|dtype| {
        format!("trainable scalars are {dtype}: exchanges are simulated with 4 bytes each")
    }));
    let framework = measured.model.framework.as_deref();
    let profile = ComputeProfile {
        schema: 1,
        name: names::stem(&plan.out),
        about: format!(
            "{} ({}) on {}, profiled as it is",
            plan.name,
            framework.unwrap_or("no framework named"),
            names::machine(&plan.machine)
        ),
        origin: if plan.as_measured {
            ComputeOrigin::Measured
        } else {
            ComputeOrigin::Scaled
        },
        models: costs,
    };
    Ok((profile, notes))
}

/// Returns the cost of a step where it was measured, carried if it is.
fn cost(
    plan: &ScriptPlan,
    measured: &Measured,
    carried: Option<Constant>,
    date: &str,
) -> ModelCost {
    let Fitted {
        time,
        memory,
        parallel,
    } = &measured.fitted;
    let factor = carried.as_ref().map_or(1.0, |carried| carried.value);
    // Generating text, by one sample a call, is no evaluation of the data.
    let largest = super::text::largest(measured);
    let most = time.at(largest) / largest as f64;
    let evaluated = measured.evaluate_s.filter(|seconds| *seconds < most);
    let evaluate_s = evaluated.unwrap_or(FORWARD * time.per_sample);
    let sizes: Vec<usize> = measured.points.iter().map(|point| point.samples).collect();
    ModelCost {
        model: plan.name.clone(),
        device: measured.device,
        fixed_s: rounded(time.fixed * factor),
        sample_s: rounded(time.per_sample * factor),
        parallel: match measured.device {
            Device::Cpu => rounded(parallel.unwrap_or(0.0)),
            Device::Cuda => 0.0,
        },
        evaluate_sample_s: rounded(evaluate_s * factor),
        build_s: 0.0,
        fixed_mb: rounded(memory.as_ref().map_or(0.0, |line| line.fixed)),
        sample_mb: rounded(memory.as_ref().map_or(0.0, |line| line.per_sample)),
        vector_bytes_per_s: (measured.device == Device::Cuda).then_some(GPU_VECTOR_BYTES_PER_S),
        fit: Some(rounded_fit(&time.fit)),
        fitted_to: None,
        carried,
        source: format!(
            "measured by `epochcost profile` {} on {}: medians of forward and backward passes of {} \
             samples, without the optimizer and waits for data; memory is the whole process's; {}; \
             building the model is not counted",
            env!("CARGO_PKG_VERSION"),
            names::machine(&plan.machine),
            names::listed(&sizes),
            match evaluated {
                Some(_) => "an evaluation is the program's own forward passes without gradients",
                None => "an evaluation is assumed to take a third of a step",
            },
        ),
        date: date.to_owned(),
    }
}

/// Returns the cost of a step on a T4 from its operations, and who says them.
fn on_gpu(cpu: &ModelCost, flops: f64, by: &str, per_operation: Constant) -> ModelCost {
    ModelCost {
        device: Device::Cuda,
        fixed_s: 0.0,
        sample_s: rounded(flops * per_operation.value),
        parallel: 0.0,
        evaluate_sample_s: rounded(FORWARD * flops * per_operation.value),
        vector_bytes_per_s: Some(GPU_VECTOR_BYTES_PER_S),
        fit: None,
        source: format!(
            "{} operations per sample, forward and backward, {by}; not measured on a GPU",
            number(flops)
        ),
        carried: Some(per_operation),
        ..cpu.clone()
    }
}
