/* SPDX-License-Identifier: Apache-2.0
 *
 * events.c - the rings in which this node's workers note what they run, read when somebody asks.
 *
 * Owns: every struct sh_ring. Thread: the loop only.
 * Always: sh->rings is in order of number; rings of workers that are over take MT_RLT_EVENTS_OVER_BYTES at most.
 */
#include "core/base/limits/raylet.h"
#include "raylet/shell/conn/conn.h"
#include "raylet/shell/conn/memory.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "objectstore/system/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROW_COST = 16 }; /* events that can be looked at in the time that the row of one takes */

/* Bytes that the ring has in memory: what was never written takes none. */
static uint64_t ring_bytes(const struct sh_ring *ring)
{
    uint64_t begun = shm_load64(&ring->events->begun);
    return 8192 + (begun < ring->capacity ? begun : ring->capacity) * sizeof(struct lane_event);
}

static void ring_free(struct sh_ring *ring)
{
    os_memory_unmap(ring->events, lane_events_bytes(ring->capacity));
    if (ring->fd >= 0)
        close(ring->fd);
    free(ring);
}

/* MANTA_EVENTS: how many a worker keeps; 0: none. */
mt_status sh_events_start(struct sh *sh)
{
    const char *text = getenv("MANTA_EVENTS");
    char       *end;
    long        wanted = MT_RLT_EVENTS;
    if (text && text[0]) {
        wanted = strtol(text, &end, 10);
        if (*end || wanted < 0 || wanted > MT_RLT_EVENTS_MAX)
            return mt_error(MT_EINVAL, 0, "MANTA_EVENTS: how many events a worker keeps, 0 (none) to 4194304");
    }
    for (sh->event_capacity = wanted ? MT_RLT_EVENTS_MIN : 0; sh->event_capacity < wanted;)
        sh->event_capacity *= 2;
    return mt_ok();
}

void sh_events_stop(struct sh *sh)
{
    for (size_t i = 0; i < sh->rings.count; i++)
        ring_free(sh->rings.data[i]);
    mt_vec_fini(&sh->rings);
}

mt_status sh_ring_new(struct sh_conn *c, uint64_t process)
{
    struct sh      *sh = c->sh;
    struct sh_ring *ring = calloc(1, sizeof *ring);
    void           *memory = NULL;
    size_t          size = lane_events_bytes(sh->event_capacity);
    mt_status       st;
    if (!ring)
        return mt_error(MT_ENOMEM, 0, "ring of events");
    MT_TRY_GOTO(st, sh_memory_make("manta-events", size, &ring->fd, &memory), err_free);
    ring->events = memory;
    ring->events->capacity = ring->capacity = sh->event_capacity;
    ring->process = process;
    ring->pid = c->pid; /* 0: the zygote has not said it yet (sh_conn_know_pid) */
    ring->number = ++sh->next_ring;
    MT_TRY_GOTO(st, mt_vec_push(&sh->rings, ring), err_unmap);
    c->ring = ring;
    return mt_ok();
err_unmap:
    os_memory_unmap(memory, size);
    close(ring->fd);
err_free:
    free(ring);
    mt_log_status(MT_LOG_WARN, "no_events", st);
    return st;
}

static void forget_oldest(struct sh *sh)
{
    uint64_t bytes = 0;
    for (size_t i = sh->rings.count; i-- > 0;) {
        struct sh_ring *ring = sh->rings.data[i];
        if (ring->is_over)
            bytes += ring_bytes(ring);
        if (!ring->is_over || bytes <= MT_RLT_EVENTS_OVER_BYTES)
            continue;
        mt_vec_remove(&sh->rings, i);
        ring_free(ring);
    }
}

void sh_ring_over(struct sh_conn *c)
{
    struct sh_ring *ring = c->ring;
    if (!ring)
        return;
    c->ring = NULL;
    ring->is_over = true;
    ring->over_ns = mt_wall_ns();
    if (ring->fd >= 0)
        close(ring->fd);
    ring->fd = -1;
    forget_oldest(c->sh);
}

void sh_ring_running(const struct sh_ring *ring, char out[LANE_EVENT_NAME_SIZE])
{
    struct lane_event event;
    uint64_t          begun = shm_load64_acquire(&ring->events->begun);
    out[0] = 0;
    if (begun && lane_event_read(ring->events, ring->capacity, begun - 1, &event))
        lane_event_name_of(ring->events, event.function, out);
}

/* ---- rows ---------------------------------------------------------------------------------------------------------- */

struct reading {
    struct sh              *sh;
    const struct lane_look *look;
    const struct sh_ring   *ring;
    mt_id                   task; /* not zero: only this one */
    char                    node[12], pid[12];
    uint64_t                function; /* of `name` */
    char                    name[LANE_EVENT_NAME_SIZE];
    struct lane_tallies     tallies;
    int64_t                 left; /* what may still be looked at */
    struct mt_rows         *rows;
};

static enum lane_task_state state_of(const struct sh_ring *ring, struct lane_event *event)
{
    if (shm_load64(&event->ended_ns))
        return event->code ? LANE_TASK_FAILED : LANE_TASK_FINISHED;
    if (!ring->is_over)
        return LANE_TASK_RUNNING;
    event->code = MT_EWORKER_DIED;
    shm_store64(&event->ended_ns, ring->over_ns);
    return LANE_TASK_FAILED;
}

/* The code's name, or its number where it is the function's own; "" is success. */
static const char *error_text(int32_t code, char out[24])
{
    if (!code)
        return "";
    if (strcmp(mt_code_name(code), "UNKNOWN") != 0)
        return mt_code_name(code);
    snprintf(out, 24, "%d", code);
    return out;
}

/* Decimal, "" for zero. By hand and two digits at a time: a list of a million tasks has three million of them. */
static const char *number_text(uint64_t number, char out[24])
{
    static const char pairs[] =
        "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
        "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
    size_t at = 23;
    out[at] = 0;
    for (; number >= 10; number /= 100)
        memcpy(out + (at -= 2), pairs + 2 * (number % 100), 2);
    if (number)
        out[--at] = (char)('0' + number);
    return out + at;
}

static mt_status event_row(struct reading *r, struct lane_event *event, enum lane_task_state state)
{
    char        error[24], id[MT_ID_TEXT_SIZE], attempt[24], owner[20], submitted[24], started[24], ended[24];
    uint64_t    ended_ns = state == LANE_TASK_RUNNING ? 0 : shm_load64(&event->ended_ns);
    const char *why = event->code == MT_EWORKER_DIED && r->ring->is_over ? "its worker died while it ran" : NULL;
    const char *cells[LANE_LOOK_COLUMNS] = {mt_id_text(event->id, id),
                                            r->name,
                                            lane_task_state_text(state),
                                            event->attempt ? number_text(event->attempt, attempt) : "0",
                                            r->node,
                                            r->pid,
                                            mt_hex_text(event->id.process, 16, owner),
                                            number_text(event->submitted_ns, submitted),
                                            number_text(event->started_ns, started),
                                            number_text(ended_ns, ended),
                                            error_text(event->code, error),
                                            why};
    r->left -= ROW_COST;
    return sh_row_add(r->look, cells, r->rows);
}

/* One event that is there. *out_full: the table of tallies is. */
static mt_status take_event(struct reading *r, struct lane_event *event, bool *out_full)
{
    enum lane_task_state state = state_of(r->ring, event);
    char                 error[24];
    if (event->function != r->function) {
        r->function = event->function;
        lane_event_name_of(r->ring->events, event->function, r->name);
    }
    if (r->look->kind == LANE_LOOK_TASK_SUMMARY) {
        uint64_t ended = shm_load64(&event->ended_ns);
        *out_full = !lane_tallies_add(&r->tallies, event->function, state,
                                      ended > event->started_ns ? ended - event->started_ns : 0);
        return mt_ok();
    }
    if (r->task.process && !mt_id_equal(r->task, event->id))
        return mt_ok();
    if (lane_look_hides(r->look, 2, lane_task_state_text(state)) || lane_look_hides(r->look, 1, r->name) ||
        lane_look_hides(r->look, 10, error_text(event->code, error)))
        return mt_ok();
    return event_row(r, event, state);
}

/* The events of one ring, from *number (exclusive; UINT64_MAX: the newest) down. *number becomes 0 at the end. */
static mt_status read_ring(struct reading *r, uint64_t *number, uint32_t rows_max)
{
    uint64_t begun = shm_load64_acquire(&r->ring->events->begun), at = *number < begun ? *number : begun;
    uint64_t last = begun > r->ring->capacity ? begun - r->ring->capacity : 0;
    bool     is_full = false;
    for (; at > last && r->left > 0 && r->rows->count < rows_max && r->rows->bytes.size < MT_RLT_QUERY_BYTES; at--, r->left--) {
        struct lane_event event;
        if (!lane_event_read(r->ring->events, r->ring->capacity, at - 1, &event))
            break; /* overwritten meanwhile, and so is what is older */
        MT_TRY(take_event(r, &event, &is_full));
        if (is_full)
            break;
    }
    *number = at > last && (is_full || r->left <= 0 || r->rows->count >= rows_max || r->rows->bytes.size >= MT_RLT_QUERY_BYTES) ? at
                                                                                                                                : 0;
    for (uint32_t i = 0; i < r->tallies.count; i++) {
        lane_event_name_of(r->ring->events, r->tallies.items[i].function, r->name);
        struct lane_tally_row row;
        lane_tally_row_of(&r->tallies.items[i], r->name, &row);
        MT_TRY(sh_row_add(r->look, row.cells, r->rows));
    }
    r->tallies.count = 0;
    r->function = 0;
    return mt_ok();
}

static void prepare_ring(struct reading *r, const struct sh_ring *ring)
{
    r->ring = ring;
    snprintf(r->pid, sizeof r->pid, "%d", ring->pid);
    snprintf(r->node, sizeof r->node, "%u", r->sh->node);
}

static bool ring_is_hidden(const struct reading *r)
{
    return r->look->kind == LANE_LOOK_TASKS && (lane_look_hides(r->look, 4, r->node) || lane_look_hides(r->look, 5, r->pid));
}

mt_status sh_events_rows(struct sh *sh, const struct lane_look *look, uint32_t rows_max, uint64_t *ring, uint64_t *number,
                         struct mt_rows *rows, bool *out_more)
{
    struct reading r = {.sh = sh, .look = look, .left = MT_RLT_QUERY_EVENTS, .rows = rows};
    *out_more = true;
    for (uint32_t i = 0; i < look->filter_count && look->kind == LANE_LOOK_TASKS; i++)
        if (look->filters[i].column == 0 && !look->filters[i].is_not && mt_id_parse(look->filters[i].value, &r.task).code)
            r.task = (mt_id){UINT64_MAX, UINT64_MAX}; /* no id: nothing has it */
    for (size_t i = 0; i < sh->rings.count; i++) {
        const struct sh_ring *one = sh->rings.data[i];
        if (one->number < *ring)
            continue;
        if (one->number > *ring || !*number)
            *number = UINT64_MAX;
        *ring = one->number;
        prepare_ring(&r, one);
        if (ring_is_hidden(&r))
            continue;
        MT_TRY(read_ring(&r, number, rows_max));
        if (*number)
            return mt_ok();
        ++*ring;
    }
    *out_more = false;
    return mt_ok();
}
