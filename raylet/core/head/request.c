/* SPDX-License-Identifier: Apache-2.0
 *
 * request.c - a request of a process, CTL_REQUEST: to whom it goes.
 *
 * Owns: nothing. Thread: the logic loop only.
 */
#include "raylet/core/head/head.h"
#include "raylet/core/head/private.h"
#include "raylet/core/links/links.h"

void rlt_request(struct rlt *r, struct rlt_proc *p, const struct lane_record *record, const uint8_t *payload)
{
    struct ctl_request request;
    struct ctl_name    name;
    memcpy(&request, payload, sizeof request);
    if (request.op == CTL_OP_NODES) {
        rlt_nodes_reply(r, p, record->id, request.after);
    } else if (request.op == CTL_OP_NODES_NEWS) {
        rlt_news_ask(r, p, record->id, request.after);
    } else if (request.op == CTL_OP_ACTOR_NEW || request.op == CTL_OP_ACTOR) {
        rlt_detach(r, p, record, payload, -1);
    } else if (request.op == CTL_OP_WISH) {
        rlt_wish(r, p, record, payload);
    } else if (request.op == CTL_OP_WISH_LOOK) {
        rlt_wish_look(r, p, record, payload);
    } else if (request.op == CTL_OP_GROUP) {
        rlt_group_ask(r, p, record, payload);
    } else if (request.op < CTL_OP_NAME_PUT || request.op > CTL_OP_NAME_DELETE ||
               record->length < LANE_RECORD_SIZE + sizeof request + sizeof name) {
        rlt_down_reply(r->out, p->conn, record->id, MT_EINVAL, "no such request");
    } else {
        memcpy(&name, payload + sizeof request, sizeof name);
        rlt_name_request(r, p, record->id, request.op, &name);
    }
}
