/* SPDX-License-Identifier: Apache-2.0
 *
 * tell.c - what the raylet itself knows of its node, as rows: processes, waiting classes, objects, figures.
 *
 * Owns: nothing. Thread: the loop only.
 */
#include "core/base/limits/raylet.h"
#include "core/sys/file.h"
#include "raylet/shell/conn/conn.h"
#include "raylet/shell/look/look.h"
#include "raylet/store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { DISK_STAGE = OS_SEGMENT_MAX + 1 /* of a list of objects: what is in memory has been told */ };
enum { OBJECTS_PER_PAGE = 2048, WORKERS_PER_PAGE = 256 };

/* ---- processes ----------------------------------------------------------------------------------------------------- */

struct views {
    MT_VEC(struct rlt_proc_view) items;
    mt_status st;
};

static void keep_view(void *user, const struct rlt_proc_view *view)
{
    struct views *all = user;
    if (view->process && all->st.code == 0)
        all->st = mt_vec_push(&all->items, *view);
}

static int by_process(const void *a, const void *b)
{
    uint64_t x = ((const struct rlt_proc_view *)a)->process, y = ((const struct rlt_proc_view *)b)->process;
    return x < y ? -1 : x > y;
}

/* Bytes of a process in memory; 0 where it cannot be known. */
static uint64_t rss_of(int32_t pid)
{
    char          path[64], text[128];
    unsigned long all = 0, resident = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    if (mt_file_read(path, text, sizeof text) <= 0)
        return 0;
    return sscanf(text, "%lu %lu", &all, &resident) == 2 ? (uint64_t)resident * 4096 : 0;
}

static mt_status worker_row(struct sh *sh, struct sh_page *page, const struct rlt_proc_view *v, const struct sh_ring *ring)
{
    char     process[20], pid[12], node[12], job[20], finished[24] = "", rss[24] = "";
    char     running[LANE_EVENT_NAME_SIZE] = "";
    uint64_t begun = ring ? shm_load64_acquire(&ring->events->begun) : 0;
    uint64_t ended = ring ? shm_load64(&ring->events->ended) : 0, bytes = v->pid > 0 ? rss_of(v->pid) : 0;
    snprintf(process, sizeof process, "%016" PRIx64, v->process);
    snprintf(pid, sizeof pid, "%d", v->pid);
    snprintf(node, sizeof node, "%u", sh->node);
    snprintf(job, sizeof job, "%016" PRIx64, v->job);
    if (ring && begun > ended && !ring->is_over)
        sh_ring_running(ring, running);
    if (ring)
        snprintf(finished, sizeof finished, "%" PRIu64, ended);
    if (bytes)
        snprintf(rss, sizeof rss, "%" PRIu64, bytes);
    const char *cells[LANE_LOOK_COLUMNS] = {
        process,   pid,      v->role >= CTL_DRIVER && v->role <= CTL_WORKER ? lane_roles[v->role - CTL_DRIVER] : "",
        v->state,  node,     job,
        running,   finished, rss,
        v->program};
    return sh_row_add(page->look, cells, &page->rows);
}

static const struct sh_ring *ring_of(const struct sh *sh, uint64_t conn)
{
    const struct sh_conn *c = sh_conn_find(sh, conn);
    return c ? c->ring : NULL;
}

/* Those that live, by process number; then, second part of the cursor set, those whose events are still known. */
static mt_status tell_living(struct sh *sh, struct sh_page *page)
{
    struct views all = {.st = {0}};
    uint32_t     told = 0;
    rlt_each_proc(sh->core, keep_view, &all);
    if (all.items.count)
        qsort(all.items.data, all.items.count, sizeof *all.items.data, by_process);
    for (size_t i = 0; i < all.items.count && all.st.code == 0; i++) {
        const struct rlt_proc_view *v = &all.items.data[i];
        if (v->process <= page->at[0])
            continue;
        if (++told > WORKERS_PER_PAGE || page->rows.count >= page->rows_max)
            break;
        all.st = worker_row(sh, page, v, ring_of(sh, v->conn));
        page->at[0] = v->process;
    }
    if (told <= WORKERS_PER_PAGE && page->rows.count < page->rows_max)
        page->at[0] = 0, page->at[1] = 1;
    mt_vec_fini(&all.items);
    page->has_more = true;
    return all.st;
}

static mt_status tell_over(struct sh *sh, struct sh_page *page)
{
    uint32_t told = 0;
    page->has_more = false;
    for (size_t i = 0; i < sh->rings.count; i++) {
        const struct sh_ring *ring = sh->rings.data[i];
        struct rlt_proc_view  v = {
             .process = ring->process, .role = CTL_WORKER, .state = lane_worker_states[LANE_WORKER_ENDED], .program = ""};
        if (!ring->is_over || ring->number < page->at[1])
            continue;
        if (++told > WORKERS_PER_PAGE || page->rows.count >= page->rows_max) {
            page->at[1] = ring->number;
            page->has_more = true;
            break;
        }
        v.pid = ring->pid;
        MT_TRY(worker_row(sh, page, &v, ring));
    }
    return mt_ok();
}

mt_status sh_tell_workers(struct sh *sh, struct sh_page *page)
{
    return page->at[1] ? tell_over(sh, page) : tell_living(sh, page);
}

/* ---- classes ------------------------------------------------------------------------------------------------------- */

struct demand_rows {
    struct sh      *sh;
    struct sh_page *page;
    mt_status       st;
};

static void demand_row(void *user, const struct rlt_class_view *v)
{
    struct demand_rows *d = user;
    char                owner[20], pid[12], node[12], wanted[12], held[12];
    if (d->st.code || d->page->rows.count >= d->page->rows_max || d->page->rows.bytes.size >= MT_RLT_QUERY_BYTES)
        return;
    snprintf(owner, sizeof owner, "%016" PRIx64, v->owner);
    snprintf(pid, sizeof pid, "%d", v->owner_pid);
    snprintf(node, sizeof node, "%u", d->sh->node);
    snprintf(wanted, sizeof wanted, "%u", v->wanted);
    snprintf(held, sizeof held, "%u", v->held);
    const char *cells[LANE_LOOK_COLUMNS] = {owner, pid, node, v->name, v->resources, wanted, held, v->why};
    d->st = sh_row_add(d->page->look, cells, &d->page->rows);
}

mt_status sh_tell_demands(struct sh *sh, struct sh_page *page)
{
    struct demand_rows d = {.sh = sh, .page = page};
    rlt_each_waiting(sh->core, demand_row, &d);
    return d.st;
}

/* ---- the node ------------------------------------------------------------------------------------------------------ */

mt_status sh_tell_node(struct sh *sh, struct sh_page *page)
{
    struct os_stats  store;
    struct rlt_stats stats;
    uint64_t         events = 0, lost = 0;
    char             cells[9][24];
    os_store_stats(sh_store_of(sh), &store);
    rlt_stats(sh->core, &stats);
    for (size_t i = 0; i < sh->rings.count; i++) {
        const struct sh_ring *ring = sh->rings.data[i];
        uint64_t              begun = shm_load64(&ring->events->begun);
        events += begun < ring->capacity ? begun : ring->capacity;
        lost += begun < ring->capacity ? 0 : begun - ring->capacity;
    }
    const uint64_t values[] = {sh->node,
                               store.bytes_reserved - store.bytes_warm,
                               store.bytes_max,
                               store.segments,
                               stats.workers,
                               events,
                               lost,
                               sh->options.job_bytes,
                               sh_spill_bytes(sh)};
    const char    *row[LANE_LOOK_COLUMNS] = {0};
    for (int i = 0; i < 9; i++) {
        snprintf(cells[i], sizeof cells[i], "%" PRIu64, values[i]);
        row[i] = cells[i];
    }
    return sh_row_add(page->look, row, &page->rows);
}

/* ---- objects ------------------------------------------------------------------------------------------------------- */

static int32_t pid_of(const struct sh *sh, uint64_t process)
{
    MT_MAP_EACH(&sh->conns, entry) {
        const struct sh_conn *c = entry->value.ptr;
        if (process && c->process == process)
            return c->pid;
    }
    return 0;
}

static void note_pin(void *user, struct os_seen *object, uint64_t process)
{
    size_t at = strlen(object->pinned_by);
    object->pins++;
    if (at + 16 < sizeof object->pinned_by)
        snprintf(object->pinned_by + at, sizeof object->pinned_by - at, "%s%d", at ? "," : "", pid_of(user, process));
    else if (at && object->pinned_by[at - 1] != '.')
        snprintf(object->pinned_by + at, sizeof object->pinned_by - at, ",...");
}

static mt_status object_row(struct sh *sh, struct sh_page *page, const struct os_seen *o, bool is_on_disk)
{
    char            id[MT_ID_TEXT_SIZE], size[24], owner[20], owner_pid[12], node[12], writer[12], pins[12];
    struct lane_ref copy;
    int32_t         owner_here = pid_of(sh, o->id.process), writer_here = pid_of(sh, o->writer);
    bool            is_copy = os_store_copy_find(sh_store_of(sh), o->id, &copy).code == 0 && copy.segment == o->segment;
    snprintf(size, sizeof size, "%" PRIu64, o->size);
    snprintf(owner, sizeof owner, "%016" PRIx64, o->id.process);
    snprintf(owner_pid, sizeof owner_pid, "%d", owner_here);
    snprintf(node, sizeof node, "%u", sh->node);
    snprintf(writer, sizeof writer, "%d", writer_here);
    snprintf(pins, sizeof pins, "%u", o->pins);
    const char *cells[LANE_LOOK_COLUMNS] = {mt_id_text(o->id, id),
                                            size,
                                            owner,
                                            owner_here ? owner_pid : NULL,
                                            node,
                                            writer_here ? writer : NULL,
                                            pins,
                                            o->pinned_by,
                                            lane_value_kinds[is_on_disk ? LANE_VALUE_SPILLED
                                                             : is_copy  ? LANE_VALUE_COPY
                                                                        : LANE_VALUE_OWN]};
    return sh_row_add(page->look, cells, &page->rows);
}

mt_status sh_tell_objects(struct sh *sh, struct sh_page *page)
{
    uint32_t        segment = (uint32_t)page->at[0], room = page->rows_max < OBJECTS_PER_PAGE ? page->rows_max : OBJECTS_PER_PAGE;
    struct os_seen *listed = calloc(room, sizeof *listed);
    uint32_t        count;
    mt_status       st = mt_ok();
    if (!listed)
        return mt_error(MT_ENOMEM, 0, "list of objects");
    bool is_on_disk = segment == DISK_STAGE;
    if (is_on_disk) {
        count = sh_spill_look(sh, page->at[1], listed, room);
        page->has_more = count == room;
        if (count)
            page->at[1] = os_place_word(listed[count - 1].segment, listed[count - 1].offset);
    } else {
        count = os_store_look(sh_store_of(sh), &segment, &page->at[1], listed, room);
        page->at[0] = segment ? segment : DISK_STAGE;
        page->at[1] = segment ? page->at[1] : 0;
        page->has_more = segment || sh_spill_bytes(sh);
        os_store_pins_of(sh_store_of(sh), listed, count, note_pin, sh);
    }
    for (uint32_t i = 0; i < count && st.code == 0; i++)
        st = object_row(sh, page, &listed[i], is_on_disk);
    free(listed);
    return st;
}
