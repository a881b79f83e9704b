//! Listings of a bucket, the numbers in its keys, and deletes of many keys.

use epochcost_channels::{ListPage, ObjectStore};

use crate::Result;

/// A listing of a bucket, page by page; only the first page if
/// `first_page_only`, as the published wrappers do (their list never asks for
/// the next 1,000 keys).
pub(crate) struct Listing {
    bucket: &'static str,
    first_page_only: bool,
    after: Option<String>,
    is_over: bool,
}

impl Listing {
    pub(crate) fn new(bucket: &'static str, first_page_only: bool) -> Self {
        Self {
            bucket,
            first_page_only,
            after: None,
            is_over: false,
        }
    }

    /// The next page; `None` after the last.
    pub(crate) async fn next(&mut self, objects: &ObjectStore) -> Result<Option<ListPage>> {
        if self.is_over {
            return Ok(None);
        }
        let page = objects.list(self.bucket, "", self.after.as_deref()).await?;
        self.is_over = self.first_page_only || !page.truncated;
        self.after = page.keys.last().cloned();
        Ok(Some(page))
    }
}

/// Every key of a bucket, over all pages that a [`Listing`] has.
pub(crate) async fn list_keys(
    objects: &ObjectStore,
    bucket: &'static str,
    first_page_only: bool,
) -> Result<Vec<String>> {
    let mut listing = Listing::new(bucket, first_page_only);
    let mut keys = Vec::new();
    while let Some(page) = listing.next(objects).await? {
        keys.extend_from_slice(&page.keys);
    }
    Ok(keys)
}

/// Largest number of keys that one delete request names (S3's DeleteObjects).
const DELETE_KEYS: usize = 1_000;

/// Deletes `keys` in as few requests as the store accepts; sends none without keys.
pub(crate) async fn delete_keys(
    objects: &ObjectStore,
    bucket: &str,
    keys: &[String],
) -> Result<()> {
    for keys in keys.chunks(DELETE_KEYS) {
        objects.delete(bucket, keys).await?;
    }
    Ok(())
}

/// The number fields of a key `a_b_c`, or nothing if it is not one.
pub(crate) fn key_fields<const N: usize>(key: &str) -> Option<[usize; N]> {
    let mut fields = [0; N];
    let mut parts = key.split('_');
    for field in &mut fields {
        *field = parts.next()?.parse().ok()?;
    }
    parts.next().is_none().then_some(fields)
}
