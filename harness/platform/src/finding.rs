//! What a check of a platform found.

use serde::Serialize;

/// One thing that was checked.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// Name of what was checked.
    pub what: String,
    /// Whether it is there.
    pub ok: bool,
    /// Description of what was found.
    pub found: String,
    /// Action to take where it is not there.
    pub remedy: Option<String>,
    /// The limit that was asked for, vCPUs or MB, where one was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<f64>,
    /// The measured limit, in the same unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<f64>,
}

impl Finding {
    /// Returns the finding that something is there.
    pub fn there(what: &str, found: impl Into<String>) -> Self {
        Self {
            what: what.to_owned(),
            ok: true,
            found: found.into(),
            remedy: None,
            asked: None,
            measured: None,
        }
    }

    /// Returns the finding that something is not there, and what to do.
    pub fn lacking(what: &str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            ok: false,
            remedy: Some(remedy.into()),
            ..Self::there(what, found)
        }
    }
}
