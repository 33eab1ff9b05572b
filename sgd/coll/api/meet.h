/* SPDX-License-Identifier: Apache-2.0
 *
 * meet.h - the actor through which members of a group over TCP find each other and agree: it keeps what each member of a
 * generation says, and gives it to those who ask. One call at a time, no waiting inside: members ask again.
 *
 *   actor "manta_coll_meet" (), named after the group, owned by the group's creator
 *       say (coll_meet_word)  -> coll_meet_news   takes one member's word, gives what is known
 */
#ifndef SGD_COLL_MEET_H
#define SGD_COLL_MEET_H

#include "core/base/limits/net.h"
#include "core/base/limits/train.h"
#include "sgd/coll/api/id.h"

#define COLL_MEET_TYPE "manta_coll_meet"

enum coll_meet_kind {
    COLL_MEET_PORT,  /* this member listens there */
    COLL_MEET_VOTE,  /* its vote in a round, and who is dead for all it knows */
    COLL_MEET_DEAD,  /* the creator has heard that a member is dead; of rank, or of process `pid` */
    COLL_MEET_ABORT, /* the generation is to end */
    COLL_MEET_ASK    /* only wants news */
};

/* What members and the creator tell the actor. */
struct coll_meet_word {
    uint32_t       kind, generation; /* 0: the latest, whatever it is */
    uint32_t       rank, members;
    uint32_t       pid, round, reason;
    uint32_t       hint; /* COLL_MEET_DEAD: the generation that `rank` is of */
    uint64_t       flags, dead;
    struct coll_at at; /* COLL_MEET_PORT */
};

struct coll_meet_news {
    uint32_t       generation, members; /* the latest that anybody has named */
    uint32_t       there;               /* members whose port is known */
    uint32_t       reason, about;       /* of this generation's end; 0: it goes on */
    uint32_t       decided, round;      /* the last decision: of which generation and round. It outlives the generation's end, */
    uint64_t       alive, flags;        /* since members may ask for it when others have gone on with it */
    struct coll_at at[MT_GROUP_MEMBERS_MAX];
};
static_assert(sizeof(struct coll_meet_news) <= MANTA_INLINE_MAX, "travels inline");

/* One word said, and the news. Blocks up to 10 s. */
manta_status coll_meet_say(manta_actor *actor, const struct coll_meet_word *word, struct coll_meet_news *out, manta_error *e);
/* The actor's name for a group. */
void coll_meet_name(uint64_t group, char out[40]);

#endif
