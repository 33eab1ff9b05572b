/* SPDX-License-Identifier: Apache-2.0
 *
 * private.h - the words of the region, and publishing and waiting for them: what the files of this folder share.
 */
#ifndef SGD_COLL_SHM_PRIVATE_H
#define SGD_COLL_SHM_PRIVATE_H

#include "sgd/coll/shm/shm.h"

#include <stdatomic.h>

enum { COLL_RING = 4, COLL_PIPE_RING = 4, COLL_PAGE = 4096 };

/* generation << 32 | a number that grows within the generation */
typedef _Atomic uint64_t coll_word;

struct coll_mail {
    _Alignas(64) coll_word arrived; /* written last */
    struct coll_head head;
    uint64_t         in_at, out_at; /* of the call's buffers in the region; 0: they lie elsewhere */
    uint64_t         address;       /* of its input in its own memory */
    uint64_t         peeks;         /* it can read the others' memory */
    _Alignas(64) char body[MT_COLL_MAIL_BYTES];
};

struct coll_entry {
    _Alignas(64) coll_word staged;      /* chunks that this member has put into its ring */
    _Alignas(64) coll_word reduced;     /* chunks of which its slice is in the results ring */
    _Alignas(64) _Atomic uint32_t park; /* slept on */
    _Atomic uint32_t waits_for;         /* set before it sleeps: whose word it needs; MT_GROUP_MEMBERS_MAX: anybody's */
    /* Written before the generation's first arrival. */
    _Alignas(64) coll_word joined; /* generation << 32 | pid */
    _Atomic uint64_t pid_space;    /* which numbering of processes the pid is of */
    _Atomic uint64_t address;      /* of its own struct coll_shm: whoever can read it there can read its memory */
    /* A vote: the values are written before the word, the outcome before the group's decision. */
    _Alignas(64) coll_word voted; /* generation << 32 | round */
    _Atomic uint64_t flags, outcome_alive, outcome_flags;
    _Atomic uint64_t dead; /* in which generation */
    _Atomic uint64_t left; /* likewise, of its own accord: dead, once its process is, to those alone who wait for it */
};

struct coll_shared {
    _Alignas(64) _Atomic uint64_t layout;   /* which plan the region is cut for */
    _Alignas(64) _Atomic uint64_t abort;    /* generation << 32 | reason << 24 | rank << 16 | other rank << 8 | which mail */
    _Alignas(64) _Atomic uint64_t sleepers; /* bit r: rank r may be asleep on its park word */
    _Alignas(64) coll_word decision;        /* generation << 32 | round << 8 | rank whose outcome stands */
    _Atomic uint64_t  formed;               /* generation << 32 | members: the latest that anybody has joined */
    struct coll_entry entries[MT_GROUP_MEMBERS_MAX];
};

struct coll_pipe_chunk {
    uint8_t  type;
    uint64_t count; /* of the whole message */
    _Alignas(64) char body[MT_COLL_PIPE_BYTES];
};
/* What was sent and what its receiver expected; written by the receiver before it ends the generation. */
struct coll_dispute {
    uint8_t  sent_type, wanted_type;
    uint64_t sent_count, wanted_count;
};
struct coll_pipe {
    _Alignas(64) coll_word sent;
    _Alignas(64) coll_word taken;
    struct coll_dispute    dispute;
    struct coll_pipe_chunk chunks[COLL_PIPE_RING];
};

/* ---- where things are ---- */
static inline struct coll_mail *coll_mail_of(const struct coll_shm *g, uint32_t rank, uint32_t sequence)
{
    struct coll_mail *mails = (struct coll_mail *)(void *)(g->shared + 1);
    return mails + COLL_MAILS * (size_t)rank + sequence % COLL_MAILS;
}
/* What `layout` of a region cut by this plan says. */
uint64_t          coll_layout_word(const struct coll_shm_plan *plan);
char             *coll_ring_of(const struct coll_shm *g, uint32_t rank, uint32_t chunk);
char             *coll_results_of(const struct coll_shm *g, uint32_t chunk);
struct coll_pipe *coll_pipe_of(const struct coll_shm *g, uint32_t from, uint32_t to);
/* This member's part of the heap. */
char *coll_heap_of(const struct coll_shm *g, uint32_t rank, uint64_t *out_size);
/* Offset of a buffer that lies in the heap (or was adopted by it), aligned for its type; 0: it does not. */
uint64_t coll_heap_offset(const struct coll_shm *g, const void *data, size_t size, enum coll_type type);

/* adopt.c: all adopted buffers are ordinary memory again. ENOMEM. */
MT_MUST_USE mt_status coll_shm_give_back_all(struct coll_shm *g);

/* ---- waiting ---- */

/* One wait, looked at again and again. */
struct coll_idle {
    uint32_t looks;
    uint64_t start_ns;
    uint32_t parked;
    bool     is_for_one; /* only that rank's word can end the wait: nobody else need wake this member */
    bool     is_announced, has_slept;
};
/* Between two looks of a wait for `rank`: polls, yields or sleeps a little. An error ends the wait. With `is_deaf` aborts
 * are not looked at. */
MT_MUST_USE mt_status coll_idle(struct coll_shm *g, struct coll_idle *idle, uint32_t rank, bool is_deaf);
/* After the wait: whether polling paid sets how long the next one polls. */
void coll_idle_end(struct coll_shm *g, const struct coll_idle *idle);

/* Whether a word is of this generation and its number is at least `want` (EFENCED: it is of a later generation). */
static inline bool coll_reached(const struct coll_shm *g, const coll_word *word, uint32_t want)
{
    uint64_t seen = atomic_load_explicit((coll_word *)word, memory_order_acquire);
    return (uint32_t)(seen >> 32) == g->generation && (int32_t)((uint32_t)seen - want) >= 0;
}
MT_MUST_USE mt_status coll_wait(struct coll_shm *g, const coll_word *word, uint32_t want, uint32_t rank);
/* Sets this member's own word from what it last wrote, and wakes those who may wait for it. EFENCED: the word was written
 * by a later generation. */
MT_MUST_USE mt_status coll_publish(struct coll_shm *g, coll_word *word, uint64_t *last, uint32_t number);
/* OK while the generation lives. */
MT_MUST_USE mt_status coll_alive(struct coll_shm *g);
/* EFENCED, with the text. */
mt_status coll_fenced(struct coll_shm *g);
/* Reads another member's memory. False: it can't be read. In the second form an error ends the generation. */
bool                  coll_memory_read(const struct coll_shm *g, uint32_t rank, uint64_t address, void *to, size_t size);
MT_MUST_USE mt_status coll_peek(struct coll_shm *g, uint32_t rank, uint64_t address, void *to, size_t size);
/* Looks at the members' pidfds and tells who is dead; `wanted` also where it has left before. */
void coll_look_for_dead(struct coll_shm *g, uint32_t wanted);
/* Whose death, before all have joined, leaves nothing that the others could open. */
void coll_creator_died(struct coll_shared *shared, uint32_t generation);
/* Opens descriptors of those who have joined and have none; a process that is gone already is dead. */
void coll_pidfds_open(struct coll_shm *g);
/* A message from `from` is another than this member expects: ends the generation; everyone's text will say so. And in words, for
 * anybody. */
void coll_abort_message(struct coll_shm *g, uint32_t from);
void coll_message_explain(struct coll_shm *g, uint32_t from, uint32_t to);

/* One call's arrival: tells the head (and `size` bytes of `body`), waits for all, compares. */
MT_MUST_USE mt_status coll_arrive(struct coll_shm *g, const struct coll_call *call, const void *body, size_t size);

#endif
