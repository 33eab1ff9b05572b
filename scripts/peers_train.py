#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# peers_train.py - reads what peers_train.sh measured and prints it as one table: our rows, the peers' for the same size, and
# how many times faster ours are.
import json
import sys

BYTES = {"64": 64, "64k": 64 << 10, "64m": 64 << 20}


def microseconds(row, size):
    return size / row["value"] * 1e-3 if row["unit"] == "GB/s" else row["value"]


def recovery():
    """Ours beside torchrun's: the whole, then the phases, which have no names in common."""
    rows = {}
    for line in sys.stdin:
        if line.startswith("{"):
            row = json.loads(line)
            rows[row["case"]] = row
    theirs = rows.get("torchrun_recover")
    print(f"{'ROW':<28} {'MEDIAN':>10} {'UNIT':<5} {'N':>4} {'TIMES':>7}  FLOOR")
    for name, row in rows.items():
        times = f"{theirs['value'] / row['value']:>7.1f}" if theirs and name in ("recover", "recover_spare") else f"{'-':>7}"
        floor = f"{row['floor']} {row['floor_value']:.4g}" if row["floor"] else "-"
        print(f"{name:<28} {row['value']:>10.2f} {row['unit']:<5} {row['n']:>4} {times}  {floor}")


def main():
    if sys.argv[1:] == ["--recovery"]:
        return recovery()
    peers, rows = {}, []
    for line in sys.stdin:
        if line.startswith("{"):
            rows.append(json.loads(line))
        elif len(line.split()) == 2:
            name, value = line.split()
            peers[name] = float(value)
    print(f"{'ROW':<28} {'US':>12} {'OPEN MPI US':>12} {'TIMES':>7} {'GLOO US':>12} {'TIMES':>7}  FLOOR")
    for row in rows:
        size = BYTES.get(row["case"].split("_")[2]) if row["case"].startswith("allreduce_") else None
        if size is None:
            continue
        us = microseconds(row, size)
        cells = ""
        for peer in ("mpi", "gloo"):
            value = peers.get(f"{peer}.{size}")
            cells += f" {value:>12.2f} {value / us:>7.2f}" if value else f" {'-':>12} {'-':>7}"
        floor = f"{row['floor']} {row['floor_value']:.4g}" if row["floor"] else "-"
        print(f"{row['case']:<28} {us:>12.2f}{cells}  {floor}")


if __name__ == "__main__":
    main()
