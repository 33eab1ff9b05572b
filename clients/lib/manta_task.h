/* SPDX-License-Identifier: Apache-2.0
 *
 * manta_task.h - MANTA_TASK: a typed remote function and its stub, in C (C++ has its own in manta.hpp). Part of manta.h.
 */
#ifndef MANTA_TASK_H
#define MANTA_TASK_H

#include "manta.h" /* IWYU pragma: keep */

#ifndef __cplusplus
/* Typed form: MANTA_TASK(double, scale, (double, x), (int64_t, n)) { return x * (double)n; }
 * defines the body, registers it, and makes the stub
 *   manta_ref *scale_remote(const manta_task_opts *opts, double x, int64_t n);
 * which the compiler checks. A reference in the place of a value goes by manta_call("scale", NULL, MANTA_ARGS(manta_ref_arg(r),
 * manta_i64(3))). Types: int64_t, uint64_t, double, bool, const char *, manta_bytes, manta_ref *.
 * For a function without result: MANTA_TASK_VOID(name, ...). At most 8 arguments; one with none: MANTA_TASK(int64_t, answer). */
#define MANTA_TASK(ret, ...) MANTA_TASK_OF(MANTA_TASK_WITH_, MANTA_TASK_ARGS(__VA_ARGS__))(ret, __VA_ARGS__)
#define MANTA_TASK_VOID(...) MANTA_TASK_OF(MANTA_TASK_VOID_WITH_, MANTA_TASK_ARGS(__VA_ARGS__))(__VA_ARGS__)

/* 1: arguments stand behind the function's name; 0: none. */
#define MANTA_TASK_ARGS(...)                                 MANTA_TASK_ARGS_(__VA_ARGS__, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0)
#define MANTA_TASK_ARGS_(fn, a, b, c, d, e, f, g, h, n, ...) n
#define MANTA_TASK_OF(start, args)                           MANTA_TASK_OF_(start, args)
#define MANTA_TASK_OF_(start, args)                          start##args

#define MANTA_TASK_WITH_1(ret, fn, ...) \
    static ret          fn(MANTA_TASK_EACH(MANTA_TASK_PARAMETER, __VA_ARGS__)); \
    static manta_status fn##_run(manta_ctx *manta_c, int manta_n, const manta_arg *manta_a) \
    { \
        (void)manta_n; \
        return MANTA_TASK_RETURN_OF(ret)(manta_c, fn(MANTA_TASK_EACH_INDEX(MANTA_TASK_FETCH, __VA_ARGS__))); \
    } \
    MANTA_TASK_REST_1(fn, MANTA_TASK_LETTER(ret), __VA_ARGS__) \
    static ret fn(MANTA_TASK_EACH(MANTA_TASK_PARAMETER, __VA_ARGS__))
#define MANTA_TASK_VOID_WITH_1(fn, ...) \
    static void         fn(MANTA_TASK_EACH(MANTA_TASK_PARAMETER, __VA_ARGS__)); \
    static manta_status fn##_run(manta_ctx *manta_c, int manta_n, const manta_arg *manta_a) \
    { \
        (void)manta_c, (void)manta_n; \
        fn(MANTA_TASK_EACH_INDEX(MANTA_TASK_FETCH, __VA_ARGS__)); \
        return MANTA_OK; \
    } \
    MANTA_TASK_REST_1(fn, 'v', __VA_ARGS__) \
    static void fn(MANTA_TASK_EACH(MANTA_TASK_PARAMETER, __VA_ARGS__))

#define MANTA_TASK_WITH_0(ret, fn) \
    static ret          fn(void); \
    static manta_status fn##_run(manta_ctx *manta_c, int manta_n, const manta_arg *manta_a) \
    { \
        (void)manta_n, (void)manta_a; \
        return MANTA_TASK_RETURN_OF(ret)(manta_c, fn()); \
    } \
    MANTA_TASK_REST_0(fn, MANTA_TASK_LETTER(ret)) \
    static ret fn(void)
#define MANTA_TASK_VOID_WITH_0(fn) \
    static void         fn(void); \
    static manta_status fn##_run(manta_ctx *manta_c, int manta_n, const manta_arg *manta_a) \
    { \
        (void)manta_c, (void)manta_n, (void)manta_a; \
        fn(); \
        return MANTA_OK; \
    } \
    MANTA_TASK_REST_0(fn, 'v') \
    static void fn(void)

#define MANTA_TASK_ENTRY(fn) \
    static manta_entry manta_entry_##fn = {#fn, fn##_signature, fn##_run, __FILE__, __LINE__, {0}, {0}}; \
    MANTA_REGISTER_BEFORE_MAIN(fn) \
    { \
        manta_register(&manta_entry_##fn); \
    }
#define MANTA_TASK_REST_0(fn, letter) \
    static const char fn##_signature[] = {'>', letter, 0}; \
    MANTA_TASK_ENTRY(fn) \
    __attribute__((unused)) static manta_ref *fn##_remote(const manta_task_opts *manta_opts) \
    { \
        return manta_call_entry(&manta_entry_##fn, manta_opts, MANTA_NO_ARGS); \
    }
#define MANTA_TASK_REST_1(fn, letter, ...) \
    static const char fn##_signature[] = {MANTA_TASK_EACH(MANTA_TASK_LETTER_OF, __VA_ARGS__), '>', letter, 0}; \
    MANTA_TASK_ENTRY(fn) \
    __attribute__((unused)) static manta_ref *fn##_remote(const manta_task_opts *manta_opts, \
                                                          MANTA_TASK_EACH(MANTA_TASK_PARAMETER, __VA_ARGS__)) \
    { \
        manta_arg manta_a[] = {MANTA_TASK_EACH(MANTA_TASK_MAKE, __VA_ARGS__)}; \
        return manta_call_entry(&manta_entry_##fn, manta_opts, (int)(sizeof manta_a / sizeof manta_a[0]), manta_a); \
    }

#define MANTA_TASK_LETTER(type) \
    _Generic((type){0}, int64_t: 'l', uint64_t: 'u', double: 'd', bool: 'b', const char *: 's',     \
             manta_bytes: 'y', manta_ref *: 'r')
#define MANTA_TASK_RETURN_OF(type) \
    _Generic((type){0}, int64_t: manta_return_i64, uint64_t: manta_return_u64, double: manta_return_f64, \
             bool: manta_return_bool, const char *: manta_return_str)
#define MANTA_TASK_FETCH_AS(type, arg) \
    _Generic((type){0}, int64_t: (arg).l, uint64_t: (arg).u, double: (arg).d, bool: (arg).b,        \
             const char *: (const char *)(arg).y.data, manta_bytes: (arg).y, manta_ref *: (arg).r)
#define MANTA_TASK_MAKE_OF(type, x) \
    _Generic((type){0}, int64_t: manta_i64, uint64_t: manta_u64, double: manta_f64, bool: manta_bool, \
             const char *: manta_str, manta_bytes: manta_data, manta_ref *: manta_ref_arg)(x)

#define MANTA_TASK_PARAMETER(pair)        MANTA_TASK_PARAMETER_ pair
#define MANTA_TASK_PARAMETER_(type, name) type name
#define MANTA_TASK_LETTER_OF(pair)        MANTA_TASK_LETTER_OF_ pair
#define MANTA_TASK_LETTER_OF_(type, name) MANTA_TASK_LETTER(type)
#define MANTA_TASK_MAKE(pair)             MANTA_TASK_MAKE_ pair
#define MANTA_TASK_MAKE_(type, name)      MANTA_TASK_MAKE_OF(type, name)
#define MANTA_TASK_FETCH(i, pair)         MANTA_TASK_FETCH_AS(MANTA_TASK_TYPE_ pair, manta_a[i])
#define MANTA_TASK_TYPE_(type, name)      type

#define MANTA_TASK_COUNT(...)                             MANTA_TASK_COUNT_(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define MANTA_TASK_COUNT_(a, b, c, d, e, f, g, h, n, ...) n
#define MANTA_TASK_PASTE(a, b)                            MANTA_TASK_PASTE_(a, b)
#define MANTA_TASK_PASTE_(a, b)                           a##b

/* m applied to each pair, and to each number with its pair. */
#define MANTA_TASK_EACH(m, ...)       MANTA_TASK_PASTE(MANTA_TASK_EACH_, MANTA_TASK_COUNT(__VA_ARGS__))(m, __VA_ARGS__)
#define MANTA_TASK_EACH_INDEX(m, ...) MANTA_TASK_PASTE(MANTA_TASK_EACH_INDEX_, MANTA_TASK_COUNT(__VA_ARGS__))(m, __VA_ARGS__)

#define MANTA_TASK_EACH_1(m, a)                            m(a)
#define MANTA_TASK_EACH_2(m, a, b)                         m(a), m(b)
#define MANTA_TASK_EACH_3(m, a, b, c)                      m(a), m(b), m(c)
#define MANTA_TASK_EACH_4(m, a, b, c, d)                   m(a), m(b), m(c), m(d)
#define MANTA_TASK_EACH_5(m, a, b, c, d, e)                m(a), m(b), m(c), m(d), m(e)
#define MANTA_TASK_EACH_6(m, a, b, c, d, e, f)             m(a), m(b), m(c), m(d), m(e), m(f)
#define MANTA_TASK_EACH_7(m, a, b, c, d, e, f, g)          m(a), m(b), m(c), m(d), m(e), m(f), m(g)
#define MANTA_TASK_EACH_8(m, a, b, c, d, e, f, g, h)       m(a), m(b), m(c), m(d), m(e), m(f), m(g), m(h)
#define MANTA_TASK_EACH_INDEX_1(m, a)                      m(0, a)
#define MANTA_TASK_EACH_INDEX_2(m, a, b)                   m(0, a), m(1, b)
#define MANTA_TASK_EACH_INDEX_3(m, a, b, c)                m(0, a), m(1, b), m(2, c)
#define MANTA_TASK_EACH_INDEX_4(m, a, b, c, d)             m(0, a), m(1, b), m(2, c), m(3, d)
#define MANTA_TASK_EACH_INDEX_5(m, a, b, c, d, e)          m(0, a), m(1, b), m(2, c), m(3, d), m(4, e)
#define MANTA_TASK_EACH_INDEX_6(m, a, b, c, d, e, f)       m(0, a), m(1, b), m(2, c), m(3, d), m(4, e), m(5, f)
#define MANTA_TASK_EACH_INDEX_7(m, a, b, c, d, e, f, g)    m(0, a), m(1, b), m(2, c), m(3, d), m(4, e), m(5, f), m(6, g)
#define MANTA_TASK_EACH_INDEX_8(m, a, b, c, d, e, f, g, h) m(0, a), m(1, b), m(2, c), m(3, d), m(4, e), m(5, f), m(6, g), m(7, h)
#endif
#endif
