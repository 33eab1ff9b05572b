/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - sim_cluster: runs seeds, each a whole cluster with faults, and says which invariant a seed broke.
 *
 *   sim_cluster [--seeds A-B] [--seed N [--trace]] [--nodes N] [--no-head] [--seconds S] [--once] [--first] [--paths] [--hashes]
 *               [--edges] [--jobs] [--long] [--beats] [--plant N]
 *
 * Each seed is run twice, and both traces must be the same (--once: one run). --first ends with the first seed that
 * fails. --paths asks that every counter reached SIM_PATH_LEAST in all seeds together, and every seed SIM_EVENTS_LEAST
 * events and SIM_FAULTS_LEAST faults. --hashes prints the hash of each trace, to hold two builds against
 * each other. --edges: of tasks that take each other's values some run on another node. --jobs: short jobs come, more than
 * there is room for, and some must wait on nodes. --long: some tasks take many seconds, and some need most of a node. --beats:
 * signs of life alone (beats/README.md). Exit status 1: an invariant did not hold, or a path was not taken.
 */
#include "tests/sim/beats/beats.h"
#include "tests/sim/sim.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef MANTA_PLANTS
int mt_plant;
#endif

enum { SIM_PATH_LEAST = 10, SIM_EVENTS_LEAST = 10000, SIM_FAULTS_LEAST = 50, SIM_SHORT_EACH = 4 };

struct options {
    uint64_t first, last;
    int      nodes, seconds;
    bool     trace, once, has_head, stops_at_first, wants_paths, wants_hashes, many_jobs, is_beats, is_crossed, has_long;
    int      plant;
};

static int parse(int argc, char **argv, struct options *o)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        char       *end;
        if (!strcmp(argv[i], "--trace")) {
            o->trace = true;
            continue;
        } else if (!strcmp(argv[i], "--once")) {
            o->once = true;
            continue;
        } else if (!strcmp(argv[i], "--first")) {
            o->stops_at_first = true;
            continue;
        } else if (!strcmp(argv[i], "--no-head")) {
            o->has_head = false;
            o->nodes = 1;
            continue;
        } else if (!strcmp(argv[i], "--paths")) {
            o->wants_paths = true;
            continue;
        } else if (!strcmp(argv[i], "--jobs")) {
            o->many_jobs = true;
            continue;
        } else if (!strcmp(argv[i], "--edges")) {
            o->is_crossed = true;
            continue;
        } else if (!strcmp(argv[i], "--long")) {
            o->has_long = true;
            continue;
        } else if (!strcmp(argv[i], "--beats")) {
            o->is_beats = true;
            continue;
        } else if (!strcmp(argv[i], "--hashes")) {
            o->wants_hashes = true;
            continue;
        } else if (!strcmp(argv[i], "--seed")) {
            o->first = o->last = strtoull(value, &end, 10);
        } else if (!strcmp(argv[i], "--seeds")) {
            o->first = o->last = strtoull(value, &end, 10);
            if (*end == '-')
                o->last = strtoull(end + 1, &end, 10);
        } else if (!strcmp(argv[i], "--nodes")) {
            o->nodes = (int)strtol(value, &end, 10);
        } else if (!strcmp(argv[i], "--seconds")) {
            o->seconds = (int)strtol(value, &end, 10);
        } else if (!strcmp(argv[i], "--plant")) {
            o->plant = (int)strtol(value, &end, 10);
        } else {
            fprintf(stderr, "sim_cluster: unknown option %s\n", argv[i]);
            return 2;
        }
        if (*end || end == value) {
            fprintf(stderr, "sim_cluster: %s wants a number, not '%s'\n", argv[i], value);
            return 2;
        }
        i++;
    }
    return 0;
}

struct total {
    struct sim_counters counters;
    uint64_t seeds, events, events_least, faults_least, jobs_waited, notices, unfits, ends_told, joined, values_sent, room_kept;
};

static void total_add(struct total *t, const struct sim *s)
{
    const uint64_t *from = (const uint64_t *)(const void *)&s->counters;
    uint64_t       *to = (uint64_t *)(void *)&t->counters;
    for (size_t i = 0; i < sizeof s->counters / sizeof *from; i++)
        to[i] += from[i];
    t->events += s->event_count;
    t->jobs_waited += s->jobs_waited;
    t->joined += s->joined;
    t->values_sent += s->values_sent;
    t->room_kept += s->room_kept;
    t->notices += s->notices;
    t->unfits += s->unfits;
    t->ends_told += s->ends_told;
    if (!t->seeds || s->event_count < t->events_least)
        t->events_least = s->event_count;
    if (!t->seeds || s->counters.fault_total < t->faults_least)
        t->faults_least = s->counters.fault_total;
    t->seeds++;
}

static void total_print(const struct total *t, double seconds)
{
    printf("%llu seeds, %llu events (at least %llu a seed), at least %llu faults a seed, %.1f s\n", (unsigned long long)t->seeds,
           (unsigned long long)t->events, (unsigned long long)t->events_least, (unsigned long long)t->faults_least, seconds);
#define X(name) \
    if (t->counters.name) \
        printf("  %-20s %llu\n", #name, (unsigned long long)t->counters.name);
    SIM_COUNTERS(X)
#undef X
}

/* Whether everything that a run in CI has to reach was reached. */
static bool paths_taken(const struct total *t)
{
    bool ok = t->events_least >= SIM_EVENTS_LEAST && t->faults_least >= SIM_FAULTS_LEAST;
#define X(name) \
    if (t->counters.name < SIM_PATH_LEAST) { \
        printf("path %s was taken %llu times, which is less than %d\n", #name, (unsigned long long)t->counters.name, \
               SIM_PATH_LEAST); \
        ok = false; \
    }
    SIM_COUNTERS(X)
#undef X
    return ok;
}

/* One seed, twice. False: an invariant does not hold, or the two runs differ. */
static bool run_seed(const struct options *o, uint64_t seed, struct total *total)
{
    static struct sim s;
    uint64_t          hash = 0;
    for (int run = 0; run < (o->once || o->trace ? 1 : 2); run++) {
        /* Older bugs keep the seeds that show them: one of them needs 400. */
        bool              keeps_disk = o->plant > 0 && o->plant < MT_PLANT_STORE_FORGETS;
        struct sim_config config = {.seed = seed,
                                    .nodes = o->nodes,
                                    .has_head = o->has_head,
                                    .many_jobs = o->many_jobs,
                                    .is_crossed = o->is_crossed,
                                    .has_long = o->has_long,
                                    .trace = o->trace,
                                    .faults_until = (uint64_t)o->seconds * SIM_S,
                                    .limit = (uint64_t)(o->seconds + (o->has_long ? 150 : 90)) * SIM_S,
                                    .drivers_at_a_time = 2,
                                    .ops = 60,
                                    .is_short = seed % SIM_SHORT_EACH == 0,
                                    .fills_head = seed % SIM_SHORT_EACH == SIM_SHORT_EACH - 1,
                                    .has_redis = o->has_head && seed % SIM_SHORT_EACH == 1 && !keeps_disk};
        bool              ok = sim_run(&s, &config);
        if (!ok)
            printf("seed %llu, event %llu, %.6f s: %s\n", (unsigned long long)seed, (unsigned long long)s.event_count,
                   (double)s.now / 1e9, s.failure);
        if (!ok && o->trace) {
            sim_node_dump(&s);
            sim_proc_dump(&s);
        }
        if (run == 0 && ok)
            total_add(total, &s);
        if (run == 1 && s.hash != hash) {
            printf("seed %llu: two runs of it differ\n", (unsigned long long)seed);
            ok = false;
        }
        hash = s.hash;
        if (run == 0 && o->wants_hashes)
            printf("seed %llu: trace %016llx\n", (unsigned long long)seed, (unsigned long long)hash);
        sim_fini(&s);
        if (!ok)
            return false;
    }
    return true;
}

/* Each thing that can happen has happened; or all failed, which is what a planted bug is for. */
static int run_beats(const struct options *o)
{
    struct sim_beats_counters c = {0};
    const uint64_t           *each = (const uint64_t *)(const void *)&c;
    uint64_t                  failed = 0;
    for (uint64_t seed = o->first; seed <= o->last && !(failed && o->stops_at_first); seed++)
        failed += !sim_beats_run(seed, &c);
    for (size_t i = 0; i < sizeof c / sizeof *each && !failed; i++)
        if (each[i] < SIM_PATH_LEAST) {
            printf("counter %zu is %llu\n", i, (unsigned long long)each[i]);
            failed++;
        }
    printf("%llu datagrams heard, %llu lost, %llu doubled, %llu held back, %llu replayed, %llu refused; %llu reports\n",
           (unsigned long long)c.heard, (unsigned long long)c.lost, (unsigned long long)c.doubled, (unsigned long long)c.held_back,
           (unsigned long long)c.replayed, (unsigned long long)c.refused, (unsigned long long)c.reports);
    return failed ? 1 : 0;
}

int main(int argc, char **argv)
{
    struct options  o = {.first = 1, .last = 20, .nodes = 3, .has_head = true, .seconds = 16};
    struct total    total = {0};
    struct timespec begin, end;
    uint64_t        failed = 0;
    if (parse(argc, argv, &o))
        return 2;
#ifdef MANTA_PLANTS
    mt_plant = o.plant;
#endif
    if (o.is_beats)
        return run_beats(&o);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (uint64_t seed = o.first; seed <= o.last && !(failed && o.stops_at_first); seed++)
        failed += !run_seed(&o, seed, &total);
    clock_gettime(CLOCK_MONOTONIC, &end);
    total_print(&total, (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9);
    if (failed)
        printf("%llu seeds failed\n", (unsigned long long)failed);
    if (o.wants_paths && !failed && !paths_taken(&total)) {
        printf("not every path was taken\n");
        failed = 1;
    }
    if (o.many_jobs) {
        printf(
            "%llu jobs have waited on a node, %llu had a notice, %llu attempts were on a node that can't run them, %llu ends have "
            "outlived their raylet, %llu messages travelled with others\n",
            (unsigned long long)total.jobs_waited, (unsigned long long)total.notices, (unsigned long long)total.unfits,
            (unsigned long long)total.ends_told, (unsigned long long)total.joined);
        failed += !total.jobs_waited || !total.notices || !total.unfits || !total.ends_told || !total.joined;
    }
    if (o.has_long) {
        printf("%llu times room was kept for longer than a second\n", (unsigned long long)total.room_kept);
        failed += total.room_kept == 0;
    }
    if (o.is_crossed) {
        printf("%llu values were sent to another node, behind the tasks that take them\n", (unsigned long long)total.values_sent);
        failed += total.values_sent == 0;
    }
    return failed ? 1 : 0;
}
