#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# install_test.py BUILD_FOLDER [LIBRARY ...] - a stranger's program builds and runs against the installed libraries.
#
# Installs into a private prefix, then for each public library: its headers compile as C11 and C++17, use_<library>.c (else
# a program that only includes the header) is built outside the tree by pkg-config and by find_package(Manta), and
# run; the library exports manta_* only. libmanta may need nothing but libc. Without a library yet: skipped (77).
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
BUILD, LIBRARIES = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
STRICT = ["-Wall", "-Wextra", "-Werror"]
LIBC = re.compile(r"(libc|libm|libdl|librt|libpthread|ld-linux-x86-64)\.so\.\d+")


def run(*command, **options):
    """Runs a command and gives its output; a failure shows it."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.work = pathlib.Path(cls.folder.name)
        cls.prefix = cls.work / "prefix"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        cls.libdir = next(cls.prefix.rglob("pkgconfig")).parent
        os.environ["PKG_CONFIG_PATH"] = str(cls.libdir / "pkgconfig")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def program(self, library):
        """A source outside the tree that uses the library."""
        written = HERE / f"use_{library}.c"
        text = written.read_text() if written.exists() else f"#include <{library}.h>\nint main(void)\n{{\n    return 0;\n}}\n"
        path = self.work / f"{library}.c"
        path.write_text(text)
        return path

    def test_headers_compile_as_c_and_cxx(self):
        for header in (self.prefix / "include").rglob("*.h"):
            for command in (["gcc", "-xc", "-std=c11"], ["g++", "-xc++", "-std=c++17"]):
                with self.subTest(header=header.name, compiler=command[0]):
                    options = ["-pedantic", *STRICT, "-fsyntax-only", f"-I{self.prefix}/include", "-"]
                    run(*command, *options, input=f"#include <{header.name}>\n")

    def test_cxx_wrapper_compiles(self):
        options = ["-pedantic", *STRICT, "-fsyntax-only", f"-I{self.prefix}/include", "-"]
        run("g++", "-xc++", "-std=c++17", *options, input="#include <manta.hpp>\n#include <manta.hpp>\n")

    def test_pkg_config_builds_a_program(self):
        for library in LIBRARIES:
            with self.subTest(library):
                flags = run("pkg-config", "--cflags", "--libs", library).split()
                program = self.work / f"{library}_pc"
                run("gcc", "-std=c11", *STRICT, self.program(library), *flags, "-o", program)
                run(program, timeout=60)  # as it is: no loader path knows the prefix, and nobody has run ldconfig

    def test_system_prefix_has_no_run_path(self):
        staged = self.work / "staged"
        run("cmake", "--install", BUILD, "--prefix", "/usr", env=os.environ | {"DESTDIR": str(staged)})
        for library in LIBRARIES:
            [package] = staged.rglob(f"{library}.pc")
            self.assertNotIn("rpath", package.read_text(), "the loader looks there anyway")

    def test_find_package_builds_a_program(self):
        sources = self.work / "project"
        sources.mkdir()
        lines = ["cmake_minimum_required(VERSION 3.25)", "project(stranger C)", "find_package(Manta 0.1 REQUIRED)"]
        for library in LIBRARIES:
            lines += [f"add_executable({library}_cm {self.program(library)})"]
            lines += [f"target_link_libraries({library}_cm Manta::{library})"]
        (sources / "CMakeLists.txt").write_text("\n".join(lines) + "\n")
        build = self.work / "project-build"
        run("cmake", "-G", "Ninja", "-S", sources, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", build)
        for library in LIBRARIES:
            with self.subTest(library):
                run(build / f"{library}_cm", timeout=60)

    def test_libraries_export_only_public_names(self):
        for library in LIBRARIES:
            with self.subTest(library):
                path = self.libdir / f"lib{library}.so.0"
                lines = [line.split() for line in run("nm", "-D", "--defined-only", path).splitlines()]
                names = [words[-1].split("@")[0] for words in lines if words[-2] != "A"]  # A: the version nodes themselves
                self.assertEqual([words[-1] for words in lines if words[-2] != "A" and "@@MANTA_0." not in words[-1]], [])
                self.assertTrue(names)
                self.assertEqual([name for name in names if not name.startswith("manta_")], [])

    def test_libmanta_needs_libc_only(self):
        if "manta" not in LIBRARIES:
            return
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", self.libdir / "libmanta.so.0"))
        self.assertEqual([name for name in needed if not LIBC.fullmatch(name)], [])


if __name__ == "__main__":
    if not LIBRARIES:
        print("no public library is built yet")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
