//! Figures as PNG, drawn by a program of this machine.
//!
//! Nothing of this program draws pixels: a renderer with its fonts would add some thirty
//! packages to every build (docs/adr/0045-png-by-a-program-of-the-machine.md).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::chain::chain;

/// Pixels of the picture for each of the figure: 300 an inch in a column of 8 inches.
const SCALE: u32 = 3;

/// Arguments that draw an SVG of a width and a height into a PNG.
type Arguments = fn(&Path, &Path, [u32; 2]) -> Vec<OsString>;

/// Programs that draw, the quickest first.
const PROGRAMS: [(&str, Arguments); 6] = [
    ("rsvg-convert", by_rsvg),
    ("inkscape", by_inkscape),
    ("chromium", by_browser),
    ("chromium-browser", by_browser),
    ("google-chrome", by_browser),
    ("chrome", by_browser),
];

/// How to get one of them.
pub const REMEDY: &str = "apt-get install librsvg2-bin, or inkscape or chromium; without, \
     the page's own button saves each figure as PNG";

/// A program of this machine that draws SVG.
#[derive(Clone, Debug)]
pub struct Renderer {
    program: PathBuf,
    arguments: Arguments,
}

impl Renderer {
    /// Returns the first of the known programs on the path.
    pub fn find() -> Option<Self> {
        let paths = std::env::var_os("PATH")?;
        PROGRAMS.into_iter().find_map(|(name, arguments)| {
            let mut places = std::env::split_paths(&paths).map(|directory| directory.join(name));
            let program = places.find(|program| program.is_file())?;
            Some(Self { program, arguments })
        })
    }

    /// Draws a file of a width and a height, pixels.
    ///
    /// # Errors
    /// What the program said, if it drew nothing.
    pub(super) fn draw(&self, svg: &Path, png: &Path, size: [u32; 2]) -> Result<(), String> {
        let name = self.program.display();
        let ended = Command::new(&self.program)
            .args((self.arguments)(svg, png, size))
            .output()
            .map_err(|error| format!("{name}: {}", chain(&error)))?;
        if ended.status.success() && png.is_file() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&ended.stderr);
        let last = said.lines().rfind(|line| !line.trim().is_empty());
        Err(format!(
            "{name} ended with {}: {}",
            ended.status,
            last.unwrap_or("it said nothing")
        ))
    }
}

fn by_rsvg(svg: &Path, png: &Path, _: [u32; 2]) -> Vec<OsString> {
    let zoom = SCALE.to_string();
    let mut arguments: Vec<OsString> = ["--zoom", zoom.as_str(), "--output"]
        .map(OsString::from)
        .into();
    arguments.extend([png.into(), svg.into()]);
    arguments
}

fn by_inkscape(svg: &Path, png: &Path, [width, _]: [u32; 2]) -> Vec<OsString> {
    let width = format!("--export-width={}", SCALE * width);
    let mut output = OsString::from("--export-filename=");
    output.push(png);
    vec!["--export-type=png".into(), width.into(), output, svg.into()]
}

fn by_browser(svg: &Path, png: &Path, [width, height]: [u32; 2]) -> Vec<OsString> {
    let mut output = OsString::from("--screenshot=");
    output.push(png);
    let mut address = OsString::from("file://");
    address.push(svg);
    let fixed = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
    ];
    let mut arguments: Vec<OsString> = fixed.map(OsString::from).into();
    arguments.extend([
        format!("--force-device-scale-factor={SCALE}").into(),
        format!("--window-size={width},{height}").into(),
        output,
        address,
    ]);
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_gets_both_files_and_the_size() {
        let (svg, png) = (Path::new("/a/in.svg"), Path::new("/a/out.png"));
        for (name, arguments) in PROGRAMS {
            let given = arguments(svg, png, [860, 400]);
            let given: Vec<&str> = given.iter().filter_map(|one| one.to_str()).collect();
            let line = given.join(" ");
            assert!(
                line.contains("/a/in.svg") && line.contains("/a/out.png"),
                "{name}: {line}"
            );
            assert!(
                line.contains('3') || line.contains("2580"),
                "{name}: {line}"
            );
        }
    }

    /// A stand-in that fails says why; one that draws nothing is a failure, too.
    #[test]
    fn a_program_that_draws_nothing_is_an_error_with_what_it_said() {
        let directory = tempfile::tempdir().unwrap();
        let png = directory.path().join("out.png");
        let draw = |arguments: Arguments| {
            let renderer = Renderer {
                program: "/bin/sh".into(),
                arguments,
            };
            renderer.draw(Path::new("in.svg"), &png, [1, 1])
        };
        let failed = draw(|_, _, _| vec!["-c".into(), "echo broken >&2; exit 4".into()]);
        let failed = failed.unwrap_err();
        assert!(
            failed.contains("broken") && failed.contains('4'),
            "{failed}"
        );
        let nothing = draw(|_, _, _| vec!["-c".into(), "exit 0".into()]);
        assert!(nothing.unwrap_err().contains("said nothing"));
        draw(|_, png, _| vec!["-c".into(), "echo > \"$0\"".into(), png.into()]).unwrap();
    }
}
