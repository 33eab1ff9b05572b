/* SPDX-License-Identifier: Apache-2.0
 *
 * link.c - joining over shared memory or TCP, and passing calls on to the one that it is.
 *
 * Owns: the mapping of the region, the handle of the meeting.
 */
#include "sgd/coll/api/link.h"

#include "core/base/clock.h"
#include "sgd/coll/api/meet.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_MS_MAX = 20 };

static int64_t limit_ms(const struct coll_link *link)
{
    return link->id.wait_limit_ms ? link->id.wait_limit_ms : MT_COLL_WAIT_MS;
}

/* Texts come from the library that failed, or stand in link->e already. */
static manta_status took(struct coll_link *link, mt_status st, const char *text)
{
    return st.code == MT_OK ? MANTA_OK : sgd_fail(&link->e, st.code, "%s", text[0] ? text : st.what ? st.what : "");
}

manta_status coll_link_fail(const struct coll_link *link, manta_status code, manta_error *e)
{
    if (e && code != MANTA_OK)
        *e = link->e;
    return code;
}

/* ---- the meeting ---- */

static struct coll_meet_word word_of(const struct coll_link *link, enum coll_meet_kind kind)
{
    return (struct coll_meet_word){.kind = kind,
                                   .generation = link->id.generation,
                                   .rank = link->rank,
                                   .members = link->id.members,
                                   .pid = (uint32_t)getpid()};
}

static bool is_over(const struct coll_link *link, const struct coll_meet_news *news, enum mt_code *reason, uint32_t *rank)
{
    *reason = news->generation > link->id.generation ? MT_EFENCED : (enum mt_code)news->reason;
    *rank = news->generation > link->id.generation ? MT_GROUP_MEMBERS_MAX : news->about;
    return *reason != MT_OK;
}

/* Called by a call that waits: takes the answer to the last question, and asks again. Does not wait itself. */
static bool ask(void *user, enum mt_code *reason, uint32_t *rank)
{
    struct coll_link     *link = user;
    struct coll_meet_word word = word_of(link, COLL_MEET_ASK);
    struct coll_meet_news news = {0};
    manta_view            view;
    manta_status          code = link->asked ? manta_get(link->asked, 0, &view, NULL) : MANTA_ETIMEDOUT;

    if (code == MANTA_OK) {
        if (view.size == sizeof news)
            memcpy(&news, view.data, sizeof news);
        manta_release(&view);
    }
    if (link->asked && code != MANTA_ETIMEDOUT) {
        manta_free(link->asked);
        link->asked = NULL;
    }
    if (!link->asked)
        link->asked = manta_actor_call(link->meet, "say", MANTA_ARGS(manta_bytes_of(&word, sizeof word)));
    if (code == MANTA_OK)
        return is_over(link, &news, reason, rank);
    if (code == MANTA_ETIMEDOUT)
        return false;
    *reason = MT_ECANCELLED; /* the meeting is gone, and its creator with it */
    *rank = MT_GROUP_MEMBERS_MAX;
    return true;
}

/* Says a word again and again until `is_there` likes the news. */
static manta_status meet_until(struct coll_link *link, const struct coll_meet_word *word, struct coll_meet_news *news,
                               bool (*is_there)(const struct coll_meet_word *, const struct coll_meet_news *), bool is_deaf)
{
    int64_t      until = mt_now_ms() + limit_ms(link);
    int          pause = 1;
    enum mt_code reason;
    uint32_t     rank;
    for (;;) {
        char         who[32] = "a member", text[COLL_TEXT_BYTES];
        manta_status code = coll_meet_say(link->meet, word, news, &link->e);
        if (code != MANTA_OK)
            return code;
        if (is_there(word, news))
            return MANTA_OK;
        if (is_over(link, news, &reason, &rank) && (!is_deaf || reason == MT_EFENCED)) {
            if (rank < link->id.members)
                snprintf(who, sizeof who, "rank %u", rank);
            return took(link, coll_over(text, link->id.name, reason, who), text);
        }
        if (mt_now_ms() >= until)
            return sgd_fail(&link->e, MANTA_ETIMEDOUT, "group \"%s\": %u of %u members came within %lld ms", link->id.name,
                            news->there, link->id.members, (long long)limit_ms(link));
        mt_sleep_ms(pause);
        pause = pause * 2 > LOOK_MS_MAX ? LOOK_MS_MAX : pause * 2;
    }
}

static bool all_are_there(const struct coll_meet_word *word, const struct coll_meet_news *news)
{
    return news->generation == word->generation && news->there == word->members;
}

static bool is_decided(const struct coll_meet_word *word, const struct coll_meet_news *news)
{
    return news->decided == word->generation && news->round >= word->round;
}

static manta_status tcp_join(struct coll_link *link)
{
    struct coll_tcp_config config = {.group = link->id.group,
                                     .generation = link->id.generation,
                                     .rank = link->rank,
                                     .members = link->id.members,
                                     .wait_limit_ms = link->id.wait_limit_ms,
                                     .name = link->id.name,
                                     .secret = link->id.secret,
                                     .at = link->at,
                                     .is_aborted = ask,
                                     .user = link};
    struct coll_meet_word  word = word_of(link, COLL_MEET_PORT);
    struct coll_meet_news  news;
    manta_status           code = took(link, coll_tcp_open(&link->tcp, &config, &word.at), "");
    if (code != MANTA_OK)
        return code;
    link->round = 0;
    code = meet_until(link, &word, &news, all_are_there, false);
    return code == MANTA_OK ? took(link, coll_tcp_join(&link->tcp, news.at), link->tcp.text) : code;
}

/* ---- members that meet by themselves ---- */

manta_status coll_link_listen(struct coll_link *link, const char *host)
{
    memset(link, 0, sizeof *link);
    link->id.is_tcp = link->is_by_itself = true;
    link->rank = MT_GROUP_MEMBERS_MAX;
    link->door.listener = -1;
    manta_status code = took(link, coll_at_read(host, &link->at), "");
    return code == MANTA_OK ? took(link, coll_door_open(&link->door, &link->at), "") : code;
}

manta_status coll_link_meet(struct coll_link *link, const struct coll_id *id, uint32_t rank, const struct coll_at *at)
{
    struct coll_at own;
    coll_tcp_fini(&link->tcp);
    link->id = *id;
    link->rank = rank;
    struct coll_tcp_config config = {.group = id->group,
                                     .generation = id->generation,
                                     .rank = rank,
                                     .members = id->members,
                                     .wait_limit_ms = id->wait_limit_ms,
                                     .name = link->id.name,
                                     .secret = link->id.secret,
                                     .door = &link->door};
    manta_status           code = took(link, coll_tcp_open(&link->tcp, &config, &own), "");
    if (code != MANTA_OK)
        return code;
    mt_status st = coll_tcp_join(&link->tcp, at);
    if (st.code == MT_ECONN)
        st = mt_error(MT_EWORKER_DIED, st.sys, "a member is not there any more");
    return took(link, st, link->tcp.text);
}

static manta_status named_elsewhere(struct coll_link *link)
{
    return sgd_fail(&link->e, MANTA_EUNSUPPORTED, "group \"%s\": its members meet by themselves, so nobody holds their votes",
                    link->id.name);
}

/* ---- joining ---- */

static manta_status memory_open(struct coll_link *link)
{
    const struct coll_id *id = &link->id;
    if (id->is_local) {
        char      text[COLL_TEXT_BYTES] = "";
        size_t    size = 0;
        mt_status st = coll_shm_size(&id->plan, &size);
        if (st.code == MT_OK)
            st = coll_local_open(&id->place, id->group, size, &link->local, text);
        link->region = (manta_region){.data = link->local.data, .size = size};
        return took(link, st, text);
    }
    if (id->node != manta_node())
        return sgd_fail(&link->e, MANTA_EINVAL,
                        "group \"%s\" is one of node %u, over its shared memory, and this is node %u: make it with "
                        "transport MANTA_COLL_TCP",
                        id->name, id->node, manta_node());
    return manta_region_open(0, id->region, &link->region, &link->e);
}

static manta_status shm_open_link(struct coll_link *link)
{
    const struct coll_id *id = &link->id;
    manta_status          code = memory_open(link);
    if (code != MANTA_OK)
        return code;
    struct coll_shm_config config = {.region = link->region.data,
                                     .region_size = link->region.size,
                                     .plan = id->plan,
                                     .generation = id->generation,
                                     .rank = link->rank,
                                     .members = id->members,
                                     .wait_limit_ms = id->wait_limit_ms,
                                     .name = id->name,
                                     .creator = id->is_local ? id->place.pid : 0};
    return took(link, coll_shm_join(&link->shm, &config), link->shm.text);
}

/* A member listens where its node does: on loopback in clear, else with TLS. */
static manta_status own_address(struct coll_link *link)
{
    manta_node_info own;
    int             count = manta_nodes(&own, 1, &link->e); /* our own node comes first */
    if (count < 0)
        return -count;
    return took(link, coll_at_read(count ? own.address : "", &link->at), "");
}

manta_status coll_link_open(struct coll_link *link, const struct coll_id *id, uint32_t rank)
{
    char name[40];
    memset(link, 0, sizeof *link);
    link->id = *id;
    link->rank = rank;
    if (!id->is_tcp)
        return shm_open_link(link);
    manta_status code = own_address(link);
    if (code != MANTA_OK)
        return code;
    coll_meet_name(id->group, name);
    link->meet = manta_actor_find(name, limit_ms(link), &link->e);
    return link->meet ? tcp_join(link) : link->e.code;
}

void coll_link_close(struct coll_link *link)
{
    coll_shm_leave(&link->shm);
    if (!link->id.is_local)
        manta_region_close(&link->region);
    coll_local_close(&link->local);
    coll_tcp_fini(&link->tcp);
    if (link->is_by_itself)
        coll_door_close(&link->door);
    explicit_bzero(link->id.secret, sizeof link->id.secret);
    manta_free(link->asked);
    manta_actor_free(link->meet);
}

manta_status coll_link_move(struct coll_link *link, uint32_t generation, uint32_t rank, uint32_t members, const int8_t *from)
{
    if (link->is_by_itself)
        return named_elsewhere(link);
    if (generation <= link->id.generation || members == 0 || members > link->id.plan.members_max || rank >= members)
        return sgd_fail(&link->e, MANTA_EINVAL, "group \"%s\": generation %u (after %u), rank %u of %u members (at most %u)",
                        link->id.name, generation, link->id.generation, rank, members, link->id.plan.members_max);
    link->id.generation = generation;
    link->id.members = members;
    link->rank = rank;
    if (!link->id.is_tcp)
        return took(link, coll_shm_move(&link->shm, generation, rank, members, from), link->shm.text);
    coll_tcp_fini(&link->tcp);
    return tcp_join(link);
}

/* ---- calls ---- */

manta_status coll_link_register(struct coll_link *link, void *data, size_t size)
{
    return link->id.is_tcp ? MANTA_OK : took(link, coll_shm_adopt(&link->shm, data, size), link->shm.text);
}

manta_status coll_link_unregister(struct coll_link *link, void *data)
{
    return link->id.is_tcp ? MANTA_OK : took(link, coll_shm_give_back(&link->shm, data), link->shm.text);
}

manta_status coll_link_run(struct coll_link *link, const struct coll_call *call)
{
    return link->id.is_tcp ? took(link, coll_tcp_run(&link->tcp, call), link->tcp.text)
                           : took(link, coll_shm_run(&link->shm, call), link->shm.text);
}

manta_status coll_link_look(struct coll_link *link)
{
    return link->id.is_tcp ? took(link, coll_tcp_look(&link->tcp), link->tcp.text)
                           : took(link, coll_shm_look(&link->shm), link->shm.text);
}

manta_status coll_link_exchange(struct coll_link *link, const struct coll_message *send, const struct coll_message *receive)
{
    return link->id.is_tcp ? took(link, coll_tcp_exchange(&link->tcp, send, receive), link->tcp.text)
                           : took(link, coll_shm_exchange(&link->shm, send, receive), link->shm.text);
}

manta_status coll_link_decide(struct coll_link *link, uint64_t flags, struct coll_decision *out)
{
    struct coll_meet_word word = word_of(link, COLL_MEET_VOTE);
    struct coll_meet_news news;
    if (link->is_by_itself)
        return named_elsewhere(link);
    if (!link->id.is_tcp)
        return took(link, coll_shm_decide(&link->shm, flags, out), link->shm.text);
    word.round = ++link->round;
    word.flags = flags;
    word.dead = link->tcp.dead;
    manta_status code = meet_until(link, &word, &news, is_decided, true);
    *out = (struct coll_decision){news.alive, news.flags};
    if (code == MANTA_OK && !(news.alive >> link->rank & 1))
        return sgd_fail(&link->e, MANTA_EFENCED, "group \"%s\" has gone on without rank %u", link->id.name, link->rank);
    return code;
}

void coll_link_abort(struct coll_link *link)
{
    if (!link->id.is_tcp) {
        coll_shm_abort(link->region.data, link->id.generation, MT_ECANCELLED, link->rank);
        return;
    }
    atomic_store(&link->tcp.is_cancelled, true);
    if (link->is_by_itself)
        return;
    struct coll_meet_word word = word_of(link, COLL_MEET_ABORT);
    word.reason = MT_ECANCELLED;
    manta_free(manta_actor_call(link->meet, "say", MANTA_ARGS(manta_bytes_of(&word, sizeof word))));
}
