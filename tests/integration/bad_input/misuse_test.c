/* SPDX-License-Identifier: Apache-2.0
 *
 * misuse_test.c - what a program can do wrong with the library: each is told by a typed error that names it. Nothing crashes,
 * hangs or gives rubbish, and the library goes on.
 *
 * Thread: the driver's main one. Each case is a process of its own (harness.h).
 */
#include "tests/integration/bad_input/misuse.h"
#include "tests/integration/harness.h"

manta_ref *misuse_other_call(int64_t x);

MANTA_TASK(int64_t, add, (int64_t, a), (int64_t, b))
{
    return a + b;
}

/* Whatever was done wrong, the next call is served. */
static void goes_on(void)
{
    CHECK_I64(add_remote(NULL, 1, 2), 3);
}

/* ---- what functions return ---- */

static manta_status returns_nothing(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)c, (void)argc, (void)argv;
    return MANTA_OK;
}
MANTA_REGISTER(returns_nothing, ">l");

static manta_status returns_double(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    (void)manta_return_f64(c, 1.5); /* and does not look at what that says */
    return MANTA_OK;
}
MANTA_REGISTER(returns_double, ">l");

static manta_status returns_large_string(manta_ctx *c, int argc, const manta_arg *argv)
{
    static char text[100000];
    (void)argc, (void)argv;
    memset(text, 'x', sizeof text - 1);
    return manta_return_str(c, text);
}
MANTA_REGISTER(returns_large_string, ">y");

static manta_status returns_uninvited(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    return manta_return_i64(c, 1);
}
MANTA_REGISTER(returns_uninvited, "l>");

static manta_status map_double(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_f64(c, (double)argv[0].l);
}
MANTA_REGISTER(map_double, "l>l");

static void result_missing(void)
{
    manta_error e;
    CHECK_FAILS(manta_call("returns_nothing", NULL, MANTA_NO_ARGS), MANTA_ETYPE, &e);
    CHECK_SAYS(e.message, "returns_nothing returned no value");
    goes_on();
}
static void result_of_another_type(void)
{
    manta_error e;
    CHECK_FAILS(manta_call("returns_double", NULL, MANTA_NO_ARGS), MANTA_ETYPE, &e);
    CHECK_SAYS(e.message, "returned 'd'");
    CHECK_SAYS(e.message, ">l");
    goes_on();
}
static void result_of_another_type_in_the_store(void)
{
    manta_error e;
    CHECK_FAILS(manta_call("returns_large_string", NULL, MANTA_NO_ARGS), MANTA_ETYPE, &e);
    CHECK_SAYS(e.message, "returned 's'");
    goes_on();
}
static void result_uninvited(void)
{
    manta_error e;
    CHECK_FAILS(manta_call("returns_uninvited", NULL, MANTA_ARGS(manta_i64(1))), MANTA_ETYPE, &e);
    CHECK_SAYS(e.message, "no value");
    goes_on();
}
static void result_of_another_type_in_map(void)
{
    manta_error e;
    int64_t     items[10] = {0}, results[10];
    CHECK_CODE(manta_map("map_double", NULL, items, 10, sizeof items[0], 0, results, sizeof results[0], &e), MANTA_ETYPE, &e);
    CHECK_SAYS(e.message, "returned 'd'");
    goes_on();
}

/* ---- an actor ---- */

static manta_status thing_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)argc, (void)argv;
    *self = NULL;
    return MANTA_OK;
}
static manta_status thing_wrong(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc, (void)argv;
    return manta_return_str(c, "a string");
}
static manta_status thing_silent(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)c, (void)self, (void)argc, (void)argv;
    return MANTA_OK;
}
static manta_status thing_one(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc, (void)argv;
    return manta_return_i64(c, 1);
}
MANTA_ACTOR(thing, "", thing_new, NULL, {"wrong", ">l", thing_wrong}, {"silent", ">l", thing_silent}, {"one", ">l", thing_one});

static void result_of_a_method(void)
{
    manta_error  e;
    manta_actor *a = manta_actor_new("thing", NULL, MANTA_NO_ARGS);
    CHECK_FAILS(manta_actor_call(a, "wrong", MANTA_NO_ARGS), MANTA_ETYPE, &e);
    CHECK_SAYS(e.message, "returned 's'");
    CHECK_FAILS(manta_actor_call(a, "silent", MANTA_NO_ARGS), MANTA_ETYPE, &e);
    CHECK_I64(manta_actor_call(a, "one", MANTA_NO_ARGS), 1);
    manta_actor_free(a);
}

/* ---- what is registered ---- */

static void init_refuses(const char *first, const char *second)
{
    manta_error e;
    CHECK_CODE(manta_init(&test_argc, &test_argv, NULL, &e), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, first);
    CHECK_SAYS(e.message, second);
    CHECK(!manta_is_initialized());
    CHECK_FAILS(add_remote(NULL, 1, 2), MANTA_EINVAL, &e);
}
static void refuses_signature(const char *signature, const char *says)
{
    static manta_entry entry = {"signed_wrong", NULL, returns_nothing, "mine.c", 12, NULL, NULL, 0, NULL};
    entry.signature = signature;
    manta_register(&entry);
    init_refuses(says, "mine.c:12");
}
static void signature_unknown_letter(void)
{
    refuses_signature("i>i", "'i' can't stand at place 1");
}
static void signature_unknown_result(void)
{
    refuses_signature("l>r", "'r' can't stand at place 3");
}
static void signature_star_inside(void)
{
    refuses_signature("*l>l", "'*' can't stand at place 1");
}
static void signature_of_three_parts(void)
{
    refuses_signature("l>l>l", "'>' can't stand at place 4");
}
static void signature_none(void)
{
    refuses_signature(NULL, "has no signature");
}
static void function_without_a_body(void)
{
    static manta_entry entry = {"bodiless", ">l", NULL, "mine.c", 13, NULL, NULL, 0, NULL};
    manta_register(&entry);
    init_refuses("bodiless", "mine.c:13");
}
/* Two files, each with a static function of that name. */
static void name_of_two_functions(void)
{
    static manta_entry entry = {"add", "ll>l", returns_nothing, "other.c", 7, NULL, NULL, 0, NULL};
    manta_register(&entry);
    init_refuses("misuse_test.c:", "other.c:7");
}
static void name_of_two_actor_types(void)
{
    static manta_actor_type type = {.name = "thing", .signature = "l", .create = thing_new, .file = "other.c", .line = 8};
    type.create = (manta_status(*)(manta_ctx *, void **, int, const manta_arg *))(void (*)(void))thing_one;
    manta_register_actor(&type);
    init_refuses("misuse_test.c:", "other.c:8");
}
static void name_of_two_methods(void)
{
    static manta_actor_type type = {.name = "twice", .signature = "", .create = thing_new, .file = "other.c", .line = 9,
                                    .methods = {{"one", ">l", thing_one}, {"one", ">l", thing_silent}}};
    manta_register_actor(&type);
    init_refuses("two methods one", "other.c:9");
}
static void method_without_a_body(void)
{
    static manta_actor_type type = {.name = "bodiless", .signature = "", .create = thing_new, .file = "other.c", .line = 10,
                                    .methods = {{"one", ">l", NULL}}};
    manta_register_actor(&type);
    init_refuses("method one", "other.c:10");
}
static void actor_type_without_a_signature(void)
{
    static manta_actor_type type = {.name = "unsigned", .create = thing_new, .file = "other.c", .line = 11};
    manta_register_actor(&type);
    init_refuses("has no signature", "other.c:11");
}
static void actor_type_without_create(void)
{
    static manta_actor_type type = {.name = "uncreated", .signature = "", .file = "other.c", .line = 12};
    manta_register_actor(&type);
    init_refuses("has no create", "other.c:12");
}
static void register_of_nothing(void)
{
    static manta_entry      entry;
    static manta_actor_type type;
    manta_error             e;
    manta_register(NULL);
    manta_register(&entry);
    manta_register_actor(NULL);
    manta_register_actor(&type);
    CHECK_CODE(manta_init(&test_argc, &test_argv, NULL, &e), MANTA_OK, &e);
    goes_on();
    manta_shutdown();
}
/* A header with a task, in two files: no misuse. */
static void name_of_one_function_in_two_files(void)
{
    CHECK_I64(misuse_shared_remote(NULL, 1), 2);
    CHECK_I64(misuse_other_call(2), 3);
}

#define CASE(fn, ...) {.name = #fn, .run = fn, __VA_ARGS__}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(result_missing),
        CASE(result_of_another_type),
        CASE(result_of_another_type_in_the_store),
        CASE(result_uninvited),
        CASE(result_of_another_type_in_map),
        CASE(result_of_a_method),
        CASE(signature_unknown_letter, .no_init = true),
        CASE(signature_unknown_result, .no_init = true),
        CASE(signature_star_inside, .no_init = true),
        CASE(signature_of_three_parts, .no_init = true),
        CASE(signature_none, .no_init = true),
        CASE(function_without_a_body, .no_init = true),
        CASE(name_of_two_functions, .no_init = true),
        CASE(name_of_two_actor_types, .no_init = true),
        CASE(name_of_two_methods, .no_init = true),
        CASE(method_without_a_body, .no_init = true),
        CASE(actor_type_without_a_signature, .no_init = true),
        CASE(actor_type_without_create, .no_init = true),
        CASE(register_of_nothing, .no_init = true),
        CASE(name_of_one_function_in_two_files),
        {.name = NULL},
    };
    return test_main(argc, argv, cases);
}
