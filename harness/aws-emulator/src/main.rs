//! The `epochcost-aws-emulator` command: serves until it is interrupted or terminated.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use epochcost_aws_emulator::Emulator;
use tokio::signal::unix::{SignalKind, signal};

/// Serves Lambda, Step Functions and CloudWatch on this machine, and runs the
/// instances of an emulated EC2.
#[derive(Debug, Parser)]
#[command(name = "epochcost-aws-emulator", version)]
struct Arguments {
    /// Endpoint of an emulator of S3, CloudWatch Logs and EC2, such as moto.
    #[arg(long, value_name = "URL")]
    backend: String,
    /// Region whose instances run here.
    #[arg(long, value_name = "REGION", default_value = "us-east-1")]
    region: String,
}

#[tokio::main]
async fn main() -> ExitCode {
    match serve(&Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // There is no other place to report that standard error is closed.
            let _ = writeln!(
                std::io::stderr(),
                "error: failed to serve Lambda on the loopback interface: {error}"
            );
            ExitCode::FAILURE
        }
    }
}

/// Serves until a signal, and prints the endpoint overrides to export.
async fn serve(arguments: &Arguments) -> std::io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let emulator = Emulator::start(&arguments.backend, &arguments.region).await?;
    let (endpoint, objects) = (emulator.endpoint(), emulator.objects_endpoint());
    writeln!(
        std::io::stdout(),
        "export AWS_ENDPOINT_URL={} AWS_ENDPOINT_URL_S3={objects} AWS_ENDPOINT_URL_SFN={endpoint} \
         AWS_ENDPOINT_URL_LAMBDA={endpoint} AWS_ENDPOINT_URL_CLOUDWATCH={endpoint}",
        arguments.backend
    )?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}
