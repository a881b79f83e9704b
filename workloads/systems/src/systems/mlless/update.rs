use epochcost_channels::Payload;
use epochcost_kernels::codec::{SparseVector, sparse_add_assign, sparse_bytes};
use epochcost_kernels::filter::{NormFilter, significance_filter};
use epochcost_kernels::reduce;

use super::{Encoding, Filter, Settings};
use crate::contract::arithmetic;
use crate::{Result, Vector};

/// Bytes of an entry in the original's encoding.
const WIDE_ENTRY_BYTES: u64 = 16;

/// Bytes of an update of `entries` of `n` parameters.
pub(super) fn encoded_bytes(encoding: Encoding, entries: u64, n: u64) -> u64 {
    match encoding {
        Encoding::Original => WIDE_ENTRY_BYTES * entries,
        Encoding::Dense => 4 * n,
        Encoding::Shorter => (4 * n).min(8 + 8 * entries),
    }
}

/// Update that one worker sends in a step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Update {
    Dense(Vector),
    Sparse(SparseVector),
    /// Sparse update of a trial that is timed again: only the number of its entries is known.
    Counted {
        entries: usize,
    },
}

impl Update {
    pub(super) fn encode(&self, form: Encoding) -> Payload {
        match self {
            Self::Dense(vector) => vector.encode(),
            Self::Sparse(sparse) if form == Encoding::Original => sparse.encode_wide().into(),
            Self::Sparse(sparse) => sparse.encode().into(),
            Self::Counted { entries } => Payload::Phantom {
                bytes: match form {
                    Encoding::Original => WIDE_ENTRY_BYTES * *entries as u64,
                    Encoding::Shorter | Encoding::Dense => sparse_bytes(*entries as u64),
                },
            },
        }
    }

    /// Reads an update of `n` parameters. Unless the form is the original's, a payload of 4n
    /// bytes is dense: the sparse form is only ever used where it is shorter.
    pub(super) fn decode(payload: &Payload, n: usize, form: Encoding) -> Result<Self> {
        match payload {
            Payload::Bytes(bytes) if form == Encoding::Original => {
                Ok(Self::Sparse(SparseVector::decode_wide(bytes, n)?))
            }
            Payload::Phantom { bytes } if form == Encoding::Original => Ok(Self::Counted {
                entries: (bytes / WIDE_ENTRY_BYTES) as usize,
            }),
            Payload::Bytes(bytes) if bytes.len() != 4 * n => {
                Ok(Self::Sparse(SparseVector::decode(bytes)?))
            }
            Payload::Phantom { bytes } if *bytes != 4 * n as u64 => Ok(Self::Counted {
                entries: (bytes.saturating_sub(sparse_bytes(0)) / 8) as usize,
            }),
            _ => Ok(Self::Dense(Vector::decode(payload)?)),
        }
    }

    /// Counts the arithmetic of adding it to a vector.
    pub(super) fn note_addition(&self) {
        match self {
            Self::Dense(vector) => arithmetic::note(3, vector.len()),
            // Indices beside values.
            Self::Sparse(sparse) => arithmetic::note(4, sparse.entries()),
            Self::Counted { entries } => arithmetic::note(4, *entries),
        }
    }

    /// Adds it to `accumulator`; phantoms add nothing.
    pub(super) fn add_to(&self, accumulator: &mut [f32]) -> Result<()> {
        self.note_addition();
        match self {
            Self::Dense(Vector::Real(values)) => reduce::add_assign(accumulator, values)?,
            Self::Sparse(sparse) => sparse_add_assign(accumulator, sparse)?,
            Self::Dense(Vector::Phantom { .. }) | Self::Counted { .. } => {}
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
    form: Encoding,
    norm: NormFilter,
    accumulated: Vec<f32>,
}

impl Significance {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            filter: settings.filter,
            threshold: settings.significance_threshold,
            form: settings.form(),
            norm: NormFilter::default(),
            accumulated: Vec::new(),
        }
    }

    /// What was not sent yet; empty before the first step, and where everything is sent.
    pub(super) fn unsent(&mut self) -> &mut Vec<f32> {
        &mut self.accumulated
    }

    /// Adds `change`, and takes out what is significant at `parameters`: the
    /// update, if there is one, and the share of entries in it. A phantom is
    /// sent whole, or in its `recorded` density where a trial is timed again.
    pub(super) fn filter(
        &mut self,
        parameters: &Vector,
        change: Vector,
        step: u64,
        recorded: Option<f64>,
    ) -> Result<(Option<Update>, f64)> {
        if self.filter != Filter::None {
            // Adds the change to what has accumulated; then reads that and the
            // parameters, and rewrites the former.
            arithmetic::note(3 + 3, change.len());
        }
        let (Vector::Real(change), Some(parameters)) = (&change, parameters.real()) else {
            return Ok(match recorded {
                Some(density) => (self.recorded(change, density), density),
                None if self.form == Encoding::Original => (self.recorded(change, 1.0), 1.0),
                None => (Some(Update::Dense(change)), 1.0),
            });
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

    /// Returns the update of `change`, a phantom, of which that share was sent.
    fn recorded(&self, change: Vector, density: f64) -> Option<Update> {
        let n = change.len();
        let entries = (density * n as f64).round() as usize;
        if self.filter != Filter::PerParameter {
            return (density > 0.0).then_some(Update::Dense(change));
        }
        // The same arithmetic as of the real update.
        arithmetic::note(2, entries);
        if entries == 0 {
            return None;
        }
        let counted = Update::Counted { entries };
        if self.is_sparse(entries, n) {
            return Some(counted);
        }
        counted.note_addition();
        Some(Update::Dense(change))
    }

    /// Returns whether `entries` of `n` parameters are sent as such.
    fn is_sparse(&self, entries: usize, n: usize) -> bool {
        let (entries, n) = (entries as u64, n as u64);
        self.form == Encoding::Original || encoded_bytes(self.form, entries, n) < 4 * n
    }

    fn pack(&self, sent: SparseVector) -> Result<Option<Update>> {
        if sent.is_empty() {
            return Ok(None);
        }
        let (entries, n) = (sent.entries(), sent.length());
        let sparse = Update::Sparse(sent);
        if self.is_sparse(entries, n) {
            return Ok(Some(sparse));
        }
        let dense = sum([&sparse], n)?;
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

    /// What is sent of a change in the first step, and its density.
    fn sent(
        threshold: f64,
        encoding: Encoding,
        w: Vector,
        change: Vector,
    ) -> (Option<Update>, f64) {
        let mut significance = significance(Filter::PerParameter, threshold, encoding);
        significance.filter(&w, change, 0, None).unwrap()
    }

    const SHORTER: Encoding = Encoding::Shorter;

    fn real(values: &[f32]) -> Vector {
        Vector::Real(values.to_vec())
    }

    #[test]
    fn what_is_not_significant_is_sent_later() {
        let mut significance = significance(Filter::PerParameter, 0.7, Encoding::Shorter);
        let w = real(&[1.0; 8]);
        let change = real(&[0.4, 0.8, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        let (first, density) = significance.filter(&w, change.clone(), 0, None).unwrap();
        let first = first.unwrap();
        assert_eq!(density, 1.0 / 8.0);
        assert_eq!(first.encode(SHORTER).len(), 16);
        assert_eq!(
            Update::decode(&first.encode(SHORTER), 8, SHORTER).unwrap(),
            first
        );
        // 0.8 has accumulated in both now, above 0.7 / √2.
        let (second, density) = significance.filter(&w, change, 1, None).unwrap();
        assert_eq!(density, 2.0 / 8.0);
        assert_eq!(sum([&second.unwrap()], 8).unwrap()[..2], [0.8, 0.8]);
    }

    /// Sparse where that is shorter; the original's sparse vectors have 16 bytes per entry, however many
    /// there are. A recorded density gives the size of the real update.
    #[test]
    fn updates_of_few_and_of_many_entries_have_their_sizes_and_survive() {
        let phantom = Vector::Phantom { len: 8 };
        for (entries, shorter, original) in [
            (0, None, None),
            (1, Some(16), Some(16)),
            (2, Some(24), Some(32)),
            (3, Some(32), Some(48)),
            (4, Some(32), Some(64)),
            (7, Some(32), Some(112)),
            (8, Some(32), Some(128)),
        ] {
            for (form, bytes) in [(SHORTER, shorter), (Encoding::Original, original)] {
                let what = format!("{entries}, {form:?}");
                let change: Vec<f32> = (0..8).map(|i| f32::from(u8::from(i < entries))).collect();
                let (update, density) = sent(0.0, form, real(&[1.0; 8]), real(&change));
                assert_eq!(density, f64::from(entries) / 8.0, "{what}");
                let payload = update.map(|update| update.encode(form));
                assert_eq!(payload.as_ref().map(Payload::len), bytes, "{what}");
                if let Some(payload) = payload {
                    let decoded = Update::decode(&payload, 8, form).unwrap();
                    assert_eq!(sum([&decoded], 8).unwrap(), change, "{what}");
                }
                let mut significance = significance(Filter::PerParameter, 0.0, form);
                let again = significance.filter(&phantom, phantom.clone(), 0, Some(density));
                let (update, again) = again.unwrap();
                let payload = update.map(|update| update.encode(form));
                let found = (payload.as_ref().map(Payload::len), again);
                assert_eq!(found, (bytes, density), "{what}");
                let is_read = |payload: Payload| Update::decode(&payload, 8, form).is_ok();
                assert!(payload.is_none_or(is_read), "{what}");
            }
        }
    }

    #[test]
    fn nothing_significant_is_no_update() {
        let sent = sent(0.7, SHORTER, real(&[1.0; 2]), real(&[0.1; 2]));
        assert_eq!(sent, (None, 0.0));
    }

    #[test]
    fn phantoms_are_sent_whole() {
        let phantom = Vector::Phantom { len: 5 };
        let (update, density) = sent(0.7, SHORTER, phantom.clone(), phantom.clone());
        let payload = update.unwrap().encode(SHORTER);
        assert_eq!((payload.len(), density), (20, 1.0));
        assert_eq!(
            Update::decode(&payload, 5, SHORTER).unwrap(),
            Update::Dense(phantom)
        );
    }

    #[test]
    fn the_encoding_of_the_original_is_of_what_is_filtered_per_parameter() {
        let original = Encoding::Original;
        // A phantom is whole: all of its entries.
        let phantom = Vector::Phantom { len: 5 };
        let (update, density) = sent(0.7, original, phantom.clone(), phantom);
        assert_eq!((update.unwrap().encode(original).len(), density), (80, 1.0));
        // What is not filtered per parameter is dense, as the re-implementation sends it.
        let mut significance = significance(Filter::None, 0.0, original);
        let (update, _) = significance
            .filter(&real(&[1.0; 8]), real(&[1.0; 8]), 0, None)
            .unwrap();
        assert_eq!(update.unwrap().encode(Encoding::Dense).len(), 32);
    }
}
