/* SPDX-License-Identifier: Apache-2.0
 *
 * command.c - nodes that three commands of the user's start and end: the door to whatever has a command line.
 *
 *   list       prints a line "ID HANDLE" for each thing that runs with this cluster's tag
 *   launch     MANTA_ID, MANTA_TYPE, MANTA_LABELS, MANTA_HEAD_FILE in the environment; prints the handle
 *   terminate  MANTA_ID and MANTA_HANDLE
 *
 * Each runs by /bin/sh with MANTA_CLUSTER and, of the type's settings, MANTA_SET_<NAME> in the environment. Status 0: done; else
 * the last line of what it said on standard error is the reason.
 */
#include "scheduler/provider/provider.h"

#include "core/sys/child.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void set_environment(const struct cluster *cluster, const struct request *r)
{
    char name[PAIR_NAME_SIZE + 16];
    setenv("MANTA_CLUSTER", cluster->id, 1);
    setenv("MANTA_HEAD_FILE", cluster->head_file, 1);
    setenv("MANTA_ID", r ? r->id : "", 1);
    setenv("MANTA_TYPE", r ? r->type : "", 1);
    setenv("MANTA_LABELS", r ? r->labels : "", 1);
    setenv("MANTA_HANDLE", r ? r->handle : "", 1);
    for (size_t i = 0; r && i < r->settings.count; i++) {
        snprintf(name, sizeof name, "MANTA_SET_%s", r->settings.items[i].name);
        for (char *c = name; *c; c++)
            *c = (char)(isalnum((unsigned char)*c) ? toupper((unsigned char)*c) : '_');
        setenv(name, r->settings.items[i].value, 1);
    }
}

/* Reads both pipes to their ends. */
static void drain(int out, int err, mt_buf *said, mt_buf *wrong)
{
    struct pollfd fds[2] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
    mt_buf       *into[2] = {said, wrong};
    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return;
        for (int i = 0; i < 2; i++) {
            char    bytes[4096];
            ssize_t n = fds[i].fd >= 0 && fds[i].revents ? read(fds[i].fd, bytes, sizeof bytes) : 1;
            if (n <= 0)
                fds[i].fd = -1;
            else if (fds[i].fd >= 0 && fds[i].revents && mt_buf_append(into[i], bytes, (size_t)n).code)
                exit(1);
        }
    }
}

static void last_line(mt_buf *wrong, char *out, size_t size)
{
    size_t end = wrong->size;
    while (end > 0 && wrong->data[end - 1] == '\n')
        end--;
    size_t at = end;
    while (at > 0 && wrong->data[at - 1] != '\n')
        at--;
    snprintf(out, size, "%.*s", (int)(end - at), (const char *)wrong->data + at);
}

/* Runs the command that the settings name; what it printed is in `said_out`, as a text. */
static bool run(const struct cluster *cluster, const struct request *r, const char *which, mt_buf *said_out, struct said *said)
{
    const char *command = pairs_find(&cluster->settings, which);
    int         out[2], err[2], status = 0;
    pid_t       pid;
    mt_buf      wrong = {0};
    if (!command)
        return snprintf(said->text, sizeof said->text, "the cluster file has no provider.%s", which), false;
    set_environment(cluster, r);
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)
        exit(1);
    char                *argv[] = {"/bin/sh", "-c", (char *)(uintptr_t)command, NULL};
    struct mt_child_opts o = {.program = argv[0],
                              .argv = argv,
                              .env = environ,
                              .resets_signals = true,
                              .fds = {{MT_CHILD_NULL, 0}, {out[1], 1}, {err[1], 2}},
                              .fd_count = 3};
    mt_status            st = mt_child_start(&o, &pid);
    close(out[1]);
    close(err[1]);
    if (st.code == 0) {
        drain(out[0], err[0], said_out, &wrong);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
    }
    close(out[0]);
    close(err[0]);
    if (mt_buf_terminate(said_out).code)
        exit(1);
    bool is_fine = st.code == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    last_line(&wrong, said->text, is_fine ? 1 : sizeof said->text);
    if (!is_fine && !said->text[0])
        snprintf(said->text, sizeof said->text, "%s: ended with status %d", which, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    mt_buf_fini(&wrong);
    return is_fine;
}

static bool list(const struct cluster *cluster, struct said *said)
{
    mt_buf out = {0};
    bool   is_fine = run(cluster, NULL, "list", &out, said);
    char  *rest = (char *)out.data;
    for (char *line; is_fine && (line = strsep(&rest, "\n"));) {
        char *handle = strchr(line, ' ');
        if (handle)
            *handle++ = '\0';
        if (line[0])
            said_list(said, line, handle ? handle : "");
    }
    mt_buf_fini(&out);
    return is_fine;
}

static bool launch(const struct cluster *cluster, const struct request *r, struct said *said)
{
    mt_buf out = {0};
    bool   is_fine = run(cluster, r, "launch", &out, said);
    if (is_fine && out.size)
        snprintf(said->handle, sizeof said->handle, "%.*s", (int)strcspn((const char *)out.data, "\r\n"), (const char *)out.data);
    mt_buf_fini(&out);
    return is_fine;
}

static bool terminate(const struct cluster *cluster, const struct request *r, struct said *said)
{
    mt_buf out = {0};
    bool   is_fine = run(cluster, r, "terminate", &out, said);
    mt_buf_fini(&out);
    return is_fine;
}

const struct provider provider_command = {list, launch, terminate};
