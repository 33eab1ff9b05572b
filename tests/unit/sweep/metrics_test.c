/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics_test.c - lines that hold metrics, and lines that do not; states on disk that are whole, and such that are not.
 */
#include "sweep/trial/metrics.h"
#include "sweep/trial/state.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static bool read_line(const char *line, struct swp_metrics *m)
{
    return swp_metrics_read(line, strlen(line), m);
}

static void lines(void **state)
{
    struct swp_metrics m;
    (void)state;
    assert_true(read_line("step=3 loss=0.5, acc=1e-1\r", &m));
    assert_int_equal(m.count, 2);
    assert_true(m.has_step && m.step == 3);
    assert_string_equal(m.items[0].name, "loss");
    assert_true(m.items[0].value == 0.5 && m.items[1].value == 0.1);
    assert_true(read_line("{\"epoch\": 7, \"loss\": 2, \"note\": \"x=1\", \"more\": [1, {\"a\": 2}], \"ok\": true}", &m));
    assert_int_equal(m.count, 1);
    assert_int_equal(m.step, 7);
    assert_true(read_line("loss=nan", &m) && isnan(m.items[0].value) && !m.has_step);
    assert_true(read_line("{\"loss\": NaN}", &m) && isnan(m.items[0].value));
    assert_false(read_line("", &m));
    assert_false(read_line("loss = 3", &m));
    assert_false(read_line("loss=3 and more", &m));
    assert_false(read_line("loss=3x", &m));
    assert_false(read_line("url http://host/?a=1", &m));
    assert_false(read_line("step=3", &m));
    assert_false(read_line("{\"loss\": 1", &m));
    assert_false(read_line("{\"loss\": 1} {\"loss\": 2}", &m));
    assert_false(read_line("=1", &m));
}

static void states(void **state)
{
    char    folder[] = "/tmp/manta-state-XXXXXX", path[64];
    mt_buf  out = {0};
    int64_t step;
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/state", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(swp_state_read(folder, 1, &step, &out).code, MT_ENOENT);
    assert_int_equal(swp_state_write(folder, 1, 5, 42, mt_view_text("some state")).code, 0);
    assert_int_equal(swp_state_read(folder, 1, &step, &out).code, MT_ENOENT); /* not published */
    swp_state_publish(folder, 1, 5);
    assert_int_equal(swp_state_read(folder, 1, &step, &out).code, 0);
    assert_int_equal(step, 42);
    assert_true(out.size == 10 && memcmp(out.data, "some state", 10) == 0);
    assert_int_equal(swp_state_clone(folder, 2, 9).code, MT_ENOENT);
    assert_int_equal(swp_state_clone(folder, 2, 1).code, 0);
    assert_int_equal(swp_state_clone(folder, 2, 1).code, 0);
    out.size = 0;
    assert_int_equal(swp_state_read(folder, 2, &step, &out).code, 0);
    snprintf(path, sizeof path, "%s/state/2", folder);
    assert_int_equal(truncate(path, 30), 0);
    assert_int_equal(swp_state_read(folder, 2, &step, &out).code, MT_ECORRUPT);
    swp_state_drop(folder, 1, 5);
    swp_state_drop(folder, 2, 1);
    snprintf(path, sizeof path, "%s/state", folder);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(folder), 0);
    mt_buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines), cmocka_unit_test(states)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
