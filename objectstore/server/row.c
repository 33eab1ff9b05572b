/* SPDX-License-Identifier: Apache-2.0
 *
 * row.c - see row.h.
 *
 * Owns:    ghosts, which stand for those that were cancelled; all else is the caller's.
 * Always:  a reply is the first one's: the source answers in the order of the requests.
 */
#include "objectstore/server/row.h"

#include "core/base/plant.h"

#include <stdlib.h>
#include <string.h>

struct ghost {
    struct os_row_item item;
    struct os_pull     pull;
    uint8_t            data[]; /* a value that nobody waits for */
};

static void ghost_done(struct os_row_item *item, mt_status st)
{
    (void)st;
    free(mt_container_of(item, struct ghost, item));
}

static bool is_ghost(const struct os_row_item *item)
{
    return item->done == ghost_done;
}

void os_row_init(struct os_row *row)
{
    *row = (struct os_row){.last = &row->first};
}

void os_row_add(struct os_row *row, struct os_row_item *item, struct os_wire_request *out)
{
    os_pull_go_on(item->pull, row->serial++);
    (void)os_pull_request(item->pull, out);
    item->behind = NULL;
    item->row = row;
    *row->last = item;
    row->last = &item->behind;
    row->count++;
}

static struct os_row_item *pop(struct os_row *row)
{
    struct os_row_item *item = row->first;
    row->first = item->behind;
    if (!row->first)
        row->last = &row->first;
    row->count--;
    item->row = NULL;
    return item;
}

bool os_row_cancel(struct os_row_item *item)
{
    struct os_row       *row = item->row;
    struct os_row_item **at = &row->first;
    struct ghost        *ghost = calloc(1, sizeof *ghost + item->pull->ref.size);
    while (*at != item)
        at = &(*at)->behind;
    item->row = NULL;
    if (!ghost) {
        *at = item->behind;
        if (!*at)
            row->last = at;
        row->count--;
        return false;
    }
    ghost->pull = *item->pull;
    ghost->pull.data = ghost->data;
    ghost->item = (struct os_row_item){.done = ghost_done, .pull = &ghost->pull, .row = row, .behind = item->behind};
    *at = &ghost->item;
    if (!ghost->item.behind)
        row->last = &ghost->item.behind;
    return true;
}

/* The first one has its answer. False: the row can't go on. */
static bool answered(struct os_row *row, mt_status st)
{
    struct os_row_item *item = pop(row);
    bool                goes_on = st.code == MT_OK || os_pull_is_refused_alone(item->pull);
    goes_on |= is_ghost(item) && st.code == MT_ECORRUPT; /* its first bytes are elsewhere */
    item->done(item, st);                                /* the item may be gone after this line */
    return goes_on;
}

mt_status os_row_take(struct os_row *row, const uint8_t *bytes, size_t size, int64_t now_ms)
{
    row->was_idle = row->was_idle && !size;
    while (size) {
        struct os_row_item *item = row->first;
        void               *at;
        size_t              room;
        if (!item)
            return mt_error(MT_EPROTO, 0, "fetch: more than was asked for");
        os_pull_room(item->pull, &at, &room);
        room = room < size ? room : size;
        memcpy(at, bytes, room);
        bytes += room;
        size -= room;
        mt_status st = os_pull_received(item->pull, room, now_ms);
        bool      is_whole = item->pull->done || (item->pull->in_body && item->pull->received && MT_PLANT(MT_PLANT_ROW_SHORT));
        if ((st.code || is_whole) && !answered(row, st))
            return st;
    }
    return mt_ok();
}

bool os_row_begins_anew(const struct os_row *row, mt_status st)
{
    bool is_of_one = st.code != MT_ECONN && st.code != MT_EFENCED; /* which has heard of it; the connection is not to be trusted */
    return is_of_one || row->was_idle;
}

struct os_row_item *os_row_pop(struct os_row *row)
{
    while (row->first) {
        struct os_row_item *item = pop(row);
        if (is_ghost(item))
            free(mt_container_of(item, struct ghost, item));
        else if (row->first || !MT_PLANT(MT_PLANT_ROW_FORGETS))
            return item;
    }
    return NULL;
}
