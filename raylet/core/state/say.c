/* SPDX-License-Identifier: Apache-2.0
 *
 * say.c - answers to processes, messages to the head, and the word that the raylet ends.
 *
 * Owns: nothing. Thread: the logic loop only.
 */
#include "raylet/core/state/state.h"

void rlt_leave(struct rlt *r, enum mt_code code, const char *why)
{
    if (r->is_stopping)
        return;
    r->is_stopping = true;
    struct rlt_action *a = rlt_act(r->out, RLT_A_EXIT);
    a->exit.code = code;
    a->exit.why = rlt_keep(r->out, why ? why : "asked to", strlen(why ? why : "asked to") + 1);
}

void rlt_shut_down(struct rlt *r, const char *why)
{
    rlt_leave(r, MT_OK, why);
}

void rlt_reply_bytes(struct rlt *r, uint64_t conn, mt_id id, const void *bytes, size_t size)
{
    struct ctl_reply      reply = {.code = MT_OK, .size = (uint32_t)size};
    struct rlt_a_sw_down *a = &rlt_act(r->out, RLT_A_SW_DOWN)->sw_down;
    uint8_t              *payload = rlt_keep(r->out, NULL, sizeof reply + size);
    memcpy(payload, &reply, sizeof reply);
    memcpy(payload + sizeof reply, bytes, size);
    a->conn = conn;
    a->record = (struct lane_record){.length = (uint32_t)(LANE_RECORD_SIZE + sizeof reply + size), .kind = CTL_REPLY, .id = id};
    a->payload = payload;
}

char *rlt_keep_text(struct rlt *r, const char *text)
{
    return rlt_keep(r->out, text, strlen(text) + 1);
}

Manta__V1__NodeToHead *rlt_to_head(struct rlt *r, Manta__V1__NodeToHead__KindCase kind)
{
    static const Manta__V1__NodeToHead empty = MANTA__V1__NODE_TO_HEAD__INIT;
    Manta__V1__NodeToHead             *m = rlt_keep(r->out, &empty, sizeof empty);
    m->kind_case = kind;
    return m;
}

void rlt_head_send(struct rlt *r, Manta__V1__NodeToHead *message)
{
    if (r->head.is_up)
        rlt_act(r->out, RLT_A_HEAD_SEND)->head_send.message = message;
}

Manta__V1__Resource **rlt_resources_make(struct rlt *r, const struct ctl_resource *from, uint32_t count)
{
    static const Manta__V1__Resource empty = MANTA__V1__RESOURCE__INIT;
    Manta__V1__Resource            **out = rlt_keep(r->out, NULL, (count + 1) * sizeof *out);
    for (uint32_t i = 0; i < count; i++) {
        out[i] = rlt_keep(r->out, &empty, sizeof empty);
        out[i]->name = rlt_keep_text(r, from[i].name);
        out[i]->milli = from[i].milli;
    }
    return out;
}
