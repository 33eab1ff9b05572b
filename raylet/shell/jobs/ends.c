/* SPDX-License-Identifier: Apache-2.0
 *
 * ends.c - ends of submitted jobs that no head has acknowledged, kept where they outlive this raylet: who is started in the same
 * folder next tells them (docs/design/queue.md).
 *
 * Owns: struct sh_ends: the file `ends` of the runtime folder, as memory, and what was found in it. Thread: the loop.
 * Always: a slot is whole or not there, whenever this process is killed; what was found stays in the file until the head has it.
 *
 * The file is shared memory: to keep an end and to drop it costs no system call, and the kernel has it though this process is
 * killed. A power cut loses it, and the jobs are started again then.
 */
#include "raylet/shell/jobs/jobs.h"
#include "raylet/shell/jobs/private.h"

#include "core/base/limits/raylet.h"
#include "core/base/log.h"
#include "core/sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x31646e65746e616d)

enum { SLOTS_MAX = MT_RLT_SUBMITTED_MAX + MT_CPUS_MAX, PATH_SIZE = 640, TAIL_BYTES = 16 * 1024, TAILS_BYTES = 256 * 1024 };

struct header {
    uint64_t magic;
    uint64_t boot; /* of the raylet that writes it */
    uint32_t slot_size, slot_count;
    char     folder[256]; /* of its jobs; "": it has none yet */
};

struct slot {
    _Atomic uint32_t is_whole;
    uint32_t         attempt;
    int32_t          exit_code;
    char             id[CTL_NAME_SIZE];
    char             word[16];
    char             reason[256];
};

struct sh_ends {
    struct header    *kept; /* and its slots; NULL: none yet, or there can be none */
    struct rlt_before before;
    char              before_folder[256];
    size_t            tails; /* bytes */
};

static struct slot *slots_of(struct header *h)
{
    return (struct slot *)(void *)(h + 1);
}

static size_t bytes_of(uint32_t slots)
{
    return sizeof(struct header) + slots * sizeof(struct slot);
}

/* ---- of a raylet that was killed here ---- */

/* The last of what an attempt has printed: most of it the head has. */
static void tail_read(struct sh_ends *e, struct rlt_before_end *end)
{
    char        path[PATH_SIZE];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s.%u.log", e->before_folder, end->id, end->attempt);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
        size_t   size = st.st_size < TAIL_BYTES ? (size_t)st.st_size : TAIL_BYTES;
        uint8_t *bytes = e->tails + size <= TAILS_BYTES ? malloc(size) : NULL;
        ssize_t  n = bytes ? pread(fd, bytes, size, st.st_size - (off_t)size) : 0;
        end->log_offset = (uint64_t)st.st_size - (n > 0 ? (uint64_t)n : 0);
        end->log = bytes;
        end->log_size = n > 0 ? (size_t)n : 0;
        e->tails += end->log_size;
    }
    if (fd >= 0)
        close(fd);
}

static void slot_read(struct sh_ends *e, struct slot *slot)
{
    struct rlt_before_end *end = &e->before.ends[e->before.count];
    if (!atomic_load(&slot->is_whole) || slot->id[0] == '.' || memchr(slot->id, '/', sizeof slot->id))
        return;
    slot->id[sizeof slot->id - 1] = slot->word[sizeof slot->word - 1] = slot->reason[sizeof slot->reason - 1] = '\0';
    memcpy(end->id, slot->id, sizeof end->id);
    memcpy(end->word, slot->word, sizeof end->word);
    memcpy(end->reason, slot->reason, sizeof end->reason);
    end->attempt = slot->attempt;
    end->exit_code = slot->exit_code;
    tail_read(e, end);
    e->before.count++;
}

static bool is_sound(const struct header *h, size_t size)
{
    return size >= sizeof *h && h->magic == MAGIC && h->slot_size == sizeof(struct slot) && h->slot_count <= SLOTS_MAX &&
           size == bytes_of(h->slot_count) && !h->folder[sizeof h->folder - 1];
}

static void before_read(struct sh_ends *e, const char *path)
{
    struct stat st;
    int         fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    size_t size = fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0 && st.st_size <= (off_t)bytes_of(SLOTS_MAX) ? (size_t)st.st_size
                                                                                                               : 0;
    void  *map = size ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    if (fd >= 0)
        close(fd);
    if (map == MAP_FAILED)
        return;
    struct header *h = map;
    if (is_sound(h, size) && (e->before.ends = calloc(h->slot_count + 1, sizeof *e->before.ends))) {
        e->before.boot = h->boot;
        memcpy(e->before_folder, h->folder, sizeof e->before_folder);
        for (uint32_t i = 0; i < h->slot_count; i++)
            slot_read(e, &slots_of(h)[i]);
        mt_log(MT_LOG_INFO, "forerunner", "ends=%u: a raylet was killed here", e->before.count);
    }
    munmap(map, size);
}

static void before_drop(struct sh_ends *e)
{
    for (uint32_t i = 0; i < e->before.count; i++)
        free(e->before.ends[i].log);
    free(e->before.ends);
    e->before = (struct rlt_before){.boot = 0};
}

const struct rlt_before *sh_ends_start(struct sh *sh)
{
    sh->ends = calloc(1, sizeof *sh->ends);
    return sh->ends ? &sh->ends->before : NULL;
}

/* The folder's socket is ours: whoever was there before writes nothing any more. */
void sh_ends_read(struct sh *sh)
{
    char path[PATH_SIZE];
    if (sh->ends && sh_folder_file(sh, "ends", path, sizeof path))
        before_read(sh->ends, path);
}

/* ---- our own ---- */

/* All of its blocks are there: a full disk is seen here, and not when it is written. */
static struct header *file_make(const char *path, size_t size)
{
    int   fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int   err = fd < 0 ? errno : posix_fallocate(fd, 0, (off_t)size);
    void *map = err ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return map == MAP_FAILED ? NULL : map;
}

/* The head has what was found, and what else that raylet's jobs have left is nobody's any more. */
void sh_ends_begin(struct sh *sh)
{
    char            path[PATH_SIZE], made[PATH_SIZE];
    struct sh_ends *e = sh->ends;
    uint32_t        count = MT_RLT_SUBMITTED_MAX;
    for (uint32_t i = 0; i < sh->options.resource_count; i++)
        if (strcmp(sh->options.resources[i].name, "CPU") == 0 && sh->options.resources[i].milli > 0)
            count += sh->options.resources[i].milli < MT_CPUS_MAX * INT64_C(1000)
                         ? (uint32_t)(sh->options.resources[i].milli / 1000)
                         : MT_CPUS_MAX;
    if (!e || e->kept || !sh_folder_file(sh, "ends", path, sizeof path) || !sh_folder_file(sh, "ends.new", made, sizeof made))
        return;
    before_drop(e);
    if (e->before_folder[0])
        mt_tree_remove(e->before_folder);
    e->kept = file_make(made, bytes_of(count));
    if (e->kept)
        *e->kept = (struct header){.magic = MAGIC, .boot = sh->boot, .slot_size = sizeof(struct slot), .slot_count = count};
    if (e->kept && rename(made, path) == 0)
        return;
    mt_log(MT_LOG_WARN, "ends_unkept", "errno=%d: a job that ends when this raylet is killed may run again", errno);
    if (e->kept)
        munmap(e->kept, bytes_of(count));
    e->kept = NULL;
    unlink(made);
    unlink(path);
}

void sh_ends_folder(struct sh *sh)
{
    if (sh->ends && sh->ends->kept)
        snprintf(sh->ends->kept->folder, sizeof sh->ends->kept->folder, "%s", sh->job_folder);
}

int sh_end_keep(struct sh *sh, const struct rlt_a_job_keep *a)
{
    struct header *h = sh->ends ? sh->ends->kept : NULL;
    uint32_t       i = 0;
    while (h && i < h->slot_count && atomic_load_explicit(&slots_of(h)[i].is_whole, memory_order_relaxed))
        i++;
    if (!h || i == h->slot_count)
        return -1;
    struct slot *slot = &slots_of(h)[i];
    slot->attempt = a->attempt;
    slot->exit_code = a->exit_code;
    snprintf(slot->id, sizeof slot->id, "%s", a->id);
    snprintf(slot->word, sizeof slot->word, "%s", a->word);
    snprintf(slot->reason, sizeof slot->reason, "%.255s", a->reason);
    atomic_store_explicit(&slot->is_whole, 1, memory_order_release);
    return (int)i;
}

void sh_end_drop(struct sh *sh, int slot)
{
    if (slot >= 0 && sh->ends && sh->ends->kept)
        atomic_store_explicit(&slots_of(sh->ends->kept)[slot].is_whole, 0, memory_order_release);
}

void sh_ends_stop(struct sh *sh)
{
    char            path[PATH_SIZE];
    struct sh_ends *e = sh->ends;
    bool            is_any = false;
    for (uint32_t i = 0; e && e->kept && i < e->kept->slot_count; i++)
        is_any |= atomic_load(&slots_of(e->kept)[i].is_whole) != 0;
    if (e && e->kept) {
        munmap(e->kept, bytes_of(e->kept->slot_count));
        if (!is_any && sh_folder_file(sh, "ends", path, sizeof path)) /* else the next one tells them */
            unlink(path);
    }
    if (e)
        before_drop(e);
    free(e);
    sh->ends = NULL;
}
