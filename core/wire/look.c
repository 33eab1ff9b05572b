/* SPDX-License-Identifier: Apache-2.0
 *
 * look.c - columns, filters and rows of what is told about the state of a cluster.
 *
 * Owns: nothing. Thread: any.
 */
#include "core/wire/look.h"

#include "core/text/near.h"

#include <inttypes.h>
#include <stdio.h>

static const struct {
    const char *word;
    const char *columns[LANE_LOOK_COLUMNS + 1];
} kinds[LANE_LOOK_KINDS] = {
#define X(kind, word, ...) [LANE_LOOK_##kind] = {word, {__VA_ARGS__, NULL}},
    LANE_LOOKS(X)
#undef X
};

static const char *const state_texts[] = {
#define X(name) #name,
    LANE_TASK_STATES(X) NULL,
};
const char *const lane_actor_states[] = {LANE_ACTOR_STATES(X) NULL};
const char *const lane_worker_states[] = {LANE_WORKER_STATES(X) NULL};
#undef X
const char *const lane_roles[] = {"driver", "zygote", "worker", NULL};
const char *const lane_value_kinds[] = {"value", "copy", "spilled", NULL};

static const struct {
    enum lane_look_kind kind;
    const char *column, *const *words;
} closed[] = {
    {LANE_LOOK_TASKS, "state", state_texts},         {LANE_LOOK_TASK_SUMMARY, "state", state_texts},
    {LANE_LOOK_ACTORS, "state", lane_actor_states},  {LANE_LOOK_WORKERS, "state", lane_worker_states},
    {LANE_LOOK_WORKERS, "role", lane_roles},         {LANE_LOOK_OBJECTS, "kind", lane_value_kinds},
    {LANE_LOOK_STACKS, "state", lane_worker_states}, {LANE_LOOK_STACKS, "role", lane_roles},
};

enum lane_look_kind lane_look_find(const char *word)
{
    for (int i = 1; i < LANE_LOOK_KINDS; i++)
        if (strcmp(kinds[i].word, word) == 0)
            return (enum lane_look_kind)i;
    return LANE_LOOK_NONE;
}

const char *const *lane_look_columns(enum lane_look_kind kind)
{
    MT_ASSERT(kind > LANE_LOOK_NONE && kind < LANE_LOOK_KINDS);
    return kinds[kind].columns;
}

uint32_t lane_look_column_count(enum lane_look_kind kind)
{
    uint32_t count = 0;
    MT_ASSERT(kind > LANE_LOOK_NONE && kind < LANE_LOOK_KINDS);
    while (kinds[kind].columns[count])
        count++;
    return count;
}

const char *lane_task_state_text(enum lane_task_state state)
{
    return (unsigned)state < LANE_TASK_STATE_COUNT ? state_texts[state] : "UNKNOWN";
}

static void list_columns(enum lane_look_kind kind, char *text, size_t size)
{
    size_t at = strlen(text);
    for (const char *const *column = kinds[kind].columns; *column && at < size; column++)
        at += (size_t)snprintf(text + at, size - at, " %s", *column);
}

/* EINVAL: the column has a few words only, and never this one. */
static mt_status value_check(enum lane_look_kind kind, const char *column, const char *value, char *text, size_t text_size)
{
    char known[400];
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++)
        if (closed[i].kind == kind && strcmp(closed[i].column, column) == 0 &&
            !mt_word_is_of(value, closed[i].words, known, sizeof known)) {
            snprintf(text, text_size, "filter: no %s of %s is \"%.60s\"; %s", column, kinds[kind].word, value, known);
            return mt_error(MT_EINVAL, 0, "filter");
        }
    return mt_ok();
}

mt_status lane_look_filter(struct lane_look *look, const char *words, char *text, size_t text_size)
{
    enum lane_look_kind kind = (enum lane_look_kind)look->kind;
    const char         *equals = strchr(words, '=');
    MT_ASSERT(kind > LANE_LOOK_NONE && kind < LANE_LOOK_KINDS && look->filter_count <= LANE_LOOK_FILTERS);
    bool                is_not = equals && equals > words && equals[-1] == '!';
    size_t              length = equals ? (size_t)(equals - words) - is_not : 0;
    struct lane_filter *f = &look->filters[look->filter_count];
    if (!length || strlen(equals + 1) >= sizeof f->value) {
        snprintf(text, text_size, "filter \"%.100s\": KEY=VALUE or KEY!=VALUE is wanted, VALUE shorter than %d", words,
                 LANE_LOOK_VALUE_SIZE);
        return mt_error(MT_EINVAL, 0, "filter");
    }
    if (look->filter_count == LANE_LOOK_FILTERS) {
        snprintf(text, text_size, "more than %d filters", LANE_LOOK_FILTERS);
        return mt_error(MT_EINVAL, 0, "filter");
    }
    for (uint16_t i = 0; kinds[kind].columns[i]; i++) {
        if (strlen(kinds[kind].columns[i]) != length || strncmp(kinds[kind].columns[i], words, length))
            continue;
        MT_TRY(value_check(kind, kinds[kind].columns[i], equals + 1, text, text_size));
        f->column = i;
        f->is_not = is_not;
        snprintf(f->value, sizeof f->value, "%s", equals + 1);
        look->filter_count++;
        return mt_ok();
    }
    snprintf(text, text_size, "filter \"%.100s\": %s have no such key; they have", words, kinds[kind].word);
    list_columns(kind, text, text_size);
    return mt_error(MT_EINVAL, 0, "filter");
}

bool lane_look_hides(const struct lane_look *look, uint32_t column, const char *value)
{
    for (uint32_t i = 0; i < look->filter_count; i++) {
        const struct lane_filter *f = &look->filters[i];
        if (f->column == column && (strncmp(f->value, value, sizeof f->value) == 0) == f->is_not)
            return true;
    }
    return false;
}

bool lane_look_shows(const struct lane_look *look, const char *const *cells)
{
    uint32_t columns = lane_look_column_count((enum lane_look_kind)look->kind);
    for (uint32_t i = 0; i < look->filter_count; i++) {
        uint32_t    column = look->filters[i].column; /* another process's word */
        const char *cell = column < columns ? cells[column] : NULL;
        if (column < columns && lane_look_hides(look, column, cell ? cell : ""))
            return false;
    }
    return true;
}

size_t lane_look_cell_max(enum lane_look_kind kind)
{
    return kind == LANE_LOOK_STACKS ? 16 * LANE_LOOK_CELL_SIZE : LANE_LOOK_CELL_SIZE;
}

mt_status lane_look_row(const struct lane_look *look, const char *const *cells, mt_buf *out, uint32_t *rows)
{
    uint32_t count = lane_look_column_count((enum lane_look_kind)look->kind);
    size_t   size = 0, lengths[LANE_LOOK_COLUMNS], most = lane_look_cell_max((enum lane_look_kind)look->kind);
    if (!lane_look_shows(look, cells))
        return mt_ok();
    for (uint32_t i = 0; i < count; i++) {
        lengths[i] = cells[i] ? strnlen(cells[i], most) : 0;
        size += lengths[i] + 1;
    }
    MT_TRY(mt_buf_reserve(out, size));
    for (uint32_t i = 0; i < count; i++) {
        if (lengths[i])
            MT_TRY(mt_buf_append(out, cells[i], lengths[i]));
        MT_TRY(mt_buf_append(out, "", 1));
    }
    ++*rows;
    return mt_ok();
}

bool lane_tallies_add(struct lane_tallies *tallies, uint64_t function, enum lane_task_state state, uint64_t took_ns)
{
    MT_ASSERT(tallies->count <= LANE_TALLIES_MAX && tallies->last < LANE_TALLIES_MAX);
    struct lane_tally *g = &tallies->items[tallies->last];
    if (tallies->count == 0 || g->function != function || g->state != state) {
        uint32_t i = 0;
        while (i < tallies->count && (tallies->items[i].function != function || tallies->items[i].state != state))
            i++;
        if (i == LANE_TALLIES_MAX)
            return false;
        g = &tallies->items[i];
        if (i == tallies->count)
            *g = (struct lane_tally){.function = function, .state = state}, tallies->count++;
        tallies->last = i;
    }
    g->count++;
    g->total_ns += took_ns;
    return true;
}

void lane_tally_row_of(const struct lane_tally *tally, const char *name, struct lane_tally_row *out)
{
    *out = (struct lane_tally_row){.cells = {name, lane_task_state_text(tally->state), out->count, out->total}};
    snprintf(out->count, sizeof out->count, "%" PRIu64, tally->count);
    snprintf(out->total, sizeof out->total, "%" PRIu64, tally->total_ns);
}
