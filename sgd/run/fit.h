/* SPDX-License-Identifier: Apache-2.0
 *
 * fit.h - a training run as its driver sees it.
 *
 *            gather                     all back, rank 0 has finished
 *   (begin) ----------> generation g --------------------------------> (done)
 *                        |        ^
 *   somebody died, or    v        |  gather: as many as are ready, between the fewest and the most,
 *   more can work:     ABORTED ---'  once each member of g is back or dead
 *   abort g
 *
 * All workers are alike: who is ready gets a rank, as long as there are any; the rest are spares. So a death, a shrink and a
 * growth are the same: the next generation is made of who is there.
 *
 * Thread: the caller's of manta_sgd_fit.
 */
#ifndef SGD_FIT_H
#define SGD_FIT_H

#include "sgd/watch/board.h"
#include "sgd/run/crew.h"
#include "sgd/operator/files.h"
#include "sgd/run/place.h"
#include "sgd/run/setup.h"
#include "sgd/run/timeline.h"
#include "sgd/run/track/track.h"
#include "sgd/watch/next.h"
#include "sgd/watch/watch.h"

/* A generation of workers, from its orders until the next one's. Drawn and held in generation.c. */
enum sgd_generation {
    SGD_GEN_NONE,    /* none was formed yet */
    SGD_GEN_ORDERED, /* its members have their orders; no step of it is known to be done */
    SGD_GEN_GOING,   /* one is */
    SGD_GEN_RESIZED, /* it is to end after its present step, since more can work */
    SGD_GEN_FAILED,  /* it is to end, or all its members are back, and no step of it is known */
    SGD_GEN_ENDED,   /* the same, of one that has made steps */
};

/* From the first death until a step is completed again. */
struct sgd_recovering {
    bool     is_open;
    int      lost;
    int64_t  sign_ns; /* when who died was last seen to do something; 0: nobody looked */
    int64_t  detected_ns, back_ns, placed_ns, steps_lost;
    bool     is_going;   /* the step is done, but not all the replacements' own times are known yet */
    uint64_t going_step; /* then: which; when it was done; when everybody had the state (0: not told) */
    int64_t  going_ns, synced_ns;
};

/* What the run would use beyond what it has (elastic.c). */
struct sgd_elastic {
    double   rate[MT_GROUP_MEMBERS_MAX + 1]; /* samples per second with so many workers, as measured last; 0: not yet */
    uint32_t generation;                     /* that the present window is of; it began then: */
    uint64_t from_step;
    int64_t  from_ns;
    int      told;                   /* so many more workers */
    double   worth;                  /* each; as told */
    int64_t  looked_ns, may_come_ns; /* how that stands was last asked then; more might come then by the answer */
    int      stands;                 /* MANTA_WISH_..., as of then */
    bool     has_news;               /* that has changed, and nobody was told */
    char     why[256];
};

struct sgd_fit {
    const manta_sgd_opts   *opts;
    struct sgd_setup        setup;
    struct sgd_crew         crew;
    struct sgd_places       places;
    manta_actor            *mapped;                  /* gives mapped files to nodes that lack them; NULL: none */
    struct sgd_order        order;                   /* of the present generation, but for the rank */
    int                     min, max;                /* workers of a generation */
    int                     min_nodes;               /* that they are on */
    int                     workers;                 /* of the present one */
    uint32_t                generation, generations; /* the present one; the last number that was used */
    struct sgd_next         next;                    /* made ready beside it */
    struct sgd_order        next_order;              /* of it, but for the rank */
    bool                    has_next_stepped;
    int64_t                 next_dropped_ns;
    uint32_t                next_tried; /* the generation beside which one was made ready in vain; the change is made after it */
    enum sgd_generation     state;      /* of the present one */
    bool                    has_left;   /* somebody of this generation did, since its node was drained: no failure */
    bool                    has_death;  /* since failures were counted */
    int                     failures;   /* generations in which somebody died */
    int                     in_a_row;   /* of these, since a step was completed */
    int64_t                 gather_ns;  /* since when the next generation is gathered */
    int                     moves;      /* of workers that waited for CPUs, to other nodes, since then */
    int64_t                 starts_ns;  /* when those who start were last looked at, ... */
    int64_t                 loads_ns;   /* ... and when one was last seen that loads */
    int64_t                 leave_ns;   /* when the present one was asked to come back after its step; 0: it was not */
    struct sgd_watch        watch;
    int64_t                 straggler_ns;  /* when the last one was told */
    int                     failed_starts; /* that died before they had started, in a row */
    manta_error             last_death;
    int                     last_rank;
    uint32_t                failed_node;                /* the last that was told; 0: none */
    char                    last_words[SGD_TEXT_BYTES]; /* that the last one who died has printed */
    uint64_t                cursor;                     /* of the board */
    uint64_t                reported_step;              /* of the last report of progress, and when */
    int64_t                 reported_ns;
    struct sgd_recovering   recovering;
    struct sgd_elastic      elastic;
    struct sgd_timeline     timeline;
    struct sgd_track        hook, files; /* what they are told is the same */
    struct sgd_track_files *tracking;
    struct sgd_trace_cursor spans[SGD_HANDS_MAX]; /* how far the workers' rows on this node were read */
    bool                    has_begun;            /* result.first_step is set */
    uint64_t                furthest;             /* completed step, when a generation was last aborted */
    bool                    is_apart;             /* shards of its state stand in several machines' folders, or have stood there */
    uint32_t                saved_generation;     /* the last that has saved a checkpoint */
    manta_sgd_result        result;
};

/* generation.c: what has come of the present generation. */
void sgd_generation_ordered(struct sgd_fit *fit); /* it is the next one, and its orders go out */
void sgd_generation_stepped(struct sgd_fit *fit); /* a step of it is done; again and again is fine */
void sgd_generation_resize(struct sgd_fit *fit);  /* GOING: it is to end since more can work */
void sgd_generation_over(struct sgd_fit *fit);    /* it is to end, or has; again and again is fine */
/* Nothing ends it yet; it has made a step. */
bool sgd_generation_lives(const struct sgd_fit *fit);
bool sgd_generation_has_stepped(const struct sgd_fit *fit);

/* ranks.c: who has which rank. How many more nodes the run wants, by those where somebody has a rank, is ready, or is at least
 * on the way. */
enum sgd_here { SGD_HERE, SGD_HERE_READY, SGD_HERE_WITH_RANK };
int sgd_nodes_missing(const struct sgd_fit *fit, enum sgd_here how, uint64_t *out_places);
/* Ranks stay with those who have them, as far as that goes, and have no gaps. Returns how many there are. */
int sgd_ranks_give(struct sgd_fit *fit);
/* The same for a generation that is made ready, in next_rank. */
int sgd_ranks_plan(struct sgd_fit *fit);
/* Which ranks are on which place, by those of the present generation. */
void sgd_ranks_place(struct sgd_fit *fit);
/* Which ranks are on which node, by whom these nodes are reached, and a secret that only members of this generation learn; and what
 * one rank is told of it. */
manta_status     sgd_order_make(struct sgd_fit *fit, uint32_t generation, struct sgd_hand *const *by_rank, int members,
                                struct sgd_order *order, manta_error *e);
struct sgd_order sgd_order_of(const struct sgd_order *order, int rank);

/* ahead.c: the next generation, made ready beside the present one. */
void sgd_fit_next_begin(struct sgd_fit *fit); /* where one can be: of all that stay, and of those that are ready */
bool sgd_fit_next_look(struct sgd_fit *fit);  /* does what is due; true: it is to be waited for, also where nobody is at work */
int  sgd_fit_next_take(struct sgd_fit *fit);  /* ORDERED: it is the present one, of so many workers */

/* elastic.c: tells the cluster how many more workers the run would use, and what one is worth, where that has changed. step: the
 * last one that is done. */
void sgd_fit_wish(struct sgd_fit *fit, uint64_t step);
void sgd_fit_wish_end(struct sgd_fit *fit); /* it is over */

/* fit_report.c: what the user is told. */
void sgd_fit_tell_resized(struct sgd_fit *fit, bool was_ready); /* beside the generation before */
void sgd_fit_tell_waiting(struct sgd_fit *fit, const char *why);
/* `why` begins with "hung". */
void sgd_fit_tell_hung(struct sgd_fit *fit, const struct sgd_hand *hand, const char *why);
void sgd_fit_tell_straggler(struct sgd_fit *fit, const struct sgd_hand *hand);
void sgd_fit_tell_worker(struct sgd_fit *fit, struct sgd_hand *hand);
void sgd_fit_tell_node_failed(struct sgd_fit *fit, const struct sgd_place *place); /* once for each node in a row */
void sgd_fit_tell_node(struct sgd_fit *fit, uint32_t node, const char *why);       /* that it has no workers */
void sgd_fit_tell_lost(struct sgd_fit *fit, const struct sgd_hand *hand);
/* Reads the board and passes on what it says. */
void sgd_fit_read_notes(struct sgd_fit *fit);
/* One note, from whatever node. */
void sgd_fit_take_note(struct sgd_fit *fit, struct sgd_note *note);
/* Passes on what the workers of this node noted for the timeline; of one that has died, all, and returns its last sign of life. */
int64_t sgd_fit_read_spans(struct sgd_fit *fit, const struct sgd_hand *dead);
/* Opens what the run is to be seen in beside its events, and ends it. */
manta_status sgd_fit_logs_open(struct sgd_fit *fit, const char *op, manta_error *e);
void         sgd_fit_logs_end(struct sgd_fit *fit, manta_status code, const manta_error *error);

#endif
