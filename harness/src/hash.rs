//! Hashes of files.

use std::path::Path;

use sha2::{Digest, Sha256};

/// Returns the SHA-256 of a file, in lower-case hexadecimal.
///
/// # Errors
/// When it cannot be read.
pub fn sha256_of(path: &Path) -> std::io::Result<String> {
    let mut hasher = Sha256::new();
    std::io::copy(&mut std::fs::File::open(path)?, &mut hasher)?;
    Ok(hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}
