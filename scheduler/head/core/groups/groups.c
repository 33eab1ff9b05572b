/* SPDX-License-Identifier: Apache-2.0
 *
 * groups.c - placement groups: the table, and what processes ask of it.
 *
 * Owns:    the requests; table.c has the groups, waits.c who waits for one.
 * Always:  a group is stored before anybody hears of it; one that is not in the table was removed; it goes with its job,
 *          unless it is detached. Where its bundles stand is bundles.c's.
 */

#include "scheduler/head/core/groups/internal.h"
#include "scheduler/head/core/names/names.h"
#include "scheduler/head/core/nodes/nodes.h"

enum verb { GROUP_NEW = 1, GROUP_WAIT = 2, GROUP_FIND = 3, GROUP_REMOVE = 4 }; /* enum ctl_group_verb */

static void group_remove(struct head *h, struct group *g, const char *why)
{
    char name[HEAD_TEXT_SIZE], text[HEAD_TEXT_SIZE];
    head_groups_name(g, name, sizeof name);
    snprintf(text, sizeof text, "placement group %.200s was removed: %.200s", name, why);
    mt_log(MT_LOG_INFO, "group_removed", "group=%s why=\"%s\"", name, why);
    h->count.group_removed++;
    head_groups_unstore(h, g->id);
    head_groups_answer_waits(h, g, MT_EPG_REMOVED, text);
    head_bundles_return_all(h, g, text);
    head_groups_remember_over(h, g->id);
    head_groups_free(h, g);
}

/* ---- making one ---- */

static int32_t bundles_read(struct head *h, const Manta__V1__GroupRequest *r, struct bundle *out, char *text, size_t text_size)
{
    char   wrong[HEAD_TEXT_SIZE];
    size_t resources = 0;
    for (size_t i = 0; i < r->n_bundles; i++) {
        const Manta__V1__Bundle *b = r->bundles[i];
        if (head_resources_to_request(h, b->resources, b->n_resources, &out[i].request, wrong, sizeof wrong).code) {
            snprintf(text, text_size, "bundle %zu: %.400s", i + 1, wrong);
            return MT_EINVAL;
        }
        resources += out[i].request.amount_count;
        if (out[i].request.amount_count == 0) {
            snprintf(text, text_size, "bundle %zu is empty: it must reserve something", i + 1);
            return MT_EINVAL;
        }
    }
    if (resources <= MT_GROUP_RESOURCES_MAX)
        return MT_OK;
    snprintf(text, text_size, "the bundles name %zu amounts in all; at most %d", resources, MT_GROUP_RESOURCES_MAX);
    return MT_EINVAL;
}

/* 0: its groups and their names are for all jobs of the cluster. */
static uint64_t apart_of(const Manta__V1__GroupRequest *r)
{
    return r->apart ? r->job : 0;
}

/* What is refused stays so, also for a repeat that comes late: who asked has been told. */
static int32_t room_code(struct head *h, const Manta__V1__GroupRequest *r)
{
    mt_id          id = {r->group_process, r->group_counter};
    const int32_t *before = mt_recent_find(&h->groups_over, id);
    if (before)
        return *before == MT_EDISK_FULL || *before == MT_EAGAIN ? *before : 0;
    if (head_has_room(h, sizeof(struct group) + r->n_bundles * sizeof(struct bundle)))
        return 0;
    mt_recent_put(&h->groups_over, id, head_room_refusal(h).code);
    return head_room_refusal(h).code;
}

static int32_t check_new(struct head *h, const Manta__V1__GroupRequest *r, char *text, size_t text_size)
{
    const struct node *n = head_nodes_find(h, r->job_node);
    if (r->n_bundles == 0 || r->n_bundles > MT_GROUP_BUNDLES_MAX) {
        snprintf(text, text_size, "a placement group has 1 to %d bundles, not %zu", MT_GROUP_BUNDLES_MAX, r->n_bundles);
        return MT_EINVAL;
    }
    if (r->strategy > POLICY_GROUP_STRICT_SPREAD || !head_names_text_is_fine(r->space, true) ||
        !head_names_text_is_fine(r->name, true)) {
        snprintf(text, text_size, "strategy %u, name %.64s: no such strategy, or a name that can't be", r->strategy, r->name);
        return MT_EINVAL;
    }
    int32_t full = room_code(h, r);
    if (full != 0) {
        snprintf(text, text_size, "%s", full == MT_EAGAIN ? HEAD_AWAY_TEXT : HEAD_FULL_TEXT);
        return full;
    }
    if (head_groups_is_over(h, (mt_id){r->group_process, r->group_counter}) || (!r->detached && head_names_is_gone(h, r->job)) ||
        (!r->detached && (!n || n->place.state == POLICY_DEAD || n->epoch != r->job_epoch))) {
        snprintf(text, text_size, "its job has ended, or it was removed already");
        return MT_EPG_REMOVED;
    }
    if (r->apart && r->detached) {
        snprintf(text, text_size,
                 "each job has a user of its own here (--job-users): a detached placement group would be nobody's "
                 "once its job has ended");
        return MT_EUNSUPPORTED;
    }
    if (r->name[0] && head_groups_find_name(h, apart_of(r), r->space, r->name)) {
        snprintf(text, text_size,
                 "the name %.64s (namespace %.64s) is another placement group's: choose another name, or find "
                 "that one",
                 r->name, r->space);
        return MT_EEXIST;
    }
    if (h->groups.count >= MT_HEAD_GROUPS_MAX) {
        snprintf(text, text_size, "the cluster holds %d placement groups already: remove some", MT_HEAD_GROUPS_MAX);
        return MT_EAGAIN;
    }
    return MT_OK;
}

static int32_t make(struct head *h, const Manta__V1__GroupRequest *r, char *text, size_t text_size)
{
    struct group *g;
    mt_id         id = {r->group_process, r->group_counter};
    if (head_groups_find(h, id))
        return MT_OK; /* said twice */
    int32_t code = check_new(h, r, text, text_size);
    if (code != MT_OK)
        return code;
    mt_status st = head_groups_add(h, id, apart_of(r), r->space, r->name, (uint32_t)r->n_bundles, &g);
    if (st.code != 0) {
        head_broken(h, st);
        return st.code;
    }
    code = bundles_read(h, r, g->bundles, text, text_size);
    if (code != MT_OK) {
        head_groups_free(h, g);
        return code;
    }
    g->job = r->job;
    g->job_node = r->job_node;
    g->is_detached = r->detached;
    g->strategy = (enum policy_strategy)r->strategy;
    g->order = h->next_order++;
    h->count.group_made++;
    head_groups_store(h, g);
    head_bundles_open(h, g);
    return MT_OK;
}

/* ---- what is asked of one that is there ---- */

/* Where jobs are apart, another's group is as if it were not there. */
static struct group *find_asked(struct head *h, const Manta__V1__GroupRequest *r)
{
    bool is_named = r->verb == GROUP_FIND && r->name[0];
    if (is_named && (!head_names_text_is_fine(r->space, true) || !head_names_text_is_fine(r->name, false)))
        return NULL;
    struct group *g = is_named ? head_groups_find_name(h, apart_of(r), r->space, r->name)
                               : head_groups_find(h, (mt_id){r->group_process, r->group_counter});
    return g && (r->apart || g->is_apart) && g->job != r->job ? NULL : g;
}

static void no_such(struct head *h, struct stream *s, const Manta__V1__GroupRequest *r)
{
    char  text[HEAD_TEXT_SIZE];
    mt_id request = {r->id_process, r->id_counter};
    if (r->verb == GROUP_REMOVE) {
        head_groups_reply(h, s, request, MT_OK, "", NULL);
    } else if (r->verb == GROUP_FIND && r->name[0]) {
        snprintf(text, sizeof text, "no placement group has the name %.64s (namespace %.64s); it may have been removed", r->name,
                 r->space);
        head_groups_reply(h, s, request, MT_ENOENT, text, NULL);
    } else {
        head_groups_reply(h, s, request, MT_EPG_REMOVED, "the placement group was removed, or its job has ended", NULL);
    }
}

void head_groups_request(struct head *h, struct stream *s, const Manta__V1__GroupRequest *r)
{
    char          text[HEAD_TEXT_SIZE] = "";
    mt_id         request = {r->id_process, r->id_counter};
    struct group *g = r->verb == GROUP_NEW ? NULL : find_asked(h, r);
    if (r->verb == GROUP_NEW) {
        int32_t code = make(h, r, text, sizeof text);
        head_groups_reply(h, s, request, code, text, NULL);
    } else if (!g) {
        no_such(h, s, r);
    } else if (r->verb == GROUP_WAIT) {
        head_groups_wait(h, s, r, g);
    } else if (r->verb == GROUP_FIND) {
        head_groups_reply(h, s, request, MT_OK, "", g);
    } else if (r->verb == GROUP_REMOVE) {
        group_remove(h, g, "on request");
        head_groups_reply(h, s, request, MT_OK, "", NULL);
    } else {
        head_groups_reply(h, s, request, MT_EUNSUPPORTED, "a request of a newer release", NULL);
    }
}

/* ---- ends ---- */

void head_groups_job_gone(struct head *h, uint64_t job)
{
    head_names_remember_gone(h, job);
    for (struct head_index_node *at = h->groups.first, *next; at; at = next) {
        struct group *g = mt_container_of(at, struct group, at);
        next = at->next;
        if (g->job == job && !g->is_detached)
            group_remove(h, g, "its job has ended");
    }
}

void head_groups_node_lost(struct head *h, uint32_t node)
{
    for (struct head_index_node *at = h->groups.first, *next; at; at = next) {
        struct group *g = mt_container_of(at, struct group, at);
        next = at->next;
        if (g->job_node == node && !g->is_detached)
            group_remove(h, g, "the node of its job's driver died");
        else
            head_bundles_lose(h, g, node);
    }
}

/* ---- the store ---- */

mt_status head_groups_load(struct head *h, const Manta__Store__GroupRecord *r)
{
    static const mt_status  wrong = {.code = MT_ECORRUPT, .what = "the store holds a placement group that can't be"};
    Manta__V1__GroupRequest request = MANTA__V1__GROUP_REQUEST__INIT;
    char                    text[HEAD_TEXT_SIZE];
    struct group           *g;
    mt_id                   id = {r->process, r->counter};
    if (head_groups_find(h, id) || r->n_bundles == 0 || r->n_bundles > MT_GROUP_BUNDLES_MAX ||
        r->strategy > POLICY_GROUP_STRICT_SPREAD || !head_names_text_is_fine(r->space, true) ||
        !head_names_text_is_fine(r->name, true) ||
        (r->name[0] && head_groups_find_name(h, r->apart ? r->job : 0, r->space, r->name)))
        return wrong;
    MT_TRY(head_groups_add(h, id, r->apart ? r->job : 0, r->space, r->name, (uint32_t)r->n_bundles, &g));
    request.bundles = r->bundles;
    request.n_bundles = r->n_bundles;
    if (bundles_read(h, &request, g->bundles, text, sizeof text) != MT_OK) {
        head_groups_free(h, g);
        return wrong;
    }
    g->job = r->job;
    g->job_node = r->job_node;
    g->is_detached = r->detached;
    g->strategy = (enum policy_strategy)r->strategy;
    g->version = r->version;
    g->order = r->order;
    for (size_t i = 0; i < r->n_bundles; i++) {
        struct bundle           *b = &g->bundles[i];
        const Manta__V1__Bundle *from = r->bundles[i];
        *b = (struct bundle){
            .request = b->request,
            .state = from->node == 0   ? BUNDLE_NONE
                     : from->committed ? BUNDLE_COMMITTED
                                       : BUNDLE_PREPARING,
            .node = from->node,
            .epoch = from->epoch,
            .version = from->version,
        };
        for (uint32_t k = 0; k < b->request.amount_count; k++)
            b->free[k] = b->request.amounts[k].amount;
    }
    if (r->order >= h->next_order)
        h->next_order = r->order + 1;
    head_bundles_open(h, g); /* what was half done is finished; what was decided is said again */
    return mt_ok();
}
