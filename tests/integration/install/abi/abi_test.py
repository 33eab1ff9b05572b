#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""abi_test.py BUILD_FOLDER - programs of the last release run with the present libraries (docs/design/abi.md).

What is kept of it stands in abi/<release>/. The libraries are installed into a private prefix, as a user has them.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[3]
sys.path.insert(0, str(ROOT / "scripts"))
import abi  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve()
RELEASES = sorted((ROOT / "abi").glob("*/COMMIT"), key=lambda path: [int(part) for part in path.parent.name.split(".")])
CALL_S = 120  # longest life of one program


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          timeout=CALL_S, **options)
    assert done.returncode == 0, f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}"


class Abi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="abi-")
        cls.work = pathlib.Path(cls.folder.name)
        cls.release = RELEASES[-1].parent
        cls.libraries = abi.installed(BUILD, cls.work / "prefix")
        cls.environment = {name: value for name, value in os.environ.items() if not name.startswith("MANTA_")}
        cls.environment |= {"BUILT_BEFORE": str(cls.work)}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def build(self, compiler, standard, source, headers):
        program = self.work / source.split(".")[0]
        run(compiler, standard, "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", f"-I{headers}", HERE / source, f"-L{self.libraries}",
            *(f"-l{name}" for name in abi.LIBRARIES), f"-Wl,-rpath,{self.libraries}", "-o", program)
        return program

    def test_nothing_that_programs_rely_on_has_changed(self):
        self.assertEqual(abi.check(BUILD, self.release), [])

    def test_program_of_the_release_runs(self):
        run(self.build("gcc", "-std=c11", "built_before.c", self.release / "include"), env=self.environment, cwd=self.work)

    def test_addresses_in_cxx_of_then_and_of_now(self):
        for headers in (self.release / "include", self.work / "prefix/include"):
            with self.subTest(headers=headers.parent.name):
                run(self.build("g++", "-std=c++17", "address.cpp", headers), env=self.environment, cwd=self.work)

    def test_ctypes(self):
        run(sys.executable, HERE / "by_ctypes.py", self.libraries / "libmanta.so.0", env=self.environment)


if __name__ == "__main__":
    if not RELEASES or not shutil.which("abidw"):
        print("no release is kept in abi/, or abidw is not installed (Debian: abigail-tools)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
