//! Passwords.

use uuid::Uuid;

/// Returns a password of 122 random bits, in letters and digits that need no escaping
/// in URLs and configuration files.
pub(crate) fn random() -> String {
    Uuid::new_v4().simple().to_string()
}
