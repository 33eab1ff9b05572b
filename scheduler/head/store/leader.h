/* SPDX-License-Identifier: Apache-2.0
 *
 * leader.h - the head as the leader of a store that can forget, be cut off, and be written by others: what to ask it next.
 * Pure; one thread at a time. redis.c drives it over a connection, tests/sim against a store that fails.
 *
 *     head_leader_begin(changes)  -->  head_leader_ask  --the store-->  head_leader_told  --DONE: acknowledge
 *                                           ^                               |--AGAIN: ask what it wants now
 *                                           '--no answer: ask the same------'--FENCED, STOPPED: never acknowledge again
 *
 * Always: what was begun is asked until it is done, and nothing else is begun before. The store is written only where it
 * stands at one of the last commits that led here, or is empty.
 */
#ifndef HEAD_LEADER_H
#define HEAD_LEADER_H

#include "core/ds/vec.h"
#include "scheduler/head/store/ask.h"

enum { HEAD_WINDOW = 65536 }; /* commits that the store may forget, and be given again */

enum head_verdict { HEAD_DONE = 1, HEAD_AGAIN, HEAD_FENCED, HEAD_STOPPED };

struct head_leader {
    char                 cluster[HEAD_CLUSTER_SIZE];
    char                 place[HEAD_PLACE_SIZE]; /* of this head, as it tells the store */
    struct head_position at;                     /* the last commit that is done */
    struct head_shelf    shelf;                  /* all records as of then */
    struct head_position next;                   /* of what was begun; seq 0: nothing */
    struct head_item    *changes;
    bool                 is_rewriting;
    struct head_position seen; /* where it stood then; run 0: empty */
    struct {
        uint64_t seq, digest;
    } * window; /* of HEAD_WINDOW, seq modulo it: commits that the store was at */
    uint64_t window_first;
    uint64_t rewritten; /* times */
};

/* Begins where the store stands: the shelf is filled by the caller. ENOMEM. */
MT_MUST_USE mt_status head_leader_init(struct head_leader *l, const struct head_said *said);
/* A commit of the leaders before, which the store may go back to: before anything is begun. */
void head_leader_past(struct head_leader *l, uint64_t seq, uint64_t digest);
void head_leader_fini(struct head_leader *l);

/* Begins a commit of these records; while one is begun, that one goes on and these are it. ENOMEM: nothing was begun. */
MT_MUST_USE mt_status head_leader_begin(struct head_leader *l, const struct head_record *const *records, size_t count);
/* What to ask now; nothing begun: KEEP. Borrowed until `told`. */
void head_leader_ask(const struct head_leader *l, struct head_ask *out);
/* The store's answer to that. */
enum head_verdict head_leader_told(struct head_leader *l, const struct head_said *said);

#endif
