/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_peer.c - a raylet's core against another node, and a head, that send anything; and both ends of an object's transfer.
 *
 * The input is a program of steps: frames with records whose fields are small numbers, and raw bytes.
 */
#include "objectstore/server/pull.h"
#include "objectstore/layout/sum.h"
#include "raylet/core/core.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

enum { STEPS_MAX = 128, STREAMS = 3, RECORDS_MAX = 4, BODY_MAX = 4096 };

struct input {
    const uint8_t *at, *end;
};

static uint64_t take(struct input *in, size_t bytes)
{
    uint64_t x = 0;
    for (size_t i = 0; i < bytes && in->at < in->end; i++)
        x = x << 8 | *in->at++;
    return x;
}

struct raylet {
    struct rlt        *r;
    struct rlt_actions actions;
    uint64_t           now, streams; /* accepted so far: a number is never used again */
};

static void step(struct raylet *f, struct rlt_event e)
{
    e.now = f->now;
    e.random = f->now * 0x9e3779b97f4a7c15u;
    rlt_actions_reset(&f->actions);
    rlt_step(f->r, &e, &f->actions);
    if (rlt_check(f->r))
        abort();
}

/* A run of records as they stand in a frame. */
static size_t take_records(struct input *in, uint8_t *out)
{
    size_t size = 0;
    for (uint64_t i = take(in, 1) % RECORDS_MAX; i > 0; i--) {
        struct lane_record r = {.kind = (uint16_t)take(in, 1), .flags = (uint16_t)take(in, 1), .route = (uint32_t)take(in, 1)};
        uint32_t           body = (uint32_t)take(in, 1);
        r.length = LANE_RECORD_SIZE + body;
        r.sequence = take(in, 1), r.slot = (uint32_t)take(in, 1), r.attempt = (uint32_t)take(in, 1) % 3;
        r.id = mt_id_make(take(in, 1), take(in, 1), 0);
        memcpy(out + size, &r, sizeof r);
        for (uint32_t k = 0; k < body; k++)
            out[size + LANE_RECORD_SIZE + k] = (uint8_t)(k < 96 ? take(in, 1) : 0);
        size += (r.length + 63) & ~(size_t)63;
    }
    return size;
}

static void frame(struct raylet *f, struct input *in)
{
    static _Alignas(8) uint8_t records[RECORDS_MAX * 512];
    Manta__V1__Frame           m = MANTA__V1__FRAME__INIT;
    memset(records, 0, sizeof records);
    m.from_node = 1 + (uint32_t)take(in, 1) % 3, m.from_epoch = (uint32_t)take(in, 1) % 3, m.to_node = (uint32_t)take(in, 1) % 2;
    m.link = take(in, 1) % 4, m.sequence = take(in, 1) % 8, m.acknowledged = take(in, 1) % 8, m.credit = take(in, 2);
    m.records.data = records;
    m.records.len = take_records(in, records);
    if (take(in, 1) % 8 == 0)
        m.records.len = take(in, 1); /* cut anywhere */
    step(f, (struct rlt_event){.kind = RLT_EV_PEER_FRAME, .peer_frame = {.stream = 1 + take(in, 1) % f->streams, .frame = &m}});
}

static void head_says(struct raylet *f, struct input *in)
{
    size_t size = take(in, 1);
    size = size > (size_t)(in->end - in->at) ? (size_t)(in->end - in->at) : size;
    Manta__V1__HeadToNode *m = manta__v1__head_to_node__unpack(NULL, size, in->at);
    in->at += size;
    if (m && m->kind_case != MANTA__V1__HEAD_TO_NODE__KIND__NOT_SET)
        step(f, (struct rlt_event){.kind = RLT_EV_HEAD, .head = {.message = m}});
    if (m)
        manta__v1__head_to_node__free_unpacked(m, NULL);
}

/* The other nodes as the head tells them, so that frames find somebody. */
static void view(struct raylet *f)
{
    Manta__V1__HeadToNode m = MANTA__V1__HEAD_TO_NODE__INIT;
    Manta__V1__View       v = MANTA__V1__VIEW__INIT;
    Manta__V1__Node       nodes[2] = {MANTA__V1__NODE__INIT, MANTA__V1__NODE__INIT}, *list[2] = {&nodes[0], &nodes[1]};
    for (uint32_t i = 0; i < 2; i++) {
        nodes[i].node = 2 + i, nodes[i].epoch = 1, nodes[i].state = 1;
        nodes[i].name = "n", nodes[i].address = "127.0.0.1:9", nodes[i].data_address = "127.0.0.1:8";
    }
    v.version = 1, v.nodes = list, v.n_nodes = 2;
    m.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_VIEW, m.view = &v;
    step(f, (struct rlt_event){.kind = RLT_EV_HEAD, .head = {.message = &m}});
}

static void fuzz_raylet(struct input *in)
{
    struct rlt_config config = {.node = 1,
                                .epoch = 1,
                                .boot = 1,
                                .resource_count = 1,
                                .node_name = "fuzz",
                                .has_head = true,
                                .total = {{.name = "CPU", .milli = 4000}}};
    struct raylet     f = {.r = rlt_new(&config), .now = 1000000000};
    if (!f.r)
        abort();
    step(&f, (struct rlt_event){.kind = RLT_EV_HEAD_UP});
    view(&f);
    while (f.streams < STREAMS)
        step(&f, (struct rlt_event){.kind = RLT_EV_PEER_OPEN, .peer_open = {.stream = ++f.streams}});
    for (int i = 0; i < STEPS_MAX && in->at < in->end; i++) {
        f.now += take(in, 1) * 1000000;
        switch (take(in, 1) % 8) {
        case 0:
            step(&f, (struct rlt_event){.kind = RLT_EV_PEER_CLOSED, .peer_closed = {.stream = 1 + take(in, 1) % f.streams}});
            break;
        case 1: step(&f, (struct rlt_event){.kind = RLT_EV_PEER_OPEN, .peer_open = {.stream = ++f.streams}}); break;
        case 2: step(&f, (struct rlt_event){.kind = RLT_EV_TICK}); break;
        case 3: head_says(&f, in); break;
        default: frame(&f, in); break;
        }
    }
    rlt_actions_fini(&f.actions);
    rlt_free(f.r);
}

/* ---- objects ---- */

static size_t feed(struct input *in, void *at, size_t room)
{
    size_t size = 1 + take(in, 1) % 64;
    size = size > room ? room : size;
    size = size > (size_t)(in->end - in->at) ? (size_t)(in->end - in->at) : size;
    memcpy(at, in->at, size);
    in->at += size;
    return size;
}

static void fuzz_puller(struct input *in)
{
    static const uint8_t zeros[256 * 16];
    struct lane_ref      ref = {.size = 1 + take(in, 1) * 16, .node = 2, .segment = 1};
    struct os_pull       pull;
    uint8_t             *data = malloc(ref.size); /* no byte more: the sanitizer says when it is too little */
    if (!data)
        return;
    os_pull_start(&pull, &ref, data, 0);
    while (in->at < in->end && !pull.done) {
        struct os_wire_request ask;
        void                  *at;
        size_t                 room;
        if (os_pull_request(&pull, &ask) && take(in, 1) % 2) { /* an honest reply now and then, so that bodies follow */
            struct os_wire_reply reply = {.magic = ask.magic, .serial = ask.serial, .offset = ask.offset, .size = ask.size};
            reply.sum = os_sum(zeros, ask.size); /* right for a body of zeros */
            os_pull_room(&pull, &at, &room);
            if (room == sizeof reply) {
                memcpy(at, &reply, sizeof reply);
                if (os_pull_received(&pull, sizeof reply, 1).code)
                    break;
            }
        }
        os_pull_room(&pull, &at, &room);
        if (os_pull_received(&pull, feed(in, at, room), 1).code)
            break;
    }
    free(data);
}

static void fuzz_source(struct input *in)
{
    static const struct io_token token; /* all zero: what greets so is let in */
    static uint8_t               body[BODY_MAX];
    struct os_serve              serve;
    os_serve_start(&serve);
    while (in->at < in->end) {
        void  *at;
        size_t room;
        if (serve.state == OS_SERVE_ASKED)
            os_serve_answer(&serve, serve.request.size <= sizeof body ? 0 : MT_EOBJ_LOST, body);
        while (serve.state == OS_SERVE_REPLY) {
            struct iovec out[2];
            size_t       size = 0;
            for (int i = 0, count = os_serve_out(&serve, out); i < count; i++)
                size += out[i].iov_len;
            if (!os_serve_sent(&serve, size))
                return;
        }
        os_serve_room(&serve, &at, &room);
        if (room == sizeof serve.hello && take(in, 1) % 2) {
            struct os_wire_hello hello = {.magic = OS_WIRE_MAGIC,
                                          .version_max = mt_release.wire.max,
                                          .version_min = mt_release.wire.min,
                                          .from_node = 2,
                                          .to_node = 1,
                                          .to_epoch = 1};
            memcpy(hello.token, token.hex, sizeof hello.token);
            memcpy(at, &hello, sizeof hello);
            if (os_serve_received(&serve, sizeof hello, &token, 1, 1).code)
                return;
        } else if (os_serve_received(&serve, feed(in, at, room), &token, 1, 1).code) {
            return;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    struct input in = {input, input + size};
    switch (take(&in, 1) % 4) {
    case 0: fuzz_puller(&in); break;
    case 1: fuzz_source(&in); break;
    default: fuzz_raylet(&in); break;
    }
    return 0;
}
