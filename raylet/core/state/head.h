/* SPDX-License-Identifier: Apache-2.0
 *
 * head.h - what this node and the head have said to each other.
 */
#ifndef RLT_STATE_HEAD_H
#define RLT_STATE_HEAD_H

#include "core/base/limits/raylet.h"
#include "core/ds/map.h"
#include "core/proto/manta.pb-c.h"
#include "raylet/core/kit/ledger.h"
#include "raylet/core/kit/list.h"
#include "raylet/core/state/timer.h"

/* A request of a process of this node that the head has not answered yet. */
struct rlt_asked {
    mt_id                    id;
    uint64_t                 conn;
    uint32_t                 op;
    struct ctl_name          name;
    Manta__V1__ActorRequest *actor;    /* of CTL_OP_ACTOR_...; NULL: a name, or ... */
    Manta__V1__GroupRequest *group;    /* ... CTL_OP_GROUP */
    bool                     is_held;  /* not said yet: its files are on their way to the head */
    uint32_t                 programs; /* of them, the first so many are its program's */
    uint32_t                 uploaded; /* of them, so many are there: the program's, then its values, then its environment */
    int                      values;   /* -1: none */
    uint64_t                 env;      /* key; 0: none */
    uint64_t                 since;
    struct rlt_list          in_all; /* oldest first */
};

/* A submitted job whose driver runs here. */
enum rlt_submitted_state { JOB_WAITING, JOB_STARTING, JOB_RUNNING, JOB_ENDED };
struct rlt_submitted {
    char                     id[CTL_NAME_SIZE];
    uint32_t                 attempt;
    enum rlt_submitted_state state;
    bool                     is_stopping; /* by order of the head, or its time is up */
    bool                     is_timed_out;
    bool                     is_preempted; /* ended since the node leaves, or for another job: it begins again */
    bool                     is_warden;    /* of a detached actor that may restart */
    bool                     is_unfit;     /* FAILED: this node can't run its program, however often it is tried */
    bool                     has_news;     /* of which the head is told with the next words: */
    bool                     is_beginning; /* ... among them that it runs */
    bool                     is_reading;   /* a piece of the log is on its way from the shell */
    int32_t                  pid, exit_code;
    const char              *word; /* of JobState: RUNNING SUCCEEDED FAILED STOPPED PREEMPTED */
    char                     reason[CTL_TEXT_SIZE];
    uint64_t                 time_ms;
    uint64_t                 limit_at;  /* its time is up then; 0: never, or it has not begun */
    int                      signal;    /* its notice; 0: none of its own */
    uint64_t                 notice_ms; /* it has so long from its notice to its end */
    bool                     is_noticed;
    uint64_t                 log_size, log_sent, log_acked;
    struct rlt_hold          hold;
    struct ctl_resource      request[CTL_RESOURCES]; /* WAITING: what it will hold */
    uint32_t                 request_count;
    uint64_t                 turn; /* WAITING: the least is next */
    struct rlt_timer
        timer; /* WAITING: then it goes back; time limit; then from SIGTERM to SIGKILL; ENDED: to the next time it is said */
};

/* Datagrams that say that this node lives, and that its last report stands. */
enum rlt_beats_state {
    BEATS_NONE,  /* the head takes none: what is unchanged is reported each second */
    BEATS_LOUD,  /* it is not known to hear them: reported each second, and a datagram beside it */
    BEATS_QUIET, /* it answers: no reports but of changes */
};
struct rlt_beats {
    enum rlt_beats_state state;
    bool                 is_waiting; /* QUIET: the head has not said yet that it has heard this second's */
    uint64_t             counter;    /* of the last one that was sent */
    uint64_t             first;      /* of this second's: an answer to an older one says nothing */
    uint64_t             answered;   /* of the last one that was answered */
    uint64_t             echo;       /* of that answer */
    uint64_t             began_at;   /* this second's first one was sent then, ... */
    uint64_t             at;         /* ... and the last one then */
};

/* What this node and the head have said to each other. */
struct rlt_head {
    bool             is_up;         /* the stream is open */
    bool             is_registered; /* ... and the head has answered */
    bool             is_ready;      /* RLT_A_READY was said */
    char             cluster[CTL_NAME_SIZE];
    uint64_t         epoch;        /* the highest that a head had: what an older one says has no effect */
    uint64_t         heard_at;     /* its last message. One that is out of reach behind an open stream says nothing */
    uint64_t         view_version; /* r->nodes is what the head's table was at that one ... */
    bool             is_view_new;  /* ... or will be, when it has told of all of them */
    uint64_t         report_version;
    uint64_t         reported_at;
    bool             is_change_reported; /* the last report brought something new */
    uint64_t         reported_hash;      /* of what the last report said: unchanged ones wait for the next sign of life */
    uint32_t         reported_here;      /* how much was here then, which is in no hash */
    struct rlt_timer report;
    struct rlt_beats beats;
    uint64_t         wish_changes;
    struct rlt_timer words;    /* on jobs: they are said then */
    struct rlt_timer patience; /* the oldest request that is not answered */
    mt_map           asked;    /* id -> rlt_asked */
    struct rlt_list  all_asked;
    struct {
        uint64_t version, at;
    } sent[8];                          /* when the last reports left, by version */
    uint64_t unanswered, unanswered_at; /* version of the last report with wants that the head has not answered, and when
                                                   the first of them left; 0: it has answered all */
    uint64_t answer_ns; /* what such an answer took lately: the longest, less an eighth with each; 0: none came yet */
    uint64_t gone[64];  /* the last processes that ended and had names: said again after each registration */
    uint32_t gone_count;
    uint64_t jobs_gone[MT_RLT_JOBS_GONE]; /* the same of jobs whose drivers were here */
    uint32_t jobs_gone_count;
};

#endif
