/* SPDX-License-Identifier: Apache-2.0
 *
 * serve.c - values that other nodes fetch from here: those that stand here, copies of others, and (by os_part) what is on its way.
 *
 * Owns: struct sh_serving with the data socket. Thread: the loop only.
 * Always: who asks for a value that stands here is served, or sent to one node that has it, or is about to (os_trees); who asks for
 * one that does not is served from a copy, or told that there is none.
 */
#include "raylet/store/serve.h"

#include "core/base/limits/object.h"
#include "raylet/store/spill.h"

#include <stdio.h>
#include <stdlib.h>

enum { SERVED_MAX = 65536 }; /* objects remembered as fetched by others; beyond, every death is told */

/* What stands here: in memory, or on disk. */
static mt_status pin_own(struct sh *sh, struct os_local *local, const struct lane_ref *ref, struct os_pinned *out)
{
    mt_status st;
    out->held = *ref;
    st = os_local_pin(local, ref, &out->data);
    if (st.code == MT_EOBJ_LOST || st.code == MT_ENOENT) { /* it may be on disk */
        MT_TRY(sh_spill_serve(sh, ref, &out->held));
        st = os_local_pin(local, &out->held, &out->data);
    }
    return st;
}

/* A copy of what stands on another node. */
static mt_status pin_copy(struct sh *sh, struct os_local *local, const struct lane_ref *ref, struct os_pinned *out)
{
    if (os_store_copy_find(sh_store_of(sh), ref->id, &out->held).code || out->held.attempt != ref->attempt)
        return mt_error(MT_EOBJ_LOST, 0, "no copy is here, or no longer");
    if (out->held.job != ref->job && sh_jobs_are_apart(sh))
        return mt_error(MT_EWRONGJOB, 0, "it belongs to a job of another user");
    out->held.job = ref->job; /* whose reader it is */
    MT_TRY(os_local_pin(local, &out->held, &out->data));
    sh_copy_used(sh, ref->id);
    return mt_ok();
}

/* By whom it was pinned: of a job that has come since this node has another reader. That one stays as long as the connection. */
static void unpin(struct os_transfer *transfer, const struct os_pinned *pin, uint32_t node)
{
    struct sh_serving *s = mt_container_of(transfer, struct sh_serving, transfer);
    os_local_unpin(pin->by, &pin->held);
    os_trees_served(&s->trees, pin->held.id, node);
}

static mt_status pin(struct os_transfer *transfer, const struct lane_ref *ref, uint32_t node, struct os_pinned *out)
{
    struct sh_serving *s = mt_container_of(transfer, struct sh_serving, transfer);
    struct os_local   *local = sh_store_local(s->sh, ref->job);
    bool               is_own = ref->node == s->sh->node;
    if (!local)
        return mt_error(MT_ENOMEM, 0, "to serve a value");
    out->by = local;
    mt_status st = is_own ? pin_own(s->sh, local, ref, out) : pin_copy(s->sh, local, ref, out);
    if (st.code == MT_ENOENT)
        return mt_error(MT_EOBJ_LOST, 0, "its segment is gone");
    if (st.code || !is_own)
        return st;
    if (s->served.count < SERVED_MAX) /* without memory its copies go by age */
        (void)mt_map_put_num(&s->served, ref->id, (uint64_t)ref->owner_node << 32 | ref->job).code;
    out->elsewhere = os_trees_ask(&s->trees, ref, ref->size / os_transfer_chunk(transfer), node, io_now_ms());
    if (!out->elsewhere)
        return mt_ok();
    os_local_unpin(local, &out->held);
    return mt_error(MT_EAGAIN, 0, "another node sends it on");
}

/* ---- what ends ---- */

bool sh_serving_was(struct sh *sh, mt_id id)
{
    struct sh_serving *s = sh->serving;
    if (!s)
        return false;
    os_trees_dead(&s->trees, id);
    return mt_map_remove(&s->served, id) || s->served.count >= SERVED_MAX;
}

void sh_serving_node_lost(struct sh *sh, uint32_t node)
{
    if (sh->serving)
        os_trees_node_lost(&sh->serving->trees, node);
}

void sh_serving_owner_gone(struct sh *sh, uint64_t owner, uint32_t node)
{
    if (!sh->serving)
        return;
    MT_MAP_EACH(&sh->serving->served, entry)
        if ((owner && entry->key.process == owner) || (node && entry->value.num >> 32 == node))
            mt_map_remove(&sh->serving->served, entry->key);
}

void sh_serving_job_unserve(struct sh *sh, uint32_t job)
{
    if (sh->serving)
        os_transfer_job_gone(&sh->serving->transfer, job);
}

void sh_serving_job_over(struct sh *sh, uint32_t job)
{
    if (!sh->serving)
        return;
    MT_MAP_EACH(&sh->serving->served, entry)
        if ((uint32_t)entry->value.num == job)
            mt_map_remove(&sh->serving->served, entry->key);
}

void sh_pulls_drop_revoked(struct sh *sh)
{
    if (sh->serving)
        os_transfer_drop_revoked(&sh->serving->transfer);
}

void sh_pulls_registered(struct sh *sh)
{
    if (!sh->serving)
        return;
    rlt_self(sh->core, &sh->serving->transfer.node, &sh->serving->transfer.epoch);
    sh->node = sh->serving->transfer.node; /* values may be adopted here before the first process comes */
}

/* ---- start and end ---- */

mt_status sh_serving_start(struct sh *sh, char address[RLT_ADDRESS_SIZE])
{
    struct sh_serving *s = calloc(1, sizeof *s);
    if (!s)
        return mt_error(MT_ENOMEM, 0, "data socket");
    s->sh = sh;
    s->transfer.pin = pin;
    s->transfer.unpin = unpin;
    s->transfer.tls = sh->tls;
    s->transfer.is_insecure = sh->options.is_insecure;
    s->transfer.bound = sh->bound;
    s->transfer.chunk_bytes = sh->options.chunk_bytes;
    mt_status st = os_transfer_open(&s->transfer, sh->loop, sh->listen_host, 0, sh->token);
    if (st.code) {
        free(s);
        return st;
    }
    snprintf(address, RLT_ADDRESS_SIZE, "%.50s:%u", sh->listen_shown, s->transfer.port);
    sh->serving = s;
    return mt_ok();
}

void sh_serving_stop(struct sh *sh)
{
    struct sh_serving *s = sh->serving;
    if (!s)
        return;
    os_transfer_close(&s->transfer);
    mt_map_fini(&s->served);
    os_trees_fini(&s->trees);
    free(s);
    sh->serving = NULL;
}
