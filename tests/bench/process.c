/* SPDX-License-Identifier: Apache-2.0
 *
 * process.c - what /proc says about this process and those below it.
 *
 * Thread: the main one.
 */
#include "tests/bench/bench.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PROCESSES_MAX = 16384 };

struct process {
    int    pid, parent;
    char   state;
    char   name[32];
    double cpu_s;
    bool   is_below;
};

static bool process_read(int pid, struct process *out)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    size_t size = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[size] = 0;
    char         *open = strchr(text, '('), *close = strrchr(text, ')'); /* the name may hold blanks and brackets */
    unsigned long user = 0, system = 0;
    if (!open || !close ||
        sscanf(close + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &out->state, &out->parent, &user, &system) != 4)
        return false;
    out->pid = pid;
    snprintf(out->name, sizeof out->name, "%.*s", (int)(close - open - 1), open + 1);
    out->cpu_s = (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
    out->is_below = false;
    return true;
}

/* All processes of the machine, with those below `root` (and itself) marked. */
static int processes_list(int root, struct process *list)
{
    int  count = 0;
    DIR *dir = opendir("/proc");
    for (struct dirent *entry; dir && count < PROCESSES_MAX && (entry = readdir(dir));) {
        int pid = (int)strtol(entry->d_name, NULL, 10);
        if (pid > 0 && process_read(pid, &list[count]))
            count++;
    }
    if (dir)
        closedir(dir);
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < count; i++) {
            bool below = list[i].pid == root;
            for (int k = 0; !below && k < count; k++)
                below = list[k].is_below && list[k].pid == list[i].parent;
            changed |= below && !list[i].is_below;
            list[i].is_below |= below;
        }
    }
    return count;
}

double bench_cpu_seconds(void)
{
    struct process *list = calloc(PROCESSES_MAX, sizeof *list);
    double          sum = 0;
    int             count = list ? processes_list(getpid(), list) : 0;
    for (int i = 0; i < count; i++) {
        if (list[i].is_below)
            sum += list[i].cpu_s;
    }
    free(list);
    return sum;
}

static double process_pss(int pid)
{
    char          path[64], line[256];
    unsigned long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f) && sscanf(line, "Pss: %lu", &kib) != 1) {
    }
    if (f)
        fclose(f);
    return (double)kib * 1024;
}

double bench_pss(int root, const char *name, int *count)
{
    struct process *list = calloc(PROCESSES_MAX, sizeof *list);
    double          sum = 0;
    int             all = list ? processes_list(root, list) : 0;
    *count = 0;
    for (int i = 0; i < all; i++) {
        if (list[i].is_below && strcmp(list[i].name, name) == 0) {
            sum += process_pss(list[i].pid);
            ++*count;
        }
    }
    free(list);
    return sum;
}

static int process_fds(int pid)
{
    char path[64];
    int  count = -3; /* its two dots, and in our own the one that counts */
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *dir = opendir(path);
    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count > 0 ? count : 0;
}

int bench_fds(const char *name)
{
    struct process *list = name ? calloc(PROCESSES_MAX, sizeof *list) : NULL;
    int             all = list ? processes_list(getpid(), list) : 0, sum = name ? 0 : process_fds(getpid());
    for (int i = 0; i < all; i++)
        sum += list[i].is_below && strcmp(list[i].name, name) == 0 ? process_fds(list[i].pid) : 0;
    free(list);
    return sum;
}

bool bench_cluster_folder(char *out, size_t size)
{
    struct process *list = calloc(PROCESSES_MAX, sizeof *list);
    int             all = list ? processes_list(getpid(), list) : 0;
    bool            found = false;
    for (int i = 0; i < all && !found; i++) {
        char path[64], words[4096];
        if (!list[i].is_below || strcmp(list[i].name, "manta-raylet") != 0)
            continue;
        snprintf(path, sizeof path, "/proc/%d/cmdline", list[i].pid);
        FILE  *f = fopen(path, "re");
        size_t length = f ? fread(words, 1, sizeof words - 1, f) : 0;
        if (f)
            fclose(f);
        words[length] = 0;
        for (char *word = words; word < words + length; word += strlen(word) + 1)
            if (strcmp(word, "--dir") == 0)
                found = snprintf(out, size, "%s", word + strlen(word) + 1) < (int)size;
    }
    free(list);
    return found;
}

char bench_process_state(int pid)
{
    struct process process;
    return process_read(pid, &process) ? process.state : 0;
}

bool bench_process_is_in_futex(int pid)
{
    char path[64], number[16] = "";
    snprintf(path, sizeof path, "/proc/%d/syscall", pid);
    int     fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, number, sizeof number - 1) : 0; /* "running", or the system call's number */
    if (fd >= 0)
        close(fd);
    return size > 0 && number[0] >= '0' && number[0] <= '9' && strtol(number, NULL, 10) == SYS_futex;
}

bool bench_program(const struct bench *b, const char *name, char *path, size_t size)
{
    const char *slash = strrchr(b->program, '/');
    int         n = slash ? snprintf(path, size, "%.*s/%s", (int)(slash - b->program), b->program, name) : -1;
    return n > 0 && (size_t)n < size && access(path, X_OK) == 0;
}
