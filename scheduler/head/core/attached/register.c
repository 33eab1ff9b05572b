/* SPDX-License-Identifier: Apache-2.0
 *
 * register.c - a raylet attaches: a node that is new, is back, or takes a number over.
 *
 * A number is never given twice. The epoch goes up when another boot takes the number over, and when a node that was
 * declared dead comes back: what it ran before is fenced by it.
 */

#include "scheduler/head/core/attached/attached.h"
#include "scheduler/head/core/calls/calls.h"
#include "scheduler/head/core/groups/groups.h"
#include "scheduler/head/core/jobs/attempts.h"
#include "scheduler/head/core/nodes/nodes.h"
#include "scheduler/head/core/trust/trust.h"
#include "scheduler/head/core/wants/wants.h"

#include "core/text/labels.h"
#include "core/base/limits/net.h"

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
    head_out_send(h, s, &message, true);
    head_nodes_drop_stream(h, s, text);
}

static void welcome(struct head *h, struct stream *s, const struct node *n)
{
    Manta__V1__Registered answer = MANTA__V1__REGISTERED__INIT;
    Manta__V1__BeatTerms  beats = MANTA__V1__BEAT_TERMS__INIT;
    to_node               message = MANTA__V1__HEAD_TO_NODE__INIT;
    answer.version = mt_versions_common(mt_release.wire, n->wire);
    answer.node = n->place.id;
    answer.epoch = n->epoch;
    answer.cluster = h->config.cluster;
    answer.head_epoch = h->epoch;
    answer.heads = h->head_list;
    answer.n_heads = h->head_count;
    answer.reads_more = true;
    beats.port = s->beats.port;
    beats.session = s->number;
    beats.key = (ProtobufCBinaryData){sizeof s->beats.key, s->beats.key};
    answer.beats = s->beats.port ? &beats : NULL;
    message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_REGISTERED;
    message.registered = &answer;
    head_out_send(h, s, &message, true);
}

static struct mt_versions spoken(const Manta__V1__Register *r)
{
    uint32_t max = r->version_max < UINT16_MAX ? r->version_max : UINT16_MAX;
    return (struct mt_versions){r->version_min <= max ? (uint16_t)r->version_min : UINT16_MAX, (uint16_t)max};
}

/* With the head, and with each node that is there: any two of them may have to speak to each other. True: not with one of them. */
static bool versions_check(const struct head *h, const Manta__V1__Register *r, char *text, size_t size)
{
    struct mt_versions wire = spoken(r), ours = mt_release.wire;
    if (!mt_versions_common(wire, ours)) {
        snprintf(
            text, size,
            "the raylet speaks versions %u to %u, this head (release %s) speaks %u to %u: use the same release, or the one before",
            wire.min, wire.max, mt_release.name, ours.min, ours.max);
        return true;
    }
    MT_MAP_EACH(&h->nodes, entry) {
        const struct node *n = entry->value.ptr;
        if (n->stream == 0 || n->place.id == r->node || n->boot == r->boot || mt_versions_common(wire, n->wire))
            continue;
        snprintf(text, size, "the raylet speaks versions %u to %u, node %u (%.64s) speaks %u to %u: drain that one first", wire.min,
                 wire.max, n->place.id, n->name, n->wire.min, n->wire.max);
        return true;
    }
    return false;
}

/* Why not, or NULL. */
static const char *register_check(const struct head *h, const Manta__V1__Register *r, int32_t *out_code, char *text,
                                  size_t text_size)
{
    if (versions_check(h, r, text, text_size)) {
        *out_code = MT_EVERSION;
    } else if (r->cluster[0] != '\0' && strcmp(r->cluster, h->config.cluster) != 0) {
        *out_code = MT_EFENCED;
        snprintf(text, text_size, "the raylet belongs to cluster %.36s, this head to %s: restart the raylet", r->cluster,
                 h->config.cluster);
    } else if (r->head_epoch > h->epoch) {
        *out_code = MT_EAGAIN;
        snprintf(text, text_size, "the raylet has heard a head of epoch %llu, and this one's is %llu: its store is an older copy",
                 (unsigned long long)r->head_epoch, (unsigned long long)h->epoch);
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
        return head_nodes_find(h, r->node);
    MT_MAP_EACH(&h->nodes, entry) {
        struct node *n = entry->value.ptr;
        if (n->boot == r->boot)
            return n;
    }
    return NULL;
}

/* Another raylet was killed in the same folder: what it had heard of is told, and all else of it is over. */
static void forerunner_take(struct head *h, struct stream *s, const Manta__V1__Register *r)
{
    const Manta__V1__Forerunner *told = r->before;
    char                         why[128];
    if (!told || !told->boot || told->boot == r->boot)
        return;
    MT_MAP_EACH(&h->nodes, entry) {
        struct node *n = entry->value.ptr;
        if (n->boot != told->boot || n->place.state == POLICY_DEAD ||
            (n->member && (s->peer.kind != HEAD_PEER_NODE || n->member != s->peer.id)))
            continue;
        head_attempts_forerunner(h, s, n, told);
        snprintf(why, sizeof why, "its raylet was killed, and has begun again as another node");
        head_attached_die(h, n, why);
        return;
    }
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
        head_record_meta(h);
    }
    *n = (struct node){.place = {.id = number, .state = POLICY_DEAD}}; /* until it is set alive below */
    n->epoch = number == r->node && r->epoch > 1 ? r->epoch : 1;
    n->boot = r->boot;
    return n;
}

/* What the certificate of its connection has against it; NULL: nothing. */
static const char *member_check(const struct head *h, const struct stream *s, const Manta__V1__Register *r)
{
    const struct node *n = head_nodes_find(h, r->node);
    if (s->peer.kind != HEAD_PEER_NODE)
        return NULL;
    if (head_revoked_has(h, s->peer.id))
        return "this node was revoked; it joins with a new ticket only: manta token create at the head";
    if (n && n->member && n->member != s->peer.id && n->place.state != POLICY_DEAD)
        return "the node of this number has another certificate: start the raylet again";
    return NULL;
}

/* For whom the certificate of its connection was made, which nobody can say of himself. */
static void take_member(struct node *n, const struct stream *s)
{
    bool is_same = s->peer.kind == HEAD_PEER_NODE && s->peer.id == n->member;
    if (!is_same || n->certificate_ms < s->peer.ends_ms)
        n->certificate_ms = s->peer.kind == HEAD_PEER_NODE ? s->peer.ends_ms : 0;
    n->member = s->peer.kind == HEAD_PEER_NODE ? s->peer.id : 0;
}

/* Takes over what the raylet says of itself, and makes the node alive on this stream. */
static void node_attach(struct head *h, struct node *n, struct stream *s, const Manta__V1__Register *r, bool is_back)
{
    n->wire = spoken(r);
    head_replace_text(h, &n->name, r->name);
    head_replace_text(h, &n->address, r->address);
    head_replace_text(h, &n->data_address, r->data_address);
    snprintf(n->place.labels, sizeof n->place.labels, "%s", r->labels);
    for (uint32_t i = 0; i < n->place.resource_count && !is_back; i++)
        n->reported[i] = n->place.resources[i].total; /* all of it is free; one that is back reports first */
    head_nodes_refresh_free(n);
    take_member(n, s);
    n->boot = r->boot;
    n->stream = s->number;
    n->heard_ms = h->now_ms;
    n->report_version = 0;
    n->has_reported = false;
    head_wants_tell_again(n);
    s->node = n->place.id;
    s->reads_more = r->reads_more;
    head_nodes_forget_dead(h, n->place.id);
    n->has_left = false;
    if (!is_back)
        memset(&n->drain, 0, sizeof n->drain); /* who begins anew was meant to be there */
    head_nodes_set_there(h, n);
    head_nodes_store(h, n);
    welcome(h, s, n);
    head_attempts_node_registered(h, n);
    head_bundles_node_registered(h, n);
    if (n->drain.is_on)
        head_drain_order(h, n);
}

/* The same process is back (true), or another took the number over: then what ran there before is lost. */
static bool node_back(struct head *h, struct node *n, const Manta__V1__Register *r)
{
    bool was_dead = n->place.state == POLICY_DEAD;
    if (n->stream != 0)
        head_nodes_detach(h, n, "replaced by a newer connection of the node");
    if (n->boot == r->boot && !was_dead) {
        h->count.reconnected++;
        return true;
    }
    h->count.new_epoch++;
    n->epoch++;
    n->voids.count = 0; /* whatever ran there has ended */
    if (!was_dead) {
        h->count.dead++;
        head_attached_lose_work(h, n, "the node's raylet was restarted");
    }
    return false;
}

void head_attached_register(struct head *h, struct stream *s, const Manta__V1__Register *r)
{
    char        text[HEAD_TEXT_SIZE];
    int32_t     code = 0;
    struct node probe = {0};
    if (s->node != 0) {
        head_nodes_drop_stream(h, s, "registered twice on one stream");
        return;
    }
    const char *why = register_check(h, r, &code, text, sizeof text);
    if (!why && head_resources_to_node(h, r->total, r->n_total, &probe, text, sizeof text).code != 0) {
        code = MT_EINVAL;
        why = text;
    }
    if (!why && (why = member_check(h, s, r)))
        code = MT_EAUTH;
    if (why) {
        refuse(h, s, code, why);
        return;
    }
    forerunner_take(h, s, r);
    struct node *n = register_find(h, r);
    bool         is_back = n && node_back(h, n, r);
    if (!n)
        n = node_new(h, r);
    if (!n)
        return;
    h->count.registered++;
    memcpy(n->place.resources, probe.place.resources, sizeof probe.place.resources);
    n->place.resource_count = probe.place.resource_count;
    n->drivers_max = probe.drivers_max;
    head_nodes_drivers(h, n, 0);
    node_attach(h, n, s, r, is_back);
    mt_log(MT_LOG_INFO, "node_registered", "node=%u epoch=%u name=%s address=%s version=%u", n->place.id, n->epoch, n->name,
           n->address, mt_versions_common(mt_release.wire, n->wire));
}
