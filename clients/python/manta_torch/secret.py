# SPDX-License-Identifier: Apache-2.0
#
# secret.py - what the ranks of several machines share and nobody else has: a file's content, and keys made of it.
#
# The file is MANTA_TORCH_SECRET's, else the token of the cluster that this machine is in. Keys are one-way (HMAC-SHA256), and each names
# what it is for. Needs Python alone.
import hashlib
import hmac
import os
import stat

from . import coll

BYTES_MIN, BYTES_MAX = 32, 4096


def _folder():
    """Where a cluster's daemons of this user and machine have their files (mt_folder_usual); None: nowhere."""
    named, base, home = (os.environ.get(name) for name in ("MANTA_ADDRESS", "XDG_RUNTIME_DIR", "HOME"))
    if named:
        return named if named.startswith("/") else None
    if base and base.startswith("/") and os.access(base, os.W_OK):
        return f"{base}/manta"
    if os.geteuid() == 0:
        return "/run/manta"
    has_home = home and any(os.access(path, os.W_OK) for path in (home, f"{home}/.manta"))
    return f"{home}/.manta/run" if has_home else f"/tmp/manta-{os.geteuid()}"


def places():
    """Files that may hold it, in this order, and whether each was asked for by name."""
    for variable in ("MANTA_TORCH_SECRET", "MANTA_TOKEN_FILE"):
        if os.environ.get(variable):
            yield os.environ[variable], variable
    folder = _folder()
    if folder:
        yield f"{folder}/token", None


def read(path):
    """A private file's content. Raises BadArgument, which says what is wrong with it."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC)) as file:
            about, text = os.fstat(file.fileno()), file.read(BYTES_MAX + 1).strip()
    except OSError as error:
        raise coll.BadArgument(f"the secret of ranks on several machines can't be read: {path}: {error.strerror}") from None
    if not stat.S_ISREG(about.st_mode) or about.st_uid not in (0, os.geteuid()) or about.st_mode & 0o077:
        raise coll.BadArgument(f"{path} is no private file of this user's: chmod 600 it, so that nobody else has the ranks' secret")
    if not BYTES_MIN <= len(text) <= BYTES_MAX:
        raise coll.BadArgument(f"{path} has {len(text)} bytes: a secret has {BYTES_MIN} to {BYTES_MAX}, as `openssl rand -hex 32` gives")
    return text


def root():
    """What all keys are made of."""
    for path, variable in places():
        if variable or os.path.exists(path):
            return read(path)
    raise coll.BadArgument(
        "ranks on several machines need a secret in common: start them on nodes of a cluster (manta start --join), whose token they "
        "then use, or put the same 32 bytes or more into a file on each machine (mode 600) and its path into MANTA_TORCH_SECRET"
    )


def key(secret, *purpose):
    """32 bytes for one purpose: who has them learns no others."""
    text = "\0".join(["manta_torch 1", *map(str, purpose)])
    return hmac.new(secret, text.encode(), hashlib.sha256).digest()
