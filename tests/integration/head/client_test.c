/* SPDX-License-Identifier: Apache-2.0
 *
 * client_test.c - what a program is told that asks a real manta-head for what can't be, or does not say what it wants.
 */
#include "manta_client.h"
#include "tests/integration/head/rig.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int not_called(void *user, const manta_log *log)
{
    (void)user;
    fail_msg("a log of %zu bytes", log->len);
    return 1;
}

/* The call is refused, and names itself and what it was not given. */
#define REFUSES_NULL(name, what, ...) \
    do { \
        assert_int_equal(name(__VA_ARGS__), MANTA_EINVAL); \
        assert_string_equal(e.message, #name ": " what " may not be NULL"); \
    } while (0)

static void nothing_given(manta_client *c)
{
    manta_error         e;
    manta_job_info     *jobs;
    manta_cluster_node *nodes;
    manta_user         *users;
    manta_token        *tokens;
    manta_ticket       *tickets;
    const manta_look    look = {.kind = "tasks"};
    size_t              count;
    REFUSES_NULL(manta_job_get, "id", c, NULL, &(manta_job_info){0}, &e);
    REFUSES_NULL(manta_job_wait, "id", c, NULL, 0, NULL, &e);
    REFUSES_NULL(manta_job_stop, "id", c, NULL, &e);
    REFUSES_NULL(manta_job_signal, "id", c, NULL, SIGUSR1, &e);
    REFUSES_NULL(manta_job_hold, "id", c, NULL, &e);
    REFUSES_NULL(manta_job_release, "id", c, NULL, &e);
    REFUSES_NULL(manta_job_delete, "id", c, NULL, &e);
    REFUSES_NULL(manta_job_array_get, "id", c, NULL, NULL, &e);
    REFUSES_NULL(manta_job_array_wait, "id", c, NULL, 0, NULL, &e);
    REFUSES_NULL(manta_job_follow_from, "id and line", c, "x", 0, NULL, NULL, &e);
    REFUSES_NULL(manta_job_follow_from, "id and line", c, NULL, 0, not_called, NULL, &e);
    REFUSES_NULL(manta_job_list, "out_jobs and out_count", c, NULL, &count, &e);
    REFUSES_NULL(manta_job_list, "out_jobs and out_count", c, &jobs, NULL, &e);
    REFUSES_NULL(manta_job_queue, "out_jobs and out_count", c, 0, 1, NULL, &count, NULL, &e);
    REFUSES_NULL(manta_nodes_list, "out_nodes and out_count", c, &nodes, NULL, NULL, &e);
    REFUSES_NULL(manta_users_list, "out_users and out_count", c, &users, NULL, &e);
    REFUSES_NULL(manta_tokens_list, "out_tokens and out_count", c, &tokens, NULL, &e);
    REFUSES_NULL(manta_tickets_list, "out_tickets and out_count", c, &tickets, NULL, &e);
    REFUSES_NULL(manta_state_list, "out_rows", c, &look, NULL, &e);
    REFUSES_NULL(manta_state_each, "each and out_end", c, &look, NULL, NULL, NULL, &e);
    assert_int_equal(manta_gang_list(c, &jobs, NULL, &e), MANTA_EINVAL);
    assert_int_equal(manta_gang_follow(c, "g", NULL, NULL, &e), MANTA_EINVAL);
}

static void clients_are_told_what_is_wrong(void **unused)
{
    (void)unused;
    struct daemon d;
    manta_error   e;
    char          path[128];
    daemon_init(&d);
    assert_true(daemon_start(&d, NULL, NULL));
    snprintf(path, sizeof path, "%s/wrong", d.folder);
    rig_file_write(path, "0000000000000000000000000000000000000000000000000000000000000000\n", 0600);
    manta_client_opts opts = {.address = d.run, .token_file = path};
    assert_null(manta_client_open(&opts, &e));
    assert_int_equal(e.code, MANTA_EAUTH);
    assert_non_null(strstr(e.message, path));
    assert_int_equal(chmod(path, 0644), 0);
    assert_null(manta_client_open(&opts, &e));
    assert_int_equal(e.code, MANTA_EAUTH);
    opts = (manta_client_opts){.address = d.folder};
    assert_null(manta_client_open(&opts, &e));
    assert_int_equal(e.code, MANTA_ECONN);
    assert_non_null(strstr(e.message, "manta start --head"));
    manta_client *c = daemon_client(&d);
    assert_int_equal(manta_job_get(c, "nobody", &(manta_job_info){0}, &e), MANTA_ENOENT);
    assert_int_equal(manta_job_follow(c, "nobody", not_called, NULL, &e), MANTA_ENOENT);
    nothing_given(c);
    manta_job job = {.id = "../up", .argv = (const char *const[]){"x", NULL}};
    assert_int_equal(manta_job_submit(c, &job, &e), MANTA_EINVAL);
    job.id = "fine";
    job.files = (const char *const[]){"/no/such/file", NULL};
    assert_int_equal(manta_job_submit(c, &job, &e), MANTA_ENOENT);
    assert_non_null(strstr(e.message, "/no/such/file"));
    assert_int_equal(e.outcome, MANTA_NOT_DONE);
    assert_int_equal(daemon_end(&d, SIGKILL), SIGKILL);
    manta_client_close(c);
    opts = (manta_client_opts){.address = d.run, .timeout_ms = 300};
    assert_null(manta_client_open(&opts, &e)); /* its head.addr is still there, and nobody behind it */
    assert_int_equal(e.code, MANTA_ECONN);
    daemon_fini(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clients_are_told_what_is_wrong),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
