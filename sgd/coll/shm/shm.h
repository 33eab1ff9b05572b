/* SPDX-License-Identifier: Apache-2.0
 *
 * shm.h - members of a collective group over a region of shared memory that all of them map writable.
 *
 *   0                          members                                                                       heap
 *   +--------+-------+---------+-------------+----------------+-----------------+---------+----------------+------+
 *   | layout | abort | sleepers| an entry of | two mails of   | ring of chunks  | results | a pipe of each | heap |
 *   |        |       | decision| each member | each member    | of each member  | ring    | ordered pair   |      |
 *   +--------+-------+---------+-------------+----------------+-----------------+---------+----------------+------+
 *
 * Every word that says something carries the generation it was written in, so there is nothing to clear
 * or to repair, whatever the dead left behind; a generation is formed only once each member of the last one is dead or
 * has come back from its calls. Members are numbered anew in each generation.
 *
 * A call is told by mail: its head and, where it is small, its data, then the word `arrived` = generation, number of the
 * call. A member that has seen all others arrive in call k knows that all have finished call k - 1, so two mails each are
 * enough. The heads are compared by everyone. What is larger follows through a ring of four chunks, in lockstep: chunk
 * i + 1 is staged before chunk i is worked on, and whoever has seen all others stage chunk i knows that all have done
 * with chunk i - 3. Sums of a middle size are read where they lie instead, by process_vm_readv, where all members may.
 *
 * Waiting: polls briefly, yields for an adaptive time, then sets its bit in `sleepers`, looks again, and sleeps on the park
 * word of its entry. Who publishes something clears the bits it finds, and wakes those. A waker that dies between the two
 * costs its sleeper MT_GROUP_SLEEP_MS.
 *
 * Deaths: whoever learns of one calls coll_shm_died. Members themselves look at each other's pidfds where they have slept
 * for MT_GROUP_SLEEP_MS, so that a death that nobody tells is found as well: while they join at those of who has come so far,
 * and at the creator's. Who has left is dead to those alone who wait for it.
 *
 * Errors of every call: the reason of the abort as soon as anybody has aborted the generation (EWORKER_DIED, EINVAL where
 * members disagree, ETIMEDOUT, ECANCELLED), EFENCED where a later generation exists. After any of them the generation is
 * over: decide, or join another. `text` says more. Thread: one at a time per struct coll_shm.
 */
#ifndef SGD_COLL_SHM_H
#define SGD_COLL_SHM_H

#include "sgd/coll/coll.h"

struct coll_shared;

/* For what a region is cut; the same in all members of all generations. */
struct coll_shm_plan {
    uint32_t members_max; /* 1 to MT_GROUP_MEMBERS_MAX */
    uint64_t heap_size;   /* of all members together, for buffers that need no staging */
    bool     is_bare;     /* no rings, no pipes: for members that call coll_shm_arrive only, and share the heap as they like */
};

struct coll_shm_config {
    void                *region; /* 64-byte aligned; zeroed when new */
    size_t               region_size;
    struct coll_shm_plan plan;
    uint32_t             generation;    /* > 0 */
    uint32_t             rank, members; /* rank < members <= members_max */
    uint32_t             wait_limit_ms; /* 0: MT_COLL_WAIT_MS */
    const char          *name;          /* for error texts; copied */
    bool                 is_crowded;    /* there may be fewer cores than members: waits yield from the first look on */
    uint32_t             creator;       /* process whose death ends the joining: it made the region, or names who joins; 0: none */
};

enum { COLL_MAILS = 4 };

/* A buffer of this member's own whose pages are pages of the heap. */
struct coll_adopted {
    uintptr_t at;
    size_t    size;   /* 0: it was given back */
    size_t    room;   /* in the heap */
    uint64_t  offset; /* in the region */
};

/*   OUT --join, move--> JOINING --all have arrived--> IN
 *    ^                     '--fini, move-----------'   '
 *    '-------------------------------------------------' */
enum coll_shm_state { COLL_SHM_OUT, COLL_SHM_JOINING, COLL_SHM_IN };

/* One member's view. */
struct coll_shm {
    struct coll_shared      *shared;
    enum coll_shm_state      state;
    const struct coll_loops *loops;
    struct coll_shm_plan     plan;
    uint32_t                 generation, rank, members;
    uint32_t                 sequence;        /* calls begun in this generation */
    uint32_t                 chunks, reduced; /* staged and reduced in this generation */
    uint32_t                 round;           /* of decisions */
    uint32_t                 wait_limit_ms, spin_ns, looks_max;
    uint64_t                 mail_words[COLL_MAILS]; /* what this member wrote last into its own words: nobody else may have */
    uint32_t                 sent[MT_GROUP_MEMBERS_MAX], taken[MT_GROUP_MEMBERS_MAX]; /* chunks to and from each */
    int                      pidfds[MT_GROUP_MEMBERS_MAX];                            /* -1: not known */
    int                      creator;                                                 /* likewise, JOINING by coll_shm_join */
    uint64_t                 heap_used;
    bool                     peeks; /* IN: the kernel lets this member read all others' memory */
    char                     name[COLL_NAME_BYTES];
    char                     text[COLL_TEXT_BYTES]; /* of the last error */
    uint32_t                 adopted_count;
    struct coll_adopted      adopted[MT_COLL_REGISTERED_MAX];
};

/* Bytes of a region. EINVAL. */
MT_MUST_USE mt_status coll_shm_size(const struct coll_shm_plan *plan, size_t *out_size);
/* Joins a generation and waits for all its members. EINVAL where the arguments are out of range, the region is another
 * plan's, or members disagree on their number. A struct that was used before is first given back with coll_shm_fini. */
MT_MUST_USE mt_status coll_shm_join(struct coll_shm *g, const struct coll_shm_config *config);
/* Zeroed, or given back already: nothing. */
void coll_shm_fini(struct coll_shm *g);
/* The same, and whoever does not wait for this member goes on without it, also when its process has ended. */
void coll_shm_leave(struct coll_shm *g);
/* The next generation of a member that was in one: its rank and their number there. `from[r]` is the present rank of new
 * rank r, -1 for one that is new; NULL: nobody keeps a place that is known. */
MT_MUST_USE mt_status coll_shm_move(struct coll_shm *g, uint32_t generation, uint32_t rank, uint32_t members, const int8_t *from);

/* For a member that waits for something else: looks for dead members; not OK once the generation is over. Does not block. */
MT_MUST_USE mt_status coll_shm_look(struct coll_shm *g);
/* Any call of coll.h. Blocks. */
MT_MUST_USE mt_status coll_shm_run(struct coll_shm *g, const struct coll_call *call);

/* What every call begins with, alone, also where there is one member: tells the head of `call`, waits until all members have
 * arrived, and compares. What was written to the heap before is visible after it. */
MT_MUST_USE mt_status coll_shm_arrive(struct coll_shm *g, const struct coll_call *call);

/* A message to one member and one from another, at the same time. The receiver's type and count must be the sender's: else
 * everyone gets EINVAL. */
MT_MUST_USE mt_status coll_shm_exchange(struct coll_shm *g, const struct coll_message *send, const struct coll_message *receive);

/* What the survivors of a generation agree on, aborted or not. */
struct coll_decision {
    uint64_t alive; /* bit r: rank r took part */
    uint64_t flags; /* the AND of the flags of all that took part */
};
/* Waits until each member has called it or is dead; all get the same answer. */
MT_MUST_USE mt_status coll_shm_decide(struct coll_shm *g, uint64_t flags, struct coll_decision *out);

/* `size` bytes of this member's share of the heap, aligned to 64; they are its own until the generation ends. NULL: the
 * share is used up. */
void *coll_shm_alloc(struct coll_shm *g, size_t size);
/* Makes a buffer of the member's own a part of its share of the heap: same address, same content, other pages. Until
 * coll_shm_give_back, or the generation's end. EINVAL (no whole pages, registered already, no ordinary memory), ENOMEM. */
MT_MUST_USE mt_status coll_shm_adopt(struct coll_shm *g, void *data, size_t size);
MT_MUST_USE mt_status coll_shm_give_back(struct coll_shm *g, void *data);
/* The whole heap, aligned to pages. */
void *coll_shm_heap(const struct coll_shm *g);

/* ---- by anybody who maps the region, member or not; never block ---- */

/* Cuts a new region; one that is cut already stays as it is. */
void coll_shm_lay(void *region, const struct coll_shm_plan *plan);
/* Ends a generation: members that wait return at once. The first abort of a generation stands. `rank`: whom it is about;
 * MT_GROUP_MEMBERS_MAX where that is not known. */
void coll_shm_abort(void *region, uint32_t generation, enum mt_code reason, uint32_t rank);
/* A member is dead. Ends the generation too. */
void coll_shm_died(void *region, uint32_t generation, uint32_t rank);
/* Why a generation ended: the last one that was aborted. */
struct coll_abort {
    uint32_t generation; /* 0: none was ever */
    int32_t  reason;     /* enum mt_code */
    uint32_t rank;       /* whom it is about */
};
struct coll_abort coll_shm_why(const void *region);
/* The last call that a rank has arrived in, of whatever generation: grows. */
uint64_t coll_shm_arrived(const void *region, uint32_t rank);
/* The latest generation that anybody has joined; 0: none. Its number of members, and the rank of a process in it
 * (MT_GROUP_MEMBERS_MAX: none). */
uint32_t coll_shm_generation(const void *region, uint32_t *out_members);
uint32_t coll_shm_rank_of(const void *region, uint32_t generation, int pid);

#endif
