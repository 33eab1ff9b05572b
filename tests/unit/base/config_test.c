/* SPDX-License-Identifier: Apache-2.0
 *
 * config_test.c - settings from text and environment: units, bounds, and messages that name the key.
 */
#include "tests/unit/base/test.h"

#include "core/base/config.h"

#include <stdlib.h>
#include <string.h>

struct settings {
    int64_t workers;
    int64_t store_bytes;
    int64_t suspect_ms;
    bool    insecure;
    char    address[16];
};

static const mt_option options[] = {
    MT_OPTION(INT, struct settings, workers, 1, 100, "workers"),
    MT_OPTION(BYTES, struct settings, store_bytes, 0, INT64_MAX, "size of the store"),
    MT_OPTION(MS, struct settings, suspect_ms, 1, 3600 * 1000, "silence"),
    MT_OPTION(BOOL, struct settings, insecure, 0, 1, "no TLS"),
    MT_OPTION_TEXT_FIELD(struct settings, address, "where"),
};

static mt_config config_for(struct settings *settings)
{
    mt_config config = {.options = options, .count = sizeof options / sizeof *options, .target = settings};
    return config;
}

static void text_fills_every_type(void **state)
{
    (void)state;
    struct settings s = {0};
    mt_config       config = config_for(&s);
    assert_ok(mt_config_text(&config, mt_view_text("# a comment\n\n workers = 4 \nstore_bytes=2G\r\n"
                                                   "suspect_ms=2s\ninsecure=true\naddress=127.0.0.1:1")));
    assert_int_equal(s.workers, 4);
    assert_true(s.store_bytes == INT64_C(2) << 30);
    assert_int_equal(s.suspect_ms, 2000);
    assert_true(s.insecure);
    assert_string_equal(s.address, "127.0.0.1:1");
    assert_ok(mt_config_text(&config, mt_view_text("")));
}

static void every_unit_is_read(void **state)
{
    (void)state;
    struct settings s = {0};
    mt_config       config = config_for(&s);
    assert_ok(mt_config_set(&config, "suspect_ms", "250ms"));
    assert_int_equal(s.suspect_ms, 250);
    assert_ok(mt_config_set(&config, "suspect_ms", "5min"));
    assert_int_equal(s.suspect_ms, 300000);
    assert_ok(mt_config_set(&config, "suspect_ms", "1h"));
    assert_int_equal(s.suspect_ms, 3600000);
    assert_ok(mt_config_set(&config, "store_bytes", "17"));
    assert_int_equal(s.store_bytes, 17);
    assert_ok(mt_config_set(&config, "store_bytes", "3T"));
    assert_true(s.store_bytes == INT64_C(3) << 40);
}

static void a_refused_value_names_key_and_reason(void **state)
{
    (void)state;
    static const char *const wrong[][3] = {
        {"workers", "0", "workers=0: not between 1 and 100"},
        {"workers", "4x", "workers=4x: unknown unit"},
        {"workers", "", "workers=: no number"},
        {"workers", " 4", "workers= 4: no number"},
        {"workers", "99999999999999999999", "too large"},
        {"store_bytes", "9999999T", "too large"},
        {"store_bytes", "-1", "not between"},
        {"suspect_ms", "10", "suspect_ms=10: unknown unit; want a duration"},
        {"insecure", "yes", "insecure=yes: neither; want true or false"},
        {"address", "0123456789abcdef", "too long"},
    };
    struct settings s = {.workers = 7};
    mt_config       config = config_for(&s);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_code(mt_config_set(&config, wrong[i][0], wrong[i][1]), MT_EINVAL);
        assert_non_null(strstr(config.error, wrong[i][2]));
        assert_non_null(strstr(config.error, wrong[i][0]));
    }
    assert_int_equal(s.workers, 7);
    assert_string_equal(s.address, "");
}

static void an_unknown_key_and_a_bare_word_name_their_line(void **state)
{
    (void)state;
    struct settings s = {0};
    mt_config       config = config_for(&s);
    assert_code(mt_config_text(&config, mt_view_text("workers=2\nworkerz=3\n")), MT_ENOENT);
    assert_string_equal(config.error, "line 2: workerz: no such option");
    assert_int_equal(s.workers, 2);
    assert_code(mt_config_text(&config, mt_view_text("\n\nworkers\n")), MT_EINVAL);
    assert_string_equal(config.error, "line 3: want key=value");
    assert_code(mt_config_text(&config, mt_view_of("a\0b", 3)), MT_EINVAL);
}

static void a_text_over_the_limit_is_refused(void **state)
{
    (void)state;
    struct settings s = {0};
    mt_config       config = config_for(&s);
    static char     text[MT_CONFIG_TEXT_BYTES_MAX + 1];
    memset(text, '\n', sizeof text);
    assert_code(mt_config_text(&config, mt_view_of(text, sizeof text)), MT_EINVAL);
    assert_ok(mt_config_text(&config, mt_view_of(text, sizeof text - 1)));
}

static void the_environment_is_read(void **state)
{
    (void)state;
    struct settings s = {.suspect_ms = 5};
    mt_config       config = config_for(&s);
    setenv("MANTA_WORKERS", "12", 1);
    setenv("MANTA_SUSPECT_MS", "", 1);
    setenv("MANTA_ELSEWHERE", "x", 1);
    assert_ok(mt_config_environment(&config));
    assert_int_equal(s.workers, 12);
    assert_int_equal(s.suspect_ms, 5);
    setenv("MANTA_WORKERS", "many", 1);
    assert_code(mt_config_environment(&config), MT_EINVAL);
    assert_non_null(strstr(config.error, "workers=many"));
    unsetenv("MANTA_WORKERS");
    unsetenv("MANTA_SUSPECT_MS");
    unsetenv("MANTA_ELSEWHERE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_fills_every_type),
        cmocka_unit_test(every_unit_is_read),
        cmocka_unit_test(a_refused_value_names_key_and_reason),
        cmocka_unit_test(an_unknown_key_and_a_bare_word_name_their_line),
        cmocka_unit_test(a_text_over_the_limit_is_refused),
        cmocka_unit_test(the_environment_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
