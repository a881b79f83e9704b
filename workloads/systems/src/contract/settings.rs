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
    let mut resolved = to_value(system, defaults)?;
    for (field, value) in overrides {
        let mut next = resolved.clone();
        match next.get_mut(field) {
            Some(slot) => *slot = value.clone(),
            None => {
                let known = match resolved {
                    Value::Object(map) => map.keys().cloned().collect(),
                    _ => Vec::new(),
                };
                return Err(SettingsError::Unknown {
                    system,
                    field: field.clone(),
                    known,
                });
            }
        }
        if let Err(error) = serde_json::from_value::<S>(next.clone()) {
            return Err(SettingsError::Value {
                system,
                field: field.clone(),
                reason: error.to_string(),
            });
        }
        resolved = next;
    }
    Ok(resolved)
}

fn to_value<S: Serialize>(system: &'static str, settings: &S) -> Result<Value, SettingsError> {
    serde_json::to_value(settings).map_err(|error| SettingsError::Value {
        system,
        field: "settings".into(),
        reason: error.to_string(),
    })
}

/// Reads complete settings back.
pub(crate) fn parse<S: DeserializeOwned>(
    system: &'static str,
    settings: &Value,
) -> Result<S, SettingsError> {
    S::deserialize(settings).map_err(|error| SettingsError::Value {
        system,
        field: "settings".into(),
        reason: error.to_string(),
    })
}
