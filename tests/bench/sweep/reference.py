#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# reference.py SAMPLER... - what Optuna's samplers reach on published test functions; sweep_quality compares.
#
# reference.py --time SAMPLER... - "sampler function us": mean microseconds of a trial of the same 100.
#
# Prints "sampler function seed best" for the best of 100 trials, 30 seeds, with every option pinned, since defaults differ
# between versions. reference.txt was made by
#
#   pip install optuna==5.0.0
#   reference.py tpe
#   pip install optuna==4.9.0 cmaes==0.13.1 scipy==1.17.1 torch     (20 seeds then; these samplers have not changed)
#   reference.py tpe_independent cmaes gp
#
# and sorted. Optuna 5.0.0's joint TPE has widths by the gaps between neighbours; 4.9.0's had one for all kernels, and is worse.
import math
import sys
import time
import warnings

import optuna

TRIALS, SEEDS = 100, 30

H3_A = [[3, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]]
H3_P = [[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]]
H6_A = [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
H6_P = [[1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650], [4047, 8828, 8732, 5743, 1091, 381]]
H_C = [1.0, 1.2, 3.0, 3.2]


def hartmann(a, p, x):
    inner = [sum(ai * (xi - pi * 1e-4) ** 2 for ai, xi, pi in zip(aj, x, pj)) for aj, pj in zip(a, p)]
    return -sum(c * math.exp(-v) for c, v in zip(H_C, inner))


def branin(x):
    return ((x[1] - 5.1 / (4 * math.pi ** 2) * x[0] ** 2 + 5 / math.pi * x[0] - 6) ** 2
            + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x[0]) + 10)


def camel(x):
    return (4 - 2.1 * x[0] ** 2 + x[0] ** 4 / 3) * x[0] ** 2 + x[0] * x[1] + (-4 + 4 * x[1] ** 2) * x[1] ** 2


def goldstein(x):
    a, b = x
    one = 1 + (a + b + 1) ** 2 * (19 - 14 * a + 3 * a * a - 14 * b + 6 * a * b + 3 * b * b)
    two = 30 + (2 * a - 3 * b) ** 2 * (18 - 32 * a + 12 * a * a + 48 * b - 36 * a * b + 27 * b * b)
    return math.log(one * two)


def rosenbrock(x):
    return sum(100 * (b - a * a) ** 2 + (1 - a) ** 2 for a, b in zip(x, x[1:]))


def ackley(x):
    n = len(x)
    return (-20 * math.exp(-0.2 * math.sqrt(sum(v * v for v in x) / n))
            - math.exp(sum(math.cos(2 * math.pi * v) for v in x) / n) + 20 + math.e)


def rastrigin(x):
    return sum(v * v - 10 * math.cos(2 * math.pi * v) + 10 for v in x)


def griewank(x):
    product = 1.0
    for i, v in enumerate(x):
        product *= math.cos(v / math.sqrt(i + 1))
    return sum(v * v for v in x) / 4000 - product + 1


def levy(x):
    w = [1 + (v - 1) / 4 for v in x]
    middle = sum((v - 1) ** 2 * (1 + 10 * math.sin(math.pi * v + 1) ** 2) for v in w[:-1])
    return math.sin(math.pi * w[0]) ** 2 + middle + (w[-1] - 1) ** 2 * (1 + math.sin(2 * math.pi * w[-1]) ** 2)


def styblinski(x):
    return sum(v ** 4 - 16 * v * v + 5 * v for v in x) / 2


def zakharov(x):
    s = sum(0.5 * (i + 1) * v for i, v in enumerate(x))
    return sum(v * v for v in x) + s ** 2 + s ** 4


FUNCTIONS = {
    "ackley10": (ackley, [(-32.768, 32.768)] * 10),
    "branin2": (branin, [(-5, 10), (0, 15)]),
    "camel2": (camel, [(-3, 3), (-2, 2)]),
    "goldstein2": (goldstein, [(-2, 2), (-2, 2)]),
    "griewank6": (griewank, [(-600, 600)] * 6),
    "hartmann3": (lambda x: hartmann(H3_A, H3_P, x), [(0, 1)] * 3),
    "hartmann6": (lambda x: hartmann(H6_A, H6_P, x), [(0, 1)] * 6),
    "levy5": (levy, [(-10, 10)] * 5),
    "rastrigin5": (rastrigin, [(-5.12, 5.12)] * 5),
    "rosenbrock5": (rosenbrock, [(-5, 10)] * 5),
    "styblinski5": (styblinski, [(-5, 5)] * 5),
    "zakharov5": (zakharov, [(-5, 10)] * 5),
}
SAMPLERS = {
    "tpe": lambda seed: optuna.samplers.TPESampler(
        seed=seed, multivariate=True, group=False, constant_liar=True, n_startup_trials=10, n_ei_candidates=24),
    "tpe_independent": lambda seed: optuna.samplers.TPESampler(
        seed=seed, multivariate=False, constant_liar=False, n_startup_trials=10, n_ei_candidates=24),
    "cmaes": lambda seed: optuna.samplers.CmaEsSampler(seed=seed, n_startup_trials=1),
    "gp": lambda seed: optuna.samplers.GPSampler(seed=seed, n_startup_trials=10, deterministic_objective=False),
}


def run(sampler, name, seed):
    function, bounds = FUNCTIONS[name]
    study = optuna.create_study(sampler=SAMPLERS[sampler](seed))
    study.optimize(lambda trial: function(
        [trial.suggest_float(f"x{i}", low, high) for i, (low, high) in enumerate(bounds)]), n_trials=TRIALS)
    return study.best_value


def print_times(samplers):
    for sampler in samplers:
        for name in FUNCTIONS:
            began = time.perf_counter()
            run(sampler, name, 0)
            print(sampler, name, round((time.perf_counter() - began) / TRIALS * 1e6), flush=True)


def main():
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.simplefilter("ignore")
    if sys.argv[1:2] == ["--time"]:
        return print_times(sys.argv[2:])
    for sampler in sys.argv[1:]:
        for seed in range(SEEDS):
            for name in FUNCTIONS:
                print(sampler, name, seed, repr(run(sampler, name, seed)), flush=True)


if __name__ == "__main__":
    main()
