/* SPDX-License-Identifier: Apache-2.0
 *
 * ask.h - what a leading head asks of a store that others can reach too, and what that answers.
 *
 * The store is one place with a position: who leads (fence, run), and how far it has come (seq, digest). Each request names the
 * position that it builds on, and has its effect there alone, whole. script.c is what Redis runs; tests/sim has a twin of it.
 */
#ifndef HEAD_ASK_H
#define HEAD_ASK_H

#include "scheduler/head/core/kit/step.h"
#include "scheduler/head/store/schema.h"
#include "scheduler/head/store/shelf.h"

enum { HEAD_PAST = 1024, HEAD_PLACE_SIZE = 128 };

struct head_position {
    uint64_t fence;  /* goes up with each new leader */
    uint64_t run;    /* of that leader, drawn: two may have taken the same fence, after a failover that forgot one of them */
    uint64_t seq;    /* of the last commit */
    uint64_t digest; /* of all commits up to it, so that an equal one means the same history */
};

enum head_ask_kind {
    HEAD_ASK_LOOK = 1, /* how it stands; changes nothing */
    HEAD_ASK_LEAD,     /* take the next fence, if nobody else leads, or only the run `was.run`, which is known to be dead; makes a
                          new place where `may_make` */
    HEAD_ASK_LOAD,     /* all records, and the last commits (HEAD_PAST of them) */
    HEAD_ASK_KEEP,     /* renew the lock; is everything where we left it? */
    HEAD_ASK_APPLY,    /* the changes, on top of `was`; done already where the position is `at` */
    HEAD_ASK_REWRITE,  /* all records anew, if the position is still `was` */
    HEAD_ASK_LEAVE,    /* let the lock go */
};

struct head_ask {
    enum head_ask_kind       kind;
    const char              *cluster;     /* LEAD: the one that it must be, or "" */
    const char              *new_cluster; /* LEAD: the id of a new place */
    bool                     may_make;
    const char              *place;   /* where this head is spoken to: those that look are told */
    struct head_position     at, was; /* was.run 0: an empty place */
    const struct head_item  *changes; /* APPLY */
    const struct head_shelf *all;     /* REWRITE */
};

/* X(name, what it means) */
/* clang-format off */
#define HEAD_WORDS(X)                                                                                                    \
    X(OK, "done, or done already")                                                                                       \
    X(EMPTY, "there is nothing: a new place, or all was deleted")                                                        \
    X(FOREIGN, "the keys hold something that no head has written")                                                       \
    X(SCHEMA, "written by a head of another format")                                                                     \
    X(OTHER, "another cluster's")                                                                                        \
    X(BUSY, "another head leads, and its lock has not run out")                                                          \
    X(FENCED, "another head has taken the lead")                                                                         \
    X(OLDER, "the lead that was taken there is forgotten")                                                               \
    X(BEHIND, "it stands at another commit")                                                                             \
    X(BROKEN, "records are missing")                                                                                     \
    X(MOVED, "it does not stand any more where it was seen")
/* clang-format on */
enum head_word {
    HEAD_WORD_NONE,
#define X(name, text) HEAD_WORD_##name,
    HEAD_WORDS(X)
#undef X
};

struct head_said {
    enum head_word       word;
    struct head_position at; /* after it */
    char                 cluster[HEAD_CLUSTER_SIZE];
    char                 holder[64];                 /* of the lock; "": it has run out, or was let go */
    char                 place[HEAD_PLACE_SIZE];     /* of the last leader */
    uint32_t             schema;                     /* that who reads it must know */
    char                 release[HEAD_RELEASE_SIZE]; /* of who wrote it last */
};

#endif
