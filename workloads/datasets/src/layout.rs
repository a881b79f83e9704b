//! The two file formats: the files of a set, and the conversion between their
//! bytes and records.

use std::path::Path;

use epochcost_kernels::chunk_range;

use crate::{DatasetError, DatasetInfo, Layout, RecordFormat};

const IDX_IMAGES_MAGIC: u32 = 0x0000_0803;
const IDX_LABELS_MAGIC: u32 = 0x0000_0801;
const IDX_IMAGES_HEADER_BYTES: usize = 16;
const IDX_LABELS_HEADER_BYTES: usize = 8;

/// Number of files of CIFAR-10's training records.
const CIFAR_TRAIN_FILES: usize = 5;

/// The two halves of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Train,
    Test,
}

impl Layout {
    /// Returns the names of a part's files, in reading order.
    pub(crate) fn part_files(self, part: Part) -> &'static [&'static str] {
        match (self, part) {
            (Self::CifarBinary, Part::Train) => &[
                "data_batch_1.bin",
                "data_batch_2.bin",
                "data_batch_3.bin",
                "data_batch_4.bin",
                "data_batch_5.bin",
            ],
            (Self::CifarBinary, Part::Test) => &["test_batch.bin"],
            (Self::Idx, Part::Train) => &["train-images-idx3-ubyte", "train-labels-idx1-ubyte"],
            (Self::Idx, Part::Test) => &["t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"],
        }
    }

    /// Returns all files of a set of that many samples with their sizes in bytes, in
    /// reading order.
    pub(crate) fn files(
        self,
        format: RecordFormat,
        train: usize,
        test: usize,
    ) -> Vec<(&'static str, u64)> {
        let part = |part, samples| {
            let sizes = self.part_sizes(format, part, samples).into_iter();
            let names = self.part_files(part).iter().copied();
            names.zip(sizes.map(|size| size as u64))
        };
        part(Part::Train, train)
            .chain(part(Part::Test, test))
            .collect()
    }

    fn part_sizes(self, format: RecordFormat, part: Part, samples: usize) -> Vec<usize> {
        match (self, part) {
            (Self::CifarBinary, Part::Train) => (0..CIFAR_TRAIN_FILES)
                .map(|file| chunk_range(samples, CIFAR_TRAIN_FILES, file).len())
                .map(|length| length * format.record_bytes())
                .collect(),
            (Self::CifarBinary, Part::Test) => vec![samples * format.record_bytes()],
            (Self::Idx, _) => vec![
                IDX_IMAGES_HEADER_BYTES + samples * format.pixel_bytes(),
                IDX_LABELS_HEADER_BYTES + samples,
            ],
        }
    }

    /// Converts the records of a part to the bytes of its files, in reading order.
    pub(crate) fn encode(self, format: RecordFormat, part: Part, records: &[u8]) -> Vec<Vec<u8>> {
        let samples = records.len() / format.record_bytes();
        match self {
            Self::CifarBinary => {
                let mut rest = records;
                self.part_sizes(format, part, samples)
                    .into_iter()
                    .map(|size| {
                        let (file, tail) = rest.split_at(size);
                        rest = tail;
                        file.to_vec()
                    })
                    .collect()
            }
            Self::Idx => {
                let dimensions = idx_dimensions(format, samples);
                let mut images = idx_header(IDX_IMAGES_MAGIC, &dimensions);
                let mut labels = idx_header(IDX_LABELS_MAGIC, &dimensions[..1]);
                for record in records.chunks_exact(format.record_bytes()) {
                    labels.push(record[0]);
                    images.extend_from_slice(&record[1..]);
                }
                vec![images, labels]
            }
        }
    }

    /// Converts a part's files, in reading order, to records. The caller has checked
    /// headers and sizes.
    pub(crate) fn decode(self, format: RecordFormat, files: &[Vec<u8>]) -> Vec<u8> {
        match (self, files) {
            (Self::Idx, [images, labels]) => {
                let images = images[IDX_IMAGES_HEADER_BYTES..].chunks_exact(format.pixel_bytes());
                let labels = &labels[IDX_LABELS_HEADER_BYTES..];
                let mut records = Vec::with_capacity(labels.len() * format.record_bytes());
                for (&label, pixels) in labels.iter().zip(images) {
                    records.push(label);
                    records.extend_from_slice(pixels);
                }
                records
            }
            _ => files.concat(),
        }
    }
}

/// Expected form of a file's content, beside its size and checksum.
pub(crate) struct Form<'a> {
    pub(crate) info: &'a DatasetInfo,
    pub(crate) path: &'a Path,
    pub(crate) remedy: &'a str,
}

impl Form<'_> {
    /// Checks headers and labels of a file of the right size.
    pub(crate) fn check(&self, bytes: &[u8]) -> Result<(), DatasetError> {
        let format = self.info.format;
        match self.info.layout {
            Layout::CifarBinary => self.check_labels(bytes.iter().step_by(format.record_bytes())),
            Layout::Idx if self.path.to_string_lossy().ends_with("images-idx3-ubyte") => {
                let body = bytes.len() - IDX_IMAGES_HEADER_BYTES;
                let dimensions = idx_dimensions(format, body / format.pixel_bytes());
                self.check_idx_header(bytes, IDX_IMAGES_MAGIC, &dimensions)
            }
            Layout::Idx => {
                let samples = bytes.len() - IDX_LABELS_HEADER_BYTES;
                let dimensions = idx_dimensions(format, samples);
                self.check_idx_header(bytes, IDX_LABELS_MAGIC, &dimensions[..1])?;
                self.check_labels(bytes[IDX_LABELS_HEADER_BYTES..].iter())
            }
        }
    }

    fn check_labels<'b>(&self, labels: impl Iterator<Item = &'b u8>) -> Result<(), DatasetError> {
        let classes = self.info.classes;
        match labels.enumerate().find(|(_, label)| **label >= classes) {
            None => Ok(()),
            Some((record, &found)) => Err(DatasetError::Label {
                path: self.path.to_owned(),
                record,
                found,
                classes,
                remedy: self.remedy.to_owned(),
            }),
        }
    }

    fn check_idx_header(
        &self,
        bytes: &[u8],
        magic: u32,
        dimensions: &[u32],
    ) -> Result<(), DatasetError> {
        // The header: big-endian words, first the magic number, then the dimensions.
        let words: Vec<u32> = bytes
            .chunks_exact(4)
            .take(1 + dimensions.len())
            .map(|word| {
                word.iter()
                    .fold(0, |value, &byte| value << 8 | u32::from(byte))
            })
            .collect();
        if words[0] != magic {
            return Err(DatasetError::Magic {
                path: self.path.to_owned(),
                found: words[0],
                expected: magic,
                remedy: self.remedy.to_owned(),
            });
        }
        if words[1..] != *dimensions {
            return Err(DatasetError::Dimensions {
                path: self.path.to_owned(),
                found: words[1..].to_vec(),
                expected: dimensions.to_vec(),
                remedy: self.remedy.to_owned(),
            });
        }
        Ok(())
    }
}

fn idx_dimensions(format: RecordFormat, samples: usize) -> [u32; 3] {
    // A set's samples are bounded far below 2³² when it is made or published.
    [samples as u32, format.height as u32, format.width as u32]
}

fn idx_header(magic: u32, dimensions: &[u32]) -> Vec<u8> {
    std::iter::once(&magic)
        .chain(dimensions)
        .flat_map(|word| word.to_be_bytes())
        .collect()
}
