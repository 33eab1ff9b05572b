/* SPDX-License-Identifier: Apache-2.0
 *
 * board.h - where rank 0 of a group tells the driver what happens, without a message.
 *
 *   region:  0                                                         SGD_BOARD_SIZE
 *            +------+--------+-------------------------+-------+------+------------------
 *            | head | pulses | notes, a ring of them   | tails | pids | the group
 *            +------+--------+-------------------------+-------+------+------------------
 *
 * One writer at a time: rank 0 of the living generation. A new generation is formed only when the last one's members
 * are dead or back, so the writer changes between notes. A note counts once `head` is past it; what a writer left half
 * written when it died is overwritten. The reader trusts nothing, and misses notes where it comes too late.
 */
#ifndef SGD_BOARD_H
#define SGD_BOARD_H

#include "core/base/clock.h"
#include "core/base/limits/train.h"
#include "core/base/status.h"
#include "core/sys/tail.h"
#include "sgd/train/trainer.h"

#include <stdatomic.h>
#include <stdbool.h>

enum {
    SGD_BOARD_SIZE = 1024 * 1024, /* few pages of it are ever used by a run that reports once a second */
    SGD_NOTE_TEXT = 224,
    SGD_NOTE_VALUES = 16,
    SGD_HANDS_MAX = MT_GROUP_MEMBERS_MAX + MT_TRAIN_SPARES_MAX,
    SGD_HAND_WORDS = (SGD_HANDS_MAX + 63) / 64,
};

/* Some of the driver's hands: a bit for each. */
struct sgd_hand_set {
    uint64_t words[SGD_HAND_WORDS];
};
static inline void sgd_hand_set_add(struct sgd_hand_set *set, uint32_t hand)
{
    set->words[hand / 64] |= 1ull << hand % 64;
}
static inline bool sgd_hand_set_has(const struct sgd_hand_set *set, uint32_t hand)
{
    return set->words[hand / 64] >> hand % 64 & 1;
}

/* What each brings with it: the member of that name in struct sgd_note. */
enum sgd_note_kind {
    SGD_NOTE_BEGUN,    /* the state was begun or loaded */
    SGD_NOTE_SKIPPED,  /* a checkpoint was */
    SGD_NOTE_GOING,    /* this generation's first step is done (or there was none left to do) */
    SGD_NOTE_PROGRESS, /* steps since the last such report */
    SGD_NOTE_CLOSED,   /* an epoch was validated */
    SGD_NOTE_SAVED,
    SGD_NOTE_SAVE_FAILED,
};

struct sgd_note {
    uint32_t kind;
    uint32_t generation;
    uint64_t step;    /* completed */
    int64_t  time_ns; /* CLOCK_MONOTONIC; set by sgd_board_post */
    union {           /* by kind. Values: loss, accuracy, the operator's own */
        struct {
            char how[SGD_NOTE_TEXT];
        } begun;
        struct {
            char which[SGD_NOTE_TEXT]; /* and why */
        } skipped;
        struct {
            int64_t  synced_ns; /* when everybody had the state */
            uint32_t is_apart;  /* the shards of the state stand in several machines' folders */
        } going;
        struct {
            float data_wait; /* share of the time since the last report in which this worker waited for records */
            float values[SGD_NOTE_VALUES];
        } progress;
        struct {
            float values[SGD_NOTE_VALUES];
        } closed;
        struct {
            uint32_t generation; /* that made it; 0: one before this note's */
        } saved;
        struct {
            char why[SGD_NOTE_TEXT];
        } save_failed;
    };
};

struct sgd_board;

static inline struct sgd_board *sgd_board_of(void *region)
{
    return (struct sgd_board *)region;
}

/* The writer's: adds a copy of the note. Never blocks. */
void sgd_board_post(struct sgd_board *board, struct sgd_note *note);

/* The reader's: the next note after *cursor (which begins at 0) that is still there. False: there is none. */
bool sgd_board_next(const struct sgd_board *board, uint64_t *cursor, struct sgd_note *out_note);

/* One member's, written by it alone. */
struct sgd_pulse *sgd_board_pulse(struct sgd_board *board, uint32_t rank);

/* Where the worker of a place (SGD_HANDS_MAX of them) leaves what it printed last. */
struct mt_tail *sgd_board_tail(struct sgd_board *board, uint32_t place);

/* The worker of a place notes its process as soon as it has the board, and again once it waits for nothing more that the driver's
 * node sends (`fetches`: that has limits of its own). Whose process was noted last, 0: nobody's. */
void    sgd_board_start(struct sgd_board *board, uint32_t place, int32_t pid, bool fetches);
int32_t sgd_board_started(const struct sgd_board *board, uint32_t place, bool *out_fetches);

/* The driver's: asks the workers to stop after the present step, as the run's end or for now; the latter counts where both do. */
enum sgd_board_stop { SGD_BOARD_GOES_ON, SGD_BOARD_STOPS, SGD_BOARD_PAUSES };
void                sgd_board_stop(struct sgd_board *board, enum sgd_board_stop how);
enum sgd_board_stop sgd_board_stopped(const struct sgd_board *board);
/* The driver's: asks the members of a generation to come back after their present step, all after the same one, since another is to
 * take over. 0: of none. `leavers`: the ranks (bit r) that will not be in that. */
void     sgd_board_leave(struct sgd_board *board, uint32_t generation, uint64_t leavers);
uint32_t sgd_board_leaves(const struct sgd_board *board);
uint64_t sgd_board_leavers(const struct sgd_board *board);
/* A worker's: waits until these ranks (from, to before) of generation `after` say on their pulses that they look at nothing of it
 * any more, and gives signs of life of its own. An error: the reason for which generation `mine` was ended meanwhile; ETIMEDOUT. */
MT_MUST_USE mt_status sgd_board_out_await(struct sgd_board *board, uint32_t after, uint32_t first, uint32_t last, uint32_t mine,
                                          struct sgd_pulse *pulse);

#endif
