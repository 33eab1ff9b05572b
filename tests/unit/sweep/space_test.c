/* SPDX-License-Identifier: Apache-2.0
 *
 * space_test.c - spaces and points: what each kind draws, what is refused and how it is said, conditions, constraints, text.
 */
#include "tests/unit/sweep/test.h"

#include "core/text/json.h"
#include "sweep/math/normal.h"

#include <locale.h>

static mt_rng seeded(void)
{
    return (mt_rng){7};
}

/* ---- what is drawn ---- */

static void values_keep_to_their_kind(void **state)
{
    (void)state;
    struct swp_space  *space = SPACE_OF({.name = "u", .kind = SWP_UNIFORM, .low = -1, .high = 2},
                                        {.name = "q", .kind = SWP_UNIFORM, .low = 0, .high = 0.35, .step = 0.1},
                                        {.name = "l", .kind = SWP_LOG_UNIFORM, .low = 1e-5, .high = 1e-1},
                                        {.name = "i", .kind = SWP_INT, .low = -3, .high = 4, .step = 2},
                                        {.name = "li", .kind = SWP_LOG_INT, .low = 1, .high = 1024},
                                        {.name = "n", .kind = SWP_NORMAL, .mean = 5, .sd = 2, .step = 0.5},
                                        {.name = "ln", .kind = SWP_LOG_NORMAL, .mean = 0, .sd = 1},
                                        {.name = "c", .kind = SWP_CATEGORICAL, CHOICES(TEXT("a"), TEXT("b"), WHOLE(3))},
                                        {.name = "k", .kind = SWP_CONSTANT, CHOICES(REAL(1.0))}, );
    struct swp_point   p;
    struct swp_problem problem;
    mt_rng             rng = seeded();
    int                below_1e3 = 0, ends[2] = {0}, sevens = 0;
    double             sum = 0;
    assert_true(fabs(swp_space_param(space, 1)->high - 0.3) < 1e-12); /* 0.35 is no step */
    assert_true(swp_space_param(space, 3)->high == 3);
    for (int n = 0; n < 4000; n++) {
        assert_ok(swp_space_draw(space, &rng, &p));
        assert_ok(swp_point_check(space, &p, &problem));
        assert_true(p.values[0] >= -1 && p.values[0] < 2);
        assert_true(p.values[1] == 0 || p.values[1] == 0.1 || p.values[1] == 0.2 || fabs(p.values[1] - 0.3) < 1e-12);
        below_1e3 += p.values[2] < 1e-3;
        ends[0] += p.values[3] == -3, ends[1] += p.values[3] == 3;
        sevens += p.values[4] == 1;
        assert_true(fmod(p.values[5], 0.5) == 0);
        sum += p.values[5];
        assert_true(p.values[6] > 0);
    }
    assert_in_range(below_1e3, 1800, 2200); /* half of the decades */
    assert_in_range(ends[0], 850, 1150);    /* both ends of four values */
    assert_in_range(ends[1], 850, 1150);
    assert_in_range(sevens, 480, 680); /* log(1.5 / 0.5) / log(1024.5 / 0.5) = 0.144 */
    assert_true(fabs(sum / 4000 - 5) < 0.2);
    swp_space_free(space);
}

static void the_normal_distribution_is_exact(void **state)
{
    (void)state;
    assert_true(fabs(swp_normal_quantile(0.975) - 1.959963984540054) < 1e-14);
    assert_true(fabs(swp_normal_quantile(1e-20) + 9.262340089798408) < 1e-13);
    assert_true(swp_normal_quantile(0.5) == 0 && isinf(swp_normal_quantile(0)));
    for (double u = 0.01; u < 1; u += 0.07) {
        double x = swp_normal_cut_quantile(u, 0.5, 2);
        assert_true(x >= 0.5 && x <= 2);
        double share = (swp_normal_below(x) - swp_normal_below(0.5)) / (swp_normal_below(2) - swp_normal_below(0.5));
        assert_true(fabs(share - u) < 1e-12);
    }
}

/* ---- what is refused ---- */

#define REFUSED(wanted, ...) \
    refused((wanted), (const struct swp_param[]){__VA_ARGS__}, \
            sizeof((const struct swp_param[]){__VA_ARGS__}) / sizeof(struct swp_param), NULL, 0)

static void refused(const char *wanted, const struct swp_param *params, uint32_t count, const struct swp_constraint *constraints,
                    uint32_t constraint_count)
{
    struct swp_space_def def = {
        .params = params, .param_count = count, .constraints = constraints, .constraint_count = constraint_count};
    struct swp_problem problem = {{0}, {0}};
    struct swp_space  *space = NULL;
    assert_code(swp_space_new(&def, &space, &problem), MT_EINVAL);
    assert_null(space);
    assert_string_equal(problem.param, wanted);
    assert_non_null(strstr(problem.text, wanted));
}

static void bad_parameters_are_named(void **state)
{
    (void)state;
    refused("", NULL, 0, NULL, 0);
    REFUSED("", {.name = "", .kind = SWP_UNIFORM, .high = 1});
    REFUSED("x", {.name = "x", .kind = SWP_UNIFORM, .low = 1, .high = 1});
    REFUSED("x", {.name = "x", .kind = SWP_UNIFORM, .low = 2, .high = 1});
    REFUSED("x", {.name = "x", .kind = SWP_UNIFORM, .low = NAN, .high = 1});
    REFUSED("x", {.name = "x", .kind = SWP_UNIFORM, .low = 0, .high = INFINITY});
    REFUSED("x", {.name = "x", .kind = SWP_UNIFORM, .low = -1e308, .high = 1e308});
    REFUSED("x", {.name = "x", .kind = SWP_LOG_UNIFORM, .low = 0, .high = 1});
    REFUSED("x", {.name = "x", .kind = SWP_UNIFORM, .low = 0, .high = 1, .step = -1});
    REFUSED("x", {.name = "x", .kind = SWP_UNIFORM, .low = 0, .high = 1, .step = 2});
    REFUSED("x", {.name = "x", .kind = SWP_INT, .low = 0.5, .high = 1});
    REFUSED("x", {.name = "x", .kind = SWP_LOG_INT, .low = 0, .high = 8});
    REFUSED("x", {.name = "x", .kind = SWP_NORMAL, .mean = 0, .sd = 0});
    REFUSED("x", {.name = "x", .kind = SWP_LOG_NORMAL, .mean = 1000, .sd = 1});
    REFUSED("x", {.name = "x", .kind = SWP_CATEGORICAL});
    REFUSED("x", {.name = "x", .kind = SWP_CATEGORICAL, CHOICES(TEXT("a"), TEXT("a"))});
    REFUSED("x", {.name = "x", .kind = SWP_CONSTANT, CHOICES(WHOLE(1), WHOLE(2))});
    REFUSED("x", {.name = "x", .kind = SWP_ORDINAL, CHOICES(REAL(NAN))});
    REFUSED("x", {.name = "x", .kind = SWP_UNIFORM, .high = 1}, {.name = "x", .kind = SWP_UNIFORM, .high = 1});
    REFUSED("x", {.name = "x", .kind = SWP_KIND_COUNT});
}

static void bad_conditions_are_named(void **state)
{
    (void)state;
    REFUSED("x", {.name = "x", .kind = SWP_UNIFORM, .high = 1, WHEN("nobody", TEXT("a"))});
    REFUSED("x", {.name = "c", .kind = SWP_CATEGORICAL, CHOICES(TEXT("a"))},
            {.name = "x", .kind = SWP_UNIFORM, .high = 1, WHEN("c", TEXT("b"))});
    REFUSED("x", {.name = "c", .kind = SWP_UNIFORM, .high = 1}, {.name = "x", .kind = SWP_UNIFORM, .high = 1, WHEN("c", REAL(0))});
    REFUSED("x", {.name = "c", .kind = SWP_INT, .high = 4}, {.name = "x", .kind = SWP_UNIFORM, .high = 1, WHEN("c", WHOLE(5))});
    REFUSED("a", {.name = "a", .kind = SWP_INT, .high = 1, WHEN("b", WHOLE(1))},
            {.name = "b", .kind = SWP_INT, .high = 1, WHEN("a", WHOLE(1))});
}

static void contradictory_constraints_are_refused(void **state)
{
    (void)state;
    const struct swp_param params[] = {{.name = "a", .kind = SWP_UNIFORM, .low = 1, .high = 2},
                                       {.name = "b", .kind = SWP_INT, .low = 1, .high = 3},
                                       {.name = "c", .kind = SWP_CATEGORICAL, CHOICES(TEXT("t"))}};
    struct swp_term sum[] = {{"a", 1}, {"b", 1}}, less[] = {{"a", -1}, {"b", -1}}, unknown[] = {{"z", 1}}, text[] = {{"c", 1}};
    struct swp_constraint never = {sum, 2, 1.5}, low = {sum, 2, 3}, high = {less, 2, -4}, bad = {unknown, 1, 0}, no = {text, 1, 0};
    struct swp_constraint infinite = {sum, 2, NAN}, both[] = {low, high};
    refused("a", params, 3, &never, 1);
    refused("", params, 3, both, 2); /* each alone can hold */
    refused("z", params, 3, &bad, 1);
    refused("c", params, 3, &no, 1);
    refused("", params, 3, &infinite, 1);
}

/* ---- conditions and constraints ---- */

static struct swp_space *tree(void)
{
    return SPACE_OF({.name = "momentum", .kind = SWP_UNIFORM, .high = 1, WHEN("optimizer", TEXT("sgd"))},
                    {.name = "optimizer", .kind = SWP_CATEGORICAL, CHOICES(TEXT("sgd"), TEXT("adam"))},
                    {.name = "nesterov", .kind = SWP_INT, .high = 2, WHEN("optimizer", TEXT("sgd"))},
                    {.name = "deep", .kind = SWP_ORDINAL, CHOICES(WHOLE(16), WHOLE(32)), WHEN("nesterov", WHOLE(1), WHOLE(2))}, );
}

static void only_the_active_have_values(void **state)
{
    (void)state;
    struct swp_space  *space = tree();
    struct swp_point   p;
    struct swp_problem problem;
    mt_rng             rng = seeded();
    int                active = 0;
    for (int n = 0; n < 1000; n++) {
        assert_ok(swp_space_draw(space, &rng, &p));
        assert_ok(swp_point_check(space, &p, &problem));
        bool sgd = p.values[1] == 0;
        assert_int_equal(swp_point_has(&p, 0), sgd);
        assert_int_equal(swp_point_has(&p, 2), sgd);
        assert_int_equal(swp_point_has(&p, 3), sgd && p.values[2] >= 1);
        active += swp_point_has(&p, 3);
    }
    assert_in_range(active, 280, 390);
    p.values[1] = 1, p.values[0] = 0.5, p.values[2] = p.values[3] = NAN;
    assert_code(swp_point_check(space, &p, &problem), MT_EINVAL);
    assert_string_equal(problem.param, "momentum");
    swp_space_free(space);
}

static bool not_tiny(void *user, const struct swp_space *space, const struct swp_point *point)
{
    (void)space;
    return point->values[0] >= *(double *)user;
}

static void constraints_bound_what_is_drawn(void **state)
{
    (void)state;
    const struct swp_param params[] = {{.name = "a", .kind = SWP_UNIFORM, .high = 1},
                                       {.name = "b", .kind = SWP_UNIFORM, .high = 1}};
    struct swp_term        terms[] = {{"a", 2}, {"b", 1}};
    struct swp_constraint  constraint = {terms, 2, 1};
    double                 least = 0.1;
    struct swp_space_def   def = {
          .params = params,
          .param_count = 2,
          .constraints = &constraint,
          .constraint_count = 1,
          .allows = not_tiny,
          .user = &least,
    };
    struct swp_problem problem;
    struct swp_space  *space;
    struct swp_point   p;
    mt_rng             rng = seeded();
    assert_ok(swp_space_new(&def, &space, &problem));
    for (int n = 0; n < 500; n++) {
        assert_ok(swp_space_draw(space, &rng, &p));
        assert_true(2 * p.values[0] + p.values[1] <= 1 && p.values[0] >= 0.1);
    }
    least = 2;
    assert_code(swp_space_draw(space, &rng, &p), MT_EUNSCHEDULABLE);
    swp_space_free(space);
}

static void grid_parameters_count_up(void **state)
{
    (void)state;
    struct swp_space *space = SPACE_OF({.name = "a", .kind = SWP_GRID, CHOICES(WHOLE(1), WHOLE(2))},
                                       {.name = "x", .kind = SWP_UNIFORM, .high = 1},
                                       {.name = "b", .kind = SWP_GRID, CHOICES(WHOLE(1), WHOLE(2), WHOLE(3))}, );
    struct swp_point  p;
    assert_int_equal(swp_space_grid_size(space), 6);
    for (unsigned i = 0; i < 13; i++) {
        swp_space_grid_at(space, i, &p);
        assert_true(p.values[0] == i / 3 % 2 && p.values[2] == i % 3);
    }
    swp_space_free(space);
}

/* ---- text ---- */

static void points_come_back_bit_for_bit(void **state)
{
    (void)state;
    struct swp_space  *space = tree();
    struct swp_point   p, q;
    struct swp_problem problem;
    mt_rng             rng = seeded();
    mt_buf             text = {0};
    for (int n = 0; n < 500; n++) {
        text.size = 0;
        assert_ok(swp_space_draw(space, &rng, &p));
        assert_ok(swp_point_to_json(space, &p, &text));
        assert_ok(swp_point_from_json(space, mt_buf_view(&text), NULL, &q, &problem));
        assert_true(swp_point_equal(space, &p, &q));
    }
    p = (struct swp_point){{0.1, 0, 2, 1}};
    text.size = 0;
    assert_ok(swp_point_to_json(space, &p, &text));
    assert_ok(mt_buf_terminate(&text));
    assert_string_equal((char *)text.data, "{\"momentum\":0.1,\"optimizer\":\"sgd\",\"nesterov\":2,\"deep\":32}");
    mt_buf_fini(&text);
    swp_space_free(space);
}

static void bad_points_are_refused(void **state)
{
    (void)state;
    struct swp_space        *space = tree();
    struct swp_problem       problem = {{0}, {0}};
    struct swp_point         p;
    mt_rng                   rng = seeded();
    static const char *const bad[][2] = {
        {"", "{\"optimizer\":\"adam\""},
        {"", "[]"},
        {"", "{\"optimizer\":\"adam\"} x"},
        {"", ""},
        {"lr", "{\"optimizer\":\"adam\",\"lr\":1}"},
        {"optimizer", "{\"optimizer\":\"adam\",\"optimizer\":\"adam\"}"},
        {"optimizer", "{\"optimizer\":\"rmsprop\"}"},
        {"optimizer", "{}"},
        {"momentum", "{\"optimizer\":\"adam\",\"momentum\":0.5}"},
        {"momentum", "{\"optimizer\":\"sgd\",\"nesterov\":0,\"momentum\":1.5}"},
        {"momentum", "{\"optimizer\":\"sgd\",\"nesterov\":0,\"momentum\":NaN}"},
        {"nesterov", "{\"optimizer\":\"sgd\",\"nesterov\":0.5,\"momentum\":0.5}"},
        {"nesterov", "{\"optimizer\":\"sgd\",\"nesterov\":\"1\",\"momentum\":0.5}"},
        {"deep", "{\"optimizer\":\"sgd\",\"nesterov\":1,\"momentum\":0.5,\"deep\":17}"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_code(swp_point_from_json(space, mt_view_text(bad[i][1]), NULL, &p, &problem), MT_EINVAL);
        assert_string_equal(problem.param, bad[i][0]);
    }
    mt_view some = mt_view_text("{\"optimizer\":\"sgd\",\"deep\":32.0,\"nesterov\":1}");
    assert_ok(swp_point_from_json(space, some, &rng, &p, &problem));
    assert_true(p.values[3] == 1 && swp_point_has(&p, 0)); /* the rest was drawn */
    swp_space_free(space);
}

static void a_space_comes_back_from_its_text(void **state)
{
    (void)state;
    struct swp_term        terms[] = {{"x\"", 1.5}};
    struct swp_constraint  constraint = {terms, 1, 1};
    const struct swp_param params[] = {
        {.name = "x\"", .kind = SWP_UNIFORM, .low = -1, .high = 0.1, .points = 3},
        {.name = "c", .kind = SWP_CATEGORICAL, CHOICES(TEXT("t\n\xc3\xa4"), WHOLE(1), REAL(1), {.kind = MT_LITERAL_NULL})},
        {.name = "n", .kind = SWP_NORMAL, .mean = 0, .sd = 1e-300, .step = 0.25, WHEN("c", WHOLE(1), REAL(1))},
    };
    struct swp_space_def def = {.params = params, .param_count = 3, .constraints = &constraint, .constraint_count = 1};
    struct swp_space    *space, *again;
    struct swp_problem   problem;
    mt_buf               text = {0}, second = {0}, diff = {0};
    assert_ok(swp_space_new(&def, &space, &problem));
    assert_ok(swp_space_to_json(space, &text));
    assert_ok(swp_space_from_json(mt_buf_view(&text), &again, &problem));
    assert_ok(swp_space_to_json(again, &second));
    assert_true(mt_view_equal(mt_buf_view(&text), mt_buf_view(&second)));
    assert_ok(swp_space_diff(space, again, &diff));
    assert_int_equal(diff.size, 0);
    swp_space_free(again);
    for (size_t cut = 0; cut < text.size; cut++) /* every prefix is refused */
        assert_int_not_equal(swp_space_from_json(mt_view_of(text.data, cut), &again, &problem).code, 0);
    swp_space_free(space);
    mt_buf_fini(&text);
    mt_buf_fini(&second);
    mt_buf_fini(&diff);
}

static void a_changed_space_says_what_changed(void **state)
{
    (void)state;
    struct swp_space *before = SPACE_OF({.name = "lr", .kind = SWP_LOG_UNIFORM, .low = 1e-5, .high = 0.1},
                                        {.name = "width", .kind = SWP_INT, .low = 1, .high = 8}, );
    struct swp_space *now = SPACE_OF({.name = "lr", .kind = SWP_LOG_UNIFORM, .low = 1e-5, .high = 0.2},
                                     {.name = "depth", .kind = SWP_INT, .low = 1, .high = 8}, );
    struct swp_space *turned = SPACE_OF({.name = "width", .kind = SWP_INT, .low = 1, .high = 8},
                                        {.name = "lr", .kind = SWP_LOG_UNIFORM, .low = 1e-5, .high = 0.1}, );
    mt_buf            diff = {0};
    assert_ok(swp_space_diff(before, now, &diff));
    assert_ok(mt_buf_terminate(&diff));
    assert_string_equal(
        (char *)diff.data,
        "parameter 'lr' was {\"name\":\"lr\",\"kind\":\"loguniform\",\"low\":1e-05,\"high\":0.1} and is "
        "{\"name\":\"lr\",\"kind\":\"loguniform\",\"low\":1e-05,\"high\":0.2}\n"
        "parameter 'width' is gone, it was: {\"name\":\"width\",\"kind\":\"int\",\"low\":1.0,\"high\":8.0,\"step\":1.0}\n"
        "parameter 'depth' is new: {\"name\":\"depth\",\"kind\":\"int\",\"low\":1.0,\"high\":8.0,\"step\":1.0}\n");
    diff.size = 0;
    assert_ok(swp_space_diff(before, turned, &diff));
    assert_int_not_equal(diff.size, 0);
    mt_buf_fini(&diff);
    swp_space_free(before);
    swp_space_free(now);
    swp_space_free(turned);
}

/* ---- JSON itself ---- */

static void json_reads_what_python_writes(void **state)
{
    (void)state;
    static const char text[] = " {\"a\\u00e4\\ud83d\\ude00\\n\": [1, -2.5e-3, NaN, -Infinity, {\"x\": []}], \"b\": true} ";
    struct mt_json    json = mt_json_of(mt_view_text(text)), whole = json;
    mt_buf            name = {0};
    mt_status         st;
    double            x;
    bool              first = true;
    assert_ok(mt_json_skip(&whole));
    assert_ok(mt_json_end(&whole));
    assert_ok(mt_json_take(&json, '{'));
    assert_true(mt_json_more(&json, '}', &first, &st));
    assert_ok(mt_json_name(&json, &name));
    assert_string_equal((char *)name.data, "a\xc3\xa4\xf0\x9f\x98\x80\n");
    assert_ok(mt_json_take(&json, '['));
    assert_ok(mt_json_real(&json, &x));
    assert_true(x == 1 && mt_json_try(&json, ','));
    assert_ok(mt_json_real(&json, &x));
    assert_true(x == -0.0025 && mt_json_try(&json, ','));
    assert_ok(mt_json_real(&json, &x));
    assert_true(isnan(x) && mt_json_try(&json, ','));
    assert_ok(mt_json_real(&json, &x));
    assert_true(isinf(x) && x < 0);
    mt_buf_fini(&name);
}

static void json_refuses_what_is_none(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "{",
                                      "[1,]",
                                      "[1 2]",
                                      "{\"a\" 1}",
                                      "{\"a\":}",
                                      "01",
                                      "1.",
                                      "+1",
                                      "1e",
                                      "nul",
                                      "\"\\q\"",
                                      "\"\x01\"",
                                      "\"\\u12\"",
                                      "\"\\ud800\"",
                                      "\"\\u0000\"",
                                      "{1:2}",
                                      "]",
                                      "'a'",
                                      "--1",
                                      "[[[[[[[[[[",
                                      "11111111111111111111111111111111111111111111111111111111111111111111111111111111"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct mt_json json = mt_json_of(mt_view_text(bad[i]));
        assert_code(mt_json_skip(&json), MT_ECORRUPT);
    }
    char deep[200];
    memset(deep, '[', sizeof deep);
    struct mt_json json = mt_json_of(mt_view_of(deep, sizeof deep));
    assert_code(mt_json_skip(&json), MT_ECORRUPT);
}

static void numbers_are_the_same_in_every_locale(void **state)
{
    (void)state;
    static const double samples[] = {0.1, 1, -0.0, 1e22, 5e-324, 1.7976931348623157e308, 0.30000000000000004, 1.0 / 3};
    setlocale(LC_ALL, "de_DE.UTF-8"); /* where it is installed: a decimal comma */
    mt_buf text = {0};
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        double back;
        text.size = 0;
        assert_ok(mt_json_put_real(&text, samples[i]));
        struct mt_json json = mt_json_of(mt_buf_view(&text));
        assert_ok(mt_json_real(&json, &back));
        assert_memory_equal(&back, &samples[i], sizeof back);
    }
    setlocale(LC_ALL, "C");
    mt_buf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_keep_to_their_kind),
        cmocka_unit_test(the_normal_distribution_is_exact),
        cmocka_unit_test(bad_parameters_are_named),
        cmocka_unit_test(bad_conditions_are_named),
        cmocka_unit_test(contradictory_constraints_are_refused),
        cmocka_unit_test(only_the_active_have_values),
        cmocka_unit_test(constraints_bound_what_is_drawn),
        cmocka_unit_test(grid_parameters_count_up),
        cmocka_unit_test(points_come_back_bit_for_bit),
        cmocka_unit_test(bad_points_are_refused),
        cmocka_unit_test(a_space_comes_back_from_its_text),
        cmocka_unit_test(a_changed_space_says_what_changed),
        cmocka_unit_test(json_reads_what_python_writes),
        cmocka_unit_test(json_refuses_what_is_none),
        cmocka_unit_test(numbers_are_the_same_in_every_locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
