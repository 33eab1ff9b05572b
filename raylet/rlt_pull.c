/* SPDX-License-Identifier: Apache-2.0
 *
 * rlt_pull.c - objects between nodes: serves what other raylets ask for, and brings copies of what is elsewhere.
 *
 * Owns: the data socket, and every pull under way. Thread: the loop only.
 * Always: one pull an object, whatever the number of processes that wait for it; each of them is answered once.
 *
 *   CTL_PULL -> a copy is here: CTL_HERE
 *            -> else a place in a segment of the raylet's own, the bytes received straight into it, CTL_HERE to all
 *
 * A copy goes when the value's node says that the object is dead (it tells all nodes, once somebody has fetched it), and
 * when nobody has asked for it in a while.
 */
#include "raylet/shell.h"

#include "core/base/limits.h"
#include "core/base/log.h"
#include "core/base/vec.h"
#include "objectstore/os_local.h"
#include "objectstore/os_transfer.h"

#include <stdio.h>
#include <stdlib.h>

enum { SERVED_MAX = 65536 }; /* objects remembered as fetched by others; beyond, every death is told */

struct waiter {
    uint64_t conn;
    mt_id    request;
};

struct pull {
    struct os_fetch  fetch;
    struct sh_pulls *pulls;
    struct os_local *local;
    struct lane_ref  ref; /* at its source */
    struct os_place  place;
    void            *data;
    MT_VEC(struct waiter) waiters;
};

struct copy { /* of an object of another node, and when it was last asked for */
    mt_id    id;
    uint64_t used_ms;
};

struct sh_pulls {
    struct sh         *sh;
    struct os_transfer transfer;
    mt_map             under_way; /* object id -> pull */
    mt_map             served;    /* object id -> 1: another node has fetched it, and may keep a copy */
    MT_VEC(struct copy) copies;
    struct io_timer    timer;
};

/* ---- the source ---- */

static mt_status pin(struct os_transfer *transfer, const struct lane_ref *ref, const void **out_data)
{
    struct sh_pulls *p = mt_container_of(transfer, struct sh_pulls, transfer);
    struct os_local *local = sh_store_local(p->sh, ref->job);
    if (p->served.count < SERVED_MAX)
        (void)mt_map_put_num(&p->served, ref->id, 1).code;
    return local ? os_local_pin(local, ref, out_data) : mt_error(MT_EOBJ_LOST, 0, "no process of that job was here");
}

static void unpin(struct os_transfer *transfer, const struct lane_ref *ref)
{
    struct sh_pulls *p = mt_container_of(transfer, struct sh_pulls, transfer);
    struct os_local *local = sh_store_local(p->sh, ref->job);
    if (local)
        os_local_unpin(local, ref);
}

bool sh_pull_was_served(struct sh *sh, mt_id id)
{
    struct sh_pulls *p = sh->pulls;
    return p && (mt_map_remove(&p->served, id) || p->served.count >= SERVED_MAX);
}

/* ---- copies ---- */

static void copy_used(struct sh_pulls *p, mt_id id)
{
    struct copy new = {.id = id, .used_ms = io_now_ms()};
    for (size_t i = 0; i < p->copies.count; i++) {
        if (mt_id_equal(p->copies.data[i].id, id)) {
            p->copies.data[i].used_ms = new.used_ms;
            return;
        }
    }
    if (mt_vec_push(&p->copies, new).code == 0 && p->copies.count == 1)
        io_timer_start(p->sh->loop, &p->timer, MT_SEGMENT_WARM_MS);
}

static void look_at_copies(struct io_timer *timer)
{
    struct sh_pulls *p = mt_container_of(timer, struct sh_pulls, timer);
    uint64_t         now = io_now_ms();
    for (size_t i = 0; i < p->copies.count;) {
        if (now - p->copies.data[i].used_ms < MT_SEGMENT_WARM_MS) {
            i++;
            continue;
        }
        (void)os_store_copy_dead(sh_store_of(p->sh), p->copies.data[i].id).code; /* gone before: the better */
        mt_vec_remove_swap(&p->copies, i);
    }
    sh_store_settle(p->sh);
    if (p->copies.count)
        io_timer_start(p->sh->loop, &p->timer, MT_SEGMENT_WARM_MS);
}

/* ---- the puller ---- */

static void answer(struct sh_pulls *p, const struct waiter *w, const struct lane_ref *here, mt_status st)
{
    if (st.code)
        sh_store_refuse(p->sh, w->conn, w->request, st, NULL);
    else
        sh_store_send_down(p->sh, w->conn, CTL_HERE, w->request, here, sizeof *here);
}

static void pull_free(struct pull *pull)
{
    mt_map_remove(&pull->pulls->under_way, pull->ref.id);
    mt_vec_fini(&pull->waiters);
    free(pull);
}

static void pull_done(struct os_fetch *fetch, mt_status st)
{
    struct pull     *pull = mt_container_of(fetch, struct pull, fetch);
    struct sh_pulls *p = pull->pulls;
    struct lane_ref  here = {.node = 0};

    if (st.code == 0) {
        os_client_publish(&pull->local->client, pull->place, pull->data, pull->ref.id, pull->ref.owner_node, pull->ref.size,
                          pull->ref.type, &here);
        st = os_store_copy_add(sh_store_of(p->sh), &here);
        copy_used(p, pull->ref.id);
    } else {
        (void)os_client_free(&pull->local->client, pull->place.segment, pull->place.offset).code;
        mt_log_status(MT_LOG_INFO, "pull_failed", st);
        if (st.code == MT_EFENCED || st.code == MT_ECONN)
            st = mt_error(MT_ENODE_DIED, 0, "the node that had the value is gone, or has started anew");
    }
    for (size_t i = 0; i < pull->waiters.count; i++)
        answer(p, &pull->waiters.data[i], &here, st);
    pull_free(pull);
    sh_store_settle(p->sh);
}

static mt_status start(struct sh_pulls *p, struct pull *pull)
{
    char      host[RLT_ADDRESS_SIZE], text[OS_TEXT_SIZE] = "";
    char     *colon;
    uint32_t  epoch;
    mt_status st;
    if (!rlt_node_data_address(p->sh->core, pull->ref.node, &epoch, host) || !(colon = strrchr(host, ':')))
        return mt_error(MT_ENODE_DIED, 0, "the node that has the value is not in the cluster");
    *colon = 0;
    pull->local = sh_store_local(p->sh, pull->ref.job);
    if (!pull->local)
        return mt_error(MT_ENOMEM, 0, "a copy of a value of another node");
    MT_TRY(sh_store_local_alloc(p->sh, pull->local, pull->ref.size, &pull->place, &pull->data, text));
    pull->fetch.done = pull_done;
    st = os_fetch_start(&p->transfer, &pull->fetch, host, (uint16_t)strtoul(colon + 1, NULL, 10), pull->ref.node, epoch,
                        &pull->ref, pull->data);
    if (st.code)
        (void)os_client_free(&pull->local->client, pull->place.segment, pull->place.offset).code;
    return st;
}

static mt_status begin(struct sh_pulls *p, const struct lane_ref *ref, const struct waiter *w)
{
    struct pull *pull = mt_map_ptr(&p->under_way, ref->id);
    mt_status    st;
    if (pull)
        return mt_vec_push(&pull->waiters, *w);
    pull = calloc(1, sizeof *pull);
    if (!pull || mt_map_put_ptr(&p->under_way, ref->id, pull).code) {
        free(pull);
        return mt_error(MT_ENOMEM, 0, "pull");
    }
    pull->pulls = p;
    pull->ref = *ref;
    st = mt_vec_push(&pull->waiters, *w);
    if (st.code == 0)
        st = start(p, pull);
    if (st.code)
        pull_free(pull);
    return st;
}

void sh_pull_request(struct sh *sh, uint64_t conn, mt_id request, const struct lane_ref *ref)
{
    struct sh_pulls *p = sh->pulls;
    struct waiter    w = {conn, request};
    struct lane_ref  here = *ref;
    mt_status        st = mt_ok();
    if (ref->node != sh->node && !p)
        st = mt_error(MT_ENODE_DIED, 0, "the value is on another node, and this one has no way to it");
    else if (ref->node != sh->node && os_store_copy_find(sh_store_of(sh), ref->id, &here).code == 0)
        copy_used(p, ref->id);
    else if (ref->node != sh->node)
        st = begin(p, ref, &w);
    else
        p = NULL; /* it is here: the answer is what was asked */
    if (st.code)
        sh_store_refuse(sh, conn, request, st, NULL);
    else if (here.node == sh->node)
        sh_store_send_down(sh, conn, CTL_HERE, request, &here, sizeof here);
}

void sh_pulls_registered(struct sh *sh, uint32_t node, uint32_t epoch)
{
    if (sh->pulls) {
        sh->pulls->transfer.node = node;
        sh->pulls->transfer.epoch = epoch;
    }
}

/* ---- start and end ---- */

mt_status sh_pulls_start(struct sh *sh, char address[RLT_ADDRESS_SIZE])
{
    const struct io_token *token = sh_head_token(sh);
    struct sh_pulls       *p;
    mt_status              st;
    if (!token || !sh->peers)
        return mt_ok(); /* alone */
    p = calloc(1, sizeof *p);
    if (!p)
        return mt_error(MT_ENOMEM, 0, "data socket");
    p->sh = sh;
    p->timer.fire = look_at_copies;
    p->transfer.pin = pin;
    p->transfer.unpin = unpin;
    st = os_transfer_open(&p->transfer, sh->loop, "127.0.0.1", 0, token);
    if (st.code) {
        free(p);
        return st;
    }
    snprintf(address, RLT_ADDRESS_SIZE, "127.0.0.1:%u", p->transfer.port);
    sh->pulls = p;
    return mt_ok();
}

void sh_pulls_stop(struct sh *sh)
{
    struct sh_pulls *p = sh->pulls;
    if (!p)
        return;
    io_timer_stop(&p->timer);
    os_transfer_close(&p->transfer); /* ends every pull */
    mt_map_fini(&p->under_way);
    mt_map_fini(&p->served);
    mt_vec_fini(&p->copies);
    free(p);
    sh->pulls = NULL;
}
