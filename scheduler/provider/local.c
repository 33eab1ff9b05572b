/* SPDX-License-Identifier: Apache-2.0
 *
 * local.c - nodes that are raylets on this machine: for tests, to try things out, and for a large machine that others use too.
 *
 * What runs is read from /proc: a raylet whose command line has our labels is ours, whoever started it. So nothing has to be
 * remembered, and no crash between starting a process and noting it leaves one that nobody knows.
 */
#include "scheduler/provider/provider.h"

#include "core/sys/child.h"
#include "core/sys/file.h"
#include "core/sys/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { COMMAND_SIZE = 16384, ENDING_MAX = 1024 };

/* ---- what runs ---- */

/* Of a raylet of ours: its id and handle. */
static bool is_ours(const struct cluster *cluster, pid_t pid, char *out_id, char *out_handle)
{
    char path[64], command[COMMAND_SIZE];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    ssize_t size = mt_file_read(path, command, sizeof command);
    if (size <= 0)
        return false;
    const char *program = strrchr(command, '/') ? strrchr(command, '/') + 1 : command;
    if (strcmp(program, "manta-raylet") != 0 && strcmp(program, "manta") != 0) /* that one becomes it */
        return false;
    for (const char *at = command; at < command + size; at += strlen(at) + 1)
        if (strcmp(at, "--labels") == 0 && at + 9 < command + size && labels_find(at + 9, "manta.instance", out_id) &&
            cluster_has(cluster, out_id))
            return labels_find(at + 9, "manta.handle", out_handle);
    return false;
}

static void each(const struct cluster *cluster, void (*fn)(void *user, pid_t pid, const char *id, const char *handle), void *user)
{
    DIR *all = mt_process_all();
    char id[TEXT_SIZE], handle[TEXT_SIZE];
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    for (pid_t pid; (pid = mt_process_next(all));)
        if (is_ours(cluster, pid, id, handle))
            fn(user, pid, id, handle);
}

static void list_one(void *user, pid_t pid, const char *id, const char *handle)
{
    (void)pid;
    said_list(user, id, handle, false, "");
}

static bool list(const struct cluster *cluster, struct said *said)
{
    if (!cluster->id[0])
        return snprintf(said->text, sizeof said->text, "not configured"), false;
    each(cluster, list_one, said);
    return true;
}

/* ---- launch ---- */

struct found {
    const char *id, *handle; /* handle "": any */
    char        has[TEXT_SIZE];
    int         signal;
    bool        is_there;
};

static void find_one(void *user, pid_t pid, const char *id, const char *handle)
{
    struct found *f = user;
    if (strcmp(id, f->id) != 0 || (f->handle[0] && strcmp(f->handle, handle) != 0))
        return;
    f->is_there = true;
    snprintf(f->has, sizeof f->has, "%s", handle);
    if (f->signal)
        kill(pid, f->signal);
}

static bool make_folders(const struct cluster *cluster, const struct request *r, char *out, size_t size, struct said *said)
{
    char        copy[FILE_SIZE];
    const char *folder = pairs_find(&cluster->settings, "folder");
    snprintf(copy, sizeof copy, "%s", cluster->head_file);
    char *slash = strrchr(copy, '/');
    if (slash)
        *slash = '\0';
    int n = folder ? snprintf(out, size, "%s", folder) : snprintf(out, size, "%s/nodes", slash ? copy : ".");
    if (n > 0 && (size_t)n < size - 64 && mkdir(out, 0700) != 0 && errno != EEXIST) {
        snprintf(said->text, sizeof said->text, "%.150s: %s", out, strerror(errno));
        return false;
    }
    const char *dash = strrchr(r->id, '-');
    snprintf(out + n, size - (size_t)n, "/%s", dash ? dash + 1 : r->id);
    return true;
}

/* A descriptor from which it can be read; -1: there is none, and errno says why. */
static int readable(const char *secret)
{
    size_t size = strlen(secret);
    int    fd = memfd_create("manta-join", MFD_CLOEXEC);
    if (fd >= 0 && write(fd, secret, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool start(const struct options *options, int input, const char *log_file, struct said *said)
{
    pid_t pid;
    int   log = open(log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (log < 0)
        return snprintf(said->text, sizeof said->text, "%.150s: %s", log_file, strerror(errno)), false;
    struct mt_child_opts o = {.program = options->argv[0],
                              .argv = (char *const *)(uintptr_t)options->argv,
                              .env = environ,
                              .dir = "/",
                              .session = MT_CHILD_SESSION,
                              .resets_signals = true,
                              .fds = {{input, 0}, {log, 1}, {log, 2}},
                              .fd_count = 3};
    mt_status            st = mt_child_start(&o, &pid);
    close(log);
    if (st.code)
        snprintf(said->text, sizeof said->text, "%.150s: %s", options->argv[0], strerror(st.sys));
    return st.code == 0;
}

static bool launch(const struct cluster *cluster, const struct request *r, struct said *said)
{
    static char    path[FILE_SIZE], dir[FILE_SIZE], log[FILE_SIZE + 16];
    struct options o = {.count = 0};
    struct found   f = {.id = r->id, .handle = ""};
    uint64_t       random = 0;
    int            input = MT_CHILD_NULL;
    each(cluster, find_one, &f);
    if (f.is_there) { /* asked twice: there is one */
        snprintf(said->handle, sizeof said->handle, "%s", f.has);
        return true;
    }
    if (!make_folders(cluster, r, dir, sizeof dir, said))
        return false;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return snprintf(said->text, sizeof said->text, "no random numbers"), false;
    snprintf(said->handle, sizeof said->handle, "%016llx", (unsigned long long)random);
    snprintf(log, sizeof log, "%s.log", dir);
    o.argv[o.count++] = mt_process_beside(r->join[0] ? "manta" : "manta-raylet", path, sizeof path);
    if (r->join[0]) {
        o.argv[o.count++] = "start";
        o.argv[o.count++] = "--foreground";
        option_add(&o, "--join", "-");
        input = readable(r->join);
        if (input < 0)
            return snprintf(said->text, sizeof said->text, "a ticket can't be handed over: %s", strerror(errno)), false;
    } else {
        option_add(&o, "--head-file", cluster->head_file);
    }
    option_add(&o, "--dir", dir);
    options_of(r, said->handle, &o);
    bool is_fine = start(&o, input, log, said);
    if (input >= 0)
        close(input);
    return is_fine;
}

/* ---- terminate ---- */

/* The first time SIGINT, by which a raylet ends at once and well; when it is asked again for the same, SIGKILL. */
static bool terminate(const struct cluster *cluster, const struct request *r, struct said *said)
{
    static char  asked[ENDING_MAX][TEXT_SIZE];
    static int   next;
    bool         is_again = false;
    struct found f = {.id = r->id, .handle = r->handle, .signal = SIGINT};
    (void)said;
    for (int i = 0; i < ENDING_MAX; i++)
        is_again = is_again || strcmp(asked[i], r->id) == 0;
    if (is_again)
        f.signal = SIGKILL;
    else
        snprintf(asked[next++ % ENDING_MAX], TEXT_SIZE, "%s", r->id);
    each(cluster, find_one, &f);
    return true;
}

const struct provider provider_local = {.list = list, .launch = launch, .terminate = terminate};
