/* SPDX-License-Identifier: Apache-2.0
 *
 * row.h - many small objects over one connection: what was asked for one behind the other, and whose the bytes are that come.
 *
 *   os_row_add: request | request | request -->  source (pull.h)
 *   os_row_take: reply, bytes | reply, bytes <--
 *
 *   a refusal --OS_WIRE_GOES_ON--> the others wait on
 *      '--from an older source, or a damaged value--> the connection ends, and the others begin anew on another one
 *   it ends while it was kept for the next value, before a byte of that one--> the same: the source had closed it meanwhile
 *   it ends otherwise--> all that wait on it fail
 *
 * No system call or clock here; transfer/line.c is the shell, and the simulation has one of its own.
 * Thread: any, one at a time per struct.
 */
#ifndef OS_ROW_H
#define OS_ROW_H

#include "objectstore/server/pull.h"

struct os_row;

/* One of them. Stands in its row from add until `done` or cancel, whichever is first, and then in none. */
struct os_row_item {
    void (*done)(struct os_row_item *item, mt_status st); /* answered; the item may be gone behind it */
    struct os_pull *pull;                                 /* one chunk, begun by the caller */

    /* private */
    struct os_row      *row; /* NULL: none */
    struct os_row_item *behind;
};

/* Those of one connection, in the order of their requests. */
struct os_row {
    struct os_row_item *first, **last;
    uint32_t            count;
    uint32_t            serial;   /* of the next request */
    bool                was_idle; /* since the last byte that has come: the connection's end may be news */
};

void os_row_init(struct os_row *row);
/* The last one from now on; `out` is what the source is to be sent for it. */
void os_row_add(struct os_row *row, struct os_row_item *item, struct os_wire_request *out);
/* Nobody waits for it any more: what comes for it goes into memory of the row's own (a ghost). False: there is none, and the row
 * can't go on: its connection is to be ended, as one that the source has closed. */
bool os_row_cancel(struct os_row_item *item);
/* Bytes have come. An error: the connection is over. */
MT_MUST_USE mt_status os_row_take(struct os_row *row, const uint8_t *bytes, size_t size, int64_t now_ms);
/* All that came together was taken: with nothing under way, what comes next may be the end. */
static inline void os_row_rests(struct os_row *row)
{
    row->was_idle = row->was_idle || !row->count;
}
/* The connection is over, by `st`: those who wait begin anew on another one; else they fail. */
bool os_row_begins_anew(const struct os_row *row, mt_status st);
/* Then, one after the other: the first that somebody waits for, in no row any more. NULL: there is none. */
struct os_row_item *os_row_pop(struct os_row *row);

#endif
