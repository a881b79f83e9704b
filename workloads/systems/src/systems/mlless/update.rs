use epochcost_channels::Payload;
use epochcost_kernels::codec::{SparseVector, sparse_add_assign};
use epochcost_kernels::filter::{NormFilter, significance_filter};
use epochcost_kernels::reduce;

use super::{Encoding, Filter, Settings};
use crate::contract::arithmetic;
use crate::{Result, Vector};

/// Bytes of an update of `entries` of `n` parameters.
pub(super) fn encoded_bytes(encoding: Encoding, entries: u64, n: u64) -> u64 {
    match encoding {
        Encoding::Dense => 4 * n,
        Encoding::Shorter => (4 * n).min(8 + 8 * entries),
    }
}

/// Update that one worker sends in a step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Update {
    Dense(Vector),
    Sparse(SparseVector),
}

impl Update {
    pub(super) fn encode(&self) -> Payload {
        match self {
            Self::Dense(vector) => vector.encode(),
            Self::Sparse(sparse) => sparse.encode().into(),
        }
    }

    /// Reads an update of `n` parameters. A payload of 4n bytes is dense: the
    /// sparse form is only ever used where it is shorter.
    pub(super) fn decode(payload: &Payload, n: usize) -> Result<Self> {
        match payload {
            Payload::Bytes(bytes) if bytes.len() != 4 * n => {
                Ok(Self::Sparse(SparseVector::decode(bytes)?))
            }
            _ => Ok(Self::Dense(Vector::decode(payload)?)),
        }
    }

    /// Adds it to `accumulator`; phantoms add nothing.
    pub(super) fn add_to(&self, accumulator: &mut [f32]) -> Result<()> {
        match self {
            Self::Dense(Vector::Real(values)) => {
                arithmetic::note(3, values.len());
                reduce::add_assign(accumulator, values)?;
            }
            Self::Dense(Vector::Phantom { len }) => arithmetic::note(3, *len),
            // Indices beside values.
            Self::Sparse(sparse) => {
                arithmetic::note(4, sparse.entries());
                sparse_add_assign(accumulator, sparse)?;
            }
        }
        Ok(())
    }
}

/// The sum of `updates` of `n` parameters in their order, starting from zero.
pub(super) fn sum<'u>(updates: impl IntoIterator<Item = &'u Update>, n: usize) -> Result<Vec<f32>> {
    let mut sum = vec![0.0; n];
    for update in updates {
        update.add_to(&mut sum)?;
    }
    Ok(sum)
}

/// Accumulates what was not sent and decides what is sent now.
pub(super) struct Significance {
    filter: Filter,
    threshold: f64,
    encoding: Encoding,
    norm: NormFilter,
    accumulated: Vec<f32>,
}

impl Significance {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            filter: settings.filter,
            threshold: settings.significance_threshold,
            encoding: settings.encoding,
            norm: NormFilter::default(),
            accumulated: Vec::new(),
        }
    }

    /// Adds `change`, and takes out what is significant at `parameters`: the
    /// update, if there is one, and the share of entries in it. A phantom is
    /// sent whole.
    pub(super) fn filter(
        &mut self,
        parameters: &Vector,
        change: Vector,
        step: u64,
    ) -> Result<(Option<Update>, f64)> {
        if self.filter != Filter::None {
            // Adds the change to what has accumulated; then reads that and the
            // parameters, and rewrites the former.
            arithmetic::note(3 + 3, change.len());
        }
        let (Vector::Real(change), Some(parameters)) = (&change, parameters.real()) else {
            return Ok((Some(Update::Dense(change)), 1.0));
        };
        if self.filter == Filter::None {
            return Ok((Some(Update::Dense(Vector::Real(change.clone()))), 1.0));
        }
        if self.accumulated.is_empty() {
            self.accumulated = vec![0.0; change.len()];
        }
        reduce::add_assign(&mut self.accumulated, change)?;
        if self.filter == Filter::Norm {
            let sent = self.norm.step(parameters, &mut self.accumulated)?;
            let density = if sent.is_some() { 1.0 } else { 0.0 };
            return Ok((
                sent.map(|values| Update::Dense(Vector::Real(values))),
                density,
            ));
        }
        let sent = significance_filter(parameters, &mut self.accumulated, self.threshold, step)?;
        // Entries are collected, an index and a value each.
        arithmetic::note(2, sent.entries());
        let density = sent.entries() as f64 / change.len() as f64;
        Ok((self.pack(sent)?, density))
    }

    fn pack(&self, sent: SparseVector) -> Result<Option<Update>> {
        if sent.is_empty() {
            return Ok(None);
        }
        let (entries, n) = (sent.entries() as u64, sent.length() as u64);
        let sparse = Update::Sparse(sent);
        if encoded_bytes(self.encoding, entries, n) < 4 * n {
            return Ok(Some(sparse));
        }
        let dense = sum([&sparse], n as usize)?;
        Ok(Some(Update::Dense(Vector::Real(dense))))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Fidelity;

    fn significance(filter: Filter, threshold: f64, encoding: Encoding) -> Significance {
        let settings = Settings {
            filter,
            significance_threshold: threshold,
            encoding,
            ..Settings::new(Fidelity::Paper)
        };
        Significance::new(&settings)
    }

    fn real(values: &[f32]) -> Vector {
        Vector::Real(values.to_vec())
    }

    #[test]
    fn what_is_not_significant_is_sent_later() {
        let mut significance = significance(Filter::PerParameter, 0.7, Encoding::Shorter);
        let w = real(&[1.0; 8]);
        let change = real(&[0.4, 0.8, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        let (first, density) = significance.filter(&w, change.clone(), 0).unwrap();
        let first = first.unwrap();
        assert_eq!(density, 1.0 / 8.0);
        assert_eq!(first.encode().len(), 16);
        assert_eq!(Update::decode(&first.encode(), 8).unwrap(), first);
        // 0.8 has accumulated in both now, above 0.7 / √2.
        let (second, density) = significance.filter(&w, change, 1).unwrap();
        assert_eq!(density, 2.0 / 8.0);
        assert_eq!(sum([&second.unwrap()], 8).unwrap()[..2], [0.8, 0.8]);
    }

    #[test]
    fn an_update_is_sparse_only_where_that_is_shorter() {
        for (entries, bytes) in [(1, 16), (2, 24), (3, 32), (4, 32), (8, 32)] {
            let mut significance = significance(Filter::PerParameter, 0.0, Encoding::Shorter);
            let change: Vec<f32> = (0..8)
                .map(|i| if i < entries { 1.0 } else { 0.0 })
                .collect();
            let (update, density) = significance
                .filter(&real(&[1.0; 8]), real(&change), 0)
                .unwrap();
            let payload = update.unwrap().encode();
            assert_eq!((payload.len(), density), (bytes, entries as f64 / 8.0));
            let decoded = Update::decode(&payload, 8).unwrap();
            assert_eq!(sum([&decoded], 8).unwrap(), change);
        }
    }

    #[test]
    fn nothing_significant_is_no_update() {
        let mut significance = significance(Filter::PerParameter, 0.7, Encoding::Shorter);
        let (update, density) = significance
            .filter(&real(&[1.0; 2]), real(&[0.1; 2]), 0)
            .unwrap();
        assert_eq!((update, density), (None, 0.0));
    }

    #[test]
    fn phantoms_are_sent_whole() {
        let mut significance = significance(Filter::PerParameter, 0.7, Encoding::Shorter);
        let phantom = Vector::Phantom { len: 5 };
        let (update, density) = significance.filter(&phantom, phantom.clone(), 0).unwrap();
        let payload = update.unwrap().encode();
        assert_eq!((payload.len(), density), (20, 1.0));
        assert_eq!(Update::decode(&payload, 5).unwrap(), Update::Dense(phantom));
    }
}
