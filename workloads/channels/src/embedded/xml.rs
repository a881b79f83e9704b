//! The XML documents of the S3 subset.

use quick_xml::Reader;
use quick_xml::events::Event;
use serde::Serialize;

/// The answer to ListObjectsV2.
#[derive(Debug, Default, Serialize)]
#[serde(rename = "ListBucketResult", rename_all = "PascalCase")]
pub(super) struct Listing {
    pub(super) name: String,
    pub(super) prefix: String,
    pub(super) key_count: usize,
    pub(super) max_keys: usize,
    pub(super) is_truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) encoding_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_continuation_token: Option<String>,
    pub(super) contents: Vec<Entry>,
}

/// An object of a listing.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) last_modified: &'static str,
    #[serde(rename = "ETag")]
    pub(super) etag: String,
    pub(super) size: u64,
    pub(super) storage_class: &'static str,
}

/// The answer to DeleteObjects.
#[derive(Debug, Serialize)]
#[serde(rename = "DeleteResult", rename_all = "PascalCase")]
pub(super) struct Deletion {
    pub(super) deleted: Vec<Deleted>,
}

/// A deleted key.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Deleted {
    pub(super) key: String,
}

/// The reason of a refusal.
#[derive(Debug, Serialize)]
#[serde(rename = "Error", rename_all = "PascalCase")]
pub(super) struct ErrorDocument {
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) resource: String,
}

/// Formats a document with its declaration.
pub(super) fn document(content: &impl Serialize) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Strings and numbers in named fields: nothing that XML cannot hold.
    if let Err(error) = quick_xml::se::to_writer(&mut text, content) {
        tracing::error!("failed to write XML: {error}");
    }
    text
}

/// Returns the keys of a DeleteObjects request, or `None` if it is malformed.
///
/// The request is read event by event, since leading and trailing spaces are part
/// of a key and deserializing trims them.
pub(super) fn keys_to_delete(body: &[u8]) -> Option<Vec<String>> {
    let mut reader = Reader::from_reader(body);
    let (mut keys, mut key) = (Vec::new(), None::<String>);
    let mut depth = 0_usize;
    loop {
        match reader.read_event().ok()? {
            Event::Start(tag) => {
                depth += 1;
                if tag.local_name().as_ref() == b"Key" {
                    key = Some(String::new());
                }
            }
            Event::End(tag) => {
                depth = depth.checked_sub(1)?;
                if tag.local_name().as_ref() == b"Key" {
                    keys.push(key.take()?);
                }
            }
            // The text of a key may come in several events, split at references.
            Event::Text(text) => {
                if let Some(key) = &mut key {
                    key.push_str(&text.decode().ok()?);
                }
            }
            Event::GeneralRef(reference) => {
                if let Some(key) = &mut key {
                    match reference.resolve_char_ref().ok()? {
                        Some(character) => key.push(character),
                        None => key.push_str(quick_xml::escape::resolve_predefined_entity(
                            &reference.decode().ok()?,
                        )?),
                    }
                }
            }
            Event::Eof => return (depth == 0).then_some(keys),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_keep_their_characters() {
        let body = b"<Delete xmlns=\"x\"><Object><Key> a&amp;b&lt;&#10;&#x41; </Key></Object>\
                     <Object><Key>c</Key><VersionId>1</VersionId></Object><Quiet>true</Quiet></Delete>";
        assert_eq!(keys_to_delete(body).unwrap(), [" a&b<\nA ", "c"]);
    }

    #[test]
    fn half_a_document_is_refused() {
        for body in [
            "<Delete><Object><Key>a</Key>",
            "<Delete><Key>a&unknown;</Key></Delete>",
            "</Delete>",
        ] {
            assert_eq!(keys_to_delete(body.as_bytes()), None, "{body}");
        }
    }

    proptest! {
        #[test]
        fn no_body_makes_it_panic(body in "[<>/&;#xDeletKyObjc \"=!\\[\\]-]{0,60}") {
            let _ = keys_to_delete(body.as_bytes());
        }
    }
}
