//! Records of a data set as the images and labels of a training step.
//!
//! A record is one byte of label and then one byte a pixel, channel by channel,
//! row by row: CIFAR-10's own binary record, and MNIST's in the same manner.

use epochcost_datasets::DatasetInfo;
use epochcost_kernels::hash::mix;

use crate::ModelError;

/// Pixels that a crop may move an image by, in each direction.
const CROP_PADDING: usize = 4;

/// Returns the normalised images `[records, channels, height, width]` and the labels of
/// whole records of a dataset.
///
/// `augment` is the seed of a random crop (the image in four black pixels on each
/// side) and, in half of the images, a horizontal flip, drawn from the hash of the
/// seed and the record's position: pass another seed for each batch. Only colour
/// images are augmented; a flipped digit is another digit.
///
/// # Errors
/// [`ModelError::Records`] where the bytes are not a whole number of records.
pub fn decode(
    records: &[u8],
    dataset: &DatasetInfo,
    augment: Option<u64>,
) -> Result<(Vec<f32>, Vec<u8>), ModelError> {
    let format = dataset.format;
    if !records.len().is_multiple_of(format.record_bytes()) {
        return Err(ModelError::Records {
            format: dataset.name,
            record_bytes: format.record_bytes(),
            actual: records.len(),
        });
    }
    let channels = dataset.pixel_mean.iter().zip(dataset.pixel_deviation);
    let tables: Vec<_> = channels
        .map(|(&mean, &deviation)| table(mean, deviation))
        .collect();
    let augment = augment.filter(|_| format.channels == 3);
    let mut images = Vec::with_capacity(records.len());
    let mut labels = Vec::with_capacity(records.len() / format.record_bytes());
    for (index, record) in records.chunks_exact(format.record_bytes()).enumerate() {
        let (label, pixels) = record.split_at(1);
        labels.extend_from_slice(label);
        let view = augment.map_or(View::WHOLE, |seed| View::draw(mix(seed, index as u64)));
        let planes = pixels.chunks_exact(format.height * format.width);
        for (plane, table) in planes.zip(&tables) {
            view.append(plane, [format.height, format.width], table, &mut images);
        }
    }
    Ok((images, labels))
}

/// Returns the normalised value of each pixel value of a channel.
fn table(mean: f32, deviation: f32) -> [f32; 256] {
    std::array::from_fn(|pixel| (pixel as f32 / 255.0 - mean) / deviation)
}

/// Visible part of a padded image, and whether it is mirrored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct View {
    /// Top and left of the crop in the padded image: [`CROP_PADDING`] is the middle.
    top: usize,
    left: usize,
    flipped: bool,
}

impl View {
    const WHOLE: Self = Self {
        top: CROP_PADDING,
        left: CROP_PADDING,
        flipped: false,
    };

    /// Offsets from the hash's two lowest 16 bits, the flip from its highest.
    fn draw(hash: u64) -> Self {
        let offset = |bits: u64| (((bits & 0xFFFF) as usize) * (2 * CROP_PADDING + 1)) >> 16;
        Self {
            top: offset(hash),
            left: offset(hash >> 16),
            flipped: hash >> 63 == 1,
        }
    }

    fn append(
        self,
        plane: &[u8],
        [height, width]: [usize; 2],
        table: &[f32; 256],
        out: &mut Vec<f32>,
    ) {
        for y in 0..height {
            let row = (y + self.top)
                .checked_sub(CROP_PADDING)
                .filter(|&row| row < height)
                .map(|row| &plane[row * width..][..width]);
            out.extend((0..width).map(|x| {
                let x = if self.flipped { width - 1 - x } else { x };
                let column = (x + self.left).checked_sub(CROP_PADDING);
                let pixel = row.zip(column).and_then(|(row, x)| row.get(x));
                table[usize::from(pixel.copied().unwrap_or(0))]
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dataset(name: &str) -> &'static DatasetInfo {
        epochcost_datasets::find(name).unwrap()
    }

    fn records(dataset: &DatasetInfo, count: usize) -> Vec<u8> {
        let record_bytes = dataset.format.record_bytes();
        let mut bytes: Vec<u8> = (0..count * record_bytes)
            .map(|index| mix(11, index as u64) as u8)
            .collect();
        for record in bytes.chunks_exact_mut(record_bytes) {
            record[0] %= dataset.classes;
        }
        bytes
    }

    #[test]
    fn pixels_are_normalised_by_channel() {
        let cifar10 = dataset("cifar10");
        let mut record = vec![0; 3073];
        record[0] = 7;
        record[1 + 1024 + 33] = 255;
        let (images, labels) = decode(&record, cifar10, None).unwrap();
        assert_eq!(labels, [7]);
        assert_eq!(images.len(), 3072);
        assert_eq!(images[0], -0.4914 / 0.2023);
        assert_eq!(images[1024 + 33], (1.0 - 0.4822) / 0.1994);
        assert_eq!(images[2048], -0.4465 / 0.2010);
    }

    #[test]
    fn a_set_is_normalised_by_its_own_statistics() {
        for (name, pixel) in [
            ("mnist", (1.0 - 0.1307) / 0.3081),
            ("synthetic-mnist", (1.0 - 0.514) / 0.159),
        ] {
            let (images, labels) = decode(&[255; 2 * 785], dataset(name), None).unwrap();
            assert_eq!(images, [pixel; 2 * 784], "{name}");
            assert_eq!(labels, [255; 2], "{name}");
        }
    }

    #[test]
    fn digits_are_never_augmented() {
        let mnist = dataset("mnist");
        let records = records(mnist, 4);
        let plain = decode(&records, mnist, None).unwrap();
        assert_eq!(decode(&records, mnist, Some(3)).unwrap(), plain);
    }

    #[test]
    fn augmentation_depends_on_its_seed_alone() {
        let cifar10 = dataset("cifar10");
        let records = records(cifar10, 16);
        let decoded = |seed| decode(&records, cifar10, seed).unwrap();
        assert_eq!(decoded(Some(1)), decoded(Some(1)));
        assert_ne!(decoded(Some(1)).0, decoded(Some(2)).0);
        assert_ne!(decoded(Some(1)).0, decoded(None).0);
        assert_eq!(decoded(Some(1)).1, decoded(None).1);
    }

    #[test]
    fn an_augmented_image_is_a_shifted_and_perhaps_mirrored_one() {
        let cifar10 = dataset("cifar10");
        let records = records(cifar10, 200);
        let plain = decode(&records, cifar10, None).unwrap().0;
        let augmented = decode(&records, cifar10, Some(5)).unwrap().0;
        let mut views = vec![];
        for (index, (plain, augmented)) in plain
            .chunks_exact(3072)
            .zip(augmented.chunks_exact(3072))
            .enumerate()
        {
            let view = View::draw(mix(5, index as u64));
            views.push(view);
            for (y, x) in [(8, 8), (16, 9), (23, 23)] {
                let column = if view.flipped { 31 - x } else { x };
                let source = (y + view.top - 4) * 32 + column + view.left - 4;
                assert_eq!(augmented[y * 32 + x], plain[source]);
            }
        }
        for offset in 0..=8 {
            assert!(views.iter().any(|view| view.top == offset));
            assert!(views.iter().any(|view| view.left == offset));
        }
        let flips = views.iter().filter(|view| view.flipped).count();
        assert!((60..140).contains(&flips), "{flips} of 200 flipped");
    }

    #[test]
    fn the_margin_of_a_crop_is_black() {
        let white = vec![255; 3073];
        let mut plane = vec![];
        let view = View {
            top: 0,
            left: 8,
            flipped: false,
        };
        let table = table(0.0, 1.0);
        view.append(&white[..1024], [32, 32], &table, &mut plane);
        let black = plane.iter().filter(|&&value| value == 0.0).count();
        assert_eq!(black, 1024 - 28 * 28);
        assert_eq!(plane[4 * 32 + 27], 1.0);
        assert_eq!(plane[4 * 32 + 28], 0.0);
    }

    #[test]
    fn a_torn_record_is_refused() {
        let error = decode(&[0; 3074], dataset("cifar10"), None).unwrap_err();
        assert!(matches!(error, ModelError::Records { actual: 3074, .. }));
    }
}
