#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# leftovers.py - what a test run leaves behind, counted.
#
#   leftovers.py snapshot FILE            writes down what is there before the run
#   leftovers.py check FILE FOLDER...     names what has come since and is ours; exit status 1 where there is any
#
# Ours is: a process that carries this run's MANTA_TEST_RUN, or that runs a program of this tree's build folder; a file
# in /dev/shm with "manta" in its name, but where a process of others works (a server of another run beside this one);
# anything in the FOLDERs, which the run had for itself. Processes are given some time to end.
import json
import os
import pathlib
import sys
import time

BUILD = str(pathlib.Path(__file__).resolve().parent.parent / "build") + "/"
SHM = pathlib.Path("/dev/shm")
PATIENCE_S = 30.0


def start_time(pid):
    """Clock ticks since boot; with the pid it names a process for ever. The name may hold blanks and brackets."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]


def our_processes():
    """Maps "pid:start" to a description. Ancestors of this script carry the mark too, and are not left over."""
    mark = f"MANTA_TEST_RUN={os.environ.get('MANTA_TEST_RUN', '-')}".encode()
    ancestors, pid = set(), os.getpid()
    while pid > 1:
        ancestors.add(pid)
        pid = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in ancestors:
            continue
        try:
            marked = mark in (entry / "environ").read_bytes().split(b"\0")
            program = os.readlink(entry / "exe")
            if marked or program.startswith(BUILD):
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                found[f"{entry.name}:{start_time(entry.name)}"] = f"process {entry.name}: {command or program}"
        except (OSError, IndexError):
            continue  # gone meanwhile, a kernel thread, or not of this user
    return found


def folders_of_others(ours):
    """Where processes work that are not this run's."""
    found, pids = set(), {key.split(":")[0] for key in ours}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and entry.name not in pids:
                found.add(os.readlink(entry / "cwd"))
        except OSError:
            continue
    return found


def our_shared_memory():
    others = folders_of_others(our_processes())
    return {f"{path}": f"shared memory {path}" for path in SHM.glob("*manta*") if str(path) not in others}


def paths_below(folder):
    """What goes while it is looked at is not left over: os.walk passes over folders that are gone, pathlib's walk raises."""
    for root, folders, files in os.walk(folder):
        yield from (pathlib.Path(root, name) for name in folders + files)


def is_runtime_folder(path, folder):
    """The folder that all clusters of a user share stays, as /run/user does; what is in it must go."""
    return path.parent == pathlib.Path(folder) and path.name == "manta" and path.is_dir() and not any(paths_below(path))


def is_compiler_cache(path):
    """Where tests compile, ccache keeps its own files in the runtime folder that it is told."""
    return "ccache-tmp" in path.parts


def our_files(folders):
    return {f"{path}": f"file {path}" for folder in folders for path in paths_below(folder)
            if not is_runtime_folder(path, folder) and not is_compiler_cache(path)}


def new_since(before, folders):
    now = {**our_processes(), **our_shared_memory(), **our_files(folders)}
    return [text for key, text in sorted(now.items()) if key not in before]


def main(command, file, *folders):
    if command == "snapshot":
        pathlib.Path(file).write_text(json.dumps(sorted({**our_processes(), **our_shared_memory()})))
        return 0
    before = set(json.loads(pathlib.Path(file).read_text()))
    deadline = time.monotonic() + PATIENCE_S
    left = new_since(before, folders)
    while left and time.monotonic() < deadline:
        time.sleep(0.1)
        left = new_since(before, folders)
    for text in left:
        print(f"left over: {text}")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
