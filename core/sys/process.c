/* SPDX-License-Identifier: Apache-2.0
 *
 * process.c - see process.h. Owns nothing. Thread: any.
 */
#include "core/sys/process.h"

#include "core/sys/file.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

struct life {
    uint64_t start;
    bool     is_over;
    int      status; /* of one that is over or ends just now, where we may know; 0 else */
};

enum { ENDS = 0x4 }; /* the kernel's PF_EXITING, in what proc(5) calls flags */

/* All zero: there is none. Returns 0 or an errno. */
static int life_read(pid_t pid, struct life *out)
{
    char          path[64], text[1024], state = 0;
    unsigned      flags = 0;
    unsigned long began = 0;
    *out = (struct life){0};
    if (pid <= 0)
        return 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    errno = EIO;
    if (mt_file_read(path, text, sizeof text) <= 0)
        return errno == ENOENT || errno == ESRCH ? 0 : errno;
    const char *end = strrchr(text, ')'), *last = strrchr(text, ' '); /* the name before the first may hold anything */
    if (!end || !last ||
        sscanf(end + 1, " %c %*d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %lu", &state, &flags, &began) !=
            3)
        return EPROTO;
    *out = (struct life){began, state == 'Z' || state == 'X', 0};
    if (out->is_over || flags & ENDS)
        out->status = (int)strtol(last, NULL, 10);
    return 0;
}

/* *start 0: it has ended. Returns 0 or an errno. */
static int start_read(pid_t pid, uint64_t *start)
{
    struct life life;
    int         err = life_read(pid, &life);
    *start = life.is_over ? 0 : life.start;
    return err;
}

uint64_t mt_process_start(pid_t pid)
{
    uint64_t start;
    return start_read(pid, &start) == 0 ? start : 0;
}

enum mt_process_is mt_process_is(pid_t pid, uint64_t start)
{
    uint64_t now;
    if (start_read(pid, &now) != 0)
        return MT_PROCESS_UNKNOWN;
    return now && now == start ? MT_PROCESS_LIVES : MT_PROCESS_ENDED;
}

int mt_process_status(pid_t pid, uint64_t start)
{
    struct life life;
    return life_read(pid, &life) == 0 && life.start == start ? life.status : 0;
}

bool mt_process_stat(pid_t pid, pid_t thread, struct mt_process_stat *out)
{
    char          path[64], text[1024];
    unsigned long of[4] = {0}; /* ticks: user, system, and those of ended children */
    long          ticks = sysconf(_SC_CLK_TCK);
    if (thread)
        snprintf(path, sizeof path, "/proc/%d/task/%d/stat", (int)pid, (int)thread);
    else
        snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (pid <= 0 || mt_file_read(path, text, sizeof text) <= 0)
        return false;
    const char *name = strchr(text, '('), *end = strrchr(text, ')'); /* the name between them may hold anything */
    if (!name || !end ||
        sscanf(end, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %lu %lu", &out->state, &of[0], &of[1], &of[2], &of[3]) !=
            5)
        return false;
    snprintf(out->name, sizeof out->name, "%.*s", (int)(end - name - 1), name + 1);
    out->cpu_ms = (int64_t)(of[0] + of[1]) * 1000 / ticks;
    out->children_ms = (int64_t)(of[2] + of[3]) * 1000 / ticks;
    return true;
}

DIR *mt_process_all(void)
{
    return opendir("/proc");
}

DIR *mt_process_threads(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    return opendir(path);
}

pid_t mt_process_next(DIR *all)
{
    for (struct dirent *entry; all && (entry = readdir(all));) {
        pid_t number = (pid_t)strtol(entry->d_name, NULL, 10);
        if (number > 0)
            return number;
    }
    if (all)
        closedir(all);
    return 0;
}

void mt_process_line(pid_t pid, pid_t *out, size_t count)
{
    memset(out, 0, count * sizeof *out);
    for (size_t i = 0; i + 1 < count && pid > 1; i += 2) {
        char path[64], text[1024];
        int  parent = 0, group = 0;
        snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
        out[i] = out[i + 1] = pid;
        const char *end = mt_file_read(path, text, sizeof text) > 0 ? strrchr(text, ')') : NULL;
        if (!end || sscanf(end + 1, " %*c %d %d", &parent, &group) != 2)
            return;
        out[i + 1] = group ? group : pid;
        pid = parent;
    }
}

/* The descriptor is of whoever had the number then. That is the one that is meant where it has the number still, for a number
 * that was given on never comes back to the same process. */
int mt_process_signal(pid_t pid, uint64_t start, int number)
{
    uint64_t now;
    int      fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0)
        return errno == EINVAL ? ESRCH : errno;
    int err = start_read(pid, &now);
    if (!err && (!now || now != start))
        err = ESRCH;
    if (!err && syscall(SYS_pidfd_send_signal, fd, number, NULL, 0) < 0)
        err = errno;
    close(fd);
    return err;
}

const char *mt_process_beside(const char *name, char *out, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", out, size - 1);
    if (n <= 0)
        return snprintf(out, size, "%s", name) < (int)size ? out : name;
    out[n] = '\0';
    char  *slash = strrchr(out, '/');
    size_t at = slash ? (size_t)(slash + 1 - out) : 0;
    return (size_t)snprintf(out + at, size - at, "%s", name) < size - at ? out : name;
}

/* SIGCONT would take back the stop by which LeakSanitizer looks at a process that ends: both would wait for ever. */
static void sleep_on(void)
{
    prctl(PR_SET_PDEATHSIG, 0);
}

void mt_process_wake_at_parents_end(void)
{
    prctl(PR_SET_PDEATHSIG, SIGCONT);
    atexit(sleep_on);
}
