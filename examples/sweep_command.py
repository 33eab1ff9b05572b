#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# sweep_command.py --lr=X --layers=N [--momentum=X] - what a sweep tries: a line of metrics for each step is all that Manta asks.
import argparse
import math

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, required=True)
parser.add_argument("--layers", type=int, required=True)
parser.add_argument("--momentum", type=float, default=0.0)
options = parser.parse_args()

floor = 0.1 * (math.log10(options.lr) + 2) ** 2 + 0.2 / options.layers + 0.1 * (options.momentum - 0.9) ** 2
loss = 2.0
for epoch in range(1, 28):
    loss = floor + (loss - floor) * 0.8
    print(f"epoch={epoch} loss={loss:.6f}", flush=True)
