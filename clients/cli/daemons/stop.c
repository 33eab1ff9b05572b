/* SPDX-License-Identifier: Apache-2.0
 *
 * stop.c - `manta stop`: asks the head to end the cluster, waits, then insists; counts what is left.
 *
 * Owns: nothing. Thread: main.
 * Always: a signal goes to a descriptor of the very process that was started, never to a mere number.
 */
#include "clients/cli/daemons/daemons.h"

#include "core/base/limits/scaler.h"
#include "core/sys/cgroup.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PROCESSES_MAX = 4 * CLI_DAEMONS, ROUNDS_MAX = 3, ASK_MS = 3000 };

struct target {
    const char        *name, *what; /* of the daemon; which process of it */
    struct cli_process process;
    int                fd; /* -1: it has gone */
};

struct targets {
    struct target list[PROCESSES_MAX];
    size_t        count;
};

static bool is_keeper(const struct target *t)
{
    return t->what[0] != '\0';
}

static void tell(const struct target *t, int number)
{
    if (t->fd >= 0)
        syscall(SYS_pidfd_send_signal, t->fd, number, NULL, 0);
}

/* True: it runs, and was not among them. */
static bool add(struct targets *t, const char *name, const char *what, const struct cli_process *process)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->list[i].process.pid == process->pid && t->list[i].process.start == process->start)
            return false;
    int fd = t->count < PROCESSES_MAX ? cli_process_open(process) : -1;
    if (fd < 0)
        return false;
    struct target *added = &t->list[t->count++];
    *added = (struct target){name, what, *process, fd};
    if (is_keeper(added))
        tell(added, CLI_KEEPER_LAST); /* what starts now would miss the head's word, and then be waited for */
    return true;
}

/* Keepers first: one that is told so starts nothing any more. */
static size_t add_all(struct targets *t, const struct cli_folder *f)
{
    size_t count = 0;
    for (int i = 0; i < CLI_DAEMONS; i++)
        count += add(t, cli_daemon_names[i], " keeper", &f->daemons[i].keeper);
    for (int i = 0; i < CLI_DAEMONS; i++)
        count += add(t, cli_daemon_names[i], "", &f->daemons[i].daemon);
    return count;
}

/* Waits until all have ended, at most so long; how many have not. */
static size_t wait_gone(struct targets *t, int limit_ms)
{
    uint64_t end = ctl_now_ms() + (uint64_t)limit_ms;
    size_t   left = 0;
    for (size_t i = 0; i < t->count; i++) {
        struct target *at = &t->list[i];
        if (at->fd >= 0 && cli_process_wait(at->fd, end)) {
            close(at->fd);
            at->fd = -1;
        }
        left += at->fd >= 0;
    }
    return left;
}

/* Not the keepers: each would tell its daemon too, and a raylet that hears it twice leaves at once. */
static void tell_daemons(const struct targets *t)
{
    for (size_t i = 0; i < t->count; i++)
        if (!is_keeper(&t->list[i]))
            tell(&t->list[i], SIGTERM);
}

static void tell_all(const struct targets *t, int number)
{
    for (size_t i = 0; i < t->count; i++)
        tell(&t->list[i], number);
}

/* The cluster ends with its last head. Where others stand by, or lead, only what runs here ends, and one of them leads. */
static bool is_last_head(manta_client *client, const struct cli_folder *f)
{
    manta_cluster_info  info;
    manta_cluster_node *nodes;
    size_t              count;
    char                path[CLI_PATH_SIZE], own[CTL_ADDRESS_SIZE] = "";
    cli_folder_file(f, "head.addr", path);
    FILE *file = fopen(path, "re");
    if (file && fgets(own, sizeof own, file))
        own[strcspn(own, "\n")] = '\0';
    if (file)
        fclose(file);
    if (manta_nodes_list(client, &nodes, &count, &info, NULL) != MANTA_OK)
        return false;
    free(nodes);
    return strcmp(info.address, own) == 0 && !info.standbys[0];
}

/* A machine that a provider has started would go on, and cost money, where only its raylet ended. */
static void end_started_nodes(manta_client *client)
{
    manta_error e;
    uint32_t    left = 0;
    if (manta_scale_look(client, "status", NULL, NULL, &left, &e) != MANTA_OK || left == 0)
        return;
    printf("Ending the %u node%s that the cluster has started; what runs there has %d s.\n", left, left == 1 ? "" : "s",
           MT_SCL_DOWN_MS / 1000);
    fflush(stdout);
    if (!cli_nodes_end(client, MT_CLI_NODES_MS, &e))
        fprintf(stderr, "manta: %s; `manta start --head` in the same folder goes on to end them\n", e.message);
}

static bool ask_head(const struct cli_folder *f)
{
    manta_client_opts opts = {.address = f->path, .timeout_ms = ASK_MS};
    manta_error       e;
    manta_client     *client = cli_process_is_alive(&f->daemons[CLI_DAEMON_HEAD].daemon) ? manta_client_open(&opts, &e) : NULL;
    bool              is_last = client && is_last_head(client, f);
    if (is_last)
        end_started_nodes(client);
    bool is_asked = is_last && manta_cluster_stop(client, "manta stop", &e) == MANTA_OK;
    manta_client_close(client);
    return is_asked;
}

/* Ends the daemons of this folder, and their keepers. */
static void end_daemons(struct cli_folder *f, struct targets *t)
{
    size_t count = add_all(t, f);
    bool   is_asked = count && ask_head(f);
    if (is_asked && wait_gone(t, MT_CLI_STOP_MS) == 0)
        return;
    /* A keeper that was killed may just have started its daemon again: who that is stands in its record. */
    for (int round = 0; round < ROUNDS_MAX; round++) {
        tell_daemons(t); /* a node of another machine's head; or a head that does not answer */
        if (wait_gone(t, MT_CLI_TERM_MS))
            tell_all(t, SIGTERM); /* a node that leaves politely has had its time: the second one ends it at once */
        if (wait_gone(t, MT_CLI_TERM_MS)) {
            tell_all(t, SIGKILL);
            (void)wait_gone(t, MT_CLI_KILL_MS);
        }
        cli_folder_refresh(f);
        if (add_all(t, f) == 0)
            return;
    }
}

/* How many daemons there were. */
static size_t daemons_of(const struct targets *t)
{
    size_t count = 0;
    for (size_t i = 0; i < t->count; i++) {
        bool is_first = true;
        for (size_t k = 0; k < i; k++)
            is_first = is_first && t->list[k].name != t->list[i].name;
        count += is_first;
    }
    return count;
}

static size_t report(const struct targets *t)
{
    size_t left = 0;
    for (size_t i = 0; i < t->count; i++) {
        if (t->list[i].fd < 0)
            continue;
        left++;
        fprintf(stderr, "manta: left over: process %d (%s%s)\n", t->list[i].process.pid, t->list[i].name, t->list[i].what);
        close(t->list[i].fd);
    }
    return left;
}

int cli_stop(const struct cli_args *args)
{
    static struct targets daemons;
    char                  logs[CLI_PATH_SIZE];
    struct cli_folder     folder;
    if (!cli_folder_open(args, false, &folder))
        return CLI_FAILED;
    bool is_known = folder.daemons[CLI_DAEMON_HEAD].keeper.pid > 0 || folder.daemons[CLI_DAEMON_RAYLET].keeper.pid > 0;
    if (args->values[CLI_OPT_PURGE])
        cli_logs_purge(&folder);
    if (!folder.exists || !is_known) {
        printf("Nothing to stop: `manta start` has started nothing in %s.\n", folder.path);
        return CLI_OK;
    }
    end_daemons(&folder, &daemons);
    size_t count = daemons_of(&daemons);
    size_t of_jobs = mt_cgroup_end_saved(folder.path, MT_CLI_KILL_MS); /* which the raylet and its reaper could not end */
    size_t processes = report(&daemons) + of_jobs;
    if (of_jobs)
        fprintf(stderr, "manta: left over: %zu processes of jobs (%s/group.* says of which group)\n", of_jobs, folder.path);
    bool has_logs = !processes && !args->values[CLI_OPT_PURGE] && cli_logs_keep(&folder, logs);
    int  files = processes ? 0 : cli_folder_clean(&folder); /* while something runs there, its files say how it is found */
    if (processes || files)
        return cli_fail("%zu processes and %d files are left in %s", processes, files, folder.path);
    printf(count ? "Stopped: %zu daemon%s of %s. Nothing is left.\n"
                 : "What ran here had ended already (%zu daemon%s alive in %s). Nothing is left.\n",
           count, count == 1 ? "" : "s", folder.path);
    if (has_logs)
        printf("The last logs are kept in %s (manta stop --purge removes them).\n", logs);
    return CLI_OK;
}
