/* SPDX-License-Identifier: Apache-2.0
 *
 * crew.h - the supervisors of a gang, as its driver has them: one a member.
 *
 *   hire -> ready (READY) -> poll, again and again -> words; tell, what was written for it
 *
 * Thread: the driver's. gng_crew_look blocks up to its limit; nothing else does.
 */
#ifndef GNG_CREW_H
#define GNG_CREW_H

#include "clients/gang/plan/wire.h"

#include <manta.h>

struct gng_hand {
    manta_actor *actor;
    manta_ref   *ready; /* NULL: not asked */
    manta_ref   *news;
    mt_buf       words;    /* to be told */
    mt_buf       come;     /* the begin of a word whose rest has still to come */
    int64_t      heard_ns; /* when it answered last */
    bool         is_down;
};

struct gng_crew {
    struct gng_hand *hands;
    int              count;
    manta_ref      **refs; /* of gng_crew_look: two a hand */
    int             *whose;
    unsigned char   *is_there;
};

/* Where the members' supervisors are to be. */
struct gng_berth {
    const manta_pg *pg; /* NULL: none */
    int             bundle;
    uint32_t        node; /* 0: anywhere */
};

/* What has come of one member: READY with its seat, a word of its rank, or its death. */
enum gng_news_kind { GNG_NEWS_READY, GNG_NEWS_WORD, GNG_NEWS_DOWN };
struct gng_news {
    enum gng_news_kind     kind;
    int                    member;
    const struct gng_seat *seat;
    const struct gng_wire *word;
    const manta_error     *why;
};
typedef mt_status (*gng_news_fn)(void *user, const struct gng_news *news);

MT_MUST_USE mt_status gng_crew_hire(struct gng_crew *crew, const struct gng_berth *berths, int count, double cpus, double gpus,
                                    const manta_env *env, bool wants_port);
void                  gng_crew_gather(struct gng_crew *crew, bool wants_port);
/* A word for a member; it goes with gng_crew_send. */
MT_MUST_USE mt_status gng_crew_write(struct gng_crew *crew, int member, const struct gng_wire *word);
void                  gng_crew_send(struct gng_crew *crew);
/* Waits for news of anyone, up to wait_ms, and hands each to `fn`, whose first failure ends it and is returned. */
MT_MUST_USE mt_status gng_crew_look(struct gng_crew *crew, int wait_ms, gng_news_fn fn, void *user);
/* Kills those that have answered nothing since then, and tells their deaths: a supervisor without news says so once in
 * MT_GANG_POLL_MS. */
MT_MUST_USE mt_status gng_crew_end_silent(struct gng_crew *crew, int64_t since_ns, gng_news_fn fn, void *user);
/* Kills all supervisors, and with them their ranks; the crew is empty. */
void gng_crew_dismiss(struct gng_crew *crew);

#endif
