/* SPDX-License-Identifier: Apache-2.0
 *
 * pull.c - both ends of an object's way between nodes.
 *
 * Owns:    nothing; the value's memory is the caller's.
 * Thread:  any, one at a time per struct.
 * Always:  received <= asked <= ref.size, and at most OS_PULL_AHEAD chunks lie between (pull_holds); the source reads no
 * request while it answers one, so what a puller makes it hold is one struct.
 *
 *   source: HELLO --token right--> REQUEST --whole--> ASKED --answer--> REPLY --sent--> REQUEST
 */
#include "objectstore/server/pull.h"

#include "core/base/limits/object.h"
#include "core/base/machine.h"
#include "core/base/plant.h"
#include "objectstore/layout/sum.h"

#include <string.h>

/* --- the puller
 * ------------------------------------------------------------------------------------------------- */

void os_pull_start(struct os_pull *pull, const struct lane_ref *ref, void *data, int64_t now_ms)
{
    *pull = (struct os_pull){
        .ref = *ref, .data = data, .progress_ms = now_ms, .chunk = MT_OBJECT_CHUNK_BYTES, .patience_ms = MT_OBJECT_FETCH_MS};
}

static uint64_t next_chunk(const struct os_pull *pull, uint64_t from)
{
    return pull->ref.size - from < pull->chunk ? pull->ref.size : from + pull->chunk;
}

static void pull_holds(const struct os_pull *pull)
{
    MT_ASSERT(pull->received <= pull->asked && pull->asked <= pull->ref.size);
    MT_ASSERT(pull->good <= pull->received);
    MT_ASSERT(pull->serial_asked - pull->serial_got <= OS_PULL_AHEAD);
}

void os_pull_go_on(struct os_pull *pull, uint32_t serial)
{
    pull->serial_first = pull->serial_asked = pull->serial_got = serial;
}

void os_pull_resume(struct os_pull *pull, uint64_t have)
{
    pull->asked = pull->received = pull->good = pull->chunk_end = have;
    pull_holds(pull);
}

bool os_pull_request(struct os_pull *pull, struct os_wire_request *out)
{
    bool all = pull->asked == pull->ref.size && pull->serial_asked != pull->serial_first; /* an empty value is asked for once */
    if (all || pull->serial_asked - pull->serial_got >= OS_PULL_AHEAD)
        return false;
    uint64_t end = next_chunk(pull, pull->asked);
    *out = (struct os_wire_request){
        .magic = OS_WIRE_MAGIC, .serial = pull->serial_asked++, .ref = pull->ref, .offset = pull->asked, .size = end - pull->asked};
    pull->asked = end;
    pull_holds(pull);
    return true;
}

void os_pull_room(struct os_pull *pull, void **out_at, size_t *out_size)
{
    if (pull->in_body) {
        *out_at = pull->data + pull->received;
        *out_size = pull->chunk_end - pull->received;
    } else {
        *out_at = (uint8_t *)&pull->head + pull->head_have;
        *out_size = sizeof pull->head - pull->head_have;
    }
}

static uint64_t rate_of(uint64_t bytes, int64_t took_ms)
{
    return bytes * 1000 / (uint64_t)took_ms;
}

/* Whether the source should be left: see os_pull_received. Not for what is over within another look. */
static bool is_slow(struct os_pull *pull, int64_t now_ms)
{
    const struct os_wire_reply *head = &pull->head;
    struct os_pace              was = pull->pace;
    uint64_t                    there = head->offset + head->size + (uint64_t)(head->flags >> OS_WIRE_AHEAD_SHIFT) * head->size;
    there = there < pull->ref.size ? there : pull->ref.size;
    int64_t took_ms = now_ms - was.since_ms;
    if (was.since_ms && took_ms < (int64_t)pull->slow_ms)
        return false;
    pull->pace = (struct os_pace){.since_ms = now_ms ? now_ms : 1, .good = pull->good, .there = there, .best = was.best};
    if (!was.since_ms)
        return false;
    uint64_t mine = rate_of(pull->good - was.good, took_ms), its = rate_of(there - was.there, took_ms);
    pull->pace.best = its > was.best ? its : was.best;
    pull->pace.best = mine > pull->pace.best ? mine : pull->pace.best;
    bool is_behind = there - pull->good > OS_PULL_BEHIND * head->size;
    bool is_over_soon = pull->ref.size - pull->good <= pull->good - was.good;
    bool is_upstream = 2 * mine >= pull->pace.best && !MT_PLANT(MT_PLANT_SLOW_UPSTREAM);
    return is_behind && !is_over_soon && !is_upstream && !MT_PLANT(MT_PLANT_SLOW_STAYS);
}

/* A reply's head is whole. */
static mt_status pull_head(struct os_pull *pull, int64_t now_ms)
{
    const struct os_wire_reply *head = &pull->head;
    uint64_t                    end = next_chunk(pull, pull->received);
    if (head->magic != OS_WIRE_MAGIC || head->serial != pull->serial_got || pull->serial_got == pull->serial_asked)
        return mt_error(MT_EPROTO, 0, "pull: not a reply to what was asked");
    if (head->code < 0 || head->code >= OS_WIRE_CODES)
        return mt_error(MT_EPROTO, 0, "pull: no such code");
    pull->elsewhere = head->code == MT_EAGAIN && head->flags & OS_WIRE_ELSEWHERE ? (uint32_t)head->offset : 0;
    if (head->code != MT_OK)
        return mt_error(head->code, 0, "pull: refused by the source");
    if (head->offset != pull->received || head->size != end - pull->received)
        return mt_error(MT_EPROTO, 0, "pull: another chunk than what was asked");
    if (pull->slow_ms && is_slow(pull, now_ms))
        return mt_error(MT_ETIMEDOUT, 0, "pull: the node that sends it on is slow");
    pull->chunk_end = end;
    pull->in_body = true;
    return mt_ok();
}

mt_status os_pull_received(struct os_pull *pull, size_t size, int64_t now_ms)
{
    pull->progress_ms = now_ms;
    if (pull->in_body) {
        pull->received += size;
        MT_ASSERT(pull->received <= pull->chunk_end);
    } else {
        pull->head_have += (uint32_t)size;
        MT_ASSERT(pull->head_have <= sizeof pull->head);
        if (pull->head_have < sizeof pull->head)
            return mt_ok();
        MT_TRY(pull_head(pull, now_ms));
    }
    if (pull->received == pull->chunk_end) {
        if (os_sum(pull->data + pull->head.offset, pull->head.size) != pull->head.sum)
            return mt_error(MT_ECORRUPT, 0, "pull: a chunk is not what was sent");
        pull->in_body = false;
        pull->head_have = 0;
        pull->serial_got++;
        pull->good = pull->received;
        pull->done = pull->received == pull->ref.size;
        pull_holds(pull);
    }
    return mt_ok();
}

mt_status os_pull_check(const struct os_pull *pull, int64_t now_ms)
{
    if (now_ms - pull->progress_ms < (int64_t)pull->patience_ms)
        return mt_ok();
    return mt_error(MT_ETIMEDOUT, 0, "pull: nothing came from the source for too long");
}

/* --- the source ----------------------------------------------------------------------------------------------- */

/* The drawing stands above. */

static const char *const serve_names[] = {
    [OS_SERVE_HELLO] = "HELLO", [OS_SERVE_REQUEST] = "REQUEST", [OS_SERVE_ASKED] = "ASKED", [OS_SERVE_REPLY] = "REPLY"};
static const uint32_t          serve_next[] = {[OS_SERVE_HELLO] = MT_STATE(OS_SERVE_REQUEST),
                                               [OS_SERVE_REQUEST] = MT_STATE(OS_SERVE_ASKED),
                                               [OS_SERVE_ASKED] = MT_STATE(OS_SERVE_REPLY),
                                               [OS_SERVE_REPLY] = MT_STATE(OS_SERVE_REQUEST)};
static const struct mt_machine serve_machine = MT_MACHINE("serve", serve_names, serve_next);

static void serve_set_state(struct os_serve *serve, enum os_serve_state next)
{
    MT_TRANSITION(&serve_machine, serve->state, next);
    serve->state = next;
}

void os_serve_start(struct os_serve *serve)
{
    *serve = (struct os_serve){.state = OS_SERVE_HELLO};
}

void os_serve_room(struct os_serve *serve, void **out_at, size_t *out_size)
{
    bool hello = serve->state == OS_SERVE_HELLO;
    *out_at = (hello ? (uint8_t *)&serve->hello : (uint8_t *)&serve->request) + serve->have;
    *out_size = hello                              ? sizeof serve->hello - serve->have
                : serve->state == OS_SERVE_REQUEST ? sizeof serve->request - serve->have
                                                   : 0;
}

static mt_status serve_hello(struct os_serve *serve, const struct io_token *token, uint32_t node, uint32_t epoch)
{
    const struct os_wire_hello *hello = &serve->hello;
    if (!io_token_equal(token, (const char *)hello->token, sizeof hello->token))
        return mt_error(MT_EAUTH, 0, "object socket: wrong token");
    if (hello->magic != OS_WIRE_MAGIC)
        return mt_error(MT_EPROTO, 0, "object socket: no greeting");
    if (!mt_versions_common(mt_release.wire, (struct mt_versions){hello->version_min, hello->version_max}))
        return mt_error(MT_EVERSION, 0, "object socket");
    serve->fenced = hello->to_node != node || (hello->to_epoch != 0 && hello->to_epoch != epoch);
    memset(serve->hello.token, 0, sizeof serve->hello.token);
    serve_set_state(serve, OS_SERVE_REQUEST);
    return mt_ok();
}

static mt_status serve_request(struct os_serve *serve)
{
    const struct os_wire_request *request = &serve->request;
    if (request->magic != OS_WIRE_MAGIC || request->serial != serve->serial || request->size > MT_OBJECT_CHUNK_BYTES_MAX ||
        request->offset > request->ref.size || request->size > request->ref.size - request->offset)
        return mt_error(MT_EPROTO, 0, "object socket: impossible request");
    serve->serial++;
    serve_set_state(serve, OS_SERVE_ASKED);
    if (serve->fenced)
        os_serve_answer(serve, MT_EFENCED, NULL);
    return mt_ok();
}

mt_status os_serve_received(struct os_serve *serve, size_t size, const struct io_token *token, uint32_t node, uint32_t epoch)
{
    bool     hello = serve->state == OS_SERVE_HELLO;
    uint32_t whole = hello ? sizeof serve->hello : sizeof serve->request;
    MT_ASSERT((hello || serve->state == OS_SERVE_REQUEST) && size <= whole - serve->have);
    serve->have += (uint32_t)size;
    if (serve->have < whole)
        return mt_ok();
    serve->have = 0;
    return hello ? serve_hello(serve, token, node, epoch) : serve_request(serve);
}

/* How many more chunks like this one stand here. */
static uint32_t ahead_of(const struct os_wire_request *request, uint64_t have)
{
    uint64_t end = request->offset + request->size, more = request->size && have > end ? (have - end) / request->size : 0;
    return (uint32_t)(more < OS_WIRE_AHEAD_MAX ? more : OS_WIRE_AHEAD_MAX) << OS_WIRE_AHEAD_SHIFT;
}

/* `have`: bytes of the value that stand here. */
static void answer(struct os_serve *serve, int32_t code, const void *value, uint64_t have)
{
    MT_ASSERT(serve->state == OS_SERVE_ASKED);
    const struct os_wire_request *request = &serve->request;
    bool                          good = code == MT_OK;
    serve->reply = (struct os_wire_reply){.magic = OS_WIRE_MAGIC,
                                          .serial = request->serial,
                                          .code = code,
                                          .offset = request->offset,
                                          .size = good ? request->size : 0};
    serve->body = good ? (const uint8_t *)value + request->offset : NULL;
    serve->reply.sum = os_sum(serve->body, serve->reply.size);
    if (good && serve->is_summed) {
        serve->reply.flags = OS_WIRE_SUMMED;
        serve->reply.value_sum = serve->value_sum;
    }
    if (!good && !serve->fenced)
        serve->reply.flags = OS_WIRE_GOES_ON;
    if (code == MT_EAGAIN && serve->elsewhere) {
        serve->reply.flags |= OS_WIRE_ELSEWHERE;
        serve->reply.offset = serve->elsewhere;
    }
    if (good)
        serve->reply.flags |= ahead_of(request, have);
    serve->sent = 0;
    serve_set_state(serve, OS_SERVE_REPLY);
}

void os_serve_answer(struct os_serve *serve, int32_t code, const void *value)
{
    answer(serve, code, value, serve->request.ref.size);
}

bool os_serve_answer_part(struct os_serve *serve, const void *value, uint64_t have)
{
    if (serve->request.offset + serve->request.size > have && !MT_PLANT(MT_PLANT_PART_EARLY))
        return false;
    answer(serve, MT_OK, value, have);
    return true;
}

int os_serve_out(const struct os_serve *serve, struct iovec out[2])
{
    int      count = 0;
    uint64_t head = sizeof serve->reply;
    if (serve->sent < head)
        out[count++] = (struct iovec){(uint8_t *)(uintptr_t)&serve->reply + serve->sent, head - serve->sent};
    uint64_t in_body = serve->sent > head ? serve->sent - head : 0;
    if (in_body < serve->reply.size)
        out[count++] = (struct iovec){(uint8_t *)(uintptr_t)serve->body + in_body, serve->reply.size - in_body};
    return count;
}

bool os_serve_sent(struct os_serve *serve, size_t size)
{
    serve->sent += size;
    if (os_serve_left(serve))
        return true;
    serve_set_state(serve, OS_SERVE_REQUEST);
    return !serve->fenced;
}
