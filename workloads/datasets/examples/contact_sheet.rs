//! Writes the first samples of a dataset as one picture, with one row per class.
//!
//! ```text
//! cargo run --release -p epochcost-datasets --example contact_sheet -- \
//!     synthetic-mnist data/synthetic-mnist sheet.pgm [COLUMNS]
//! ```
//!
//! A generated set that is not there is made in its default size. The picture
//! is binary PGM for grey and PPM for colour, which most viewers open.

use std::error::Error;
use std::path::Path;

use epochcost_datasets::{Origin, Split, ensure, find, open};

const USAGE: &str = "usage: contact_sheet DATASET DIRECTORY PICTURE [COLUMNS]";
/// Blank pixels around each image.
const MARGIN: usize = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .skip(1)
        .collect();
    let [name, dir, picture, rest @ ..] = arguments.as_slice() else {
        return Err(USAGE.into());
    };
    let columns = rest.first().map_or(Ok(20), |text| text.parse())?;
    let dir = Path::new(dir);
    let info = find(name)?;
    if let Origin::Generated { default } = info.origin {
        ensure(name, dir, default)?;
    }
    let dataset = open(name, dir)?;
    let sheet = Sheet::new(&dataset.train, info.classes, columns);
    std::fs::write(picture, sheet.encode())?;
    eprintln!("{picture}: {} {}", info.name, dataset.sha256);
    Ok(())
}

/// Pixels in row-major order, channels innermost.
struct Sheet {
    channels: usize,
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl Sheet {
    /// Returns a picture with one row per class: its first `columns` samples.
    fn new(split: &Split, classes: u8, columns: usize) -> Self {
        let format = split.format();
        let cell = (format.width + MARGIN, format.height + MARGIN);
        let (width, height) = (columns * cell.0, usize::from(classes) * cell.1);
        let mut sheet = Self {
            channels: format.channels,
            width,
            height,
            pixels: vec![128; width * height * format.channels],
        };
        for class in 0..classes {
            let samples = (0..split.samples()).filter(|&index| split.label(index) == class);
            for (column, index) in samples.take(columns).enumerate() {
                let corner = (column * cell.0, usize::from(class) * cell.1);
                sheet.paste(split, index, corner);
            }
        }
        sheet
    }

    fn paste(&mut self, split: &Split, index: usize, (left, top): (usize, usize)) {
        let format = split.format();
        for (position, &byte) in split.pixels(index).iter().enumerate() {
            let column = position % format.width;
            let row = position / format.width % format.height;
            let channel = position / (format.width * format.height);
            let target = (top + row) * self.width + left + column;
            self.pixels[target * self.channels + channel] = byte;
        }
    }

    fn encode(self) -> Vec<u8> {
        let kind = if self.channels == 1 { "P5" } else { "P6" };
        let mut bytes = format!("{kind}\n{} {}\n255\n", self.width, self.height).into_bytes();
        bytes.extend(self.pixels);
        bytes
    }
}
