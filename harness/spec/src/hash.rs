//! Hashes of files and of bytes.

use std::path::Path;

use sha2::{Digest, Sha256};

/// Returns the SHA-256 of a file, in lower-case hexadecimal.
///
/// # Errors
/// When it cannot be read.
pub fn sha256_of(path: &Path) -> std::io::Result<String> {
    let mut hasher = Sha256::new();
    std::io::copy(&mut std::fs::File::open(path)?, &mut hasher)?;
    Ok(hexadecimal(&hasher.finalize()))
}

/// Returns the SHA-256 of bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Returns the SHA-256 of bytes, in lower-case hexadecimal.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hexadecimal(&sha256(bytes))
}

/// SHA-256 of bytes that come in parts.
#[derive(Default)]
pub struct Hash(Sha256);

impl Hash {
    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the hash of all, in lower-case hexadecimal.
    pub fn hex(self) -> String {
        hexadecimal(&self.0.finalize())
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
