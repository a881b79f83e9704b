//! What only an emulated cloud has: its clock can be set forward, its charges can be read, and
//! uploads can be refused. `GET /emulator/account`, and `POST /emulator/skip/SECONDS`,
//! `/emulator/rewind` and `/emulator/refuse-logs`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use serde_json::json;

use crate::clock::Clock;
use crate::machines::MachineStore;
use crate::meter::Meter;
use crate::objects::Objects;

/// What tests read and set.
#[derive(Clone)]
pub(crate) struct Control {
    pub(crate) clock: Arc<Clock>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) machines: Arc<MachineStore>,
    pub(crate) objects: Arc<Objects>,
}

pub(crate) fn routes(control: Control) -> Router {
    Router::new()
        .route("/emulator/account", get(account))
        .route("/emulator/skip/{seconds}", post(skip))
        .route("/emulator/rewind", post(rewind))
        .route("/emulator/refuse-logs", post(refuse_logs))
        .with_state(control)
}

/// Returns the time, the charges by dimension, what is still paid by the hour, executions that run,
/// and of those that wait the number of states entered.
async fn account(State(control): State<Control>) -> String {
    let now_s = control.clock.now_s();
    let (charged, rented) = control.meter.read(now_s);
    json!({
        "now_s": now_s,
        "charged": charged,
        "rented": rented,
        "running": control.machines.running(),
        "waiting": control.machines.waiting(),
    })
    .to_string()
}

async fn skip(State(control): State<Control>, Path(seconds): Path<f64>) -> String {
    control.clock.skip(seconds);
    json!({ "now_s": control.clock.now_s() }).to_string()
}

async fn rewind(State(control): State<Control>) -> String {
    control.clock.rewind();
    json!({ "now_s": control.clock.now_s() }).to_string()
}

async fn refuse_logs(State(control): State<Control>) -> String {
    control.objects.refuses_logs.store(true, Ordering::SeqCst);
    String::new()
}
