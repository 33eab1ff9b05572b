/* SPDX-License-Identifier: Apache-2.0
 *
 * stop.c - `manta stop`: asks the head to end the cluster, waits, then insists; counts what is left.
 *
 * Owns: nothing. Thread: main.
 * Always: a signal goes to a descriptor of the very process that was started, never to a mere number.
 */
#include "clients/cli/cli.h"

#include "core/base/group.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PROCESSES_MAX = CLI_DAEMONS, ASK_MS = 3000 };

struct target {
    const char        *name;
    struct cli_process process;
    int                fd; /* -1: it has gone */
};

struct targets {
    struct target list[PROCESSES_MAX];
    size_t        count;
};

static void add(struct targets *t, const char *name, const struct cli_process *process)
{
    int fd = t->count < PROCESSES_MAX ? cli_process_open(process) : -1;
    if (fd >= 0)
        t->list[t->count++] = (struct target){name, *process, fd};
}

/* Waits until all have ended, at most so long; how many have not. */
static size_t wait_gone(struct targets *t, int limit_ms)
{
    uint64_t end = ctl_now_ms() + (uint64_t)limit_ms;
    size_t   left = 0;
    for (size_t i = 0; i < t->count; i++) {
        struct target *at = &t->list[i];
        uint64_t       now = ctl_now_ms();
        struct pollfd  p = {at->fd, POLLIN, 0};
        if (at->fd >= 0 && poll(&p, 1, now < end ? (int)(end - now) : 0) > 0) {
            close(at->fd);
            at->fd = -1;
        }
        left += at->fd >= 0;
    }
    return left;
}

static void send_all(const struct targets *t, int number)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->list[i].fd >= 0)
            syscall(SYS_pidfd_send_signal, t->list[i].fd, number, NULL, 0);
}

static bool ask_head(const struct cli_folder *f)
{
    manta_client_opts opts = {.address = f->path, .timeout_ms = ASK_MS};
    manta_error       e;
    manta_client     *client = cli_process_is_alive(&f->daemons[CLI_DAEMON_HEAD]) ? manta_client_open(&opts, &e) : NULL;
    bool              is_asked = client && manta_cluster_stop(client, "manta stop", &e) == MANTA_OK;
    manta_client_close(client);
    return is_asked;
}

/* Ends the daemons of this folder. Returns how many are left. */
static size_t end_daemons(const struct cli_folder *f, struct targets *t)
{
    for (int i = 0; i < CLI_DAEMONS; i++)
        add(t, cli_daemon_names[i], &f->daemons[i]);
    if (t->count && ask_head(f) && wait_gone(t, MT_CLI_STOP_MS) == 0)
        return 0;
    send_all(t, SIGTERM); /* a node of another machine's head; or a head that does not answer */
    if (wait_gone(t, MT_CLI_TERM_MS) == 0)
        return 0;
    send_all(t, SIGKILL);
    return wait_gone(t, MT_CLI_KILL_MS);
}

static size_t report(const struct targets *t)
{
    size_t left = 0;
    for (size_t i = 0; i < t->count; i++) {
        if (t->list[i].fd < 0)
            continue;
        left++;
        fprintf(stderr, "manta: left over: process %d (%s)\n", t->list[i].process.pid, t->list[i].name);
        close(t->list[i].fd);
    }
    return left;
}

int cli_stop(const struct cli_args *args)
{
    static struct targets daemons;
    char                  group[CLI_PATH_SIZE], logs[CLI_PATH_SIZE];
    struct cli_folder     folder;
    if (!cli_folder_open(args, false, &folder))
        return CLI_FAILED;
    bool is_known = folder.daemons[CLI_DAEMON_HEAD].pid > 0 || folder.daemons[CLI_DAEMON_RAYLET].pid > 0;
    if (args->values[CLI_OPT_PURGE])
        cli_logs_purge(&folder);
    if (!folder.exists || !is_known) {
        printf("Nothing to stop: `manta start` has started nothing in %s.\n", folder.path);
        return CLI_OK;
    }
    (void)end_daemons(&folder, &daemons);
    cli_folder_file(&folder, "group", group);
    size_t of_jobs = mt_group_end_saved(group, MT_CLI_KILL_MS); /* which the raylet and its reaper could not end */
    size_t processes = report(&daemons) + of_jobs;
    if (of_jobs)
        fprintf(stderr, "manta: left over: %zu processes of jobs (%s says of which group)\n", of_jobs, group);
    bool has_logs = !processes && !args->values[CLI_OPT_PURGE] && cli_logs_keep(&folder, logs);
    int  files = processes ? 0 : cli_folder_clean(&folder); /* while something runs there, its files say how it is found */
    if (processes || files)
        return cli_fail("%zu processes and %d files are left in %s", processes, files, folder.path);
    printf(daemons.count ? "Stopped: %zu daemon%s of %s. Nothing is left.\n"
                         : "What ran here had ended already (%zu daemon%s alive in %s). Nothing is left.\n",
           daemons.count, daemons.count == 1 ? "" : "s", folder.path);
    if (has_logs)
        printf("The last logs are kept in %s (manta stop --purge removes them).\n", logs);
    return CLI_OK;
}
