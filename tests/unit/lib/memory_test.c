/* SPDX-License-Identifier: Apache-2.0
 *
 * memory_test.c - memory that is not there: what is asked for fails, and whoever waits for it is told; nothing is done by half.
 */
#include "clients/lib/owner/own.h"
#include "clients/lib/worker/wrk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

enum { PROCESS = 7, LEASE = 3 };

static int left; /* the allocation at which it comes to 0 fails */

static bool fails(void)
{
    return left > 0 && --left == 0;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}
void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}
void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

/* A task that waits for a value: it has all of its arguments, or its ref says that there was no memory. */
static void a_task_has_all_of_its_arguments_or_fails(void **state)
{
    (void)state;
    struct own            own;
    struct own_class_spec spec = {.name = "f", .resource_count = 1, .resources = {{"CPU", 1000}}};
    struct own_failure    why;
    int                   failed = 0;
    bool                  is_whole = false;
    own_init(&own, PROCESS, 1, 1, 1);
    struct own_class *cls = own_class_get(&own, &spec, (mt_id){0, 0});
    for (int at = 1; !is_whole; at++) {
        struct own_ref *first = own_ref_new(&own, own_id_next(&own));
        struct own_arg  args[] = {{.type = 'y', .ref = first}, {.type = 'y', .data = "0123456789", .size = 10}};
        struct own_call call = {.name = "f", .function = 1, .kind = LANE_TASK, .cls = cls, .args = args, .argc = 2};
        left = at;
        struct own_ref *ref = own_submit(&own, &call);
        is_whole = left > 0;
        left = 0;
        if (ref && ref->state == OWN_REF_PENDING)
            assert_int_equal(ref->task->arg_count, 2);
        else if (ref)
            assert_int_equal(ref->value.failure->code, MT_ENOMEM);
        failed += !ref || ref->state == OWN_REF_FAILED;
        own_failure_set(&why, MT_ETASK, "the value that it waits for");
        own_ref_set_failed(&own, first, &why);
        own_settle(&own);
        own_ref_drop(&own, first);
        if (ref)
            own_ref_drop(&own, ref);
        assert_int_equal(own.outstanding, 0);
    }
    assert_true(failed >= 3); /* the task, its arguments, the bytes of one */
    own_fini(&own);
}

/* A record for another process is whole, or is not there and is_starved says so. */
static void no_half_records(void **state)
{
    (void)state;
    static const uint8_t payload[300];
    for (size_t size = 0; size <= sizeof payload; size++)
        for (int at = 1; at <= 3; at++) {
            struct own_out out = {.is_starved = false};
            left = at;
            own_out_record(&out, CTL_CLASS, 1, (mt_id){1, 1}, payload, size);
            left = 0;
            assert_int_equal(out.up.size, out.is_starved ? 0 : lane_record_padded(LANE_RECORD_SIZE + (uint32_t)size));
            mt_buf_fini(&out.up);
        }
}

/* An actor's call that can't be kept is refused at once: its caller may have nothing else under way that would wake it. */
static void a_call_that_can_not_be_kept_is_answered_at_once(void **state)
{
    (void)state;
    static struct wrk       wrk;
    static struct lane_park park;
    struct ctl_grant        grant = {.lease = LEASE, .peer = PROCESS, .peer_node = 1};
    struct lane_record      record = {.length = LANE_RECORD_SIZE + sizeof grant, .kind = CTL_LANE};
    uint32_t                limit = 2;
    void                   *memory = calloc(1, LANE_BYTES);
    struct lane_producer    owner;
    struct lane_consumer    answers;
    const uint8_t          *payload;
    bool                    found = false;
    wrk_init(&wrk, 1);
    wrk_calls_start(&wrk, &limit, 1);
    assert_int_equal(wrk_control(&wrk, &record, (const uint8_t *)&grant, memory, &park).code, MT_OK);
    lane_producer_init(&owner, &lane_header_of(memory)->forward, lane_forward_of(memory));
    lane_consumer_init(&answers, &lane_header_of(memory)->back, lane_back_of(memory));
    record = (struct lane_record){.length = LANE_RECORD_SIZE, .kind = LANE_CALL, .sequence = 1};
    lane_claim_set(&lane_claims_of(memory)[0], record.sequence, record.attempt);
    assert_true(lane_ring_push(&owner, &record, NULL));
    lane_ring_publish(&owner);
    left = 1;
    assert_null(wrk_call_next(&wrk));
    assert_int_equal(left, 0);
    assert_int_equal(lane_ring_peek(&answers, &record, &payload, &found).code, MT_OK);
    assert_true(found);
    assert_int_equal(record.kind, LANE_DONE);
    assert_int_equal((uint32_t)record.aux, MT_ENOMEM);
    wrk_fini(&wrk);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_has_all_of_its_arguments_or_fails),
        cmocka_unit_test(no_half_records),
        cmocka_unit_test(a_call_that_can_not_be_kept_is_answered_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
