#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# peers_importance.py PROGRAM [--quick] - importance of parameters beside Optuna's evaluators, on the same trials. PROGRAM is
# build/release/tests/bench/sweep_importance; run by peers_sweep.sh, by the python of an environment that has optuna and scikit-learn.
#
# Five functions of random trials, each over [0, 1] and over [-1, 1], with several draws of the trials. fANOVA is a forest, so each side
# is asked with several seeds; a row of the table is the mean over the draws:
#
#   truth           shares of the parameters by the definition, in the order of their names: the functions are known
#   ours, Optuna    shares that were found
#   off             distance of either from the truth
#   own             distance between two seeds of Optuna's: the sum of the differences of all shares, a mean over all pairs of seeds
#   cross           distance between a seed of ours and one of Optuna's
#   times           cross / own: 1 where nobody could tell which is which
#   rank            Spearman's correlation of the two means
#
# PED-ANOVA has no seeds: the greatest difference of any share is told. Optuna measures a logarithmic parameter on its plain line and a
# choice as a cube of one-hot columns; so it gets the logarithm as a plain parameter, and the row of `mixed` says what choices do.
import itertools
import json
import math
import random
import subprocess
import sys
import warnings

import optuna

PROGRAM, QUICK = sys.argv[1], "--quick" in sys.argv
TRIALS, DRAWS, SEEDS = (100, 2, 3) if QUICK else (100, 5, 5)
STRATA, OTHERS = 40, 2000  # of the truth

FUNCTIONS = {
    "product": lambda p: 10 * p["x0"] * p["x1"] + p["x2"],
    "additive": lambda p: 3 * p["x0"] + 2 * p["x1"] + p["x2"] ** 2,
    "waves": lambda p: math.sin(3 * p["x0"]) + 7 * math.sin(2 * p["x1"]) ** 2 + 0.1 * (3 * p["x2"]) ** 4 * math.sin(3 * p["x0"]),
    "noisy": lambda p: p["x0"] ** 2 + p["x1"] * p["x2"] + 0.3 * p["noise"],
    "mixed": lambda p: (p["x1"] if p["kind"] == "b" else {"a": 0, "c": 2}[p["kind"]]) + abs(math.log10(p["x2"]) + 3) / 2 + 0.1 * p["x0"],
}


def space_of(name, low):
    """Our JSON, Optuna's distributions, and from our value to Optuna's."""
    params, theirs, view = [], {}, {}
    for i in range(4):
        key = f"x{i}"
        is_log = name == "mixed" and i == 2
        low_i, high_i = (1e-5, 1e-1) if is_log else (low, 1.0)
        params.append({"name": key, "kind": "loguniform" if is_log else "uniform", "low": low_i, "high": high_i})
        view[key] = math.log if is_log else float
        theirs[key] = optuna.distributions.FloatDistribution(view[key](low_i), view[key](high_i))
    if name == "mixed":
        params.append({"name": "kind", "kind": "categorical", "choices": ["a", "b", "c"]})
        theirs["kind"], view["kind"] = optuna.distributions.CategoricalDistribution(["a", "b", "c"]), str
    return {"params": params, "constraints": []}, theirs, view


def value_at(p, u):
    if p["kind"] == "categorical":
        return p["choices"][int(u * len(p["choices"]))]
    if p["kind"] == "loguniform":
        return math.exp(math.log(p["low"]) + u * math.log(p["high"] / p["low"]))
    return p["low"] + u * (p["high"] - p["low"])


def rows_of(name, space, seed):
    source = random.Random(f"{name} {seed}")
    rows = []
    for _ in range(TRIALS):
        point = {p["name"]: value_at(p, source.random()) for p in space["params"]}
        rows.append((point, FUNCTIONS[name]({**point, "noise": source.gauss(0, 1)})))
    return rows


def truth_of(name, space):
    """The variance of the mean over all else, each parameter in strata."""
    source, variances = random.Random(name), {}
    others = [{p["name"]: value_at(p, source.random()) for p in space["params"]} for _ in range(OTHERS)]
    for p in space["params"]:
        means = []
        for k in range(len(p["choices"]) if p["kind"] == "categorical" else STRATA):
            u = (k + 0.5) / (len(p["choices"]) if p["kind"] == "categorical" else STRATA)
            means.append(sum(FUNCTIONS[name]({**point, p["name"]: value_at(p, u), "noise": 0}) for point in others) / OTHERS)
        mean = sum(means) / len(means)
        variances[p["name"]] = sum((m - mean) ** 2 for m in means) / len(means)
    return {key: value / sum(variances.values()) for key, value in variances.items()}


def ours_of(method, space, rows, seeds):
    data = json.dumps(space) + "\n" + "".join(f"{json.dumps(point)} {result!r}\n" for point, result in rows)
    done = subprocess.run([PROGRAM, method, *map(str, seeds)], input=data, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def theirs_of(evaluators, theirs, view, rows):
    study = optuna.create_study()
    study.add_trials([optuna.trial.create_trial(params={key: view[key](value) for key, value in point.items()}, distributions=theirs,
                                                value=result) for point, result in rows])
    return [optuna.importance.get_param_importances(study, evaluator=evaluator) for evaluator in evaluators]


def distance(a, b):
    return sum(abs(a[key] - b[key]) for key in a)


def mean_of(list_):
    return {key: sum(one[key] for one in list_) / len(list_) for key in list_[0]}


def rank_correlation(a, b):
    keys = list(a)
    ranks = [[sorted(side, key=side.get).index(key) for key in keys] for side in (a, b)]
    n = len(keys)
    return 1 - 6 * sum((x - y) ** 2 for x, y in zip(*ranks)) / (n * (n * n - 1))


def cells(shares):
    return " ".join(f"{100 * shares[key]:5.1f}" for key in sorted(shares))


def row_print(name, low):
    space, theirs, view = space_of(name, low)
    ours, peers, own, cross, ranks, ped, truth = [], [], [], [], [], 0.0, truth_of(name, space)
    for draw in range(DRAWS):
        rows = rows_of(name, space, draw)
        seeds = range(1, SEEDS + 1)
        mine = ours_of("fanova", space, rows, seeds)
        his = theirs_of([optuna.importance.FanovaImportanceEvaluator(seed=seed) for seed in seeds], theirs, view, rows)
        own += [distance(a, b) for a, b in itertools.combinations(his, 2)]
        cross += [distance(a, b) for a in mine for b in his]
        ours.append(mean_of(mine))
        peers.append(mean_of(his))
        ranks.append(rank_correlation(ours[-1], peers[-1]))
        exact = theirs_of([optuna.importance.PedAnovaImportanceEvaluator()], theirs, view, rows)[0]
        ped = max([ped] + [abs(value - exact[key]) for key, value in ours_of("ped_anova", space, rows, [1])[0].items()])
    own, cross = sum(own) / len(own), sum(cross) / len(cross)
    domain = f"[{low:g}, 1]"
    off = [100 * sum(distance(shares, truth) for shares in side) / DRAWS for side in (ours, peers)]
    print(f"{name:9} {domain:8} {cells(truth):30} {cells(mean_of(ours)):30} {cells(mean_of(peers)):30} {off[0]:5.1f} {off[1]:5.1f} {100 * own:6.2f} "
          f"{100 * cross:6.2f} {cross / own:6.2f} {sum(ranks) / len(ranks):6.2f} {min(ranks):6.2f} {ped:10.1e}", flush=True)


def main():
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    print(f"importance, % of each parameter: {TRIALS} random trials, {DRAWS} draws of them, {SEEDS} seeds a side; Optuna {optuna.__version__}")
    print(f"{'function':9} {'domain':8} {'truth: [kind] x0 x1 x2 x3':30} {'ours':30} {'Optuna':30} {'off':>5} {'off':>5} {'own':>6} {'cross':>6} "
          f"{'times':>6} {'rank':>6} {'least':>6} {'PED, diff.':>10}")
    for name in FUNCTIONS:
        for low in (0.0, -1.0):
            row_print(name, low)


main()
