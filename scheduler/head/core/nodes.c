/* SPDX-License-Identifier: Apache-2.0
 *
 * nodes.c - the life of a node as the head sees it, and what its stream says.
 *
 * Owns:    every struct node and struct stream.
 * Always:  a node has at most one stream; a stream's node has that stream; only an alive node has a stream.
 *
 *   (unknown) --register--> ALIVE --stream closed, or silent 2 s--> SUSPECT --silent 10 s, or new boot--> DEAD
 *                             ^----same boot registers, or is heard----'                                   |
 *                             '------------------registers again: a new epoch-----------------------------'
 *
 * A number is never given twice. The epoch goes up when another boot takes the number over, and when a node that was
 * declared dead comes back: what it ran before is fenced by it.
 */
#include "scheduler/head/core/internal.h"

#include "core/text/labels.h"

#include <inttypes.h>

enum { VERSION = 1 /* of NodeToHead and HeadToNode that this head speaks */ };

static void node_die(struct head *h, struct node *n, const char *why);

/* ---- finding ---- */

struct node *nodes_find(const struct head *h, uint32_t number)
{
    return mt_map_ptr(&h->nodes, mt_map_key(number));
}

static struct stream *stream_find(const struct head *h, uint64_t number)
{
    return mt_map_ptr(&h->streams, mt_map_key(number));
}

struct stream *nodes_stream(const struct head *h, const struct node *n)
{
    return n->stream ? stream_find(h, n->stream) : NULL;
}

void nodes_free(struct node *n)
{
    free(n->name);
    free(n->address);
    free(n->data_address);
    mt_vec_fini(&n->promises);
    mt_vec_fini(&n->wants);
    mt_vec_fini(&n->voids);
    free(n);
}

mt_status nodes_living(struct head *h, struct policy_node ***out_nodes, uint32_t *out_count)
{
    struct policy_node **list = calloc(h->nodes_living + 1, sizeof(struct policy_node *));
    uint32_t             count = 0;
    if (!list)
        return mt_error(MT_ENOMEM, 0, "list the nodes");
    MT_MAP_EACH(&h->nodes, entry) {
        struct node *n = entry->value.ptr;
        if (n->place.state != POLICY_DEAD)
            list[count++] = &n->place;
    }
    MT_ASSERT(count == h->nodes_living);
    *out_nodes = list;
    *out_count = count;
    return mt_ok();
}

/* ---- free resources ---- */

/* What the node reported, less the promises that its report may not contain yet. */
static void node_refresh_free(struct node *n)
{
    for (uint32_t i = 0; i < n->place.resource_count; i++)
        n->place.resources[i].free = n->reported[i];
    n->place.places = n->places_reported;
    for (size_t i = 0; i < n->promises.count; i++)
        n->place.places -= n->promises.data[i].count;
    for (size_t i = 0; i < n->promises.count; i++)
        for (uint32_t k = 0; k < n->promises.data[i].count; k++)
            policy_take(&n->place, &n->promises.data[i].request);
}

static void promises_expire(struct head *h, struct node *n, uint64_t age_ms)
{
    size_t kept = 0;
    for (size_t i = 0; i < n->promises.count; i++)
        if (h->now_ms - n->promises.data[i].at_ms < age_ms)
            n->promises.data[kept++] = n->promises.data[i];
    if (kept == n->promises.count)
        return;
    n->promises.count = kept;
    node_refresh_free(n);
    h->is_capacity_changed = h->is_free_changed = true;
}

void nodes_promise(struct head *h, struct node *n, const struct policy_request *request, uint32_t count)
{
    struct promise promise = {.at_ms = h->now_ms, .count = count, .request = *request};
    HEAD_TRY(h, mt_vec_push(&n->promises, promise));
    h->is_free_changed = true;
}

void nodes_taken(struct head *h, struct node *n, const struct policy_request *request)
{
    for (size_t i = 0; i < n->promises.count; i++) {
        const struct promise *p = &n->promises.data[i];
        if (p->count != 1 || p->request.amount_count != request->amount_count ||
            memcmp(p->request.amounts, request->amounts, request->amount_count * sizeof *request->amounts) != 0)
            continue;
        mt_vec_remove(&n->promises, i);
        for (uint32_t k = 0; k < request->amount_count; k++)
            for (uint32_t j = 0; j < n->place.resource_count; j++)
                if (n->place.resources[j].kind == request->amounts[k].kind)
                    n->reported[j] -= request->amounts[k].amount;
        node_refresh_free(n);
        break;
    }
    h->is_free_changed = true;
}

/* ---- states ---- */

static void node_set_state(struct head *h, struct node *n, enum policy_state state, const char *why)
{
    bool was_dead = n->place.state == POLICY_DEAD;
    if (was_dead != (state == POLICY_DEAD))
        h->nodes_living += was_dead ? 1 : (uint32_t)-1;
    n->place.state = state;
    snprintf(n->reason, sizeof n->reason, "%s", why);
    h->is_members_changed = h->is_capacity_changed = true;
}

static void dead_remember(struct head *h, uint32_t number)
{
    HEAD_TRY(h, mt_vec_push(&h->dead, number));
    while (h->dead.count > MT_HEAD_NODES_DEAD_MAX) {
        uint32_t     oldest = h->dead.data[0];
        struct node *n = nodes_find(h, oldest);
        mt_vec_remove(&h->dead, 0);
        if (!n)
            continue;
        mt_map_remove(&h->nodes, mt_map_key(oldest));
        nodes_free(n);
        records_drop_node(h, oldest);
    }
}

static void dead_forget(struct head *h, uint32_t number)
{
    for (size_t i = 0; i < h->dead.count; i++)
        if (h->dead.data[i] == number) {
            mt_vec_remove(&h->dead, i);
            return;
        }
}

/* All that the node's processes were doing is over: its jobs are started elsewhere, its names are free. */
static void node_lose_work(struct head *h, struct node *n, const char *why)
{
    n->wants.count = 0;
    n->promises.count = 0;
    attempts_node_lost(h, n->place.id, why);
    names_node_dead(h, n->place.id);
    groups_node_lost(h, n->place.id);
}

static void node_detach(struct head *h, struct node *n, const char *why)
{
    struct stream *s = nodes_stream(h, n);
    n->stream = 0;
    if (s) {
        s->node = 0;
        nodes_drop_stream(h, s, why);
    }
}

static void node_die(struct head *h, struct node *n, const char *why)
{
    mt_log(MT_LOG_WARN, "node_dead", "node=%u epoch=%u why=\"%s\"", n->place.id, n->epoch, why);
    h->count.dead++;
    node_detach(h, n, why);
    node_set_state(h, n, POLICY_DEAD, why);
    records_put_node(h, n);
    node_lose_work(h, n, why);
    dead_remember(h, n->place.id);
}

static void node_suspect(struct head *h, struct node *n, const char *why)
{
    if (n->place.state != POLICY_ALIVE)
        return;
    mt_log(MT_LOG_INFO, "node_suspect", "node=%u why=\"%s\"", n->place.id, why);
    h->count.suspect++;
    node_set_state(h, n, POLICY_SUSPECT, why);
}

static void node_heard(struct head *h, struct node *n)
{
    n->heard_ms = h->now_ms;
    if (n->place.state == POLICY_SUSPECT && n->stream != 0)
        node_set_state(h, n, POLICY_ALIVE, "");
}

static void node_tick(struct head *h, struct node *n)
{
    uint64_t silent = h->now_ms - n->heard_ms;
    char     why[128];
    if (silent >= MT_NODE_DEAD_MS) {
        snprintf(why, sizeof why, "silent for %" PRIu64 " s", silent / 1000);
        node_die(h, n, why);
        return;
    }
    if (silent >= MT_NODE_SUSPECT_MS && n->stream != 0)
        node_suspect(h, n, "silent");
    promises_expire(h, n, MT_HEAD_PROMISE_MS_MAX);
}

void nodes_tick(struct head *h)
{
    MT_MAP_EACH(&h->nodes, entry) {
        struct node *n = entry->value.ptr;
        if (n->place.state != POLICY_DEAD)
            node_tick(h, n);
    }
}

/* The head itself stood still: nobody's silence. */
void nodes_paused(struct head *h, uint64_t gap_ms)
{
    mt_log(MT_LOG_WARN, "head_paused", "gap_ms=%" PRIu64, gap_ms);
    h->count.pause++;
    MT_MAP_EACH(&h->nodes, entry)
        ((struct node *)entry->value.ptr)->heard_ms += gap_ms;
}

/* ---- streams ---- */

void nodes_opened(struct head *h, uint64_t number)
{
    struct stream *s = calloc(1, sizeof *s);
    if (!s || mt_map_put_ptr(&h->streams, mt_map_key(number), s).code != 0) {
        free(s);
        head_broken(h, mt_error(MT_ENOMEM, 0, "take a stream"));
        return;
    }
    s->number = number;
}

static void stream_forget(struct head *h, struct stream *s)
{
    mt_map_remove(&h->streams, mt_map_key(s->number));
    free(s);
}

void nodes_drop_stream(struct head *h, struct stream *s, const char *why)
{
    struct node *n = s->node ? nodes_find(h, s->node) : NULL;
    if (n && n->stream == s->number) {
        n->stream = 0;
        node_suspect(h, n, why);
    }
    out_close(h, s);
    stream_forget(h, s);
}

void nodes_closed(struct head *h, uint64_t number)
{
    struct stream *s = stream_find(h, number);
    if (!s)
        return;
    struct node *n = s->node ? nodes_find(h, s->node) : NULL;
    if (n && n->stream == number) {
        n->stream = 0;
        node_suspect(h, n, "its connection closed");
    }
    stream_forget(h, s);
}

/* ---- registration ---- */

static void refuse(struct head *h, struct stream *s, int32_t code, const char *text)
{
    Manta__V1__Registered answer = MANTA__V1__REGISTERED__INIT;
    to_node               message = MANTA__V1__HEAD_TO_NODE__INIT;
    mt_log(MT_LOG_WARN, "register_refused", "code=%s text=\"%s\"", mt_code_name(code), text);
    h->count.register_refused++;
    answer.code = code;
    answer.text = (char *)text;
    answer.cluster = h->config.cluster;
    answer.head_epoch = h->epoch;
    message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_REGISTERED;
    message.registered = &answer;
    out_send(h, s, &message, true);
    nodes_drop_stream(h, s, text);
}

static void welcome(struct head *h, struct stream *s, const struct node *n)
{
    Manta__V1__Registered answer = MANTA__V1__REGISTERED__INIT;
    to_node               message = MANTA__V1__HEAD_TO_NODE__INIT;
    answer.version = VERSION;
    answer.node = n->place.id;
    answer.epoch = n->epoch;
    answer.cluster = h->config.cluster;
    answer.head_epoch = h->epoch;
    message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_REGISTERED;
    message.registered = &answer;
    out_send(h, s, &message, true);
}

/* Why not, or NULL. */
static const char *register_check(const struct head *h, const Manta__V1__Register *r, int32_t *out_code, char *text,
                                  size_t text_size)
{
    if (r->version_min > VERSION || r->version_max < VERSION) {
        *out_code = MT_EVERSION;
        snprintf(text, text_size, "the raylet speaks versions %u to %u, this head speaks %d: use the same release", r->version_min,
                 r->version_max, VERSION);
    } else if (r->cluster[0] != '\0' && strcmp(r->cluster, h->config.cluster) != 0) {
        *out_code = MT_EFENCED;
        snprintf(text, text_size, "the raylet belongs to cluster %.36s, this head to %s: restart the raylet", r->cluster,
                 h->config.cluster);
    } else if (r->boot == 0) {
        *out_code = MT_EPROTO;
        snprintf(text, text_size, "the raylet's boot number is 0");
    } else if (strlen(r->name) >= MT_NAME_BYTES_MAX || strlen(r->address) >= MT_NAME_BYTES_MAX ||
               strlen(r->data_address) >= MT_NAME_BYTES_MAX) {
        *out_code = MT_EINVAL;
        snprintf(text, text_size, "a name or an address is longer than %d bytes", MT_NAME_BYTES_MAX - 1);
    } else if (mt_labels_check(r->labels, text, text_size).code) {
        *out_code = MT_EINVAL;
    } else if (h->nodes_living >= MT_NODES_MAX) {
        *out_code = MT_EAGAIN;
        snprintf(text, text_size, "the cluster has its %d nodes already", MT_NODES_MAX);
    } else {
        return NULL;
    }
    return text;
}

/* The node that this process was: by its number, or by its boot where the answer to its first Register was lost. */
static struct node *register_find(struct head *h, const Manta__V1__Register *r)
{
    if (r->node != 0)
        return nodes_find(h, r->node);
    MT_MAP_EACH(&h->nodes, entry) {
        struct node *n = entry->value.ptr;
        if (n->boot == r->boot)
            return n;
    }
    return NULL;
}

/* A raylet that names a number which was never given keeps it: in a private cluster it is 1 before it knows the head. */
static struct node *node_new(struct head *h, const Manta__V1__Register *r)
{
    uint32_t     number = r->node >= h->next_node && r->node - h->next_node <= MT_NODES_MAX ? r->node : h->next_node;
    struct node *n = calloc(1, sizeof *n);
    if (r->node != 0 && r->node < h->next_node && h->config.first_node > r->node)
        number = r->node;
    if (!n || mt_map_put_ptr(&h->nodes, mt_map_key(number), n).code != 0) {
        free(n);
        head_broken(h, mt_error(MT_ENOMEM, 0, "make a node"));
        return NULL;
    }
    if (number >= h->next_node) {
        h->next_node = number + 1;
        records_put_meta(h);
    }
    n->place.id = number;
    n->place.state = POLICY_DEAD; /* until it is set alive below */
    n->epoch = number == r->node && r->epoch > 1 ? r->epoch : 1;
    n->boot = r->boot;
    return n;
}

static void replace(struct head *h, char **text, const char *with)
{
    char *copy = head_strdup(h, with);
    if (copy) {
        free(*text);
        *text = copy;
    }
}

/* Takes over what the raylet says of itself, and makes the node alive on this stream. */
static void node_attach(struct head *h, struct node *n, struct stream *s, const Manta__V1__Register *r, bool is_back)
{
    replace(h, &n->name, r->name);
    replace(h, &n->address, r->address);
    replace(h, &n->data_address, r->data_address);
    snprintf(n->place.labels, sizeof n->place.labels, "%s", r->labels);
    for (uint32_t i = 0; i < n->place.resource_count && !is_back; i++)
        n->reported[i] = n->place.resources[i].total; /* all of it is free; one that is back reports first */
    node_refresh_free(n);
    n->boot = r->boot;
    n->stream = s->number;
    n->heard_ms = h->now_ms;
    n->report_version = 0;
    n->has_reported = false;
    wants_tell_again(n);
    s->node = n->place.id;
    dead_forget(h, n->place.id);
    node_set_state(h, n, POLICY_ALIVE, "");
    records_put_node(h, n);
    welcome(h, s, n);
    attempts_node_registered(h, n);
    bundles_node_registered(h, n);
}

/* The same process is back (true), or another took the number over: then what ran there before is lost. */
static bool node_back(struct head *h, struct node *n, const Manta__V1__Register *r)
{
    bool was_dead = n->place.state == POLICY_DEAD;
    if (n->stream != 0)
        node_detach(h, n, "replaced by a newer connection of the node");
    if (n->boot == r->boot && !was_dead) {
        h->count.reconnected++;
        return true;
    }
    h->count.new_epoch++;
    n->epoch++;
    n->voids.count = 0; /* whatever ran there has ended */
    if (!was_dead) {
        h->count.dead++;
        node_lose_work(h, n, "the node's raylet was restarted");
    }
    return false;
}

static void take_register(struct head *h, struct stream *s, const Manta__V1__Register *r)
{
    char        text[HEAD_TEXT_SIZE];
    int32_t     code = 0;
    struct node probe = {0};
    if (s->node != 0) {
        nodes_drop_stream(h, s, "registered twice on one stream");
        return;
    }
    const char *why = register_check(h, r, &code, text, sizeof text);
    if (!why && resources_to_node(h, r->total, r->n_total, &probe, text, sizeof text).code != 0) {
        code = MT_EINVAL;
        why = text;
    }
    if (why) {
        refuse(h, s, code, why);
        return;
    }
    struct node *n = register_find(h, r);
    bool         is_back = n && node_back(h, n, r);
    if (!n)
        n = node_new(h, r);
    if (!n)
        return;
    h->count.registered++;
    memcpy(n->place.resources, probe.place.resources, sizeof probe.place.resources);
    n->place.resource_count = probe.place.resource_count;
    node_attach(h, n, s, r, is_back);
    mt_log(MT_LOG_INFO, "node_registered", "node=%u epoch=%u name=%s address=%s", n->place.id, n->epoch, n->name, n->address);
}

/* ---- what a registered node says ---- */

/* How many processes it may still start; where none, people are told why nothing new is placed there. */
static void take_places(struct head *h, struct node *n, const Manta__V1__Report *report)
{
    bool was_full = n->place.state == POLICY_ALIVE && n->reason[0], is_full = report->workers_max && report->places == 0;
    n->place.counts_places = report->workers_max > 0;
    n->places_reported = report->places;
    n->is_stuck = report->is_stuck;
    if (n->place.state != POLICY_ALIVE || was_full == is_full)
        return;
    n->reason[0] = '\0';
    if (is_full)
        snprintf(n->reason, sizeof n->reason, "all %u processes that it may run for tasks and actors are in use (--max-workers)",
                 report->workers_max);
    h->is_members_changed = true;
}

static void take_report(struct head *h, struct stream *s, struct node *n, const Manta__V1__Report *report)
{
    if (n->has_reported && report->version <= n->report_version)
        return;
    n->has_reported = true;
    n->report_version = report->version;
    for (size_t i = 0; i < report->n_free; i++) {
        uint32_t kind = resources_kind(h, report->free[i]->name);
        for (uint32_t j = 0; j < n->place.resource_count; j++)
            if (n->place.resources[j].kind == kind) {
                int64_t total = n->place.resources[j].total, free = report->free[i]->milli;
                n->reported[j] = free < 0 ? 0 : free > total ? total : free;
            }
    }
    take_places(h, n, report);
    promises_expire(h, n, MT_HEAD_PROMISE_MS);
    node_refresh_free(n);
    h->is_capacity_changed = h->is_free_changed = true;
    wants_report(h, n, report->wants, report->n_wants);
    n->is_seen = true;
    bundles_report(h, n, report);
    if (report->n_strict || report->n_wants) /* who wants something counts on an answer: a head that is silent is away */
        strict_report(h, s, report);
}

static void take_message(struct head *h, struct stream *s, struct node *n, const to_head *m)
{
    switch (m->kind_case) {
    case MANTA__V1__NODE_TO_HEAD__KIND_REPORT: take_report(h, s, n, m->report); break;
    case MANTA__V1__NODE_TO_HEAD__KIND_NAME: names_request(h, s, m->name); break;
    case MANTA__V1__NODE_TO_HEAD__KIND_GONE:
        if (m->gone->process)
            names_process_gone(h, m->gone->process);
        if (m->gone->job)
            groups_job_gone(h, m->gone->job);
        break;
    case MANTA__V1__NODE_TO_HEAD__KIND_JOB: attempts_state(h, s, m->job); break;
    case MANTA__V1__NODE_TO_HEAD__KIND_LOG: jobs_log(h, s, m->log); break;
    case MANTA__V1__NODE_TO_HEAD__KIND_ACTOR: actors_request(h, s, m->actor); break;
    case MANTA__V1__NODE_TO_HEAD__KIND_GROUP: groups_request(h, s, m->group); break;
    case MANTA__V1__NODE_TO_HEAD__KIND_BUNDLE: bundles_answer(h, n, m->bundle); break;
    case MANTA__V1__NODE_TO_HEAD__KIND_ANSWER: queries_answer(h, n, m->answer); break;
    default: break; /* of a newer raylet: not for us */
    }
}

void nodes_message(struct head *h, uint64_t number, const uint8_t *bytes, size_t size)
{
    struct stream *s = stream_find(h, number);
    if (!s)
        return; /* ended by us a moment ago */
    to_head *m = manta__v1__node_to_head__unpack(NULL, size, bytes);
    if (!m) {
        h->count.malformed++;
        mt_log(MT_LOG_WARN, "malformed", "stream=%" PRIu64 " node=%u size=%zu", number, s->node, size);
        nodes_drop_stream(h, s, "sent a message that can't be read");
        return;
    }
    struct node *n = s->node ? nodes_find(h, s->node) : NULL;
    if (m->kind_case == MANTA__V1__NODE_TO_HEAD__KIND_REGISTER) {
        take_register(h, s, m->register_);
    } else if (!n) {
        h->count.malformed++;
        nodes_drop_stream(h, s, "spoke before it registered");
    } else {
        node_heard(h, n);
        take_message(h, s, n, m);
    }
    manta__v1__node_to_head__free_unpacked(m, NULL);
}

/* ---- the store's ---- */

mt_status nodes_load(struct head *h, const Manta__Store__NodeRecord *r)
{
    char         text[HEAD_TEXT_SIZE];
    struct node *n = calloc(1, sizeof *n);
    if (!n)
        return mt_error(MT_ENOMEM, 0, "load a node");
    n->place.id = r->node;
    n->epoch = r->epoch;
    n->boot = r->boot;
    replace(h, &n->name, r->name);
    replace(h, &n->address, r->address);
    replace(h, &n->data_address, r->data_address);
    snprintf(n->place.labels, sizeof n->place.labels, "%s", r->labels);
    n->place.state = r->dead ? POLICY_DEAD : POLICY_SUSPECT;
    snprintf(n->reason, sizeof n->reason, "%s", r->dead ? r->reason : "not seen since the head was restarted");
    mt_status st = resources_to_node(h, r->total, r->n_total, n, text, sizeof text);
    if (st.code == 0 && (r->node == 0 || r->boot == 0 || nodes_find(h, r->node)))
        st = mt_error(MT_ECORRUPT, 0, "the store holds a node that can't be");
    if (st.code == 0)
        st = mt_map_put_ptr(&h->nodes, mt_map_key(r->node), n);
    if (st.code != 0) {
        nodes_free(n);
        return st;
    }
    for (size_t i = 0; i < r->n_void_leases; i++)
        MT_TRY(mt_vec_push(&n->voids, r->void_leases[i]));
    if (r->node >= h->next_node)
        h->next_node = r->node + 1;
    if (r->dead)
        MT_TRY(mt_vec_push(&h->dead, r->node));
    else
        h->nodes_living++;
    return h->broken;
}

/* ---- lists ---- */

void nodes_list(struct head *h, uint64_t call)
{
    Manta__V1__ListNodesReply reply = MANTA__V1__LIST_NODES_REPLY__INIT;
    size_t                    count = 0, room = h->nodes.count;
    Manta__V1__Node          *items = calloc(room + 1, sizeof *items);
    reply.nodes = calloc(room + 1, sizeof(Manta__V1__Node *));
    if (items && reply.nodes) {
        MT_MAP_EACH(&h->nodes, entry) {
            view_node(h, entry->value.ptr, &items[count]);
            view_reserved(h, entry->value.ptr, &items[count]);
            reply.nodes[count] = &items[count];
            count++;
        }
        reply.n_nodes = count;
        reply.cluster = h->config.cluster;
        reply.head_epoch = h->epoch;
        reply.runs_as_root = h->config.runs_as_root;
        reply.is_insecure = h->config.is_insecure;
        out_reply(h, call, HEAD_LIST_NODES, &reply.base);
    } else {
        head_broken(h, mt_error(MT_ENOMEM, 0, "list the nodes"));
    }
    for (size_t i = 0; i < count; i++)
        view_node_free(&items[i]);
    free(items);
    free(reply.nodes);
}
