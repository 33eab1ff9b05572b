/* SPDX-License-Identifier: Apache-2.0
 *
 * exec.c - `manta exec NODE -- COMMAND`: a job that names its node, holds nothing, and is followed and forgotten.
 *
 * Owns: nothing that outlives the verb. Threads: main takes the signals and passes them on; another one prints.
 */
#include "clients/cli/daemons/daemons.h"
#include "clients/cli/jobs/jobs.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

struct exec {
    manta_client  *client, *printer; /* one for each thread */
    const char    *id;
    pthread_t      main;
    manta_status   code; /* of following it to its end, and why not */
    manta_error    error;
    manta_job_info job; /* how it ended */
};

/* Prints until the end, and says that by SIGCHLD. Who can't print any more (nobody reads it) ends the command. */
static void *follow(void *user)
{
    struct exec *x = user;
    x->code = manta_job_follow(x->printer, x->id, cli_job_print, NULL, &x->error);
    if (x->code == MANTA_ECANCELLED)
        x->code = manta_job_stop(x->printer, x->id, &x->error);
    if (x->code == MANTA_OK)
        x->code = manta_job_wait(x->printer, x->id, MANTA_FOREVER, &x->job, &x->error);
    pthread_kill(x->main, SIGCHLD);
    return NULL;
}

/* One that has not begun by now is ended. */
static void check_begun(const struct exec *x)
{
    manta_error    e;
    manta_job_info job;
    if (manta_job_get(x->client, x->id, &job, &e) != MANTA_OK || job.started_ms || job.ended_ms)
        return;
    cli_fail("it has not begun in %d s: %s", MT_CLI_START_MS / 1000, job.reason);
    (void)manta_job_stop(x->client, x->id, &e);
}

/* One that does not run yet takes no signal: it is ended. */
static void pass_one(const struct exec *x, int signal_number)
{
    manta_error  e;
    manta_status code = manta_job_signal(x->client, x->id, signal_number, &e);
    if (code == MANTA_EINVAL)
        code = manta_job_stop(x->client, x->id, &e);
    if (code != MANTA_OK)
        cli_fail("signal %d was not passed on: %s", signal_number, e.message);
}

/* Until SIGCHLD. */
static void pass_signals(const struct exec *x, const sigset_t *signals)
{
    const struct timespec start = {MT_CLI_START_MS / 1000, 0};
    bool                  is_begun = false;
    for (;;) {
        int got = is_begun ? sigwaitinfo(signals, NULL) : sigtimedwait(signals, NULL, &start);
        if (got == SIGCHLD)
            return;
        if (got < 0 && errno == EAGAIN) {
            check_begun(x);
            is_begun = true;
        } else if (got > 0) {
            pass_one(x, got);
        }
    }
}

static int result(const struct exec *x, const char *node)
{
    manta_error e;
    if (x->code != MANTA_OK)
        return cli_fail("%s (it may go on: manta job status %s)", x->error.message, x->id);
    (void)manta_job_delete(x->client, x->id, &e); /* else it is an ended job that somebody may look at */
    if (strcmp(x->job.state, "SUCCEEDED") == 0)
        return CLI_OK;
    if (strncmp(x->job.reason, "exited with status", 18) != 0)
        cli_fail("node %s: %s", node, x->job.reason);
    return x->job.exit_code & 0xff ? x->job.exit_code & 0xff : CLI_FAILED;
}

static void signals_of(sigset_t *out)
{
    sigemptyset(out);
    sigaddset(out, SIGCHLD);
    for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++)
        sigaddset(out, passed_on[i]);
}

static int followed(struct exec *x, const char *node)
{
    sigset_t  signals;
    pthread_t printer;
    signals_of(&signals);
    if (pthread_create(&printer, NULL, follow, x) != 0) {
        (void)manta_job_stop(x->client, x->id, &x->error);
        return cli_fail("no thread can be made");
    }
    pass_signals(x, &signals);
    pthread_join(printer, NULL);
    return result(x, node);
}

static int run(const struct cli_args *args, manta_client *client)
{
    struct exec x = {.client = client, .id = manta_job_new_id(), .main = pthread_self()};
    int64_t     time_s = 0;
    char      **command = args->rest + 1;
    command += *command && strcmp(*command, "--") == 0;
    if (!*command)
        return cli_usage(args, "the command is missing");
    if (!cli_time_limit(args, &time_s))
        return CLI_USAGE;
    manta_job job = {.id = x.id,
                     .name = *command,
                     .argv = (const char *const *)command,
                     .env = args->env,
                     .time_s = time_s,
                     .node = cli_node_of(client, args->rest[0])};
    if (!job.node)
        return CLI_FAILED;
    if (!(x.printer = cli_connect(args)))
        return CLI_FAILED;
    int status = manta_job_submit(client, &job, &x.error) == MANTA_OK ? followed(&x, args->rest[0])
                                                                      : cli_fail("%s", x.error.message);
    manta_client_close(x.printer);
    return status;
}

int cli_exec(const struct cli_args *args)
{
    sigset_t signals;
    signals_of(&signals);
    pthread_sigmask(SIG_BLOCK, &signals, NULL); /* before the client has threads, which would take them */
    signal(SIGPIPE, SIG_IGN);
    return cli_with_client(args, run);
}
