/* SPDX-License-Identifier: Apache-2.0
 *
 * told.c - rows of many answers put together to one list: handed on one by one, or kept.
 *
 * A task may be told of twice, by its owner and by the worker that runs it, and the worker's word takes the place of the owner's.
 * So from the first task on that has not ended, rows are kept until all answers are there; before it they are handed on at once.
 *
 * Owns: the texts of what it keeps. Thread: the caller's.
 */
#include "clients/control/told.h"
#include "core/ds/living.h"
#include "core/ds/map.h"
#include "core/ds/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT_DEFAULT = 100, CHUNK_BYTES = 1 << 20 };
enum { TASK_ID, TASK_ATTEMPT = 3, TASK_STARTED = 8, TASK_ENDED, TASK_CELLS }; /* columns of core/wire/look.h */

static struct mt_living living = MT_LIVING_INIT;

struct chunk {
    struct chunk *next;
    size_t        used, size;
    char          bytes[];
};

struct ctl_told {
    manta_rows         rows; /* first: what the caller gets */
    manta_state_row_fn each; /* NULL: all rows are kept */
    void              *user;
    size_t             limit, given;
    uint64_t           changed; /* cells since the last row that was given */
    bool               is_tasks, keeps, is_over;
    MT_VEC(const char *) cells;              /* of the rows that are kept, in `chunks` */
    const char   *kept[MT_ROWS_COLUMNS_MAX]; /* of the present row: the cell in `chunks`; NULL: it is not there */
    const char   *columns[MT_ROWS_COLUMNS_MAX];
    mt_map        tasks; /* (task, attempt) -> kept row */
    struct chunk *chunks;
};

struct ctl_told *ctl_told_new(const manta_look *look, manta_state_row_fn each, void *user)
{
    struct ctl_told *t = mt_living_new(&living, sizeof *t);
    if (!t)
        return NULL;
    t->limit = look->limit ? look->limit : LIMIT_DEFAULT;
    t->is_tasks = strcmp(look->kind, "tasks") == 0;
    t->each = each;
    t->user = user;
    t->keeps = !each;
    return t;
}

void ctl_told_free(struct ctl_told *t)
{
    if (!mt_living_remove(&living, &t->rows))
        return;
    for (struct chunk *chunk = t->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    mt_vec_fini(&t->cells);
    mt_map_fini(&t->tasks);
    mt_living_free(&living, t);
}

void manta_rows_free(manta_rows *rows)
{
    if (rows)
        ctl_told_free(mt_container_of(rows, struct ctl_told, rows));
}

/* A copy for as long as the list lives. NULL: no memory. */
static const char *text_keep(struct ctl_told *t, const char *text)
{
    size_t        size = strlen(text) + 1;
    struct chunk *chunk = t->chunks;
    if (size == 1)
        return "";
    if (!chunk || chunk->size - chunk->used < size) {
        size_t room = size > CHUNK_BYTES ? size : CHUNK_BYTES;
        chunk = malloc(sizeof *chunk + room);
        if (!chunk)
            return NULL;
        *chunk = (struct chunk){.next = t->chunks, .size = room};
        t->chunks = chunk;
    }
    chunk->used += size;
    return memcpy(chunk->bytes + chunk->used - size, text, size);
}

/* ---- rows ---------------------------------------------------------------------------------------------------------- */

static size_t kept_rows(const struct ctl_told *t)
{
    return t->rows.column_count ? t->cells.count / t->rows.column_count : 0;
}

static void row_give(struct ctl_told *t, const char *const *cells, uint64_t changed)
{
    manta_state_row row = {.column_count = t->rows.column_count, .columns = t->rows.columns, .cells = cells, .changed = changed};
    t->given++;
    t->is_over = !t->each(t->user, &row);
    t->rows.is_cut |= t->is_over;
}

/* The kept row that tells of the same attempt of the same task, or SIZE_MAX. Tasks that have ended are not noted, only looked
 * for: their owner tells of them no more, and they may be a million. */
static size_t same_task(struct ctl_told *t, const char *const *cells)
{
    mt_id         id;
    mt_map_entry *found;
    bool          has_ended = cells[TASK_ENDED][0] != '\0';
    if ((has_ended && !t->tasks.count) || mt_id_parse(cells[TASK_ID], &id).code)
        return SIZE_MAX;
    id = mt_id_with_index(id, (uint16_t)strtoul(cells[TASK_ATTEMPT], NULL, 10));
    found = mt_map_find(&t->tasks, id);
    if (found)
        return found->value.num;
    if (!has_ended) /* without memory it is shown twice */
        (void)mt_map_put_num(&t->tasks, id, kept_rows(t)).code;
    return SIZE_MAX;
}

/* Keeps the row as number `at`, or behind the others. A cell that is as in the row before is kept once. */
static mt_status row_keep(struct ctl_told *t, const struct mt_rows_reader *reader, size_t at)
{
    for (size_t i = 0; i < reader->columns; i++) {
        if (!t->kept[i])
            t->kept[i] = text_keep(t, reader->cells[i]);
        if (!t->kept[i])
            return mt_error(MT_ENOMEM, 0, "keep a row");
        if (at != SIZE_MAX)
            t->cells.data[at * reader->columns + i] = t->kept[i];
        else
            MT_TRY(mt_vec_push(&t->cells, t->kept[i]));
    }
    return mt_ok();
}

static mt_status row_take(struct ctl_told *t, const struct mt_rows_reader *reader)
{
    size_t at = SIZE_MAX;
    t->changed |= reader->changed;
    for (uint32_t todo = reader->changed; todo; todo &= todo - 1)
        t->kept[__builtin_ctz(todo)] = NULL;
    if (t->is_tasks) {
        t->keeps |= reader->cells[TASK_ENDED][0] == '\0';
        at = same_task(t, reader->cells);
    }
    if (at != SIZE_MAX && !reader->cells[TASK_STARTED][0])
        return mt_ok();
    if (t->keeps)
        return row_keep(t, reader, at);
    row_give(t, reader->cells, t->changed);
    t->changed = 0;
    return mt_ok();
}

/* ---- answers ------------------------------------------------------------------------------------------------------- */

static mt_status columns_take(struct ctl_told *t, const Manta__V1__QueryReply *reply)
{
    bool is_first = !t->rows.columns;
    if (reply->n_columns == 0 || reply->n_columns > MT_ROWS_COLUMNS_MAX || (t->is_tasks && reply->n_columns < TASK_CELLS) ||
        (!is_first && reply->n_columns != t->rows.column_count))
        return mt_error(MT_EPROTO, 0, "columns that these rows do not have");
    for (size_t i = 0; i < reply->n_columns && is_first; i++) {
        t->columns[i] = text_keep(t, reply->columns[i]);
        if (!t->columns[i])
            return mt_error(MT_ENOMEM, 0, "keep the columns");
    }
    t->rows.columns = t->columns;
    t->rows.column_count = reply->n_columns;
    return mt_ok();
}

mt_status ctl_told_take(struct ctl_told *t, const Manta__V1__QueryReply *reply)
{
    struct mt_rows_reader reader;
    mt_status             st;
    MT_TRY(columns_take(t, reply));
    MT_TRY(mt_rows_read(&reader, mt_view_of(reply->rows.data, reply->rows.len), reply->n_columns, reply->count));
    t->changed = UINT64_MAX;
    memset(t->kept, 0, sizeof t->kept);
    for (;;) {
        st = mt_rows_next(&reader);
        if (st.code)
            break;
        if (!ctl_told_room(t)) {
            ctl_told_cut(t);
            break;
        }
        st = row_take(t, &reader);
        if (st.code)
            break;
    }
    mt_rows_read_fini(&reader);
    return st.code == MT_ENOENT ? mt_ok() : st;
}

size_t ctl_told_room(const struct ctl_told *t)
{
    size_t have = t->given + kept_rows(t);
    return t->is_over || have >= t->limit ? 0 : t->limit - have;
}

void ctl_told_cut(struct ctl_told *t)
{
    t->rows.is_cut = true;
}

void ctl_told_notice(struct ctl_told *t, const char *text)
{
    size_t at = strlen(t->rows.notice);
    if (text[0] && !strstr(t->rows.notice, text))
        snprintf(t->rows.notice + at, sizeof t->rows.notice - at, "%s%s", at ? "\n" : "", text);
}

manta_rows *ctl_told_end(struct ctl_told *t)
{
    size_t columns = t->rows.column_count, kept = kept_rows(t);
    for (size_t r = 0; r < kept && t->each && !t->is_over; r++) {
        const char *const *cells = t->cells.data + r * columns;
        uint64_t           changed = r ? 0 : UINT64_MAX;
        for (size_t i = 0; i < columns && r; i++)
            changed |= (uint64_t)(cells[i] != cells[(ptrdiff_t)i - (ptrdiff_t)columns]) << i;
        row_give(t, cells, changed);
    }
    t->rows.cells = t->each ? NULL : t->cells.data;
    t->rows.count = t->each ? t->given : kept;
    return &t->rows;
}
