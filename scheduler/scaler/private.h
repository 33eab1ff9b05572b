/* SPDX-License-Identifier: Apache-2.0
 *
 * private.h - what the files of this room share: bucket.c, instance.c < pack.c < why.c < decide.c, listing.c < scaler.c; explain.c.
 */
#ifndef SCL_PRIVATE_H
#define SCL_PRIVATE_H

#include "core/ds/map.h"
#include "scheduler/scaler/scaler.h"

#include <string.h>

enum { SCL_NO_TYPE = MT_SCL_TYPES_MAX };

struct type_state { /* beside its scl_type */
    uint32_t live;  /* instances that are, or are to become, nodes */
    uint32_t launching;
    uint32_t coming;   /* room that will be there, when instances were last looked at */
    uint32_t failures; /* in a row */
    uint64_t back_ms;  /* not launched before */
    uint64_t avoid_ms; /* others come first until then: the provider took one away */
    uint64_t avoid_span_ms;
    uint64_t boot_ms; /* the longest of late, from the order until it joined; 0: none yet */
    char     why[MT_SCL_WHY_SIZE];
    char     taken[MT_SCL_WHY_SIZE];     /* why it is avoided */
    char     text[2 * MT_SCL_NAME_SIZE]; /* its name and zone, for people */
    uint32_t first;                      /* the first type of the same name: what is counted for all zones is counted there */
    uint32_t all;                        /* live ones in all zones */
};

enum { /* why a node that is idle is kept: all that holds */
       KEPT_NEEDED = 1,
       KEPT_MIN = 2,
       KEPT_YOUNG = 4, /* its idle limit has not passed */
       KEPT_FLOOR = 8, /* no fewer nodes that are no spot nodes, as long as there are such */
};
struct scl_bucket { /* nodes that are equal: a packing looks at one of them */
    mt_id              key;
    struct policy_node like;
    uint32_t           count;
    uint32_t           requested, waited_for; /* so many of them are used by the last packing: of requests, of all else */
    bool               is_busy;
};
struct scl_known {             /* a node */
    struct scl_bucket *bucket; /* NULL: it leaves, or is not reached */
    struct policy_node place;  /* a copy */
    uint64_t           instance, idle_ms /* since then; 0: busy */;
    uint64_t           slack_ms, spare_ms; /* since then it is little used (0: it is not), and its work fits elsewhere */
    bool               is_busy, can_move;
    unsigned           kept;
    char               handle[MT_SCL_NAME_SIZE];
};

enum scl_place { SCL_NOWHERE, SCL_ON_SPOT, SCL_ON_SURE, SCL_ON_OWN };
enum scl_wants { SCL_WANTS_ANY, SCL_WANTS_SPOT, SCL_WANTS_SURE, SCL_WANTS_NOTHING };
struct scl_pace_choice {
    enum scl_place place; /* where it is */
    enum scl_wants wants;
    bool           leaves;  /* at once: it is ahead */
    uint64_t       late_ms; /* from then on it must have a sure node; 0: it must now */
};
struct held_demand { /* a copy of a demand, and what the last packing said of it */
    struct scl_demand      demand;
    struct scl_pace        pace; /* where demand.pace is not NULL */
    struct scl_pace_choice choice;
    struct policy_request *requests;
    uint32_t              *held;
    uint32_t               here, coming, started; /* placed on nodes that are there, that come, that were just decided on */
    uint32_t               unmet;
};

struct stranger {
    uint64_t number;
    char     handle[MT_SCL_NAME_SIZE];
    uint32_t seen; /* good listings in a row */
    uint64_t sequence;
};

struct decision {
    uint64_t at_ms;
    char     text[MT_SCL_WHY_SIZE + 96];
};

struct scl {
    struct scl_config config;
    struct scl_type   types[MT_SCL_TYPES_MAX];
    struct type_state state[MT_SCL_TYPES_MAX];
    uint64_t          next_number, given, now_ms; /* numbers below `given` were ours to give */
    mt_map            instances;                  /* number -> struct scl_instance */
    mt_map            nodes;                      /* node -> struct scl_known */
    mt_map            idle;                       /* ... those of them that nobody uses */
    mt_map            slack;                      /* ... that are little used, and whose work can move */
    mt_map            buckets;                    /* key -> struct scl_bucket */
    MT_VEC(struct held_demand) demands;
    MT_VEC(struct stranger) strangers;
    uint64_t list_sequence, list_ms;                      /* the last LIST; when the next one is due */
    char     list_why[MT_SCL_WHY_SIZE];                   /* why the last one failed; "": it was good */
    uint64_t list_failed_ms;                              /* ... since when */
    bool     is_listing, is_dirty;                        /* LIST is out; something has changed since the last packing */
    bool     is_changed;                                  /* ... of instances, or of which nodes there are */
    uint64_t wish_ms;                                     /* since when some wish has had no place; 0: all have one */
    uint32_t wish_least;                                  /* ... so many, at all times since then */
    uint32_t wish_here;                                   /* the most that had a place on nodes that are there, since then */
    uint64_t spot_there_ms, spot_away_ms, spot_looked_ms; /* spot nodes could be had so long, and could not; seen last then */
    bool     spot_was_there, spot_was_refused;            /* ... as it was then */
    uint64_t slack_due_ms;                                /* one of `slack` may be given back then, at the earliest */
    uint64_t due_ms;                                      /* a timer of an instance or a node */
    const char *const  *kinds;                            /* during a step */
    uint32_t            live, wanted;                     /* instances */
    uint32_t            left[MT_SCL_TYPES_MAX], left_all; /* that might have been started beyond what the last packing started */
    uint32_t            live_spot;                        /* ... those of live that the provider may take away, */
    uint32_t            live_on_demand;                   /* ... and those that it may not */
    struct decision     history[MT_SCL_HISTORY];
    uint64_t            decisions;
    mt_status           broken;
    struct scl_actions *out;
};

/* As snprintf "%s", in a small part of its time. */
static inline void scl_text(char *out, size_t size, const char *text)
{
    size_t length = strnlen(text, size - 1);
    memcpy(out, text, length);
    out[length] = '\0';
}

#define SCL_TRY(s, expr) \
    do { \
        mt_status scl_try_st_ = (expr); \
        if (scl_try_st_.code != 0 && (s)->broken.code == 0) \
            (s)->broken = scl_try_st_; \
    } while (0)

/* ---- bucket.c ---- */

/* `n` is new, or has changed: it stands in its bucket, and among the idle ones if it is. */
void    scl_node_sort(struct scl *s, struct scl_known *n);
void    scl_node_unsort(struct scl *s, struct scl_known *n); /* it is in none any more */
int64_t scl_use_of_node(const struct policy_node *n);        /* the largest share of a resource that is used, in thousandths */

/* ---- instance.c ---- */

struct scl_instance *scl_find(const struct scl *s, uint64_t number);
/* Changes the state, counts, and stores it; where GONE it is freed. */
void scl_set_state(struct scl *s, struct scl_instance *i, enum scl_state to, const char *why);
/* A new one, WANTED. NULL: no memory, or too many. */
struct scl_instance *scl_instance_new(struct scl *s, uint32_t type, const char *why);
void                 scl_store(struct scl *s, const struct scl_instance *i);
void                 scl_act(struct scl *s, enum scl_action_kind kind, const struct scl_instance *i);
void                 scl_launch(struct scl *s, struct scl_instance *i);    /* WANTED -> LAUNCHING */
void                 scl_terminate(struct scl *s, struct scl_instance *i); /* says it (again) */
void                 scl_drain_order(struct scl *s, const struct scl_instance *i);
void                 scl_list_soon(struct scl *s);
void                 scl_note(struct scl *s, const char *format, ...) MT_PRINTF(2, 3); /* a decision, for people */
void                 scl_type_failed(struct scl *s, uint32_t type, const char *why);
/* One of a type that may be taken away was: for a while others come first. */
void scl_type_avoid(struct scl *s, uint32_t type, const char *why);
void scl_due(struct scl *s, uint64_t at_ms);
/* SCL_NO_TYPE: there is none. */
uint32_t scl_type_find(const struct scl_type *types, uint32_t count, const char *name, const char *zone);
bool     scl_is_live(enum scl_state state);
bool     scl_is_coming(const struct scl *s, const struct scl_instance *i); /* room that will be there */

bool scl_is_least(const struct scl *s, const struct scl_instance *i); /* its type has no more than its minimum */
/* Without it there would be fewer than there must be of those that are no spot nodes. */
bool     scl_is_floor(const struct scl *s, const struct scl_instance *i);
uint64_t scl_spare_limit(const struct scl *s, uint32_t type); /* so long it is little used before it is given back */
uint64_t scl_idle_least(const struct scl *s, uint32_t type);  /* whatever was said of the type */

/* ---- pack.c: all demands into what is there, comes, and can be had ---- */

struct plan {
    uint32_t start[MT_SCL_TYPES_MAX]; /* new instances of each type */
    uint32_t all;                     /* ... of all types, */
    uint32_t on_demand;               /* ... of those that are no spot nodes, */
    uint32_t zones[MT_SCL_TYPES_MAX]; /* ... of all zones of a type, by its first */
    uint32_t coming_needed[MT_SCL_TYPES_MAX];
    uint32_t leaves[MT_SCL_PACED_MAX], leave_count; /* nodes of jobs that go on elsewhere */
    uint32_t spare;                                 /* a node whose work fits elsewhere; 0: none */
    char     cause[MT_SCL_TYPES_MAX][MT_SCL_WHY_SIZE];
};
void scl_pack(struct scl *s, struct plan *out); /* notes in each bucket how many of its nodes are used */
/* So many of it, `most` at most, fit on a new node of `type`. */
uint32_t scl_fit_new(const struct scl *s, uint32_t type, const struct policy_request *r, uint32_t most);
void     scl_gang_sum(const struct held_demand *d, struct policy_request *out); /* all bundles that it lacks as one request */
void     scl_shape_text(const char *const *kinds, const struct policy_request *r, char *out, size_t size);

/* ---- decide.c, listing.c ---- */

void scl_decide(struct scl *s);
void scl_listed(struct scl *s, const struct scl_event *event);

#endif
