#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# torch_test.py BUILD_FOLDER PROGRAM - a program of programs.py in three processes, over the backend `manta`.
import pathlib
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import where  # noqa: E402

BUILD, PROGRAM = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
RANKS, LIMIT_S, SCRIPT = 3, 150, str(pathlib.Path(__file__).resolve().with_name("programs.py"))


class Backend(unittest.TestCase):
    def started(self):
        """The ranks, started here as torchrun does: it would end those that survive a death."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            there = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": str(RANKS)}
        for rank in range(RANKS):
            env = {**where.environment(BUILD), **there, "RANK": str(rank)}
            child = subprocess.Popen([PYTHON, SCRIPT, PROGRAM], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.addCleanup(child.wait)
            self.addCleanup(child.kill)
            yield child

    def test_program(self):
        if PROGRAM == "death":
            said = [child.communicate(timeout=LIMIT_S)[0] for child in list(self.started())]
            for rank in range(RANKS - 1):
                self.assertIn(f"ok {rank}\n", said[rank])
            return
        run = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS), SCRIPT, PROGRAM]
        env = where.environment(BUILD)
        done = subprocess.run(run, env=env, timeout=LIMIT_S, capture_output=True, text=True, check=False)
        for rank in range(RANKS):
            self.assertIn(f"ok {rank}\n", done.stdout, done.stderr[-4000:])
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])


if __name__ == "__main__":
    PYTHON = where.python_with_torch()
    unittest.main(argv=sys.argv[:1], verbosity=2)
