//! Figures that are saved from a page, and those that `report --figures` writes.

use std::fs;
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::chromium::{Browser, start};
use super::pages::{MEASURED, PLANNED, Page, SIMULATED, kept};
use crate::support::Scene;

/// Presses the button of that name below a figure; the file's name and its address.
fn saved(browser: &mut Browser, figure: &str, kind: &str) -> [String; 2] {
    let found = browser.value(&format!(
        "(async () => {{
          const asked = new Promise((go) => {{
            HTMLAnchorElement.prototype.click = function () {{ go([this.download, this.href]); }};
          }});
          const buttons = [...document.querySelectorAll('figure[data-figure=\"{figure}\"] .save button')];
          buttons.find((button) => button.textContent === '{kind}').click();
          const found = await asked;
          delete HTMLAnchorElement.prototype.click;
          return found;
        }})()"
    ));
    [0, 1].map(|place| found[place].as_str().unwrap().to_owned())
}

/// Every shape of a chart: its place, or the words of a text with theirs, and its look.
const SHAPES: &str = "((svg) => [...svg.querySelectorAll('text, path, rect, line, circle')]
  .filter((e) => e.getAttribute('width') !== '100%')
  // A file has the outline of a text as a second text before it.
  .filter((e) => e.nextElementSibling?.tagName !== 'text' || e.tagName !== 'text'
    || ['x', 'y'].some((at) => e.nextElementSibling.getAttribute(at) !== e.getAttribute(at))
    || e.nextElementSibling.textContent !== e.textContent)
  .map((e) => {
    const look = getComputedStyle(e);
    const box = e.tagName === 'text' ? null : e.getBBox();
    const place = box ? [box.x, box.y, box.width, box.height]
      : [e.getAttribute('x'), e.getAttribute('y'), e.textContent, look.fontSize, look.fontWeight];
    const outline = box ? [look.stroke, look.strokeWidth, look.strokeDasharray] : [];
    return [e.tagName, ...place, look.fill, ...outline, look.opacity, look.fillOpacity];
  }))";

/// The shapes of a figure of the page.
fn on_page(browser: &mut Browser, figure: &str) -> Value {
    let chart = format!("document.querySelector('figure[data-figure=\"{figure}\"] svg.for-wide')");
    browser.value(&format!("{SHAPES}({chart})"))
}

/// The shapes of a file that is one image.
fn alone(browser: &mut Browser, file: &Path) -> Value {
    browser.open(&format!("file://{}", file.display()));
    browser.value(&format!("{SHAPES}(document.documentElement)"))
}

/// An SVG that was saved was once shown as a tree of XML, without colours.
#[test]
fn a_saved_figure_opens_alone_and_looks_the_same() {
    let Some(mut browser) = start() else { return };
    browser.prefer("light", "screen");
    let figures: [(&Page, &[&str]); 3] = [
        (&MEASURED, &["time-cost", "stages", "accuracy"]),
        (&SIMULATED, &["time-cost", "costs"]),
        (&PLANNED, &["time-cost", "stages"]),
    ];
    for (page, figures) in figures {
        for figure in figures {
            browser.open_at(1400, &page.url);
            let shown = on_page(&mut browser, figure);
            assert!(shown.as_array().unwrap().len() > 10, "{figure}");
            let [name, address] = saved(&mut browser, figure, "SVG");
            assert_eq!(name, format!("{figure}.svg"));
            let (head, text) = address.split_once(',').unwrap();
            assert!(head.starts_with("data:image/svg+xml"), "{head}");
            let file = kept(&format!("saved-{}-{figure}.svg", page.name()));
            let text: Vec<u8> = percent_decode_str(text).collect();
            fs::write(&file, text).unwrap();
            let drawn = alone(&mut browser, &file);
            assert_eq!(drawn, shown, "{} {figure}", page.name());
            browser.picture(&file.with_extension("png"));
        }
    }
}

#[test]
fn a_written_figure_looks_like_that_of_the_page() {
    let Some(mut browser) = start() else { return };
    browser.prefer("light", "screen");
    for page in [&MEASURED, &SIMULATED] {
        let out = kept(&format!("figures-{}", page.name()));
        let _ = fs::remove_dir_all(&out);
        let (run, figures) = (page.directory.display(), out.display());
        let ended = Scene::empty().run(&format!("report {run} --figures {figures}"));
        // A trial of the fixture failed.
        let code = ended.output.status.code();
        assert!(matches!(code, Some(0 | 3)), "{}", ended.message());
        for figure in ["time-cost", "stages", "bytes"] {
            browser.open_at(1400, &page.url);
            let shown = on_page(&mut browser, figure);
            let [name, address] = saved(&mut browser, figure, "CSV");
            assert_eq!(name, format!("{figure}.csv"));
            let (_, text) = address.split_once(',').unwrap();
            let text = percent_decode_str(text).decode_utf8().unwrap();
            assert_eq!(text, fs::read_to_string(out.join(&name)).unwrap());
            let file = out.join(format!("{figure}.svg"));
            let drawn = alone(&mut browser, &file);
            assert_eq!(drawn, shown, "{} {figure}", page.name());
        }
    }
}

#[test]
fn a_figure_is_saved_as_pixels() {
    let Some(mut browser) = start() else { return };
    browser.prefer("light", "screen");
    browser.open_at(1400, &MEASURED.url);
    let size = browser.value(
        "document.querySelector('figure[data-figure=time-cost] svg.for-wide').getAttribute('viewBox')",
    );
    let size = size.as_str().unwrap().split(' ').skip(2);
    let size: Vec<f64> = size.map(|number| number.parse().unwrap()).collect();
    let [name, address] = saved(&mut browser, "time-cost", "PNG");
    assert_eq!(name, "time-cost.png");
    let data = address.strip_prefix("data:image/png;base64,").unwrap();
    let bytes = BASE64_STANDARD.decode(data).unwrap();
    fs::write(kept("saved-time-cost-by-button.png"), &bytes).unwrap();
    assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n"));
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    for (pixels, size) in [16, 20].map(number).into_iter().zip(size) {
        let is_scaled = (f64::from(pixels) - 3.0 * size).abs() <= 3.0;
        assert!(is_scaled, "{pixels} {size}");
    }
    // The systems' colours are among its pixels.
    let colours = browser.value(&format!(
        "(async () => {{ const picture = new Image(); picture.src = {address:?}; await picture.decode();
          const canvas = document.createElement('canvas');
          canvas.width = picture.naturalWidth; canvas.height = picture.naturalHeight;
          const context = canvas.getContext('2d'); context.drawImage(picture, 0, 0);
          const all = context.getImageData(0, 0, canvas.width, canvas.height).data;
          const found = new Map();
          for (let i = 0; i < all.length; i += 4) {{ const c = `rgb(${{all[i]}}, ${{all[i + 1]}}, ${{all[i + 2]}})`; found.set(c, (found.get(c) ?? 0) + 1); }}
          return [...found].filter(([, count]) => count > 100).map(([colour]) => colour); }})()"
    ));
    let colours = colours.as_array().unwrap();
    let wanted = browser.value(
        "[...new Set([...document.querySelectorAll('figure[data-figure=time-cost] svg.for-wide .point')].map((e) => getComputedStyle(e).fill))].filter((c) => c !== 'none')",
    );
    let wanted = wanted.as_array().unwrap();
    // Marks that others cover are not seen.
    let seen = wanted.iter().filter(|colour| colours.contains(colour));
    assert!(seen.count() >= 2, "{wanted:?} in {colours:?}");
    let canvases = browser.value("document.querySelectorAll('canvas').length");
    assert_eq!(canvases, 0);
}
