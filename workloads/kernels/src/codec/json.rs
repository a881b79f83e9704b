//! JSON text of a list of floats, the way the published SPIRT functions keep
//! gradients in Redis: Python's `json.dumps` writes them, a Lua script with
//! `cjson` decodes, averages and re-encodes them.
//!
//! Both languages have only 64-bit floats, so values are parsed, added and
//! divided as `f64` here too, and the text has the lengths of theirs: 17
//! significant digits or fewer from Python, 14 from `cjson`.

use std::io::Write;

use crate::error::{KernelError, expect_length};

/// Typical bytes of one number and its separator, to size buffers.
const TYPICAL_BYTES: usize = 24;

/// Returns the text that Python's `json.dumps` gives for the list of `values`:
/// each widened to `f64` and printed with the fewest digits that read back the
/// same.
///
/// # Errors
/// [`KernelError::NonFinite`]: Python would write `NaN`, which is not JSON.
pub fn encode_json(values: &[f32]) -> Result<Vec<u8>, KernelError> {
    let widened = values.iter().map(|x| f64::from(*x));
    write_list(widened, ", ", |text, x| {
        let scientific = format!("{x:e}");
        write_general(text, &scientific, 16, true);
    })
}

/// Returns the values of a JSON list of numbers, each parsed as `f64` and
/// rounded to `f32`; what exceeds the range of `f32` becomes an infinity.
///
/// # Errors
/// [`KernelError::Json`] if the text is anything else.
pub fn decode_json(text: &[u8]) -> Result<Vec<f32>, KernelError> {
    let values = parse(text)?;
    Ok(values.into_iter().map(|x| x as f32).collect())
}

/// Computes the mean of a batch's gradients as the published Lua script does:
/// decode, add in order, divide by the number found, and encode.
///
/// # Errors
/// [`KernelError::NoVectors`], [`KernelError::Json`],
/// [`KernelError::LengthMismatch`], or [`KernelError::NonFinite`] if a sum
/// overflows.
pub fn json_mean(texts: &[&[u8]]) -> Result<Vec<u8>, KernelError> {
    let operation = "average JSON lists";
    let (first, others) = texts
        .split_first()
        .ok_or(KernelError::NoVectors { operation })?;
    let mut acc = parse(first)?;
    for (position, text) in others.iter().enumerate() {
        let values = parse(text)?;
        expect_length(operation, position + 1, acc.len(), values.len())?;
        for (a, x) in acc.iter_mut().zip(values) {
            *a += x;
        }
    }
    let count = texts.len() as f64;
    write_list(acc.into_iter().map(|a| a / count), ",", |text, x| {
        let scientific = format!("{x:.13e}");
        write_general(text, &scientific, 14, false);
    })
}

fn parse(text: &[u8]) -> Result<Vec<f64>, KernelError> {
    serde_json::from_slice(text).map_err(KernelError::Json)
}

fn write_list(
    values: impl ExactSizeIterator<Item = f64>,
    separator: &str,
    mut write_number: impl FnMut(&mut Vec<u8>, f64),
) -> Result<Vec<u8>, KernelError> {
    let mut text = Vec::with_capacity(2 + TYPICAL_BYTES * values.len());
    text.push(b'[');
    for (index, value) in values.enumerate() {
        if !value.is_finite() {
            return Err(KernelError::NonFinite { index, value });
        }
        if index > 0 {
            text.extend_from_slice(separator.as_bytes());
        }
        write_number(&mut text, value);
    }
    text.push(b']');
    Ok(text)
}

/// Lays a number in Rust's scientific notation out as C's `%g` and Python's
/// `repr` do: plain from 1e-4 up to 10^`plain_digits`, trailing zeros dropped,
/// exponents of at least two digits. Python marks whole numbers with `.0`.
fn write_general(text: &mut Vec<u8>, scientific: &str, plain_digits: i32, mark_whole: bool) {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let unsigned = mantissa.trim_start_matches('-');
    if unsigned.len() < mantissa.len() {
        text.push(b'-');
    }
    let digits = unsigned.replace('.', "");
    let kept = digits.trim_end_matches('0');
    let digits = if kept.is_empty() { "0" } else { kept };
    if (0..plain_digits).contains(&exponent) {
        write_point(text, digits, exponent as usize + 1, mark_whole);
    } else if (-4..0).contains(&exponent) {
        let zeros = exponent.unsigned_abs() as usize - 1;
        text.extend_from_slice(b"0.");
        text.extend(std::iter::repeat_n(b'0', zeros));
        text.extend_from_slice(digits.as_bytes());
    } else {
        write_point(text, digits, 1, false);
        // Writing to a vector cannot fail.
        let _ = write!(text, "e{exponent:+03}");
    }
}

/// Writes `digits` with the point behind the first `whole` of them, padded with
/// zeros.
fn write_point(text: &mut Vec<u8>, digits: &str, whole: usize, mark_whole: bool) {
    match digits.split_at_checked(whole) {
        Some((before, after)) if !after.is_empty() => {
            text.extend_from_slice(before.as_bytes());
            text.push(b'.');
            text.extend_from_slice(after.as_bytes());
        }
        _ => {
            let zeros = whole.saturating_sub(digits.len());
            text.extend_from_slice(digits.as_bytes());
            text.extend(std::iter::repeat_n(b'0', zeros));
            if mark_whole {
                text.extend_from_slice(b".0");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(bytes: Result<Vec<u8>, KernelError>) -> String {
        String::from_utf8(bytes.unwrap()).unwrap()
    }

    /// `json.dumps([float(numpy.float32(x)) for x in …])`.
    #[test]
    fn text_is_that_of_python() {
        let values = [
            0.1,
            -1.0,
            0.0,
            -0.0,
            1e-5,
            1.5e-4,
            123.25,
            1e20,
            16_777_216.0,
        ];
        assert_eq!(
            text(encode_json(&values)),
            "[0.10000000149011612, -1.0, 0.0, -0.0, 9.999999747378752e-06, \
             0.0001500000071246177, 123.25, 1.0000000200408773e+20, 16777216.0]"
        );
        assert_eq!(text(encode_json(&[])), "[]");
    }

    /// `%.14g` of 0.1 + 0.2 over 2, of 1/3, and of whole, small and large numbers.
    #[test]
    fn mean_is_that_of_the_lua_script() {
        let a = b"[0.1, 1, 4, 2e-7, 2e15]";
        let b = b"[0.2, 0, -1, 0, 0]";
        let c = b"[0, 0, 0, 1e-7, 1e15]";
        assert_eq!(
            text(json_mean(&[a, b, c])),
            "[0.1,0.33333333333333,1,1e-07,1e+15]"
        );
        assert!(matches!(
            json_mean(&[b"[1]", b"[1,2]"]),
            Err(KernelError::LengthMismatch { position: 1, .. })
        ));
        assert!(matches!(json_mean(&[]), Err(KernelError::NoVectors { .. })));
        assert!(matches!(
            json_mean(&[b"[1.7e308]", b"[1.7e308]"]),
            Err(KernelError::NonFinite { index: 0, .. })
        ));
    }

    #[test]
    fn what_is_not_a_list_of_numbers_is_refused() {
        for bad in [
            "", "[", "[1,]", "{}", "[NaN]", "[\"1\"]", "[1e999]", "[1] 2",
        ] {
            assert!(decode_json(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(matches!(
            encode_json(&[0.0, f32::INFINITY]),
            Err(KernelError::NonFinite { index: 1, .. })
        ));
    }

    proptest! {
        #[test]
        fn json_round_trip(values in prop::collection::vec(any::<f32>(), 0..50)) {
            let decoded = decode_json(&encode_json(&values).unwrap()).unwrap();
            prop_assert!(decoded.iter().map(|x| x.to_bits()).eq(values.iter().map(|x| x.to_bits())));
        }

        #[test]
        fn arbitrary_text_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = decode_json(&bytes);
            let _ = json_mean(&[&bytes, b"[1]"]);
        }
    }
}
