//! Numbers as people read them.

use crate::claims::{Estimate, Format};
use crate::ui;

/// What stands where a figure is unknown.
pub const UNKNOWN: &str = "–";

/// No line of text on a terminal is longer, where it can be broken.
pub const COLUMNS: usize = 100;

/// Returns a number to four significant digits, which is more than measurements of steps have.
pub fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

/// Returns a number with three significant digits and separated thousands.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return UNKNOWN.into();
    }
    if value == 0.0 {
        return "0".into();
    }
    if value.abs() < 1e-5 {
        return format!("{value:.2e}");
    }
    let decimals = (2.0 - value.abs().log10().floor()).clamp(0.0, 12.0) as usize;
    let text = format!("{value:.decimals$}");
    match text.split_once('.') {
        Some((whole, fraction)) => format!("{}.{fraction}", thousands(whole)),
        None => thousands(&text),
    }
}

/// Returns a memory size of so many MB.
pub fn megabytes(mb: f64) -> String {
    format!("{} MB", thousands(&format!("{mb:.0}")))
}

/// Returns a count: whole if it is, else with three significant digits or more.
pub fn count(value: f64) -> String {
    if value.fract() == 0.0 {
        thousands(&format!("{value:.0}"))
    } else {
        number(value)
    }
}

/// Returns a stated number with all of its digits.
pub fn exact(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-4 {
        format!("{value:e}")
    } else if value.fract() == 0.0 {
        thousands(&format!("{value:.0}"))
    } else {
        value.to_string()
    }
}

fn thousands(digits: &str) -> String {
    let (sign, digits) = digits.split_at(usize::from(digits.starts_with('-')));
    let mut text = String::from(sign);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// US dollars.
pub fn usd(value: f64) -> String {
    format!("${}", number(value))
}

/// Returns seconds, or milliseconds below a tenth of one.
pub fn seconds(value: f64) -> String {
    if value != 0.0 && value.abs() < 0.1 {
        format!("{} ms", number(value * 1e3))
    } else {
        format!("{} s", number(value))
    }
}

/// Returns seconds in the unit that people say them in.
pub fn duration(seconds: f64) -> String {
    let (scale, unit) = match seconds {
        s if s < 120.0 => (1.0, "s"),
        s if s < 7_200.0 => (60.0, "min"),
        s if s < 172_800.0 => (3_600.0, "h"),
        _ => (86_400.0, "days"),
    };
    format!("{} {unit}", number(seconds / scale))
}

/// Returns bytes in the decimal unit that suits their size.
pub fn bytes(value: f64) -> String {
    match byte_unit(value.abs()) {
        (_, "B") => format!("{} B", count(value)),
        (scale, unit) => format!("{} {unit}", number(value / scale)),
    }
}

/// Returns bytes in the decimal unit that suits their size, with the decimals of
/// that unit, so that the numbers of a column line up.
pub fn bytes_in_column(count: u64) -> String {
    let value = count as f64;
    match byte_unit(value) {
        (_, "B") => format!("{count} B"),
        (scale, unit @ "GB") => format!("{:.2} {unit}", value / scale),
        (scale, unit) => format!("{:.1} {unit}", value / scale),
    }
}

/// Returns the decimal unit that suits a size, with the bytes in it.
fn byte_unit(size: f64) -> (f64, &'static str) {
    match size {
        size if size < 1e3 => (1.0, "B"),
        size if size < 1e6 => (1e3, "kB"),
        size if size < 1e9 => (1e6, "MB"),
        _ => (1e9, "GB"),
    }
}

/// Returns a share in percent.
pub fn percent(value: f64) -> String {
    format!("{:.1} %", value * 100.0)
}

/// Returns an accuracy to be reached, in percent without needless digits.
pub fn goal(value: f64) -> String {
    percent(value).replace(".0 %", " %")
}

/// Returns yes, no, or the sign for an unknown value.
pub fn yes(value: Option<bool>) -> String {
    let word = value.map_or(UNKNOWN, |yes| if yes { "yes" } else { "no" });
    word.into()
}

/// Returns a value, or the sign for an unknown one.
pub fn or_unknown(value: Option<f64>, format: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| UNKNOWN.into(), format)
}

/// Returns a mean with half its interval: `12.3 ± 0.4`; with both ends where
/// the mean is not in the middle: `12.3 (11.9 to 14.0)`.
pub fn estimate(estimate: Estimate) -> String {
    let Some(mean) = estimate.mean else {
        return UNKNOWN.into();
    };
    let (Some([low, high]), Some(half)) = (estimate.ci95, estimate.half_width()) else {
        return number(mean);
    };
    let is_centred = (f64::midpoint(low, high) - mean).abs() <= 1e-6 * mean.abs();
    if is_centred {
        format!("{} ± {}", number(mean), number_like(half))
    } else {
        format!("{} ({} to {})", number(mean), number(low), number(high))
    }
}

/// Returns a metric's mean, written as its column asks.
pub fn figure(value: Estimate, format: Format) -> String {
    let mean = |format: fn(f64) -> String| or_unknown(value.mean, format);
    match format {
        Format::Number => mean(number),
        Format::Megabytes => mean(megabytes),
        Format::Bytes => mean(bytes),
        Format::Percent => mean(percent),
    }
}

/// Returns text broken at spaces, but not before a percent sign; `first` stands
/// before the first line, as many spaces before the others.
pub fn wrapped(first: &str, text: &str) -> String {
    let columns = ui::columns().map_or(COLUMNS, |terminal| terminal.min(COLUMNS));
    let indent = " ".repeat(first.chars().count());
    let mut lines: Vec<String> = Vec::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in text.replace(" %", "\u{a0}%").split(' ') {
        let word = word.replace('\u{a0}', " ");
        let width = line.chars().count() + 1 + word.chars().count();
        if !is_empty && width > columns {
            lines.push(std::mem::replace(&mut line, indent.clone()));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(&word);
        is_empty = false;
    }
    lines.push(line);
    lines.join("\n")
}

/// Returns half an interval, which needs no more than two digits.
fn number_like(half: f64) -> String {
    if half == 0.0 {
        return "0".into();
    }
    let decimals = (1.0 - half.abs().log10().floor()).clamp(0.0, 12.0) as usize;
    format!("{half:.decimals$}")
}

/// Returns a word as a shell reads it: in quotes, if it holds anything that a shell reads
/// differently.
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns a command line as a shell reads it.
pub fn shell_words(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
    words.join(" ")
}

/// Returns lower-case letters and digits, with one hyphen for everything between them.
pub fn slug(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join("-").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_broken_under_its_beginning() {
        let text = wrapped("- ", &"word ".repeat(30));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].starts_with("- word") && lines[1].starts_with("  word"));
        assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS));
        let percent = format!("{} 5 %", "x".repeat(97));
        assert!(wrapped("", &percent).ends_with("\n5 %"));
    }

    #[test]
    fn numbers_keep_three_digits() {
        let texts = [0.0, 1.0, 12.345, 0.000_442_1, 1234.5, 12_868_904.0, -0.05].map(number);
        let expected = "0 1.00 12.3 0.000442 1,234 12,868,904 -0.0500";
        assert_eq!(texts.join(" "), expected);
        assert_eq!(number(7.29e-8), "7.29e-8");
        assert_eq!(number(f64::NAN), UNKNOWN);
    }

    #[test]
    fn units_follow_the_size() {
        assert_eq!(seconds(0.0123), "12.3 ms");
        assert_eq!(seconds(92.0), "92.0 s");
        assert_eq!(bytes(167_295_752.0), "167 MB");
        assert_eq!(bytes(12.0), "12 B");
        assert_eq!(bytes_in_column(999), "999 B");
        assert_eq!(bytes_in_column(12_868_904), "12.9 MB");
        assert_eq!(bytes_in_column(1_286_890_400), "1.29 GB");
        assert_eq!(count(20.0), "20");
        assert_eq!(percent(0.8321), "83.2 %");
    }

    #[test]
    fn what_was_stated_keeps_its_digits() {
        let texts = [0.0945, 90e6, 1769.0, 2.5e-10, 0.0, 12.3456].map(exact);
        let expected = ["0.0945", "90,000,000", "1,769", "2.5e-10", "0", "12.3456"];
        assert_eq!(texts, expected);
    }

    #[test]
    fn an_interval_follows_its_mean() {
        let known = Estimate {
            mean: Some(12.34),
            ci95: Some([11.9, 12.78]),
            n: 3,
        };
        assert_eq!(estimate(known), "12.3 ± 0.44");
        let skewed = Estimate {
            ci95: Some([11.9, 14.0]),
            ..known
        };
        assert_eq!(estimate(skewed), "12.3 (11.9 to 14.0)");
        let ci95 = None;
        assert_eq!(estimate(Estimate { ci95, ..known }), "12.3");
        assert_eq!(estimate(Estimate::default()), UNKNOWN);
    }

    #[test]
    fn a_shell_reads_a_word_as_it_is() {
        assert_eq!(shell_word("results/a=1,2"), "results/a=1,2");
        assert_eq!(shell_word("a b;c"), "'a b;c'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word(""), "''");
    }
}
