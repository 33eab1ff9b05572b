/* SPDX-License-Identifier: Apache-2.0
 *
 * pull.c - objects between nodes: brings copies of what is elsewhere (what others ask for: serve.c).
 *
 * Owns: every pull. Thread: the loop only.
 * Always: one pull an object, whatever the number of processes that wait for it; each of them is answered once.
 *
 *   CTL_PULL -> a copy is here: CTL_HERE
 *            -> else it queues at its source; then a place in a segment of the raylet's own, the bytes received straight
 *               into it, CTL_HERE to all who wait. Small values, which come together, do not queue behind large ones.
 *
 *   queued --its turn--> under way --whole--> a copy
 *      ^                     |
 *      '---- PULL_RETRY_MS --'  the source can't be reached: its raylet is looked for, and what waits for a dead one fails
 *                               (sh_pulls_node_lost), at the latest after MT_OBJECT_FETCH_MS; the value is
 *                               on its way from disk there; or something is on its way to disk here; or it came damaged
 *
 * A pull begins at its home, the node where the value stands. Home may name another node that has it, or is sent it just now
 * (objectstore/server/tree.h): then it goes on there, behind the chunks that have come, and so it comes back when that one has not
 * got it, breaks off or is silent. What has come is sent on meanwhile (os_part).
 *
 *   at home --EAGAIN, and a node--> at a relay --whole--> a copy
 *      ^--any other end, MT_OBJECT_RELAY_MS, or it is slow---'
 *
 * When a source is silent, dead or out of reach, all that waits for it fails: no queue outlives its limit. A copy goes
 * when the value's node says that the object is dead (it tells all nodes, once somebody has fetched it), when nobody has
 * asked for it in a while, and when the store is full.
 */
#include "raylet/store/known.h"
#include "raylet/store/serve.h"
#include "raylet/store/spill.h"

#include "core/text/address.h"
#include "core/base/limits/net.h"
#include "core/base/limits/object.h"
#include "core/base/log.h"
#include "core/base/plant.h"
#include "objectstore/server/local.h"
#include "objectstore/transfer/transfer.h"
#include "raylet/core/kit/list.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    PULLS_PER_SOURCE = 8,    /* large ones under way at a time; the source answers few strangers at a time */
    PULLS_MAX = 4096,        /* queued ones included */
    PULL_WAITERS_MAX = 4096, /* of one object */
    PULL_RETRY_MS = 100,
    PULL_RELAYS_MAX = 4, /* of one value that are left for being slow; the next one is kept, as long as something comes */
    PULL_ROOM_MS = 300,  /* a full store, where nothing goes to disk, has what the processes here give back by then */
    PULL_DOUBT_MS = 2,   /* before the first retry of a source that can't be reached; with it the source's raylet is looked for */
    PULL_UNKNOWN_MS = MT_NODE_SUSPECT_MS, /* a node of which the head, which said something since, has not told us yet */
};

struct waiter {
    uint64_t        conn; /* of a process; 0: this node itself wants it */
    mt_id           request;
    sh_pull_done_fn done; /* conn 0 */
};

enum pull_kind { PULL_LARGE, PULL_SMALL, PULL_KINDS };

struct source {
    struct sh_pulls *pulls;
    uint32_t         node;
    uint32_t         active[PULL_KINDS];
    struct rlt_list  queue[PULL_KINDS]; /* pull.in_source */
    struct rlt_list  under_way;
    struct io_timer  pause;      /* started: nothing is begun */
    bool             is_doubted; /* it could not be reached; the core is told when the pause is over */
};

struct pull {
    struct os_fetch  fetch;
    enum pull_kind   kind; /* whether it shares its connection (os_fetch_is_small) */
    struct os_part   part; /* open while there is a place for a large one */
    struct sh_pulls *pulls;
    struct source   *source; /* where it is fetched from, or waits for its turn: at home, which is ref.node, or at a relay */
    struct rlt_list  in_source;
    struct os_local *local;
    struct lane_ref  ref; /* at home */
    struct os_place  place;
    void            *data;          /* NULL: it has no place yet */
    uint64_t         failing_since; /* ms; 0: it is not */
    uint64_t         full_since;    /* ms: the store had no room for it; 0: it had */
    uint32_t         damaged;       /* how often it came so */
    uint32_t         relays;        /* nodes that were to send it on */
    bool             is_under_way;
    MT_VEC(struct waiter) waiters;
};

struct sh_pulls {
    struct sh *sh;
    bool       is_stopping;
    mt_map     all;     /* object id -> pull */
    mt_map     sources; /* node -> source */
};

/* ---- the end of a pull ---- */

static struct source *source_of(struct sh_pulls *p, uint32_t node)
{
    return mt_map_ptr(&p->sources, mt_map_key(node));
}

static void pull_leaves_way(struct pull *pull)
{
    if (pull->is_under_way)
        pull->source->active[pull->kind]--;
    pull->is_under_way = false;
}

/* A small one is here as soon as its first byte is: nobody is sent what has come of it. */
static void part_open(struct pull *pull)
{
    if (pull->kind == PULL_LARGE)
        os_part_open(&pull->pulls->sh->serving->transfer, &pull->part, &pull->ref, pull->data);
}

static void part_close(struct pull *pull, bool is_whole)
{
    if (pull->kind == PULL_LARGE)
        os_part_close(&pull->part, is_whole);
}

static void place_give_back(struct pull *pull)
{
    if (!pull->data)
        return;
    part_close(pull, false);
    (void)os_client_free(&pull->local->client, pull->place.segment, pull->place.offset, pull->place.generation).code;
    pull->data = NULL;
}

/* Everybody who waits is answered; `text` (may be NULL) says more than st. */
static void pull_end(struct pull *pull, const struct lane_ref *here, mt_status st, const char *text)
{
    struct sh *sh = pull->pulls->sh;
    if (st.code)
        mt_log_status(MT_LOG_INFO, "pull_failed", st);
    for (size_t i = 0; i < pull->waiters.count; i++) {
        const struct waiter *w = &pull->waiters.data[i];
        if (!w->conn)
            w->done(sh, pull->ref.id, here, st);
        else if (st.code)
            sh_store_refuse(sh, w->conn, w->request, st, text);
        else
            sh_send_down(sh, w->conn, CTL_HERE, w->request, here, sizeof *here);
    }
    place_give_back(pull);
    pull_leaves_way(pull);
    rlt_list_out(&pull->in_source);
    mt_map_remove(&pull->pulls->all, pull->ref.id);
    mt_vec_fini(&pull->waiters);
    free(pull);
}

static void pull_cancel(struct pull *pull, mt_status st)
{
    if (pull->is_under_way)
        os_fetch_cancel(&pull->fetch);
    pull_end(pull, NULL, st, NULL);
}

static void source_forget(struct source *s)
{
    io_timer_stop(&s->pause);
    mt_map_remove(&s->pulls->sources, mt_map_key(s->node));
    free(s);
}

/* ---- its way ---- */

static struct source *source_get(struct sh_pulls *p, uint32_t node);
static void           pull_done(struct os_fetch *fetch, mt_status st);
static void           source_pump(struct source *s);

static bool is_at_home(const struct pull *pull)
{
    return pull->source->node == pull->ref.node;
}

/* In another turn of the loop: nobody here is surprised by what ends there. */
static void source_pump_later(struct source *s)
{
    if (!io_timer_is_started(&s->pause))
        io_timer_start(s->pulls->sh->loop, &s->pause, 0);
}

/* It goes on at another node. */
static void pull_move(struct pull *pull, uint32_t node)
{
    struct source *to = source_get(pull->pulls, node);
    if (!to) {
        pull_cancel(pull, mt_error(MT_ENOMEM, 0, "pull"));
        return;
    }
    if (pull->is_under_way)
        os_fetch_cancel(&pull->fetch);
    pull_leaves_way(pull);
    rlt_list_out(&pull->in_source);
    rlt_list_append(&to->queue[pull->kind], &pull->in_source);
    pull->source = to;
    pull->failing_since = 0;
    source_pump_later(to);
}

/* Nothing comes from its source any more. */
static void pull_loses_source(struct pull *pull, mt_status st)
{
    if (is_at_home(pull))
        pull_cancel(pull, st);
    else
        pull_move(pull, pull->ref.node);
}

/* All that waits for this source, and `under_way` what comes from it: for a source that nothing comes from. */
static void source_fail(struct source *s, bool under_way, mt_status st)
{
    for (int kind = 0; kind < PULL_KINDS; kind++)
        RLT_LIST_EACH(&s->queue[kind], link)
            pull_loses_source(mt_container_of(link, struct pull, in_source), st);
    if (!under_way)
        return;
    RLT_LIST_EACH(&s->under_way, at)
        pull_loses_source(mt_container_of(at, struct pull, in_source), st);
}

static mt_status place_find(struct pull *pull, char *text)
{
    struct sh *sh = pull->pulls->sh;
    mt_status  st;
    pull->local = sh_store_local(sh, pull->ref.job);
    if (!pull->local)
        return mt_error(MT_ENOMEM, 0, "a copy of a value of another node");
    st = sh_store_local_alloc(sh, pull->local, pull->ref.size, &pull->place, &pull->data, text);
    if (st.code == 0)
        part_open(pull);
    return st.code == MT_EINVAL ? mt_error(MT_ESTORE_FULL, 0, "the value is larger than any segment") : st;
}

static void pull_grew(struct os_fetch *fetch)
{
    os_part_grow(&mt_container_of(fetch, struct pull, fetch)->part, &fetch->pull);
}

static mt_status pull_start(struct pull *pull, char *text)
{
    struct sh_pulls *p = pull->pulls;
    char             address[RLT_ADDRESS_SIZE], host[RLT_ADDRESS_SIZE];
    const char      *port;
    uint32_t         epoch;
    MT_TRY(rlt_node_data_address(p->sh->core, pull->source->node, &epoch, address));
    if (!mt_address_split(address, host, sizeof host, &port))
        return mt_error(MT_EPROTO, 0, "the address of a data socket");
    if (!pull->data)
        MT_TRY(place_find(pull, text));
    memset(&pull->fetch, 0, sizeof pull->fetch);
    pull->fetch.done = pull_done;
    pull->fetch.cold = pull->place.cold;
    pull->fetch.have = pull->part.have;
    pull->fetch.grew = pull->kind == PULL_LARGE ? pull_grew : NULL;
    pull->fetch.patience_ms = is_at_home(pull) ? MT_OBJECT_FETCH_MS : MT_OBJECT_RELAY_MS;
    pull->fetch.slow_ms = is_at_home(pull) || pull->relays > PULL_RELAYS_MAX ? 0 : MT_OBJECT_SLOW_MS;
    return os_fetch_start(&p->sh->serving->transfer, &pull->fetch, host, (uint16_t)strtoul(port, NULL, 10), pull->source->node,
                          epoch, &pull->ref, pull->data);
}

/* What it brings can go to disk, and if it brings nothing its place is free again. */
static bool is_another_coming(const struct pull *pull)
{
    MT_MAP_EACH(&pull->pulls->all, entry) {
        const struct pull *other = entry->value.ptr;
        if (other != pull && other->data)
            return true;
    }
    return false;
}

/* Values are coming, or on their way to disk, or processes may give back what is empty of their segments (room.c asks them). */
static bool may_get_room(struct pull *pull, uint64_t now)
{
    if (!pull->full_since || is_another_coming(pull))
        pull->full_since = now;
    return sh_spill_is_making_room(pull->pulls->sh, pull->ref.size) || now - pull->full_since < PULL_ROOM_MS;
}

static bool may_try_again(struct pull *pull, mt_status st)
{
    uint64_t now = io_now_ms();
    if (st.code == MT_ECORRUPT && !pull->pulls->is_stopping)
        return ++pull->damaged < MT_OBJECT_DAMAGED_MAX;
    bool is_full = st.code == MT_ESTORE_FULL && may_get_room(pull, now);
    if ((st.code != MT_ECONN && st.code != MT_ENOENT && st.code != MT_EAGAIN && !is_full) || pull->pulls->is_stopping ||
        (st.code == MT_ECONN && rlt_node_is_given_up(pull->pulls->sh->core, pull->ref.node)))
        return false;
    if (!pull->failing_since || is_full)
        pull->failing_since = now;
    bool is_unknown = st.code == MT_ENOENT && rlt_head_is_heard(pull->pulls->sh->core, pull->failing_since);
    return now - pull->failing_since < (is_unknown ? (uint64_t)PULL_UNKNOWN_MS : (uint64_t)MT_OBJECT_FETCH_MS);
}

/* It could not begin, or broke off: elsewhere, later again, or never. */
static void pull_failed(struct pull *pull, mt_status st, const char *text)
{
    struct source *s = pull->source;
    bool           is_first = !pull->failing_since;
    if (!is_at_home(pull) && st.code != MT_ESTORE_FULL) {
        mt_log_status(MT_LOG_INFO, "relay_left", st);
        pull_move(pull, pull->ref.node);
        return;
    }
    if (may_try_again(pull, st)) {
        s->is_doubted |= st.code == MT_ECONN;
        pull_leaves_way(pull);
        rlt_list_prepend(&s->queue[pull->kind], &pull->in_source);
        io_timer_start(pull->pulls->sh->loop, &s->pause, s->is_doubted && is_first ? PULL_DOUBT_MS : PULL_RETRY_MS);
        return;
    }
    if (st.code == MT_ECORRUPT)
        text = "the value came damaged from its node, three times in a row";
    bool is_source_gone = st.code == MT_ECONN || st.code == MT_ENOENT || st.code == MT_ETIMEDOUT || st.code == MT_ENODE_DIED;
    if (st.code == MT_EFENCED)
        st = mt_error(MT_ENODE_DIED, 0, "the node that had the value has started anew");
    else if (st.code == MT_ECONN)
        st = mt_error(MT_ENODE_DIED, 0, "the node that has the value can't be reached");
    else if (st.code == MT_ENOENT)
        st = mt_error(MT_ENODE_DIED, 0, "the node that has the value is not in the cluster");
    pull_end(pull, NULL, st, text);
    if (is_source_gone)
        source_fail(s, false, st);
}

/* It is whole: a copy from now on, also for those who are being sent it. */
static mt_status pull_publish(struct pull *pull, struct lane_ref *here)
{
    struct sh *sh = pull->pulls->sh;
    pull->place.is_summed = pull->fetch.pull.head.flags & OS_WIRE_SUMMED;
    pull->place.sum = pull->fetch.pull.head.value_sum;
    os_client_publish(&pull->local->client, pull->place, pull->data, pull->ref.id, pull->ref.owner_node, pull->ref.size,
                      pull->ref.type, here);
    here->attempt = pull->ref.attempt;
    mt_status st = os_store_copy_add(sh_store_of(sh), here);
    part_close(pull, st.code == 0);
    pull->data = NULL;
    if (st.code) {
        (void)os_store_dead(sh_store_of(sh), 0, here).code; /* else nobody would free it */
        return st;
    }
    sh_copy_used(sh, pull->ref.id);
    sh_known_fetched(sh, &pull->ref);
    return st;
}

static void pull_done(struct os_fetch *fetch, mt_status st)
{
    struct pull    *pull = mt_container_of(fetch, struct pull, fetch);
    struct source  *s = pull->source;
    struct lane_ref here;
    uint32_t        elsewhere = st.code == MT_EAGAIN ? fetch->pull.elsewhere : 0;
    if (elsewhere && is_at_home(pull) && elsewhere != pull->pulls->sh->node) {
        pull->relays++;
        pull_move(pull, elsewhere);
    } else if (st.code && !MT_PLANT(MT_PLANT_PULL_SHORT)) {
        pull_failed(pull, st, NULL);
    } else {
        st = pull_publish(pull, &here);
        pull_end(pull, &here, st, NULL);
    }
    source_pump(s);
}

/* Begins what may begin of one kind. */
static void source_begin(struct source *s, enum pull_kind kind)
{
    const uint32_t most = kind == PULL_SMALL ? OS_LINE_MAX : PULLS_PER_SOURCE;
    while (s->active[kind] < most && !io_timer_is_started(&s->pause) && !rlt_list_is_empty(&s->queue[kind])) {
        struct pull *pull = rlt_list_first(&s->queue[kind], struct pull, in_source);
        char         text[OS_TEXT_SIZE] = "";
        mt_status    st = pull_start(pull, text);
        if (st.code) {
            pull_failed(pull, st, text);
            continue;
        }
        pull->is_under_way = true;
        s->active[kind]++;
        rlt_list_append(&s->under_way, &pull->in_source);
    }
}

/* Begins what may begin; frees a source that nobody waits for. */
static void source_pump(struct source *s)
{
    source_begin(s, PULL_SMALL);
    source_begin(s, PULL_LARGE);
    if (rlt_list_is_empty(&s->queue[PULL_SMALL]) && rlt_list_is_empty(&s->queue[PULL_LARGE]) && rlt_list_is_empty(&s->under_way))
        source_forget(s);
}

static void pause_over(struct io_timer *timer)
{
    struct source   *s = mt_container_of(timer, struct source, pause);
    struct sh_pulls *p = s->pulls;
    uint32_t         node = s->node;
    bool             is_doubted = s->is_doubted;
    s->is_doubted = false;
    source_pump(s); /* s may be gone after */
    if (is_doubted && !p->is_stopping) {
        struct rlt_event e;
        sh_event(&e, RLT_EV_PEER_DOUBT);
        e.peer_doubt.node = node;
        sh_post(p->sh, &e);
    }
}

/* ---- asking ---- */

static struct source *source_get(struct sh_pulls *p, uint32_t node)
{
    struct source *s = source_of(p, node);
    if (s)
        return s;
    s = calloc(1, sizeof *s);
    if (!s || mt_map_put_ptr(&p->sources, mt_map_key(node), s).code) {
        free(s);
        return NULL;
    }
    s->pulls = p;
    s->node = node;
    s->pause.fire = pause_over;
    rlt_list_init(&s->queue[PULL_SMALL]);
    rlt_list_init(&s->queue[PULL_LARGE]);
    rlt_list_init(&s->under_way);
    return s;
}

static mt_status waiter_add(struct pull *pull, const struct waiter *w)
{
    for (size_t i = 0; i < pull->waiters.count; i++)
        if (pull->waiters.data[i].conn == w->conn && mt_id_equal(pull->waiters.data[i].request, w->request))
            return mt_ok();
    if (pull->waiters.count >= PULL_WAITERS_MAX)
        return mt_error(MT_EAGAIN, 0, "too many wait for one value");
    return mt_vec_push(&pull->waiters, *w);
}

static enum pull_kind kind_of(const struct sh_pulls *p, const struct lane_ref *ref)
{
    return os_fetch_is_small(&p->sh->serving->transfer, ref->size) ? PULL_SMALL : PULL_LARGE;
}

static mt_status pull_new(struct sh_pulls *p, const struct lane_ref *ref, const struct waiter *w)
{
    struct source *s;
    struct pull   *pull;
    if (p->all.count >= PULLS_MAX)
        return mt_error(MT_EAGAIN, 0, "too many values are on their way to this node");
    s = source_get(p, ref->node);
    pull = s ? calloc(1, sizeof *pull) : NULL;
    if (!pull || mt_vec_push(&pull->waiters, *w).code || mt_map_put_ptr(&p->all, ref->id, pull).code) {
        if (pull)
            mt_vec_fini(&pull->waiters);
        free(pull);
        if (s)
            source_pump(s); /* it may be new, and of no use */
        return mt_error(MT_ENOMEM, 0, "pull");
    }
    pull->pulls = p;
    pull->source = s;
    pull->ref = *ref;
    pull->kind = kind_of(p, ref);
    rlt_list_init(&pull->in_source);
    rlt_list_append(&s->queue[pull->kind], &pull->in_source);
    source_pump(s); /* pull and s may be gone after */
    return mt_ok();
}

/* Its task has run again: it comes from where the later run has put it. */
static mt_status pull_redirect(struct pull *pull, const struct lane_ref *ref)
{
    struct source *before = pull->source, *s = source_get(pull->pulls, ref->node);
    if (!s)
        return mt_error(MT_ENOMEM, 0, "pull");
    if (pull->is_under_way)
        os_fetch_cancel(&pull->fetch);
    place_give_back(pull);
    memset(&pull->part, 0, sizeof pull->part);
    pull_leaves_way(pull);
    rlt_list_out(&pull->in_source);
    pull->ref = *ref;
    pull->kind = kind_of(pull->pulls, ref);
    pull->source = s;
    pull->failing_since = 0;
    pull->damaged = 0;
    rlt_list_append(&s->queue[pull->kind], &pull->in_source);
    if (before != s)
        source_pump(before);
    source_pump(s); /* pull and s may be gone after */
    return mt_ok();
}

static mt_status pull_join(struct pull *pull, const struct lane_ref *ref, const struct waiter *w)
{
    MT_TRY(waiter_add(pull, w));
    return ref->attempt > pull->ref.attempt ? pull_redirect(pull, ref) : mt_ok();
}

/* A copy of that run's value, or of a later one's; that of an earlier one may be what somebody found damaged. */
static bool has_copy(struct sh_pulls *p, const struct lane_ref *ref, struct lane_ref *here)
{
    if (os_store_copy_find(sh_store_of(p->sh), ref->id, here).code)
        return false;
    if (here->attempt >= ref->attempt || os_store_copy_is_kept(sh_store_of(p->sh), ref->id))
        return true;
    sh_copy_forget(p->sh, ref->id);
    return false;
}

void sh_pull_for(struct sh *sh, const struct lane_ref *ref, sh_pull_done_fn done)
{
    struct sh_pulls *p = sh->pulls;
    struct waiter    w = {.request = ref->id, .done = done};
    struct lane_ref  here = {0};
    struct pull     *pull = mt_map_ptr(&p->all, ref->id);
    mt_status        st;
    if (has_copy(p, ref, &here)) {
        done(sh, ref->id, &here, mt_ok());
        return;
    }
    st = pull ? pull_join(pull, ref, &w) : pull_new(p, ref, &w);
    if (st.code)
        done(sh, ref->id, NULL, st);
}

void sh_pull_request(struct sh *sh, const struct sh_conn *c, mt_id request, const struct lane_ref *ref)
{
    struct sh_pulls *p = sh->pulls;
    struct waiter    w = {.conn = c->conn, .request = request};
    struct lane_ref  here = *ref;
    struct pull     *pull;
    mt_status        st = mt_ok();
    if (ref->job != c->job && sh_jobs_are_apart(sh))
        st = mt_error(MT_EWRONGJOB, 0, "the value is of a job of another user");
    else if (mt_id_is_zero(ref->id))
        st = mt_error(MT_EINVAL, 0, "a value without an id");
    else if (ref->node == sh->node)
        sh_spill_get(sh, c, request, ref);
    else if (!p)
        st = mt_error(MT_ENODE_DIED, 0, "the value is on another node, and this one has no way to it");
    else if (has_copy(p, ref, &here)) {
        sh_copy_used(p->sh, ref->id);
        sh_send_down(sh, c->conn, CTL_HERE, request, &here, sizeof here);
    } else if ((pull = mt_map_ptr(&p->all, ref->id)))
        st = pull_join(pull, ref, &w);
    else
        st = pull_new(p, ref, &w);
    if (st.code)
        sh_store_refuse(sh, c->conn, request, st, NULL);
}

uint32_t sh_pull_from(const struct sh *sh, const struct lane_ref *ref)
{
    const struct pull *pull = sh->pulls ? mt_map_ptr(&sh->pulls->all, ref->id) : NULL;
    return pull && pull->is_under_way && pull->ref.node == ref->node && pull->ref.attempt == ref->attempt ? pull->source->node : 0;
}

/* ---- news ---- */

void sh_pulls_node_lost(struct sh *sh, uint32_t node)
{
    struct source *s = sh->pulls ? source_of(sh->pulls, node) : NULL;
    if (!s)
        return;
    source_fail(s, true, mt_error(MT_ENODE_DIED, 0, "the node that had the value is dead"));
    source_forget(s);
}

/* Whether a process of another job waits for it. */
static bool is_wanted_beside(const struct pull *pull, uint32_t job)
{
    for (size_t i = 0; i < pull->waiters.count; i++) {
        const struct sh_conn *c = sh_conn_find(pull->pulls->sh, pull->waiters.data[i].conn);
        if (c && c->process && c->job != job)
            return true;
    }
    return false;
}

/* From its first byte, into memory that is not of a job which is over. */
static void pull_again(struct pull *pull)
{
    if (!pull->data)
        return;
    if (pull->is_under_way)
        os_fetch_cancel(&pull->fetch);
    place_give_back(pull);
    memset(&pull->part, 0, sizeof pull->part);
    pull_leaves_way(pull);
    rlt_list_prepend(&pull->source->queue[pull->kind], &pull->in_source);
}

void sh_pulls_job_over(struct sh *sh, uint32_t job)
{
    struct sh_pulls *p = sh->pulls;
    if (!p)
        return;
    MT_MAP_EACH(&p->all, entry) {
        struct pull *pull = entry->value.ptr;
        if (pull->ref.job == job && is_wanted_beside(pull, job))
            pull_again(pull);
        else if (pull->ref.job == job)
            pull_cancel(pull, mt_error(MT_ECANCELLED, 0, "its job is over"));
    }
    MT_MAP_EACH(&p->sources, entry)
        source_pump_later(entry->value.ptr);
}

/* ---- start and end ---- */

mt_status sh_pulls_start(struct sh *sh, char address[RLT_ADDRESS_SIZE])
{
    struct sh_pulls *p;
    mt_status        st;
    if (!sh->token || !sh->peers)
        return mt_ok(); /* alone */
    p = calloc(1, sizeof *p);
    if (!p)
        return mt_error(MT_ENOMEM, 0, "data socket");
    p->sh = sh;
    st = sh_copies_start(sh);
    if (st.code == 0)
        st = sh_known_start(sh);
    if (st.code == 0)
        st = sh_serving_start(sh, address);
    if (st.code) {
        sh_known_stop(sh);
        sh_copies_stop(sh);
        free(p);
        return st;
    }
    sh->pulls = p;
    return mt_ok();
}

void sh_pulls_stop(struct sh *sh)
{
    struct sh_pulls *p = sh->pulls;
    if (!p)
        return;
    p->is_stopping = true;
    MT_MAP_EACH(&p->all, entry)
        pull_cancel(entry->value.ptr, mt_error(MT_ECANCELLED, 0, "this node ends"));
    MT_MAP_EACH(&p->sources, entry)
        source_forget(entry->value.ptr);
    sh_serving_stop(sh);
    mt_map_fini(&p->all);
    mt_map_fini(&p->sources);
    sh_known_stop(sh);
    sh_copies_stop(sh);
    free(p);
    sh->pulls = NULL;
}
