//! Unpacks downloads of published sets, and compares each file with its checksum.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use flate2::read::GzDecoder;

use crate::files::{check_sum, compare_size, flush};
use crate::{DatasetError, Download, PublishedFile};

/// What to do about a download that is not what was published.
const REMEDY: &str =
    "the download is damaged or another file: fetch it again, or from another mirror";

/// Returns whether every file of a download is in a directory, with its published size and
/// checksum.
#[must_use]
pub fn is_whole(download: &Download, files: &[PublishedFile], directory: &Path) -> bool {
    let mut held = held(download, files);
    held.all(|file| {
        let path = directory.join(file.name);
        let has_size = fs::metadata(&path).is_ok_and(|found| found.len() == file.size_bytes);
        has_size && fs::read(&path).is_ok_and(|bytes| check(&path, &bytes, file).is_ok())
    })
}

/// Unpacks a download into a directory. Every file is compared with its published size and
/// checksum before it has its name.
///
/// # Errors
/// When the download cannot be read or a file not be written, a file is missing from it, or a
/// file is not the published one.
pub fn unpack(
    download: &Download,
    files: &[PublishedFile],
    packed: &Path,
    directory: &Path,
) -> Result<(), DatasetError> {
    let unreadable = &DatasetError::read(packed);
    let content = GzDecoder::new(File::open(packed).map_err(unreadable)?);
    let mut missing: Vec<&PublishedFile> = held(download, files).collect();
    if download.single().is_some() {
        if let Some(file) = missing.pop() {
            let bytes = limited(content, file).map_err(unreadable)?;
            place(&bytes, file, directory)?;
        }
    } else {
        let mut archive = tar::Archive::new(content);
        for entry in archive.entries().map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let path = entry.path().map_err(unreadable)?.into_owned();
            let is_it = |file: &&PublishedFile| path.file_name() == Some(file.name.as_ref());
            if let Some(index) = missing.iter().position(is_it) {
                let file = missing.swap_remove(index);
                let bytes = limited(entry, file).map_err(unreadable)?;
                place(&bytes, file, directory)?;
            }
        }
    }
    match missing.first() {
        None => Ok(()),
        Some(file) => Err(DatasetError::Missing {
            path: packed.join(file.name),
            remedy: REMEDY.to_owned(),
        }),
    }
}

/// Returns the files of a set that a download holds.
fn held<'a>(
    download: &Download,
    files: &'a [PublishedFile],
) -> impl Iterator<Item = &'a PublishedFile> + use<'a> {
    let single = download.single();
    let is_held = move |file: &&PublishedFile| single.is_none_or(|single| single == file.name);
    files.iter().filter(is_held)
}

/// Reads a file, and at most one byte more than it should have: whatever the archive says.
fn limited(content: impl Read, file: &PublishedFile) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    content.take(file.size_bytes + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes a file that is the published one.
fn place(bytes: &[u8], file: &PublishedFile, directory: &Path) -> Result<(), DatasetError> {
    let path = directory.join(file.name);
    check(&path, bytes, file)?;
    let written = || -> io::Result<()> {
        let mut temporary = tempfile::NamedTempFile::new_in(directory)?;
        temporary.write_all(bytes)?;
        flush(temporary.as_file())?;
        let mut permissions = temporary.as_file().metadata()?.permissions();
        readable(&mut permissions);
        temporary.as_file().set_permissions(permissions)?;
        temporary.persist(&path)?;
        Ok(())
    };
    written().map_err(DatasetError::write(&path))
}

/// Compares content with the published size and checksum.
fn check(path: &Path, bytes: &[u8], file: &PublishedFile) -> Result<(), DatasetError> {
    compare_size(path, bytes.len() as u64, file.size_bytes, REMEDY)?;
    check_sum(path, bytes, &file.checksum, REMEDY)
}

/// Lets everybody read, where a temporary file is its owner's.
#[cfg(unix)]
fn readable(permissions: &mut fs::Permissions) {
    use std::os::unix::fs::PermissionsExt;
    permissions.set_mode(0o644);
}

#[cfg(not(unix))]
fn readable(_: &mut fs::Permissions) {}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;
    use crate::Checksum;

    // SHA-256 of "abc" and SHA-1 of "abc": FIPS 180-2's examples.
    static FILES: [PublishedFile; 2] = [
        PublishedFile {
            name: "one",
            size_bytes: 3,
            checksum: Checksum::Sha256(Cow::Borrowed(
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            )),
        },
        PublishedFile {
            name: "two",
            size_bytes: 3,
            checksum: Checksum::Sha1(Cow::Borrowed("a9993e364706816aba3e25717850c26c9cd0d89d")),
        },
    ];
    const ARCHIVE: Download = Download {
        name: "both.tar.gz",
    };

    fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (name, content) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o600);
            header.set_cksum();
            archive.append_data(&mut header, name, *content).unwrap();
        }
        archive.into_inner().unwrap().finish().unwrap()
    }

    fn unpacked(packed: &[u8], download: &Download) -> (tempfile::TempDir, Result<(), String>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("packed");
        fs::write(&path, packed).unwrap();
        let result = unpack(download, &FILES, &path, directory.path());
        (directory, result.map_err(|error| error.to_string()))
    }

    #[test]
    fn files_of_an_archive_are_found_in_whatever_directory_and_order() {
        let packed = archive(&[("a/two", b"abc"), ("readme", b"x"), ("one", b"abc")]);
        let (directory, result) = unpacked(&packed, &ARCHIVE);
        result.unwrap();
        assert!(is_whole(&ARCHIVE, &FILES, directory.path()));
        assert!(!directory.path().join("readme").exists());
        fs::write(directory.path().join("one"), "abd").unwrap();
        assert!(!is_whole(&ARCHIVE, &FILES, directory.path()));
    }

    #[test]
    fn a_single_file_is_unpacked() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(b"abc").unwrap();
        let download = Download { name: "one.gz" };
        let (directory, result) = unpacked(&encoder.finish().unwrap(), &download);
        result.unwrap();
        assert_eq!(fs::read(directory.path().join("one")).unwrap(), b"abc");
    }

    #[test]
    fn another_content_gets_no_name() {
        for (entries, word) in [
            (vec![("one", b"abd".as_slice()), ("two", b"abc")], "SHA-256"),
            (vec![("one", b"ab"), ("two", b"abc")], "truncated"),
            (vec![("one", b"abcd"), ("two", b"abc")], "wrong size"),
            (vec![("two", b"abc")], "missing"),
        ] {
            let (directory, result) = unpacked(&archive(&entries), &ARCHIVE);
            let message = result.unwrap_err();
            assert!(
                message.contains(word) && message.contains("one"),
                "{message}"
            );
            assert!(!directory.path().join("one").exists());
        }
        let (_kept, result) = unpacked(b"no archive", &ARCHIVE);
        assert!(result.unwrap_err().contains("packed"));
    }
}
