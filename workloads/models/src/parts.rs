//! A gradient in parts, each of which is given as soon as it is known.

use std::ops::Range;
use std::sync::mpsc::Receiver;

use crate::ModelError;
use crate::ops::Taken;

/// Cuts of a gradient, and the receiver of the parts.
pub(crate) struct Parts<'a> {
    /// Ranges of the flat gradient.
    pub(crate) cuts: &'a [Range<usize>],
    /// Takes a part's position among the cuts, and its values.
    pub(crate) ready: &'a mut (dyn FnMut(usize, &[f32]) + Send),
}

impl Parts<'_> {
    /// The gradient of tensors of those lengths, which come in any order; every part is
    /// given when its last value has come.
    pub(crate) fn assemble(
        self,
        lengths: &[usize],
        tensors: Receiver<Taken>,
    ) -> Result<Vec<f32>, ModelError> {
        let Self { cuts, ready } = self;
        let start = |end: &mut usize, length: &usize| {
            *end += length;
            Some(*end - length)
        };
        let starts: Vec<usize> = lengths.iter().scan(0, start).collect();
        let mut flat = vec![0.0; lengths.iter().sum()];
        let mut missing: Vec<usize> = cuts.iter().map(ExactSizeIterator::len).collect();
        for (position, reading) in tensors {
            let values = reading.wait()?;
            let come = starts[position]..starts[position] + values.len();
            flat[come.clone()].copy_from_slice(&values);
            for (part, cut) in cuts.iter().enumerate() {
                let shared = cut
                    .end
                    .min(come.end)
                    .saturating_sub(cut.start.max(come.start));
                missing[part] -= shared;
                if shared > 0 && missing[part] == 0 {
                    ready(part, &flat[cut.clone()]);
                }
            }
        }
        Ok(flat)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::flat::Reading;

    #[test]
    fn a_part_is_given_when_its_last_tensor_has_come() {
        let (send, tensors) = channel();
        for (position, values) in [(2, vec![4.0, 5.0]), (0, vec![1.0]), (1, vec![2.0, 3.0])] {
            send.send((position, Reading::Read(Ok(values)))).unwrap();
        }
        drop(send);
        let mut given = vec![];
        let parts = Parts {
            cuts: &[0..2, 2..3, 3..5],
            ready: &mut |part, values: &[f32]| given.push((part, values.to_vec())),
        };
        let flat = parts.assemble(&[1, 2, 2], tensors).unwrap();
        assert_eq!(flat, [1.0, 2.0, 3.0, 4.0, 5.0]);
        let expected = [(2, vec![4.0, 5.0]), (0, vec![1.0, 2.0]), (1, vec![3.0])];
        assert_eq!(given, expected);
    }
}
