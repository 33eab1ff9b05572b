/* SPDX-License-Identifier: Apache-2.0
 *
 * look.c - questions about the state of this node: read, answered or passed to a process, never kept long.
 *
 * Owns: the questions that wait for a process. Thread: the loop only.
 * Always: each is answered once, with a bounded number of rows after a bounded amount of work; its cursor says where the
 * next one goes on: "P<process>" the first owner after that one, "p<process>:<place>" inside an owner, "e<ring>:<number>" in
 * the rings of events, "w<number>:<number>" in what the raylet itself knows.
 */
#include "core/base/limits/raylet.h"
#include "core/base/limits/text.h"
#include "raylet/shell/conn/conn.h"
#include "raylet/shell/look/look.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct asked {               /* a process, and by whom */
    uint64_t         number; /* of the head's order */
    uint64_t         process;
    int32_t          pid;
    mt_id            id;
    uint64_t         due_ms;
    struct lane_look look;
};

struct sh_looks {
    struct sh      *sh;
    struct io_timer timer;
    uint64_t        next;
    mt_map          asked; /* id -> struct asked */
};

/* ---- the cursor ----------------------------------------------------------------------------------------------------- */

static bool cursor_read(const char *text, struct sh_cursor *out)
{
    char *end;
    *out = (struct sh_cursor){0};
    if (!text[0])
        return true;
    out->stage = text[0];
    out->at[0] = strtoull(text + 1, &end, 16);
    if (*end != ':' || !strchr("Ppew", out->stage))
        return false;
    out->at[1] = strtoull(end + 1, &end, 16);
    return *end == 0;
}

/* ---- asking processes ---------------------------------------------------------------------------------------------- */

struct next_owner {
    uint64_t             after;
    struct rlt_proc_view found;
};

static void look_for_owner(void *user, const struct rlt_proc_view *view)
{
    struct next_owner *n = user;
    if (view->is_owner && view->process > n->after && (!n->found.process || view->process < n->found.process))
        n->found = *view;
}

/* The owner to ask: the one that the cursor is in, or the first after it. False: there is none. */
static bool owner_find(struct sh *sh, const struct sh_cursor *at, struct rlt_proc_view *out)
{
    struct next_owner n = {.after = at->stage == 'p' ? at->at[0] - 1 : at->at[0]};
    rlt_each_proc(sh->core, look_for_owner, &n);
    *out = n.found;
    return n.found.process != 0;
}

static void asked_free(struct sh_looks *looks, struct asked *a)
{
    mt_map_remove(&looks->asked, a->id);
    free(a);
}

static void set_timer(struct sh_looks *looks)
{
    uint64_t due = UINT64_MAX, now = io_now_ms();
    MT_MAP_EACH(&looks->asked, entry)
        due = ((struct asked *)entry->value.ptr)->due_ms < due ? ((struct asked *)entry->value.ptr)->due_ms : due;
    if (due == UINT64_MAX)
        io_timer_stop(&looks->timer);
    else
        io_timer_start(looks->sh->loop, &looks->timer, due > now ? due - now : 1);
}

static bool ask(struct sh *sh, uint64_t number, const struct lane_look *look, const struct rlt_proc_view *owner, uint64_t place)
{
    struct sh_looks *looks = sh->looks;
    struct asked    *a = looks->asked.count < MT_RLT_QUERIES_MAX ? calloc(1, sizeof *a) : NULL;
    if (!a)
        return false;
    *a = (struct asked){.number = number, .process = owner->process, .pid = owner->pid, .look = *look};
    a->id = mt_id_make(1, ++looks->next, 0);
    a->due_ms = io_now_ms() + MT_RLT_LOOK_MS;
    a->look.cursor = place;
    if (mt_map_put_ptr(&looks->asked, a->id, a).code) {
        free(a);
        return false;
    }
    sh_send_down(sh, owner->conn, CTL_LOOK, a->id, &a->look, sizeof a->look);
    set_timer(looks);
    return true;
}

/* A process that is busy in the user's code and has no helper thread, or hangs: the answer says so and goes on. */
static void timer_fired(struct io_timer *timer)
{
    struct sh_looks *looks = mt_container_of(timer, struct sh_looks, timer);
    uint64_t         now = io_now_ms();
    MT_MAP_EACH(&looks->asked, entry) {
        struct asked    *a = entry->value.ptr;
        struct sh_cursor next = {'P', {a->process, 0}};
        char             notice[128];
        if (a->due_ms > now)
            continue;
        snprintf(notice, sizeof notice, "process pid %d on node %u has not answered: what it has submitted is missing", a->pid,
                 looks->sh->node);
        sh_look_answer(looks->sh, a->number, (enum lane_look_kind)a->look.kind, NULL, &next, notice);
        asked_free(looks, a);
    }
    set_timer(looks);
}

/* ---- what a process tells ------------------------------------------------------------------------------------------ */

/* "\1<class> <what the owner knows>": this node knows why there is no worker for it. */
static const char *why_text(struct sh *sh, uint64_t owner, const char *cell, char *out, size_t size)
{
    struct rlt_class_view view;
    char                 *end;
    unsigned long         class_id;
    if (cell[0] != '\1')
        return cell;
    class_id = strtoul(cell + 1, &end, 10);
    if (rlt_class_look(sh->core, owner, (uint32_t)class_id, &view))
        snprintf(out, size, "needs %s: %s", view.resources, view.why);
    else
        snprintf(out, size, "no worker is leased for it yet");
    return out;
}

/* Takes whole rows, their last cell made readable. False: they are not what the kind's rows are. */
static bool take_rows(struct sh *sh, const struct asked *a, const char *bytes, size_t size, uint32_t count, struct mt_rows *out)
{
    uint32_t    columns = lane_look_column_count((enum lane_look_kind)a->look.kind);
    bool        has_why = a->look.kind != LANE_LOOK_TASK_SUMMARY;
    const char *at = bytes, *end = bytes + size;
    for (uint32_t row = 0; row < count; row++) {
        const char *cells[LANE_LOOK_COLUMNS];
        char        text[LANE_LOOK_CELL_SIZE];
        for (uint32_t column = 0; column < columns; column++) {
            size_t length = strnlen(at, (size_t)(end - at));
            if (at + length == end)
                return false; /* its NUL is missing */
            cells[column] = at;
            at += length + 1;
        }
        if (has_why)
            cells[columns - 1] = why_text(sh, a->process, cells[columns - 1], text, sizeof text);
        if (mt_rows_add(out, columns, cells, lane_look_cell_max((enum lane_look_kind)a->look.kind)).code)
            return false;
    }
    return at == end;
}

bool sh_look_record(struct sh *sh, const struct rlt_ev_record *e)
{
    size_t             size = e->record.length - LANE_RECORD_SIZE;
    struct asked      *a = mt_map_ptr(&sh->looks->asked, e->record.id);
    struct lane_looked told;
    struct sh_cursor   next = {'P', {0, 0}};
    struct mt_rows     rows = {0};
    struct sh_conn    *c = sh_conn_find(sh, e->conn);
    if (e->record.kind != CTL_LOOKED)
        return false;
    if (!a || !c || c->process != a->process || size < sizeof told)
        return true; /* it came too late, or is somebody else's to tell */
    memcpy(&told, e->payload, sizeof told);
    next.at[0] = a->process;
    if (told.cursor)
        next = (struct sh_cursor){'p', {a->process, told.cursor}};
    if (take_rows(sh, a, (const char *)e->payload + sizeof told, size - sizeof told, told.row_count, &rows))
        sh_look_answer(sh, a->number, (enum lane_look_kind)a->look.kind, &rows, &next, NULL);
    else
        sh_look_refuse(sh, a->number, MT_EPROTO, "a process tells of itself what cannot be read");
    mt_rows_fini(&rows);
    asked_free(sh->looks, a);
    set_timer(sh->looks);
    return true;
}

/* ---- orders of the head -------------------------------------------------------------------------------------------- */

static void answer_events(struct sh *sh, uint64_t number, const struct lane_look *look, uint32_t rows_max, struct sh_cursor at)
{
    struct mt_rows rows = {0};
    bool           more = false;
    mt_status      st;
    if (at.stage != 'e')
        at = (struct sh_cursor){'e', {0, 0}};
    st = sh_events_rows(sh, look, rows_max, &at.at[0], &at.at[1], &rows, &more);
    if (!more)
        at.stage = 0;
    if (st.code)
        sh_look_refuse(sh, number, st.code, st.what);
    else
        sh_look_answer(sh, number, (enum lane_look_kind)look->kind, &rows, &at,
                       sh->event_capacity ? NULL : "MANTA_EVENTS is 0 on this node: tasks that ran are not known");
    mt_rows_fini(&rows);
}

static void answer_page(struct sh *sh, uint64_t number, const struct lane_look *look, uint32_t rows_max, struct sh_cursor at,
                        mt_status (*tell)(struct sh *, struct sh_page *))
{
    struct sh_page   page = {.look = look, .rows_max = rows_max, .at = {at.at[0], at.at[1]}};
    mt_status        st = tell(sh, &page);
    struct sh_cursor next = {page.has_more ? 'w' : 0, {page.at[0], page.at[1]}};
    if (st.code)
        sh_look_refuse(sh, number, st.code, st.what);
    else
        sh_look_answer(sh, number, (enum lane_look_kind)look->kind, &page.rows, &next, NULL);
    mt_rows_fini(&page.rows);
}

/* What owners know first, then what the rings hold. */
static void answer_owners(struct sh *sh, uint64_t number, const struct lane_look *look, uint32_t rows_max, struct sh_cursor at)
{
    struct rlt_proc_view owner;
    if (at.stage != 'e' && owner_find(sh, &at, &owner)) {
        bool is_in = at.stage == 'p' && owner.process == at.at[0];
        if (!ask(sh, number, look, &owner, is_in ? at.at[1] : 0))
            sh_look_refuse(sh, number, MT_EAGAIN, "too many questions are under way on this node");
    } else if (look->kind == LANE_LOOK_ACTORS) {
        sh_look_answer(sh, number, LANE_LOOK_ACTORS, NULL, NULL, NULL);
    } else {
        answer_events(sh, number, look, rows_max, at);
    }
}

static void look_around(struct sh *sh, uint64_t number, const struct lane_look *look, uint32_t rows_max, struct sh_cursor at)
{
    switch ((enum lane_look_kind)look->kind) {
    case LANE_LOOK_TASKS:
    case LANE_LOOK_TASK_SUMMARY:
    case LANE_LOOK_ACTORS: answer_owners(sh, number, look, rows_max, at); break;
    case LANE_LOOK_WORKERS: answer_page(sh, number, look, rows_max, at, sh_tell_workers); break;
    case LANE_LOOK_DEMANDS: answer_page(sh, number, look, rows_max, at, sh_tell_demands); break;
    case LANE_LOOK_OBJECTS: answer_page(sh, number, look, rows_max, at, sh_tell_objects); break;
    case LANE_LOOK_NODE: answer_page(sh, number, look, rows_max, at, sh_tell_node); break;
    case LANE_LOOK_STACKS: sh_stacks(sh, number, look, at); break;
    default: sh_look_refuse(sh, number, MT_EUNSUPPORTED, "this node does not know such things");
    }
}

void sh_look_order(struct sh *sh, const Manta__V1__QueryOrder *order)
{
    const Manta__V1__QueryRequest *q = order->request;
    struct lane_look               look = {.kind = q ? lane_look_find(q->kind) : LANE_LOOK_NONE};
    struct sh_cursor               at;
    uint32_t                       rows_max;
    char                           text[MT_ERROR_BYTES_MAX];
    if (look.kind == LANE_LOOK_NONE) {
        sh_look_refuse(sh, order->number, MT_EINVAL, "there is no such kind of thing to list");
        return;
    }
    if (!cursor_read(q->cursor, &at)) {
        sh_look_refuse(sh, order->number, MT_EINVAL, "the cursor is not one of ours");
        return;
    }
    for (size_t i = 0; i < q->n_filters; i++) {
        if (lane_look_filter(&look, q->filters[i], text, sizeof text).code) {
            sh_look_refuse(sh, order->number, MT_EINVAL, text);
            return;
        }
    }
    rows_max = q->limit && q->limit < MT_RLT_QUERY_ROWS ? q->limit : MT_RLT_QUERY_ROWS;
    look_around(sh, order->number, &look, rows_max, at);
}

/* ---- start and end ------------------------------------------------------------------------------------------------- */

mt_status sh_looks_start(struct sh *sh)
{
    sh->looks = calloc(1, sizeof *sh->looks);
    if (!sh->looks)
        return mt_error(MT_ENOMEM, 0, "questions");
    sh->looks->sh = sh;
    sh->looks->timer.fire = timer_fired;
    return mt_ok();
}

void sh_looks_stop(struct sh *sh)
{
    if (!sh->looks)
        return;
    io_timer_stop(&sh->looks->timer);
    MT_MAP_EACH(&sh->looks->asked, entry)
        free(entry->value.ptr);
    mt_map_fini(&sh->looks->asked);
    free(sh->looks);
    sh->looks = NULL;
}
