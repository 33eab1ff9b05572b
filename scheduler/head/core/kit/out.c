/* SPDX-License-Identifier: Apache-2.0
 *
 * out.c - actions, and the output commit: what depends on a change leaves only after the store has it.
 *
 * Owns:    the batches under way and the actions that wait behind each.
 * Always:  sends on one stream leave in the order they were made; a stream's `held` counts those that wait.
 *
 *   after_store     --> held of this step --head_out_end--> behind the newest batch --STORED--> out
 *                                              '--no batch under way--> out
 *   not after_store --> out (behind held ones of the same stream, if there are any)
 */
#include "scheduler/head/core/kit/kit.h"

#include "core/base/plant.h"

/* ---- counted bytes ---- */

struct head_bytes *head_bytes_pack(const ProtobufCMessage *message)
{
    size_t             size = protobuf_c_message_get_packed_size(message);
    struct head_bytes *bytes = malloc(sizeof *bytes + size);
    if (!bytes)
        return NULL;
    atomic_init(&bytes->refs, 1);
    bytes->size = protobuf_c_message_pack(message, bytes->data);
    return bytes;
}

static struct head_bytes *bytes_copy(const void *data, size_t size)
{
    struct head_bytes *bytes = malloc(sizeof *bytes + size);
    if (!bytes)
        return NULL;
    atomic_init(&bytes->refs, 1);
    bytes->size = size;
    if (size > 0)
        memcpy(bytes->data, data, size);
    return bytes;
}

void head_bytes_unref(struct head_bytes *bytes)
{
    if (bytes && atomic_fetch_sub(&bytes->refs, 1) == 1)
        free(bytes);
}

void head_records_free(struct head_record *records, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(records[i].key);
        free(records[i].value);
    }
    free(records);
}

static void action_fini(struct head_action *action)
{
    switch (action->kind) {
    case HEAD_ACT_SEND: head_bytes_unref(action->send.bytes); break;
    case HEAD_ACT_REPLY: head_bytes_unref(action->reply.bytes); break;
    case HEAD_ACT_LOG_APPEND: head_bytes_unref(action->log_append.bytes); break;
    case HEAD_ACT_PROVIDE: head_bytes_unref(action->provide.line); break;
    case HEAD_ACT_TOKENS: free(action->tokens.items); break;
    case HEAD_ACT_STORE:
        if (action->store.records)
            head_records_free(action->store.records, action->store.count);
        break;
    case HEAD_ACT_CLOSE:
    case HEAD_ACT_REFUSE:
    case HEAD_ACT_LOG_DROP:
    case HEAD_ACT_JOB_ENDED:
    case HEAD_ACT_BLOB_DROP:
    case HEAD_ACT_REVOKED:
    case HEAD_ACT_EXIT: break;
    }
}

void head_actions_clear(struct head_actions *actions)
{
    for (size_t i = 0; i < actions->count; i++)
        action_fini(&actions->items[i]);
    actions->count = 0;
}

void head_actions_fini(struct head_actions *actions)
{
    head_actions_clear(actions);
    free(actions->items);
    memset(actions, 0, sizeof *actions);
}

/* ---- placing actions ---- */

static bool actions_push(struct head *h, struct head_actions *to, struct head_action *take_action)
{
    if (to->count == to->capacity) {
        size_t              capacity = to->capacity ? to->capacity * 2 : 16;
        struct head_action *items = realloc(to->items, capacity * sizeof *items);
        if (!items) {
            action_fini(take_action);
            head_broken(h, mt_error(MT_ENOMEM, 0, "grow actions"));
            return false;
        }
        to->items = items;
        to->capacity = capacity;
    }
    to->items[to->count++] = *take_action;
    return true;
}

/* NULL: it goes to none, or the stream has ended since. */
static struct stream *stream_of(struct head *h, const struct head_action *action)
{
    if (action->kind == HEAD_ACT_SEND)
        return mt_map_ptr(&h->streams, mt_map_key(action->send.stream));
    return action->kind == HEAD_ACT_CLOSE ? mt_map_ptr(&h->streams, mt_map_key(action->close.stream)) : NULL;
}

static void push(struct head *h, struct head_action *take_action, bool after_store)
{
    struct stream *s = stream_of(h, take_action);
    if ((!after_store && (!s || s->held == 0)) || MT_PLANT(MT_PLANT_EARLY_ACK)) {
        (void)actions_push(h, h->out, take_action);
        return;
    }
    mt_status st = mt_vec_push(&h->held, *take_action);
    if (st.code != 0) {
        action_fini(take_action);
        head_broken(h, st);
    } else if (s) {
        s->held++;
    }
}

static void let_go(struct head *h, struct head_action *action)
{
    struct stream *s = stream_of(h, action);
    if (s) {
        MT_ASSERT(s->held > 0);
        s->held--;
    }
    (void)actions_push(h, h->out, action);
}

/* ---- a step ---- */

void head_out_begin(struct head *h, struct head_actions *out)
{
    h->out = out;
    h->broken = mt_ok();
}

static void batch_begin(struct head *h)
{
    struct batch *batch = calloc(1, sizeof *batch);
    if (!batch || mt_vec_push(&h->batches, batch).code != 0) {
        free(batch);
        head_broken(h, mt_error(MT_ENOMEM, 0, "make a batch"));
        return;
    }
    batch->token = ++h->next_token;
    struct head_action action = {.kind = HEAD_ACT_STORE, .store = {batch->token, h->changes.data, h->changes.count}};
    memset(&h->changes, 0, sizeof h->changes);
    (void)actions_push(h, h->out, &action);
}

void head_out_end(struct head *h)
{
    if (h->changes.count > 0)
        batch_begin(h);
    if (h->broken.code != 0)
        return;
    if (h->batches.count == 0) {
        for (size_t i = 0; i < h->held.count; i++)
            let_go(h, &h->held.data[i]);
    } else {
        struct batch *last = h->batches.data[h->batches.count - 1];
        for (size_t i = 0; i < h->held.count; i++) {
            mt_status st = mt_vec_push(&last->held, h->held.data[i]);
            if (st.code != 0) {
                action_fini(&h->held.data[i]);
                head_broken(h, st);
            }
        }
    }
    h->held.count = 0;
}

void head_out_release(struct head *h, uint64_t token)
{
    if (h->batches.count == 0 || h->batches.data[0]->token != token) {
        head_broken(h, mt_error(MT_EINTERNAL, 0, "the store confirmed batches out of order"));
        return;
    }
    struct batch *batch = h->batches.data[0];
    mt_vec_remove(&h->batches, 0);
    for (size_t i = 0; i < batch->held.count; i++)
        let_go(h, &batch->held.data[i]);
    mt_vec_fini(&batch->held);
    free(batch);
}

void head_out_fini(struct head *h)
{
    for (size_t i = 0; i < h->batches.count; i++) {
        struct batch *batch = h->batches.data[i];
        for (size_t j = 0; j < batch->held.count; j++)
            action_fini(&batch->held.data[j]);
        mt_vec_fini(&batch->held);
        free(batch);
    }
    mt_vec_fini(&h->batches);
    for (size_t i = 0; i < h->held.count; i++)
        action_fini(&h->held.data[i]);
    mt_vec_fini(&h->held);
    head_records_free(h->changes.data, h->changes.count);
    memset(&h->changes, 0, sizeof h->changes);
}

/* ---- kinds of actions ---- */

static void send_bytes(struct head *h, struct stream *s, struct head_bytes *take_bytes, bool after_store)
{
    struct head_action action = {.kind = HEAD_ACT_SEND, .send = {s->number, take_bytes, s->reads_more}};
    if (!take_bytes)
        head_broken(h, mt_error(MT_ENOMEM, 0, "pack a message"));
    else
        push(h, &action, after_store);
}

void head_out_send(struct head *h, struct stream *s, const to_node *message, bool after_store)
{
    if (s)
        send_bytes(h, s, head_bytes_pack(&message->base), after_store);
}

void head_out_send_bytes(struct head *h, struct stream *s, struct head_bytes *bytes)
{
    atomic_fetch_add(&bytes->refs, 1);
    send_bytes(h, s, bytes, false);
}

void head_out_close(struct head *h, struct stream *s)
{
    struct head_action action = {.kind = HEAD_ACT_CLOSE, .close = {s->number}};
    push(h, &action, false);
}

void head_out_reply(struct head *h, uint64_t call, enum head_method method, const ProtobufCMessage *reply)
{
    struct head_action action = {.kind = HEAD_ACT_REPLY, .reply = {call, method, head_bytes_pack(reply)}};
    if (!action.reply.bytes)
        head_broken(h, mt_error(MT_ENOMEM, 0, "pack a reply"));
    else
        push(h, &action, true);
}

void head_out_refuse(struct head *h, uint64_t call, mt_status st)
{
    struct head_action action = {.kind = HEAD_ACT_REFUSE, .refuse = {call, st}};
    push(h, &action, false);
}

void head_out_log_append(struct head *h, struct job *job, const uint8_t *text, size_t size)
{
    struct head_action action = {.kind = HEAD_ACT_LOG_APPEND,
                                 .log_append = {.offset = job->log_size, .bytes = bytes_copy(text, size)}};
    if (!action.log_append.bytes) {
        head_broken(h, mt_error(MT_ENOMEM, 0, "copy a piece of log"));
        return;
    }
    snprintf(action.log_append.job, sizeof action.log_append.job, "%s", job->spec->id);
    job->log_size += size;
    push(h, &action, false);
}

void head_out_job(struct head *h, enum head_action_kind kind, const char *job)
{
    struct head_action action = {.kind = kind};
    snprintf(action.job.id, sizeof action.job.id, "%s", job);
    push(h, &action, true);
}

void head_out_blob_drop(struct head *h, const struct blob *blob)
{
    struct head_action action = {.kind = HEAD_ACT_BLOB_DROP};
    memcpy(action.blob_drop.sha256, blob->sha256, HEAD_SHA_SIZE);
    push(h, &action, true);
}

void head_out_revoked(struct head *h, uint64_t id, uint64_t until_ms)
{
    struct head_action action = {.kind = HEAD_ACT_REVOKED, .revoked = {id, until_ms}};
    push(h, &action, true);
}

void head_out_tokens(struct head *h, struct head_token *take_items, size_t count)
{
    struct head_action action = {.kind = HEAD_ACT_TOKENS, .tokens = {take_items, count}};
    push(h, &action, true);
}

void head_out_exit(struct head *h, mt_status st, bool after_store)
{
    struct head_action action = {.kind = HEAD_ACT_EXIT, .exit = {st}};
    push(h, &action, after_store);
}

void head_out_provide(struct head *h, enum head_provide_op op, uint64_t number, uint32_t limit_ms, mt_view line,
                      const struct head_ticket *ticket)
{
    struct head_action action = {.kind = HEAD_ACT_PROVIDE, .provide = {.op = op, .number = number, .limit_ms = limit_ms}};
    action.provide.line = line.data ? bytes_copy(line.data, line.size) : NULL;
    if (ticket)
        action.provide.ticket = *ticket;
    if (line.data && !action.provide.line) {
        head_broken(h, mt_error(MT_ENOMEM, 0, "copy an order to the provider"));
        return;
    }
    push(h, &action, true);
}
