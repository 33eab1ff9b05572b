/* SPDX-License-Identifier: Apache-2.0
 *
 * news.c - refs that are ready once the raylet's list of nodes is another.
 *
 * The request bears the ref's own id, so that its answer finds it. One is under way for each kind of news, whoever asks.
 *
 * Owns:   own->news. Thread: the caller's, under the owner lock.
 */
#include "clients/lib/owner/talk/talk.h"

struct own_ref *own_news_of_nodes(struct own *own, enum ctl_news what)
{
    struct ctl_request ask = {.op = CTL_OP_NODES_NEWS, .after = what};
    struct own_ref    *ref = own->news[what];
    if (!ref) {
        ref = own_ref_new(own, mt_id_with_index(own_id_next(own), 1));
        if (!ref)
            return NULL;
        own->news[what] = ref;
        own_send(own, CTL_REQUEST, ref->id, &ask, sizeof ask);
    }
    own_ref_hold(ref);
    return ref;
}

void own_news_came(struct own *own, mt_id id, const struct ctl_reply *reply)
{
    for (int what = 0; what < CTL_NEWS; what++) {
        struct own_ref    *ref = own->news[what];
        struct own_failure f;
        if (!ref || !mt_id_equal(ref->id, id))
            continue;
        own->news[what] = NULL;
        own_failure_set(&f, reply->code, "%.*s", (int)sizeof reply->text - 1, reply->text);
        if (reply->code)
            own_ref_set_failed(own, ref, &f);
        else
            own_ref_set_inline(own, ref, 'y', NULL, 0);
        own_ref_unhold(own, ref);
    }
}
