/* SPDX-License-Identifier: Apache-2.0
 *
 * quality.c - are Manta's samplers as good as Optuna's? Also: how long a suggestion takes.
 *
 *   sweep_quality [REFERENCE [SAMPLER...]]      tests/bench/sweep/reference.txt, all that it has
 *   sweep_quality --suggest                     microseconds of a suggestion, 8 parameters: TPE, trials 1000 to 1199; GP, ten after
 *                                               100 and after 500 results of random search
 *
 * For each sampler and function: the best of 100 trials with as many seeds as the reference has (at most 30), medians of both, the
 * one-sided Mann-Whitney test that ours are worse, Holm-corrected over the functions of a sampler, Kolmogorov-Smirnov's test, and
 * the mean microseconds of a suggestion (Optuna's: reference.py --time).
 * Exit status 1 where a corrected p is below 0.05. Functions and bounds are those of reference.py. Thread: one.
 */
#include "sweep/sample/sampler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TRIALS = 100, SEEDS_MAX = 30, DIMS_MAX = 10, SUGGEST_AFTER = 1000, SUGGEST_TRIALS = 200, SUGGEST_DIMS = 8 };
#define PI 3.14159265358979323846

/* ---- functions ---- */

static double hartmann(const double *a, const double *p, const double *x, int n)
{
    static const double c[4] = {1.0, 1.2, 3.0, 3.2};
    double              total = 0;
    for (int j = 0; j < 4; j++) {
        double inner = 0;
        for (int i = 0; i < n; i++)
            inner += a[j * n + i] * pow(x[i] - p[j * n + i] * 1e-4, 2);
        total -= c[j] * exp(-inner);
    }
    return total;
}

static double hartmann3(const double *x, int n)
{
    static const double a[12] = {3, 10, 30, 0.1, 10, 35, 3, 10, 30, 0.1, 10, 35};
    static const double p[12] = {3689, 1170, 2673, 4699, 4387, 7470, 1091, 8732, 5547, 381, 5743, 8828};
    return hartmann(a, p, x, n);
}

static double hartmann6(const double *x, int n)
{
    static const double a[24] = {10, 3,   17,  3.5, 1.7, 8, 0.05, 10, 17,   0.1, 8,   14,
                                 3,  3.5, 1.7, 10,  17,  8, 17,   8,  0.05, 10,  0.1, 14};
    static const double p[24] = {1312, 1696, 5569, 124,  8283, 5886, 2329, 4135, 8307, 3736, 1004, 9991,
                                 2348, 1451, 3522, 2883, 3047, 6650, 4047, 8828, 8732, 5743, 1091, 381};
    return hartmann(a, p, x, n);
}

static double branin2(const double *x, int n)
{
    (void)n;
    return pow(x[1] - 5.1 / (4 * PI * PI) * x[0] * x[0] + 5 / PI * x[0] - 6, 2) + 10 * (1 - 1 / (8 * PI)) * cos(x[0]) + 10;
}

static double camel2(const double *x, int n)
{
    (void)n;
    double a = x[0] * x[0], b = x[1] * x[1];
    return (4 - 2.1 * a + a * a / 3) * a + x[0] * x[1] + (-4 + 4 * b) * b;
}

static double goldstein2(const double *x, int n)
{
    (void)n;
    double a = x[0], b = x[1];
    double one = 1 + pow(a + b + 1, 2) * (19 - 14 * a + 3 * a * a - 14 * b + 6 * a * b + 3 * b * b);
    double two = 30 + pow(2 * a - 3 * b, 2) * (18 - 32 * a + 12 * a * a + 48 * b - 36 * a * b + 27 * b * b);
    return log(one * two);
}

static double rosenbrock5(const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i + 1 < n; i++)
        sum += 100 * pow(x[i + 1] - x[i] * x[i], 2) + pow(1 - x[i], 2);
    return sum;
}

static double ackley10(const double *x, int n)
{
    double squares = 0, cosines = 0;
    for (int i = 0; i < n; i++) {
        squares += x[i] * x[i] / n;
        cosines += cos(2 * PI * x[i]) / n;
    }
    return -20 * exp(-0.2 * sqrt(squares)) - exp(cosines) + 20 + exp(1);
}

static double rastrigin5(const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * x[i] - 10 * cos(2 * PI * x[i]) + 10;
    return sum;
}

static double griewank6(const double *x, int n)
{
    double sum = 0, product = 1;
    for (int i = 0; i < n; i++) {
        sum += x[i] * x[i] / 4000;
        product *= cos(x[i] / sqrt(i + 1));
    }
    return sum - product + 1;
}

static double levy5(const double *x, int n)
{
    double last = 1 + (x[n - 1] - 1) / 4, sum = pow(sin(PI * (1 + (x[0] - 1) / 4)), 2);
    for (int i = 0; i + 1 < n; i++) {
        double w = 1 + (x[i] - 1) / 4;
        sum += pow(w - 1, 2) * (1 + 10 * pow(sin(PI * w + 1), 2));
    }
    return sum + pow(last - 1, 2) * (1 + pow(sin(2 * PI * last), 2));
}

static double styblinski5(const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (pow(x[i], 4) - 16 * x[i] * x[i] + 5 * x[i]) / 2;
    return sum;
}

static double zakharov5(const double *x, int n)
{
    double sum = 0, s = 0;
    for (int i = 0; i < n; i++) {
        sum += x[i] * x[i];
        s += 0.5 * (i + 1) * x[i];
    }
    return sum + s * s + s * s * s * s;
}

static const struct function {
    const char *name;
    double (*at)(const double *x, int n);
    int    dims;
    double low, high, low_last, high_last; /* the last dimension has its own where they are not both 0 */
} functions[] = {
    {"ackley10", ackley10, 10, -32.768, 32.768, 0, 0},
    {"branin2", branin2, 2, -5, 10, 0, 15},
    {"camel2", camel2, 2, -3, 3, -2, 2},
    {"goldstein2", goldstein2, 2, -2, 2, 0, 0},
    {"griewank6", griewank6, 6, -600, 600, 0, 0},
    {"hartmann3", hartmann3, 3, 0, 1, 0, 0},
    {"hartmann6", hartmann6, 6, 0, 1, 0, 0},
    {"levy5", levy5, 5, -10, 10, 0, 0},
    {"rastrigin5", rastrigin5, 5, -5.12, 5.12, 0, 0},
    {"rosenbrock5", rosenbrock5, 5, -5, 10, 0, 0},
    {"styblinski5", styblinski5, 5, -5, 5, 0, 0},
    {"zakharov5", zakharov5, 5, -5, 10, 0, 0},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

/* ---- ours ---- */

static void fail(const char *what)
{
    fprintf(stderr, "sweep_quality: %s\n", what);
    exit(2);
}

static struct swp_space *space_of(const struct function *f)
{
    struct swp_param   params[DIMS_MAX] = {{0}};
    char               names[DIMS_MAX][16];
    struct swp_problem problem = {{0}, {0}};
    struct swp_space  *space;
    for (int i = 0; i < f->dims; i++) {
        bool is_own = i == f->dims - 1 && (f->low_last != 0 || f->high_last != 0);
        snprintf(names[i], sizeof names[i], "x%d", i);
        params[i] = (struct swp_param){
            .name = names[i], .kind = SWP_UNIFORM, .low = is_own ? f->low_last : f->low, .high = is_own ? f->high_last : f->high};
    }
    struct swp_space_def def = {.params = params, .param_count = (uint32_t)f->dims};
    if (swp_space_new(&def, &space, &problem).code != 0)
        fail(problem.text);
    return space;
}

static struct swp_sampler *sampler_of(const char *text, const struct swp_space *space, uint64_t seed)
{
    struct swp_sampler_opts opts;
    struct swp_problem      problem = {{0}, {0}};
    struct swp_sampler     *s;
    if (swp_sampler_opts_parse(text, &opts, &problem).code != 0 || swp_sampler_new(&opts, space, seed, &s, &problem).code != 0)
        fail(problem.text);
    return s;
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* The best value; what suggestions took is added to *spent_us. */
static double best_of(const char *text, const struct function *f, uint64_t seed, double *spent_us)
{
    struct swp_space   *space = space_of(f);
    struct swp_sampler *s = sampler_of(text, space, seed);
    double              best = INFINITY;
    for (uint64_t t = 0; t < TRIALS; t++) {
        struct swp_point p;
        double           began = now_us();
        if (swp_sampler_suggest(s, t, &p).code != 0)
            fail("suggest");
        *spent_us += now_us() - began;
        struct swp_outcome outcome = {.kind = SWP_COMPLETE, .value = f->at(p.values, f->dims)};
        if (swp_sampler_tell(s, t, &outcome).code != 0)
            fail("tell");
        best = fmin(best, outcome.value);
    }
    swp_sampler_free(s);
    swp_space_free(space);
    return best;
}

/* ---- statistics ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *sorted, int n)
{
    return 0.5 * (sorted[(n - 1) / 2] + sorted[n / 2]);
}

/* p of "ours tend to be larger", by the normal approximation with ties and continuity. */
static double mann_whitney(const double *ours, int n, const double *theirs, int m)
{
    double u = 0, ties = 0, all = n + m;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < m; k++)
            u += ours[i] > theirs[k] ? 1 : ours[i] == theirs[k] ? 0.5 : 0;
    for (int i = 0; i < n + m; i++) { /* sum over values of (t^3 - t), each of the t values in a tie adding (t^2 - 1) */
        double x = i < n ? ours[i] : theirs[i - n], t = 0;
        for (int k = 0; k < n + m; k++)
            t += (k < n ? ours[k] : theirs[k - n]) == x;
        ties += t * t - 1;
    }
    double variance = n * m / 12.0 * (all + 1 - ties / (all * (all - 1)));
    return variance > 0 ? 0.5 * erfc((u - n * m / 2.0 - 0.5) / sqrt(2 * variance)) : 1;
}

/* Two-sided p of Kolmogorov and Smirnov's two-sample test, asymptotic. */
static double kolmogorov(const double *ours, int n, const double *theirs, int m)
{
    double largest = 0, p = 0;
    for (int i = 0, k = 0; i < n && k < m;) {
        double x = fmin(ours[i], theirs[k]);
        while (i < n && ours[i] <= x)
            i++;
        while (k < m && theirs[k] <= x)
            k++;
        largest = fmax(largest, fabs((double)i / n - (double)k / m));
    }
    double root = sqrt((double)n * m / (n + m)), lambda = (root + 0.12 + 0.11 / root) * largest;
    for (int j = 1; j <= 100; j++)
        p += (j % 2 ? 2 : -2) * exp(-2.0 * j * j * lambda * lambda);
    return lambda < 0.2 ? 1 : fmin(fmax(p, 0), 1);
}

/* Holm: the k-th smallest of n times (n - k), never below its predecessor. */
static void holm(const double *p, const int *present, double *out)
{
    int    left = 0;
    double last = 0;
    bool   done[FUNCTIONS] = {false};
    for (int i = 0; i < FUNCTIONS; i++)
        left += present[i] > 0;
    for (; left > 0; left--) {
        int least = -1;
        for (int i = 0; i < FUNCTIONS; i++)
            if (present[i] && !done[i] && (least < 0 || p[i] < p[least]))
                least = i;
        done[least] = true;
        last = out[least] = fmin(fmax(last, p[least] * left), 1);
    }
}

/* ---- the table ---- */

struct reference {
    char   sampler[32];
    double best[FUNCTIONS][SEEDS_MAX];
    int    count[FUNCTIONS];
};

static void load(const char *path, struct reference *r)
{
    char   line[256], sampler[32], name[32];
    int    seed;
    double best;
    FILE  *file = fopen(path, "r");
    if (!file)
        fail("cannot open the reference");
    memset(r->count, 0, sizeof r->count);
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%31s %31s %d %lf", sampler, name, &seed, &best) != 4 || strcmp(sampler, r->sampler) != 0)
            continue;
        for (int i = 0; i < FUNCTIONS; i++)
            if (strcmp(functions[i].name, name) == 0 && r->count[i] < SEEDS_MAX)
                r->best[i][r->count[i]++] = best;
    }
    fclose(file);
}

static int compare(const char *path, const char *sampler)
{
    static const struct {
        const char *name, *text;
    } texts[] = {{"tpe_independent", "tpe,independent,no_liar"}};
    struct reference r;
    double           p[FUNCTIONS] = {0}, corrected[FUNCTIONS] = {0}, ks[FUNCTIONS] = {0}, ours[FUNCTIONS][SEEDS_MAX];
    double           spent_us[FUNCTIONS] = {0};
    int              worse = 0;
    const char      *text = sampler;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        text = strcmp(texts[i].name, sampler) == 0 ? texts[i].text : text;
    snprintf(r.sampler, sizeof r.sampler, "%s", sampler);
    load(path, &r);
    for (int i = 0; i < FUNCTIONS; i++) {
        int n = r.count[i];
        for (int seed = 0; seed < n; seed++)
            ours[i][seed] = best_of(text, &functions[i], (uint64_t)seed, &spent_us[i]);
        if (n == 0)
            continue;
        qsort(ours[i], (size_t)n, sizeof(double), by_value);
        qsort(r.best[i], (size_t)n, sizeof(double), by_value);
        p[i] = mann_whitney(ours[i], n, r.best[i], n);
        ks[i] = kolmogorov(ours[i], n, r.best[i], n);
    }
    holm(p, r.count, corrected);
    for (int i = 0; i < FUNCTIONS; i++) {
        if (r.count[i] == 0)
            continue;
        worse += corrected[i] < 0.05;
        printf("%-16s %-12s %5d %12.5g %12.5g %8.3f %8.3f %8.3f %9.1f%s\n", sampler, functions[i].name, r.count[i],
               median(ours[i], r.count[i]), median(r.best[i], r.count[i]), p[i], corrected[i], ks[i],
               spent_us[i] / (r.count[i] * TRIALS), corrected[i] < 0.05 ? "  worse" : "");
    }
    return worse;
}

/* ---- how long a suggestion takes ---- */

static void time_suggestions(const char *text)
{
    const struct function f = {"sphere", rastrigin5, SUGGEST_DIMS, -5, 5, 0, 0};
    struct swp_space     *space = space_of(&f);
    struct swp_sampler   *s = sampler_of(text, space, 1);
    double                times[SUGGEST_TRIALS], sum = 0;
    for (uint64_t t = 0; t < SUGGEST_AFTER + SUGGEST_TRIALS; t++) {
        struct swp_point p;
        double           start = now_us();
        if (swp_sampler_suggest(s, t, &p).code != 0)
            fail("suggest");
        if (t >= SUGGEST_AFTER)
            sum += times[t - SUGGEST_AFTER] = now_us() - start;
        struct swp_outcome outcome = {.kind = SWP_COMPLETE, .value = f.at(p.values, f.dims)};
        if (swp_sampler_tell(s, t, &outcome).code != 0)
            fail("tell");
    }
    qsort(times, SUGGEST_TRIALS, sizeof(double), by_value);
    printf("%-24s us: mean %.1f, p50 %.1f, least %.1f\n", text, sum / SUGGEST_TRIALS, times[SUGGEST_TRIALS / 2], times[0]);
    swp_sampler_free(s);
    swp_space_free(space);
}

/* After results of random search, which a Gaussian process need not suggest by itself. */
static void time_after(const char *text, int known)
{
    enum { TIMES = 10 };
    const struct function f = {"sphere", rastrigin5, SUGGEST_DIMS, -5, 5, 0, 0};
    struct swp_space     *space = space_of(&f);
    struct swp_sampler   *s = sampler_of(text, space, 1);
    double                times[TIMES], sum = 0;
    mt_rng                rng = {1};
    for (int t = 0; t < known + TIMES; t++) {
        struct swp_point p;
        double           start = now_us();
        mt_status        st = t < known ? swp_space_draw(space, &rng, &p) : swp_sampler_suggest(s, (uint64_t)t, &p);
        if (t >= known)
            sum += times[t - known] = now_us() - start;
        struct swp_outcome outcome = {.kind = SWP_COMPLETE, .value = f.at(p.values, f.dims)};
        if (st.code == 0)
            st = t < known ? swp_sampler_know(s, &p, &outcome) : swp_sampler_tell(s, (uint64_t)t, &outcome);
        if (st.code != 0)
            fail("suggest or tell");
    }
    qsort(times, TIMES, sizeof(double), by_value);
    printf("%-16s %7d us: mean %.1f, p50 %.1f, least %.1f\n", text, known, sum / TIMES, times[TIMES / 2], times[0]);
    swp_sampler_free(s);
    swp_space_free(space);
}

int main(int argc, char **argv)
{
    static const char *const all[] = {"tpe", "tpe_independent", "cmaes", "gp"};
    int                      worse = 0;
    if (argc > 1 && strcmp(argv[1], "--suggest") == 0) {
        time_suggestions("tpe");
        time_suggestions("tpe,independent,no_liar");
        time_after("gp", 100);
        time_after("gp", 500);
        return 0;
    }
    const char *path = argc > 1 ? argv[1] : "tests/bench/sweep/reference.txt";
    printf("%-16s %-12s %5s %12s %12s %8s %8s %8s %9s\n", "sampler", "function", "seeds", "ours", "optuna", "p worse", "Holm", "KS",
           "us each");
    for (int i = 2; i < argc; i++)
        worse += compare(path, argv[i]);
    for (size_t i = 0; argc < 3 && i < sizeof all / sizeof *all; i++)
        worse += compare(path, all[i]);
    return worse > 0;
}
