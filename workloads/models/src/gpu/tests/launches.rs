//! How many kernels a training step launches.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use burn_autodiff::Autodiff;
use burn_cubecl::CubeRuntime;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::steps::step;
use super::{Gpu, device};
use crate::ModelInfo;
use crate::networks::session;

/// Says in the log where a step ends.
#[cube(launch)]
fn end_of_step(output: &mut Tensor<f32>) {
    if ABSOLUTE_POS >= output.len() {
        terminate!();
    }
    output[ABSOLUTE_POS] = 1.0;
}

fn mark() {
    launch_mark(super::primitive(burn::tensor::Tensor::<Gpu, 1>::from_data(
        [0.0f32],
        &device(),
    )));
}

fn launch_mark<R: CubeRuntime>(ones: CubeTensor<R>) {
    let (cubes, cube) = super::launch::grid(&ones);
    end_of_step::launch::<R>(&ones.client.clone(), cubes, cube, ones.into_tensor_arg());
}

/// Steps of which the first also chooses kernels, where burn tries several.
const STEPS: usize = 2;

/// Names of the kernels of each step, once all are in the log.
fn logged(log: &Path) -> Option<Vec<Vec<String>>> {
    let log = std::fs::read_to_string(log).ok()?;
    let names: Vec<String> = log
        .lines()
        .filter_map(|line| Some(line.split_once("Executing ")?.1.to_owned()))
        .collect();
    let mut steps: Vec<Vec<String>> = names
        .split(|name| name.starts_with("EndOfStep"))
        .map(<[String]>::to_vec)
        .collect();
    // What follows the last mark is of no step.
    steps.pop();
    steps.truncate(STEPS);
    (steps.len() == STEPS).then_some(steps)
}

/// Takes steps of `EPOCHCOST_MODEL`; of [`launches`].
#[test]
#[ignore = "runs in a process of its own, with a log of what is launched"]
fn steps_to_be_counted() {
    let variable = |name: &str| std::env::var(name).unwrap();
    let info = ModelInfo::find(&variable("EPOCHCOST_MODEL")).unwrap();
    let size = variable("EPOCHCOST_BATCH").parse().unwrap();
    let session = session::<Autodiff<Gpu>>(info, device()).unwrap();
    for _ in 0..STEPS {
        step(session.as_ref(), info, size);
        mark();
    }
    // Another thread writes the log, in order, some kilobytes at a time: more marks push it on.
    let log = variable("EPOCHCOST_LOG");
    while logged(log.as_ref()).is_none() {
        mark();
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Kernels that a step of a model launches, as CubeCL logs them.
fn launches(model: &str, size: &str) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("launched");
    let settings = format!(
        "[profiling]\nlogger = {{ level = \"minimal\", file = \"{}\" }}\n",
        log.display()
    );
    std::fs::write(directory.path().join("cubecl.toml"), settings).unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "gpu::tests::launches::steps_to_be_counted",
            "--ignored",
        ])
        .current_dir(directory.path())
        .env("EPOCHCOST_MODEL", model)
        .env("EPOCHCOST_BATCH", size)
        .env("EPOCHCOST_LOG", &log)
        .stdout(Stdio::null())
        .status();
    assert!(status.unwrap().success());
    logged(&log).unwrap().pop().unwrap()
}

/// How often each name is there, the most frequent first.
fn counted(names: &[String]) -> String {
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
        .iter()
        .fold(String::new(), |mut text, (name, count)| {
            let _ = writeln!(text, "{count:>5} {name}");
            text
        })
}

/// The bounds hold for any batch: larger ones need a join more where blocks are many. With
/// `EPOCHCOST_LAUNCHES_BATCH=512` it takes long in software.
#[test]
fn a_step_launches_hundreds_of_kernels_and_not_thousands() {
    let size = std::env::var("EPOCHCOST_LAUNCHES_BATCH").unwrap_or("4".into());
    for (model, most) in [("mobilenet", 400), ("resnet18", 500)] {
        let names = launches(model, &size);
        println!(
            "{model}, {size} images: {} kernels\n{}",
            names.len(),
            counted(&names)
        );
        assert!(
            (50..most).contains(&names.len()),
            "{model}: {}",
            names.len()
        );
    }
}
