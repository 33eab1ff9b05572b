/* SPDX-License-Identifier: Apache-2.0
 *
 * meet.c - the meeting of a group's members: ports, votes, deaths, aborts of the latest generation.
 *
 * Owns: the state of one actor. Thread: the actor's, one call at a time.
 */
#include "sgd/coll/api/meet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct meeting {
    struct coll_meet_news news;
    uint64_t              ports_known, dead;
    uint32_t              round; /* decided in this generation */
    uint64_t              voted; /* in the next one */
    uint64_t              votes[MT_GROUP_MEMBERS_MAX];
    uint32_t              pids[MT_GROUP_MEMBERS_MAX];
};

void coll_meet_name(uint64_t group, char out[40])
{
    snprintf(out, 40, "manta_coll/%016llx", (unsigned long long)group);
}

/* A later generation begins with nothing known. */
static void generation_begin(struct meeting *m, const struct coll_meet_word *word)
{
    if (word->generation <= m->news.generation)
        return;
    struct coll_meet_news last = m->news;
    memset(m, 0, sizeof *m);
    m->news = (struct coll_meet_news){.generation = word->generation,
                                      .members = word->members,
                                      .decided = last.decided,
                                      .round = last.round,
                                      .alive = last.alive,
                                      .flags = last.flags};
}

static void end(struct meeting *m, uint32_t reason, uint32_t about)
{
    if (m->news.reason != 0)
        return;
    m->news.reason = reason;
    m->news.about = about;
}

/* The outcome of a round, once each member has voted or is dead: fixed when it is first complete. */
static void decide(struct meeting *m)
{
    uint64_t all = m->news.members >= 64 ? UINT64_MAX : (1ull << m->news.members) - 1;
    if (m->voted == 0 || ((m->voted | m->dead) & all) != all)
        return;
    m->news.alive = m->voted;
    m->news.flags = UINT64_MAX;
    for (uint32_t r = 0; r < m->news.members; r++)
        if (m->voted >> r & 1)
            m->news.flags &= m->votes[r];
    m->news.decided = m->news.generation;
    m->news.round = ++m->round;
    m->voted = 0;
}

static void died(struct meeting *m, const struct coll_meet_word *word)
{
    uint32_t rank = word->hint == m->news.generation ? word->rank : MT_GROUP_MEMBERS_MAX;
    for (uint32_t r = 0; word->pid && r < m->news.members; r++)
        rank = m->pids[r] == word->pid ? r : rank;
    if (rank >= m->news.members)
        return;
    m->dead |= 1ull << rank;
    end(m, MT_EWORKER_DIED, rank);
}

static void take(struct meeting *m, const struct coll_meet_word *word)
{
    bool is_of_member = word->rank < m->news.members;
    switch (word->kind) {
    case COLL_MEET_PORT:
        if (!is_of_member)
            break;
        m->news.at[word->rank] = word->at;
        m->pids[word->rank] = word->pid;
        m->ports_known |= 1ull << word->rank;
        m->news.there = (uint32_t)__builtin_popcountll(m->ports_known);
        break;
    case COLL_MEET_VOTE:
        m->dead |= word->dead;
        if (is_of_member && word->round == m->round + 1) {
            m->voted |= 1ull << word->rank;
            m->votes[word->rank] = word->flags;
        }
        break;
    case COLL_MEET_DEAD: died(m, word); break;
    case COLL_MEET_ABORT: end(m, word->reason, word->rank); break;
    default: break;
    }
    decide(m);
}

static manta_status meet_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    *self = calloc(1, sizeof(struct meeting));
    return *self ? MANTA_OK : manta_fail(c, MANTA_ENOMEM, "no memory for a meeting");
}

static manta_status meet_say(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct meeting       *m = self;
    struct coll_meet_word word;
    (void)argc;
    if (argv[0].y.size != sizeof word)
        return manta_fail(c, MANTA_EPROTO, "a member of another version");
    memcpy(&word, argv[0].y.data, sizeof word);
    if (word.members <= MT_GROUP_MEMBERS_MAX)
        generation_begin(m, &word);
    if (word.generation == m->news.generation || word.generation == 0)
        take(m, &word);
    return manta_return_bytes(c, &m->news, sizeof m->news);
}

MANTA_ACTOR(manta_coll_meet, "", meet_new, free, {"say", "y>y", meet_say});

manta_status coll_meet_say(manta_actor *actor, const struct coll_meet_word *word, struct coll_meet_news *out, manta_error *e)
{
    manta_view   view;
    manta_ref   *ref = manta_actor_call(actor, "say", MANTA_ARGS(manta_bytes_of(word, sizeof *word)));
    manta_status code = manta_get(ref, MT_CALL_MS, &view, e);
    if (code == MANTA_OK) {
        memset(out, 0, sizeof *out);
        if (view.size == sizeof *out)
            memcpy(out, view.data, sizeof *out);
        else
            code = sgd_fail(e, MANTA_EPROTO, "the group's meeting is of another version");
        manta_release(&view);
    }
    manta_free(ref);
    return code;
}
