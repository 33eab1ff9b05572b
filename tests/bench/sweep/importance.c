/* SPDX-License-Identifier: Apache-2.0
 *
 * importance.c - how much parameters matter in given results, for scripts/peers_importance.py; and how long it takes.
 *
 *   sweep_importance fanova|ped_anova SEED...   reads a space (JSON, one line) and rows "{"x0":0.5,...} RESULT" from standard
 *                                               input; prints one line a seed: {"x0":SHARE,...}
 *   sweep_importance --time                     seconds and peak memory of 10,000 random rows of 30 parameters: each method,
 *                                               then fanova with pairs
 * Thread: one.
 */
#include "sweep/importance/importance.h"

#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

enum { TIMED_ROWS = 10000, TIMED_PARAMS = 30, LINE_MAX_BYTES = 65536 };

struct data {
    struct swp_space *space;
    MT_VEC(double) points;
    MT_VEC(double) results;
};

static int failed(const char *text)
{
    fprintf(stderr, "sweep_importance: %s\n", text);
    return 2;
}

static bool row_read(struct data *d, const char *line)
{
    struct swp_problem problem = {0};
    struct swp_point   point;
    const char        *end = strrchr(line, '}');
    if (!end || swp_point_from_json(d->space, mt_view_of(line, (size_t)(end + 1 - line)), NULL, &point, &problem).code)
        return false;
    for (uint32_t i = 0; i < swp_space_count(d->space); i++)
        if (mt_vec_push(&d->points, point.values[i]).code)
            return false;
    return mt_vec_push(&d->results, strtod(end + 1, NULL)).code == 0;
}

static bool data_read(struct data *d)
{
    static char        line[LINE_MAX_BYTES];
    struct swp_problem problem = {0};
    if (!fgets(line, sizeof line, stdin) || swp_space_from_json(mt_view_text(line), &d->space, &problem).code) {
        fprintf(stderr, "sweep_importance: the space: %s\n", problem.text);
        return false;
    }
    while (fgets(line, sizeof line, stdin))
        if (!row_read(d, line))
            return false;
    return true;
}

static int weigh(const struct data *d, enum swp_importance_kind kind, uint64_t seed, bool pairs, bool is_quiet)
{
    struct swp_importance_ask ask = {.kind = kind,
                                     .space = d->space,
                                     .points = d->points.data,
                                     .results = d->results.data,
                                     .rows = (uint32_t)d->results.count,
                                     .seed = seed,
                                     .pairs = pairs};
    struct swp_weights        weights = {0};
    struct swp_problem        problem = {0};
    if (swp_importance(&ask, &weights, &problem).code)
        return failed(problem.text);
    for (size_t i = 0; i < weights.list.count && !is_quiet; i++)
        printf("%s\"%s\": %.17g%s", i ? ", " : "{", swp_space_param(d->space, weights.list.data[i].param)->name,
               weights.list.data[i].share, i + 1 == weights.list.count ? "}\n" : "");
    mt_vec_fini(&weights.list);
    return 0;
}

/* ---- time ---- */

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static struct swp_space *cube(void)
{
    struct swp_param     params[TIMED_PARAMS] = {{0}};
    struct swp_space_def def = {.params = params, .param_count = TIMED_PARAMS};
    struct swp_problem   problem = {0};
    struct swp_space    *space = NULL;
    char                 names[TIMED_PARAMS][8];
    for (int i = 0; i < TIMED_PARAMS; i++) {
        snprintf(names[i], sizeof names[i], "x%d", i);
        params[i] = (struct swp_param){.name = names[i], .kind = SWP_UNIFORM, .high = 1};
    }
    return swp_space_new(&def, &space, &problem).code ? NULL : space;
}

static int time_all(void)
{
    struct data d = {.space = cube()};
    mt_rng      rng = {1};
    if (!d.space || mt_vec_reserve(&d.points, TIMED_ROWS * TIMED_PARAMS).code || mt_vec_reserve(&d.results, TIMED_ROWS).code)
        return failed("no memory");
    for (int row = 0; row < TIMED_ROWS; row++) {
        double result = 0;
        for (int i = 0; i < TIMED_PARAMS; i++) {
            double x = d.points.data[d.points.count++] = swp_rng_real(&rng);
            result += x * x / (i + 1) + (i == 1 ? d.points.data[d.points.count - 2] * x : 0);
        }
        d.results.data[d.results.count++] = result + 0.1 * swp_rng_normal(&rng);
    }
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"ped_anova", "fanova", "fanova with pairs"};
        struct rusage            used;
        double                   begun = seconds();
        if (weigh(&d, i ? SWP_FANOVA : SWP_PED_ANOVA, 1, i == 2, true))
            return 2;
        getrusage(RUSAGE_SELF, &used);
        printf("%-18s %d rows x %d parameters: %.2f s, peak of the process %.1f MB\n", names[i], TIMED_ROWS, TIMED_PARAMS,
               seconds() - begun, (double)used.ru_maxrss / 1024);
    }
    return 0;
}

int main(int argc, char **argv)
{
    enum swp_importance_kind kind;
    static struct data       d;
    int                      status = 0;
    if (argc == 2 && strcmp(argv[1], "--time") == 0)
        return time_all();
    if (argc < 3 || !swp_importance_parse(argv[1], &kind))
        return failed("usage: sweep_importance fanova|ped_anova SEED... <DATA, or --time");
    if (!data_read(&d))
        return failed("the data can't be read");
    for (int i = 2; i < argc && status == 0; i++)
        status = weigh(&d, kind, strtoull(argv[i], NULL, 10), false, false);
    return status;
}
