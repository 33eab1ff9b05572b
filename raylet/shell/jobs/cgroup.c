/* SPDX-License-Identifier: Apache-2.0
 *
 * cgroup.c - all that jobs start on this node: bounded in number, and ended with its program, or with the node.
 *
 * Owns: the node's group (core/sys/cgroup.h), its record in the runtime folder, the reaper. Thread: the loop.
 *
 * Each program that is started (a zygote, the driver of a submitted job) has a part of the group. Parts and the group are ended
 * by the reaper, a process of its own: so they also are when this one is killed. It starts with the first program. A part in which
 * nobody lives when its program has ended is the next program's.
 */
#include "raylet/shell/jobs/jobs.h"

#include "core/sys/child.h"
#include "core/sys/process.h"
#include "core/base/clock.h"
#include "core/base/limits/raylet.h"
#include "core/base/log.h"
#include "core/base/rng.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REAPER_PATH_SIZE = 4096, SPARES = 64 };

struct sh_cgroup {
    struct mt_cgroup group;
    char             mark[MT_GROUP_MARK_SIZE];
    char             file[MT_GROUP_PATH_SIZE]; /* its record in the runtime folder, which is no other raylet's; "": none */
    uint64_t         part_pids;
    uint64_t         next_part;
    uint64_t         spares[SPARES]; /* parts that nobody lives in: to make one and to remove it costs more than a short job */
    uint32_t         spare_count;
    pid_t            reaper; /* 0: none */
    int              pipe;   /* to it; -1: none */
    bool             has_warned;
    bool             is_made; /* it was tried */
};

/* How many processes and threads the kernel lets all have. */
static uint64_t machine_pids(void)
{
    static const char *const files[] = {"/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"};
    unsigned long long       least = 32768, number;
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(files[i], "re");
        if (file && fscanf(file, "%llu", &number) == 1 && (i == 0 || number < least))
            least = number;
        if (file)
            fclose(file);
    }
    return least;
}

static void warn(struct sh *sh, const char *what, mt_status st)
{
    if (!sh->group->has_warned)
        mt_log(MT_LOG_WARN, "group_failed", "what=\"%s\" why=\"%s\" errno=%d", what, st.what, st.sys);
    sh->group->has_warned = true;
}

/* Made with the first program: a raylet that is killed before has nobody who would remove it. */
static mt_status group_make(struct sh *sh)
{
    struct sh_cgroup *g = sh->group;
    uint64_t          number, most = machine_pids() / MT_RLT_PIDS_SHARE;
    mt_status         st = mt_random_bytes(&number, sizeof number);
    g->is_made = true;
    if (!st.code)
        st = mt_cgroup_new(sh->options.cgroup, number, g->part_pids > most ? g->part_pids : most, &g->group);
    mt_log(MT_LOG_INFO, "group", "path=%s bound=%llu", g->group.path[0] ? g->group.path : "none",
           (unsigned long long)(g->group.has_bound ? g->part_pids : 0));
    return st;
}

static void reaper_start(struct sh *sh);

mt_status sh_cgroup_start(struct sh *sh)
{
    struct sh_cgroup *g = sh->group = calloc(1, sizeof *g);
    const char       *place = sh->options.cgroup;
    uint64_t          number;
    if (!g)
        return mt_error(MT_ENOMEM, 0, "group of jobs");
    g->pipe = -1;
    g->part_pids = sh->options.job_pids ? sh->options.job_pids : machine_pids() * MT_RLT_JOB_PIDS_PERCENT / 100;
    g->is_made = place && !place[0]; /* none is wanted */
    MT_TRY(mt_random_bytes(&number, sizeof number));
    mt_cgroup_mark(number, g->mark);
    if (sh->options.dir && !mt_cgroup_record(sh->options.dir, g->mark, g->file, sizeof g->file))
        g->file[0] = '\0';
    if (sh->options.dir && mt_cgroup_end_saved(sh->options.dir, MT_RLT_GROUP_END_MS)) /* of those killed here, with their reapers */
        mt_log(MT_LOG_WARN, "group_left", "dir=%s", sh->options.dir);
    mt_status st = place && place[0] ? group_make(sh) : mt_ok(); /* who names a place hears at once whether it will do */
    if (st.code)
        fprintf(stderr, "manta-raylet: --cgroup %s: %s%s%s\n", place, st.what, st.sys ? ": " : "",
                st.sys ? strerrordesc_np(st.sys) : "");
    else if (g->group.path[0])
        reaper_start(sh);
    return st;
}

/* ---- the reaper ---- */

static int reaper_spawn(struct sh_cgroup *g, int input)
{
    char                 path[REAPER_PATH_SIZE], *no_environment[] = {NULL};
    char                *argv[] = {"manta-reaper", g->mark, g->group.path, g->file, NULL};
    struct mt_child_opts o = {.program = mt_process_beside("manta-reaper", path, sizeof path),
                              .argv = argv,
                              .env = no_environment,
                              .dir = "/",
                              .session = MT_CHILD_SESSION,
                              /* who reads ours must see our end */
                              .fds = {{input, 0}, {MT_CHILD_NULL, 1}, {MT_CHILD_NULL, 2}},
                              .fd_count = 3};
    return mt_child_start(&o, &g->reaper).sys;
}

/* Starts it, again too if it has died. */
static void reaper_start(struct sh *sh)
{
    struct sh_cgroup *g = sh->group;
    int               ends[2], err = 0;
    if (g->pipe >= 0)
        return;
    if (pipe2(ends, O_CLOEXEC) < 0) {
        warn(sh, "start the reaper", mt_error(MT_ESYS, errno, "pipe"));
        return;
    }
    err = reaper_spawn(g, ends[0]);
    close(ends[0]);
    g->pipe = ends[1];
    fcntl(g->pipe, F_SETFL, O_NONBLOCK);
    if (err) {
        close(g->pipe);
        g->pipe = -1;
        g->reaper = 0;
        warn(sh, "start the reaper", mt_error(MT_ESYS, err, "manta-reaper"));
    } else if (g->file[0]) {
        mt_status st = mt_cgroup_save(g->file, g->group.path, g->mark);
        if (st.code)
            warn(sh, "save", st);
    }
}

/* ---- parts ---- */

uint64_t sh_cgroup_enter(struct sh *sh)
{
    struct sh_cgroup *g = sh->group;
    char              part[MT_GROUP_NAME_SIZE];
    if (!g->is_made)
        (void)group_make(sh).code; /* where there can be none, the mark is all */
    uint64_t number = g->spare_count ? g->spares[--g->spare_count] : ++g->next_part;
    snprintf(part, sizeof part, "%llu", (unsigned long long)number);
    mt_status st = mt_cgroup_enter(&g->group, part, g->part_pids);
    if (st.code)
        warn(sh, "enter", st);
    return number;
}

int sh_cgroup_folder(const struct sh *sh)
{
    return sh->group->group.entered;
}

void sh_cgroup_leave(struct sh *sh, uint64_t number, bool is_started)
{
    mt_status st = mt_cgroup_leave(&sh->group->group);
    if (st.code)
        warn(sh, "leave", st);
    reaper_start(sh); /* the program loads meanwhile */
    if (!is_started)
        (void)sh_cgroup_over(sh, number);
}

/* The reaper ends it. */
static void part_end(struct sh_cgroup *g, uint64_t part)
{
    char line[MT_GROUP_NAME_SIZE];
    int  size = snprintf(line, sizeof line, "%llu\n", (unsigned long long)part);
    if (g->pipe < 0 || write(g->pipe, line, (size_t)size) == size || errno == EAGAIN) /* a full pipe: it ends with the node */
        return;
    close(g->pipe); /* it has died: the next program has one again */
    g->pipe = -1;
}

bool sh_cgroup_over(struct sh *sh, uint64_t part)
{
    struct sh_cgroup *g = sh->group;
    char              name[MT_GROUP_NAME_SIZE];
    if (!part || !g->group.path[0])
        return false;
    snprintf(name, sizeof name, "%llu", (unsigned long long)part);
    bool is_empty = mt_cgroup_is_empty(&g->group, name);
    if (is_empty && g->spare_count < SPARES)
        g->spares[g->spare_count++] = part;
    else
        part_end(g, part);
    return is_empty;
}

void sh_cgroup_stop(struct sh *sh)
{
    struct sh_cgroup *g = sh->group;
    int64_t           end = mt_now_ms() + 2 * MT_RLT_GROUP_END_MS;
    if (!g)
        return;
    if (g->pipe >= 0)
        close(g->pipe);
    g->pipe = -1;
    if (g->reaper > 0 && waitpid(g->reaper, NULL, WNOHANG) == 0)
        kill(g->reaper, SIGCONT); /* one that stands still does its work; not reaped yet, so the number is its own */
    while (g->reaper > 0 && waitpid(g->reaper, NULL, WNOHANG) == 0 && mt_now_ms() < end)
        mt_sleep_ms(1);
    if (!mt_cgroup_end(g->group.path, NULL, MT_RLT_GROUP_END_MS)) /* for nothing, but where there was no reaper */
        mt_log(MT_LOG_WARN, "group_left", "path=%s", g->group.path);
    else if (g->file[0])
        unlink(g->file);
    free(g);
    sh->group = NULL;
}

const char *sh_cgroup_mark(const struct sh *sh)
{
    return sh->group->mark;
}
