/* SPDX-License-Identifier: Apache-2.0
 *
 * edge.h - a value that goes from one worker to another without its owner: a cell in memory that all three map.
 *
 * The owner sends a task ahead of its argument. The argument names a cell, and so does the record of the task that makes it.
 * Whoever ends that task fills the cell. The consumer's worker begins its task when the cell is filled.
 *
 *   FREE -- owner: open, next generation --> EMPTY -- producer's worker --> VALUE or NONE -- owner: nobody uses it --> FREE
 *                                            |   '-- owner, where no worker has --^
 *                                            '-- consumer is about to sleep --> WATCHED -- filled as EMPTY is, and told at once
 *
 * NONE: no value comes this way (the task failed, was cancelled, its value is too large or stands in the store): ask the owner.
 *
 * Exactly one fills a cell. A worker fills it behind its outcome (the record, then the claim's DONE) and before it publishes that.
 * So whoever reads an outcome with an EMPTY cell knows that its worker won't fill it any more: it has died, or knows no cell.
 *
 * The workers of another node have a board of that node, which its owner can't reach: nobody opens its cells. A cell whose word is
 * of an earlier generation than the one that is named is EMPTY.
 */
#ifndef LANE_EDGE_H
#define LANE_EDGE_H

#include "core/base/plant.h"
#include "core/lane/record.h"
#include "core/lane/shm.h"

enum lane_cell_state {
    LANE_CELL_FREE = 0,
    LANE_CELL_EMPTY = 1,
    LANE_CELL_VALUE = 2,
    LANE_CELL_NONE = 3,
    LANE_CELL_WATCHED = 4, /* EMPTY, and the consumer's worker sleeps */
};
enum { LANE_CELL_BYTES = 128, LANE_CELL_VALUE_BYTES = LANE_CELL_BYTES - 8 };

struct lane_cell {
    shm_u64 word;                         /* generation << 8 | enum lane_cell_state */
    uint8_t value[LANE_CELL_VALUE_BYTES]; /* VALUE: a lane_value and its bytes */
};
static_assert(sizeof(struct lane_cell) == LANE_CELL_BYTES, "two lines, which the prefetcher takes together");

/* Names a cell: as the bytes of an argument with LANE_VALUE_EDGE, and at the end of a record with LANE_TASK_FEEDS. */
struct lane_edge {
    uint64_t generation;
    uint32_t board; /* number of the memory (a region of the owner's node), or of the owner's board on its workers' node */
    uint32_t cell;  /* in it */
};
#define LANE_BOARD_FAR UINT32_C(0x80000000) /* in `board`: of its workers' node. All who serve one owner there share one */
#define LANE_BOARD_SENT \
    UINT32_C(0x40000000) /* is `board`: no cell. The owner sends the value behind the task (LANE_ARGUMENT `cell`) */
static_assert(sizeof(struct lane_edge) == 16, "frozen");

static inline uint64_t lane_cell_word(uint64_t generation, enum lane_cell_state state)
{
    return generation << 8 | (uint64_t)state;
}
static inline uint64_t lane_cell_generation(uint64_t generation)
{
    return generation & UINT64_MAX >> 8;
}
/* Nobody has filled it: it says EMPTY or WATCHED, or nothing of this generation yet. */
static inline bool lane_cell_is_empty(uint64_t word, uint64_t generation)
{
    if (word >> 8 != lane_cell_generation(generation))
        return word >> 8 < lane_cell_generation(generation);
    return (word & 7) == LANE_CELL_EMPTY || (word & 7) == LANE_CELL_WATCHED;
}
/* EMPTY: watched or not. FREE: not the cell that is meant (any more). */
static inline enum lane_cell_state lane_cell_look(struct lane_cell *cell, uint64_t generation)
{
    uint64_t word = shm_load64_acquire(&cell->word);
    if (MT_PLANT(MT_PLANT_CELL_STALE) && word)
        generation = word >> 8;
    if (lane_cell_is_empty(word, generation))
        return LANE_CELL_EMPTY;
    return word >> 8 == lane_cell_generation(generation) ? (enum lane_cell_state)(word & 7) : LANE_CELL_FREE;
}
/* Owner: nobody else knows this generation yet. */
static inline void lane_cell_open(struct lane_cell *cell, uint64_t generation)
{
    shm_store64_release(&cell->word, lane_cell_word(generation, LANE_CELL_EMPTY));
}
/* Consumer's worker, before it sleeps: whoever fills the cell tells the owner at once. */
static inline void lane_cell_watch(struct lane_cell *cell, uint64_t generation)
{
    uint64_t word = shm_load64(&cell->word);
    if (lane_cell_is_empty(word, generation) && !MT_PLANT(MT_PLANT_CELL_UNWATCHED))
        shm_cas64(&cell->word, word, lane_cell_word(generation, LANE_CELL_WATCHED)); /* else it is filled, or watched */
}
static inline bool lane_cell_fits(const void *payload, size_t size)
{
    struct lane_value value;
    if (size < sizeof value)
        return false;
    memcpy(&value, payload, sizeof value);
    return value.flags == 0 && value.ref_count == 0 && value.size <= LANE_CELL_VALUE_BYTES - sizeof value &&
           value.size <= size - sizeof value;
}
/* What the task has left: `payload` of its LANE_DONE; `is_good`: it is a value that may be handed on. Nothing where it is filled.
 * True: somebody may sleep who waits for it. */
static inline bool lane_cell_fill(struct lane_cell *cell, uint64_t generation, bool is_good, const void *payload, size_t size)
{
    uint64_t word = shm_load64_acquire(&cell->word), watched = lane_cell_word(generation, LANE_CELL_WATCHED);
    uint64_t filled = lane_cell_word(generation, LANE_CELL_NONE);
    if (!lane_cell_is_empty(word, generation))
        return false;
    if (is_good && lane_cell_fits(payload, size)) {
        struct lane_value value;
        memcpy(&value, payload, sizeof value);
        filled = lane_cell_word(generation, LANE_CELL_VALUE);
        if (MT_PLANT(MT_PLANT_CELL_EARLY))
            shm_store64_release(&cell->word, filled);
        shm_write(cell->value, payload, sizeof value + value.size);
    }
    if (word != watched && shm_cas64(&cell->word, word, filled))
        return false;
    return shm_cas64(&cell->word, watched, filled) && !MT_PLANT(MT_PLANT_CELL_UNTOLD);
}

#endif
