/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_control.c - control records and lane records from a process that writes anything: to the raylet's core, to an
 * owner from its worker, to a worker from its owner. What is malformed is refused; nothing else happens.
 *
 * The input is a program of steps. Handshakes can be made right in one step, so that what follows reaches the states
 * behind them; everything else is bytes of the input.
 */
#include "clients/lib/worker/wrk.h"
#include "raylet/core/core.h"

#include <stdlib.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

enum { FUZZ_STEPS_MAX = 256, FUZZ_CONNS_MAX = 32, FUZZ_PAYLOAD_MAX = 4096 };

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

/* A record whose fields are small numbers, mostly: they meet what exists more often than random ones. */
static struct lane_record take_record(struct input *in, uint8_t *payload)
{
    struct lane_record r = {.kind = (uint16_t)(take(in, 1) % 144), .flags = (uint16_t)take(in, 1)};
    uint32_t           size = (uint32_t)take(in, 1) * (take(in, 1) % 4 ? 1 : 16);
    size = size > FUZZ_PAYLOAD_MAX ? FUZZ_PAYLOAD_MAX : size;
    r.length = LANE_RECORD_SIZE + size;
    r.sequence = take(in, 1);
    r.id = mt_id_make(take(in, 1), take(in, 1), (uint16_t)(take(in, 1) % 2));
    r.attempt = (uint32_t)take(in, 1) % 3;
    r.slot = take(in, 1) % 8 ? (uint32_t)r.sequence % LANE_SLOTS : (uint32_t)take(in, 4);
    r.aux = take(in, 1);
    for (uint32_t i = 0; i < size; i++)
        payload[i] = (uint8_t)(i < 64 ? take(in, 1) : 0);
    return r;
}

/* ---- the raylet ------------------------------------------------------------------------------------------------------ */

struct raylet {
    struct rlt        *r;
    struct rlt_actions actions;
    uint64_t           now;
    uint64_t           conns[FUZZ_CONNS_MAX];
    int                conn_count;
    int                fds;
};

static void raylet_step(struct raylet *f, struct rlt_event e)
{
    uint64_t drained[FUZZ_CONNS_MAX];
    int      drained_count = 0;
    e.now = f->now;
    e.random = f->now * 0x9e3779b97f4a7c15u;
    rlt_actions_reset(&f->actions);
    rlt_step(f->r, &e, &f->actions);
    for (size_t i = 0; i < f->actions.count; i++) {
        const struct rlt_action *a = &f->actions.data[i];
        if (a->kind == RLT_A_SPAWN_ZYGOTE && f->conn_count < FUZZ_CONNS_MAX)
            f->conns[f->conn_count++] = a->spawn_zygote.conn;
        if (a->kind == RLT_A_FORK && f->conn_count < FUZZ_CONNS_MAX)
            f->conns[f->conn_count++] = a->fork.worker;
        if (a->kind == RLT_A_SW_PROC_DRAIN && drained_count < FUZZ_CONNS_MAX)
            drained[drained_count++] = a->sw_proc_drain.conn;
    }
    if (rlt_check(f->r))
        abort();
    for (int i = 0; i < drained_count; i++)
        raylet_step(f, (struct rlt_event){.kind = RLT_EV_PROC_DRAINED, .proc_drained = {.conn = drained[i]}});
}

static void raylet_hello(struct raylet *f, struct input *in, uint64_t conn)
{
    static _Alignas(8) uint8_t bytes[sizeof(struct ctl_hello) + 8];
    struct ctl_hello           hello = {.magic = CTL_MAGIC,
                                        .version_min = mt_release.wire.min,
                                        .version_max = mt_release.wire.max,
                                        .role = (uint32_t)take(in, 1) % 4,
                                        .process = conn + 1000,
                                        .job = 1 + take(in, 1) % 3};
    struct rlt_event           e = {.kind = RLT_EV_SOCKET, .socket = {.conn = conn, .payload = bytes, .fd = -1}};
    if (hello.role == CTL_DRIVER) {
        e.socket.fd = ++f->fds;
        hello.argc = 1;
        hello.strings_size = 8;
    }
    memcpy(bytes, &hello, sizeof hello);
    memcpy(bytes + sizeof hello, "driver\0", 8);
    e.socket.record = (struct lane_record){.kind = CTL_HELLO,
                                           .length = LANE_RECORD_SIZE + (uint32_t)sizeof hello + hello.strings_size};
    raylet_step(f, e);
}

static void raylet_demand(struct raylet *f, struct input *in, uint64_t conn)
{
    static _Alignas(8) uint8_t bytes[sizeof(struct ctl_class)];
    struct ctl_class class = {.class_id = 1 + (uint32_t)take(in, 1) % 3,
                              .flags = (uint32_t)take(in, 1) % 2,
                              .resource_count = 1,
                              .resources = {{.name = "CPU", .milli = (int64_t)take(in, 1) * 10}}};
    struct ctl_demand demand = {.class_id = class.class_id, .wanted = (uint32_t)take(in, 1) % 8, .version = f->now};
    struct rlt_event  e = {.kind = RLT_EV_UP, .up = {.conn = conn, .payload = bytes}};
    memcpy(bytes, &class, sizeof class);
    e.up.record = (struct lane_record){.kind = CTL_CLASS, .length = LANE_RECORD_SIZE + sizeof class};
    raylet_step(f, e);
    memcpy(bytes, &demand, sizeof demand);
    e.up.record = (struct lane_record){.kind = CTL_DEMAND, .length = LANE_RECORD_SIZE + sizeof demand};
    raylet_step(f, e);
}

static void raylet_one(struct raylet *f, struct input *in)
{
    static _Alignas(8) uint8_t payload[FUZZ_PAYLOAD_MAX];
    uint64_t                   what = take(in, 1) % 10;
    uint64_t                   conn = f->conn_count ? f->conns[take(in, 1) % (uint64_t)f->conn_count] : 1;
    struct rlt_event           e = {.kind = RLT_EV_TICK};
    f->now += take(in, 1) * 1000000;
    switch (what) {
    case 0:
        if (f->conn_count == FUZZ_CONNS_MAX)
            return;
        conn = (uint64_t)f->conn_count + 1; /* never a number that was used before */
        f->conns[f->conn_count++] = conn;
        raylet_step(f, (struct rlt_event){.kind = RLT_EV_ACCEPTED, .accepted = {.conn = conn, .pid = (int32_t)conn}});
        return;
    case 1: raylet_hello(f, in, conn); return;
    case 2: raylet_demand(f, in, conn); return;
    case 3:
        e = (struct rlt_event){.kind = RLT_EV_SOCKET, .socket = {.conn = conn, .payload = payload}};
        e.socket.fd = take(in, 1) % 2 ? ++f->fds : -1;
        e.socket.record = take_record(in, payload);
        if (take(in, 1) % 2)
            e.socket.record.kind = (uint16_t)(CTL_HELLO + take(in, 1) % 5);
        break;
    case 4: e = (struct rlt_event){.kind = RLT_EV_CLOSED, .closed = {.conn = conn, .lacked = ""}}; break;
    case 5: e = (struct rlt_event){.kind = RLT_EV_EXITED, .exited = {conn, take(in, 1) % 2, 0, ""}}; break;
    case 6: e = (struct rlt_event){.kind = RLT_EV_SPAWNED, .spawned = {conn, take(in, 1) % 4 ? 77 : -2}}; break;
    case 7: f->now += 3000000000; break;
    default:
        e = (struct rlt_event){.kind = RLT_EV_UP, .up = {.conn = conn, .payload = payload}};
        e.up.record = take_record(in, payload);
        break;
    }
    raylet_step(f, e);
}

static void fuzz_raylet(struct input *in)
{
    struct rlt_config config = {
        .node = 1, .epoch = 1, .boot = 1, .resource_count = 1, .node_name = "fuzz", .total = {{.name = "CPU", .milli = 4000}}};
    struct raylet f = {.r = rlt_new(&config), .now = 1000000000};
    if (!f.r)
        abort();
    for (int i = 0; i < FUZZ_STEPS_MAX && in->at < in->end; i++)
        raylet_one(&f, in);
    rlt_actions_fini(&f.actions);
    rlt_free(f.r);
}

/* ---- lanes: an owner with a hostile worker, a worker with a hostile owner ------------------------------------------------ */

static void *map_shared(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        abort();
    return at;
}

static void own_cleared(struct own_out *out)
{
    out->wake_count = 0;
    out->up.size = out->unmap.count = out->deaths.count = 0;
}

static void submit(struct own *own, struct input *in)
{
    struct own_class_spec spec = {.name = "f", .group = 1};
    int64_t               x = 1;
    struct own_arg        arg = {.type = 'l', .data = &x, .size = sizeof x};
    struct own_call       call = {.function = 1,
                                  .name = "f",
                                  .argc = 1,
                                  .args = &arg,
                                  .retries = (int32_t)take(in, 1) % 3,
                                  .kind = LANE_TASK,
                                  .cls = own_class_get(own, &spec, (mt_id){0, 0})};
    struct own_ref       *ref = own_submit(own, &call);
    if (ref && take(in, 1) % 2)
        own_ref_drop(own, ref);
}

static void scribble_claim(struct input *in, void *memory, enum lane_claim_state state)
{
    uint64_t slot = take(in, 1), sequence = take(in, 1);
    shm_store64(&lane_claims_of(memory)[slot], lane_claim_word(sequence, (uint32_t)take(in, 1) % 3, state));
}

static void fuzz_owner(struct input *in)
{
    static _Alignas(8) uint8_t payload[FUZZ_PAYLOAD_MAX];
    static struct lane_park    park;
    void                      *memory = map_shared(LANE_BYTES);
    struct own                 own;
    struct lane_producer       back;
    struct ctl_grant           grant = {.lease = 5, .class_id = 1, .peer = 9};
    struct lane_record         r = {.kind = CTL_GRANT, .length = LANE_RECORD_SIZE + sizeof grant};
    memset(&park, 0, sizeof park);
    own_init(&own, 1, 1, 1, 1);
    lane_producer_init(&back, &lane_header_of(memory)->back, lane_back_of(memory));
    submit(&own, in);
    if (own_control(&own, &r, (const uint8_t *)&grant, memory, &park).code)
        abort();
    for (int i = 0; i < FUZZ_STEPS_MAX && in->at < in->end; i++) {
        switch (take(in, 1) % 6) {
        case 0: submit(&own, in); break;
        case 1: scribble_claim(in, memory, (enum lane_claim_state)(take(in, 1) % 7)); break;
        case 2:
            r = take_record(in, payload);
            if (r.kind != CTL_GRANT)
                (void)own_control(&own, &r, payload, NULL, NULL).code;
            break;
        case 3: own_tick(&own, own.now_ns + take(in, 2) * 100000); break;
        default:
            r = take_record(in, payload);
            r.kind = (uint16_t)(LANE_TASK + r.kind % 8);
            (void)lane_ring_push(&back, &r, payload);
            lane_ring_publish(&back);
            break;
        }
        own_poll(&own);
        own_cleared(&own.out);
    }
    own_fini(&own);
    munmap(memory, LANE_BYTES);
}

static void fuzz_worker(struct input *in)
{
    static _Alignas(8) uint8_t payload[FUZZ_PAYLOAD_MAX];
    static struct lane_park    park;
    void                      *memory = map_shared(LANE_BYTES);
    struct wrk                 wrk;
    struct wrk_run             run;
    struct lane_producer       forward;
    struct ctl_grant           grant = {.lease = 5, .class_id = 1, .peer = 9};
    struct lane_record         r = {.kind = CTL_LANE, .length = LANE_RECORD_SIZE + sizeof grant};
    bool                       is_running = false;
    memset(&park, 0, sizeof park);
    wrk_init(&wrk, 1);
    lane_producer_init(&forward, &lane_header_of(memory)->forward, lane_forward_of(memory));
    if (wrk_control(&wrk, &r, (const uint8_t *)&grant, memory, &park).code)
        abort();
    for (int i = 0; i < FUZZ_STEPS_MAX && in->at < in->end; i++) {
        switch (take(in, 1) % 8) {
        case 0: scribble_claim(in, memory, LANE_PENDING); break;
        case 1:
            if (is_running)
                is_running = !wrk_done(&wrk, 0, 0, 0, payload, take(in, 1), (uint64_t)i, 1);
            else
                is_running = wrk_next(&wrk, &run);
            break;
        case 2: take(in, 1) % 2 ? wrk_block(&wrk) : wrk_unblock(&wrk); break;
        case 3: shm_store32(&lane_header_of(memory)->recall, (uint32_t)take(in, 1) % 2); break;
        case 4: shm_store64(&lane_header_of(memory)->back.tail, take(in, 2)); break;
        default:
            r = take_record(in, payload);
            r.kind = (uint16_t)(LANE_TASK + r.kind % 4);
            (void)lane_ring_push(&forward, &r, payload);
            lane_ring_publish(&forward);
            break;
        }
        wrk_flush(&wrk);
        own_cleared(&wrk.out);
    }
    wrk_fini(&wrk);
    munmap(memory, LANE_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    struct input in = {input, input + size};
    switch (take(&in, 1) % 4) {
    case 0: fuzz_owner(&in); break;
    case 1: fuzz_worker(&in); break;
    default: fuzz_raylet(&in); break;
    }
    return 0;
}
