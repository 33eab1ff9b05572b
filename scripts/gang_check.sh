#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# gang_check.sh [REGEX] - real programs of real frameworks under `manta run`: installs them from PyPI (once, some 7 GB: build/venv-torch, -mpi,
# -tf), builds what they need, says the versions, and runs integration.frameworks.*, or those of them that match. 10 minutes on 2 cores.
# With REGEX "horovod" it also builds that from its source, for which it takes 20 minutes more.
set -euo pipefail
cd "$(dirname "$0")/.."

# NAME PACKAGE...: the environment build/venv-NAME.
environment() {
    local venv=build/venv-$1
    shift
    if [ ! -e "$venv/gang_check" ]; then
        echo "gang_check.sh: installing $* into $venv" >&2
        [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet --no-input --disable-pip-version-check "$@"
    fi
}

environment torch torch numpy lightning setuptools wheel ninja
if [ ! -e build/venv-torch/gang_check ]; then # DeepSpeed's setup wants torch; its one operator for the CPU is compiled when it is first used
    build/venv-torch/bin/pip install --quiet --no-input --disable-pip-version-check --no-build-isolation deepspeed
    PATH=$PWD/build/venv-torch/bin:$PATH TORCH_EXTENSIONS_DIR=$PWD/build/venv-torch/extensions DS_ACCELERATOR=cpu \
        build/venv-torch/bin/python -c 'from deepspeed.ops.op_builder.cpu import ShareMemCommBuilder; ShareMemCommBuilder().load()' >&2
fi
# Horovod's last release is older than C++20, which torch's headers want, and would compile kernels for each GPU.
horovod() {
    local python=$PWD/build/venv-torch/bin/python source=build/horovod-0.28.1
    "$python" -c 'import horovod.torch' 2>/dev/null && return
    "$python" -m pip install --quiet --no-input --disable-pip-version-check 'cmake<4' cloudpickle psutil pyyaml packaging cffi
    "$python" -m pip download --quiet --no-deps --no-build-isolation --no-binary :all: -d build horovod==0.28.1
    tar -C build -xf $source.tar.gz
    sed -i 's/CMAKE_CXX_STANDARD 14/CMAKE_CXX_STANDARD 17/' $source/CMakeLists.txt
    sed -i 's/CMAKE_CXX_STANDARD 1[47]/CMAKE_CXX_STANDARD 20/; s/^elseif (Pytorch_CUDA AND NOT HAVE_CUDA)/elseif (FALSE)/' $source/horovod/torch/CMakeLists.txt
    sed -i 's/-std=c++11 -fPIC/-std=c++17 -fPIC/' $source/third_party/gloo/CMakeLists.txt
    PATH=$PWD/build/venv-torch/bin:$PATH CMAKE_POLICY_VERSION_MINIMUM=3.5 MAKEFLAGS=-j$(nproc) HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 \
        HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_MPI=1 "$python" -m pip install --quiet --no-input --no-build-isolation ./$source
}

[ "${1:-}" != horovod ] || horovod
environment mpi mpi4py mpich numpy
environment tf tensorflow-cpu numpy
for name in torch mpi tf; do
    touch build/venv-$name/gang_check
    build/venv-$name/bin/pip list --format freeze --disable-pip-version-check |
        grep -E '^(torch|lightning|horovod|deepspeed|mpi4py|mpich|tensorflow.cpu|keras|numpy)=='
done
scripts/build.sh release manta manta-run manta-head manta-raylet
exec ctest --test-dir build/release --output-on-failure --no-tests=error -R "^integration\.frameworks\..*${1:-}"
