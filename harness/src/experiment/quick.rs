//! What `--quick` makes of an experiment: its field `quick`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::decode::decode;
use super::document::{Document, Entry};
use super::error::ExperimentError;
use super::overrides::assign;

/// The name of the field.
const FIELD: &str = "quick";

/// What becomes of an experiment in a quick reproduction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quick {
    /// Why it is left out, if it is.
    pub leave_out: Option<String>,
    /// What is laid over it: dotted paths and values, as `--set` takes them.
    set: Vec<Entry>,
}

/// The reduced form for `reproduce --quick`: `set` or `leave_out`. Reduced, it has no recorded verdicts.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    /// Reason why it is left out.
    leave_out: Option<String>,
    /// Dotted paths and values, as of `--set` (`{epochs: 1, systems.*.memory_mb: 1769}`); of a finding
    /// whose verdict changes, `findings.N.open_since`.
    set: Option<BTreeMap<String, serde_json::Value>>,
}

impl Quick {
    /// Takes the field out of the document: it is no part of what is run.
    ///
    /// # Errors
    /// When it states nothing, or two things at once.
    pub(super) fn take(document: &mut Document) -> Result<Self, ExperimentError> {
        let Some(node) = document.root.remove(FIELD) else {
            return Ok(Self::default());
        };
        let written: Written = decode(document, &node)?;
        let set = node.get("set").map_or(&[][..], |set| set.entries());
        let reason = written.leave_out.as_deref().map(str::trim);
        let is_told = reason.is_none_or(|reason| !reason.is_empty());
        if !is_told
            || written.set.is_some() == reason.is_some()
            || (written.set.is_some() && set.is_empty())
        {
            return Err(document.error(
                node.origin.clone(),
                "neither one reduction nor one reason to leave the experiment out",
                "give `set`, a map of fields and values as for --set, or `leave_out` with the reason",
            ));
        }
        Ok(Self {
            leave_out: reason.map(str::to_owned),
            set: set.to_vec(),
        })
    }

    /// Lays its values over the document.
    ///
    /// # Errors
    /// When a path leads nowhere.
    pub(super) fn apply(&self, document: &mut Document) -> Result<(), ExperimentError> {
        for entry in &self.set {
            let segments: Vec<&str> = entry.key.split('.').collect();
            let mut root = document.root.clone();
            assign(&mut root, &segments, &entry.node).map_err(|(problem, remedy)| {
                document.error(entry.node.origin.clone(), problem, remedy)
            })?;
            document.root = root;
        }
        Ok(())
    }

    /// Whether the quick form differs from the whole experiment.
    pub fn reduces(&self) -> bool {
        !self.set.is_empty()
    }

    /// What is laid over the experiment, each as `--set` takes it.
    pub fn assignments(&self) -> Vec<String> {
        let assignment = |entry: &Entry| {
            let value = serde_json::to_string(&entry.node).unwrap_or_default();
            format!("{}={value}", entry.key)
        };
        self.set.iter().map(assignment).collect()
    }
}
