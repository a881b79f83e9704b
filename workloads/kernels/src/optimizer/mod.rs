//! Optimizers over flat parameter vectors, with PyTorch's semantics.
//!
//! [`OptimizerSpec`] is what an experiment states; [`Optimizer`] is the spec with
//! its state. Workers and tensor stores share [`Sgd::step`], so that a step
//! taken in the store gives the bits of one taken in the worker.

mod adam;
mod sgd;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::codec::{decode_f32, encode_f32};
use crate::error::KernelError;

use adam::AdamState;

pub use adam::Adam;
pub use sgd::{Sgd, mean_sgd_step_bytes};

/// An optimizer and its settings, written as a map of one key:
/// `{sgd: {learning_rate: 0.01, momentum: 0.9}}` or
/// `{adam: {learning_rate: 0.001}}`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OptimizerSpec {
    /// Stochastic gradient descent.
    Sgd(Sgd),
    /// Adam.
    Adam(Adam),
}

impl OptimizerSpec {
    /// Checks that every setting lies in its domain.
    ///
    /// # Errors
    /// [`KernelError::OptimizerSetting`] names the first that does not.
    pub fn validate(&self) -> Result<(), KernelError> {
        // Each setting, its value and what it must be below.
        let settings = match *self {
            Self::Sgd(sgd) => vec![
                ("learning_rate", sgd.learning_rate, f64::INFINITY),
                ("momentum", sgd.momentum, f64::INFINITY),
                ("weight_decay", sgd.weight_decay, f64::INFINITY),
            ],
            Self::Adam(adam) => vec![
                ("learning_rate", adam.learning_rate, f64::INFINITY),
                ("beta1", adam.beta1, 1.0),
                ("beta2", adam.beta2, 1.0),
                ("epsilon", adam.epsilon, f64::INFINITY),
                ("weight_decay", adam.weight_decay, f64::INFINITY),
            ],
        };
        for (name, value, end) in settings {
            if !(0.0..end).contains(&value) {
                let domain = match end {
                    1.0 => "at least 0 and below 1",
                    _ => "finite and at least 0",
                };
                return Err(KernelError::OptimizerSetting {
                    name,
                    value,
                    domain,
                });
            }
        }
        Ok(())
    }

    /// Returns the step length η.
    #[must_use]
    pub const fn learning_rate(&self) -> f64 {
        match self {
            Self::Sgd(sgd) => sgd.learning_rate,
            Self::Adam(adam) => adam.learning_rate,
        }
    }

    /// Returns the same with another step length.
    #[must_use]
    pub fn at_rate(mut self, learning_rate: f64) -> Self {
        match &mut self {
            Self::Sgd(sgd) => sgd.learning_rate = learning_rate,
            Self::Adam(adam) => adam.learning_rate = learning_rate,
        }
        self
    }
}

/// Leading bytes of saved state: kind and version.
const SGD_MAGIC: [u8; 4] = *b"SGD1";
const ADAM_MAGIC: [u8; 4] = *b"ADM1";

/// An optimizer with its state.
#[derive(Debug, Clone, PartialEq)]
pub struct Optimizer {
    spec: OptimizerSpec,
    /// SGD's momentum buffer; empty before the first step and without momentum.
    velocity: Vec<f32>,
    /// Adam's moments and step count.
    adam: AdamState,
}

impl Optimizer {
    /// Returns an optimizer that has taken no step.
    #[must_use]
    pub fn new(spec: OptimizerSpec) -> Self {
        Self {
            spec,
            velocity: Vec::new(),
            adam: AdamState::default(),
        }
    }

    /// Returns the settings.
    #[must_use]
    pub const fn spec(&self) -> OptimizerSpec {
        self.spec
    }

    /// Sets the learning rate of the steps that follow.
    pub fn set_learning_rate(&mut self, learning_rate: f64) {
        self.spec = self.spec.at_rate(learning_rate);
    }

    /// One step on `parameters` along `gradient`.
    ///
    /// # Errors
    /// [`KernelError::LengthMismatch`]; nothing is modified then.
    pub fn step(&mut self, parameters: &mut [f32], gradient: &[f32]) -> Result<(), KernelError> {
        match self.spec {
            OptimizerSpec::Sgd(sgd) => sgd.step(parameters, gradient, &mut self.velocity),
            OptimizerSpec::Adam(adam) => adam.step(parameters, gradient, &mut self.adam),
        }
    }

    /// Forgets all past gradients, as if no step had been taken.
    pub fn reset(&mut self) {
        *self = Self::new(self.spec);
    }

    /// Returns the state for a checkpoint, little-endian: `SGD1` and the
    /// velocity, or `ADM1`, the step count (u64), the first and the second
    /// moment. Settings are not included.
    #[must_use]
    pub fn state_bytes(&self) -> Vec<u8> {
        match self.spec {
            OptimizerSpec::Sgd(_) => [SGD_MAGIC.as_slice(), &encode_f32(&self.velocity)].concat(),
            OptimizerSpec::Adam(_) => {
                let AdamState { step, m, v } = &self.adam;
                let (step, m, v) = (step.to_le_bytes(), encode_f32(m), encode_f32(v));
                [ADAM_MAGIC.as_slice(), &step, &m, &v].concat()
            }
        }
    }

    /// Returns the optimizer `spec` with the state that
    /// [`Optimizer::state_bytes`] saved.
    ///
    /// # Errors
    /// [`KernelError::OptimizerState`] if the bytes are another optimizer's
    /// state or damaged.
    pub fn from_state(spec: OptimizerSpec, bytes: &[u8]) -> Result<Self, KernelError> {
        let (magic, body) = bytes
            .split_first_chunk::<4>()
            .ok_or_else(|| damaged("it is shorter than its header"))?;
        let mut optimizer = Self::new(spec);
        match spec {
            OptimizerSpec::Sgd(_) if *magic == SGD_MAGIC => {
                optimizer.velocity = state_vector(body)?;
            }
            OptimizerSpec::Adam(_) if *magic == ADAM_MAGIC => optimizer.adam = adam_state(body)?,
            _ => return Err(damaged("it was not saved by this kind of optimizer")),
        }
        Ok(optimizer)
    }
}

const fn damaged(reason: &'static str) -> KernelError {
    KernelError::OptimizerState { reason }
}

fn state_vector(bytes: &[u8]) -> Result<Vec<f32>, KernelError> {
    decode_f32(bytes).map_err(|_| damaged("its vectors are cut short"))
}

fn adam_state(body: &[u8]) -> Result<AdamState, KernelError> {
    let (step, moments) = body
        .split_first_chunk::<8>()
        .ok_or_else(|| damaged("it is shorter than its header"))?;
    if !moments.len().is_multiple_of(8) {
        return Err(damaged("its vectors are cut short"));
    }
    let (m, v) = moments.split_at(moments.len() / 2);
    Ok(AdamState {
        step: u64::from_le_bytes(*step),
        m: state_vector(m)?,
        v: state_vector(v)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(json: &str) -> Result<OptimizerSpec, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn specs_have_defaults_and_refuse_what_they_do_not_know() {
        assert_eq!(
            spec(r#"{"sgd": {"learning_rate": 0.01}}"#).unwrap(),
            OptimizerSpec::Sgd(Sgd {
                learning_rate: 0.01,
                momentum: 0.0,
                weight_decay: 0.0
            })
        );
        assert_eq!(
            spec(r#"{"adam": {"learning_rate": 0.001}}"#).unwrap(),
            OptimizerSpec::Adam(Adam::new(0.001))
        );
        let error = spec(r#"{"sgd": {"learning_rate": 0.01, "nesterov": true}}"#).unwrap_err();
        assert!(error.contains("unknown field `nesterov`"), "{error}");
        let error = spec(r#"{"lars": {}}"#).unwrap_err();
        assert!(error.contains("expected `sgd` or `adam`"), "{error}");
    }

    #[test]
    fn settings_outside_their_domain_are_named() {
        let error = OptimizerSpec::Adam(Adam {
            beta2: 1.0,
            ..Adam::new(0.1)
        })
        .validate()
        .unwrap_err();
        assert!(error.to_string().contains("beta2 is 1"), "{error}");
        assert!(
            spec(r#"{"sgd": {"learning_rate": -1}}"#)
                .unwrap()
                .validate()
                .is_err()
        );
        assert!(OptimizerSpec::Adam(Adam::new(f64::NAN)).validate().is_err());
    }

    /// A restored optimizer goes on exactly as the one that was saved.
    #[test]
    fn state_survives_a_checkpoint() {
        for text in [
            r#"{"sgd": {"learning_rate": 0.1, "momentum": 0.9}}"#,
            r#"{"sgd": {"learning_rate": 0.1}}"#,
            r#"{"adam": {"learning_rate": 0.1, "weight_decay": 0.1}}"#,
        ] {
            let spec = spec(text).unwrap();
            let mut saved = Optimizer::new(spec);
            let mut w = [1.0, -2.0, 3.0];
            saved.step(&mut w, &[0.1, 0.2, -0.3]).unwrap();
            let mut restored = Optimizer::from_state(spec, &saved.state_bytes()).unwrap();
            assert_eq!(restored, saved);
            let mut w2 = w;
            saved.step(&mut w, &[1.0, 2.0, 3.0]).unwrap();
            restored.step(&mut w2, &[1.0, 2.0, 3.0]).unwrap();
            assert_eq!(w, w2);
            saved.reset();
            assert_eq!(saved, Optimizer::new(spec));
        }
    }

    #[test]
    fn state_of_another_optimizer_is_refused() {
        let adam = OptimizerSpec::Adam(Adam::new(0.1));
        let sgd = spec(r#"{"sgd": {"learning_rate": 0.1}}"#).unwrap();
        assert!(Optimizer::from_state(adam, &Optimizer::new(sgd).state_bytes()).is_err());
        assert!(Optimizer::from_state(sgd, b"SGD1abc").is_err());
        assert!(Optimizer::from_state(adam, b"ADM1").is_err());
    }
}
