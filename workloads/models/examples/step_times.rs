//! Wall milliseconds of one training step: `step_times [MODEL BATCH]…`.

use std::time::Instant;

use epochcost_kernels::hash::{mix, unit_f32};
use epochcost_models::{Device, ModelError, Trainer};

const REPETITIONS: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    for pair in arguments.chunks_exact(2) {
        let batch = pair[1].parse()?;
        let times = step_times(&pair[0], batch)?;
        println!("{} batch {batch}: {times:.1?} ms", pair[0]);
    }
    Ok(())
}

fn step_times(model: &str, batch: usize) -> Result<Vec<f64>, ModelError> {
    let mut trainer = Trainer::new(model, Device::Cpu)?;
    let parameters = trainer.initial_parameters(1);
    let mut statistics = trainer.initial_statistics();
    let values = batch * trainer.info().image_values();
    let images: Vec<f32> = (0..values)
        .map(|index| unit_f32(mix(2, index as u64)))
        .collect();
    let labels: Vec<u8> = (0..batch).map(|index| (index % 10) as u8).collect();
    (0..REPETITIONS)
        .map(|_| {
            let start = Instant::now();
            trainer.gradient(&parameters, &mut statistics, &images, &labels)?;
            Ok(start.elapsed().as_secs_f64() * 1000.0)
        })
        .collect()
}
