//! Checksums inside the text that they protect: the last field of a JSON object is the
//! SHA-256 of the text without this field.
//!
//! A sealed object is still plain JSON. A changed bit anywhere in it changes its hash, the
//! stated hash, or the field itself, so that the object is refused.

use epochcost_spec::hash::sha256_hex;

/// Length of a SHA-256 in hexadecimal.
const HASH: usize = 64;

/// Places of the field in a JSON text: what stands before the hash, what stands behind it,
/// and what ends the object without the field.
struct Form {
    before: &'static [u8],
    behind: &'static [u8],
    end: &'static [u8],
}

/// An object in one line, without its line end.
const LINE: Form = Form {
    before: b",\"sha256\":\"",
    behind: b"\"}",
    end: b"}",
};

/// An indented object that is a whole file.
const FILE: Form = Form {
    before: b",\n  \"sha256\": \"",
    behind: b"\"\n}\n",
    end: b"\n}\n",
};

impl Form {
    /// Adds the field; leaves a text that does not end as this form's objects do.
    fn seal(&self, text: &mut Vec<u8>) {
        if !text.ends_with(self.end) {
            return;
        }
        let hash = sha256_hex(text);
        text.truncate(text.len() - self.end.len());
        text.extend_from_slice(self.before);
        text.extend_from_slice(hash.as_bytes());
        text.extend_from_slice(self.behind);
    }

    /// Returns the text without the field, and whether it had one.
    fn open(&self, text: &[u8]) -> Result<(Vec<u8>, bool), String> {
        let field = self.before.len() + HASH + self.behind.len();
        let start = text.len().saturating_sub(field);
        let (own, field) = text.split_at(start);
        let stated = field.strip_prefix(self.before);
        let Some(stated) = stated.and_then(|field| field.strip_suffix(self.behind)) else {
            return Ok((text.to_vec(), false));
        };
        let mut own = own.to_vec();
        own.extend_from_slice(self.end);
        let found = sha256_hex(&own);
        if stated == found.as_bytes() {
            Ok((own, true))
        } else {
            Err(format!(
                "its SHA-256 is {found}, and `sha256` states {}",
                String::from_utf8_lossy(stated)
            ))
        }
    }
}

/// Adds its checksum to an object in one line.
pub(super) fn seal_line(text: &mut Vec<u8>) {
    LINE.seal(text);
}

/// Adds its checksum to an indented object.
pub(super) fn seal_file(text: &mut Vec<u8>) {
    FILE.seal(text);
}

/// Returns the object of a line without its checksum, and whether it had one.
///
/// # Errors
/// The difference, if the line is not that of its checksum.
pub(super) fn open_line(text: &[u8]) -> Result<(Vec<u8>, bool), String> {
    LINE.open(text)
}

/// Returns whether an indented object has a checksum.
///
/// # Errors
/// The difference, if the text is not that of its checksum.
pub(super) fn check_file(text: &[u8]) -> Result<bool, String> {
    FILE.open(text).map(|(_, sealed)| sealed)
}

/// The reason why an object without a checksum is refused where each has one.
pub(super) const UNSEALED: &str = "it ends without its checksum, the field `sha256`";

#[cfg(test)]
mod tests {
    use super::*;

    /// Every change of one bit, and that of its line end's neighbour, is found.
    #[test]
    fn every_changed_bit_of_a_sealed_object_is_found() {
        const FILE: &[u8] = b"{\n  \"a\": 1,\n  \"b\": \"x\"\n}\n";
        type Seal = fn(&mut Vec<u8>);
        type Open = fn(&[u8]) -> Result<bool, String>;
        let line: Open = |text| open_line(text).map(|(_, sealed)| sealed);
        let forms: [(&[u8], Seal, Open); 2] = [
            (br#"{"a":1,"b":[0.25,"x"]}"#, seal_line, line),
            (FILE, seal_file, check_file),
        ];
        for (text, seal, open) in forms {
            let mut sealed = text.to_vec();
            seal(&mut sealed);
            assert!(open(&sealed).unwrap());
            assert!(!open(text).unwrap(), "an object without one");
            let read: serde_json::Value = serde_json::from_slice(&sealed).unwrap();
            assert_eq!(read["sha256"].as_str().unwrap(), sha256_hex(text));
            for bit in 0..8 * sealed.len() {
                let mut flipped = sealed.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(!open(&flipped).unwrap_or(false), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_line_is_opened_as_it_was_sealed() {
        let text = br#"{"row":"a"}"#;
        let mut sealed = text.to_vec();
        seal_line(&mut sealed);
        assert_eq!(open_line(&sealed).unwrap(), (text.to_vec(), true));
        assert_eq!(open_line(text).unwrap(), (text.to_vec(), false));
    }
}
