//! Sparse vectors: what a significance filter lets through.
//!
//! Format, little-endian: the dense length (u32), the number of entries (u32),
//! then 8 bytes an entry: index (u32) and value (`f32`), indices strictly
//! ascending. The wide form has entries alone, 16 bytes each: index (i64) and
//! value (`f64`).

use crate::error::{KernelError, expect_length};

const HEADER_BYTES: usize = 8;
const ENTRY_BYTES: usize = 8;
/// Bytes of an entry of the wide form: index (i64) and value (`f64`).
const WIDE_ENTRY_BYTES: usize = 16;

/// Some entries of a dense vector; all others are 0.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SparseVector {
    length: u32,
    indices: Vec<u32>,
    values: Vec<f32>,
}

impl SparseVector {
    /// Returns an empty sparse vector that stands for `length` zeros.
    ///
    /// # Errors
    /// [`KernelError::TooLong`] if 32-bit indices cannot address them.
    pub fn zeros(length: usize) -> Result<Self, KernelError> {
        Ok(Self {
            length: u32::try_from(length).map_err(|_| KernelError::TooLong { length })?,
            indices: Vec::new(),
            values: Vec::new(),
        })
    }

    /// Returns a sparse vector of the given entries.
    ///
    /// # Errors
    /// [`KernelError::Sparse`] unless there are as many indices as values, and
    /// indices ascend strictly and lie below `length`.
    pub fn new(length: u32, indices: Vec<u32>, values: Vec<f32>) -> Result<Self, KernelError> {
        if indices.len() != values.len() {
            return Err(malformed("it has not as many indices as values"));
        }
        if !indices.is_sorted_by(|a, b| a < b) {
            return Err(malformed("its indices do not ascend strictly"));
        }
        if indices.last().is_some_and(|last| *last >= length) {
            return Err(malformed("an index lies beyond its length"));
        }
        Ok(Self {
            length,
            indices,
            values,
        })
    }

    /// Adds an entry behind the last; for a filter that walks a vector once.
    pub(crate) fn push(&mut self, index: u32, value: f32) {
        self.indices.push(index);
        self.values.push(value);
    }

    /// Elements of the dense vector.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.length as usize
    }

    /// Entries kept.
    #[must_use]
    pub const fn entries(&self) -> usize {
        self.indices.len()
    }

    /// Returns whether no entry was kept.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// Indices of the entries, strictly ascending.
    #[must_use]
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }

    /// Values of the entries, in the order of [`SparseVector::indices`].
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Returns the payload: 8 bytes and 8 more an entry.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES + ENTRY_BYTES * self.entries()];
        let (words, _) = bytes.as_chunks_mut::<8>();
        if let Some((header, entries)) = words.split_first_mut() {
            // Indices are distinct u32, so the count fits unless all 2³² are
            // present, which a length below 2³² rules out.
            *header = word(self.length, self.entries() as u32);
            for ((slot, index), value) in entries.iter_mut().zip(&self.indices).zip(&self.values) {
                *slot = word(*index, value.to_bits());
            }
        }
        bytes
    }

    /// Reads what [`SparseVector::encode`] wrote.
    ///
    /// # Errors
    /// [`KernelError::Sparse`] if the bytes break the format.
    pub fn decode(bytes: &[u8]) -> Result<Self, KernelError> {
        let (words, rest) = bytes.as_chunks::<8>();
        let (header, entries) = words
            .split_first()
            .ok_or_else(|| malformed("it is shorter than its header"))?;
        let (length, count) = halves(*header);
        if !rest.is_empty() || entries.len() != count as usize {
            return Err(malformed("its header names another number of entries"));
        }
        let (indices, values) = entries
            .iter()
            .map(|entry| halves(*entry))
            .map(|(index, bits)| (index, f32::from_bits(bits)))
            .unzip();
        Self::new(length, indices, values)
    }

    /// Returns the wide payload: 16 bytes per entry and no header, index (i64) and value
    /// (`f64`), little-endian. Its reader knows the dense length.
    #[must_use]
    pub fn encode_wide(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(WIDE_ENTRY_BYTES * self.entries());
        for (index, value) in self.indices.iter().zip(&self.values) {
            bytes.extend_from_slice(&i64::from(*index).to_le_bytes());
            bytes.extend_from_slice(&f64::from(*value).to_le_bytes());
        }
        bytes
    }

    /// Reads what [`SparseVector::encode_wide`] wrote of a vector of `length` elements.
    ///
    /// # Errors
    /// [`KernelError::Sparse`] if the bytes break the format, [`KernelError::TooLong`] if
    /// 32-bit indices cannot address the elements.
    pub fn decode_wide(bytes: &[u8], length: usize) -> Result<Self, KernelError> {
        let length = u32::try_from(length).map_err(|_| KernelError::TooLong { length })?;
        let (words, rest) = bytes.as_chunks::<8>();
        let (entries, half) = words.as_chunks::<2>();
        if !rest.is_empty() || !half.is_empty() {
            return Err(malformed("its last entry is cut short"));
        }
        let mut indices = Vec::with_capacity(entries.len());
        let mut values = Vec::with_capacity(entries.len());
        for [index, value] in entries {
            let index = u32::try_from(i64::from_le_bytes(*index));
            indices.push(index.map_err(|_| malformed("an index lies beyond its length"))?);
            values.push(f64::from_le_bytes(*value) as f32);
        }
        Self::new(length, indices, values)
    }
}

const fn malformed(reason: &'static str) -> KernelError {
    KernelError::Sparse { reason }
}

/// Two 32-bit numbers, little-endian, the first at the lower address.
const fn word(low: u32, high: u32) -> [u8; 8] {
    (low as u64 | (high as u64) << 32).to_le_bytes()
}

const fn halves(word: [u8; 8]) -> (u32, u32) {
    let word = u64::from_le_bytes(word);
    (word as u32, (word >> 32) as u32)
}

/// Adds the entries of `sparse` to the dense `acc`.
///
/// # Errors
/// [`KernelError::LengthMismatch`]; `acc` is then unchanged.
pub fn sparse_add_assign(acc: &mut [f32], sparse: &SparseVector) -> Result<(), KernelError> {
    expect_length("add a sparse vector", 1, acc.len(), sparse.length())?;
    for (index, value) in sparse.indices.iter().zip(&sparse.values) {
        if let Some(slot) = acc.get_mut(*index as usize) {
            *slot += value;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn payload_of_one_entry() {
        let sparse = SparseVector::new(3, vec![2], vec![1.0]).unwrap();
        let bytes = sparse.encode();
        assert_eq!(
            bytes,
            [3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0x80, 0x3F]
        );
        let mut acc = [1.0; 3];
        sparse_add_assign(&mut acc, &sparse).unwrap();
        assert_eq!(acc, [1.0, 1.0, 2.0]);
        assert!(sparse_add_assign(&mut [0.0; 2], &sparse).is_err());
    }

    #[test]
    fn wide_payload_of_one_entry() {
        let sparse = SparseVector::new(3, vec![2], vec![1.0]).unwrap();
        let bytes = sparse.encode_wide();
        assert_eq!(
            bytes,
            [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xF0, 0x3F]
        );
        assert!(SparseVector::decode_wide(&bytes, 2).is_err());
        assert!(SparseVector::decode_wide(&bytes[..15], 3).is_err());
        assert!(SparseVector::decode_wide(&bytes[..8], 3).is_err());
    }

    #[test]
    fn entries_out_of_order_or_range_are_refused() {
        assert!(SparseVector::new(3, vec![3], vec![1.0]).is_err());
        assert!(SparseVector::new(3, vec![1, 1], vec![1.0; 2]).is_err());
        assert!(SparseVector::new(3, vec![2, 1], vec![1.0; 2]).is_err());
        assert!(SparseVector::new(3, vec![1], vec![]).is_err());
        let mut bytes = SparseVector::new(3, vec![1, 2], vec![1.0; 2])
            .unwrap()
            .encode();
        bytes.truncate(16);
        assert!(SparseVector::decode(&bytes).is_err());
    }

    proptest! {
        #[test]
        fn sparse_round_trip(dense in prop::collection::vec(-9.0f32..9.0, 0..99), keep: u64) {
            let indices: Vec<u32> =
                (0..dense.len() as u32).filter(|i| keep >> (i % 64) & 1 == 1).collect();
            let values = indices.iter().map(|i| dense[*i as usize]).collect();
            let sparse = SparseVector::new(dense.len() as u32, indices, values).unwrap();
            prop_assert_eq!(SparseVector::decode(&sparse.encode()).unwrap(), sparse.clone());
            let wide = sparse.encode_wide();
            prop_assert_eq!(wide.len(), 16 * sparse.entries());
            prop_assert_eq!(SparseVector::decode_wide(&wide, dense.len()).unwrap(), sparse);
        }

        #[test]
        fn arbitrary_wide_bytes_are_refused_or_kept(
            length in 0usize..9,
            entries in prop::collection::vec((-2i64..12, -9.0f32..9.0), 0..5),
            cut in 0usize..16,
        ) {
            let mut bytes: Vec<u8> = entries
                .iter()
                .flat_map(|(index, value)| {
                    [index.to_le_bytes(), f64::from(*value).to_le_bytes()].concat()
                })
                .collect();
            bytes.truncate(bytes.len().saturating_sub(cut));
            if let Ok(sparse) = SparseVector::decode_wide(&bytes, length) {
                prop_assert_eq!(sparse.encode_wide(), bytes);
            }
        }

        #[test]
        fn arbitrary_bytes_are_refused_or_kept(
            length in 0u32..9,
            count in 0u32..4,
            body in prop::collection::vec(0u8..5, 0..33)
        ) {
            let bytes = [&length.to_le_bytes()[..], &count.to_le_bytes(), &body].concat();
            if let Ok(sparse) = SparseVector::decode(&bytes) {
                prop_assert_eq!(sparse.encode(), bytes);
            }
        }
    }
}
