/* SPDX-License-Identifier: Apache-2.0
 *
 * place.h - the nodes that a run's workers are on, as its driver sees them.
 *
 * Each has a region: a board and the group's memory. The driver maps the one of its own node (place 0). On every other node an
 * actor of its own, the post, made that region; the driver asks it for what stands on the board, and has it end generations.
 *
 *   FREE --place_add--> OPENING --the post is up--> OPEN --it dies, or does not answer--> LOST --nobody left--> FREE
 *                          '--drained, or no worker can be there----'--> LEAVING --nobody left--> FREE, or LOST as above
 *
 * Place 0 is OPEN, or BARE, from the beginning. All are FREE again when the run ends.
 *
 * Thread: the driver's. Nothing blocks for longer than MT_TRAIN_MORE_MS unless it says so.
 */
#ifndef SGD_PLACE_H
#define SGD_PLACE_H

#include "clients/roster/roster.h"
#include "sgd/watch/board.h"
#include "sgd/ground/trace.h"
#include "sgd/watch/load.h"

#include <manta.h>

#define SGD_POST_TYPE "manta_sgd_post"

enum { SGD_PLACES_MAX = MT_GROUP_MEMBERS_MAX, SGD_POST_NOTES = 2, SGD_POST_SPANS = 4096, SGD_PLACE_WHY_BYTES = 512 };

enum sgd_place_state {
    SGD_PLACE_FREE,
    SGD_PLACE_BARE, /* place 0 only: the driver's node, which has less than a worker needs */
    SGD_PLACE_OPENING,
    SGD_PLACE_OPEN,
    SGD_PLACE_LEAVING, /* its workers leave after their step, and no others come */
    SGD_PLACE_LOST
};

/* What a worker that starts shows. */
enum sgd_start {
    SGD_START_UNSEEN, /* no process yet: it may wait for CPUs */
    SGD_START_IDLE,
    SGD_START_WORKS,
    SGD_START_STOPPED, /* by a signal */
    SGD_STARTS
};
struct sgd_start_seen { /* at the last look; zeroed at first */
    int32_t         pid;
    struct sgd_load load;
};

/* What the post is told, and what it answers. Both travel as bytes between processes of one executable. */
enum sgd_post_kind { SGD_POST_LOOK, SGD_POST_ABORT, SGD_POST_LEAVE };
struct sgd_post_word {
    uint32_t            kind, stop;               /* enum sgd_board_stop */
    uint32_t            generation, reason, rank; /* ABORT, and the first LEAVE */
    uint32_t            first, count;             /* LOOK: the ranks that are on this node */
    uint32_t            reserved;
    uint64_t            cursor;                     /* LOOK: of the board */
    struct sgd_hand_set starting;                   /* LOOK: hands that are asked about */
    uint64_t            leavers;                    /* LEAVE: ranks that will be in no generation after it */
    int32_t             pids[MT_GROUP_MEMBERS_MAX]; /* LOOK: of each rank */
};
struct sgd_post_news {
    uint64_t              region, cursor;
    uint32_t              notes_count, reserved;
    struct sgd_pulse_seen seen[MT_GROUP_MEMBERS_MAX]; /* of ranks first, first + 1, ... */
    struct sgd_hand_set   starts[SGD_STARTS];         /* which of those that were asked about show what */
    struct sgd_note       notes[SGD_POST_NOTES];
};
static_assert(sizeof(struct sgd_post_news) <= MANTA_INLINE_MAX, "travels inline");

/* What `spans` answers: `count` of them. */
struct sgd_post_spans {
    int64_t  now_ns; /* by that node's clock */
    uint64_t count;
    struct {
        struct sgd_span      span;
        enum sgd_trace_track track;
    } spans[SGD_POST_SPANS];
};

struct sgd_place {
    enum sgd_place_state state;
    uint32_t             node;
    char                 host[64]; /* its address */
    uint64_t             region;
    manta_actor         *post;  /* NULL: place 0 */
    manta_ref           *asked; /* a look that is not answered yet */
    int64_t              asked_ns;
    bool                 is_behind;  /* its last answer was full */
    bool                 is_suspect; /* the head has not heard of its node for a while, when it was last asked */
    bool                 is_away;    /* LOST: the link to it is silent; whoever is there may live, and can't be asked */
    int                  placed;     /* workers that have a process there: the caller's word */
    int                  found;      /* workers for which it had CPUs and GPUs free when it was found */
    int      room, most;   /* those that were placed, and had them free, when it was last heard of; for which it has them */
    uint32_t first, count; /* ranks of the present generation */
    uint32_t generation;   /* the last one of which it had ranks; 0: none yet */
    char     why[SGD_PLACE_WHY_BYTES]; /* LOST: why it never opened; "": it did, or did not answer */
    uint64_t cursor;
    struct sgd_pulse_seen seen[MT_GROUP_MEMBERS_MAX];
    struct sgd_hand_set   starting;           /* hands that load there */
    struct sgd_hand_set   starts[SGD_STARTS]; /* what they show, as its last answer said */
    manta_ref            *spans_asked;        /* for the timeline, where there is one */
    int64_t               spans_asked_ns, clock_took_ns, clock_shift_ns;
};

struct sgd_places {
    int                   max; /* nodes of the run */
    size_t                region_size;
    manta_region         *here;                                 /* of place 0; the caller's */
    double                cpus, gpus;                           /* that a worker needs */
    struct roster         nodes;                                /* of the cluster */
    int64_t               walked_ns;                            /* when they were last gone through */
    uint32_t              barred[SGD_PLACES_MAX], barred_count; /* nodes where no worker of this run can be */
    uint32_t              told[SGD_PLACES_MAX], told_count;     /* nodes of which was said why they are passed over */
    struct sgd_start_seen starts[SGD_HANDS_MAX];                /* of place 0 */
    int32_t               pids[MT_GROUP_MEMBERS_MAX]; /* of each rank of the present generation, who may not have taken it yet */
    struct sgd_place      of[SGD_PLACES_MAX];
};

/* Place 0 is this node. With `max` 1 it is the only one, and open whatever it has. Blocks as manta_nodes does. */
void sgd_places_init(struct sgd_places *places, int max, manta_region *here, double cpus, double gpus);
void sgd_places_fini(struct sgd_places *places);

/* Called with a node that is passed over, and why. */
typedef void sgd_places_pass(void *user, uint32_t node, const char *why);
/* Asks for the cluster's nodes where there is news of them (each MT_TRAIN_NODES_MS at most): places whose nodes are drained are
 * LEAVING from then on, and the `room` of each is what its node has now; while there are fewer than the run wants, and it
 * `wants_more`, what has room is opened, and of the others `pass` is told, once for each. Blocks as manta_nodes does. Who waits
 * meanwhile waits for places->nodes.news, too. */
void sgd_places_look_for(struct sgd_places *places, bool wants_more, sgd_places_pass *pass, void *user);
/* What is known of the nodes does not hold any more: they are asked for with the next look, whether or not there is news. */
void sgd_places_doubt(struct sgd_places *places);
int  sgd_places_count(const struct sgd_places *places); /* where workers are, or may be */
/* The run is on as many nodes as it may be, and another one has room, as far as is known. */
bool sgd_places_could_trade(const struct sgd_places *places);
/* No worker can be there: nobody else is sent there in this run. */
void sgd_place_bar(struct sgd_places *places, struct sgd_place *place);

/* Takes the posts' answers, calls `tell` for each note, and asks again. A bit for each place that was lost just now. */
uint64_t sgd_places_look(struct sgd_places *places, void (*tell)(void *user, struct sgd_note *note), void *user);

/* What a hand that starts there shows. */
enum sgd_start sgd_place_start(struct sgd_places *places, int place, uint32_t hand);

/* How long it is until then; 0: that is over. */
int sgd_left_ms(int64_t until_ns);

/* The notes that are left when nobody computes any more: a node that has no time for its post is waited for, or the last of them
 * would be lost. Blocks up to MT_TRAIN_RETURN_MS in all. */
void sgd_places_drain(struct sgd_places *places, void (*tell)(void *user, struct sgd_note *note), void *user);

/* Ends a generation everywhere. Does not wait. */
void sgd_places_abort(struct sgd_places *places, uint32_t generation, enum mt_code reason, uint32_t rank);

/* Asks all members of a generation to come back after their present step. Does not wait. */
void sgd_places_leave(struct sgd_places *places, uint32_t generation);

/* A place of which no worker is left. Its post is killed. */
void sgd_place_close(struct sgd_place *place);

/* What the index-th worker of another node, which is dead, printed last; "" where its node does not say so within
 * MT_TRAIN_WORDS_MS, for which it blocks. */
void sgd_place_last_words(const struct sgd_place *place, uint32_t index, char *out, size_t size);

/* Takes the answer to the last question for spans, if it is there within wait_ms, and asks again. `shift_ns` is to be added to
 * their clock. */
void sgd_place_spans(struct sgd_place *place, struct sgd_trace_plan plan, int wait_ms,
                     void (*take)(void *user, const struct sgd_post_spans *spans, int64_t shift_ns), void *user);

/* What a board and a group's region show of one rank, which is the local-th on this node. `pid`: whose it is. */
struct sgd_pulse_seen sgd_place_pulse(void *region, uint32_t rank, uint32_t local, int32_t pid);

#endif
