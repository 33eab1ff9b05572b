/* SPDX-License-Identifier: Apache-2.0
 *
 * board.c - a ring of notes from rank 0 to the driver.
 *
 * Owns: nothing; the region is the caller's. Thread: one writer, one reader, in whatever processes.
 */
#include "sgd/watch/board.h"

#include "sgd/watch/next.h"

#include <string.h>
#include <time.h>

enum { NOTES = 2048 };

struct sgd_board {
    _Alignas(64) _Atomic uint64_t head; /* notes that were ever posted */
    _Atomic uint32_t stop, leave;
    _Atomic uint64_t leavers;
    struct sgd_pulse pulses[MT_GROUP_MEMBERS_MAX];
    _Alignas(64) struct sgd_note notes[NOTES];
    struct mt_tail  tails[SGD_HANDS_MAX];
    _Atomic int32_t pids[SGD_HANDS_MAX]; /* below 0: of one that fetches */
};
static_assert(sizeof(struct sgd_board) <= SGD_BOARD_SIZE, "the board lies before the group");

struct sgd_pulse *sgd_board_pulse(struct sgd_board *board, uint32_t rank)
{
    MT_ASSERT(rank < MT_GROUP_MEMBERS_MAX);
    return &board->pulses[rank];
}

struct mt_tail *sgd_board_tail(struct sgd_board *board, uint32_t place)
{
    MT_ASSERT(place < SGD_HANDS_MAX);
    return &board->tails[place];
}

void sgd_board_start(struct sgd_board *board, uint32_t place, int32_t pid, bool fetches)
{
    MT_ASSERT(place < SGD_HANDS_MAX && pid > 0);
    atomic_store(&board->pids[place], fetches ? -pid : pid);
}

int32_t sgd_board_started(const struct sgd_board *board, uint32_t place, bool *out_fetches)
{
    MT_ASSERT(place < SGD_HANDS_MAX);
    int32_t pid = atomic_load(&board->pids[place]);
    *out_fetches = pid < 0;
    return pid < 0 ? -pid : pid;
}

void sgd_board_stop(struct sgd_board *board, enum sgd_board_stop how)
{
    if (how > sgd_board_stopped(board))
        atomic_store(&board->stop, (uint32_t)how);
}

enum sgd_board_stop sgd_board_stopped(const struct sgd_board *board)
{
    uint32_t stop = atomic_load_explicit(&board->stop, memory_order_relaxed);
    return stop <= SGD_BOARD_PAUSES ? (enum sgd_board_stop)stop : SGD_BOARD_PAUSES;
}

void sgd_board_leave(struct sgd_board *board, uint32_t generation, uint64_t leavers)
{
    atomic_store_explicit(&board->leavers, leavers, memory_order_relaxed);
    atomic_store_explicit(&board->leave, generation, memory_order_release);
}

uint32_t sgd_board_leaves(const struct sgd_board *board)
{
    return atomic_load_explicit(&board->leave, memory_order_acquire);
}

uint64_t sgd_board_leavers(const struct sgd_board *board)
{
    return atomic_load_explicit(&board->leavers, memory_order_relaxed);
}

void sgd_board_post(struct sgd_board *board, struct sgd_note *note)
{
    uint64_t head = atomic_load(&board->head);
    MT_ASSERT(note->kind <= SGD_NOTE_SAVE_FAILED);
    note->time_ns = mt_now_ns();
    board->notes[head % NOTES] = *note;
    atomic_store(&board->head, head + 1);
}

/* A text must end, whatever the writer left there. */
static void text_end(struct sgd_note *note)
{
    switch (note->kind) {
    case SGD_NOTE_BEGUN: note->begun.how[SGD_NOTE_TEXT - 1] = 0; break;
    case SGD_NOTE_SKIPPED: note->skipped.which[SGD_NOTE_TEXT - 1] = 0; break;
    case SGD_NOTE_SAVE_FAILED: note->save_failed.why[SGD_NOTE_TEXT - 1] = 0; break;
    default: break; /* the others have none */
    }
}

bool sgd_board_next(const struct sgd_board *board, uint64_t *cursor, struct sgd_note *out_note)
{
    for (;;) {
        uint64_t head = atomic_load(&board->head);
        if (head <= *cursor)
            return false;
        if (head - *cursor >= NOTES) /* the oldest may be half overwritten already */
            *cursor = head - NOTES + 1;
        *out_note = board->notes[*cursor % NOTES];
        atomic_thread_fence(memory_order_seq_cst);
        if (atomic_load(&board->head) - *cursor >= NOTES)
            continue;
        text_end(out_note);
        ++*cursor;
        return true;
    }
}

mt_status sgd_board_out_await(struct sgd_board *board, uint32_t after, uint32_t first, uint32_t last, uint32_t mine,
                              struct sgd_pulse *pulse)
{
    const struct timespec pause = {0, 50 * 1000};
    int64_t               until_ns = mt_now_ns() + MT_GROUP_WAIT_MS * 1000000ll;
    for (uint32_t rank = first; rank < last;) {
        struct coll_abort why = coll_shm_why((char *)board + SGD_BOARD_SIZE);
        if (sgd_next_is_out(after, atomic_load(&sgd_board_pulse(board, rank)->out))) {
            rank++;
            continue;
        }
        if (why.generation >= mine)
            return mt_error(why.reason, 0, "the generation was ended before it began");
        if (mt_now_ns() > until_ns)
            return mt_error(MT_ETIMEDOUT, 0, "a member of the generation before does not come back");
        sgd_pulse_beat(pulse);
        nanosleep(&pause, NULL);
    }
    return mt_ok();
}
