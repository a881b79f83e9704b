//! The table of datasets.

use std::borrow::Cow;

use crate::{DatasetError, Generate};

/// The shape of one image, stored channel by channel in row-major order, one
/// byte per pixel and channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordFormat {
    /// Colour channels: 1 for grey, 3 for red, green, blue.
    pub channels: usize,
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
}

impl RecordFormat {
    /// Returns the bytes of one image.
    #[must_use]
    pub const fn pixel_bytes(self) -> usize {
        self.channels * self.height * self.width
    }

    /// Returns the bytes of one record: a label byte, then the image. CIFAR-10's own
    /// records have 3,073 bytes; those of MNIST's images have 785.
    #[must_use]
    pub const fn record_bytes(self) -> usize {
        1 + self.pixel_bytes()
    }
}

/// File format of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// CIFAR-10's binary version: five files of training records and one of
    /// test records, with no header.
    CifarBinary,
    /// MNIST's IDX format: for each split a file of images and one of labels,
    /// each with a big-endian header.
    Idx,
}

/// A checksum of a file, in lower-case hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checksum {
    /// SHA-1, which detects accidents but no malice.
    Sha1(Cow<'static, str>),
    /// SHA-256.
    Sha256(Cow<'static, str>),
}

/// A file of a published set, or of one that a manifest describes.
#[derive(Debug, Clone)]
pub struct PublishedFile {
    /// Name of the file.
    pub name: &'static str,
    /// Exact size, bytes.
    pub size_bytes: u64,
    /// Published checksum.
    pub checksum: Checksum,
}

/// A file to download.
#[derive(Debug, Clone, Copy)]
pub struct Download {
    /// Its name, the last part of its address: that of a tar archive of all files of the set,
    /// compressed with gzip (`.tar.gz`), or of one of them, compressed with gzip (`.gz`).
    pub name: &'static str,
}

impl Download {
    const fn new(name: &'static str) -> Self {
        Self { name }
    }

    /// Returns the name of the one file that it holds; none of an archive.
    pub(crate) fn single(self) -> Option<&'static str> {
        let name = self.name.strip_suffix(".gz")?;
        (!name.ends_with(".tar")).then_some(name)
    }
}

/// Origin of a set.
#[derive(Debug, Clone, Copy)]
pub enum Origin {
    /// A set that published accuracies refer to.
    Published {
        /// Address from which the files can be downloaded.
        url: &'static str,
        /// Addresses of the directories that hold the downloads; the first that answers
        /// with the right files counts.
        mirrors: &'static [&'static str],
        /// What is downloaded.
        downloads: &'static [Download],
        /// Training samples.
        train: usize,
        /// Test samples.
        test: usize,
        /// Files of the set.
        files: &'static [PublishedFile],
    },
    /// A set made by this crate; accuracies on it compare only with each other.
    Generated {
        /// Default specification.
        default: Generate,
    },
}

/// Entry of the table of datasets.
#[derive(Debug, Clone, Copy)]
pub struct DatasetInfo {
    /// Name in experiments.
    pub name: &'static str,
    /// Description in one line.
    pub description: &'static str,
    /// Number of classes; labels are below it.
    pub classes: u8,
    /// The shape of an image.
    pub format: RecordFormat,
    /// File format.
    pub layout: Layout,
    /// Mean of each channel over the training split, pixels scaled to `[0, 1]`: inputs of models are
    /// centred by it.
    pub pixel_mean: &'static [f32],
    /// Standard deviation of each channel, by which inputs of models are scaled.
    pub pixel_deviation: &'static [f32],
    /// Origin.
    pub origin: Origin,
}

impl DatasetInfo {
    /// Returns whether accuracies on this set may be compared with published ones.
    #[must_use]
    pub const fn published(&self) -> bool {
        matches!(self.origin, Origin::Published { .. })
    }
}

const CIFAR_FORMAT: RecordFormat = RecordFormat {
    channels: 3,
    height: 32,
    width: 32,
};

const MNIST_FORMAT: RecordFormat = RecordFormat {
    channels: 1,
    height: 28,
    width: 28,
};

/// Every dataset that an experiment can name.
pub static DATASETS: &[DatasetInfo] = &[
    DatasetInfo {
        name: "cifar10",
        description: "CIFAR-10, binary version (Krizhevsky 2009)",
        classes: 10,
        format: CIFAR_FORMAT,
        layout: Layout::CifarBinary,
        // The constants of LambdaML's code.
        pixel_mean: &[0.4914, 0.4822, 0.4465],
        pixel_deviation: &[0.2023, 0.1994, 0.2010],
        origin: Origin::Published {
            url: "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            mirrors: &["https://www.cs.toronto.edu/~kriz/"],
            downloads: &[Download::new("cifar-10-binary.tar.gz")],
            train: 50_000,
            test: 10_000,
            files: &CIFAR10_FILES,
        },
    },
    DatasetInfo {
        name: "mnist",
        description: "MNIST handwritten digits (LeCun et al. 1998)",
        classes: 10,
        format: MNIST_FORMAT,
        layout: Layout::Idx,
        pixel_mean: &[0.1307],
        pixel_deviation: &[0.3081],
        origin: Origin::Published {
            url: "https://storage.googleapis.com/cvdf-datasets/mnist/",
            mirrors: &[
                "https://storage.googleapis.com/cvdf-datasets/mnist/",
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
            ],
            downloads: &MNIST_DOWNLOADS,
            train: 60_000,
            test: 10_000,
            files: &MNIST_FILES,
        },
    },
    DatasetInfo {
        name: "synthetic-cifar10",
        description: "ten generated glyphs in colour, in CIFAR-10's format",
        classes: 10,
        format: CIFAR_FORMAT,
        layout: Layout::CifarBinary,
        pixel_mean: &[0.511, 0.512, 0.510],
        pixel_deviation: &[0.162, 0.162, 0.162],
        origin: Origin::Generated {
            default: Generate {
                train: 5_000,
                test: 1_000,
                seed: 1,
            },
        },
    },
    DatasetInfo {
        name: "synthetic-mnist",
        description: "ten generated glyphs in grey, in MNIST's format",
        classes: 10,
        format: MNIST_FORMAT,
        layout: Layout::Idx,
        pixel_mean: &[0.514],
        pixel_deviation: &[0.159],
        origin: Origin::Generated {
            default: Generate {
                train: 8_192,
                test: 2_000,
                seed: 1,
            },
        },
    },
];

/// Sizes from the dataset's page; SHA-1 as in Apache MXNet's
/// `gluon.data.vision.CIFAR10`. No checksum by the authors names single files
/// (theirs is the archive's MD5, c32a1d4ab5d03f1284b67883e8d87530).
static CIFAR10_FILES: [PublishedFile; 6] = [
    cifar10_file(
        "data_batch_1.bin",
        "aadd24acce27caa71bf4b10992e9e7b2d74c2540",
    ),
    cifar10_file(
        "data_batch_2.bin",
        "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795",
    ),
    cifar10_file(
        "data_batch_3.bin",
        "1dd00a74ab1d17a6e7d73e185b69dbf31242f295",
    ),
    cifar10_file(
        "data_batch_4.bin",
        "aab85764eb3584312d3c7f65fd2fd016e36a258e",
    ),
    cifar10_file(
        "data_batch_5.bin",
        "26e2849e66a845b7f1e4614ae70f4889ae604628",
    ),
    cifar10_file("test_batch.bin", "67eb016db431130d61cd03c7ad570b013799c88c"),
];

const fn cifar10_file(name: &'static str, sha1: &'static str) -> PublishedFile {
    PublishedFile {
        name,
        size_bytes: 30_730_000,
        checksum: Checksum::Sha1(Cow::Borrowed(sha1)),
    }
}

static MNIST_DOWNLOADS: [Download; 4] = [
    Download::new("train-images-idx3-ubyte.gz"),
    Download::new("train-labels-idx1-ubyte.gz"),
    Download::new("t10k-images-idx3-ubyte.gz"),
    Download::new("t10k-labels-idx1-ubyte.gz"),
];

/// SHA-256 of the unpacked files, on which many independent listings agree.
static MNIST_FILES: [PublishedFile; 4] = [
    mnist_file(
        "train-images-idx3-ubyte",
        47_040_016,
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    ),
    mnist_file(
        "train-labels-idx1-ubyte",
        60_008,
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    ),
    mnist_file(
        "t10k-images-idx3-ubyte",
        7_840_016,
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    ),
    mnist_file(
        "t10k-labels-idx1-ubyte",
        10_008,
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
];

const fn mnist_file(name: &'static str, size_bytes: u64, sha256: &'static str) -> PublishedFile {
    PublishedFile {
        name,
        size_bytes,
        checksum: Checksum::Sha256(Cow::Borrowed(sha256)),
    }
}

/// Returns the dataset of that name.
///
/// # Errors
/// [`DatasetError::Unknown`] with the known names.
pub fn find(name: &str) -> Result<&'static DatasetInfo, DatasetError> {
    DATASETS
        .iter()
        .find(|info| info.name == name)
        .ok_or_else(|| DatasetError::Unknown {
            name: name.to_owned(),
            known: DATASETS
                .iter()
                .map(|info| info.name)
                .collect::<Vec<_>>()
                .join(", "),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_consistent() {
        for info in DATASETS {
            assert_eq!(find(info.name).unwrap().name, info.name);
            assert_eq!(info.pixel_mean.len(), info.format.channels);
            assert_eq!(info.pixel_deviation.len(), info.format.channels);
            assert_eq!(info.name.starts_with("synthetic-"), !info.published());
        }
    }

    #[test]
    fn published_files_are_each_in_one_download_and_of_the_size_of_their_format() {
        for info in DATASETS {
            let Origin::Published {
                mirrors,
                downloads,
                files,
                train,
                test,
                ..
            } = info.origin
            else {
                continue;
            };
            for file in files {
                let holds = |download: &&Download| {
                    download.single().is_none_or(|single| single == file.name)
                };
                assert_eq!(downloads.iter().filter(holds).count(), 1);
            }
            assert!(mirrors.iter().all(|mirror| mirror.ends_with('/')));
            let listed = files.iter().map(|file| (file.name, file.size_bytes));
            let expected = info.layout.files(info.format, train, test);
            assert_eq!(listed.collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let message = find("imagenet").unwrap_err().to_string();
        assert!(message.contains("imagenet") && message.contains("synthetic-mnist"));
    }
}
