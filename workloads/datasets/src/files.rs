//! Reads whole files and compares them with their expected size, form and checksum.

use std::fs;
use std::io;
use std::path::Path;

use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::layout::Form;
use crate::{Checksum, DatasetError, DatasetInfo, PublishedFile};

/// Waits until a file is on the disk. File systems of some clusters and virtual machines refuse
/// to flush, directories most often: the file is written all the same.
///
/// # Errors
/// When the disk failed.
#[expect(clippy::disallowed_methods, reason = "a refusal is passed here")]
pub fn flush(file: &fs::File) -> io::Result<()> {
    flushed(file.sync_all())
}

/// Waits until the names in a directory are on the disk.
///
/// # Errors
/// When the directory cannot be opened, or the disk failed.
pub fn flush_directory(directory: &Path) -> io::Result<()> {
    let here = Path::new(".");
    let is_here = directory == Path::new("");
    flush(&fs::File::open(if is_here { here } else { directory })?)
}

/// Takes a refusal to flush for success.
fn flushed(flush: io::Result<()>) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    match flush {
        Err(error) if matches!(error.kind(), InvalidInput | PermissionDenied | Unsupported) => {
            Ok(())
        }
        ended => ended,
    }
}

/// Reads one file of a set and checks its size, form and checksum, in that
/// order: a wrong size reveals most about the cause. Returns its content and its SHA-256.
pub(crate) fn read(
    info: &DatasetInfo,
    dir: &Path,
    expected: &PublishedFile,
    remedy: &str,
) -> Result<(Vec<u8>, String), DatasetError> {
    check_size(dir, expected, remedy)?;
    let path = dir.join(expected.name);
    let bytes = fs::read(&path).map_err(DatasetError::read(&path))?;
    let form = Form {
        info,
        path: &path,
        remedy,
    };
    form.check(&bytes)?;
    let sha256 = sha256_hex(&bytes);
    check_sum(&path, &bytes, &expected.checksum, remedy)?;
    Ok((bytes, sha256))
}

/// Compares the content of a file with its checksum.
pub(crate) fn check_sum(
    path: &Path,
    bytes: &[u8],
    expected: &Checksum,
    remedy: &str,
) -> Result<(), DatasetError> {
    let (algorithm, found, wanted) = match expected {
        Checksum::Sha1(wanted) => ("SHA-1", hex(&Sha1::digest(bytes)), wanted),
        Checksum::Sha256(wanted) => ("SHA-256", sha256_hex(bytes), wanted),
    };
    if found == *wanted {
        return Ok(());
    }
    Err(DatasetError::Corrupted {
        path: path.to_owned(),
        algorithm,
        found,
        expected: wanted.clone().into_owned(),
        remedy: remedy.to_owned(),
    })
}

/// Checks that a file exists and has the right size, without reading it.
pub(crate) fn check_size(
    dir: &Path,
    expected: &PublishedFile,
    remedy: &str,
) -> Result<(), DatasetError> {
    let path = dir.join(expected.name);
    let found_bytes = regular_size(&path, remedy)?;
    compare_size(&path, found_bytes, expected.size_bytes, remedy)
}

/// Compares the size of a file with the expected one.
pub(crate) fn compare_size(
    path: &Path,
    found_bytes: u64,
    expected_bytes: u64,
    remedy: &str,
) -> Result<(), DatasetError> {
    let problem = match found_bytes.cmp(&expected_bytes) {
        std::cmp::Ordering::Equal => return Ok(()),
        std::cmp::Ordering::Less => "truncated",
        std::cmp::Ordering::Greater => "wrong size of",
    };
    Err(DatasetError::Size {
        path: path.to_owned(),
        problem,
        found_bytes,
        expected_bytes,
        remedy: remedy.to_owned(),
    })
}

/// Returns the size of a regular file, and refuses anything else: a pipe could be waited for
/// without end.
pub(crate) fn regular_size(path: &Path, remedy: &str) -> Result<u64, DatasetError> {
    let refused = |source| read_error(path, source, remedy);
    let found = fs::metadata(path).map_err(refused)?;
    if found.is_file() {
        Ok(found.len())
    } else {
        Err(refused(io::Error::other("it is not a regular file")))
    }
}

/// Returns the error for a missing file, or for one that cannot be read.
pub(crate) fn read_error(path: &Path, source: io::Error, remedy: &str) -> DatasetError {
    let path = path.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => DatasetError::Missing {
            remedy: elsewhere(&path).unwrap_or_else(|| remedy.to_owned()),
            path,
        },
        _ => DatasetError::Read { path, source },
    }
}

/// Returns what to do with a missing file that lies beside its place as other programs leave it:
/// packed, in a directory of theirs, or under a name with a dot.
fn elsewhere(path: &Path) -> Option<String> {
    let (directory, name) = (path.parent()?, path.file_name()?.to_str()?);
    let folders = [
        "",
        "raw",
        "MNIST/raw",
        "FashionMNIST/raw",
        "cifar-10-batches-bin",
    ];
    let dotted = name.replace("-idx", ".idx");
    folders.iter().find_map(|folder| {
        let at = |name: &str| Some(directory.join(folder).join(name)).filter(|path| path.is_file());
        if let Some(packed) = at(&format!("{name}.gz")) {
            let packed = packed.display();
            return Some(format!(
                "found {packed}: unpack it with `gunzip -c {packed} > {}`",
                path.display()
            ));
        }
        let found = at(name).or_else(|| at(&dotted))?;
        let found = found.display();
        Some(format!(
            "found {found}: move it with `mv {found} {}`",
            path.display()
        ))
    })
}

/// Computes the SHA-256 in lower-case hexadecimal.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::{flush_directory, flushed};

    /// The directory of processes, which the kernel cannot flush, stands for one on NFS.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_directory_that_cannot_be_flushed_is_passed() {
        flush_directory("/proc".as_ref()).unwrap();
        flush_directory("".as_ref()).unwrap();
        assert!(flush_directory("/proc/missing".as_ref()).is_err());
    }

    #[test]
    fn a_file_system_may_refuse_to_flush_and_a_disk_may_not_fail() {
        for refused in [ErrorKind::InvalidInput, ErrorKind::Unsupported] {
            assert!(flushed(Err(refused.into())).is_ok());
        }
        for code in [5, 28] {
            // EIO and ENOSPC.
            assert!(flushed(Err(Error::from_raw_os_error(code))).is_err());
        }
    }
}
