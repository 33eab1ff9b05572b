/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - manta-bench: Ray's microbenchmark cases and Manta's own, with the floors of the same run.
 *
 * A driver like any user's: it links libmanta and starts a private cluster, or uses the one it is given. Its workers
 * are this program again, so nothing but reading options comes before manta_init.
 */
#include "tests/bench/bench.h"

#include <fnmatch.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define X(name) bench_##name##_cases,
static const struct bench_case *const tables[] = {BENCH_FAMILIES(X)};
#undef X
enum { TABLES = sizeof tables / sizeof tables[0] };

static struct bench bench; /* large: refs of the deepest batch */

static void help(FILE *to)
{
    fprintf(to, "usage: manta bench [options]\n"
                "  --filter PATTERN   only these cases: a part of the name, or a pattern with * (may be repeated)\n"
                "  --seconds S        least length of a window; each case has a warm-up and 4 windows (1)\n"
                "  --address DIR      runtime folder of a running cluster, instead of a private one\n"
                "  -o table|wide|json wide adds the ratio to the floor, and the cores that were busy\n"
                "  --list             the cases and their units\n"
                "  --train|--models|--sweep|--asha|--store|--grpc|--metg|--cpus|--cluster [options of its own]\n"
                "                     only as the first word: training; models; sweeps; ASHA and random search;\n"
                "                     the object store alone; gRPC alone; task graphs of fine grain; a node's CPUs, busy and\n"
                "                     no more than that; many nodes\n"
                "                     (--help as its only option shows them)\n"
                "Exit status: 0, or 1 where a case failed, or 2 for bad options.\n");
}

static bool filter_takes(const struct bench_options *options, const char *id)
{
    for (int i = 0; i < options->filter_count; i++) {
        if (strstr(id, options->filter[i]) || fnmatch(options->filter[i], id, 0) == 0)
            return true;
    }
    return options->filter_count == 0;
}

static void list(void)
{
    for (size_t t = 0; t < TABLES; t++) {
        for (const struct bench_case *c = tables[t]; c->id; c++)
            printf("%-34s %s\n", c->id, c->unit);
    }
}

/* -1: go on; else the exit status. */
static int options_read(struct bench_options *options, int argc, char **argv)
{
    enum { FILTER = 256, SECONDS, ADDRESS, LIST };
    static const struct option longs[] = {{"filter", 1, NULL, FILTER}, {"seconds", 1, NULL, SECONDS}, {"address", 1, NULL, ADDRESS},
                                          {"list", 0, NULL, LIST},     {"output", 1, NULL, 'o'},      {"help", 0, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    for (int o; (o = getopt_long(argc, argv, "o:h", longs, NULL)) != -1;) {
        if (o == FILTER && options->filter_count < 16)
            options->filter[options->filter_count++] = optarg;
        else if (o == SECONDS && (options->seconds = strtod(optarg, NULL)) > 0)
            continue;
        else if (o == ADDRESS)
            options->address = optarg;
        else if (o == 'o' && (strcmp(optarg, "table") == 0 || strcmp(optarg, "wide") == 0))
            options->output = optarg[0] == 't' ? BENCH_TABLE : BENCH_WIDE;
        else if (o == 'o' && strcmp(optarg, "json") == 0)
            options->output = BENCH_JSON;
        else if (o == LIST)
            return list(), 0;
        else if (o == 'h')
            return help(stdout), 0;
        else
            return help(stderr), 2;
    }
    return optind == argc ? -1 : (help(stderr), 2);
}

/* Whether any chosen case needs this process to be a driver. */
static bool needs_cluster(const struct bench_options *options)
{
    for (size_t t = 0; t < TABLES; t++) {
        for (const struct bench_case *c = tables[t]; c->id; c++) {
            if (c->needs_cluster && filter_takes(options, c->id))
                return true;
        }
    }
    return options->address != NULL;
}

static void case_run(struct bench *b, const struct bench_case *c)
{
    struct bench_row row = {.id = c->id, .unit = c->unit, .floor = c->floor};
    char             id[64];
    if (!c->run(b, &row)) {
        fprintf(stderr, "manta-bench: case \"%s\" FAILED\n", c->id);
        b->failures++;
        return;
    }
    if (row.n == 0)
        return;
    row.floor_value = bench_floor(b, row.floor);
    if (row.floor_value == 0)
        row.floor = FLOOR_NONE;
    bench_print_row(b, &row);
    if (row.more == BENCH_ONE_ROW)
        return;
    snprintf(id, sizeof id, "%s%s", c->id, row.more == BENCH_AND_P50 ? ".p50" : ".p99");
    row.id = id;
    row.value = row.more == BENCH_AND_P50 ? row.p50 : row.p99;
    bench_print_row(b, &row);
}

static void cases_run(struct bench *b)
{
    bench_print_head(b);
    for (size_t t = 0; t < TABLES; t++) {
        for (const struct bench_case *c = tables[t]; c->id; c++) {
            if (filter_takes(&b->options, c->id))
                case_run(b, c);
        }
    }
}

/* Figures that are programs of their own, since what they link (a BLAS, gRPC) would change the others. */
static int program_run(char **argv)
{
    char name[64], path[4160];
    snprintf(name, sizeof name, "manta-bench-%s", argv[1] + 2);
    if (!bench_program(&bench, name, path, sizeof path))
        return fprintf(stderr, "manta-bench: %s is not installed beside this program\n", name), 1;
    argv[1] = path;
    execv(path, argv + 1);
    return perror(path), 1;
}

static bool is_program(const char *word)
{
    static const char *const words[] = {"--train", "--models", "--sweep", "--asha",   "--store",
                                        "--grpc",  "--metg",   "--cpus",  "--cluster"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

/* --child WHAT FD SECONDS [ADDRESS]: see child.c. */
static int child_main(int argc, char **argv)
{
    manta_error e;
    bench.options.seconds = strtod(argv[4], NULL);
    if (manta_init(&argc, &argv, &(manta_init_opts){.address = argv[5]}, &e))
        return manta_perror(&e), 1;
    int code = bench_child(&bench, argv[2], (int)strtol(argv[3], NULL, 10));
    return manta_shutdown(), code;
}

int main(int argc, char **argv)
{
    manta_error e;
    if (argc >= 5 && strcmp(argv[1], "--child") == 0)
        return child_main(argc, argv);
    if (readlink("/proc/self/exe", bench.program, sizeof bench.program - 1) <= 0)
        return perror("manta-bench: /proc/self/exe"), 1;
    if (argc > 1 && is_program(argv[1]))
        return program_run(argv);
    bench.options.seconds = 1;
    int code = options_read(&bench.options, argc, argv);
    if (code >= 0)
        return code;
    if (needs_cluster(&bench.options) && manta_init(&argc, &argv, &(manta_init_opts){.address = bench.options.address}, &e))
        return manta_perror(&e), 1;
    bench.cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    cases_run(&bench);
    if (needs_cluster(&bench.options))
        manta_shutdown();
    return bench.failures ? 1 : 0;
}
