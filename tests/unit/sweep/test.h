/* SPDX-License-Identifier: Apache-2.0
 *
 * test.h - what the tests of sweep/ share: cmocka, and short ways to make spaces.
 */
#ifndef TESTS_UNIT_SWEEP_TEST_H
#define TESTS_UNIT_SWEEP_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h needs the four above. */
#include <cmocka.h>

#include "sweep/space/space.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define assert_ok(expr)         assert_int_equal((expr).code, 0)
#define assert_code(expr, want) assert_int_equal((expr).code, (want))

#define COUNT(list) ((uint32_t)(sizeof(list) / sizeof *(list)))
#define TEXT(value) \
    { \
        .kind = MT_LITERAL_TEXT, .text = (value) \
    }
#define WHOLE(value) \
    { \
        .kind = MT_LITERAL_INT, .integer = (value) \
    }
#define REAL(value) \
    { \
        .kind = MT_LITERAL_REAL, .real = (value) \
    }
#define LITERALS(...) ((const struct mt_literal[]){__VA_ARGS__})
#define CHOICES(...)  .choices = LITERALS(__VA_ARGS__), .choice_count = sizeof(LITERALS(__VA_ARGS__)) / sizeof(struct mt_literal)
#define WHEN(name, ...) \
    .parent = (name), .when = LITERALS(__VA_ARGS__), .when_count = sizeof(LITERALS(__VA_ARGS__)) / sizeof(struct mt_literal)

static inline struct swp_space *space_of(const struct swp_param *params, uint32_t count)
{
    struct swp_space_def def = {.params = params, .param_count = count};
    struct swp_problem   problem = {0};
    struct swp_space    *space = NULL;
    mt_status            st = swp_space_new(&def, &space, &problem);
    if (st.code != 0)
        print_error("%s\n", problem.text);
    assert_ok(st);
    return space;
}
/* SPACE_OF({.name = ...}, {...}) */
#define SPACE_OF(...) \
    space_of((const struct swp_param[]){__VA_ARGS__}, sizeof((const struct swp_param[]){__VA_ARGS__}) / sizeof(struct swp_param))

/* `dims` parameters x0, x1, ... uniform in [low, high). */
static inline struct swp_space *cube(uint32_t dims, double low, double high)
{
    struct swp_param params[MT_SWEEP_PARAMS_MAX] = {{0}};
    char             names[MT_SWEEP_PARAMS_MAX][16];
    for (uint32_t i = 0; i < dims; i++) {
        snprintf(names[i], sizeof names[i], "x%u", i);
        params[i] = (struct swp_param){.name = names[i], .kind = SWP_UNIFORM, .low = low, .high = high};
    }
    return space_of(params, dims);
}

#endif
