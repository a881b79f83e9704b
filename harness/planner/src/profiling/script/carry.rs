//! Steps carried from where they were measured to the references that places start from:
//! one vCPU of a function, and a T4.

use epochcost_simulator::profile::Constant;
use epochcost_systems::Device;

use epochcost_spec::profiles::hardware::{Hardware, reference, shipped};

/// Factor of times on a machine whose speed nothing was measured of, and its range.
const UNKNOWN: [f64; 3] = [0.5, 1.0, 2.5];

/// Returns the factor by which a time on one thread of this machine becomes one on a vCPU
/// of a function: the ratio of the rates of a product of matrices. What memory bounds is
/// not carried by it, so that the range goes to 1.
///
/// # Errors
/// When the table of hardware does not state the reference.
pub(super) fn to_vcpu(rate: Option<f64>, date: &str) -> Result<Constant, String> {
    let table = shipped()?;
    let known = &reference(&table, Device::Cpu)?.product_flops_per_s;
    let (Some(rate), Some(known)) = (rate.filter(|rate| *rate > 0.0), known) else {
        let [low, value, high] = UNKNOWN;
        let source = "assumed: a thread of this machine is as fast as a vCPU of a function, within \
                      a factor of two or so; no product of matrices was timed";
        return Ok(constant([low, value, high], source.into(), date));
    };
    let (low, high) = known.range();
    let (least, most) = ((rate / high).min(1.0), (rate / low).max(1.0));
    let values = [least, rate / known.value, most];
    let source = format!(
        "ratio of the rates of an f32 product of matrices: {:.1}e9 a second on one thread here, \
         {:.1}e9 ({:.1}e9 to {:.1}e9) on a vCPU of a function (harness/hardware/factors.yaml)",
        rate / 1e9,
        known.value / 1e9,
        low / 1e9,
        high / 1e9,
    );
    Ok(constant(values, source, date))
}

/// Returns the factor by which a time on this GPU becomes one on a T4.
///
/// # Errors
/// When the table of hardware does not know the GPU.
pub(super) fn to_t4(name: &str, date: &str) -> Result<Constant, String> {
    let table = shipped()?;
    let found: Option<&Hardware> = table.iter().find(|known| known.is_called(name));
    let known = found.ok_or_else(|| {
        let names: Vec<&str> = (table.iter())
            .flat_map(|known| known.names.iter().map(String::as_str))
            .collect();
        format!(
            "how fast {name} is against a T4 is not known: harness/hardware/factors.yaml has {}",
            names.join(", ")
        )
    })?;
    let (low, high) = known.speed.range();
    let source = format!(
        "speed of {} against a T4: {}",
        known.about, known.speed.source
    );
    Ok(constant([low, known.speed.value, high], source, date))
}

/// Returns the seconds of an operation on a T4, by which counted operations become times.
///
/// # Errors
/// When the table of hardware does not state the reference.
pub(super) fn of_operations(date: &str) -> Result<Constant, String> {
    let table = shipped()?;
    let known = &reference(&table, Device::Cuda)?.training_flops_per_s;
    let known = known.as_ref().ok_or("no rate")?;
    let (low, high) = known.range();
    let mixed = mixed_precision()?;
    let source = format!(
        "seconds of an operation on a T4 in f32: {} The range reaches to tensor cores, up to {} times as \
         fast with automatic mixed precision: {}",
        known.source, mixed.value, mixed.source
    );
    let high = high * mixed.value;
    let values = [1.0 / high, 1.0 / known.value, 1.0 / low];
    Ok(constant(values, source, date))
}

/// Returns how many times as fast trainings are at most on a T4 in mixed precision.
///
/// # Errors
/// When the table of hardware does not state it.
pub(super) fn mixed_precision() -> Result<Constant, String> {
    let table = shipped()?;
    let stated = reference(&table, Device::Cuda)?.mixed_precision.clone();
    stated.ok_or_else(|| "no GPU states `mixed_precision`".into())
}

fn constant([low, value, high]: [f64; 3], source: String, date: &str) -> Constant {
    Constant {
        value,
        low: Some(low.min(value)),
        high: Some(high.max(value)),
        source,
        date: date.to_owned(),
        fitted_to: None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_factor_lies_in_its_range_and_grows_with_the_machine(rate in 1e8f64..1e13) {
            let (slow, fast) = (to_vcpu(Some(rate), "d").unwrap(), to_vcpu(Some(2.0 * rate), "d").unwrap());
            let (low, high) = slow.range();
            prop_assert!(0.0 < low && low <= slow.value && slow.value <= high);
            prop_assert!((low..=high).contains(&1.0));
            prop_assert!((fast.value / slow.value - 2.0).abs() < 1e-9);
        }
    }

    #[test]
    fn what_was_not_measured_is_said_to_be_assumed() {
        let factor = to_vcpu(None, "2026-11-22").unwrap();
        assert_eq!(factor.value, 1.0);
        assert!(factor.source.contains("assumed"), "{factor:?}");
    }

    #[test]
    fn a_faster_gpu_is_carried_to_a_t4_by_more_time() {
        assert_eq!(to_t4("Tesla T4", "d").unwrap().value, 1.0);
        assert!(to_t4("NVIDIA A100-SXM4-40GB", "d").unwrap().value > 2.0);
        let error = to_t4("Abacus", "d").unwrap_err();
        assert!(error.contains("T4, L4"), "{error}");
        let operation = of_operations("d").unwrap();
        let (low, high) = operation.range();
        assert!(low < operation.value && operation.value < high);
    }
}
