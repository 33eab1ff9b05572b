# SPDX-License-Identifier: Apache-2.0
#
# check_packages.py - each package of scripts/packages.txt has a user, and a row in docs/design/dependencies.md. Part of check_style.py.
import re

# Package -> (where its user stands, what the user says). A header is looked for in sources, a program in scripts and CMake's files.
SOURCES, SCRIPTS = r".*\.(c|h|hpp|cu)", r"(.*/)?CMakeLists\.txt|.*\.(cmake|sh|py)|CMakePresets\.json"
USERS = {
    "ca-certificates": (SCRIPTS, r"pip install"),  # PyPI is reached by https
    "clang": (SCRIPTS, r"find_program\(MANTA_CLANG NAMES clang\b"),
    "clang-format-14": (SCRIPTS, r"clang-format-14"),
    "abigail-tools": (SCRIPTS, r"\"abidw\""),
    "cmake": (SCRIPTS, r"cmake_minimum_required"),
    "curl": (r"deploy/aws/manta-spot-notice", r"\bcurl --silent"),
    "dataset-fashion-mnist": (SOURCES, r"/usr/share/dataset/fashion-mnist|/usr/share/datasets?/fashion"),
    "g++": (SCRIPTS, r"c\+\+|g\+\+|CXX"),
    "gcc": (SCRIPTS, r"LANGUAGES C\b"),
    "git": (SCRIPTS, r"\bgit (clone|archive|ls-files|status|rev-parse)|\"git\""),
    "openssh-client": (SCRIPTS, r"ssh-keygen"),
    "openssh-server": (SCRIPTS, r"\bsshd\b"),
    "slurm-wlm": (SCRIPTS, r"\bslurmctld\b"),
    "kubernetes-client": (SCRIPTS, r"\"kubectl\""),
    "munge": (SCRIPTS, r"\bmunged\b"),
    "iproute2": (SCRIPTS, r"\bip (netns|link)|\"ip\", "),
    "libclang-rt-14-dev": (SCRIPTS, r"-fsanitize=fuzzer"),
    "libcmocka-dev": (SOURCES, r"#include <cmocka\.h>"),
    "libgrpc-dev": (SOURCES, r"#include <grpc/grpc\.h>"),
    "libhiredis-dev": (SOURCES, r"#include <hiredis/hiredis\.h>"),
    "redis-server": (SOURCES, r"execvp\(\"redis-server\""),
    "libjansson-dev": (SOURCES, r"#include <jansson\.h>"),
    "libjemalloc-dev": (SCRIPTS, r"find_library\(MANTA_JEMALLOC jemalloc"),
    "libopenblas-dev": (SOURCES, r"#include <cblas\.h>"),
    "libprotobuf-c-dev": (SOURCES, r"#include <protobuf-c/protobuf-c\.h>"),
    "libsqlite3-dev": (SOURCES, r"#include <sqlite3\.h>"),
    "libssl-dev": (SOURCES, r"#include <openssl/ssl\.h>"),
    "libuv1-dev": (SOURCES, r"#include <uv\.h>"),
    "libxxhash-dev": (SOURCES, r"#include <xxhash\.h>"),
    "libyaml-dev": (SOURCES, r"#include <yaml\.h>"),
    "libzstd-dev": (SOURCES, r"#include <zstd\.h>"),
    "ninja-build": (SCRIPTS, r"\"generator\": \"Ninja\""),
    "pkg-config": (SCRIPTS, r"pkg_check_modules\("),
    "protobuf-c-compiler": (SCRIPTS, r"find_program\(PROTOC_C protoc-c"),
    "python3": (SCRIPTS, r"find_package\(Python3"),
    "python3-venv": (SCRIPTS, r"python3 -m venv"),
    "zlib1g-dev": (SOURCES, r"#include <zlib\.h>"),
}
LIST, PAGE, ITSELF = "scripts/packages.txt", "docs/design/dependencies.md", "scripts/check_packages.py"


def has_user(tree, where, said):
    names = (name for name in tree.files if re.fullmatch(where, name) and name != ITSELF)
    return any(re.search(said, (tree.root / name).read_text(errors="replace")) for name in names)


def check_packages(tree):
    if LIST not in tree.files:
        return
    page = (tree.root / PAGE).read_text() if PAGE in tree.files else ""
    for number, line in enumerate((tree.root / LIST).read_text().splitlines(), 1):
        package = line.partition("#")[0].partition("|")[0].strip()
        if not package:
            continue
        if package not in USERS:
            tree.report(LIST, number, f"{package}: nobody is known to use it: say who in {ITSELF}, or take it out")
        elif not has_user(tree, *USERS[package]):
            tree.report(LIST, number, f"{package}: nothing here says {USERS[package][1]} any more: take it out")
        if f"`{package}`" not in page:
            tree.report(LIST, number, f"{package}: has no row in {PAGE}")
