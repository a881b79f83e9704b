//! Gradients made smaller before they are sent.

use epochcost_channels::Payload;
pub use epochcost_kernels::codec::QsgdNorm as Norm;
use epochcost_kernels::codec::{
    PUBLISHED_LEVELS, Qsgd, SparseVector, decode_published_qsgd, encode_published_qsgd,
    sparse_add_assign, sparse_bytes, take_top_k, top_k_entries,
};
use epochcost_kernels::{hash, reduce};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::arithmetic;
use crate::{Result, SettingsError, Vector};

/// Encoding of a gradient on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Little-endian f32, 4 bytes per element.
    None,
    /// QSGD, its levels packed in as few bits as they need.
    Qsgd,
    /// QSGD as published with the P2P paper: its levels as f32, and one element
    /// more than the gradient has.
    QsgdPublished,
    /// The largest elements; what is not sent is added to the next gradient.
    TopK,
}

/// A way to send gradients, with its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compression {
    /// How.
    pub method: Method,
    /// Levels of QSGD above zero.
    pub levels: u32,
    /// Norm of a bucket.
    pub norm: Norm,
    /// Elements that share one norm; null: all.
    pub bucket: Option<usize>,
    /// The share of elements that top-k sends.
    pub fraction: f64,
}

impl Compression {
    /// Parameters of the P2P paper's code, under `method`; top-k sends a hundredth.
    pub const fn published(method: Method) -> Self {
        Self {
            method,
            levels: PUBLISHED_LEVELS,
            norm: Norm::Max,
            bucket: None,
            fraction: 0.01,
        }
    }

    /// Refuses what no gradient can be sent with.
    ///
    /// # Errors
    /// Names the setting of `system`.
    pub(crate) fn check(&self, system: &'static str) -> Result<(), SettingsError> {
        self.qsgd()
            .map_err(|error| SettingsError::value(system, "qsgd_levels", error.to_string()))?;
        if !(self.fraction > 0.0 && self.fraction <= 1.0) {
            let reason = format!("it is {}, but must be above 0 and at most 1", self.fraction);
            return Err(SettingsError::value(system, "top_k_fraction", reason));
        }
        Ok(())
    }

    fn qsgd(&self) -> Result<Qsgd, epochcost_kernels::KernelError> {
        Qsgd::new(self.levels, self.norm, self.bucket)
    }

    /// Bytes of the message of a gradient of `n` elements.
    ///
    /// # Errors
    /// When the parameters are not usable.
    pub fn bytes(&self, n: u64) -> Result<u64> {
        Ok(match self.method {
            Method::None => 4 * n,
            Method::Qsgd => self.qsgd()?.encoded_bytes(n),
            Method::QsgdPublished => 4 * (n + 1),
            Method::TopK => sparse_bytes(top_k_entries(n, self.fraction)),
        })
    }
}

/// Compresses the gradients of one worker, one after another.
pub(crate) struct Compressor {
    pub(crate) compression: Compression,
    seed: u64,
    /// Elements that top-k has not sent yet.
    residual: Option<Vec<f32>>,
}

/// Stream of random draws for rounding, apart from all others of a seed.
const ROUNDING: u64 = 0x5153_4744;

impl Compressor {
    /// Creates the compressor of worker `rank`; `seed` is the job's.
    pub(crate) fn new(compression: Compression, seed: u64, rank: usize) -> Self {
        Self {
            compression,
            seed: hash::mix(hash::mix(seed, ROUNDING), rank as u64),
            residual: None,
        }
    }

    /// The share of a gradient's elements that is sent, where that is not all.
    pub(crate) fn density(&self, n: usize) -> Option<f64> {
        let entries = || top_k_entries(n as u64, self.compression.fraction);
        (self.compression.method == Method::TopK).then(|| entries() as f64 / n.max(1) as f64)
    }

    /// The message of the gradient of `epoch`.
    pub(crate) fn compress(&mut self, gradient: &Vector, epoch: usize) -> Result<Payload> {
        let seed = hash::mix(self.seed, epoch as u64);
        if self.compression.method == Method::None {
            return Ok(gradient.encode());
        }
        // The gradient is read twice, for its norm or what is kept back and to
        // be sent, and what is sent is written.
        arithmetic::note(3, gradient.len());
        let Some(values) = gradient.real() else {
            let bytes = self.compression.bytes(gradient.len() as u64)?;
            return Ok(Payload::Phantom { bytes });
        };
        Ok(match self.compression.method {
            Method::Qsgd => self.compression.qsgd()?.encode(values, seed),
            Method::QsgdPublished => encode_published_qsgd(values, seed),
            _ => {
                let residual = match &mut self.residual {
                    Some(residual) => {
                        reduce::add_assign(residual, values)?;
                        residual
                    }
                    None => self.residual.insert(values.to_vec()),
                };
                let entries = top_k_entries(values.len() as u64, self.compression.fraction);
                take_top_k(residual, entries as usize)?.encode()
            }
        }
        .into())
    }

    /// The gradient of `n` elements that `message` stands for.
    pub(crate) fn decompress(&self, message: &Payload, n: usize) -> Result<Vector> {
        if self.compression.method == Method::None {
            return Vector::decode(message);
        }
        arithmetic::note(2, n);
        let Ok(bytes) = message.bytes() else {
            return Ok(Vector::Phantom { len: n });
        };
        Ok(Vector::Real(match self.compression.method {
            Method::Qsgd => self.compression.qsgd()?.decode(bytes, n)?,
            Method::QsgdPublished => decode_published_qsgd(bytes)?,
            _ => {
                let mut dense = vec![0.0; n];
                sparse_add_assign(&mut dense, &SparseVector::decode(bytes)?)?;
                dense
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn gradient() -> Vector {
        Vector::Real((0..37).map(|i| (i as f32 - 18.0) / 7.0).collect())
    }

    /// Top-k sends everything over its epochs: what was sent and what is left
    /// add up to all gradients.
    #[test]
    fn top_k_sends_later_what_it_keeps_back() {
        let compression = Compression {
            fraction: 0.3,
            ..Compression::published(Method::TopK)
        };
        let mut compressor = Compressor::new(compression, 1, 0);
        let mut sent = Vector::Real(vec![0.0; 37]);
        for epoch in 0..5 {
            let message = compressor.compress(&gradient(), epoch).unwrap();
            sent.add(&compressor.decompress(&message, 37).unwrap())
                .unwrap();
        }
        let left = compressor.residual.unwrap();
        let gradient = gradient();
        let all = sent
            .real()
            .unwrap()
            .iter()
            .zip(&left)
            .zip(gradient.real().unwrap());
        for ((sent, left), gradient) in all {
            assert!((sent + left - 5.0 * gradient).abs() < 1e-5);
        }
    }
}
