/* SPDX-License-Identifier: Apache-2.0
 *
 * orders.c - what the scaler orders: records into the store, drains, and requests to the provider, one line of JSON each
 *            (docs/design/scaler.md has the protocol).
 */
#include "scheduler/head/core/scale/private.h"
#include "scheduler/head/core/attached/attached.h"
#include "scheduler/head/core/calls/calls.h"
#include "scheduler/head/core/nodes/nodes.h"
#include "scheduler/head/core/trust/trust.h"
#include "core/base/limits/net.h"
#include "core/text/json.h"

#include <inttypes.h>

static void send(struct head *h, enum head_provide_op op, uint64_t number, mt_buf *line, const struct head_ticket *ticket)
{
    uint32_t limit = op == HEAD_PROVIDE_LAUNCH ? MT_SCL_LAUNCH_MS : MT_SCL_ANSWER_MS;
    head_out_provide(h, op, number, limit, mt_buf_view(line), ticket);
    mt_buf_fini(line);
}

static void put(struct head *h, mt_buf *line, const char *before, const char *text)
{
    HEAD_TRY(h, mt_buf_printf(line, "%s", before));
    HEAD_TRY(h, mt_json_put_text(line, text));
}

static void put_settings(struct head *h, mt_buf *line, Manta__V1__ScaleSetting *const *settings, size_t count)
{
    HEAD_TRY(h, mt_buf_printf(line, ",\"settings\":{"));
    for (size_t i = 0; i < count; i++) {
        put(h, line, i ? "," : "", settings[i]->name);
        put(h, line, ":", settings[i]->value);
    }
    HEAD_TRY(h, mt_buf_printf(line, "}"));
}

void head_scale_open(struct head *h)
{
    const Manta__V1__ScaleConfig *c = h->scale.config;
    mt_buf                        line = {0};
    HEAD_TRY(h, mt_buf_append(&line, c->provider, strlen(c->provider) + 1));
    put(h, &line, "{\"op\":\"configure\",\"number\":0,\"cluster\":", h->config.cluster);
    put_settings(h, &line, c->settings, c->n_settings);
    HEAD_TRY(h, mt_buf_printf(&line, "}"));
    send(h, HEAD_PROVIDE_OPEN, 0, &line, NULL);
}

static const Manta__V1__ScaleType *type_of(const struct head *h, const char *name)
{
    for (size_t t = 0; h->scale.config && t < h->scale.config->n_types; t++)
        if (strcmp(h->scale.config->types[t]->name, name) == 0)
            return h->scale.config->types[t];
    return NULL;
}

static void launch(struct head *h, const struct scl_instance *i, uint32_t more)
{
    const Manta__V1__ScaleType *type = type_of(h, i->type);
    mt_buf                      line = {0};
    char                        own[MT_LABELS_BYTES_MAX] = "", text[MT_LABELS_BYTES_MAX + MT_NAME_BYTES_MAX] = "";
    if (!type)
        return; /* its type has just been removed: no listing will have it */
    h->count.scale_launched++;
    snprintf(text, sizeof text, "%s-%" PRIu64, h->config.cluster, i->number);
    HEAD_TRY(h, mt_buf_printf(&line, "{\"op\":\"launch\",\"number\":%" PRIu64, i->number));
    put(h, &line, ",\"id\":", text);
    put(h, &line, ",\"type\":", i->type);
    if (head_scale_labels(type, i->zone, own, sizeof own))
        snprintf(text, sizeof text, "%s,manta.instance=%s-%" PRIu64, own, h->config.cluster, i->number);
    put(h, &line, ",\"labels\":", text);
    put(h, &line, ",\"zone\":", i->zone);
    HEAD_TRY(h, mt_buf_printf(&line, ",\"spot\":%s", type->is_spot ? "true" : "false"));
    HEAD_TRY(h, mt_buf_printf(&line, ",\"resources\":{"));
    for (size_t r = 0; r < type->n_resources; r++) {
        bool is_bytes = strcmp(type->resources[r]->name, "memory") == 0;
        put(h, &line, r ? "," : "", type->resources[r]->name);
        if (is_bytes)
            HEAD_TRY(h, mt_buf_printf(&line, ":%" PRId64, type->resources[r]->milli));
        else
            HEAD_TRY(h, mt_buf_printf(&line, ":%" PRId64 ".%03" PRId64, type->resources[r]->milli / 1000,
                                      type->resources[r]->milli % 1000));
    }
    HEAD_TRY(h, mt_buf_printf(&line, type->n_resources ? "}" : "},\"learn\":true"));
    HEAD_TRY(h, mt_buf_printf(&line, ",\"boot_s\":%" PRIu64 ",\"more\":%u", type->boot_ms / 1000, more));
    put_settings(h, &line, type->settings, type->n_settings);
    HEAD_TRY(h, mt_buf_printf(&line, "}"));
    struct head_ticket ticket = head_tickets_of_instance(h, i->number);
    send(h, HEAD_PROVIDE_LAUNCH, i->number, &line, &ticket);
}

static void terminate(struct head *h, const struct scl_instance *i)
{
    mt_buf line = {0};
    char   id[HEAD_CLUSTER_SIZE + 32];
    snprintf(id, sizeof id, "%s-%" PRIu64, h->config.cluster, i->number);
    HEAD_TRY(h, mt_buf_printf(&line, "{\"op\":\"terminate\",\"number\":%" PRIu64, i->number));
    put(h, &line, ",\"id\":", id);
    put(h, &line, ",\"handle\":", i->handle);
    HEAD_TRY(h, mt_buf_printf(&line, "}"));
    send(h, HEAD_PROVIDE_TERMINATE, i->number, &line, NULL);
}

static void list(struct head *h, uint64_t sequence)
{
    mt_buf line = {0};
    HEAD_TRY(h, mt_buf_printf(&line, "{\"op\":\"list\",\"number\":%" PRIu64 "}", sequence));
    send(h, HEAD_PROVIDE_LIST, sequence, &line, NULL);
}

/* ---- records ---- */

static void store_next(struct head *h)
{
    Manta__Store__ScaleRecord record = MANTA__STORE__SCALE_RECORD__INIT;
    record.next_number = h->scale.stored_next = scl_next_number(h->scale.core);
    head_record_change(h, HEAD_TABLE_SCALE, "next", 4, &record.base);
}

static void store(struct head *h, const struct scl_instance *i)
{
    Manta__Store__ScaleRecord   record = MANTA__STORE__SCALE_RECORD__INIT;
    Manta__Store__ScaleInstance instance = MANTA__STORE__SCALE_INSTANCE__INIT;
    uint8_t                     key[9] = {'i'};
    for (int b = 0; b < 8; b++)
        key[1 + b] = (uint8_t)(i->number >> (56 - 8 * b));
    instance.number = i->number;
    instance.type = (char *)i->type;
    instance.state = i->state;
    instance.node = i->node;
    instance.handle = (char *)i->handle;
    instance.why = (char *)i->why;
    instance.zone = (char *)i->zone;
    record.instance = &instance;
    if (scl_next_number(h->scale.core) != h->scale.stored_next)
        store_next(h);
    head_record_change(h, HEAD_TABLE_SCALE, key, sizeof key, i->state == SCL_GONE ? NULL : &record.base);
    if (i->state == SCL_STOPPING || i->state == SCL_GONE)
        HEAD_TRY(h, mt_vec_push(&h->scale.ended, i->number));
}

void head_scale_shut_out(struct head *h)
{
    for (size_t i = 0; i < h->scale.ended.count; i++) {
        uint64_t member = head_tickets_end_instance(h, h->scale.ended.data[i]);
        if (member)
            head_attached_shut_out(h, member, "it was given back");
    }
    h->scale.ended.count = 0;
}

static void drain(struct head *h, const struct scl_action *a)
{
    struct node *n = head_nodes_find(h, a->instance.node);
    if (!n || n->place.state == POLICY_DEAD || n->drain.is_on)
        return;
    h->count.scale_drained++;
    head_drain_begin(h, n, a->limit_ms < MT_DRAIN_MS_MAX ? a->limit_ms : MT_DRAIN_MS_MAX, a->instance.why);
}

static void carry_out(struct head *h, const struct scl_action *a)
{
    switch (a->kind) {
    case SCL_ACT_STORE: store(h, &a->instance); break;
    case SCL_ACT_LAUNCH: launch(h, &a->instance, a->more); break;
    case SCL_ACT_DRAIN: drain(h, a); break;
    case SCL_ACT_TERMINATE: terminate(h, &a->instance); break;
    case SCL_ACT_LIST: list(h, a->sequence); break;
    }
}

void head_scale_step(struct head *h, struct scl_event *event)
{
    struct scl_actions *out = &h->scale.actions;
    event->now_ms = h->now_ms;
    event->kinds = (const char *const *)h->kinds.data;
    out->list.count = 0;
    HEAD_TRY(h, scl_step(h->scale.core, event, out));
    for (size_t i = 0; i < out->list.count && h->broken.code == 0; i++)
        carry_out(h, &out->list.data[i]);
}

void head_scale_provided(struct head *h, const struct head_provided *a)
{
    struct scl_event event = {0};
    if (!h->scale.core)
        return;
    switch (a->op) {
    case HEAD_PROVIDE_LIST:
        event.kind = SCL_EV_LISTED;
        event.listed.sequence = a->number;
        event.listed.is_good = a->outcome == SCL_DONE;
        event.listed.text = a->text && a->text[0] ? a->text : "it did not answer in time";
        event.listed.items = a->listed;
        event.listed.count = a->count;
        break;
    case HEAD_PROVIDE_LAUNCH:
    case HEAD_PROVIDE_TERMINATE:
        event.kind = a->op == HEAD_PROVIDE_LAUNCH ? SCL_EV_LAUNCHED : SCL_EV_TERMINATED;
        event.answer.instance = a->number;
        event.answer.outcome = (enum scl_outcome)a->outcome;
        event.answer.handle = a->handle;
        event.answer.text = a->text;
        break;
    default: return;
    }
    head_scale_step(h, &event);
    head_scale_shut_out(h);
}
