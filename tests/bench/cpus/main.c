/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - manta-bench-cpus: work that keeps a node's CPUs busy, and whether more tasks run at once than it has.
 *
 *   manta bench --cpus [-c case] [-r rounds] [-o table|json]
 *
 * A row is the median of some rounds. over_cpus counts, in all rounds of the case before it, the tasks that began while as many ran
 * as there are CPUs; one that waits in a get does not run, and one that goes on is excused. Every result is checked.
 *
 * Thread: the main one.
 */
#include "tests/bench/cpus/cpus.h"
#include "tests/bench/usage.h"

#include <manta.h>

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS_MAX = 99 };

static struct bench bench;

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of some rounds; < 0: one failed. */
static double median_of(double (*run)(int64_t), int64_t arg, int rounds)
{
    double seconds[ROUNDS_MAX];
    for (int i = 0; i < rounds; i++)
        if ((seconds[i] = run(arg)) < 0)
            return -1;
    qsort(seconds, (size_t)rounds, sizeof *seconds, compare);
    return seconds[rounds / 2];
}

static double cholesky(int64_t by_openblas)
{
    return by_openblas ? cholesky_openblas(&bench) : cholesky_run(&bench);
}

static double tree(int64_t leaves)
{
    return tree_run(&bench, leaves);
}

static void over_print(const char *name, uint64_t n)
{
    char             id[64];
    int64_t          most;
    struct bench_row row = {.id = id, .unit = "tasks", .n = n};
    snprintf(id, sizeof id, "over_cpus.%s", name);
    row.value = (double)count_over(&most);
    bench_print_row(&bench, &row);
    snprintf(id, sizeof id, "most_at_once.%s", name);
    row.value = (double)most;
    bench_print_row(&bench, &row);
}

static bool cholesky_case(int rounds)
{
    double           ours = median_of(cholesky, false, rounds), theirs = median_of(cholesky, true, rounds);
    struct bench_row row = {.id = "cholesky", .unit = "GFLOP/s", .n = (uint64_t)rounds, .floor = FLOOR_POTRF};
    if (ours < 0 || theirs < 0)
        return false;
    row.value = cholesky_gflop() / ours;
    row.floor_value = cholesky_gflop() / theirs;
    bench_print_row(&bench, &row);
    over_print("cholesky", (uint64_t)rounds);
    return true;
}

static bool tree_case(int64_t leaves, int rounds)
{
    char             id[64], name[40];
    double           seconds = median_of(tree, leaves, rounds);
    struct bench_row row = {.id = id, .unit = "ms", .n = (uint64_t)rounds, .floor = FLOOR_FUTEX_RTT};
    if (seconds < 0)
        return false;
    snprintf(name, sizeof name, "nested_%lld", (long long)leaves);
    snprintf(id, sizeof id, "%s", name);
    row.value = seconds * 1e3;
    row.floor_value = bench_floor(&bench, FLOOR_FUTEX_RTT);
    bench_print_row(&bench, &row);
    over_print(name, (uint64_t)rounds);
    return true;
}

static int usage(bool is_help)
{
    char words[80];
    snprintf(words, sizeof words, "--cpus [-c cholesky|nested] [-r rounds, 1 to %d] [-o table|json]", ROUNDS_MAX);
    return bench_usage(is_help, words);
}

int main(int argc, char **argv)
{
    const char *only = NULL;
    int         rounds = 5;
    manta_error e;
    if (bench_is_help(argc, argv))
        return usage(true);
    for (int o; (o = getopt(argc, argv, "c:r:o:")) != -1;) {
        if (o == 'c')
            only = optarg;
        else if (o == 'r')
            rounds = (int)strtol(optarg, NULL, 10);
        else if (o == 'o')
            bench.options.output = strcmp(optarg, "json") == 0 ? BENCH_JSON : BENCH_TABLE;
        else
            rounds = 0;
    }
    if (rounds < 1 || rounds > ROUNDS_MAX)
        return usage(false);
    if (manta_init(&argc, &argv, NULL, &e))
        return manta_perror(&e);
    bench.cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    bool ok = count_begin();
    bench_print_head(&bench);
    if (!only || strcmp(only, "cholesky") == 0)
        ok = ok && cholesky_case(rounds);
    if (!only || strcmp(only, "nested") == 0)
        ok = ok && tree_case(10000, rounds) && tree_case(100000, rounds);
    manta_shutdown();
    return ok ? 0 : 1;
}
