#!/usr/bin/env python3
"""Tests of the packages: each is installed where there is neither source nor cargo.

    python3 packaging/test.py target/release        # programs that are built already

The directory holds epochcost, bootstrap, epochcost-s3 and libepochcost_tensordb.so.
"""

import functools
import hashlib
import http.server
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ASSET = "epochcost-x86_64-linux.tar.gz"
# What a machine without Rust has.
BARE = "/usr/bin:/bin"
# One system, for seconds; the smoke run has all of them.
SMALL = """\
schema: 1
name: small
platform: local
dataset: {name: synthetic-mnist, train: 128, test: 32}
model: lenet5
workers: 2
batch_size: 32
epochs: 1
systems: [allreduce]
"""
BINARIES = None
PACKAGES = None


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def serve(directory):
    """Serves a directory on loopback; returns its address and the server."""
    handler = functools.partial(Quiet, directory=str(directory))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}", server


class Packages(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.directory = Path(kept.name)
        self.work = self.directory / "work"
        self.work.mkdir()

    def run_in_work(self, *command, code=0):
        home = {"PATH": BARE, "HOME": str(self.directory), "no_proxy": "*"}
        ended = subprocess.run(
            list(map(str, command)), cwd=self.work, env=home, capture_output=True, text=True, check=False
        )
        self.assertEqual(ended.returncode, code, ended.stdout + ended.stderr)
        return ended.stdout + ended.stderr

    def trains(self, program, experiment):
        """An experiment, to the report."""
        began = time.monotonic()
        self.run_in_work(program, "run", experiment, "--out", "run")
        print(f"\n{program.name} run {experiment}: {time.monotonic() - began:.0f} s")
        page = (self.work / "run/report.html").read_text()
        self.assertIn("<!doctype html>", page[:200].lower())
        found = self.run_in_work(program, "doctor", "--wide")
        self.assertIn("libexec/epochcost/bootstrap", found)
        self.assertIn("libexec/epochcost/libepochcost_tensordb.so", found)

    def test_a_wheel_brings_both_programs(self):
        subprocess.run([sys.executable, "-m", "venv", self.directory / "venv"], check=True)
        python = self.directory / "venv/bin/python"
        wheel = next(PACKAGES.glob("*.whl"))
        # Tags of a machine with an older glibc than the programs would be refused by name.
        self.run_in_work(python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel)
        program = self.directory / "venv/bin/epochcost"
        self.assertEqual(os.listdir(self.directory / "venv/libexec"), ["epochcost"])
        self.assertFalse((self.directory / "venv/bin/bootstrap").exists())
        self.trains(program, "smoke")
        self.run_in_work(python, "-m", "pip", "uninstall", "--quiet", "--yes", "epochcost")
        self.assertFalse(program.exists())
        self.assertFalse((self.directory / "venv/libexec/epochcost/bootstrap").exists())

    def test_a_wheel_is_what_its_record_states(self):
        with zipfile.ZipFile(next(PACKAGES.glob("*.whl"))) as wheel:
            names = wheel.namelist()
            info = next(name for name in names if name.endswith("RECORD"))
            lines = [line.split(",") for line in wheel.read(info).decode().splitlines()]
            self.assertEqual(sorted(line[0] for line in lines), sorted(names))
            for name, checksum, size in lines:
                if name != info:
                    content = wheel.read(name)
                    self.assertEqual(int(size), len(content))
                    self.assertTrue(checksum.startswith("sha256="))
            licences = [name for name in names if "/licenses/" in name]
            self.assertGreaterEqual(len(licences), 2)

    def test_the_installer_installs_and_installs_again(self):
        address, server = serve(PACKAGES)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        prefix = self.directory / "prefix"
        installer = ["sh", HERE / "install.sh", "--prefix", prefix, "--from", address]
        self.assertIn("run smoke", self.run_in_work(*installer))
        (self.work / "small.yaml").write_text(SMALL)
        self.trains(prefix / "bin/epochcost", "small.yaml")
        (prefix / "libexec/epochcost/old").write_text("")
        self.run_in_work(*installer)
        self.assertFalse((prefix / "libexec/epochcost/old").exists())
        # Somewhere else, by a link on the path.
        (self.directory / "link").symlink_to(prefix / "bin/epochcost")
        self.assertIn("libexec", self.run_in_work(self.directory / "link", "doctor", "--wide"))

    def test_the_installer_refuses_what_is_damaged_or_missing(self):
        damaged = self.directory / "damaged"
        shutil.copytree(PACKAGES, damaged)
        content = bytearray((damaged / ASSET).read_bytes())
        content[len(content) // 2] ^= 1
        (damaged / ASSET).write_bytes(content)
        address, server = serve(damaged)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        prefix = self.directory / "prefix"
        installer = ["sh", HERE / "install.sh", "--prefix", prefix, "--from"]
        self.assertIn("checksum", self.run_in_work(*installer, address, code=1))
        self.assertIn("failed to fetch", self.run_in_work(*installer, f"{address}/none", code=1))
        self.assertFalse(prefix.exists())
        self.assertIn("--help", self.run_in_work("sh", HERE / "install.sh", "--what", code=1))

    def test_the_same_programs_make_the_same_packages(self):
        again = self.directory / "again"
        package(again)
        for path in PACKAGES.iterdir():
            checksums = [hashlib.sha256(p.read_bytes()).digest() for p in (path, again / path.name)]
            self.assertEqual(*checksums, path.name)


def package(out):
    command = [sys.executable, HERE / "package.py", "--binaries", BINARIES, "--out", out]
    subprocess.run([*command, "--any-glibc", "--no-licences"], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    BINARIES = Path(sys.argv.pop(1)).resolve()
    with tempfile.TemporaryDirectory() as built:
        PACKAGES = Path(built)
        package(PACKAGES)
        unittest.main()
