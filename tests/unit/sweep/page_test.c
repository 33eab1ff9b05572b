/* SPDX-License-Identifier: Apache-2.0
 *
 * page_test.c - the page of a sweep that is too large for it: bounded, nothing of weight lost, and the counts of what is left out.
 *
 *   unit_sweep_page FILE    writes such a page, to be looked at
 */
#include "tests/unit/sweep/test.h"

#include "sweep/look/page/page.h"
#include "sweep/look/page/chosen.h"

enum { TRIALS = 10000, REPORTS = 100, LONG = 20000, LONG_TRIAL = 4321, SPIKE = 12345, PAGE_BYTES_MAX = 5 * 1000 * 1000 };

struct sweep {
    manta_sweep_view   view;
    manta_sweep_trial  trials[TRIALS];
    manta_sweep_report reports[TRIALS * REPORTS + LONG];
    char               params[TRIALS][1024];
};

static double value_at(int64_t trial, int64_t step)
{
    mt_rng rng = swp_rng_of(1, (uint64_t)trial, 1);
    double least = 0.1 + swp_rng_real(&rng), slow = 10 + 40 * swp_rng_real(&rng);
    return least + 3 * exp(-(double)step / slow) + 0.02 * sin((double)(step * (trial % 7 + 1)));
}

static void trial_fill(struct sweep *s, int64_t i)
{
    manta_sweep_trial *t = &s->trials[i];
    bool               is_long = i == LONG_TRIAL;
    int64_t            reports = is_long ? LONG : i % 3 == 0 ? REPORTS / 4 : REPORTS;
    int                size = snprintf(s->params[i], sizeof s->params[i], "{");
    for (int p = 0; p < 30; p++)
        size += snprintf(s->params[i] + size, sizeof s->params[i] - (size_t)size, "%s\"x%d\":%.17g", p ? "," : "", p,
                         (double)(i * (p + 3) % 997) / 997);
    snprintf(s->params[i] + size, sizeof s->params[i] - (size_t)size, "}");
    const char *state = is_long ? "completed" : i % 100 == 99 ? "failed" : i % 3 == 0 ? "stopped" : "completed";
    *t = (manta_sweep_trial){.number = i,
                             .state = state,
                             .has_value = true,
                             .step = reports - 1,
                             .reports = reports,
                             .drawn_s = 1,
                             .ended_s = 2,
                             .params = s->params[i]};
    if (strcmp(t->state, "failed") == 0)
        t->why = "exit status 3: </script>";
    for (int64_t step = 0; step < reports; step++) {
        double value = is_long && step == SPIKE ? 77 : is_long ? 1e-3 : value_at(i, step);
        s->reports[s->view.report_count++] = (manta_sweep_report){.trial = i, .step = step, .value = value};
        t->value = value;
    }
}

static const char space[] = "{\"params\":[{\"name\":\"x0\",\"kind\":\"uniform\",\"low\":0.0,\"high\":1.0},{\"name\":\"x1\","
                            "\"kind\":\"uniform\",\"low\":0.0,\"high\":1.0}],\"constraints\":[]}";

static struct sweep *sweep_make(int64_t trials)
{
    struct sweep *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->view = (manta_sweep_view){.name = "large",
                                 .metric = "loss",
                                 .mode = "min",
                                 .sampler = "random ",
                                 .scheduler = "asha ",
                                 .seed = "1",
                                 .trial = "t",
                                 .space = space,
                                 .importance = "fanova",
                                 .state = "done",
                                 .count = trials,
                                 .trials = s->trials,
                                 .reports = s->reports,
                                 .seconds = 3};
    for (int64_t i = 0; i < trials; i++) {
        trial_fill(s, i);
        s->view.completed += strcmp(s->trials[i].state, "completed") == 0;
        s->view.stopped += strcmp(s->trials[i].state, "stopped") == 0;
        s->view.failed += strcmp(s->trials[i].state, "failed") == 0;
    }
    return s;
}

static void what_is_chosen(void **state)
{
    (void)state;
    struct sweep     *s = sweep_make(TRIALS);
    struct swp_chosen c;
    double            least = INFINITY;
    assert_ok(swp_chosen_make(&c, &s->view));
    assert_int_equal(c.valued, TRIALS - TRIALS / 100);
    assert_int_equal(c.curved, c.valued);
    assert_int_equal(c.failed, TRIALS / 100);
    assert_int_equal(c.trials.count, SWP_PAGE_TRIALS);
    assert_int_equal(c.curves.count, SWP_PAGE_CURVES);
    assert_int_equal(c.failures.count, SWP_PAGE_FAILURES);
    assert_int_equal(c.trials.data[0], LONG_TRIAL); /* the best first, none twice, and something of the worst end */
    for (size_t i = 1; i < c.trials.count; i++)
        assert_true(s->trials[c.trials.data[i]].value >= s->trials[c.trials.data[i - 1]].value &&
                    c.trials.data[i] != c.trials.data[i - 1]);
    assert_true(s->trials[c.trials.data[c.trials.count - 1]].value > 1.5);
    for (size_t i = 0; i < c.records.count; i++) {
        double value = s->trials[c.records.data[i]].value;
        assert_true(value < least && (i == 0 || c.records.data[i] > c.records.data[i - 1]));
        least = value;
    }
    assert_int_equal(c.records.data[c.records.count - 1], LONG_TRIAL);
    swp_chosen_fini(&c);
    free(s);
}

static void long_curves(void **state)
{
    (void)state;
    struct sweep     *s = sweep_make(LONG_TRIAL + 1);
    struct swp_chosen c;
    bool              has_spike = false;
    assert_ok(swp_chosen_make(&c, &s->view));
    const struct swp_curve *curve = &c.curves.data[0];
    assert_int_equal(curve->trial, LONG_TRIAL);
    assert_int_equal(curve->reports, LONG);
    assert_true(curve->points.count <= 2 * SWP_PAGE_STRETCHES + 2 && curve->points.count > SWP_PAGE_STRETCHES);
    for (size_t i = 0; i < curve->points.count; i++) {
        has_spike = has_spike || (curve->points.data[i].step == SPIKE && curve->points.data[i].value == 77);
        assert_true(i == 0 || curve->points.data[i].step > curve->points.data[i - 1].step);
    }
    assert_true(has_spike && curve->points.data[0].step == 0 && curve->points.data[curve->points.count - 1].step == LONG - 1);
    assert_true(c.curves.data[1].points.count <= REPORTS && c.curves.data[1].reports == (int64_t)c.curves.data[1].points.count);
    swp_chosen_fini(&c);
    free(s);
}

static void few(void **state)
{
    (void)state;
    struct sweep     *s = sweep_make(0);
    struct swp_chosen c;
    assert_ok(swp_chosen_make(&c, &s->view));
    assert_true(c.valued == 0 && c.trials.count == 0 && c.curves.count == 0 && c.records.count == 0);
    swp_chosen_fini(&c);
    free(s);
    s = sweep_make(40);
    s->trials[3].value = s->reports[s->trials[0].reports].value = (double)NAN; /* a value that is none */
    s->trials[5].state = "open";
    s->trials[6].reports = 1;
    assert_ok(swp_chosen_make(&c, &s->view));
    assert_true(c.valued == 38 && c.trials.count == 38 && c.curved == 39 && c.curves.count == 39);
    assert_int_equal(c.curves.data[38].trial, 3);
    swp_chosen_fini(&c);
    free(s);
}

static size_t page_write(FILE *to)
{
    struct sweep *s = sweep_make(TRIALS);
    assert_ok(swp_page_write(&s->view, to));
    free(s);
    return (size_t)ftell(to);
}

static void large_page(void **state)
{
    (void)state;
    char  *text = NULL;
    size_t size = 0;
    FILE  *to = open_memstream(&text, &size);
    assert_non_null(to);
    size_t written = page_write(to);
    fclose(to);
    assert_true(written == size && size < PAGE_BYTES_MAX && size > 100 * 1000);
    assert_non_null(strstr(text, "\"drawn\":10000,\"valued\":9900,\"curved\":9900,\"said\":100,"));
    assert_non_null(strstr(text, "\"reports\":20000,"));
    const char *data = strstr(text, "<script id=\"data\""), *end = strstr(data, "</script>");
    assert_true(end && end > data + 100 * 1000); /* no text of a trial ends the data */
    free(text);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_chosen),
        cmocka_unit_test(long_curves),
        cmocka_unit_test(few),
        cmocka_unit_test(large_page),
    };
    if (argc > 1) {
        FILE *to = fopen(argv[1], "we");
        return to && page_write(to) && fclose(to) == 0 ? 0 : 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
