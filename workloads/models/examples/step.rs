//! This project's side of `benches/steps.py` and `benches/gpu.py`: `step MODEL BATCH [DEVICE
//! [PRECISION]]`, by default on the CPU.
//!
//! Writes `ready` when the first step could begin, and then answers each line of its
//! standard input by a training step and its wall milliseconds.

use std::io::{BufRead, Write, stdin, stdout};
use std::time::Instant;

use epochcost_models::{Device, Precision, Trainer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    epochcost_models::keep_freed_memory();
    let mut arguments = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .skip(1);
    let model = arguments.next().ok_or("no model is named")?;
    let batch: usize = arguments.next().ok_or("no batch size is given")?.parse()?;
    let device = arguments
        .next()
        .map_or(Ok(Device::Cpu), |name| name.parse())?;
    let precision = arguments
        .next()
        .map_or(Ok(Precision::default()), |name| name.parse())?;
    let mut trainer = Trainer::new(&model, device)?.with_precision(precision)?;
    // A worker reads these from a store: here they must only be cheap to make.
    let parameters = spread(trainer.info().parameters, 0.1);
    let mut statistics = vec![1.0; trainer.info().statistics];
    let images = spread(batch * trainer.info().image_values(), 2.0);
    let labels: Vec<u8> = (0..batch).map(|index| (index % 10) as u8).collect();
    let mut output = stdout().lock();
    writeln!(output, "ready")?;
    output.flush()?;
    for line in stdin().lock().lines() {
        line?;
        let start = Instant::now();
        trainer.gradient(&parameters, &mut statistics, &images, &labels, 0)?;
        writeln!(output, "{}", start.elapsed().as_secs_f64() * 1e3)?;
        output.flush()?;
    }
    Ok(())
}

/// So many values, evenly spread from `-range / 2` to `range / 2` (Weyl's sequence).
fn spread(count: usize, range: f32) -> Vec<f32> {
    (0..count as u32)
        .map(|index| index.wrapping_mul(0x9E37_79B9) as f32 * (range / 4_294_967_296.0))
        .map(|value| value - range / 2.0)
        .collect()
}
