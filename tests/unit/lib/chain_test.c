/* SPDX-License-Identifier: Apache-2.0
 *
 * chain_test.c - what a user's data may make long: chains of tasks that wait for each other, and of values that declare
 * each other. They end however long they are, on a small stack.
 */
#include "clients/lib/owner/own.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

enum { PROCESS = 7, LINKS = 100000, STACK = 256 * 1024 };

struct world {
    struct own        own;
    struct own_class *cls;
};

static struct world *begin(void)
{
    struct world         *w = calloc(1, sizeof *w);
    struct own_class_spec spec = {.name = "f", .resource_count = 1, .resources = {{"CPU", 1000}}};
    own_init(&w->own, PROCESS, 1, 1, 1);
    w->cls = own_class_get(&w->own, &spec, (mt_id){0, 0});
    return w;
}

static void end(struct world *w)
{
    assert_int_equal(w->own.outstanding, 0);
    own_fini(&w->own);
    free(w);
}

/* Runs the body of a test where one frame for each link would not fit. */
static void on_a_small_stack(void *(*body)(void *))
{
    pthread_attr_t attr;
    pthread_t      thread;
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstacksize(&attr, STACK), 0);
    assert_int_equal(pthread_create(&thread, &attr, body, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attr);
}

static struct own_ref *submit(struct world *w, struct own_ref *argument)
{
    struct own_arg  arg = {.type = 'y', .ref = argument};
    struct own_call call = {.name = "f", .function = 1, .kind = LANE_TASK, .cls = w->cls, .args = &arg, .argc = argument != NULL};
    return own_submit(&w->own, &call);
}

/* Each task has the result of the one before it as its argument; nobody but them holds those. Returns the last result. */
static struct own_ref *chain(struct world *w, struct own_ref *first)
{
    struct own_ref *last = first;
    own_ref_hold(first);
    for (int i = 0; i < LINKS; i++) {
        struct own_ref *next = submit(w, last);
        own_ref_drop(&w->own, last);
        last = next;
    }
    return last;
}

static void *first_fails(void *arg)
{
    struct world      *w = begin();
    struct own_ref    *first = own_ref_new(&w->own, own_id_next(&w->own)), *last = chain(w, first);
    struct own_failure why;
    own_failure_set(&why, MT_ETASK, "the first of them failed");
    own_ref_set_failed(&w->own, first, &why);
    own_settle(&w->own);
    assert_int_equal(last->state, OWN_REF_FAILED);
    assert_int_equal(last->value.failure->code, MT_ETASK);
    assert_string_equal(last->value.failure->message, "the first of them failed");
    assert_ptr_equal(last->value.failure, first->value.failure); /* kept once, whatever the number of those who have it */
    own_ref_drop(&w->own, first);
    assert_int_equal(last->value.failure->code, MT_ETASK);
    own_ref_drop(&w->own, last);
    end(w);
    return arg;
}

static void *first_is_cancelled(void *arg)
{
    struct world   *w = begin();
    struct own_ref *first = submit(w, NULL), *last = chain(w, first);
    assert_int_equal(own_cancel(&w->own, first, OWN_CANCEL_RECURSIVE), OWN_CANCELLED_NEVER);
    assert_int_equal(last->value.failure->code, MT_ECANCELLED);
    own_ref_drop(&w->own, first);
    own_ref_drop(&w->own, last);
    end(w);
    return arg;
}

/* What one run has submitted is a chain: cancelling the first child fails the others, which the walk then passes over. */
static void *children_are_cancelled(void *arg)
{
    struct world         *w = begin();
    mt_id                 run = own_id_next(&w->own);
    struct own_msg_cancel m = {.id = run, .flags = OWN_CANCEL_CHILDREN | OWN_CANCEL_RECURSIVE};
    struct own_ref       *first, *last;
    own_run_begin(&w->own, run);
    first = submit(w, NULL);
    last = chain(w, first);
    own_cancel_message(&w->own, (const uint8_t *)&m, sizeof m);
    own_settle(&w->own);
    assert_int_equal(last->value.failure->code, MT_ECANCELLED);
    own_run_end(&w->own);
    own_ref_drop(&w->own, first);
    own_ref_drop(&w->own, last);
    end(w);
    return arg;
}

static void *values_declare_each_other(void *arg)
{
    struct world   *w = begin();
    struct own_ref *last = NULL;
    for (int i = 0; i < LINKS; i++) {
        struct own_ref *next = own_ref_new(&w->own, own_id_next(&w->own)), **declared = malloc(sizeof *declared);
        own_ref_set_inline(&w->own, next, 'l', &i, sizeof i);
        declared[0] = last;
        assert_int_equal(own_ref_declare(&w->own, next, declared, last != NULL).code, MT_OK);
        last = next;
    }
    own_ref_drop(&w->own, last);
    assert_int_equal(w->own.extras.count, 0);
    end(w);
    return arg;
}

static void a_chain_whose_first_fails(void **state)
{
    (void)state;
    on_a_small_stack(first_fails);
}
static void a_chain_whose_first_is_cancelled(void **state)
{
    (void)state;
    on_a_small_stack(first_is_cancelled);
}
static void a_chain_of_children_is_cancelled(void **state)
{
    (void)state;
    on_a_small_stack(children_are_cancelled);
}
static void a_chain_of_values_that_declare_each_other(void **state)
{
    (void)state;
    on_a_small_stack(values_declare_each_other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_whose_first_fails),
        cmocka_unit_test(a_chain_whose_first_is_cancelled),
        cmocka_unit_test(a_chain_of_children_is_cancelled),
        cmocka_unit_test(a_chain_of_values_that_declare_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
