//! Records in memory.

use crate::RecordFormat;

/// The training or the test half of a dataset: records one after the other, a
/// label byte and then the image, whatever the files' own format.
#[derive(Clone, PartialEq, Eq)]
pub struct Split {
    format: RecordFormat,
    records: Vec<u8>,
}

impl Split {
    /// Creates a split from whole records, which the readers guarantee.
    pub(crate) fn new(format: RecordFormat, records: Vec<u8>) -> Self {
        debug_assert_eq!(records.len() % format.record_bytes(), 0);
        Self { format, records }
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.records.len() / self.format.record_bytes()
    }

    /// Returns all records, `samples × record_bytes` bytes.
    #[must_use]
    pub fn records(&self) -> &[u8] {
        &self.records
    }

    /// Returns one record: its label, and the bytes of its image.
    ///
    /// # Panics
    /// Panics if there is no sample of that index.
    #[must_use]
    pub fn record(&self, index: usize) -> &[u8] {
        let bytes = self.format.record_bytes();
        &self.records[index * bytes..][..bytes]
    }
}

/// Prints sizes only: megabytes of pixels would make a message useless.
impl std::fmt::Debug for Split {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Split")
            .field("format", &self.format)
            .field("samples", &self.samples())
            .finish_non_exhaustive()
    }
}
