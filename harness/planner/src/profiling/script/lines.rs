//! The lines that a profiled program writes to its pipe.
//!
//! ```text
//! begin
//! step seconds=0.52 samples=8
//! model trainable=294912 parameters=124734720
//! note any text
//! ```

use std::collections::BTreeMap;

use serde::Serialize;

/// What a line says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Line {
    /// The first step has ended: the next one begins.
    Begin,
    /// A step has ended.
    Step(Step),
    /// The trained model.
    Model(Box<Described>),
    /// Floating-point operations of one step.
    Work(Work),
    /// Seconds and samples of forward passes between steps, in evaluation mode.
    Evaluation(f64, f64),
    /// Operations per second of a product of two matrices on one thread.
    Rate(f64),
    /// A remark for the reader of the profile.
    Note(String),
    /// Why the program cannot be profiled.
    Problem(String),
}

/// A step that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Step {
    /// Wall seconds since the step before it ended; none where the reader's clock counts.
    pub(super) seconds: Option<f64>,
    /// Seconds of these in the optimizer.
    pub(super) optimizer_s: f64,
    /// Seconds of these waiting for data.
    pub(super) data_s: f64,
    /// Seconds of the rest in which the computing thread waited for a core.
    pub(super) queue_s: f64,
    /// Samples.
    pub(super) samples: Option<f64>,
    /// Most memory so far, MB of 2²⁰ bytes.
    pub(super) peak_mb: Option<f64>,
    /// Whether it was slowed down by being looked at.
    pub(super) is_warm_up: bool,
    /// Seconds that are not in the step: of evaluation, as it seems.
    pub(super) apart_s: f64,
    /// Number of what it does: steps of the same kind do the same.
    pub(super) kind: u64,
}

/// Operations of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Work {
    pub(super) flops: f64,
    pub(super) samples: Option<f64>,
    /// Kind of the step.
    pub(super) kind: u64,
}

/// A model as its program describes it; `--json` prints what is not skipped.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Described {
    /// Name and version of the framework.
    pub(super) framework: Option<String>,
    /// `cpu` or `cuda`.
    pub(super) device: Option<String>,
    /// Scalars that the optimizer changes: what is exchanged.
    pub(super) trainable: Option<f64>,
    /// Type of the largest trainable tensor.
    pub(super) dtype: Option<String>,
    /// Samples of an epoch, where a loader of the framework knows them.
    pub(super) epoch_samples: Option<f64>,
    /// Bytes of the trainable scalars.
    pub(super) trainable_bytes: Option<f64>,
    /// All scalars.
    pub(super) parameters: Option<f64>,
    /// Running statistics of normalisation.
    pub(super) statistics: Option<f64>,
    /// Bytes of the optimizer's state.
    pub(super) optimizer_bytes: Option<f64>,
    /// Name of the GPU.
    #[serde(skip)]
    pub(super) device_name: Option<String>,
    /// Threads that it computes on.
    #[serde(skip)]
    pub(super) threads: Option<f64>,
    /// Memory before the first step, with gradients and the optimizer's state, MB.
    #[serde(skip)]
    pub(super) fixed_mb: Option<f64>,
    /// Processes that train together.
    #[serde(skip)]
    pub(super) ranks: Option<f64>,
    /// 1 where each step takes all the data, 2 where these are one graph.
    #[serde(skip)]
    pub(super) full: Option<f64>,
    /// Epochs or steps that the program was asked for, and the variable that says so.
    #[serde(skip)]
    pub(super) epochs: Option<f64>,
    #[serde(skip)]
    pub(super) planned_steps: Option<f64>,
    #[serde(skip)]
    pub(super) planned_by: Option<String>,
}

/// A line with the process that wrote it, if it says which.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reported {
    pub(super) process: Option<u64>,
    pub(super) line: Line,
}

/// Words of the protocol and the fields of each.
const WORDS: [(&str, &[&str]); 6] = [
    ("begin", &["samples"]),
    (
        "step",
        &[
            "seconds",
            "optimizer",
            "data",
            "queue",
            "samples",
            "peak_mb",
            "warm",
            "kind",
            "apart",
        ],
    ),
    (
        "model",
        &[
            "framework",
            "trainable",
            "parameters",
            "statistics",
            "dtype",
            "epoch_samples",
            "trainable_bytes",
            "optimizer_bytes",
            "device",
            "device_name",
            "threads",
            "fixed_mb",
            "ranks",
            "full",
            "epochs",
            "planned_steps",
            "planned_by",
        ],
    ),
    ("work", &["flops", "samples", "kind"]),
    ("evaluation", &["seconds", "samples"]),
    ("rate", &["flops_per_s"]),
];

/// Reads a line.
///
/// # Errors
/// What is wrong with it.
pub(super) fn parse(text: &str) -> Result<Reported, String> {
    let text = text.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let free = match word {
        "note" => Some(Line::Note(rest.trim().to_owned())),
        "problem" => Some(Line::Problem(rest.trim().to_owned())),
        _ => None,
    };
    if let Some(line) = free {
        let process = None;
        return Ok(Reported { process, line });
    }
    let Some((_, fields)) = WORDS.iter().find(|(known, _)| *known == word) else {
        let known: Vec<&str> = WORDS.iter().map(|(known, _)| *known).collect();
        let known = known.join(", ");
        return Err(format!(
            "{text:?} begins with none of {known}, note and problem"
        ));
    };
    let values = values(text, rest, fields)?;
    let number = |name: &str| number(text, &values, name);
    let owned = |name: &str| values.get(name).map(|value| (*value).to_owned());
    let needed = |name: &str| number(name)?.ok_or_else(|| format!("{text:?} has no `{name}=`"));
    let kind = || Ok::<_, String>(number("kind")?.unwrap_or(0.0) as u64);
    let line = match word {
        "begin" => Line::Begin,
        "step" => Line::Step(checked(
            text,
            Step {
                seconds: number("seconds")?,
                optimizer_s: number("optimizer")?.unwrap_or(0.0),
                data_s: number("data")?.unwrap_or(0.0),
                queue_s: number("queue")?.unwrap_or(0.0),
                samples: number("samples")?,
                peak_mb: number("peak_mb")?,
                is_warm_up: number("warm")?.is_some_and(|warm| warm > 0.0),
                apart_s: number("apart")?.unwrap_or(0.0),
                kind: kind()?,
            },
        )?),
        "work" => Line::Work(Work {
            flops: needed("flops")?,
            samples: number("samples")?,
            kind: kind()?,
        }),
        "evaluation" => Line::Evaluation(needed("seconds")?, needed("samples")?),
        "rate" => Line::Rate(needed("flops_per_s")?),
        _ => Line::Model(Box::new(Described {
            framework: owned("framework"),
            trainable: number("trainable")?,
            parameters: number("parameters")?,
            statistics: number("statistics")?,
            dtype: owned("dtype"),
            epoch_samples: number("epoch_samples")?,
            trainable_bytes: number("trainable_bytes")?,
            optimizer_bytes: number("optimizer_bytes")?,
            device: owned("device"),
            device_name: owned("device_name").map(|name| name.replace('_', " ")),
            threads: number("threads")?,
            fixed_mb: number("fixed_mb")?,
            ranks: number("ranks")?,
            full: number("full")?,
            epochs: number("epochs")?,
            planned_steps: number("planned_steps")?,
            planned_by: owned("planned_by").map(|name| name.replace("_of_", " of ")),
        })),
    };
    let process = values.get("process").map(|value| value.parse());
    let process = process.transpose();
    Ok(Reported {
        process: process.map_err(|_| format!("{text:?}: `process` is no number"))?,
        line,
    })
}

/// Returns the step if its times can be those of a step.
fn checked(text: &str, step: Step) -> Result<Step, String> {
    /// A day: no step takes longer.
    const LONGEST_S: f64 = 86_400.0;
    /// Clocks of parts and whole differ by that much.
    const SLACK: (f64, f64) = (1.01, 1e-3);
    if let Some(seconds) = step.seconds {
        if !(seconds > 0.0 && seconds <= LONGEST_S) {
            return Err(format!(
                "{text:?}: `seconds` is not above 0 and at most {LONGEST_S}"
            ));
        }
        if step.optimizer_s + step.data_s > SLACK.0 * seconds + SLACK.1 {
            return Err(format!(
                "{text:?}: `optimizer` and `data` are longer than the step"
            ));
        }
    }
    Ok(step)
}

/// Returns the fields of a line by their names.
fn values<'a>(
    text: &str,
    rest: &'a str,
    fields: &[&str],
) -> Result<BTreeMap<&'a str, &'a str>, String> {
    let mut values = BTreeMap::new();
    for field in rest.split_whitespace() {
        let Some((name, value)) = field.split_once('=') else {
            return Err(format!("{text:?}: {field:?} is no NAME=VALUE"));
        };
        if name != "process" && !fields.contains(&name) {
            let known = fields.join(", ");
            return Err(format!("{text:?}: `{name}` is none of {known}"));
        }
        if values.insert(name, value).is_some() {
            return Err(format!("{text:?}: `{name}` stands there twice"));
        }
    }
    Ok(values)
}

/// Returns the most that a field may be: about what experiments take.
fn most(name: &str) -> f64 {
    match name {
        "epochs" | "ranks" | "threads" => 1e5,
        "samples" => 1e7,
        "peak_mb" | "fixed_mb" => 1e9,
        "epoch_samples" | "planned_steps" => 1e12,
        "flops" => 1e25,
        _ => 1e18,
    }
}

/// Returns a number from 0 to what it may be at [`most`]; none where the line does not have it.
fn number(text: &str, values: &BTreeMap<&str, &str>, name: &str) -> Result<Option<f64>, String> {
    let Some(value) = values.get(name) else {
        return Ok(None);
    };
    let number = value.parse().ok();
    let most = most(name);
    match number.filter(|number: &f64| (0.0..=most).contains(number)) {
        Some(number) => Ok(Some(number)),
        None => Err(format!(
            "{text:?}: `{name}` is no number from 0 to {most:e}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{cases, holds};

    #[test]
    fn a_line_says_what_it_says() {
        let line = |text: &str| parse(text).unwrap().line;
        assert_eq!(line("begin"), Line::Begin);
        assert_eq!(line("step"), Line::Step(Step::default()));
        let step = Step {
            seconds: Some(0.5),
            samples: Some(8.0),
            is_warm_up: true,
            ..Step::default()
        };
        assert_eq!(line("step seconds=0.5 samples=8 warm=1"), Line::Step(step));
        let flops = 1e9;
        let work = |samples, kind| {
            Line::Work(Work {
                flops,
                samples,
                kind,
            })
        };
        assert_eq!(line("work flops=1e9\n"), work(None, 0));
        assert_eq!(line("work flops=1e9 samples=8 kind=2"), work(Some(8.0), 2));
        assert_eq!(line("note a = b"), Line::Note("a = b".into()));
        let reported = parse("rate process=12 flops_per_s=2").unwrap();
        assert_eq!(reported.process, Some(12));
        assert_eq!(reported.line, Line::Rate(2.0));
        let Line::Model(model) = line("model trainable=5 device_name=NVIDIA_T4") else {
            panic!()
        };
        assert_eq!(model.trainable, Some(5.0));
        assert_eq!(model.device_name.unwrap(), "NVIDIA T4");
    }

    #[test]
    fn a_mistake_is_named() {
        for ([text], says) in cases(&[
            "steps seconds=1 | begins with none of begin, step",
            "step second=1 | `second` is none of seconds",
            "step 1 | is no NAME=VALUE",
            "step seconds=-1 | `seconds` is no number",
            "step seconds=nan | `seconds` is no number",
            "work | has no `flops=`",
            "step seconds=0.01 seconds=5 | `seconds` stands there twice",
            "step seconds=0 | `seconds` is not above 0",
            "step seconds=1e9 | at most 86400",
            "step seconds=0.01 optimizer=5 | longer than the step",
            "model trainable=1e30 | `trainable` is no number from 0 to 1e18",
            "step samples=99999999999 | `samples` is no number from 0 to 1e7",
            "begin process=x | `process` is no number",
        ]) {
            holds(parse(text).unwrap_err(), &says);
        }
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in ".{0,80}") {
            let _ = parse(&text);
        }

        #[test]
        fn numbers_come_back(seconds in 1e-6f64..8e4, samples in 0u32..1_000_000) {
            let text = format!("step seconds={seconds} samples={samples}");
            let Line::Step(step) = parse(&text).unwrap().line else { panic!() };
            prop_assert_eq!(step.seconds, Some(seconds));
            prop_assert_eq!(step.samples, Some(f64::from(samples)));
        }
    }
}
