/* SPDX-License-Identifier: Apache-2.0
 *
 * crew.h - the driver's worker processes: those that hold a rank, those that start, and the spares.
 *
 *   FREE --sgd_crew_hire--> STARTING --ready--> READY --dies--> DEAD --sgd_crew_bury--> FREE
 *                               |                 '--sgd_crew_kill--> KILLED --dies--> DEAD
 *                               '--dies--> DEAD        STARTING --sgd_crew_kill--> KILLED
 *
 * A hand is one process from its start to its death: it is never restarted, another is hired. STARTING or READY, it may
 * have a rank and a call of `train` under way. KILLED, it is waited for: until it is DEAD it could write into the region.
 *
 * Thread: the one that trains; blocks in sgd_crew_look only.
 */
#ifndef SGD_CREW_H
#define SGD_CREW_H

#include "sgd/watch/board.h"
#include "sgd/run/run.h"

enum { SGD_NO_RANK = -1, SGD_UNTOLD = -2, SGD_WHY_BYTES = 160, SGD_HAND_REFS = 3 };

enum sgd_hand_state { SGD_HAND_FREE, SGD_HAND_STARTING, SGD_HAND_READY, SGD_HAND_KILLED, SGD_HAND_DEAD };

struct sgd_hand {
    enum sgd_hand_state state;
    manta_actor        *actor;
    manta_ref          *ready; /* its answer is awaited; also of a ping */
    manta_ref          *train; /* the same of a generation */
    manta_ref          *connect,
        *next;               /* of one that is made ready beside it: of its connections; of its orders, which wait behind `train` */
    int                rank; /* SGD_NO_RANK: a spare */
    int                next_rank;  /* in the generation that is made ready */
    bool               has_failed; /* to connect for it, or in it */
    int                place;      /* of the run's nodes */
    struct sgd_ready   info;       /* once READY */
    int64_t            hired_ns, pinged_ns;
    bool               is_seen;    /* its process was, as it started */
    int64_t            stopped_ns; /* STARTING: for so long it is seen stopped by a signal, ... */
    int64_t            idle_ns;    /* ... and for so long it has loaded without work */
    struct sgd_outcome outcome;    /* of its last `train` */
    bool               has_outcome;
    bool               was_ready;
    bool               is_unfit;           /* DEAD: it could not be made where it was to be */
    int                told_rank;          /* of which the user knows; SGD_UNTOLD: nothing */
    char               why[SGD_WHY_BYTES]; /* KILLED: what is told in place of the signal */
    manta_error        death;              /* DEAD: why */
};

struct sgd_crew {
    const struct sgd_run *run; /* these are the caller's */
    const char           *op;  /* name of the operator */
    manta_arg             config;
    manta_ref            *lent;
    double                cpus, gpus;         /* that each worker reserves */
    bool                  is_next_dropped;    /* what comes of the orders that wait behind others is nobody's */
    char                  cpu[SGD_CPU_BYTES]; /* of all that have ranks; "": nobody has one yet */
    bool                  has_home;           /* workers can be at place 0: an error of creation elsewhere is that node's own */
    struct sgd_hand       hands[SGD_HANDS_MAX];
};

/* What a look found. */
enum sgd_news { SGD_NEWS_READY, SGD_NEWS_BACK, SGD_NEWS_DEAD };
typedef void sgd_crew_tell(struct sgd_crew *crew, struct sgd_hand *hand, enum sgd_news news);

/* Starts a process on a node, without a rank; NULL: no hand is free (a bug of the caller's), or no memory. `region`: of that
 * node, as is `host`, its address. */
struct sgd_hand *sgd_crew_hire(struct sgd_crew *crew, int place, uint32_t node, uint64_t region, const char *host);

/* Gives a hand orders for a generation; its answer comes as SGD_NEWS_BACK. */
void sgd_crew_order(struct sgd_hand *hand, const struct sgd_order *order);

/* Has it connect for a generation that is made ready; its answer is in has_failed, once there is no `connect` any more. */
void sgd_crew_connect(struct sgd_hand *hand, const struct sgd_order *order);
/* Gives it that generation's orders, which it begins when it is back from its present ones. */
void sgd_crew_order_next(struct sgd_hand *hand, const struct sgd_order *order);
/* That generation is the present one. */
void sgd_crew_next_take(struct sgd_hand *hand);
/* Waits up to MT_TRAIN_LOOK_MS until there is news of a hand, or `also` (NULL: nothing) is ready; calls `tell` for each hand's. A
 * failure that is not a death (a type that does not exist, no node that could ever run it, an error of its creation) ends the look
 * with its code in *e. Returns 0 or that code. */
manta_status sgd_crew_look(struct sgd_crew *crew, manta_ref *also, sgd_crew_tell *tell, manta_error *e);

/* Asks idle spares for a sign of life, and kills those that have given none for MT_TRAIN_RETURN_MS. */
void sgd_crew_ping(struct sgd_crew *crew);

/* The hand that holds a rank, or NULL. */
struct sgd_hand *sgd_crew_of_rank(struct sgd_crew *crew, int rank);
/* A READY one without a rank, that could have one; NULL: none. */
struct sgd_hand *sgd_crew_spare(struct sgd_crew *crew);
/* How many are there, READY or on their way; of these, how many are READY. */
int sgd_crew_count(const struct sgd_crew *crew, int *out_ready);
/* The same of one place. */
int sgd_crew_count_at(const struct sgd_crew *crew, int place);
int sgd_crew_ready_at(const struct sgd_crew *crew, int place);
/* It has a process, as far as is known, and the CPUs that it reserves. */
bool sgd_crew_is_placed(const struct sgd_hand *hand);
/* Dismisses one of this place that has waited so long for CPUs there, and may be hired for another. False: there is none. */
bool sgd_crew_unplaced_drop(struct sgd_crew *crew, int place, int64_t waited_ns);
/* Kills a hand that is of no use any more. Its death is told as any other, with this reason. */
void sgd_crew_kill(struct sgd_hand *hand, const char *why);
/* The same for one on a node that can't be reached: its death is told now, although it may live. It has a region of its own there,
 * and the secret of a generation that is over, so it can do no harm to the next one. */
void sgd_crew_leave_behind(struct sgd_crew *crew, struct sgd_hand *hand, sgd_crew_tell *tell, const char *why);

/* Once somebody is ready, says on which type of CPU the run is: that of this node, if workers are here. Those of another type are
 * unfit: their results have other bits. On other nodes they are killed; here they get no rank (sgd_crew_fits). */
void sgd_crew_cpu_settle(struct sgd_crew *crew);
bool sgd_crew_fits(const struct sgd_crew *crew, const struct sgd_hand *hand);

/* Ends those of a place that leaves, unless they are in a call: these are to come back first. */
void sgd_crew_leave(struct sgd_crew *crew, int place);

/* Frees the place of a dead hand. */
void sgd_crew_bury(struct sgd_hand *hand);
/* Ends every process; one that starts, is in a call or owes a sign of life is killed, and has ended when this returns, unless it
 * takes longer than MT_TRAIN_DISMISS_MS: a user may clear away what it would still write to. */
void sgd_crew_dismiss(struct sgd_crew *crew);

#endif
