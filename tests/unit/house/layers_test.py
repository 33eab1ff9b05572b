#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# layers_test.py - CMake stops at a use that the design does not allow, and says which; allowed ones pass.
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]


def configure(lines):
    with tempfile.TemporaryDirectory() as folder:
        head = ["cmake_minimum_required(VERSION 3.25)", "project(toy C)", f'include("{ROOT}/cmake/MantaLayers.cmake")']
        pathlib.Path(folder, "CMakeLists.txt").write_text("\n".join(head + lines) + "\n")
        pathlib.Path(folder, "x.c").write_text("typedef int x;\n")
        command = ["cmake", "-G", "Ninja", "-S", folder, "-B", f"{folder}/build"]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        return run.returncode, " ".join(run.stderr.split())


class Layers(unittest.TestCase):
    def test_an_allowed_use_passes(self):
        self.assertEqual(configure(["manta_module(base SOURCES x.c)", "manta_module(lane SOURCES x.c USES base)"])[0], 0)

    def test_an_upward_use_is_refused(self):
        code, text = configure(["manta_module(base SOURCES x.c USES lane)"])
        self.assertNotEqual(code, 0)
        self.assertIn("manta_module(base): may not use 'lane'", text)

    def test_libmanta_may_not_use_grpc(self):
        code, text = configure(["manta_module(lib SOURCES x.c USES base rpc)"])
        self.assertNotEqual(code, 0)
        self.assertIn("manta_module(lib): may not use 'rpc'", text)

    def test_an_unknown_module_is_refused(self):
        code, text = configure(["manta_module(misc SOURCES x.c)"])
        self.assertNotEqual(code, 0)
        self.assertIn("unknown module", text)


if __name__ == "__main__":
    unittest.main()
