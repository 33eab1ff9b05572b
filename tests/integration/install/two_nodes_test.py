#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""two_nodes_test.py BUILD_FOLDER CASE - installed programs on two nodes, as on machines that have never seen each other's folders.

Everything is installed into a private prefix that no loader path knows; a user's program stands in bin/ beside lib/ with its own
library and finds both, and Manta's, by run paths that begin with $ORIGIN. So whatever runs on the second node must bring its
libraries along.

program        a task, an actor and a detached actor on the other node, with the user's own library
changed        a file of the second node's cache is changed: that is seen before it is run, and it is fetched again
own            a library that the second node's installation has too is not sent, as long as it is the same
installed      a program that the second node's installation has, as it has all its libraries, is run from there, as long as it is the same
apart          the same where the library stands elsewhere on the disk, so that both have only the root of all in common: it is sent
broken         a library that is missing on the nodes is named in the error, with the loader's line, of a task and of a detached actor
noexec         a second node whose folders are mounted noexec runs programs from memory, and says so
bad_node       such a node among good ones: a sweep and a training run where they can, and say what is left out
users          the same program where jobs have users of their own, who may read and not write
train          `manta train` with scaling.nodes: 2
train_detached `manta train` whose driver is detached (run.detached)
private_detached the same on a private cluster
sweep          `manta sweep` with a slot on each node
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "chaos"))
import cluster  # noqa: E402  two nodes as children of this test

BUILD, CASE = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
CALL_S = 120  # longest life of one command


class Installed:
    """A prefix, a user's folder, and two nodes of one CPU each, started from the prefix."""

    def __init__(self, folder, *options, noexec=False):
        self.folder = pathlib.Path(folder)
        self.prefix = self.folder / "prefix"
        self.run("cmake", "--install", BUILD, "--prefix", self.prefix)
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith("MANTA_") and name not in ("LD_LIBRARY_PATH", "LD_RUN_PATH")}
        self.environment |= {"MANTA_ADDRESS": str(self.folder / "c/n0"), "MANTA_SWEEPS": str(self.folder / "sweeps")}
        (self.folder / "c").mkdir(mode=0o700)
        before = {"raylet1": self.without_exec(self.folder / "c/n1")} if noexec else None
        self.nodes = cluster.Cluster(self.prefix, self.folder / "c", 1, *options, before=before)

    @staticmethod
    def without_exec(folder):
        """The words before a command whose runtime folder, and place for files of a while, is to be mounted noexec."""
        return ["unshare", "-m", "sh", "-c", f"mount -t tmpfs -o noexec,mode=0700 none {folder} && export TMPDIR={folder} && exec \"$@\"", "sh"]

    def run(self, *words, **options):
        done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=CALL_S, check=False, **options)
        assert done.returncode == 0, f"{' '.join(map(str, words))}: exit {done.returncode}\n{done.stdout}\n{self.logs()[-4000:]}"
        return done.stdout

    def logs(self):
        log = self.folder / "c/daemons.log"
        return log.read_text(errors="replace") if log.exists() else ""

    def drive(self, *words):
        return self.run(*words, env=self.environment, cwd=self.folder)

    def build_program(self):
        """The user's program: bin/two_nodes, lib/libanswer.so; the prefix stands beside both."""
        source, user = HERE / "program", self.folder / "user"
        (user / "bin").mkdir(parents=True)
        (user / "lib").mkdir()
        libdir = next(self.prefix.rglob("pkgconfig")).parent
        origin = f"-Wl,-rpath,$ORIGIN/../lib:$ORIGIN/../../{libdir.relative_to(self.folder)}"
        self.run("gcc", "-shared", "-fPIC", source / "answer.c", "-o", user / "lib/libanswer.so", "-Wl,-soname,libanswer.so")
        self.run("gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", source / "two_nodes.c", f"-I{self.prefix}/include",
                 f"-L{libdir}", "-lmanta", f"-L{user}/lib", "-lanswer", origin, "-o", user / "bin/two_nodes")
        return user / "bin/two_nodes"

    def release(self):
        """The same programs as another release's, which no node has: they are sent."""
        other = self.folder / "other"
        shutil.copytree(self.prefix, other, symlinks=True)
        for name in ("manta-sweep", "manta-train"):
            with open(other / "bin" / name, "ab") as file:
                file.write(b"another release")
        return other / "bin/manta"

    def stop(self):
        bad = self.nodes.stop()
        assert not bad, f"{bad}\n{self.logs()[-4000:]}"


def ask(at, path, way):
    """Runs the program, and checks that what ran there had its library from beside itself. Gives the library's path."""
    answer, ran, library = at.drive(path, way).split()
    assert int(answer) == 42, (way, answer)
    assert not ran.startswith("/memfd:"), f"{way}: run from memory, where $ORIGIN is no folder: {ran}"
    assert pathlib.Path(ran) != path, (way, ran)
    assert os.path.normpath(library) == str(pathlib.Path(ran).parent.parent / "lib/libanswer.so"), (way, ran, library)
    return pathlib.Path(os.path.normpath(library))


def program(at):
    path = at.build_program()
    for way in ("task", "actor", "detached"):
        ask(at, path, way)
    for kept in (at.folder / "c/n1/programs").rglob("*"):
        assert kept.is_symlink() or kept.stat().st_mode & 0o7777 == 0o555, kept
    assert len(list((at.folder / "c/n1/programs").iterdir())) == 1, "one program, kept once"


def changed(at):
    path = at.build_program()
    library = ask(at, path, "task")
    library.chmod(0o755)
    with open(library, "r+b") as file:
        file.write(b"nothing")
    assert ask(at, path, "task") == library
    assert "program_changed" in at.logs() and library.read_bytes()[1:4] == b"ELF"


def own(at):
    """The driver has a copy of Manta's library, and the second node, which has the same one in its installation, uses that; when it
    turns into another, the driver's is sent."""
    path = at.build_program()
    there, = at.prefix.rglob("libmanta.so.0")
    sent = path.parent.parent / "lib" / there.name
    shutil.copy(there, sent)
    kept = ask(at, path, "task").parent / there.name
    assert kept.is_symlink() and kept.resolve() == there.resolve(), kept
    other = there.read_bytes().replace(b"GCC: (", b"GCC: [", 1)
    replaced = there.resolve()
    replaced.unlink()
    replaced.write_bytes(other)
    assert other != sent.read_bytes() and len(other) == sent.stat().st_size
    kept = ask(at, path, "task").parent / there.name
    assert "program_changed" in at.logs() and not kept.is_symlink() and kept.read_bytes() == sent.read_bytes(), kept


def installed(at):
    """As `own`, and the program and its other library stand in the installation too; then another program stands there."""
    path = at.build_program()
    library, = at.prefix.rglob("libmanta.so.0")
    shutil.copy(library, path.parent.parent / "lib" / library.name)
    shutil.copy(path.parent.parent / "lib/libanswer.so", library.parent)
    there = pathlib.Path(shutil.copy(path, at.prefix / "bin"))
    for way in ("task", "actor", "detached"):
        answer, ran, loaded = at.drive(path, way).split()
        if way == "detached" and at.folder / "c/n1/jobs" in pathlib.Path(ran).parents:
            continue  # its warden, a job, may run on any node: on this one its actor is made of the job's own files
        assert int(answer) == 42 and pathlib.Path(ran) == there, (way, ran)
        assert pathlib.Path(loaded).resolve() == library.parent / "libanswer.so", (way, loaded)
    assert not list((at.folder / "c/n1/programs").iterdir()), "nothing is kept twice"
    other = there.read_bytes().replace(b"GCC: (", b"GCC: [", 1)
    there.unlink()
    there.write_bytes(other)
    there.chmod(0o755)
    assert other != path.read_bytes() and len(other) == path.stat().st_size
    kept = ask(at, path, "task")
    assert "program_changed" in at.logs() and at.folder / "c/n1/programs" in kept.parents, kept
    assert there.read_bytes() == other, "what the installation has is left alone"


def apart(at):
    path = at.build_program()
    there = pathlib.Path(shutil.copy(path, at.prefix / "bin"))
    library, = at.prefix.rglob("libmanta.so.0")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as elsewhere:
        shutil.copy(path.parent.parent / "lib/libanswer.so", elsewhere)
        at.environment["LD_LIBRARY_PATH"] = f"{elsewhere}:{library.parent}"
        answer, ran, loaded = at.drive(there, "task").split()
    assert int(answer) == 42 and pathlib.Path(ran) != there, (ran, loaded)


def fails(at, path, way):
    done = subprocess.run([path, way], env=at.environment, cwd=at.folder, capture_output=True, text=True, timeout=CALL_S)
    assert done.returncode, done.stdout
    return done.stderr


def broken(at):
    """The library is gone when the workers, or the warden of a detached actor, are to be started: nobody has it any more."""
    path = at.build_program()
    library = path.parent.parent / "lib/libanswer.so"
    at.environment["TWO_NODES_HIDE"] = str(library)
    kept = library.read_bytes()
    for way in ("task", "detached"):
        library.write_bytes(kept)
        said = fails(at, path, way)
        assert "error while loading shared libraries: libanswer.so" in said, said
    assert re.search("job_ended job=actor.* attempt=2 ", at.logs()), at.logs()  # it may restart without limit: once on each node


def noexec(at):
    path = at.build_program()
    said = fails(at, path, "task")
    assert "node 2" in said and "error while loading shared libraries" in said and "noexec" in said, said
    assert "programs_in_memory" in at.logs()


def bad_node(at):
    """No trial ends before the bad node was tried: the good one would do them all."""
    manta = at.release()
    tried = f"until grep -q 'node_shunned node=2' {at.folder}/c/daemons.log; do sleep 0.05; done"
    said = at.drive(manta, "sweep", sweep_write(at, tried), "--quiet")
    assert "6 completed" in said, said
    assert "node_shunned node=2" in at.logs() and "noexec" in at.logs(), at.logs()
    said = at.drive(manta, "train", job(at, run="{epochs: 2, batch: 32}"))
    assert "node 2 has no workers of this run" in said and "error while loading shared libraries" in said, said
    assert "node=1" in said and "node=2" not in said, said


def users(at):
    path = at.build_program()
    kept = ask(at, path, "task")
    ask(at, path, "detached")
    for file in (kept, kept.parent, *kept.parents[1:3]):
        assert file.stat().st_uid == 0 and not file.stat().st_mode & 0o222 or file.parent == pathlib.Path("/tmp"), file


def table(at):
    rows = ["a,b,kind"] + [f"{i % 7},{i % 5},{i % 2}" for i in range(256)]
    path = at.folder / "train.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def job(at, **sections):
    text = f"""model: {{name: mlp, hidden: [8]}}
data: {{path: {table(at)}, label: kind}}
optimizer: {{kind: adamw, lr: 0.001}}
scaling: {{min_workers: 2, max_workers: 2, nodes: 2}}
seed: 1
"""
    for name, value in sections.items():
        text += f"{name}: {value}\n"
    path = at.folder / "job.yaml"
    path.write_text(text)
    return path


def train(at):
    said = at.drive(at.prefix / "bin/manta", "train", job(at, run="{epochs: 2, batch: 32}"))
    assert "loss" in said and {words.split()[0] for words in said.split("node=")[1:]} == {"1", "2"}, said


def train_detached(at):
    name = "{epochs: 2, batch: 32, detached: true, name: far}"
    said = at.drive(at.prefix / "bin/manta", "train", job(at, run=name))
    assert "loss" in said or "detached" in said, said


def private_detached(at):
    (at.folder / "p").mkdir(mode=0o700)
    environment = at.environment | {"MANTA_ADDRESS": "", "XDG_RUNTIME_DIR": str(at.folder / "p")}
    path = job(at, run="{epochs: 2, batch: 32, detached: true, name: near}")
    said = at.run(at.prefix / "bin/manta", "train", path, env=environment, cwd=at.folder)
    assert "loss=" in said and not list((at.folder / "p/manta").iterdir()), said


def sweep_write(at, then):
    """Two trials at a time and one CPU on each node: each trial writes which program has started it."""
    path = at.folder / "both.yaml"
    seen = at.folder / "seen"
    path.write_text(f"""name: both
metric: loss
trials: 6
concurrency: 2
trial: {{command: [sh, -c, "readlink /proc/$PPID/exe >>{seen}; {then}; echo loss={{x}}"]}}
space:
  x: {{type: uniform, low: 0, high: 1}}
""")
    return path


def sweep(at):
    seen = at.folder / "seen"
    both = f"until [ $(sort -u {seen} | wc -l) = 2 ]; do sleep 0.05; done"  # the program takes its time to the second node
    said = at.drive(at.release(), "sweep", sweep_write(at, both), "--quiet")
    assert "6 completed" in said, said
    assert len(set(seen.read_text().split())) == 2, seen.read_text()


def main():
    options = []
    mounts = CASE in ("noexec", "bad_node")
    if (CASE == "users" and os.getuid()) or (mounts and subprocess.run(["unshare", "-m", "true"], check=False).returncode):
        print("only root can give users, or mount a folder")
        sys.exit(77)
    if CASE == "users":
        options = ["--job-users", "60100-60199"]
        tempfile.tempdir = os.environ["TMPDIR"] = "/tmp"  # where they can get to
    with tempfile.TemporaryDirectory(prefix="mi-") as folder:
        os.chmod(folder, 0o755)
        at = Installed(folder, *options, noexec=mounts)
        try:
            globals()[CASE](at)
        finally:
            at.stop()


if __name__ == "__main__":
    main()
