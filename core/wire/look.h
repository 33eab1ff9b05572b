/* SPDX-License-Identifier: Apache-2.0
 *
 * look.h - how the state of a cluster is asked for and told: kinds of things, their columns, filters, rows.
 *
 * A row is as many NUL-terminated texts as its kind has columns, one behind the other. Whoever has the state makes the rows
 * and leaves out what a filter does not let through: an owner its tasks that have not ended and its actors (CTL_LOOK), a
 * raylet all that it knows of its node. Nobody looks at more than a bounded number of things for one answer; an answer ends
 * with a cursor, from which the next one goes on.
 */
#ifndef LANE_LOOK_H
#define LANE_LOOK_H

#include "core/base/buf.h"
#include "core/wire/ctl.h"

/* X(KIND, word, columns) */
/* clang-format off */
#define LANE_LOOKS(X)                                                                                                   \
    X(TASKS, "tasks", "task", "name", "state", "attempt", "node", "pid", "owner", "submitted", "started", "ended",      \
      "error", "why")                                                                                                   \
    X(TASK_SUMMARY, "task_summary", "name", "state", "count", "total_ns")                                               \
    X(ACTORS, "actors", "actor", "type", "name", "state", "restarts", "node", "pid", "owner", "why")                    \
    X(WORKERS, "workers", "process", "pid", "role", "state", "node", "job", "running", "finished", "rss", "program")    \
    X(DEMANDS, "demands", "owner", "pid", "node", "name", "resources", "wanted", "held", "why")                         \
    X(OBJECTS, "objects", "object", "size", "owner", "owner_pid", "node", "writer_pid", "pins", "pinned_by", "kind")    \
    X(NODE, "node", "node", "store_used", "store_total", "segments", "workers", "events", "events_lost", "job_quota", \
      "on_disk")   \
    X(STACKS, "stacks", "node", "pid", "role", "running", "state", "waits_in", "stack")
/* clang-format on */

enum lane_look_kind {
    LANE_LOOK_NONE,
#define X(kind, word, ...) LANE_LOOK_##kind,
    LANE_LOOKS(X)
#undef X
        LANE_LOOK_KINDS,
};

enum {
    LANE_LOOK_COLUMNS = 12,
    LANE_LOOK_FILTERS = 8,
    LANE_LOOK_VALUE_SIZE = 120,
    LANE_LOOK_CELL_SIZE = 1024,       /* a longer text is cut, but for stacks */
    LANE_LOOK_ROWS_BYTES = 14 * 1024, /* of one CTL_LOOKED */
    LANE_LOOK_TASKS_MAX = 8192,       /* looked at by an owner for one CTL_LOOKED */
};

/* X(name): the states of a task, in the order in which it goes through them; Ray's words where Ray has them. */
/* clang-format off */
#define LANE_TASK_STATES(X)                                                                                        \
    X(PENDING_ARGS_AVAIL) X(PENDING_NODE_ASSIGNMENT) X(PENDING_ACTOR) X(SUBMITTED_TO_WORKER) X(RUNNING) X(FINISHED) \
    X(FAILED)
/* clang-format on */
enum lane_task_state {
#define X(name) LANE_TASK_##name,
    LANE_TASK_STATES(X)
#undef X
        LANE_TASK_STATE_COUNT,
};

/* Words of other columns that have a few only, each list ended by NULL. A filter may name no others. */
/* clang-format off */
#define LANE_ACTOR_STATES(X)  X(PENDING_CREATION) X(ALIVE) X(RESTARTING) X(DEAD)
#define LANE_WORKER_STATES(X) X(STARTING) X(ALIVE) X(IDLE) X(LEASED) X(BLOCKED) X(ACTOR) X(DYING) X(ENDED)
/* clang-format on */
enum lane_worker_state {
#define X(name) LANE_WORKER_##name,
    LANE_WORKER_STATES(X)
#undef X
};
enum lane_value_kind { LANE_VALUE_OWN, LANE_VALUE_COPY, LANE_VALUE_SPILLED };
extern const char *const lane_actor_states[];  /* from PENDING_CREATION on, as the states of an actor go */
extern const char *const lane_worker_states[]; /* by enum lane_worker_state */
extern const char *const lane_roles[];         /* by enum ctl_role, less CTL_DRIVER */
extern const char *const lane_value_kinds[];   /* by enum lane_value_kind */

struct lane_filter {
    uint16_t column;
    uint16_t is_not;
    char     value[LANE_LOOK_VALUE_SIZE];
};

/* Payload of CTL_LOOK. */
struct lane_look {
    uint32_t           kind; /* enum lane_look_kind */
    uint32_t           filter_count;
    uint64_t           cursor; /* 0: from the beginning */
    struct lane_filter filters[LANE_LOOK_FILTERS];
};
/* Payload of CTL_LOOKED; the rows follow. */
struct lane_looked {
    uint64_t cursor; /* of the next answer; 0: this was all */
    uint32_t row_count;
    uint32_t reserved;
};

/* Number of a word; LANE_LOOK_NONE: there is no such kind. */
enum lane_look_kind lane_look_find(const char *word);
/* The columns of a kind, the last one followed by NULL. */
const char *const *lane_look_columns(enum lane_look_kind kind);
uint32_t           lane_look_column_count(enum lane_look_kind kind);
const char        *lane_task_state_text(enum lane_task_state state);
/* Takes "column=value" or "column!=value". EINVAL with a text that says what is wrong. */
MT_MUST_USE mt_status lane_look_filter(struct lane_look *look, const char *words, char *text, size_t text_size);
/* Whether a filter names `column` and does not let `value` through. */
bool lane_look_hides(const struct lane_look *look, uint32_t column, const char *value);
/* Whether the filters let a row through; cells that are NULL are empty. */
bool lane_look_shows(const struct lane_look *look, const char *const *cells);
/* How much of a text a cell has. */
size_t lane_look_cell_max(enum lane_look_kind kind);
/* Appends one row, as texts, unless a filter hides it. *rows counts it. ENOMEM. */
MT_MUST_USE mt_status lane_look_row(const struct lane_look *look, const char *const *cells, mt_buf *out, uint32_t *rows);

/* Counts by function and state, for summaries. */
enum { LANE_TALLIES_MAX = 128 };
struct lane_tally {
    uint64_t             function;
    enum lane_task_state state;
    uint64_t             count, total_ns;
};
struct lane_tallies {
    uint32_t          count, last;
    struct lane_tally items[LANE_TALLIES_MAX];
};
/* False: there is no room for one more kind. */
bool lane_tallies_add(struct lane_tallies *tallies, uint64_t function, enum lane_task_state state, uint64_t took_ns);
/* The row of one tally, whose function has that name: valid as long as `out` and the name. */
struct lane_tally_row {
    char        count[24], total[24];
    const char *cells[LANE_LOOK_COLUMNS];
};
void lane_tally_row_of(const struct lane_tally *tally, const char *name, struct lane_tally_row *out);

#endif
