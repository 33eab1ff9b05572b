/* SPDX-License-Identifier: Apache-2.0
 *
 * watch.c - looks at the memory of the node and of its cgroup, and tells the core when it is nearly used up; and whether workers
 * have ended of which nobody else says so: a child of theirs has their socket, and their zygote hangs. Kills again whom it could
 * not.
 *
 * Owns: its timer. Thread: the loop only; reads a few files of the kernel, the oftener the less memory is left (os_memory_look_ms),
 * and where there is no process once a second: on a machine with hundreds of nodes these looks were most of what idle ones cost.
 */
#include "raylet/shell/procs/procs.h"

#include "core/base/limits/object.h"
#include "core/base/log.h"
#include "core/sys/file.h"
#include "objectstore/system/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The number behind a name of /proc/meminfo, in bytes; 0: it is not there. */
static uint64_t number_of(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at ? strtoull(at + strlen(name), NULL, 10) << 10 : 0;
}

/* What the machine has, and what is in use and can't be dropped. False: no /proc. */
static bool read_machine(uint64_t *limit, uint64_t *usage)
{
    char     text[512]; /* both stand in its first lines */
    uint64_t available;
    if (mt_file_read("/proc/meminfo", text, sizeof text) < 0)
        return false;
    *limit = number_of(text, "MemTotal:");
    available = number_of(text, "MemAvailable:");
    *usage = *limit - (available < *limit ? available : *limit);
    return *limit > 0 && available > 0;
}

static bool is_short(uint64_t limit, uint64_t usage)
{
    return limit != UINT64_MAX && usage / 1000 >= limit / 1000000 * MT_MEMORY_SHORT_PERMILLE;
}

static uint64_t sooner(const struct sh *sh, uint64_t limit, uint64_t usage, uint64_t than_ms)
{
    uint64_t ms = os_memory_look_ms(limit, usage, sh->machine_cpus);
    return ms < than_ms ? ms : than_ms;
}

/* Workers whose task would not be tried again. Without memory for the list, fewer of them. */
typedef MT_VEC(uint64_t) conn_list;
static void find_once(const struct sh *sh, conn_list *out)
{
    MT_MAP_EACH(&sh->conns, entry) {
        const struct sh_conn *c = entry->value.ptr;
        if (c->park && shm_load32(&c->park->runs_once) && mt_vec_push(out, c->conn).code)
            return;
    }
}

/* A part of the workers, those whose turns have come since the last look: each once in MT_RLT_LOOK_ROUND_MS. */
static void find_ended(struct sh *sh)
{
    enum { TURNS = MT_RLT_LOOK_ROUND_MS / MT_MEMORY_LOOK_MS_MIN };
    uint64_t turn = io_now_ms() / MT_MEMORY_LOOK_MS_MIN, come = turn - sh->look_turn;
    MT_MAP_EACH(&sh->conns, entry) {
        struct sh_conn *c = entry->value.ptr;
        if (c->is_to_die)
            sh_conn_kill(c);
        if (c->start && (turn - c->conn % TURNS) % TURNS < come)
            sh_conn_look(c);
    }
    sh->look_turn = turn;
}

static void look(struct io_timer *timer)
{
    struct sh       *sh = mt_container_of(timer, struct sh, memory_timer);
    uint64_t         limit = UINT64_MAX, usage = 0, next_ms = MT_MEMORY_LOOK_MS_MAX;
    const char      *whose = "its cgroup";
    struct rlt_event e;
    conn_list        once = {0};
    char             text[160];
    bool             is = os_cgroup_read("/sys/fs/cgroup", &limit, &usage).code == 0 && is_short(limit, usage);
    next_ms = sooner(sh, limit, usage, next_ms);
    if (!is) {
        whose = "the machine";
        is = read_machine(&limit, &usage) && is_short(limit, usage);
        next_ms = sooner(sh, limit, usage, next_ms);
    }
    sh->is_memory_idle = !is && !sh->conns.count;
    io_timer_start(sh->loop, timer, sh->is_memory_idle ? MT_MEMORY_LOOK_MS_MAX : next_ms);
    find_ended(sh);
    if (!is)
        return;
    snprintf(text, sizeof text, "%llu of the %llu MiB of memory of %s are in use, and from %d %% on tasks are stopped",
             (unsigned long long)(usage >> 20), (unsigned long long)(limit >> 20), whose, MT_MEMORY_SHORT_PERMILLE / 10);
    mt_log(MT_LOG_WARN, "memory_short", "text=\"%s\"", text);
    sh_event(&e, RLT_EV_MEMORY);
    e.memory.why = sh_keep_text(sh, text);
    find_once(sh, &once);
    e.memory.once = once.data;
    e.memory.once_count = once.count;
    if (once.data)
        sh_keep_this(sh, once.data, free);
    sh_post(sh, &e);
}

static uint64_t count_cpus(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (uint64_t)count : 1;
}

void sh_watch_start(struct sh *sh)
{
    if (!sh->machine_cpus) /* once: it reads a file */
        sh->machine_cpus = count_cpus();
    sh->is_memory_idle = false;
    sh->memory_timer.fire = look;
    io_timer_start(sh->loop, &sh->memory_timer, MT_MEMORY_LOOK_MS_MIN);
}

void sh_watch_busy(struct sh *sh)
{
    if (sh->is_memory_idle && sh->conns.count)
        sh_watch_start(sh);
}

void sh_watch_stop(struct sh *sh)
{
    io_timer_stop(&sh->memory_timer);
}
