#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# peers.py [--quick] [--filter TEXT] [--write | --no-write] - the part of peers.sh that measures, compares and writes.
#
# Runs Ray's own ray._private.ray_perf unchanged, but with a timer of ours in the place of its own: the same loop, with
# windows of another length, and after each case the same case of manta-bench.
import argparse
import datetime
import functools
import json
import math
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time
import types

ROOT = pathlib.Path(__file__).resolve().parent.parent
BENCH = ROOT / "build/release/bin/manta-bench"
PAGE = ROOT / "docs/performance.md"
WINDOWS = 4
UNSTEADY = 0.2  # deviation by mean from which a rate is measured once more; the steadier one counts
SLOW_S = 4.0    # a step that takes longer is its own window, and there are fewer of them
LIMIT_S = 300


class Settings:
    """Lengths in seconds: of Ray's pause before a case and its windows, and of Manta's windows."""

    def __init__(self, quick):
        self.quick = quick
        self.pause, self.warm_up, self.window, self.manta = (0.2, 0.3, 0.5, 0.25) if quick else (1, 1, 2, 1)


def bench(options, seconds):
    """Rows of manta-bench by their names."""
    run = subprocess.run([BENCH, "-o", "json", "--seconds", str(seconds), *options], stdout=subprocess.PIPE,
                         timeout=LIMIT_S, check=False)
    rows = {}
    for line in run.stdout.decode().splitlines():
        row = json.loads(line)
        rows[row["case"]] = row
    return rows


def windows_of(fn, multiplier, settings):
    """Ray's timer: rates of the windows, a warm-up before."""
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < settings.warm_up:
        fn()
        count += 1
    slow = (time.perf_counter() - start) / count > SLOW_S
    step, rates = count // 10 + 1, []
    for _ in range(WINDOWS if not slow else 1 if settings.quick else 2):
        start, count = time.perf_counter(), 0
        while time.perf_counter() - start < settings.window:
            for _ in range(step):
                fn()
            count += step
        rates.append(multiplier * count / (time.perf_counter() - start))
    return statistics.mean(rates), statistics.pstdev(rates)


def measure_ray(fn, multiplier, settings):
    time.sleep(settings.pause)
    first = windows_of(fn, multiplier, settings)
    if settings.quick or first[1] < UNSTEADY * first[0]:
        return first
    return min(first, windows_of(fn, multiplier, settings), key=lambda x: x[1] / x[0])


def measure_manta(name, settings):
    rows = [r for _ in range(2) if (r := bench(["--filter", name], settings.manta).get(name))]
    return min(rows, key=lambda r: r["sd"] / r["value"]) if rows else None


def is_bandwidth(name):
    return "gigabytes" in name


# Small values stay in the process that put them here; Ray copies them into its store. Both are what the user's call does, but
# the ratio compares a copy with a message, so the mean is told without them too.
IN_PROCESS = {"single client get calls", "single client put calls", "multi client put calls"}


class Comparison:
    def __init__(self, settings, text):
        self.settings, self.text, self.rows, self.missing = settings, text, [], []
        self.known = {line.rsplit(None, 1)[0].strip() for line in subprocess.run(
            [BENCH, "--list"], stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()}

    def timeit(self, name, fn, multiplier=1, warmup_time_sec=0):
        """In the place of Ray's: same arguments."""
        name = name.replace(" (Plasma Store)", "")
        if self.text not in name:
            return [None]
        if name not in self.known:
            self.missing.append(name)
            return [None]
        ray = measure_ray(fn, multiplier, self.settings)
        manta = measure_manta(name, self.settings)
        if manta is None:
            print(f"{name:<46} manta-bench FAILED", flush=True)
            self.missing.append(name + " (failed)")
            return [None]
        row = {"case": name, "unit": manta["unit"], "ray": ray[0], "ray_sd": ray[1], "manta": manta["value"],
               "manta_sd": manta["sd"], "ratio": manta["value"] / ray[0], "floor": manta["floor"],
               "floor_value": manta["floor_value"]}
        self.rows.append(row)
        print(f"{name:<46} {number(ray[0]):>12} {number(ray[1]):>10} {number(row['manta']):>12} "
              f"{number(row['manta_sd']):>10} {row['unit']:<5} {row['ratio']:>8.1f}x", flush=True)
        return [(name, *ray)]

    def mean(self, without=()):
        ratios = [r["ratio"] for r in self.rows if not is_bandwidth(r["case"]) and r["case"] not in without]
        return math.exp(statistics.mean(map(math.log, ratios))) if ratios else 0


def number(x):
    return f"{x:,.0f}" if x >= 1000 else f"{x:.4g}"


def run_ray(comparison):
    """ray_perf.main with our timer. Ray Client, a proxy for machines outside the cluster, has no counterpart here."""
    client = types.ModuleType("ray._private.ray_client_microbenchmark")
    client.main = lambda results=None: None
    sys.modules[client.__name__] = client
    import ray
    import ray._private.ray_perf as ray_perf
    ray_perf.timeit = comparison.timeit
    ray.init = functools.partial(ray.init, log_to_driver=False, logging_level="ERROR")
    ray_perf.main()


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    return f"{os.cpu_count()} cores, {model}, Linux {platform.release()}"


def versions():
    import ray
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, check=False)
    return f"Manta {commit.stdout.decode().strip()}, Ray {ray.__version__}, Python {platform.python_version()}"


def load():
    return " ".join(f"{x:.2f}" for x in os.getloadavg())


def table_of_peers(comparison):
    out = ["| case | Ray | ± | Manta | ± | unit | Manta : Ray | floor |", "|---|---|---|---|---|---|---|---|"]
    for r in sorted(comparison.rows, key=lambda r: is_bandwidth(r["case"])):
        floor = f"{r['floor']} {number(r['floor_value'])}" if r["floor"] else "-"
        out.append(f"| {r['case']} | {number(r['ray'])} | {number(r['ray_sd'])} | {number(r['manta'])} | "
                   f"{number(r['manta_sd'])} | {r['unit']} | {number(r['ratio'])} | {floor} |")
    return out


def table_of_floors(before, after):
    out = ["| floor | at the start | at the end | unit |", "|---|---|---|---|"]
    for name, row in before.items():
        end = after.get(name, {}).get("value")
        out.append(f"| {name.removeprefix('floor_')} | {number(row['value'])} | {number(end) if end else '-'} | "
                   f"{row['unit']} |")
    return out


def table_of_rows(rows):
    out = ["| id | value | ± | unit | floor | x floor |", "|---|---|---|---|---|---|"]
    for name, r in rows.items():
        floor = f"{r['floor']} {number(r['floor_value'])}" if r["floor"] else "-"
        share = number(r["value"] / r["floor_value"]) if r["floor"] and r["floor"] != "fork" else "-"
        out.append(f"| {name} | {number(r['value'])} | {number(r['sd'])} | {r['unit']} | {floor} | {share} |")
    return out


def page_write(mark, lines):
    """Replaces what stands between the two comments of `mark` in docs/performance.md."""
    begin, end = f"<!-- {mark}: begin -->\n", f"<!-- {mark}: end -->"
    text = PAGE.read_text()
    head, tail = text.index(begin) + len(begin), text.index(end)
    PAGE.write_text(text[:head] + "\n".join(lines) + "\n" + text[tail:])


def own_rows(comparison, settings):
    """Manta's rows that are no case of Ray's; a group at a time, so that one failure costs one row."""
    rows = {}
    for name in sorted(comparison.known):
        if " " in name or name.startswith("floor_") or name == "":
            continue
        for key, row in bench(["--filter", name], settings.manta).items():
            if key == name or key.startswith(name + "."):
                rows[key] = row
                print(f"{key:<46} {number(row['value']):>12} {number(row['sd']):>10} {row['unit']}", flush=True)
    return rows


def summary(comparison):
    bandwidth = [f"{r['case']} {r['ratio']:.1f}x" for r in comparison.rows if is_bandwidth(r["case"])]
    counted = len(comparison.rows) - len(bandwidth)
    lowest = min((r for r in comparison.rows if not is_bandwidth(r["case"])), key=lambda r: r["ratio"], default=None)
    lines = [f"Geometric mean of {counted} cases: {comparison.mean():.0f}x"
             + (f"; lowest: {lowest['case']} {lowest['ratio']:.0f}x." if lowest else ".")]
    inside = [r["case"] for r in comparison.rows if r["case"] in IN_PROCESS]
    if inside and len(inside) < counted:
        lines.append(f"Without the {len(inside)} in which Manta's value stays in the process and Ray's goes into its store "
                     f"({', '.join(inside)}): {comparison.mean(IN_PROCESS):.0f}x.")
    if bandwidth:
        lines.append(f"Bandwidth, apart: {', '.join(bandwidth)}.")
    if comparison.missing:
        lines.append(f"Without a counterpart: {', '.join(comparison.missing)}.")
    return lines


def main():
    parser = argparse.ArgumentParser(prog="peers.sh")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action=argparse.BooleanOptionalAction)
    parser.add_argument("--filter", default="")
    options = parser.parse_args()
    settings, started = Settings(options.quick), time.monotonic()
    comparison = Comparison(settings, options.filter)
    loads = [load()]
    before = bench(["--filter", "floor_*"], settings.manta)
    print(f"{machine()}; {versions()}; load {loads[0]}\n{'CASE':<46} {'RAY':>12} {'SD':>10} {'MANTA':>12} {'SD':>10} UNIT"
          f"  {'RATIO':>8}", flush=True)
    run_ray(comparison)
    loads.append(load())
    print("\n".join(summary(comparison)))
    if not options.filter:
        rows = own_rows(comparison, settings)
        after = bench(["--filter", "floor_*"], settings.manta)
        loads.append(load())
        if options.write or (options.write is None and not options.quick):
            when = datetime.date.today().isoformat()
            head = [f"{when}; {machine()}; {versions()}; load at start, half way, end: {'; '.join(loads)}.", ""]
            page_write("peers", head + [line + "  " for line in summary(comparison)] + [""] + table_of_peers(comparison))
            page_write("floors", head[:1] + [""] + table_of_floors(before, after))
            page_write("rows", head[:1] + [""] + table_of_rows(rows))
    print(f"{time.monotonic() - started:.0f} s; load {loads[-1]}")
    return 0 if comparison.rows else 1


if __name__ == "__main__":
    sys.exit(main())
