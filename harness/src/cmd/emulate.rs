//! `emulate`: AWS' Lambda on this machine, for runs on AWS without an account.

#[cfg(feature = "aws")]
use crate::platform::local::emulator::Emulator;
#[cfg(feature = "aws")]
use crate::run::stop_signal;

use crate::error::Error;
use crate::exit::Exit;
use crate::ui::Output;

/// `emulate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The endpoint of an emulator of S3, CloudWatch Logs and EC2, such as moto.
    #[arg(long, value_name = "URL")]
    pub backend: String,
    /// The region whose instances run here.
    #[arg(long, value_name = "REGION", default_value = "us-east-1")]
    pub region: String,
}

/// Serves AWS' Lambda on this machine until it is stopped.
///
/// # Errors
/// When there is no port to be had.
#[cfg(feature = "aws")]
pub async fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    let stop = stop_signal()?;
    let failed = |source| Error::Io {
        doing: "serve Lambda".to_owned(),
        source,
    };
    let emulator = Emulator::start(&args.backend, &args.region)
        .await
        .map_err(failed)?;
    let (endpoint, objects) = (emulator.endpoint(), emulator.objects_endpoint());
    output.json(&serde_json::json!({ "endpoint": endpoint, "objects": objects }));
    output.text(format_args!(
        "export AWS_ENDPOINT_URL={} AWS_ENDPOINT_URL_S3={objects} AWS_ENDPOINT_URL_SFN={endpoint} \
         AWS_ENDPOINT_URL_LAMBDA={endpoint} AWS_ENDPOINT_URL_CLOUDWATCH={endpoint}",
        args.backend
    ));
    stop.await;
    Ok(Exit::Done)
}

/// Serves nothing.
///
/// # Errors
/// Always, in this build.
#[cfg(not(feature = "aws"))]
pub async fn run(_: &Args, _: Output) -> Result<Exit, Error> {
    crate::platform::cloud()?;
    Ok(Exit::Done)
}
