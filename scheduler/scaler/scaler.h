/* SPDX-License-Identifier: Apache-2.0
 *
 * scaler.h - door: which nodes are started and which are given back. One state machine; no system call, thread, clock or global.
 *
 *   demands, nodes, the provider's answers, time --> scl_step --> STORE, LAUNCH, DRAIN, TERMINATE, LIST
 *
 * Who drives it writes what STORE says before it carries out what comes after it, so that a crash between any two of them leaves
 * no instance without a record. A provider that lies, hangs or forgets is found out by its listings.
 * Thread: one. Amounts and kinds of resources are those of policy.h.
 */
#ifndef SCL_SCALER_H
#define SCL_SCALER_H

#include "core/ds/vec.h"
#include "core/base/limits/scaler.h"
#include "scheduler/policy/policy.h"

struct scl; /* the scaler */

/* ---- instances: one launched thing, before and after it is a node (states: instance.c) ----------------------------- */

enum scl_state {
    SCL_WANTED,    /* decided on; the provider has not heard of it */
    SCL_LAUNCHING, /* the provider was asked, or is about to be */
    SCL_BOOTING,   /* it runs by the provider's word */
    SCL_JOINED,    /* it is a node */
    SCL_DRAINING,  /* its node is to leave */
    SCL_STOPPING,  /* the provider was asked to end it */
    SCL_GONE,      /* nothing of it is left: its record goes */
    SCL_FAILED,    /* it could not be launched; waits for a listing without it */
    SCL_STATE_COUNT
};

struct scl_instance {
    uint64_t       number; /* never given twice in a cluster */
    enum scl_state state;
    uint32_t       node; /* 0: none yet */
    char           type[MT_SCL_NAME_SIZE], zone[MT_SCL_NAME_SIZE], handle[MT_SCL_NAME_SIZE], why[MT_SCL_WHY_SIZE];
    /* not stored: */
    uint32_t type_index;            /* MT_SCL_TYPES_MAX: the configuration has it, or its zone, no more */
    uint64_t since_ms;              /* in this state */
    uint64_t asked_ms;              /* the provider was last asked about it */
    uint64_t launched_ms;           /* 0: by a head before this one */
    uint64_t list_floor;            /* listings before that one say nothing about it */
    uint32_t missing;               /* good listings in a row without it */
    bool     is_waiting;            /* in a queue, by the last good listing */
    uint64_t drain_ms;              /* DRAINING: within that; 0: in peace */
    bool     is_moved;              /* DRAINING: its work fits elsewhere */
    bool     is_listed, is_unknown; /* in the last good listing; nobody knows whether the order to launch it arrived */
};
const char *scl_state_text(enum scl_state state);

/* ---- what goes in -------------------------------------------------------------------------------------------------- */

struct scl_type { /* of nodes that can be launched; one that can be had in several zones is one for each, of the same name */
    char               name[MT_SCL_NAME_SIZE], zone[MT_SCL_NAME_SIZE]; /* "": the provider's choice */
    struct policy_node place;                                          /* total and free: what such a node has; labels */
    uint32_t           min, max;                                       /* of all of its zones together */
    bool               is_spot;                                        /* the provider may take it away again at any time */
    bool               is_unknown; /* what one has is not known: at most one is started until that is told. `place` has nothing */
    bool               is_learnt;  /* `place` is what one has told */
    bool               is_spread;  /* the next one goes to the zone with the fewest; else to the first that can be had */
    uint64_t           idle_ms, boot_ms; /* given back after that; must have joined in that */
    int64_t            price;            /* any unit, the same for all; 0: not said */
};
struct scl_config {
    const struct scl_type *types; /* copied */
    uint32_t               count;
    uint32_t               max;            /* nodes of ours in all; 0: no bound */
    uint64_t               consolidate_ms; /* a node that is little used for so long goes, if its work fits on others; 0: never */
    uint32_t               on_demand_min;  /* of ours so many at least are no spot nodes, as long as there are spot nodes */
    bool                   is_down;        /* all are to go */
};

enum scl_demand_kind {
    SCL_LEASES,  /* `count` leases of one request wait */
    SCL_GANG,    /* the bundles of a placement group that stand nowhere: all of them or none */
    SCL_REQUEST, /* somebody wants room for so many in all, used or not */
    SCL_WISH,    /* somebody would use so many more, but goes on without them */
};
struct scl_pace {                  /* of one job that must end in time */
    uint64_t deadline_ms, left_ms; /* it must have ended by then; so long it still runs */
    uint64_t change_ms;            /* so long it takes on a node until it goes on */
    uint64_t risk_ms; /* so much would be lost where its node is taken away: it starts over; 0: it goes on where it was */
    uint32_t node;    /* where it runs; 0: nowhere */
    bool     stays;   /* it does not leave where it is for a cheaper node */
};
struct scl_demand {
    enum scl_demand_kind         kind;
    uint32_t                     count;
    uint32_t                     worth;    /* of a wish: by how many thousandths its work gets quicker with one more */
    enum policy_strategy         strategy; /* of a gang */
    const uint32_t              *held;     /* nodes where the gang's other bundles stand */
    uint32_t                     held_count;
    char                         name[MT_SCL_NAME_SIZE]; /* for people; "": none */
    const struct policy_request *requests;               /* one; of a gang `count` of them */
    uint64_t                     owner;                  /* of a wish: given back by scl_wishes_each */
    const struct scl_pace       *pace;                   /* of LEASES of one job: told until it has ended. NULL: none */
};

struct scl_node { /* a node of the cluster, ours or not */
    const struct policy_node *place;
    bool                      is_busy;  /* leases, actors, bundles, drivers or values are there */
    bool                      can_move; /* ... all of which end soon, and can be elsewhere next time */
    uint64_t                  instance; /* by its label; 0: not one of this cluster's */
    const char               *handle;   /* by its label; "": not said */
    const char               *leaves;   /* DRAINING: why; NULL: not said */
};

struct scl_listed { /* one running thing at the provider with this cluster's tag */
    uint64_t instance;
    char     handle[MT_SCL_NAME_SIZE];
    bool     is_waiting;              /* in a queue: it does not boot yet */
    char     failed[MT_SCL_WHY_SIZE]; /* why it will never be a node, or has ended; "": nothing of that */
};

enum scl_event_kind {
    SCL_EV_TICK = 1,   /* time has passed, or what was told is to be decided on */
    SCL_EV_DEMANDS,    /* all there are: a level */
    SCL_EV_NODE,       /* a node is new or has changed */
    SCL_EV_NODE_GONE,  /* dead or left */
    SCL_EV_LISTED,     /* the answer to LIST */
    SCL_EV_LAUNCHED,   /* ... to LAUNCH */
    SCL_EV_TERMINATED, /* ... to TERMINATE */
};
enum scl_outcome { SCL_DONE, SCL_REFUSED, SCL_UNKNOWN /* no answer in time, or the provider has ended */ };

struct scl_event {
    enum scl_event_kind kind;
    uint64_t            now_ms;
    const char *const  *kinds; /* names of resources, borrowed for the step */
    union {                    /* borrowed for the step */
        struct {
            const struct scl_demand *items;
            size_t                   count;
        } demands;
        struct scl_node node;
        struct {
            uint32_t node;
        } gone;
        struct {
            uint64_t                 sequence; /* of its LIST */
            bool                     is_good;
            const char              *text; /* why it is not; NULL: not said */
            const struct scl_listed *items;
            size_t                   count;
        } listed;
        struct { /* LAUNCHED, TERMINATED */
            uint64_t         instance;
            enum scl_outcome outcome;
            const char      *handle; /* of what was launched; "": the provider names none */
            const char      *text;   /* why not */
        } answer;
    };
};

/* ---- what comes out ------------------------------------------------------------------------------------------------ */

enum scl_action_kind {
    SCL_ACT_STORE = 1, /* the record of `instance`; state GONE: it goes. Before what follows */
    SCL_ACT_LAUNCH,    /* starts one of `type`, tagged with the number; the same number again starts no second */
    SCL_ACT_DRAIN,     /* `node` is to leave within limit_ms */
    SCL_ACT_TERMINATE, /* ends what has that number (and handle, where one is given); right also where there is none */
    SCL_ACT_LIST,
};
struct scl_action {
    enum scl_action_kind kind;
    struct scl_instance  instance; /* number, type, handle, why; for STORE all that is stored */
    uint64_t             limit_ms; /* DRAIN */
    uint32_t             more;     /* LAUNCH: so many of the same type and zone follow in this step */
    uint64_t             sequence; /* LIST */
};
struct scl_actions {
    MT_VEC(struct scl_action) list; /* in this order */
    uint64_t next_ms;               /* a TICK is due then, at the latest */
};

/* ---- the machine --------------------------------------------------------------------------------------------------- */

MT_MUST_USE mt_status scl_new(uint64_t now_ms, struct scl **out_scl);
void                  scl_free(struct scl *scl);
/* Takes a configuration over. What it says of types that run already counts from now on. ENOMEM, EINVAL (too many). */
MT_MUST_USE mt_status scl_configure(struct scl *scl, const struct scl_config *config);
/* A stored record, and the next number; before the first step. */
MT_MUST_USE mt_status scl_load(struct scl *scl, const struct scl_instance *record);
void                  scl_load_next(struct scl *scl, uint64_t next_number);
uint64_t              scl_next_number(const struct scl *scl);
/* ENOMEM: the scaler can't go on. */
MT_MUST_USE mt_status scl_step(struct scl *scl, const struct scl_event *event, struct scl_actions *out);

/* ---- questions; nothing changes ------------------------------------------------------------------------------------ */

/* One row for each: `fn` gets texts that it must copy. */
typedef void scl_row_fn(void *user, const char *what, const char *text);
/* Types, then instances. */
void scl_status_each(const struct scl *scl, const char *const *kinds, scl_row_fn *fn, void *user);
void scl_explain_each(const struct scl *scl, const char *const *kinds, scl_row_fn *fn, void *user); /* demands, then nodes */
void scl_history_each(const struct scl *scl, scl_row_fn *fn, void *user); /* the last decisions, the newest first */
/* Whether a node of some type could hold one of it, so that waiting for one makes sense. */
bool scl_could_hold(const struct scl *scl, const struct policy_request *request);
/* On which nodes a job with a deadline may begin at `now_ms`: `labels` of the request (room for MT_SCL_NAME_SIZE), "": on any; and
 * why, one sentence for people. */
void scl_pace_ask(const struct scl *scl, const struct scl_pace *pace, const struct policy_request *request, uint64_t now_ms,
                  char *out_labels, char *out_why, size_t why_size);
enum scl_wish_state {
    SCL_WISH_MET = 1, /* what is there has room for it */
    SCL_WISH_COMING,  /* nodes are being started for it, or are about to be */
    SCL_WISH_WAITS,   /* it can't be met now, and may be later */
    SCL_WISH_NEVER,   /* no node that may be started could meet it */
};
/* How each stands: by its owner and name; `why`, one sentence, of the last two, and of nodes that are started once more. */
typedef void scl_wish_fn(void *user, uint64_t owner, const char *name, enum scl_wish_state state, const char *why);
void         scl_wishes_each(const struct scl *scl, const char *const *kinds, scl_wish_fn *fn, void *user);
size_t       scl_instances_each(const struct scl *scl, void (*fn)(void *user, const struct scl_instance *instance), void *user);
bool         scl_is_down(const struct scl *scl); /* `is_down`, and nothing is left */
/* What must always hold; the text of the first breach, or NULL. */
const char *scl_check(const struct scl *scl);

#endif
