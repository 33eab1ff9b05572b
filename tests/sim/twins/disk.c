/* SPDX-License-Identifier: Apache-2.0
 *
 * disk.c - the twin of system/disk.h: spill files in plain memory, on a disk that is now and then full or broken.
 *
 * Owns: the files. Thread: one.
 */
#include "tests/sim/twins/io.h"

#include "objectstore/system/disk.h"

#include <errno.h>

enum { DISK_BYTES_MAX = 64 << 20 }; /* of one file: no real bound, but a runaway shows */

struct file {
    mt_buf bytes;
};

void sim_disks_free(struct sim *s)
{
    MT_MAP_EACH(&s->files, entry) {
        struct file *f = entry->value.ptr;
        mt_buf_fini(&f->bytes);
        free(f);
    }
    mt_map_fini(&s->files);
}

static struct file *file_of(struct sim *s, int fd)
{
    struct file *f = mt_map_ptr(&s->files, mt_map_key((uint64_t)fd));
    SIM_REQUIRE(s, f, "I6: a spill file is used that is closed");
    return f;
}

mt_status os_disk_open(const char *folder, int *out_fd)
{
    struct sim *s = sim_running();
    (void)folder;
    if (!s->is_healed && sim_chance(s, 40000)) {
        s->counters.disk_failed++;
        s->counters.fault_total++;
        return mt_error(MT_ESYS, EIO, "open a spill file");
    }
    *out_fd = sim_fd_new(s, s->acting->serial);
    if (mt_map_put_ptr(&s->files, mt_map_key((uint64_t)*out_fd), sim_alloc(sizeof(struct file))).code)
        abort();
    return mt_ok();
}

void os_disk_close(int fd)
{
    struct sim  *s = sim_running();
    struct file *f = file_of(s, fd);
    mt_map_remove(&s->files, mt_map_key((uint64_t)fd));
    mt_buf_fini(&f->bytes);
    free(f);
    sim_fd_close(s, fd);
}

mt_status os_disk_write(int fd, uint64_t *at, struct os_disk_item *item, const void *data)
{
    struct sim  *s = sim_running();
    struct file *f = file_of(s, fd);
    SIM_REQUIRE(s, *at == f->bytes.size && *at + item->size <= DISK_BYTES_MAX, "a spill file is written where it does not end");
    if (s->now < s->disk_full_until) {
        s->counters.disk_full++;
        return mt_error(MT_EDISK_FULL, ENOSPC, "write a spill file");
    }
    if (!s->is_healed && sim_chance(s, 40000)) {
        s->counters.disk_failed++;
        s->counters.fault_total++;
        return mt_error(MT_ESYS, EIO, "write a spill file");
    }
    item->offset = *at;
    item->stored = item->size;
    item->is_compressed = false;
    if (mt_buf_append(&f->bytes, data, item->size).code)
        abort();
    item->checksum = item->size ^ (uint64_t)fd << 32; /* that item and file belong together */
    *at += item->size;
    return mt_ok();
}

mt_status os_disk_read(int fd, const struct os_disk_item *item, void *to)
{
    struct sim  *s = sim_running();
    struct file *f = file_of(s, fd);
    SIM_REQUIRE(s, item->checksum == (item->size ^ (uint64_t)fd << 32) && item->offset + item->size <= f->bytes.size,
                "I5: what is read from a spill file was never written there");
    if (!s->is_healed && sim_chance(s, 40000)) {
        s->counters.disk_failed++;
        s->counters.fault_total++;
        return mt_error(MT_ESYS, EIO, "read a spill file");
    }
    s->counters.restored++;
    memcpy(to, f->bytes.data + item->offset, item->size);
    return mt_ok();
}
