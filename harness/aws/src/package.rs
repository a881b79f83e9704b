//! Check of worker binaries before deployment: architecture, C library and size.

use std::io::{Cursor, Write};

use elf::ElfBytes;
use elf::abi::{EM_AARCH64, EM_X86_64, PT_INTERP};
use elf::endian::LittleEndian;
use thiserror::Error;
use zip::write::SimpleFileOptions;

use crate::resource::Architecture;

/// GLIBC version of `provided.al2023` ("Lambda runtimes": Amazon Linux 2023).
const GLIBC: (u32, u32) = (2, 34);
/// Maximum size of an unpacked package, bytes ("Lambda quotas").
pub const UNPACKED_BYTES: u64 = 250 << 20;

/// Properties of a worker binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// Processor architecture.
    pub architecture: Architecture,
    /// Newest GLIBC that it needs; `None` for static binaries.
    pub glibc: Option<(u32, u32)>,
    /// Size, bytes.
    pub bytes: u64,
}

/// Reason why a binary cannot be deployed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PackageError {
    /// The file is no program for Linux.
    #[error("the worker is no ELF program: {0}")]
    NotElf(String),
    /// Instances do not have the processor.
    #[error(
        "the worker is for arm64, and the images of instances are for x86-64\n  = help: build the worker \
         for x86-64 with `just package-aws`, and name it in EPOCHCOST_WORKER"
    )]
    NotForInstances,
    /// Lambda does not have the processor.
    #[error("the worker was built for machine {0} of ELF; Lambda has x86-64 and arm64")]
    Machine(u16),
    /// The binary needs a newer C library.
    #[error(
        "the program needs GLIBC {}.{}, and Amazon Linux 2023 has {}.{}\n  = help: build worker and \
         module for an older one with `just package-aws`, and name them in EPOCHCOST_WORKER and \
         EPOCHCOST_TENSORDB", .0.0, .0.1, GLIBC.0, GLIBC.1
    )]
    Glibc((u32, u32)),
    /// The binary is too large.
    #[error(
        "the worker has {0} bytes, and a function at most {UNPACKED_BYTES}\n  = help: strip it"
    )]
    TooLarge(u64),
    /// The package could not be written.
    #[error("the worker cannot be packed: {0}")]
    Archive(String),
}

/// Checks a shared library, or a program, for an instance with Amazon Linux 2023 and an x86-64
/// processor.
///
/// # Errors
/// The reason why it cannot be loaded there.
pub fn check_library(library: &[u8]) -> Result<(), PackageError> {
    let broken = |error: elf::ParseError| PackageError::NotElf(error.to_string());
    let file = ElfBytes::<LittleEndian>::minimal_parse(library).map_err(broken)?;
    match (file.ehdr.e_machine, needed(&file).map_err(broken)?) {
        (EM_X86_64, Some(version)) if version > GLIBC => Err(PackageError::Glibc(version)),
        (EM_X86_64, _) => Ok(()),
        (other, _) => Err(PackageError::Machine(other)),
    }
}

/// Checks a worker binary, also for instances if `has_instances`.
///
/// # Errors
/// The reason why it cannot run on Lambda.
pub fn check(binary: &[u8], has_instances: bool) -> Result<Binary, PackageError> {
    let broken = |error: elf::ParseError| PackageError::NotElf(error.to_string());
    let file = ElfBytes::<LittleEndian>::minimal_parse(binary).map_err(broken)?;
    let architecture = match file.ehdr.e_machine {
        EM_X86_64 => Architecture::X86_64,
        EM_AARCH64 if has_instances => return Err(PackageError::NotForInstances),
        EM_AARCH64 => Architecture::Arm64,
        other => return Err(PackageError::Machine(other)),
    };
    let bytes = binary.len() as u64;
    if bytes > UNPACKED_BYTES {
        return Err(PackageError::TooLarge(bytes));
    }
    let segments = file.segments();
    let is_dynamic = segments.is_some_and(|all| all.iter().any(|one| one.p_type == PT_INTERP));
    let glibc = if is_dynamic {
        needed(&file).map_err(broken)?
    } else {
        None
    };
    match glibc {
        Some(version) if version > GLIBC => Err(PackageError::Glibc(version)),
        glibc => Ok(Binary {
            architecture,
            glibc,
            bytes,
        }),
    }
}

/// Returns the package of a function on a custom runtime: the worker as `bootstrap`,
/// uncompressed. Lambda unpacks it once per sandbox, whatever its compression.
///
/// # Errors
/// When the package cannot be written, for example above 4 GB.
pub fn archive(binary: &[u8]) -> Result<Vec<u8>, PackageError> {
    let failed = |error: zip::result::ZipError| PackageError::Archive(error.to_string());
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Stored)
        .unix_permissions(0o755);
    archive.start_file("bootstrap", options).map_err(failed)?;
    archive
        .write_all(binary)
        .map_err(|error| failed(error.into()))?;
    Ok(archive.finish().map_err(failed)?.into_inner())
}

/// Returns the newest version of GLIBC that any symbol needs.
fn needed(file: &ElfBytes<'_, LittleEndian>) -> Result<Option<(u32, u32)>, elf::ParseError> {
    let Some(section) = file.section_header_by_name(".gnu.version_r")? else {
        return Ok(None);
    };
    let (Some(sections), (data, _)) = (file.section_headers(), file.section_data(&section)?) else {
        return Ok(None);
    };
    let strings = file.section_data_as_strtab(&sections.get(section.sh_link as usize)?)?;
    let class = file.ehdr.class;
    let needs = elf::gnu_symver::VerNeedIterator::new(
        LittleEndian,
        class,
        u64::from(section.sh_info),
        0,
        data,
    );
    let mut newest = None;
    for (_, versions) in needs {
        for version in versions {
            let name = strings.get(version.vna_name as usize)?;
            newest = newest.max(glibc_version(name));
        }
    }
    Ok(newest)
}

/// Parses a version such as `GLIBC_2.34`; `None` for other libraries and private symbols.
fn glibc_version(name: &str) -> Option<(u32, u32)> {
    let mut parts = name.strip_prefix("GLIBC_")?.split('.');
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next().map_or(Some(0), |minor| minor.parse().ok())?;
    Some((major, minor))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// This test is itself a program for this machine.
    fn own() -> Vec<u8> {
        std::fs::read(std::env::current_exe().unwrap()).unwrap()
    }

    fn with_version(from: &str, to: &str) -> Vec<u8> {
        assert_eq!(from.len(), to.len());
        let mut bytes = own();
        let places: Vec<usize> = bytes
            .windows(from.len() + 1)
            .enumerate()
            .filter(|(_, window)| window.starts_with(from.as_bytes()) && window[from.len()] == 0)
            .map(|(at, _)| at)
            .collect();
        assert!(!places.is_empty(), "this test does not need {from}");
        for at in places {
            bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        }
        bytes
    }

    #[test]
    fn a_package_holds_the_worker_and_may_run_it() {
        let packed = archive(b"worker").unwrap();
        let mut archive = zip::ZipArchive::new(Cursor::new(packed)).unwrap();
        assert_eq!(archive.len(), 1);
        let mut file = archive.by_name("bootstrap").unwrap();
        assert_eq!(file.unix_mode().unwrap() & 0o777, 0o755);
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut file, &mut content).unwrap();
        assert_eq!(content, b"worker");
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(glibc_version("GLIBC_2.34"), Some((2, 34)));
        assert_eq!(glibc_version("GLIBC_2.2.5"), Some((2, 2)));
        assert!(glibc_version("GLIBC_2.4") < glibc_version("GLIBC_2.34"));
        assert_eq!(glibc_version("GLIBC_PRIVATE"), None);
        assert_eq!(glibc_version("GCC_3.0"), None);
    }

    #[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
    #[test]
    fn a_program_of_this_machine_is_known() {
        // The oldest symbols of GLIBC on x86-64 are of 2.2.5, whatever the machine.
        let Ok(binary) = check(&with_version("GLIBC_2.2.5", "GLIBC_2.2.6"), false) else {
            // Built with a newer GLIBC than Lambda's, which the next test is about.
            return;
        };
        assert_eq!(binary.architecture, Architecture::X86_64);
        assert!(binary.glibc.unwrap() >= (2, 2));
    }

    #[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
    #[test]
    fn a_library_that_is_too_new_is_refused_with_what_to_do() {
        let error = check(&with_version("GLIBC_2.2.5", "GLIBC_2.101"), false).unwrap_err();
        assert_eq!(error, PackageError::Glibc((2, 101)));
        assert!(error.to_string().contains("Amazon Linux 2023"));
    }

    #[test]
    fn other_machines_and_other_files_are_refused() {
        let mut bytes = own();
        // e_machine, bytes 18 and 19: 8 is MIPS.
        bytes[18..20].copy_from_slice(&8u16.to_le_bytes());
        assert_eq!(check(&bytes, false), Err(PackageError::Machine(8)));
        for text in [&b""[..], b"#!/bin/sh\n", b"\x7fELF"] {
            assert!(matches!(check(text, false), Err(PackageError::NotElf(_))));
        }
    }

    #[test]
    fn what_lambda_would_not_unpack_is_refused() {
        let mut bytes = own();
        bytes.resize(UNPACKED_BYTES as usize + 1, 0);
        let too_large = PackageError::TooLarge(UNPACKED_BYTES + 1);
        assert_eq!(check(&bytes, false), Err(too_large));
    }
}
