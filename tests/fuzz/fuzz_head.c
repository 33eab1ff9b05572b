/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_head.c - the head's core against raylets and clients that send anything, and against a store that holds anything.
 *
 * The input is a program of steps: messages whose fields are small numbers, so that they meet what exists, and raw bytes. A
 * malformed message closes its stream or refuses its call; the invariants hold after every step.
 */
#include "core/base/release.h"
#include "core/proto/manta.pb-c.h"
#include "scheduler/head/core/core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

enum { STEPS_MAX = 128, BYTES_MAX = 4096, STREAMS = 4, BATCHES_MAX = 1024 };

struct fuzz {
    const uint8_t      *at, *end;
    struct head        *head;
    struct head_actions actions;
    uint64_t            now, calls;
    uint64_t            tokens[BATCHES_MAX]; /* of batches under way; the store confirms them in order */
    int                 first, last;
};

static uint64_t take(struct fuzz *f, size_t bytes)
{
    uint64_t x = 0;
    for (size_t i = 0; i < bytes && f->at < f->end; i++)
        x = x << 8 | *f->at++;
    return x;
}

static char *take_text(struct fuzz *f)
{
    static char *const texts[] = {"", "a", "b", "CPU", "RUNNING", "FAILED", "PENDING", "../x", "a/b", "127.0.0.1:1"};
    return texts[take(f, 1) % (sizeof texts / sizeof texts[0])];
}

static void note_batches(struct fuzz *f)
{
    for (size_t i = 0; i < f->actions.count; i++)
        if (f->actions.items[i].kind == HEAD_ACT_STORE && f->last < BATCHES_MAX)
            f->tokens[f->last++] = f->actions.items[i].store.token;
}

static void step(struct fuzz *f, struct head_event e)
{
    e.now_ms = e.wall_ms = f->now;
    head_actions_clear(&f->actions);
    if (head_step(f->head, &e, &f->actions).code)
        abort();
    const char *broken = head_check(f->head);
    if (broken) {
        fprintf(stderr, "%s\n", broken);
        abort();
    }
    note_batches(f);
}

static void packed(struct fuzz *f, struct head_event e, const ProtobufCMessage *m)
{
    static uint8_t bytes[BYTES_MAX];
    if (protobuf_c_message_get_packed_size(m) > sizeof bytes)
        return;
    size_t size = protobuf_c_message_pack(m, bytes);
    if (e.kind == HEAD_EV_CALL) {
        e.call.bytes = bytes;
        e.call.size = size;
    } else {
        e.message.bytes = bytes;
        e.message.size = size;
    }
    step(f, e);
}

static void say(struct fuzz *f, uint64_t stream)
{
    Manta__V1__NodeToHead  m = MANTA__V1__NODE_TO_HEAD__INIT;
    Manta__V1__Register    r = MANTA__V1__REGISTER__INIT;
    Manta__V1__Report      report = MANTA__V1__REPORT__INIT;
    Manta__V1__Want        want = MANTA__V1__WANT__INIT, *wants = &want;
    Manta__V1__Resource    cpu = MANTA__V1__RESOURCE__INIT, *total = &cpu;
    Manta__V1__NameRequest name = MANTA__V1__NAME_REQUEST__INIT;
    Manta__V1__ProcessGone gone = MANTA__V1__PROCESS_GONE__INIT;
    Manta__V1__JobState    job = MANTA__V1__JOB_STATE__INIT;
    cpu.name = take_text(f), cpu.milli = (int64_t)take(f, 2) - 100;
    switch (m.kind_case = (Manta__V1__NodeToHead__KindCase)(1 + take(f, 1) % 5)) {
    case MANTA__V1__NODE_TO_HEAD__KIND_REGISTER:
        m.register_ = &r;
        r.version_min = mt_release.wire.min, r.version_max = r.version_min - 1 + (uint32_t)take(f, 1) % 3;
        r.boot = take(f, 1), r.node = (uint32_t)take(f, 1) % 4, r.epoch = (uint32_t)take(f, 1) % 3;
        r.name = take_text(f), r.address = take_text(f), r.total = &total, r.n_total = 1;
        break;
    case MANTA__V1__NODE_TO_HEAD__KIND_REPORT:
        m.report = &report;
        report.version = take(f, 1), report.free = &total, report.n_free = 1, report.wants = &wants, report.n_wants = 1;
        want.owner = take(f, 1) % 3, want.class_id = (uint32_t)take(f, 1) % 2, want.version = take(f, 1);
        want.wanted = (uint32_t)take(f, 1), want.policy = (uint32_t)take(f, 1) % 8, want.resources = &total;
        want.n_resources = 1;
        break;
    case MANTA__V1__NODE_TO_HEAD__KIND_NAME:
        m.name = &name;
        name.id_counter = take(f, 1), name.op = (uint32_t)take(f, 1) % 8, name.space = take_text(f), name.name = take_text(f);
        name.owner = take(f, 1) % 3, name.owner_node = (uint32_t)take(f, 1) % 3, name.type = take_text(f);
        break;
    case MANTA__V1__NODE_TO_HEAD__KIND_GONE: m.gone = &gone, gone.process = take(f, 1) % 3; break;
    default: m.job = &job, job.id = take_text(f), job.attempt = (uint32_t)take(f, 1) % 3, job.state = take_text(f); break;
    }
    packed(f, (struct head_event){.kind = HEAD_EV_STREAM_MESSAGE, .message.stream = stream}, &m.base);
}

static void call(struct fuzz *f)
{
    Manta__V1__SubmitRequest submit = MANTA__V1__SUBMIT_REQUEST__INIT;
    Manta__V1__JobSpec       spec = MANTA__V1__JOB_SPEC__INIT;
    Manta__V1__JobRequest    job = MANTA__V1__JOB_REQUEST__INIT;
    char                    *argv[2] = {take_text(f), take_text(f)};
    struct head_event        e = {.kind = HEAD_EV_CALL, .call.number = ++f->calls};
    e.call.method = (enum head_method)(1 + take(f, 1) % HEAD_SHUTDOWN);
    if (e.call.method == HEAD_SHUTDOWN)
        return; /* then nothing more is accepted */
    submit.spec = &spec, spec.id = job.id = take_text(f), spec.argv = argv, spec.n_argv = take(f, 1) % 3;
    spec.retries = (uint32_t)take(f, 1);
    packed(f, e, take(f, 1) % 2 ? &submit.base : &job.base);
}

static void raw(struct fuzz *f)
{
    struct head_event e = {.kind = take(f, 1) % 2 ? HEAD_EV_CALL : HEAD_EV_STREAM_MESSAGE};
    uint64_t          stream = 1 + take(f, 1) % STREAMS;
    enum head_method  method = (enum head_method)(1 + take(f, 1) % (HEAD_SHUTDOWN - 1));
    size_t            size = take(f, 1), left = (size_t)(f->end - f->at);
    const uint8_t    *bytes = f->at;
    size = size > left ? left : size;
    f->at += size;
    f->calls++;
    if (e.kind == HEAD_EV_CALL) {
        e.call.number = f->calls;
        e.call.method = method;
        e.call.bytes = bytes;
        e.call.size = size;
    } else {
        e.message.stream = stream;
        e.message.bytes = bytes;
        e.message.size = size;
    }
    step(f, e);
}

static void one(struct fuzz *f)
{
    uint64_t stream = 1 + take(f, 1) % STREAMS;
    f->now += take(f, 1) * 20;
    switch (take(f, 1) % 8) {
    case 0: step(f, (struct head_event){.kind = HEAD_EV_TICK}); break;
    case 1: step(f, (struct head_event){.kind = HEAD_EV_STREAM_CLOSED, .stream = {stream}}); break;
    case 2: raw(f); break;
    case 3: call(f); break;
    case 4:
        if (f->first < f->last)
            step(f, (struct head_event){.kind = HEAD_EV_STORED, .stored.token = f->tokens[f->first++]});
        break;
    case 7: step(f, (struct head_event){.kind = HEAD_EV_STREAM_UNREAD, .stream = {stream, .is_unread = take(f, 1) % 2}}); break;
    default: say(f, stream); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    struct fuzz        f = {.at = input, .end = input + size, .now = 1000};
    struct head_config config = {.cluster = "fuzz", .seed = 1, .now_ms = 1000};
    if (head_new(&config, &f.head).code)
        return 0;
    bool is_stored = take(&f, 1) % 4 == 0;
    if (is_stored) { /* what a damaged store would hold: it is refused, and read no further */
        uint8_t         key[4] = {'a'};
        enum head_table table = (enum head_table)(take(&f, 1) % 6);
        (void)head_load(f.head, table, key, 1 + take(&f, 1) % 4, f.at, (size_t)(f.end - f.at)).code;
    } else if (head_start(f.head, f.now, &f.actions).code == MT_OK) {
        note_batches(&f);
        for (uint64_t i = 1; i <= STREAMS; i++)
            step(&f, (struct head_event){.kind = HEAD_EV_STREAM_OPENED, .stream = {i}});
        for (int i = 0; i < STEPS_MAX && f.at < f.end; i++)
            one(&f);
    }
    head_actions_fini(&f.actions);
    head_free(f.head);
    return 0;
}
