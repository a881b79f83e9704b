//! A trial that another machine hands over in files: what it is, its data, and what was recorded of it.

use std::path::Path;

use epochcost_spec::metering::TrialOutcome;
use epochcost_spec::rows::TrialPlan;

use super::{Local, worker};
use crate::{PlatformError, Progress, TrialData};

/// File with the trial, JSON.
pub const TRIAL: &str = "trial.json";
/// File with the training records, one after another.
pub const TRAIN: &str = "train.bin";
/// File with the test records.
pub const TEST: &str = "test.bin";
/// File with what was recorded, JSON.
pub const OUTCOME: &str = "outcome.json";

/// Runs the trial in `directory` on this machine, and writes what was recorded beside it.
///
/// # Errors
/// When a file cannot be read or written, or the machine lacks what the trial needs.
pub async fn run(directory: &Path, progress: &dyn Progress) -> Result<TrialOutcome, PlatformError> {
    let read = |file: &str| {
        let path = directory.join(file);
        std::fs::read(&path).map_err(PlatformError::io(format!("read {}", path.display())))
    };
    let unusable = |error: serde_json::Error| {
        PlatformError::usage(
            format!("{} is no trial: {error}", directory.join(TRIAL).display()),
            "give the directory that the platform filled",
        )
    };
    let plan: TrialPlan = serde_json::from_slice(&read(TRIAL)?).map_err(unusable)?;
    let data = TrialData {
        train: read(TRAIN)?.into(),
        test: read(TEST)?.into(),
        record_bytes: plan.row.job.data.record_bytes,
    };
    let mut local = Local::with_worker(worker::find().await?).await?;
    local.check_device(&plan.row)?;
    let (_, warning) = local.try_out([&plan.row]);
    let mut outcome = local.run_trial(&plan, &data, progress).await?;
    outcome.warnings.extend(warning);
    let text = serde_json::to_vec(&outcome).map_err(unusable)?;
    let path = directory.join(OUTCOME);
    std::fs::write(&path, text).map_err(PlatformError::io(format!("write {}", path.display())))?;
    Ok(outcome)
}
