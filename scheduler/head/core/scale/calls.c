/* SPDX-License-Identifier: Apache-2.0
 *
 * calls.c - what clients ask of the scaler: a cluster file, its end, requests for room, and what is and why.
 */
#include "scheduler/head/core/calls/calls.h"
#include "scheduler/head/core/scale/private.h"

#include "core/text/labels.h"

struct rows { /* of a reply */
    struct head *h;
    MT_VEC(Manta__V1__ScaleRow *) list;
    size_t size;
};

static void add(void *user, const char *what, const char *text)
{
    struct rows         *rows = user;
    Manta__V1__ScaleRow *row = malloc(sizeof *row);
    rows->size += strlen(what) + strlen(text) + 16;
    if (!row || rows->size > MT_HEAD_LIST_BYTES_MAX) {
        free(row);
        return;
    }
    manta__v1__scale_row__init(row);
    row->what = head_strdup(rows->h, what);
    row->text = head_strdup(rows->h, text);
    HEAD_TRY(rows->h, mt_vec_push(&rows->list, row));
}

static void rows_fini(struct rows *rows)
{
    for (size_t i = 0; i < rows->list.count; i++) {
        free(rows->list.data[i]->what);
        free(rows->list.data[i]->text);
        free(rows->list.data[i]);
    }
    mt_vec_fini(&rows->list);
}

/* ---- up and down ---- */

static const Manta__V1__ScaleType *find(const Manta__V1__ScaleConfig *c, const char *name)
{
    for (size_t t = 0; c && t < c->n_types; t++)
        if (strcmp(c->types[t]->name, name) == 0)
            return c->types[t];
    return NULL;
}

static bool is_same(const ProtobufCMessage *a, const ProtobufCMessage *b)
{
    size_t   size = protobuf_c_message_get_packed_size(a);
    uint8_t *bytes = size == protobuf_c_message_get_packed_size(b) ? malloc(2 * size + 1) : NULL;
    bool     is = false;
    if (bytes) {
        protobuf_c_message_pack(a, bytes);
        protobuf_c_message_pack(b, bytes + size);
        is = memcmp(bytes, bytes + size, size) == 0;
    }
    free(bytes);
    return is;
}

/* What the new file changes, a row for each type that is not as it was. */
static void say_changes(const struct head *h, const Manta__V1__ScaleConfig *to, struct rows *rows)
{
    const Manta__V1__ScaleConfig *was = h->scale.config;
    char                          text[160];
    for (size_t t = 0; t < to->n_types; t++) {
        const Manta__V1__ScaleType *now = to->types[t], *before = find(was, now->name);
        if (before && is_same(&before->base, &now->base))
            continue;
        snprintf(text, sizeof text, "%s: %u to %u nodes%s", before ? "changed" : "new", now->min, now->max,
                 before ? "; nodes that run keep what they have" : "");
        add(rows, now->name, text);
    }
    for (size_t t = 0; was && t < was->n_types; t++)
        if (!find(to, was->types[t]->name))
            add(rows, was->types[t]->name, "removed: its nodes leave when they are idle");
}

static bool has_instances(const struct head *h)
{
    return h->scale.core && scl_instances_each(h->scale.core, NULL, NULL) > 0;
}

static int32_t up(struct head *h, const Manta__V1__ScaleRequest *r, struct rows *rows, char *text, size_t size)
{
    const Manta__V1__ScaleConfig *was = h->scale.config;
    if (!r->config) {
        snprintf(text, size, "the request has no cluster file");
        return MT_EINVAL;
    }
    if (!head_has_room(h, protobuf_c_message_get_packed_size(&r->config->base))) {
        snprintf(text, size, "%s", head_room_refusal(h).what);
        return head_room_refusal(h).code;
    }
    if (was && strcmp(was->provider, r->config->provider) != 0 && has_instances(h)) {
        snprintf(text, size, "provider: is %.60s, and nodes of it run: manta down first", was->provider);
        return MT_EINVAL;
    }
    head_scale_keep_learnt(h, r->config);
    say_changes(h, r->config, rows);
    if (r->is_dry) { /* read as it would be, into nothing */
        struct head probe = {.kinds = h->kinds, .now_ms = h->now_ms};
        mt_status   st = head_scale_configure(&probe, r->config, false, text, size);
        h->kinds.data = probe.kinds.data; /* names of resources stay known */
        h->kinds.count = probe.kinds.count;
        h->kinds.capacity = probe.kinds.capacity;
        head_scale_fini(&probe);
        return st.code;
    }
    mt_status st = head_scale_configure(h, r->config, true, text, size);
    if (st.code)
        return st.code;
    scl_load_next(h->scale.core, h->scale.stored_next);
    head_scale_open(h);
    return MT_OK;
}

static int32_t down(struct head *h, char *text, size_t size)
{
    char                   why[HEAD_TEXT_SIZE];
    Manta__V1__ScaleConfig config = MANTA__V1__SCALE_CONFIG__INIT;
    if (!h->scale.config)
        return MT_OK; /* it is down */
    config = *h->scale.config;
    config.is_down = true;
    mt_status st = head_scale_configure(h, &config, true, why, sizeof why);
    if (st.code)
        snprintf(text, size, "%s", why);
    return st.code;
}

/* ---- requests for room ---- */

static int32_t want(struct head *h, const Manta__V1__ScaleWant *w, char *text, size_t size)
{
    struct policy_request r = {0};
    if (!w || !w->name[0] || strlen(w->name) >= MT_SCL_NAME_SIZE) {
        snprintf(text, size, "a request has a name, of %d letters at most", MT_SCL_NAME_SIZE - 1);
        return MT_EINVAL;
    }
    if (!h->scale.config || h->scale.config->is_down) {
        snprintf(text, size, "no nodes can be started here: manta up FILE says which could be");
        return MT_ENOENT;
    }
    if (w->count && mt_selector_check(w->labels, text, size).code)
        return MT_EINVAL;
    if (w->count && head_resources_to_request(h, w->resources, w->n_resources, &r, text, size).code)
        return MT_EINVAL;
    if (w->count && !head_scale_want_find(h, w->name) && h->scale.wants.count >= MT_SCL_REQUESTS_MAX) {
        snprintf(text, size, "there are %d requests already", MT_SCL_REQUESTS_MAX);
        return MT_EAGAIN;
    }
    head_scale_want_put(h, w);
    return MT_OK;
}

/* ---- the call ---- */

static int32_t answer(struct head *h, const Manta__V1__ScaleRequest *r, struct rows *rows, char *text, size_t size)
{
    const struct scl *core = h->scale.core;
    switch (r->op) {
    case HEAD_SCALE_UP: return up(h, r, rows, text, size);
    case HEAD_SCALE_DOWN: return down(h, text, size);
    case HEAD_SCALE_WANT: return want(h, r->want, text, size);
    case HEAD_SCALE_STATUS:
        if (core)
            scl_status_each(core, (const char *const *)h->kinds.data, add, rows);
        return MT_OK;
    case HEAD_SCALE_EXPLAIN:
        if (core)
            scl_explain_each(core, (const char *const *)h->kinds.data, add, rows);
        return MT_OK;
    case HEAD_SCALE_HISTORY:
        if (core)
            scl_history_each(core, add, rows);
        return MT_OK;
    default: snprintf(text, size, "this head does not know what is asked: use the same release"); return MT_EVERSION;
    }
}

void head_scale_call(struct head *h, const struct head_event *event)
{
    Manta__V1__ScaleReply    reply = MANTA__V1__SCALE_REPLY__INIT;
    Manta__V1__ScaleRequest *request = manta__v1__scale_request__unpack(NULL, event->call.size, event->call.bytes);
    struct rows              rows = {.h = h};
    char                     text[HEAD_TEXT_SIZE] = "";
    if (!request) {
        h->count.malformed++;
        head_out_refuse(h, event->call.number, mt_error(MT_EPROTO, 0, "the request can't be read"));
        return;
    }
    bool is_look = request->op == HEAD_SCALE_STATUS || request->op == HEAD_SCALE_EXPLAIN || request->op == HEAD_SCALE_HISTORY;
    if (!head_calls_may(h, event, is_look ? MT_MAY_READ : MT_MAY_ADMIN)) {
        manta__v1__scale_request__free_unpacked(request, NULL);
        return;
    }
    if (h->room == HEAD_ROOM_NONE || (h->room == HEAD_ROOM_AWAY && h->batches.count > 0)) { /* the reply would wait for the store */
        h->count.no_room++;
        head_out_refuse(h, event->call.number, head_room_refusal(h));
    } else {
        reply.code = answer(h, request, &rows, text, sizeof text);
        reply.text = text;
        reply.rows = rows.list.data;
        reply.n_rows = rows.list.count;
        reply.instances = h->scale.core ? (uint32_t)scl_instances_each(h->scale.core, NULL, NULL) : 0;
        head_out_reply(h, event->call.number, HEAD_SCALE, &reply.base);
    }
    rows_fini(&rows);
    manta__v1__scale_request__free_unpacked(request, NULL);
}
