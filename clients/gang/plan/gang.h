/* SPDX-License-Identifier: Apache-2.0
 *
 * gang.h - what happens next in a gang: a state machine without clock, process or network. run.c drives it.
 *
 *   RESERVING --room, all are hired--> GATHERING --all are ready--> RUNNING --all have ended with 0--> DONE
 *     ^  ^                               |   ^                        | one fails, a node leaves, a signal, room for more
 *     |  '-------- one is gone ----------'   |                        v
 *     |                                      '-- all are there -- STOPPING --no more tries, or a signal--> DONE
 *     '----------------- somebody is gone, or another size is wanted --'
 *
 * RUNNING also ends when all ranks but those that serve have ended with 0: then these are ended, and it is DONE. With `renews` a
 * rank that fails is started again alone, in RUNNING, while there are tries; one whose supervisor is gone is not.
 *
 * In each state but RUNNING and RESERVING a limit ends the wait (gng_step with GNG_EV_TICK). From any state a signal that ends the
 * gang leads to DONE.
 *
 * Always: ranks are started when all members are ready, and then all of them; none of a later attempt is started while one of an
 * earlier attempt may run. DONE is reached when every rank has ended or its supervisor is gone.
 */
#ifndef GNG_GANG_H
#define GNG_GANG_H

#include "core/base/limits/gang.h"
#include "core/base/status.h"
#include "core/ds/vec.h"

#include <stdbool.h>
#include <stdint.h>

enum gng_state { GNG_RESERVING, GNG_GATHERING, GNG_RUNNING, GNG_STOPPING, GNG_DONE };

enum gng_member_state {
    GNG_MEMBER_HIRED,   /* its supervisor is on its way, or is asked where it is */
    GNG_MEMBER_READY,   /* no rank runs */
    GNG_MEMBER_RUNNING, /* its rank was started */
    GNG_MEMBER_ENDED,   /* its rank has ended */
    GNG_MEMBER_GONE,    /* its supervisor is dead */
};

struct gng_member {
    enum gng_member_state state;
    bool                  is_leaving; /* its node is drained */
    bool                  serves;     /* its rank serves others, and is ended when they have: a parameter server */
};

/* Why a gang stops before its ranks have ended by themselves. */
enum gng_cause {
    GNG_CAUSE_NONE,
    GNG_CAUSE_FAILED,  /* a rank failed, or is gone */
    GNG_CAUSE_LEAVING, /* a node is drained */
    GNG_CAUSE_GROWING, /* there is room for more ranks */
    GNG_CAUSE_SIGNAL,  /* it was told to */
};

enum gng_event_kind {
    GNG_EV_ROOM,    /* so many members have room */
    GNG_EV_NEVER,   /* no room can ever be had, or it was waited for too long */
    GNG_EV_READY,   /* a member */
    GNG_EV_GONE,    /* a member */
    GNG_EV_ENDED,   /* a member's rank */
    GNG_EV_FAULT,   /* a member's rank has done what it may not, whether it runs on or not */
    GNG_EV_LEAVING, /* a member's node is drained */
    GNG_EV_GROW,    /* there is room for more ranks than run */
    GNG_EV_SIGNAL,  /* the user's, to be passed on */
    GNG_EV_TICK,
};
struct gng_event {
    enum gng_event_kind kind;
    int64_t             now_ns;
    union {
        int count;  /* ROOM */
        int member; /* READY, GONE, FAULT, LEAVING */
        int number; /* SIGNAL */
        struct {
            int      member;
            uint32_t attempt;
            bool     is_failed;
        } ended;
    };
};

enum gng_action_kind {
    GNG_DO_RESERVE, /* look for room, until ROOM or NEVER */
    GNG_DO_HIRE,    /* make the members' supervisors */
    GNG_DO_GATHER,  /* ask those that are there where they are */
    GNG_DO_START,   /* the ranks of all members */
    GNG_DO_SIGNAL,  /* a member's rank */
    GNG_DO_RENEW,   /* start a member's rank again, the others go on */
    GNG_DO_DISMISS, /* kill all supervisors, give the room back */
    GNG_DO_AGAIN,   /* for people: it begins again */
    GNG_DO_DONE,
};
struct gng_action {
    enum gng_action_kind kind;
    int                  member, number; /* SIGNAL: which; RENEW: the count of restarts, this one included */
};

struct gng_gang {
    enum gng_state     state;
    enum gng_cause     cause; /* STOPPING, and DONE */
    struct gng_member *members;
    int                count;
    int                max_restarts, restarts; /* those that failures cost */
    bool               renews;                 /* the caller's: a rank that fails is started again alone */
    int64_t            term_ns;                /* from SIGTERM to SIGKILL */
    uint32_t           attempt;                /* of all starts, from 1; 0: none yet */
    int                hires;                  /* in a row that came to nothing */
    int                signal_number;          /* the user's that ended it; 0: none */
    int64_t            limit_ns;               /* of the present wait; 0: none */
    bool               is_killed;              /* STOPPING: SIGKILL was sent */
    bool               has_room;               /* RESERVING was done, and not undone */
    MT_VEC(struct gng_action) actions;
};

/* It begins with RESERVING; the caller does what `actions` say and empties them. */
void gng_init(struct gng_gang *g, int max_restarts, int64_t term_ns);
void gng_fini(struct gng_gang *g);
/* That member's rank serves the others, in the attempt that GNG_DO_START has just begun. */
void gng_serves(struct gng_gang *g, int member);
/* Takes an event. ENOMEM: the gang can't go on. Words about members that are not there, or of another attempt, change nothing. */
MT_MUST_USE mt_status gng_step(struct gng_gang *g, const struct gng_event *ev);

#endif
