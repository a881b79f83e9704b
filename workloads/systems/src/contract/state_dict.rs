//! Models as the tensors that frameworks store them in: PyTorch's state
//! dictionaries, whose entries are the trainable tensors and, of each batch
//! norm, a mean, a variance and a counter of batches.

pub use epochcost_architectures::EntryKind;

use crate::{Result, Sizes, SystemError, testing};

/// An entry of a state dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it holds.
    pub kind: EntryKind,
    /// Number of elements.
    pub elements: usize,
}

/// Returns the entries of a model's state dictionary in order; parameters and
/// statistics follow each other there as in their flat vectors.
///
/// An experiment's own model, of which nothing but its sizes is known, is one
/// tensor of parameters, and one batch norm if it has statistics. Its name is
/// not that of a model of this program: experiments are refused where it is.
///
/// # Errors
/// [`SystemError::Compute`] when the name is that of a model of this program
/// and the sizes are not.
pub fn state_dict(model: &str, sizes: Sizes) -> Result<Vec<Entry>> {
    let entries = match epochcost_architectures::find(model) {
        Some(described) => {
            let tensors = described.layers().state_dict();
            let entry = |tensor: &epochcost_architectures::Tensor| Entry {
                kind: tensor.kind,
                elements: tensor.elements(),
            };
            tensors.iter().map(entry).collect()
        }
        None if model == testing::MODEL => formula(),
        None => return Ok(own_model(sizes)),
    };
    let found = Sums::of(&entries).sizes();
    if found == sizes {
        Ok(entries)
    } else {
        Err(SystemError::Compute(format!(
            "{model} has {} parameters and {} statistics, not {} and {}",
            found.parameters, found.statistics, sizes.parameters, sizes.statistics,
        )))
    }
}

/// Returns the entries of a model that is known by its sizes only.
fn own_model(sizes: Sizes) -> Vec<Entry> {
    let mut entries = vec![parameters(sizes.parameters)];
    if sizes.statistics > 0 {
        let mean = sizes.statistics / 2;
        entries.extend(norm(mean, sizes.statistics - mean));
    }
    entries
}

/// Returns the entries of [`testing::MODEL`]: a linear layer, a tensor, and a
/// batch norm without scale and shift.
fn formula() -> Vec<Entry> {
    let mut entries = [25, 5, 7].map(parameters).to_vec();
    entries.extend(norm(3, 3));
    entries
}

fn parameters(elements: usize) -> Entry {
    let kind = EntryKind::Parameters;
    Entry { kind, elements }
}

/// Returns what a batch norm keeps: mean, variance, counter.
fn norm(mean: usize, variance: usize) -> [Entry; 3] {
    [
        (EntryKind::Statistics, mean),
        (EntryKind::Statistics, variance),
        (EntryKind::Counter, 1),
    ]
    .map(|(kind, elements)| Entry { kind, elements })
}

/// Elements of the entries of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) parameters: Kind,
    pub(crate) statistics: Kind,
    pub(crate) counters: Kind,
}

/// Entries of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) entries: u64,
    pub(crate) elements: u64,
}

impl Sums {
    pub(crate) fn of(entries: &[Entry]) -> Self {
        let mut sums = Self::default();
        for entry in entries {
            let kind = match entry.kind {
                EntryKind::Parameters => &mut sums.parameters,
                EntryKind::Statistics => &mut sums.statistics,
                EntryKind::Counter => &mut sums.counters,
            };
            kind.entries += 1;
            kind.elements += entry.elements as u64;
        }
        sums
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            parameters: self.parameters.elements as usize,
            statistics: self.statistics.elements as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::find_model;

    /// Entries and bytes as the models' reference definitions give them.
    #[test]
    fn state_dictionaries_have_the_known_sizes() {
        for (model, entries, bytes) in [
            ("mobilenet", 164, 12_956_564),
            ("resnet18", 122, 44_734_328),
            ("lenet5", 10, 4 * 61_706),
        ] {
            let dict = state_dict(model, find_model(model).unwrap().sizes).unwrap();
            let elements: usize = dict.iter().map(|entry| entry.elements).sum();
            assert_eq!((dict.len(), 4 * elements), (entries, bytes), "{model}");
        }
    }

    #[test]
    fn every_model_is_known_tensor_by_tensor() {
        for model in crate::models() {
            let sums = Sums::of(&state_dict(model.name, model.sizes).unwrap());
            assert_eq!(sums.sizes(), model.sizes, "{}", model.name);
            assert_eq!(sums.parameters.entries, model.tensors as u64);
        }
        let dict = state_dict(testing::MODEL, testing::SIZES).unwrap();
        assert_eq!(Sums::of(&dict).sizes(), testing::SIZES);
    }

    #[test]
    fn a_model_known_by_its_sizes_is_one_tensor_and_one_norm() {
        let sizes = Sizes {
            parameters: 12,
            statistics: 5,
        };
        let dict = state_dict("mine", sizes).unwrap();
        let elements: Vec<usize> = dict.iter().map(|entry| entry.elements).collect();
        assert_eq!(elements, [12, 2, 3, 1]);
    }

    #[test]
    fn a_known_model_of_other_sizes_is_refused() {
        let sizes = Sizes {
            parameters: 12,
            statistics: 5,
        };
        for model in ["resnet18", testing::MODEL] {
            let error = state_dict(model, sizes).unwrap_err().to_string();
            assert!(error.contains(model), "{error}");
        }
    }
}
