//! This project's side of `benches/steps.py`: `step MODEL BATCH`.
//!
//! Writes `ready` when the first step could begin, and then answers each line of its
//! standard input by a training step and its wall milliseconds.

use std::io::{BufRead, Write, stdin, stdout};
use std::time::Instant;

use epochcost_kernels::hash::{mix, unit_f32};
use epochcost_models::{Device, Trainer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    epochcost_models::keep_freed_memory();
    let mut arguments = std::env::args().skip(1);
    let model = arguments.next().ok_or("no model is named")?;
    let batch: usize = arguments.next().ok_or("no batch size is given")?.parse()?;
    let mut trainer = Trainer::new(&model, Device::Cpu)?;
    let parameters = trainer.initial_parameters(1);
    let mut statistics = trainer.initial_statistics();
    let values = batch * trainer.info().image_values();
    let images: Vec<f32> = (0..values)
        .map(|index| unit_f32(mix(2, index as u64)))
        .collect();
    let labels: Vec<u8> = (0..batch).map(|index| (index % 10) as u8).collect();
    let mut output = stdout().lock();
    writeln!(output, "ready")?;
    output.flush()?;
    for line in stdin().lock().lines() {
        line?;
        let start = Instant::now();
        trainer.gradient(&parameters, &mut statistics, &images, &labels)?;
        writeln!(output, "{}", start.elapsed().as_secs_f64() * 1e3)?;
        output.flush()?;
    }
    Ok(())
}
