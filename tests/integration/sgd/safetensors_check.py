# SPDX-License-Identifier: Apache-2.0
#
# safetensors_check.py TOOL - reads our files with the safetensors package from PyPI and its files with ours.
# in_venv.sh runs it where the package is installed.
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
from safetensors.numpy import load_file, save_file

tool = sys.argv[1]
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([tool, "save", os.path.join(folder, "c")], check=True)
    step = os.path.join(folder, "c", "step-%020d" % 7)
    ours = load_file(os.path.join(step, "model.safetensors"))
    assert sorted(ours) == ["counts", "layers.0.weight", "scalar"], sorted(ours)
    assert ours["counts"].tolist() == [-1, 0, 2**63 - 1]
    assert ours["layers.0.weight"].dtype == np.float32
    assert np.array_equal(ours["layers.0.weight"], (np.arange(12, dtype=np.float32) / np.float32(3)).reshape(3, 4))
    assert ours["scalar"].shape == () and ours["scalar"] == -0.5
    manifest = json.loads(open(os.path.join(step, "manifest.json")).readline())
    assert manifest["step"] == 7 and manifest["samples"] == 672 and sorted(manifest["tensors"]) == sorted(ours)

    theirs = {
        "a/β": np.arange(6, dtype=np.float32).reshape(2, 3),
        "half": np.array([1.5, -2], dtype=np.float16),
        "bytes": np.arange(5, dtype=np.uint8),
        "double": np.array([[np.pi]], dtype=np.float64),
        "scalar": np.array(3, dtype=np.int32),
        "empty": np.zeros((0, 4), dtype=np.int16),
    }
    path = os.path.join(folder, "theirs.safetensors")
    save_file(theirs, path, metadata={"format": "np", "note": 'quotes " and ümlauts'})
    kinds = {"float32": "F32", "float16": "F16", "uint8": "U8", "float64": "F64", "int32": "I32", "int16": "I16"}
    seen = set()
    for line in subprocess.run([tool, "show", path], check=True, capture_output=True).stdout.decode().splitlines():
        words, data = line.split(" :")
        name, kind, *shape = words.split(" ")
        want = theirs[name]
        assert kind == kinds[want.dtype.name], line
        assert ([int(n) for n in shape[0].split(",")] if shape else []) == list(want.shape), line
        assert bytes.fromhex(data) == want.tobytes(), line
        seen.add(name)
    assert seen == set(theirs), seen
print("both directions agree")
