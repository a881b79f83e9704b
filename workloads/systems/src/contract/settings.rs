use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use thiserror::Error;

/// Why a system's settings are unusable.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// No such setting.
    #[error("{system} has no setting `{field}`")]
    Unknown {
        /// The system.
        system: &'static str,
        /// The name given.
        field: String,
        /// The names it has.
        known: Vec<String>,
    },
    /// A setting has a value of the wrong type or outside its range.
    #[error("{system}'s setting {field} is unusable: {reason}")]
    Value {
        /// The system.
        system: &'static str,
        /// The setting.
        field: String,
        /// The defect and the expected value.
        reason: String,
    },
}

impl SettingsError {
    /// Returns the error of a setting whose value is unusable.
    pub(crate) fn value(system: &'static str, field: &str, reason: impl Into<String>) -> Self {
        Self::Value {
            system,
            field: field.to_owned(),
            reason: reason.into(),
        }
    }

    /// The setting it is about.
    pub fn field(&self) -> &str {
        match self {
            Self::Unknown { field, .. } | Self::Value { field, .. } => field,
        }
    }
}

/// Lays `overrides` over `defaults`, one field at a time so that an error names its field.
pub(crate) fn resolve<S: Serialize + DeserializeOwned>(
    system: &'static str,
    defaults: &S,
    overrides: &Map<String, Value>,
) -> Result<Value, SettingsError> {
    let unusable = |field: &str, error: serde_json::Error| {
        SettingsError::value(system, field, error.to_string())
    };
    let mut resolved =
        serde_json::to_value(defaults).map_err(|error| unusable("settings", error))?;
    for (field, value) in overrides {
        let Some(slot) = resolved.get_mut(field) else {
            let known = resolved.as_object().into_iter().flat_map(Map::keys);
            return Err(SettingsError::Unknown {
                system,
                field: field.clone(),
                known: known.cloned().collect(),
            });
        };
        *slot = value.clone();
        S::deserialize(&resolved).map_err(|error| unusable(field, error))?;
    }
    Ok(resolved)
}

/// Reads complete settings back.
pub(crate) fn parse<S: DeserializeOwned>(
    system: &'static str,
    settings: &Value,
) -> Result<S, SettingsError> {
    S::deserialize(settings)
        .map_err(|error| SettingsError::value(system, "settings", error.to_string()))
}
