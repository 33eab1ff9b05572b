/* SPDX-License-Identifier: Apache-2.0
 *
 * importance_test.c - fANOVA against what follows from its definition (trees worked out by hand, any tree counted out cell by cell,
 * functions whose shares are known), PED-ANOVA against Optuna's numbers, and what is refused.
 */
#include "tests/unit/sweep/test.h"

#include "sweep/importance/importance.h"
#include "sweep/importance/marginal.h"
#include "sweep/importance/table.h"
#include "sweep/importance/tree.h"

enum { ROWS_MAX = MT_SWEEP_WEIGHED_MAX };

struct trials {
    struct swp_space *space;
    double            points[ROWS_MAX * 7], results[ROWS_MAX];
    uint32_t          rows;
};

typedef double (*function)(const double *x);

/* Random points of the space; grids keep what stands there, so they are drawn as well. */
static struct trials *trials_of(struct swp_space *space, uint32_t rows, uint64_t seed, function fn)
{
    static struct trials t;
    uint32_t             width = swp_space_count(space);
    t.space = space;
    t.rows = rows;
    for (uint32_t row = 0; row < rows; row++) {
        struct swp_point point;
        mt_rng           rng = swp_rng_of(seed, row, SWP_FOR_RANDOM);
        swp_space_grid_at(space, mt_rng_below(&rng, swp_space_grid_size(space)), &point);
        assert_ok(swp_space_draw(space, &rng, &point));
        memcpy(t.points + row * width, point.values, width * sizeof(double));
        t.results[row] = fn(point.values);
    }
    return &t;
}

static struct swp_importance_ask ask_of(const struct trials *t, enum swp_importance_kind kind, uint64_t seed)
{
    return (struct swp_importance_ask){
        .kind = kind, .space = t->space, .points = t->points, .results = t->results, .rows = t->rows, .seed = seed};
}

struct answer {
    double share[8], variance[8], pair[8][8];
    size_t count;
};

static struct answer weigh(struct swp_importance_ask ask)
{
    struct answer      a = {.count = 0};
    struct swp_weights weights = {0};
    struct swp_problem problem;
    double             sum = 0;
    assert_ok(swp_importance(&ask, &weights, &problem));
    for (size_t i = 0; i < weights.list.count; i++) {
        const struct swp_weight *w = &weights.list.data[i];
        if (w->other >= 0) {
            a.pair[w->param][w->other] = w->variance;
        } else {
            a.share[w->param] = w->share;
            a.variance[w->param] = w->variance;
            sum += w->share;
        }
    }
    a.count = weights.list.count;
    assert_true(fabs(sum - 1) < 1e-9);
    mt_vec_fini(&weights.list);
    return a;
}

static void about(double value, double expected, double off)
{
    if (!(fabs(value - expected) <= off))
        fail_msg("%.5f is not %.5f within %.5f", value, expected, off);
}

/* ---- trees ---- */

static struct swp_space *plane(void)
{
    return SPACE_OF({.name = "x", .kind = SWP_UNIFORM, .high = 1}, {.name = "y", .kind = SWP_UNIFORM, .high = 1},
                    {.name = "c", .kind = SWP_CATEGORICAL, CHOICES(TEXT("a"), TEXT("b"), TEXT("c"), TEXT("d"))}, );
}

static double sum_of(const double *x)
{
    return x[0] + x[1] * x[1] + x[0] * x[1] + x[2] * x[2] / 3 + x[2] * x[1];
}

static struct swp_table table_of(const struct trials *t)
{
    struct swp_importance_ask ask = ask_of(t, SWP_FANOVA, 1);
    struct swp_table          table;
    struct swp_problem        problem;
    assert_ok(swp_table_make(&table, &ask, &problem));
    return table;
}

static void tree_by_hand(const struct swp_tree_node *nodes, size_t count, double variance, const double *single, const double *pair)
{
    struct swp_space                 *space = plane();
    struct swp_table                  table = table_of(trials_of(space, 20, 1, sum_of));
    struct swp_marginals             *m = NULL;
    struct swp_tree                   tree = {{0}}, other = {{0}};
    double                            singles[3], pairs[3];
    static const struct swp_tree_node finer[] = {{0, 1, 2, 0.3, 0},       {.dim = -1, .value = 5}, {0, 3, 4, 0.6, 0},
                                                 {.dim = -1, .value = 1}, {1, 5, 6, 0.5, 0},       {.dim = -1, .value = 2},
                                                 {.dim = -1, .value = 7}};
    for (size_t i = 0; i < count; i++)
        assert_ok(mt_vec_push(&tree.nodes, nodes[i]));
    for (size_t i = 0; i < 7; i++)
        assert_ok(mt_vec_push(&other.nodes, finer[i]));
    assert_ok(swp_marginals_new(&table, true, &m));
    for (int again = 0; again < 2; again++) { /* nothing of the tree before stays, which is cut in more places */
        swp_marginals_of(m, &other, singles, pairs);
        about(swp_marginals_of(m, &tree, singles, pairs), variance, 1e-12);
        for (uint32_t i = 0; i < 3; i++) {
            about(singles[i], single[i], 1e-12);
            for (uint32_t k = i + 1; k < 3; k++)
                about(pairs[swp_marginals_pair(3, i, k)], pair[swp_marginals_pair(3, i, k)], 1e-12);
        }
    }
    swp_marginals_free(m);
    mt_vec_fini(&tree.nodes);
    mt_vec_fini(&other.nodes);
    swp_table_fini(&table);
    swp_space_free(space);
}

/* x below 1/2: 1. Else y below 1/4: 2, else 4. Mean 1/2 + 1/4 + 3/2 = 2.25; of squares 1/2 + 1/2 + 6 = 7. Marginal of x: 1,
 * 3.5; of y: 1.5, 2.5; the rest of the variance is both's. */
static void tree_of_numbers(void **state)
{
    (void)state;
    const struct swp_tree_node nodes[] = {
        {0, 1, 2, 0.5, 0}, {.dim = -1, .value = 1}, {1, 3, 4, 0.25, 0}, {.dim = -1, .value = 2}, {.dim = -1, .value = 4}};
    tree_by_hand(nodes, 5, 1.9375, (double[]){1.5625, 0.1875, 0}, (double[]){0.1875, 0, 0});
}

/* c is the third choice: 8. Else c is the first: 0; else (two choices) x below 1/4: 4, else 0. Sizes 1/4, 1/4, 1/8, 3/8:
 * mean 2.5, of squares 18; variance 11.75. Marginal of c: 0, 1, 8, 1, variance 66/4 - 6.25 = 10.25; of x: 2 + 2 = 4 and 2,
 * variance 0.75. Both: 0.75. */
static void tree_of_choices(void **state)
{
    (void)state;
    const struct swp_tree_node nodes[] = {{2, 1, 2, 2, 0},         {.dim = -1, .value = 8}, {2, 3, 4, 0, 0},
                                          {.dim = -1, .value = 0}, {0, 5, 6, 0.25, 0},      {.dim = -1, .value = 4},
                                          {.dim = -1, .value = 0}};
    tree_by_hand(nodes, 7, 11.75, (double[]){0.75, 0, 10.25}, (double[]){0, 0.75, 0});
}

static double predict(const struct swp_tree *tree, const struct swp_table *table, const double *x)
{
    uint32_t i = 0;
    while (tree->nodes.data[i].dim >= 0) {
        const struct swp_tree_node *node = &tree->nodes.data[i];
        bool is_left = table->columns[node->dim].is_category ? x[node->dim] == node->cut : x[node->dim] <= node->cut;
        i = is_left ? node->left : node->right;
    }
    return tree->nodes.data[i].value;
}

/* Places of a dimension, sorted; of a category one a choice. */
static int places_of(const struct swp_tree *tree, const struct swp_table *table, int dim, double *at, double *width)
{
    double cuts[64] = {0};
    int    count = 1;
    if (table->columns[dim].is_category) {
        for (count = 0; count < (int)table->columns[dim].choices; count++)
            at[count] = count, width[count] = 1.0 / table->columns[dim].choices;
        return count;
    }
    for (size_t i = 0; i < tree->nodes.count; i++)
        if (tree->nodes.data[i].dim == dim)
            cuts[count++] = tree->nodes.data[i].cut;
    cuts[count++] = 1;
    for (int i = 1; i < count; i++)
        for (int k = i; k > 0 && cuts[k] < cuts[k - 1]; k--) {
            double swap = cuts[k];
            cuts[k] = cuts[k - 1], cuts[k - 1] = swap;
        }
    for (int i = 0; i + 1 < count; i++)
        at[i] = (cuts[i] + cuts[i + 1]) / 2, width[i] = cuts[i + 1] - cuts[i];
    return count - 1;
}

/* The definition, cell by cell: variances of the tree, of the marginals of one and of two. */
static void count_out(const struct swp_tree *tree, const struct swp_table *table, double *variance, double *single, double *pair)
{
    static double at[3][64], width[3][64], one[3][64], two[3][64][64];
    int           n[3], i[3];
    double        mean = 0, square = 0;
    memset(one, 0, sizeof one);
    memset(two, 0, sizeof two);
    for (int d = 0; d < 3; d++)
        n[d] = places_of(tree, table, d, at[d], width[d]);
    for (i[0] = 0; i[0] < n[0]; i[0]++)
        for (i[1] = 0; i[1] < n[1]; i[1]++)
            for (i[2] = 0; i[2] < n[2]; i[2]++) {
                double w[3] = {width[0][i[0]], width[1][i[1]], width[2][i[2]]};
                double v = predict(tree, table, (double[]){at[0][i[0]], at[1][i[1]], at[2][i[2]]});
                mean += w[0] * w[1] * w[2] * v;
                square += w[0] * w[1] * w[2] * v * v;
                for (int d = 0; d < 3; d++)
                    one[d][i[d]] += w[0] * w[1] * w[2] / w[d] * v;
                for (int p = 0; p < 3; p++) /* without the third, the second, the first */
                    two[p][i[p == 2]][i[p == 0 ? 1 : 2]] += w[2 - p] * v;
            }
    *variance = square - mean * mean;
    for (int d = 0; d < 3; d++) {
        single[d] = 0;
        for (int k = 0; k < n[d]; k++)
            single[d] += width[d][k] * (one[d][k] - mean) * (one[d][k] - mean);
    }
    for (int p = 0; p < 3; p++) {
        int a = p == 2, b = p == 0 ? 1 : 2;
        pair[p] = 0;
        for (int x = 0; x < n[a]; x++)
            for (int y = 0; y < n[b]; y++) {
                double by = two[p][x][y] - one[a][x] - one[b][y] + mean;
                pair[p] += width[a][x] * width[b][y] * by * by;
            }
    }
}

static void any_tree(void **state)
{
    (void)state;
    struct swp_space *space = plane();
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint32_t              rows = 10 + 2 * (uint32_t)seed; /* few enough for the raster of pairs to be exact */
        struct swp_table      table = table_of(trials_of(space, rows, seed, sum_of));
        struct swp_grower    *grower = NULL;
        struct swp_marginals *m = NULL;
        struct swp_tree       tree = {{0}};
        uint32_t              counts[ROWS_MAX];
        double                variance, single[3], pair[3], singles[3], pairs[3];
        mt_rng                rng = {seed};
        assert_ok(swp_grower_new(&table, &grower));
        assert_ok(swp_marginals_new(&table, true, &m));
        for (uint32_t i = 0; i < rows; i++)
            counts[i] = seed % 2 ? 1 : (uint32_t)mt_rng_below(&rng, 3);
        counts[0] = 1;
        assert_ok(swp_tree_grow(grower, counts, &rng, &tree));
        for (uint32_t i = 0; i < rows; i++) { /* it knows what it has seen */
            double x[3] = {table.columns[0].at[i], table.columns[1].at[i], table.columns[2].at[i]};
            if (counts[i])
                about(predict(&tree, &table, x), table.results[i], 1e-12);
        }
        count_out(&tree, &table, &variance, single, pair);
        about(swp_marginals_of(m, &tree, singles, pairs), variance, 1e-12);
        for (int d = 0; d < 3; d++) {
            about(singles[d], single[d], 1e-12);
            about(pairs[d], pair[d], 1e-12);
        }
        mt_vec_fini(&tree.nodes);
        swp_marginals_free(m);
        swp_grower_free(grower);
        swp_table_fini(&table);
    }
    swp_space_free(space);
}

/* ---- functions whose shares are known ---- */

static double additive(const double *x)
{
    return 3 * x[0] + 2 * x[1] + x[2];
}

static double product(const double *x)
{
    return 10 * x[0] * x[1] + x[2];
}

static void shares_of_a_sum(void **state)
{
    (void)state;
    struct swp_space *space = cube(4, -1, 1);
    struct answer     a = weigh(ask_of(trials_of(space, ROWS_MAX, 1, additive), SWP_FANOVA, 1));
    for (int i = 0; i < 3; i++)
        about(a.share[i], (3 - i) * (3 - i) / 14.0, 0.01);
    assert_true(a.share[3] < 1e-4); /* the fourth does nothing */
    assert_true(a.variance[0] + a.variance[1] + a.variance[2] > 0.95);
    swp_space_free(space);
}

/* In [0, 1] both factors have 25/12 of the variance, the third parameter 1/12. */
static void factors(void **state)
{
    (void)state;
    struct swp_space *space = cube(4, 0, 1);
    struct answer     a = weigh(ask_of(trials_of(space, ROWS_MAX, 2, product), SWP_FANOVA, 1));
    about(a.share[0], 25 / 51.0, 0.005);
    about(a.share[1], 25 / 51.0, 0.005);
    about(a.share[2], 1 / 51.0, 0.005);
    assert_true(a.share[3] < 1e-4); /* the fourth does nothing */
    swp_space_free(space);
    /* With 100 trials the complaint: it gave 14 % to what does nothing, and 2 % to a factor. */
    space = cube(4, 0, 1);
    a = weigh(ask_of(trials_of(space, 100, 3, product), SWP_FANOVA, 1));
    assert_true(a.share[0] > 0.35 && a.share[1] > 0.35 && a.share[3] < 0.02);
    swp_space_free(space);
}

/* In [-1, 1] a factor does nothing by itself: 100/9 of the variance is the pair's, 1/3 the third parameter's. */
static void interplay(void **state)
{
    (void)state;
    struct swp_space         *space = cube(4, -1, 1);
    struct swp_importance_ask ask = ask_of(trials_of(space, ROWS_MAX, 4, product), SWP_FANOVA, 1);
    ask.pairs = true;
    struct answer a = weigh(ask);
    assert_int_equal(a.count, 4 + 6);
    about(a.pair[0][1], 100 / 103.0, 0.03);
    assert_true(a.variance[0] < 0.002 && a.variance[1] < 0.002 && a.pair[2][3] < 1e-4 && a.pair[0][3] < 1e-3);
    about(a.variance[2], 3 / 103.0, 0.005);
    swp_space_free(space);
}

static double by_magnitude(const double *x)
{
    return log10(x[0]) + (x[1] == 2 ? 1 : 0) + 0.25 * x[2] + (x[3] == 1 ? 0.5 : 0) + x[4];
}

/* Each kind is measured by its own distribution: 16/12 for four decades, 2/9 for one choice of three, 1/16 of 2 for 1 to 5,
 * 1/16 for one of two, 1 for a normal deviation. */
static void kinds(void **state)
{
    (void)state;
    struct swp_space *space = SPACE_OF(
        {.name = "lr", .kind = SWP_LOG_UNIFORM, .low = 1e-5, .high = 1e-1},
        {.name = "c", .kind = SWP_CATEGORICAL, CHOICES(TEXT("a"), TEXT("b"), TEXT("c"))},
        {.name = "n", .kind = SWP_INT, .low = 1, .high = 5}, {.name = "g", .kind = SWP_GRID, CHOICES(TEXT("u"), TEXT("v"))},
        {.name = "z", .kind = SWP_NORMAL, .mean = 7, .sd = 1}, {.name = "fixed", .kind = SWP_CONSTANT, CHOICES(WHOLE(3))}, );
    struct answer a = weigh(ask_of(trials_of(space, ROWS_MAX, 5, by_magnitude), SWP_FANOVA, 1));
    double        parts[] = {16 / 12.0, 2 / 9.0, 2 / 16.0, 1 / 16.0, 1}, all = 0;
    for (int i = 0; i < 5; i++)
        all += parts[i];
    for (int i = 0; i < 5; i++)
        about(a.share[i], parts[i] / all, 0.01);
    assert_int_equal(a.count, 5); /* what never varies is not in the list */
    swp_space_free(space);
}

static double noise(const double *x)
{
    mt_rng rng = {(uint64_t)(x[0] * 0x1p52)};
    return swp_rng_real(&rng);
}

/* Where nothing has an effect, few rows are cut equally well in every dimension: none may be preferred. */
static void even_chances(void **state)
{
    (void)state;
    struct swp_space *space = cube(4, 0, 1);
    double            share[4] = {0};
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct answer a = weigh(ask_of(trials_of(space, 12, seed, noise), SWP_FANOVA, seed));
        for (int i = 0; i < 4; i++)
            share[i] += a.share[i] / 60;
    }
    for (int i = 0; i < 4; i++)
        about(share[i], 0.25, 0.04);
    swp_space_free(space);
}

static struct swp_space *branches(void)
{
    return SPACE_OF({.name = "kind", .kind = SWP_CATEGORICAL, CHOICES(TEXT("a"), TEXT("b"))},
                    {.name = "of_a", .kind = SWP_UNIFORM, .high = 1, WHEN("kind", TEXT("a"))},
                    {.name = "idle", .kind = SWP_CATEGORICAL, CHOICES(TEXT("s"), TEXT("t"), TEXT("u")), WHEN("kind", TEXT("b"))}, );
}

static double branched(const double *x)
{
    return x[0] == 0 ? x[1] : 1;
}

/* Where it does not exist a parameter has no effect. So kind has (1/2 - 1)^2 / 4 = 1/16, of_a 1/4 of 1/12, both as much again; idle
 * exists in one branch only, and gets nothing of what that branch does. */
static void conditional(void **state)
{
    (void)state;
    struct swp_space         *space = branches();
    struct swp_importance_ask ask = ask_of(trials_of(space, ROWS_MAX, 6, branched), SWP_FANOVA, 1);
    ask.pairs = true;
    struct answer a = weigh(ask);
    about(a.variance[0], 0.6, 0.01);
    about(a.variance[1], 0.2, 0.01);
    about(a.pair[0][1], 0.2, 0.01);
    assert_true(a.variance[2] < 1e-4);
    swp_space_free(space);
}

/* ---- PED-ANOVA ---- */

static struct swp_space *mixed(void)
{
    return SPACE_OF(
        {.name = "u", .kind = SWP_UNIFORM, .low = -1, .high = 2}, {.name = "l", .kind = SWP_LOG_UNIFORM, .low = 1e-4, .high = 1e-1},
        {.name = "q", .kind = SWP_UNIFORM, .low = 0, .high = 1, .step = 0.25},
        {.name = "i", .kind = SWP_INT, .low = 1, .high = 9, .step = 2}, {.name = "li", .kind = SWP_LOG_INT, .low = 1, .high = 64},
        {.name = "c", .kind = SWP_CATEGORICAL, CHOICES(TEXT("a"), TEXT("b"), TEXT("c"))},
        {.name = "w", .kind = SWP_UNIFORM, .low = 0, .high = 4, WHEN("c", TEXT("b"))}, );
}

static void mixed_fill(struct trials *t, struct swp_space *space, uint32_t rows)
{
    t->space = space;
    t->rows = rows;
    for (uint32_t k = 0; k < rows; k++) {
        double *x = t->points + k * 7;
        x[0] = -1 + 3 * ((k * 37 + 11) % 100 + 0.5) / 100;
        x[1] = 1e-4 * pow(1000, (k * 61 + 5) % 97 / 97.0);
        x[2] = 0.25 * (k * 3 % 5);
        x[3] = 1 + 2 * (k * 7 % 5);
        x[4] = 1 + k * 29 % 64;
        x[5] = (k * k + k / 2) % 3;
        x[6] = x[5] == 1 ? 4 * ((k * 53 + 29) % 90 + 0.5) / 90 : (double)NAN;
        t->results[k] = (x[0] - 0.5) * (x[0] - 0.5) + 0.3 * fabs(log10(x[1]) + 3) + x[2] * 0.2 + 0.1 * fabs(x[3] - 5) +
                        0.02 * x[4] + (x[5] == 1 ? 0.1 * x[6] : 0.2);
    }
}

/* Numbers of PedAnovaImportanceEvaluator, Optuna 5.0.0, for the same 80 trials: for the least, then for the greatest values. */
static void ped_anova(void **state)
{
    (void)state;
    static const double least[] = {0.174424140094, 0.168188924754, 0.016182394098, 0.011337241428,
                                   0.497136928284, 0.003028853851, 0.129701517491},
                        greatest[] = {0.018020409537, 0.823526324743, 0.000761762485, 0.010798136036,
                                      0.128517649101, 0.004268529165, 0.014107188932};
    static struct trials t;
    struct swp_space    *space = mixed();
    mixed_fill(&t, space, 80);
    for (int maximize = 0; maximize < 2; maximize++) {
        struct swp_importance_ask ask = ask_of(&t, SWP_PED_ANOVA, 1);
        ask.maximize = maximize;
        struct answer a = weigh(ask);
        for (int i = 0; i < 7; i++)
            about(a.share[i], (maximize ? greatest : least)[i], 1e-9);
    }
    swp_space_free(space);
}

/* In whatever order trials ended: each of them is the first one once. */
static void ped_anova_of_any_order(void **state)
{
    (void)state;
    static struct trials t, turned;
    struct swp_space    *space = mixed();
    mixed_fill(&t, space, 80);
    struct answer as_drawn = weigh(ask_of(&t, SWP_PED_ANOVA, 1));
    for (uint32_t first = 1; first < 80; first++) {
        turned = t;
        for (uint32_t row = 0; row < 80; row++) {
            memcpy(turned.points + row * 7, t.points + (row + first) % 80 * 7, 7 * sizeof(double));
            turned.results[row] = t.results[(row + first) % 80];
        }
        struct answer a = weigh(ask_of(&turned, SWP_PED_ANOVA, 1));
        for (int i = 0; i < 7; i++)
            about(a.share[i], as_drawn.share[i], 1e-9);
    }
    swp_space_free(space);
}

/* ---- always ---- */

static void same_bits(void **state)
{
    (void)state;
    struct swp_space    *space = mixed();
    static struct trials t;
    mixed_fill(&t, space, 80);
    struct swp_importance_ask ask = ask_of(&t, SWP_FANOVA, 7);
    ask.pairs = true;
    struct answer first = weigh(ask), again = weigh(ask);
    assert_memory_equal(&first, &again, sizeof first);
    ask.seed = 8;
    again = weigh(ask);
    assert_true(memcmp(&first, &again, sizeof first) != 0);
    for (int i = 0; i < 7; i++)
        about(first.share[i], again.share[i], 0.1);
    swp_space_free(space);
}

/* How large results are does not matter; and one wild result does no harm but to the shares. */
static void sizes(void **state)
{
    (void)state;
    struct swp_space *space = cube(3, -1, 1);
    struct trials    *t = trials_of(space, 100, 1, additive);
    struct answer     plain = weigh(ask_of(t, SWP_FANOVA, 1));
    for (uint32_t i = 0; i < t->rows; i++)
        t->results[i] *= 0x1p1021; /* of both signs: a double holds no difference of two of them, nor any square */
    struct answer large = weigh(ask_of(t, SWP_FANOVA, 1));
    assert_memory_equal(&plain, &large, sizeof plain);
    for (uint32_t i = 0; i < t->rows; i++)
        t->results[i] *= 0x1p-1021;
    t->results[5] = 1.7e308;
    (void)weigh(ask_of(t, SWP_FANOVA, 1));
    swp_space_free(space);
}

static double first_of(const double *x)
{
    return x[0] == 3 ? 0.5 : x[0];
}

static double constant(const double *x)
{
    (void)x;
    return 0.1;
}

static void refused(struct swp_importance_ask ask, const char *word)
{
    struct swp_weights weights = {0};
    struct swp_problem problem;
    assert_code(swp_importance(&ask, &weights, &problem), MT_EINVAL);
    assert_non_null(strstr(problem.text, word));
    mt_vec_fini(&weights.list);
}

static void what_is_refused(void **state)
{
    (void)state;
    struct swp_space *space = cube(2, 0, 1), *fixed = SPACE_OF({.name = "fixed", .kind = SWP_CONSTANT, CHOICES(WHOLE(3))},
                                                               {.name = "one", .kind = SWP_INT, .low = 2, .high = 2});
    refused(ask_of(trials_of(space, MT_SWEEP_WEIGHED_MIN - 1, 1, additive), SWP_FANOVA, 1),
            "too few results: there are 9, and it takes 10");
    (void)weigh(ask_of(trials_of(space, MT_SWEEP_WEIGHED_MIN, 1, first_of), SWP_FANOVA, 1));
    refused(ask_of(trials_of(space, MT_SWEEP_WEIGHED_BEST_MIN - 1, 1, additive), SWP_PED_ANOVA, 1), "too few");
    refused(ask_of(trials_of(space, 100, 1, constant), SWP_FANOVA, 1), "equal");
    refused(ask_of(trials_of(space, 100, 1, constant), SWP_PED_ANOVA, 1), "equal");
    refused(ask_of(trials_of(fixed, 100, 1, first_of), SWP_FANOVA, 1), "no parameter");
    swp_space_free(fixed);
    swp_space_free(space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tree_of_numbers),
        cmocka_unit_test(tree_of_choices),
        cmocka_unit_test(any_tree),
        cmocka_unit_test(shares_of_a_sum),
        cmocka_unit_test(factors),
        cmocka_unit_test(interplay),
        cmocka_unit_test(kinds),
        cmocka_unit_test(even_chances),
        cmocka_unit_test(conditional),
        cmocka_unit_test(ped_anova),
        cmocka_unit_test(ped_anova_of_any_order),
        cmocka_unit_test(same_bits),
        cmocka_unit_test(sizes),
        cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
