/* SPDX-License-Identifier: Apache-2.0
 *
 * lost.c - a value was not to be had where it should be.
 *
 * Thread: the caller's, under the owner lock.
 */
#include "clients/lib/owner/lineage/lineage.h"
#include "clients/lib/owner/ref/kept.h"

#include <stdio.h>

static bool is_node_gone(int32_t code)
{
    return code == MT_ENODE_DIED || code == MT_ETIMEDOUT;
}

/* ---- other nodes may have copies ---- */

/* Our own threads that want to know of it. */
static void doubts_fail(struct own *own, const struct own_ref *ref, const struct own_failure *why)
{
    for (struct own_doubt *doubt = own->doubts; doubt; doubt = doubt->next) {
        if (doubt->mine != ref || doubt->is_over)
            continue;
        doubt->why = *why;
        doubt->is_over = true;
    }
}

void own_ref_not_found(struct own *own, const struct ctl_moved *word)
{
    struct own_ref    *ref = mt_map_ptr(&own->refs, word->from.id);
    struct own_failure why, heard;
    uint32_t           node;
    if (!ref || ref->again != OWN_AGAIN_SOUGHT || !own_place_is(&word->from, own_ref_place(own, ref)))
        return;
    heard = *own_extra_of(own, ref)->lost;
    node = is_node_gone(heard.code) ? word->from.node : 0;
    if (ref->task) {
        own_lineage_lose(own, ref, node);
        return;
    }
    own_lineage_failure(own, ref, heard.code, heard.message, &why);
    doubts_fail(own, ref, &why);
    own_lineage_nowhere(own, ref, &why);
}

/* ---- a value was not to be had ---- */

enum own_lost own_ref_lost(struct own *own, struct own_ref *ref, const struct lane_ref *at, int32_t code, const char *text,
                           struct own_failure *out)
{
    if (ref->flags & OWN_REF_FREED) {
        own_failure_freed(out);
        return OWN_LOST_FAILED;
    }
    if (ref->state == OWN_REF_PENDING || own_ref_is_sought(ref))
        return OWN_LOST_WAIT;
    if (ref->state == OWN_REF_FAILED || ref->again == OWN_AGAIN_LOST) {
        *out = ref->state == OWN_REF_FAILED ? *ref->value.failure : *own_extra_of(own, ref)->lost;
        return OWN_LOST_FAILED;
    }
    if (at && ref->state == OWN_REF_PLACE && ref->again != OWN_AGAIN_GONE && !own_place_is(at, own_ref_place(own, ref)))
        return OWN_LOST_MOVED;
    if (at && own_lineage_seek(own, ref, code, text))
        return OWN_LOST_WAIT;
    if (!ref->task || ref->state != OWN_REF_PLACE) {
        own_lineage_failure(own, ref, code, text, out);
        return OWN_LOST_FAILED;
    }
    own_lineage_lose(own, ref, at && is_node_gone(code) ? at->node : 0);
    own_settle(own);
    if (ref->again != OWN_AGAIN_LOST)
        return OWN_LOST_WAIT;
    *out = *own_extra_of(own, ref)->lost;
    return OWN_LOST_FAILED;
}

/* Of a node that leaves: which run has made it only its owner knows, so the word is about the place. */
static bool is_at(struct own *own, const struct own_ref *ref, const struct lane_ref *from)
{
    struct lane_ref place = *from;
    if (ref->state != OWN_REF_PLACE || ref->flags & (OWN_REF_BORROWED | OWN_REF_FREED) ||
        (!own_ref_has_place(ref) && ref->again != OWN_AGAIN_SOUGHT))
        return false;
    if (!place.attempt)
        place.attempt = own_ref_place(own, ref)->attempt;
    return own_place_is(&place, own_ref_place(own, ref));
}

void own_ref_adopted(struct own *own, const struct ctl_moved *word)
{
    struct ctl_moved answer = *word;
    struct own_ref  *ref = mt_map_ptr(&own->refs, word->from.id);
    bool             is_taken = ref && is_at(own, ref, &word->from), was_sought = is_taken && ref->again == OWN_AGAIN_SOUGHT;
    struct lane_ref  before;
    answer.code = is_taken ? MT_OK : MT_EAGAIN;
    if (is_taken) {
        before = *own_ref_place(own, ref);
        answer.to.attempt = before.attempt;
        answer.to.flags = before.flags;
        own_lineage_found(own, ref, &answer.to);
    }
    own_send(own, CTL_MOVED, own_id_next(own), &answer, sizeof answer);
    if (was_sought && own->free_place)
        own->free_place(own, &before, true); /* its node may live, and others not reach it */
    if (was_sought)
        own_ref_unheld(own, ref);
}

/* ---- a reader wants to know ---- */

/* Our own value: it is being made again, or where is it? */
static void doubt_look(struct own *own, struct own_doubt *doubt, int32_t code, const char *text)
{
    switch (own_ref_lost(own, doubt->mine, &doubt->place, code, text, &doubt->why)) {
    case OWN_LOST_WAIT: return;
    case OWN_LOST_MOVED: doubt->place = *own_ref_place(own, doubt->mine); break;
    case OWN_LOST_FAILED: break;
    }
    doubt->is_over = true;
}

void own_doubt_begin(struct own *own, struct own_doubt *doubt, struct own_ref *mine, const struct lane_ref *at, int32_t code,
                     const char *text)
{
    struct own_msg_lost message = {.about = {.id = at->id, .process = own->process, .node = own->node}, .at = *at, .code = code};
    *doubt = (struct own_doubt){.next = own->doubts, .ref = at->id, .mine = mine, .place = *at};
    own->doubts = doubt;
    if (mine) {
        doubt_look(own, doubt, code, text);
    } else if (at->id.process == own->process) {
        own_failure_set(&doubt->why, MT_EOBJ_LOST, "the value was freed before it was read");
        doubt->is_over = true;
    } else {
        snprintf(message.text, sizeof message.text, "%s", text);
        own_watch_peer(own, at->id.process, at->owner_node);
        own_send_message(own, at->id.process, at->owner_node, OWN_MSG_LOST, &message, sizeof message, NULL, 0);
    }
}

bool own_doubt_is_over(struct own *own, struct own_doubt *doubt)
{
    if (doubt->mine && !doubt->is_over && own_ref_is_there(doubt->mine))
        doubt_look(own, doubt, MT_EOBJ_LOST, "");
    return doubt->is_over;
}
