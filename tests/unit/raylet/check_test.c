/* SPDX-License-Identifier: Apache-2.0
 *
 * check_test.c - rlt_check says which invariant is broken: each is broken once, by hand, and found; so are changes of state.
 */
#include "tests/unit/raylet/core_rig.h"

#include "raylet/core/leases/leases.h"
#include "raylet/core/leases/bundles.h"
#include "raylet/core/pool/pool.h"

#include "core/base/status.h"

/* A driver that holds one lease and wants more than the node has; one warm worker, of two. */
static void cluster(struct rlt_proc **out_driver, struct rlt_lease **out_lease)
{
    begin(false);
    job_begins();
    define(1, 1500, 0);
    demand(1, 2);
    *out_lease = rlt_lease_find(r, granted_lease());
    *out_driver = rlt_proc_of_conn(r, DRIVER);
    assert_non_null(*out_lease);
    assert_non_null(*out_driver);
    assert_null(rlt_check(r));
}

static void breach(const char *name)
{
    const char *found = rlt_check(r);
    assert_non_null(found);
    assert_string_equal(found, name);
}

static void a_lease_in_no_list_of_its_end_is_found(void **state)
{
    struct rlt_proc  *driver;
    struct rlt_lease *l;
    (void)state;
    cluster(&driver, &l);
    const char *lists = "a lease is in the lists of exactly the ends that it has";
    rlt_list_out(&l->in_owner);
    breach(lists);
    rlt_list_append(&driver->owned, &l->in_owner);
    rlt_list_out(&l->in_worker);
    breach(lists);
    rlt_list_append(&l->worker->served, &l->in_worker);
    rlt_list_out(&l->in_class);
    breach(lists);
    rlt_list_append(&l->class->leases, &l->in_class);
    rlt_list_append(&l->job->needy, &l->in_needy);
    breach("a lease waits for a worker only before it has one");
    rlt_list_out(&l->in_needy);
    assert_null(rlt_check(r));
}

static void a_count_that_is_off_is_found(void **state)
{
    struct rlt_proc  *driver;
    struct rlt_lease *l;
    (void)state;
    cluster(&driver, &l);
    struct {
        uint32_t   *count;
        const char *name;
    } counts[] = {
        {&l->class->held, "a class holds its leases that start or are active"},
        {&driver->class_count, "a process counts its classes"},
        {&l->job->lease_count, "a job counts the leases that name it"},
        {&l->job->idle_count, "a job counts its warm workers, and the leases that wait for one"},
        {&l->job->needy_count, "a job counts its warm workers, and the leases that wait for one"},
        {&r->worker_count, "the jobs' workers are the node's"},
        {&r->head.asked.count, "a request waits for the head in one place"},
        {&r->monitors.count, "a monitor stands in one place"},
    };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        ++*counts[i].count;
        breach(counts[i].name);
        --*counts[i].count;
    }
    assert_null(rlt_check(r));
}

static void a_lease_that_is_kept_beside_too_many_is_found(void **state)
{
    struct rlt_proc  *driver;
    struct rlt_lease *l;
    (void)state;
    cluster(&driver, &l);
    int64_t free = r->ledger.free[0];
    r->ledger.free[0] = -1000;
    r->now = l->granted_at + MT_RLT_OVER_NS - 1;
    breach("free + leased = total"); /* it has had no time to begin anything: of no concern */
    r->now++;
    breach("where more tasks run than there are CPUs, leases that could begin more are asked back");
    r->ledger.free[0] = free;
    assert_null(rlt_check(r));
}

static void a_worker_that_is_in_two_places_or_none_is_found(void **state)
{
    struct rlt_proc  *driver;
    struct rlt_lease *l;
    (void)state;
    cluster(&driver, &l);
    struct rlt_proc *warm = rlt_list_first(&l->job->idle, struct rlt_proc, in_idle);
    assert_non_null(warm);
    rlt_list_out(&warm->in_idle);
    breach("a worker is warm, greeting or leaving, or has a lease");
    rlt_list_append(&l->job->idle, &warm->in_idle);
    warm->lease = l;
    breach("a lease names the worker that serves it");
    warm->lease = NULL;
    rlt_list_append(&l->job->idle, &l->worker->in_idle);
    breach("a warm worker has no lease");
    rlt_list_out(&l->worker->in_idle);
    mt_map_remove(&r->processes, mt_map_key(warm->process));
    breach("a process is found by its number while it is alive");
    rlt_map_put(&r->processes, mt_map_key(warm->process), warm);
    assert_null(rlt_check(r));
}

static void what_waits_without_lack_or_stays_noted_is_found(void **state)
{
    struct rlt_proc  *driver;
    struct rlt_lease *l;
    (void)state;
    cluster(&driver, &l);
    const char *waits = "a class waits only for what it lacks, and not once it was refused";
    assert_false(rlt_list_is_empty(&l->class->in_waiting));
    l->class->is_refused = true;
    breach(waits);
    l->class->is_refused = false;
    l->class->wanted = 1;
    breach(waits);
    l->class->wanted = 2;
    rlt_list_append(&r->failing, &l->job->in_failing);
    breach("what was noted in a step is done by its end");
    rlt_list_out(&l->job->in_failing);
    r->ledger.free[0]++;
    breach("free + leased = total");
    r->ledger.free[0]--;
    assert_null(rlt_check(r));
}

static void a_link_without_its_stream_or_a_region_without_member_is_found(void **state)
{
    struct rlt_proc  *driver;
    struct rlt_lease *l;
    struct rlt_peer   peer = {.node = 9, .stream = 7};
    struct rlt_region region = {.number = 5};
    (void)state;
    cluster(&driver, &l);
    rlt_map_put(&r->peers, mt_map_key(9), &peer);
    breach("a link is carried by a stream to its node");
    mt_map_remove(&r->peers, mt_map_key(9));
    rlt_map_put(&r->regions, mt_map_key(5), &region);
    breach("a region has a member");
    mt_map_remove(&r->regions, mt_map_key(5));
    assert_null(rlt_check(r));
}

/* ---- states ---- */

static char told[160];
static void note(const char *expr, const char *file, int line)
{
    (void)file, (void)line;
    snprintf(told, sizeof told, "%s", expr);
}

static void a_state_that_may_not_follow_is_refused(void **state)
{
    struct rlt_lease  lease = {.state = LEASE_RECALLED};
    struct rlt_proc   proc = {.state = PROC_DYING};
    struct rlt_bundle bundle = {.state = BUNDLE_RETURNED};
    (void)state;
    mt_assert_set_hook(note);
    rlt_lease_set_state(&lease, LEASE_ACTIVE);
    assert_string_equal(told, "lease: RECALLED -> ACTIVE is no transition");
    rlt_proc_set_state(&proc, PROC_ALIVE);
    assert_string_equal(told, "process: DYING -> ALIVE is no transition");
    rlt_bundle_set_state(&bundle, BUNDLE_COMMITTED);
    assert_string_equal(told, "bundle: RETURNED -> COMMITTED is no transition");
    told[0] = 0;
    lease.state = LEASE_STARTING;
    rlt_lease_set_state(&lease, LEASE_ACTIVE);
    assert_string_equal(told, "");
    mt_assert_set_hook(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_lease_in_no_list_of_its_end_is_found, end),
        cmocka_unit_test_teardown(a_count_that_is_off_is_found, end),
        cmocka_unit_test_teardown(a_lease_that_is_kept_beside_too_many_is_found, end),
        cmocka_unit_test_teardown(a_worker_that_is_in_two_places_or_none_is_found, end),
        cmocka_unit_test_teardown(what_waits_without_lack_or_stays_noted_is_found, end),
        cmocka_unit_test_teardown(a_link_without_its_stream_or_a_region_without_member_is_found, end),
        cmocka_unit_test(a_state_that_may_not_follow_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
