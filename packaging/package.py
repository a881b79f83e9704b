#!/usr/bin/env python3
"""Builds the packages of a release: an archive and a wheel, for Linux with glibc 2.28.

    python3 packaging/package.py                    # build, check, and write to dist/
    python3 packaging/package.py --binaries DIR     # of programs that are built already

Takes Rust, libclang, objdump, and cargo-zigbuild and ziglang from pip. Standard library only.
"""

import argparse
import base64
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = "x86_64-unknown-linux-gnu"
GLIBC = (2, 28)
ASSET = "epochcost-x86_64-linux"
WHEEL_TAG = f"py3-none-manylinux_{GLIBC[0]}_{GLIBC[1]}_x86_64"
# The program on the path, and what it finds in ../libexec/epochcost.
PROGRAM = "epochcost"
PRIVATE = ["bootstrap", "libepochcost_tensordb.so", "epochcost-s3"]
PRIVATE_DIRECTORY = "libexec/epochcost"
DOCUMENTS = "share/doc/epochcost"
# Archives of the same files are the same bytes.
TIME = (2026, 1, 1, 0, 0, 0)


def main():
    arguments = parse()
    version = package_version()
    binaries = arguments.binaries
    if binaries is None:
        binaries = build(arguments)
    newest = newest_glibc(binaries)
    if newest > GLIBC and not arguments.any_glibc:
        sys.exit(f"error: {binaries}: a program needs glibc {dotted(newest)}, newer than {dotted(GLIBC)}")
    print(f"programs start with glibc {dotted(newest)} and newer")
    files = contents(binaries, arguments.licences)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for path in [write_archive(arguments.out, files), write_wheel(arguments.out, version, files)]:
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("dist"), help="directory of the packages")
    parser.add_argument("--binaries", type=Path, help="directory of built programs; nothing is built")
    parser.add_argument("--any-glibc", action="store_true", help="package what this machine's glibc runs")
    parser.add_argument("--features", default="", help="features of epochcost, as `aws`")
    parser.add_argument("--target-dir", type=Path, default=ROOT / "target", help="where cargo builds")
    parser.add_argument(
        "--no-licences", dest="licences", action="store_false", help="leave out third-party licences"
    )
    return parser.parse_args()


def package_version():
    manifest = (ROOT / "Cargo.toml").read_text()
    return re.search(r'\[workspace\.package\]\nversion = "(.*?)"', manifest).group(1)


def build(arguments):
    """Builds every program with zig's linker, against the oldest glibc."""
    target = f"{TARGET}.{dotted(GLIBC)}"
    command = ["cargo", "zigbuild", "--release", "--locked", "--target", target]
    command += ["--target-dir", str(arguments.target_dir)]
    features = ["--features", arguments.features] if arguments.features else []
    programs = ["--bin", PROGRAM, "--bin", "bootstrap", "--bin", "epochcost-s3"]
    run(command + programs + features)
    run(command + ["-p", "epochcost-tensordb"])
    return arguments.target_dir / TARGET / "release"


def run(command):
    print("+", " ".join(command), flush=True)
    if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
        sys.exit("error: the build failed; pip install cargo-zigbuild ziglang, and apt-get install libclang-dev")


def newest_glibc(binaries):
    """Returns the newest version of glibc that a symbol of the programs asks for."""
    newest = (0, 0)
    for name in [PROGRAM, *PRIVATE]:
        path = binaries / name
        if not path.is_file():
            sys.exit(f"error: there is no {path}")
        symbols = subprocess.run(["objdump", "-T", path], capture_output=True, text=True, check=True)
        for major, minor in re.findall(r"GLIBC_(\d+)\.(\d+)", symbols.stdout):
            newest = max(newest, (int(major), int(minor)))
    return newest


def dotted(version):
    return ".".join(map(str, version))


def contents(binaries, with_licences):
    """Returns path in the package, bytes and whether it is a program, of every file."""
    files = [(f"bin/{PROGRAM}", stripped(binaries / PROGRAM), True)]
    files += [(f"{PRIVATE_DIRECTORY}/{name}", stripped(binaries / name), True) for name in PRIVATE]
    for name in ["README.md", "CITATION.cff", "LICENSE-APACHE", "LICENSE-MIT"]:
        files.append((f"{DOCUMENTS}/{name}", (ROOT / name).read_bytes(), False))
    if with_licences:
        files.append((f"{DOCUMENTS}/THIRD-PARTY.txt", third_party().encode(), False))
    return files


def stripped(path):
    """Returns a program without the symbols that only a debugger reads."""
    copy = path.with_name(path.name + ".stripped")
    shutil.copy(path, copy)
    try:
        subprocess.run(["strip", "--strip-unneeded", copy], check=True)
        return copy.read_bytes()
    finally:
        copy.unlink()


def third_party():
    """Returns names and licence texts of every crate that is linked, each text once."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", TARGET]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    texts, stated = {}, []
    for identifier in linked(metadata):
        package = packages[identifier]
        if package["source"] is None:
            continue
        name = f"{package['name']} {package['version']}"
        found = licence_files(Path(package["manifest_path"]).parent)
        stated.append(f"{name}: {package['license'] or 'see its licence file'}")
        for text in found:
            texts.setdefault(text, []).append(name)
    parts = ["Crates in the programs of epochcost, and their licences.\n", "\n".join(sorted(stated)) + "\n"]
    for text, names in sorted(texts.items(), key=lambda item: sorted(item[1])):
        parts.append(f"{'=' * 80}\n{', '.join(sorted(names))}\n\n{text}\n")
    return "\n".join(parts)


def linked(metadata):
    """Returns the ids of what the programs link: no dependencies of tests or of builds."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    roots = {"epochcost", "epochcost-worker", "epochcost-tensordb", "epochcost-s3-server"}
    waiting = [p["id"] for p in metadata["packages"] if p["source"] is None and p["name"] in roots]
    seen = set()
    while waiting:
        identifier = waiting.pop()
        if identifier in seen:
            continue
        seen.add(identifier)
        for dependency in nodes[identifier]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])
    return sorted(seen)


def licence_files(directory):
    pattern = re.compile(r"^(licen[cs]e|copying|notice|unlicense)", re.IGNORECASE)
    files = sorted(path for path in directory.iterdir() if path.is_file() and pattern.match(path.name))
    return [path.read_text(errors="replace").strip() for path in files]


def write_archive(out, files):
    """Writes `epochcost-x86_64-linux.tar.gz` and its checksum."""
    path = out / f"{ASSET}.tar.gz"
    tarred = io.BytesIO()
    with tarfile.open(fileobj=tarred, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, content, is_program in files:
            entry = tarfile.TarInfo(f"{ASSET}/{name}")
            entry.size, entry.mode = len(content), 0o755 if is_program else 0o644
            archive.addfile(entry, io.BytesIO(content))
    path.write_bytes(gzip.compress(tarred.getvalue(), 9, mtime=0))
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_name(path.name + ".sha256").write_text(f"{checksum}  {path.name}\n")
    return path


def write_wheel(out, version, files):
    """Writes a wheel whose programs go to `bin` and `libexec` of the environment."""
    path = out / f"epochcost-{version}-{WHEEL_TAG}.whl"
    data, info = f"epochcost-{version}.data", f"epochcost-{version}.dist-info"
    entries = []
    for name, content, is_program in files:
        if name.startswith("bin/"):
            entries.append((f"{data}/scripts/{name.removeprefix('bin/')}", content, is_program))
        elif name.startswith(DOCUMENTS) and ("LICENSE" in name or "THIRD-PARTY" in name):
            entries.append((f"{info}/licenses/{Path(name).name}", content, False))
        elif name.startswith(PRIVATE_DIRECTORY):
            entries.append((f"{data}/data/{name}", content, is_program))
    wheel = f"Wheel-Version: 1.0\nGenerator: packaging/package.py\nRoot-Is-Purelib: false\nTag: {WHEEL_TAG}\n"
    entries.append((f"{info}/WHEEL", wheel.encode(), False))
    entries.append((f"{info}/METADATA", wheel_metadata(version).encode(), False))
    record = [f"{name},sha256={url_hash(content)},{len(content)}" for name, content, _ in entries]
    record.append(f"{info}/RECORD,,")
    entries.append((f"{info}/RECORD", ("\n".join(record) + "\n").encode(), False))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content, is_program in entries:
            entry = zipfile.ZipInfo(name, TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if is_program else 0o100644) << 16
            archive.writestr(entry, content)
    return path


def wheel_metadata(version):
    summary = "When does serverless training pay? A benchmark harness and reproduction suite"
    licences = ["LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY.txt"]
    return "\n".join(
        ["Metadata-Version: 2.4", "Name: epochcost", f"Version: {version}", f"Summary: {summary}"]
        + ["License-Expression: MIT OR Apache-2.0"]
        + [f"License-File: {name}" for name in licences if name != "THIRD-PARTY.txt"]
        + ["Requires-Python: >=3.8", "Description-Content-Type: text/markdown", "", readme()]
    )


def readme():
    return (ROOT / "README.md").read_text()


def url_hash(content):
    digest = hashlib.sha256(content).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


if __name__ == "__main__":
    os.umask(0o022)
    main()
