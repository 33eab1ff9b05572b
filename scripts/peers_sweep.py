#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# peers_sweep.py [--quick] - no-op trials and suggestions of Optuna and Ray Tune, beside Manta's rows: JSON objects on standard input, as
# `manta bench --sweep -o json` prints them, and the line of `sweep_quality --suggest`. Prints one table; run by peers_sweep.sh, by
# the python of an environment that has optuna and ray[tune]. A peer that fails is named and left out.
#
#   trials         Optuna: random sampler, durable (SQLite), one process. Ray Tune: function trainable that reports once, 2 CPUs
#   tpe_suggest    Optuna: ask and 8 suggestions of the joint TPE, with constant liar, after 1,000 trials
import contextlib
import io
import json
import os
import re
import sys
import tempfile
import time

OPTUNA_TRIALS, TUNE_TRIALS, KNOWN, SUGGESTIONS = (60, 6, 1000, 20) if "--quick" in sys.argv else (300, 40, 1000, 40)


def optuna_trials(folder):
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(storage=f"sqlite:///{folder}/optuna.db", sampler=optuna.samplers.RandomSampler(seed=1))
    begun = time.monotonic()
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=OPTUNA_TRIALS)
    return OPTUNA_TRIALS / (time.monotonic() - begun)


def optuna_suggest(_):
    import random
    import warnings

    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    source = random.Random(1)
    spread = {f"x{i}": optuna.distributions.FloatDistribution(-5, 5) for i in range(8)}
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1, multivariate=True, constant_liar=True))
    for _ in range(KNOWN):
        point = {name: source.uniform(-5, 5) for name in spread}
        study.add_trial(optuna.trial.create_trial(params=point, distributions=spread, value=sum(x * x for x in point.values())))
    times = []
    for _ in range(SUGGESTIONS):
        begun = time.monotonic()
        trial = study.ask()
        point = [trial.suggest_float(name, -5, 5) for name in spread]
        times.append((time.monotonic() - begun) * 1e6)
        study.tell(trial, sum(x * x for x in point))
    return sorted(times)[SUGGESTIONS // 2]


def tune_trials(folder):
    os.environ.update(RAY_AIR_NEW_OUTPUT="0", TUNE_DISABLE_AUTO_CALLBACK_LOGGERS="1", RAY_USAGE_STATS_ENABLED="0")
    import ray
    from ray import tune

    def noop(config):
        tune.report({"loss": config["x"]})

    def run(count):
        begun = time.monotonic()
        tune.Tuner(noop, param_space={"x": tune.uniform(0, 1)}, tune_config=tune.TuneConfig(num_samples=count, metric="loss", mode="min"),
                   run_config=tune.RunConfig(storage_path=folder, verbose=0)).fit()
        return count / (time.monotonic() - begun)

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error", _temp_dir=folder + "/ray")
    run(2)  # what comes once
    rate = run(TUNE_TRIALS)
    ray.shutdown()
    return rate


def measured(name, fn):
    with tempfile.TemporaryDirectory(prefix="manta-peers-") as folder:
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                return fn(folder)
        except Exception as error:  # a peer of another version, or one that is not there
            print(f"peers_sweep.py: not measured: {name}: {type(error).__name__}: {error}", file=sys.stderr)
            return None


def main():
    ours = {}
    for line in sys.stdin:
        found = re.match(r"tpe .*p50 ([0-9.]+)", line)
        if found:
            ours["tpe_suggest"] = float(found[1])
        elif line.startswith("{"):
            row = json.loads(line)
            ours[row["case"]] = row["value"]
    print(f"{'row':12} {'peer':10} {'Manta':>12} {'peer':>12} {'times':>8}")
    for row, unit, peer, fn in (("trials", "1/s", "Optuna", optuna_trials), ("trials", "1/s", "Ray Tune", tune_trials),
                                ("tpe_suggest", "us", "Optuna", optuna_suggest)):
        theirs = measured(f"{peer} {row}", fn)
        if theirs is None or row not in ours:
            continue
        times = ours[row] / theirs if unit == "1/s" else theirs / ours[row]
        print(f"{row:12} {peer:10} {ours[row]:8.4g} {unit:3} {theirs:8.4g} {unit:3} {times:8.1f}")


main()
