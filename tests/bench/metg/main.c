/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - manta-bench-metg: the smallest task that is still worth it, METG(50 %) of Task Bench (Slaughter et al., SC'20).
 *
 *   manta bench --metg [-p pattern] [-f tasks|actors|peers] [-w width] [-r rounds] [-n | -N] [-k us] [-o table|json]
 *                        -n: over two nodes, a head and two raylets of one CPU each on this machine
 *                        -N: all places on a node that has all CPUs, the driver on another one
 *                        -k: tasks of this size alone, `rounds` graphs: the mean granularity. For profiles
 *
 * A row is the median of some rounds (sweep.h); 0: no size reaches one half. The driver has no core of its own. Every number that
 * a task takes is checked.
 *
 * Thread: the main one.
 */
#include "tests/bench/metg/metg.h"
#include "tests/bench/metg/sweep.h"
#include "tests/bench/usage.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALIBRATION_MS = 50, CALIBRATION_ROUNDS = 5, WIDTHS = 3 };

static const int                     widths[WIDTHS] = {2, 4, 16};
static const struct metg_form *const forms[] = {&metg_tasks, &metg_actors, &metg_peers};
enum { FORMS = sizeof forms / sizeof forms[0] };

struct choice {
    const char *pattern, *form;
    int         width, rounds;
    double      size_us;           /* 0: the series that finds METG */
    bool        two_nodes, is_far; /* far: all on the second one */
};

static struct bench bench;

/* ---- what the cores can do ---- */
/* Iterations a second of all cores together, each with a process of its own; the best of some rounds. */
static double cores_rate(int cores)
{
    enum { CHUNK = 10000 };
    double *rates = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    double  best = 0;
    if (rates == MAP_FAILED)
        return 0;
    for (int round = 0; round < CALIBRATION_ROUNDS; round++) {
        double sum = 0;
        for (int i = 0; i < cores; i++) {
            if (fork() != 0)
                continue;
            uint64_t start = bench_now_ns(), now = start, done = 0;
            for (; now - start < CALIBRATION_MS * 1000000ull; now = bench_now_ns(), done += CHUNK)
                (void)graph_work(CHUNK);
            rates[i] = (double)done * 1e9 / (double)(now - start);
            _exit(0);
        }
        for (int i = 0; i < cores; i++)
            wait(NULL);
        for (int i = 0; i < cores; i++)
            sum += rates[i];
        best = sum > best ? sum : best;
    }
    munmap(rates, 4096);
    return best;
}

/* ---- the rows ---- */
struct row {
    struct metg             m;
    const struct metg_form *form;
};

static double graph_once(void *arg, int64_t iterations)
{
    struct row *r = arg;
    r->m.iterations = iterations;
    return r->form->run(&r->m);
}

/* The median granularity of graphs with tasks of one size; < 0: failed. */
static double size_alone(struct metg_sweep *s, const struct choice *choice, double *out_sd)
{
    double granularity[METG_ROUNDS_MAX], efficiency, squares = 0;
    for (int i = 0; i < choice->rounds; i++)
        if (!metg_point(s, choice->size_us, &granularity[i], &efficiency))
            return -1;
    qsort(granularity, (size_t)choice->rounds, sizeof granularity[0], metg_by_value);
    for (int i = 0; i < choice->rounds; i++)
        squares += (granularity[i] - granularity[choice->rounds / 2]) * (granularity[i] - granularity[choice->rounds / 2]);
    *out_sd = sqrt(squares / choice->rounds);
    return granularity[choice->rounds / 2];
}

typedef double (*metg_bare_form)(void *arg, int64_t iterations);

/* METG of bare processes; 0: no size reaches one half. */
static double bare_metg(const struct metg_sweep *s, struct metg_bare m, metg_bare_form run)
{
    struct metg_sweep bare = {.run = run, .arg = &m, .width = s->width, .cores = s->cores, .rate = s->rate};
    double            sd;
    return metg_median(&bare, 1, &sd);
}

/* Of two nodes; in both forms, each a row of its own. The better one. */
static double bare_nodes_metg(const struct metg_sweep *s, struct metg_bare m)
{
    static const char *const ids[2] = {"bare.remote.yielding", "bare.remote.asleep"};
    double                  *best = &bench.floors[FLOOR_BARE_TCP];
    bool                     is_known = *best > 0;
    for (int sleeps = 0; !is_known && sleeps < 2; sleeps++) {
        struct bench_row row = {.id = ids[sleeps], .unit = "us", .n = 1};
        m.sleeps = sleeps;
        row.value = bare_metg(s, m, metg_bare_run);
        bench_print_row(&bench, &row);
        *best = row.value > 0 && (*best <= 0 || row.value < *best) ? row.value : *best;
    }
    return *best;
}

/* The same with a lane's record, claim and outcome for each number: a row of its own beside the actors'. */
static void bare_lanes_metg(const struct metg_sweep *s, struct metg_bare m)
{
    char             id[64];
    struct bench_row row = {.id = id, .unit = "us", .n = 1, .floor = FLOOR_NONE};
    snprintf(id, sizeof id, "bare.lanes.%s.%d", graph_names[m.pattern], m.width);
    row.value = bare_metg(s, m, metg_lanes_run);
    bench_print_row(&bench, &row);
}

/* What the machine itself can do of this row: bare processes where each place has one of its own, or two nodes have two places.
 * Else a ring's round trip. */
static void row_floor(struct bench_row *row, const struct metg_sweep *s, const struct row *r, const struct choice *choice)
{
    bool             is_cut = choice->two_nodes && !choice->is_far; /* the places are on two nodes */
    struct metg_bare m = {.pattern = r->m.pattern, .width = r->m.width, .cores = s->cores, .two_nodes = is_cut};
    bool             fits = m.two_nodes ? m.width == 2 : r->form == &metg_peers;
    row->floor = m.two_nodes ? FLOOR_BARE_TCP : FLOOR_BARE;
    if (choice->size_us > 0 || m.pattern == GRAPH_TRIVIAL || !fits)
        row->floor = FLOOR_RING_RTT;
    row->floor_value = row->floor == FLOOR_RING_RTT ? bench_floor(&bench, FLOOR_RING_RTT)
                       : m.two_nodes                ? bare_nodes_metg(s, m)
                                                    : bare_metg(s, m, metg_bare_run);
    if (row->floor == FLOOR_BARE)
        bare_lanes_metg(s, m);
}

static bool row_run(const struct choice *choice, const uint32_t nodes[2], enum graph_pattern pattern, const struct metg_form *form,
                    int width, const double rates[])
{
    int               cores = width < bench.cpus ? width : bench.cpus;
    char              id[64];
    struct row        r = {{.b = &bench, .pattern = pattern, .width = width, .nodes = {nodes[0], nodes[1]}}, form};
    struct metg_sweep s = {.run = graph_once, .arg = &r, .width = width, .cores = cores, .rate = rates[cores]};
    struct bench_row  row = {.id = id, .unit = "us"};
    snprintf(id, sizeof id, "%s.%s%s.%s.%d", choice->size_us > 0 ? "step" : "metg",
             choice->is_far      ? "far."
             : choice->two_nodes ? "remote."
                                 : "",
             form->name, graph_names[pattern], width);
    row_floor(&row, &s, &r, choice);
    row.value = !form->begin(&r.m)    ? -1
                : choice->size_us > 0 ? size_alone(&s, choice, &row.sd)
                                      : metg_median(&s, choice->rounds, &row.sd);
    row.n = s.tasks;
    form->end(&r.m);
    if (row.value < 0)
        return fprintf(stderr, "manta-bench-metg: %s FAILED\n", id), false;
    bench_print_row(&bench, &row);
    return true;
}

static bool rows_run(const struct choice *choice, const uint32_t nodes[2], const double rates[])
{
    bool ok = true;
    bench_print_head(&bench);
    for (int f = 0; f < FORMS; f++)
        for (int w = 0; w < WIDTHS; w++)
            for (int p = 0; p < GRAPH_PATTERNS; p++)
                if ((!choice->form || strcmp(choice->form, forms[f]->name) == 0) &&
                    (!choice->width || choice->width == widths[w]) &&
                    (!choice->pattern || strcmp(choice->pattern, graph_names[p]) == 0))
                    ok = row_run(choice, nodes, (enum graph_pattern)p, forms[f], widths[w], rates) && ok;
    return ok;
}

/* The numbers of both nodes, as soon as both are there. */
static bool nodes_know(uint32_t nodes[2], bool is_far)
{
    manta_node_info list[2];
    manta_error     e;
    for (int tries = 0; tries < 1000; tries++) {
        if (manta_nodes(list, 2, &e) == 2 && list[0].alive && list[1].alive) {
            nodes[0] = list[is_far].node;
            nodes[1] = list[1].node;
            return true;
        }
        bench_sleep_us(10 * 1000);
    }
    fprintf(stderr, "manta-bench-metg: the second node does not come\n");
    return false;
}

/* This program again, as a driver on the first of two nodes: workers begin as main does, so it may not start nodes itself. */
static int on_two_nodes(bool is_far, int argc, char **argv)
{
    struct bench_nodes nodes;
    char              *words[32], address[] = "-a";
    int                status = 1;
    if (argc > 28 || !bench_nodes_start(&bench, &nodes, is_far ? (int)sysconf(_SC_NPROCESSORS_ONLN) : 1))
        return 1;
    memcpy(words, argv, (size_t)argc * sizeof *words);
    words[argc] = address, words[argc + 1] = nodes.dirs[0], words[argc + 2] = NULL;
    pid_t pid = fork();
    if (pid == 0)
        execv(bench.program, words), _exit(127);
    if (pid > 0)
        waitpid(pid, &status, 0);
    bench_nodes_stop(&nodes);
    return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static bool options_read(struct choice *choice, int argc, char **argv)
{
    for (int o; (o = getopt(argc, argv, "p:f:w:r:k:nNa:o:")) != -1;) {
        if (o == 'p')
            choice->pattern = optarg;
        else if (o == 'f')
            choice->form = optarg;
        else if (o == 'w')
            choice->width = (int)strtol(optarg, NULL, 10);
        else if (o == 'r')
            choice->rounds = (int)strtol(optarg, NULL, 10);
        else if (o == 'k')
            choice->size_us = strtod(optarg, NULL);
        else if (o == 'n' || o == 'N')
            choice->two_nodes = true, choice->is_far = o == 'N';
        else if (o == 'a')
            bench.options.address = optarg;
        else if (o == 'o')
            bench.options.output = strcmp(optarg, "json") == 0 ? BENCH_JSON : BENCH_TABLE;
        else
            return false;
    }
    return choice->rounds >= 1 && choice->rounds <= METG_ROUNDS_MAX;
}

int main(int argc, char **argv)
{
    struct choice choice = {.rounds = 3};
    double        rates[GRAPH_WIDTH_MAX + 1] = {0};
    uint32_t      nodes[2] = {0, 0};
    manta_error   e;
    bool          is_help = bench_is_help(argc, argv);
    if (is_help || !options_read(&choice, argc, argv))
        return bench_usage(is_help, "--metg [-p pattern] [-f tasks|actors|peers] [-w 2|4|16] [-r rounds] [-n | -N] [-k us]\n"
                                    "                          [-o table|json]");
    if (readlink("/proc/self/exe", bench.program, sizeof bench.program - 1) <= 0)
        return perror("manta-bench-metg: /proc/self/exe"), 1;
    if (choice.two_nodes && !bench.options.address)
        return on_two_nodes(choice.is_far, argc, argv);
    if (manta_init(&argc, &argv, &(manta_init_opts){.address = bench.options.address}, &e))
        return manta_perror(&e);
    bench.cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    for (int i = 0; i < WIDTHS; i++) {
        int cores = widths[i] < bench.cpus ? widths[i] : bench.cpus;
        if (rates[cores] == 0)
            rates[cores] = cores_rate(cores);
    }
    bool ok = (!choice.two_nodes || nodes_know(nodes, choice.is_far)) && rows_run(&choice, nodes, rates);
    manta_shutdown();
    return ok ? 0 : 1;
}
