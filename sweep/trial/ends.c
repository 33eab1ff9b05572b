/* SPDX-License-Identifier: Apache-2.0
 *
 * ends.c - see ends.h.
 *
 * Owns: the descriptor of a slot's file. Thread: as in ends.h.
 */
#include "sweep/trial/ends.h"

#include "core/ds/vec.h"

#include "core/base/clock.h"
#include "sweep/trial/state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CHUNK_BYTES = 64 * 1024, CHUNK_BYTES_MAX = 2 * CHUNK_BYTES, PATH_SIZE = MT_PATH_BYTES_MAX + 300, LOOK_MS = 2 };

struct head {
    uint32_t size, is_last;
    uint64_t sum;
};

static uint64_t sum_of(const struct head *head, mt_view payload)
{
    return swp_sum(payload) + head->is_last * 0x9e3779b97f4a7c15u;
}

/* ---- the slot's side ---- */

void swp_ends_open(struct swp_ends *ends, const char *path)
{
    *ends = (struct swp_ends){.fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC)};
    if (ends->fd >= 0)
        ends->whole = lseek(ends->fd, 0, SEEK_END);
    if (ends->fd >= 0)
        (void)!flock(ends->fd, LOCK_EX | LOCK_NB); /* the next driver waits for it; nobody else does */
    int   map_fd = open(path, O_RDWR | O_CLOEXEC);
    void *tail = map_fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *ends->tail, PROT_READ | PROT_WRITE, MAP_SHARED, map_fd, 0);
    if (tail != MAP_FAILED)
        ends->tail = tail;
    if (map_fd >= 0)
        close(map_fd);
}

void swp_ends_close(struct swp_ends *ends)
{
    mt_buf_fini(&ends->chunk);
    if (ends->fd >= 0)
        close(ends->fd);
    ends->fd = -1;
}

/* One write: a chunk is there, or its sum says that it is not. */
static bool chunk_write(struct swp_ends *ends, bool is_last)
{
    mt_view     payload = mt_view_of(ends->chunk.data + sizeof(struct head), ends->chunk.size - sizeof(struct head));
    struct head head = {(uint32_t)payload.size, is_last, 0};
    head.sum = sum_of(&head, payload);
    memcpy(ends->chunk.data, &head, sizeof head);
    ssize_t written = write(ends->fd, ends->chunk.data, ends->chunk.size);
    bool    is_whole = written == (ssize_t)ends->chunk.size;
    ends->chunk.size = 0;
    return is_whole;
}

/* Notes with a gap would tell of another trial than the one that ran: none of this attempt's may stay. */
static void take_back(struct swp_ends *ends)
{
    ends->chunk.size = 0;
    ends->is_skipping = true;
    if (ftruncate(ends->fd, ends->whole) != 0)
        swp_ends_close(ends);
}

void swp_ends_note(struct swp_ends *ends, const struct swp_wire *m)
{
    static const struct head empty;
    bool                     is_last = m->kind == SWP_WIRE_FINISHED;
    ends->is_noted = false;
    if (ends->fd < 0)
        return;
    if (!ends->is_skipping) {
        mt_status st = ends->chunk.size ? mt_ok() : mt_buf_append(&ends->chunk, &empty, sizeof empty);
        if (st.code == 0)
            st = swp_wire_put(&ends->chunk, m);
        if (st.code || ((is_last || ends->chunk.size >= CHUNK_BYTES) && !chunk_write(ends, is_last)))
            take_back(ends);
    }
    if (!is_last || ends->fd < 0)
        return;
    ends->is_noted = !ends->is_skipping;
    ends->is_skipping = false;
    ends->whole = lseek(ends->fd, 0, SEEK_END);
}

/* ---- the driver's side ---- */

void swp_ends_make(const char *path)
{
    static const struct mt_tail empty;
    int                         fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return;
    if (write(fd, &empty, sizeof empty) != sizeof empty) /* a slot must not map what is not there */
        unlink(path);
    close(fd);
}

void swp_ends_tail(const char *path, char *out, size_t size)
{
    struct mt_tail tail;
    int            fd = open(path, O_RDONLY | O_CLOEXEC);
    out[0] = 0;
    if (fd < 0)
        return;
    if (read(fd, &tail, sizeof tail) == sizeof tail)
        mt_tail_read(&tail, out, size);
    close(fd);
}

struct notes {
    mt_buf messages; /* of the attempt that is being read */
    MT_VEC(struct swp_left_report) reports;
    MT_VEC(char) names; /* of other metrics, each ended by a NUL */
    char why[MT_ERROR_BYTES_MAX + MT_SWEEP_TAIL_BYTES];
};

static mt_status name_keep(struct notes *n, mt_view name, size_t *out_at)
{
    *out_at = n->names.count;
    for (size_t i = 0; i < name.size; i++)
        MT_TRY(mt_vec_push(&n->names, (char)name.data[i]));
    return mt_vec_push(&n->names, 0);
}

/* The reports of the attempt that FINISHED is about; a thread that the function left behind may have reported for another. */
static mt_status reports_read(struct notes *n, const struct swp_wire *finished)
{
    mt_reader       r = mt_reader_of(mt_buf_view(&n->messages));
    struct swp_wire m;
    MT_VEC(size_t) at = {0};
    mt_status st = mt_ok();
    n->reports.count = n->names.count = 0;
    while (st.code == 0 && swp_wire_take(&r, &m)) {
        struct swp_left_report report = {.step = m.step};
        size_t                 name = SIZE_MAX;
        if (m.kind != SWP_WIRE_REPORT || m.run != finished->run)
            continue;
        memcpy(&report.value, &m.number, sizeof report.value);
        if (m.text.size)
            st = name_keep(n, m.text, &name);
        if (st.code == 0)
            st = mt_vec_push(&at, name);
        if (st.code == 0)
            st = mt_vec_push(&n->reports, report);
    }
    for (size_t i = 0; i < n->reports.count && st.code == 0; i++)
        n->reports.data[i].metric = at.data[i] == SIZE_MAX ? NULL : n->names.data + at.data[i];
    mt_vec_fini(&at);
    return st;
}

/* An attempt whose notes are complete. */
static mt_status attempt_tell(struct notes *n, int slot, swp_ends_fn fn, void *user)
{
    mt_reader       r = mt_reader_of(mt_buf_view(&n->messages));
    struct swp_wire m = {0};
    while (swp_wire_take(&r, &m) && m.kind != SWP_WIRE_FINISHED)
        ;
    if (m.kind != SWP_WIRE_FINISHED)
        return mt_ok();
    MT_TRY(reports_read(n, &m));
    snprintf(n->why, sizeof n->why, "%.*s", (int)(m.text.size < sizeof n->why ? m.text.size : sizeof n->why - 1),
             m.text.size ? (const char *)m.text.data : "");
    struct swp_left left = {.trial = m.trial,
                            .slot = slot,
                            .run = m.run,
                            .ready_seq = m.ready_seq,
                            .code = (int32_t)m.number,
                            .is_final = (m.flags & SWP_FINISHED_FINAL) != 0,
                            .is_stopped = (m.flags & SWP_FINISHED_STOPPED) != 0,
                            .took_ms = m.step,
                            .why = n->why,
                            .reports = n->reports.data,
                            .report_count = n->reports.count};
    return fn(user, &left);
}

static bool chunk_read(FILE *f, struct notes *n, bool *out_is_last)
{
    struct head head;
    if (fread(&head, sizeof head, 1, f) != 1 || head.size > CHUNK_BYTES_MAX || mt_buf_reserve(&n->messages, head.size).code)
        return false;
    uint8_t *at = n->messages.data + n->messages.size;
    if (fread(at, 1, head.size, f) != head.size || sum_of(&head, mt_view_of(at, head.size)) != head.sum)
        return false;
    n->messages.size += head.size;
    *out_is_last = head.is_last != 0;
    return true;
}

static mt_status file_read(FILE *f, int slot, swp_ends_fn fn, void *user)
{
    struct notes *n = calloc(1, sizeof *n);
    mt_status     st = n ? mt_ok() : mt_error(MT_ENOMEM, 0, "read what a slot left");
    (void)!fseek(f, sizeof(struct mt_tail), SEEK_SET);
    bool is_last;
    while (st.code == 0 && chunk_read(f, n, &is_last)) {
        if (!is_last)
            continue;
        st = attempt_tell(n, slot, fn, user);
        n->messages.size = 0;
    }
    if (n) {
        mt_buf_fini(&n->messages);
        mt_vec_fini(&n->reports);
        mt_vec_fini(&n->names);
    }
    free(n);
    return st;
}

mt_status swp_ends_read(const char *path, int slot, swp_ends_fn fn, void *user)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return mt_ok();
    mt_status st = file_read(f, slot, fn, user);
    fclose(f);
    return st;
}

/* ---- all files ---- */

/* Waits until the process that appends to the file is gone. */
static void writer_wait(FILE *f, int64_t until_ns)
{
    while (flock(fileno(f), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK && mt_now_ns() < until_ns)
        mt_sleep_ms(LOOK_MS);
}

mt_status swp_ends_read_all(const char *folder, swp_ends_fn fn, void *user)
{
    char           path[PATH_SIZE];
    int64_t        until_ns = mt_now_ns() + MT_SWEEP_ENDS_WAIT_MS * 1000000ll;
    mt_status      st = mt_ok();
    struct dirent *entry;
    snprintf(path, sizeof path, "%s/ends", folder);
    DIR *dir = opendir(path);
    while (dir && st.code == 0 && (entry = readdir(dir))) {
        snprintf(path, sizeof path, "%s/ends/%s", folder, entry->d_name);
        FILE *f = entry->d_name[0] == '.' ? NULL : fopen(path, "re");
        if (!f)
            continue;
        writer_wait(f, until_ns);
        st = file_read(f, -1, fn, user);
        fclose(f);
    }
    if (dir)
        closedir(dir);
    return st;
}

void swp_ends_clear(const char *folder)
{
    char           path[PATH_SIZE];
    struct dirent *entry;
    snprintf(path, sizeof path, "%s/ends", folder);
    DIR *dir = opendir(path);
    while (dir && (entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            (void)!unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
}
