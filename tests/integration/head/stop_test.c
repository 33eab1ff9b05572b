/* SPDX-License-Identifier: Apache-2.0
 *
 * stop_test.c - a manta-head that is told to end while its store is at work: what finishes late finds nothing
 * closed under it.
 */
#include <sys/resource.h>

#include "manta_client.h"
#include "tests/integration/head/rig.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SUBMITTERS = 4 };

static void a_head_that_ends_in_its_first_commit_announces_nothing(void **unused)
{
    (void)unused;
    struct daemon d;
    int           status = -1;
    char          path[160];
    daemon_init(&d);
    d.preload = END_IN_COMMIT;
    setenv("COMMIT", "1", 1);
    assert_false(daemon_start(&d, NULL, &status)); /* its listener is closed: to say "serves" would be a lie */
    assert_int_equal(status, 0);
    snprintf(path, sizeof path, "%s/head.addr", d.run);
    assert_int_not_equal(access(path, F_OK), 0);
    d.preload = NULL;
    assert_true(daemon_start(&d, NULL, NULL));
    assert_int_equal(daemon_end(&d, SIGTERM), 0);
    daemon_fini(&d);
}

struct submitter {
    const struct daemon *d;
    pthread_barrier_t   *begin; /* all are connected: the first commit under way holds back what a newcomer asks */
    pthread_t            thread;
    char                 id[16];
    manta_error          e;
    int                  code;
};

static void *submit(void *arg)
{
    struct submitter *s = arg;
    manta_client_opts opts = {.address = s->d->run, .timeout_ms = RIG_PATIENCE_MS};
    manta_job         job = {.id = s->id, .argv = (const char *const[]){"x", NULL}};
    manta_client     *c = manta_client_open(&opts, &s->e);
    pthread_barrier_wait(s->begin);
    s->code = c ? manta_job_submit(c, &job, &s->e) : s->e.code;
    manta_client_close(c);
    return NULL;
}

static void a_head_that_ends_in_a_commit_loses_nothing_and_says_nothing_wrong(void **unused)
{
    (void)unused;
    struct daemon     d;
    struct submitter  all[SUBMITTERS];
    manta_error       e;
    manta_job_info   *jobs;
    size_t            count;
    pthread_barrier_t begin;
    daemon_init(&d);
    assert_int_equal(pthread_barrier_init(&begin, NULL, SUBMITTERS), 0);
    d.preload = END_IN_COMMIT;
    setenv("COMMIT", "2", 1);
    assert_true(daemon_start(&d, NULL, NULL));
    for (int i = 0; i < SUBMITTERS; i++) {
        all[i].d = &d;
        all[i].begin = &begin;
        snprintf(all[i].id, sizeof all[i].id, "job-%d", i);
        assert_int_equal(pthread_create(&all[i].thread, NULL, submit, &all[i]), 0);
    }
    assert_int_equal(daemon_wait(&d), 0); /* an assertion or a sanitizer would say otherwise */
    d.preload = NULL;
    assert_true(daemon_start(&d, NULL, NULL));
    for (int i = 0; i < SUBMITTERS; i++) {
        assert_int_equal(pthread_join(all[i].thread, NULL), 0);
        if (all[i].code)
            fail_msg("%s: %s", all[i].id, all[i].e.message);
    }
    manta_client *c = manta_client_open(&(manta_client_opts){.address = d.run}, &e);
    assert_non_null(c);
    assert_int_equal(manta_job_list(c, &jobs, &count, &e), MANTA_OK);
    assert_int_equal(count, SUBMITTERS);
    free(jobs);
    manta_client_close(c);
    pthread_barrier_destroy(&begin);
    assert_int_equal(daemon_end(&d, SIGTERM), 0);
    daemon_fini(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_that_ends_in_its_first_commit_announces_nothing),
        cmocka_unit_test(a_head_that_ends_in_a_commit_loses_nothing_and_says_nothing_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
