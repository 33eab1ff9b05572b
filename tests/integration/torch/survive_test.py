#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# survive_test.py BUILD_FOLDER - ranks of `python -m manta_torch` that are killed: the others go on, and the weights are those of a run
# in which nobody was.
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import where  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve()
RANKS, LIMIT_S, STEPS = 3, 240, 30
SCRIPT = str(pathlib.Path(__file__).resolve().with_name("survivor.py"))


class Survive(unittest.TestCase):
    calm_folder = None

    @classmethod
    def calm(cls):
        """Of a run that all tests share."""
        if not cls.calm_folder:
            cls.calm_folder = tempfile.TemporaryDirectory()
            cls.addClassCleanup(cls.calm_folder.cleanup)
            command = [PYTHON, "-m", "manta_torch", "--nproc", str(RANKS), SCRIPT, cls.calm_folder.name, ""]
            subprocess.run(command, env=where.environment(BUILD), timeout=LIMIT_S, check=True)
        return cls.calm_folder.name

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self, folder, kills, *options, loaded=0, words=None):
        folder = os.path.join(self.folder, folder)
        os.mkdir(folder)
        command = words or [PYTHON, "-m", "manta_torch", "--nproc", str(RANKS)]
        command = [*command, *options, *(["--", PYTHON] if words else []), SCRIPT, folder, kills, str(loaded)]
        env = where.environment(BUILD) | {"XDG_RUNTIME_DIR": self.folder, "MANTA_ADDRESS": ""}
        run = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(run.wait)
        self.addCleanup(run.terminate)
        return folder, run

    def run_whole(self, *how, **more):
        folder, run = self.start(*how, **more)
        said = run.communicate(timeout=LIMIT_S)[0]
        self.assertEqual(run.returncode, 0, said)
        return folder, said

    def assert_calm(self, folder, ranks=range(RANKS)):
        """The weights there are those of a run in which nobody dies."""
        for rank in ranks:
            self.assertEqual(*(pathlib.Path(one, f"{rank}.weights").read_text() for one in (self.calm(), folder)), rank)

    def test_kills_change_nothing(self):
        """At the beginning of a step, in a backward pass, behind the optimizer; rank 0, two at once; a spare, then a new process."""
        killed, said = self.run_whole("killed", "1@3,0@7,2@11,0@20,1@20", "--spares", "1", loaded=RANKS + 1)
        self.assertEqual(said.count("ended with -9"), 5, said)
        self.assert_calm(killed)
        with open(os.path.join(killed, "events"), encoding="ascii") as file:
            events = file.read()
        spare = re.search(r"step 1 4 (\d+)", events)[1]
        self.assertLess(events.index(f"loaded {spare} "), events.index("kill 1 3"), "it was there before")
        survivor = re.search(r"step 2 28 (\d+)", events)[1]  # killed at 11, never after: one process from there on
        self.assertEqual(len(re.findall(rf"step 2 \d+ {survivor}\n", events)), STEPS - 12, events)

    def run_gang(self, folder, kills, *options):
        words = [str(BUILD / "bin" / "manta"), "run", "-n", str(RANKS), "--cpus", "0", "--restart-rank"]
        return self.start(folder, kills, *options, words=words)

    def test_under_manta_run(self):
        """The same in the ranks of a gang: replaced by `manta run` alone, the weights are those of the other supervisor's undisturbed run."""
        killed, run = self.run_gang("killed", "1@3,0@7,2@11,0@20,1@20")
        said = run.communicate(timeout=LIMIT_S)[0]
        self.assertEqual(run.returncode, 0, said)
        self.assertEqual(said.count("it is started again, the others go on"), 5, said)
        self.assert_calm(killed)
        with open(os.path.join(killed, "events"), encoding="ascii") as file:
            events = file.read()
        self.assertEqual(events.count("loaded"), RANKS + 5, events)
        survivor = re.search(r"step 2 28 (\d+)", events)[1]  # killed at 11, never after
        self.assertEqual(len(re.findall(rf"step 2 \d+ {survivor}\n", events)), STEPS - 12, events)
        _, run = self.run_gang("none", "1@3,0@7", "--max-restarts", "1")
        said = run.communicate(timeout=LIMIT_S)[0]
        self.assertEqual(run.returncode, 128 + 9, said)

    def test_a_rank_that_finishes_without_a_farewell(self):
        """Behind the last step the others are done too; before it they can't go on, and say why."""
        for start in (self.start, self.run_gang):
            folder, run = start(f"last-{start.__name__}", f"exit@{STEPS - 1}")
            said = run.communicate(timeout=LIMIT_S)[0]
            self.assertEqual(run.returncode, 0, said)
            self.assert_calm(folder, (0, 2))
            _, run = start(f"early-{start.__name__}", "exit@5")
            said = run.communicate(timeout=LIMIT_S)[0]
            self.assertEqual(run.returncode, 1, said)
            self.assertIn("NoGeneration: EEND: rank 1 has finished (exit status 0)", said)

    def test_no_replacement_is_left(self):
        _, run = self.start("none", "1@3", "--max-restarts", "0")
        said = run.communicate(timeout=LIMIT_S)[0]
        self.assertEqual(run.returncode, 128 + 9, said)
        self.assertIn("no further replacement is allowed", said)

    def test_a_step_that_fails_by_itself(self):
        _, run = self.start("raise", "raise", "--max-restarts", "1")
        said = run.communicate(timeout=LIMIT_S)[0]
        self.assertEqual(run.returncode, 1, said)
        self.assertIn("ValueError: a step of the user's fails", said)

    def test_bad_input(self):
        alone = "import manta_torch\ntry: manta_torch.init()\nexcept manta_torch.BadArgument as error: print(error)\n"
        alone += "try: manta_torch.survive(None, None, None, 1)\nexcept manta_torch.BadArgument as error: print(error)"
        env = where.environment(BUILD)
        said = subprocess.run([PYTHON, "-c", alone], env=env, capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout
        self.assertIn("has no supervisor", said)
        self.assertIn("manta_torch.init comes first", said)
        for options in (["--nproc", "0"], ["--nproc", "65"], ["--spares", "-1"], []):
            command = [PYTHON, "-m", "manta_torch", *options, *["x.py"][: len(options)]]
            self.assertEqual(subprocess.run(command, env=env, capture_output=True, check=False).returncode, 2, options)

    def test_the_supervisor_is_ended(self):
        folder, run = self.start("ended", "")
        while not os.path.exists(os.path.join(folder, "events")):
            self.assertIsNone(run.poll())
            time.sleep(0.05)  # a busy look would take a CPU from those who load torch
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=LIMIT_S)
        self.assertEqual(run.returncode, 128 + signal.SIGTERM)
        with open(os.path.join(folder, "events"), encoding="ascii") as file:
            for pid in re.findall(r"loaded (\d+)", file.read()):
                self.assertFalse(os.path.exists(f"/proc/{pid}"), "a rank is left over")


if __name__ == "__main__":
    PYTHON = where.python_with_torch()
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
