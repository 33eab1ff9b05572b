/* SPDX-License-Identifier: Apache-2.0
 *
 * crowd.c - see crowd.h.
 *
 *   head <-- a gRPC stream for each node --> this process: stand-ins, and real raylet cores
 *
 * The head is the real daemon with its real store. All streams are opened at once; a node has joined when the head has registered
 * it. A real core is raylet/core as the raylet drives it, each on a connection of its own; a stand-in registers, counts the nodes
 * that it is told of, and says each second that it lives, by a datagram while those are heard. Each has a connection of its own: a
 * descriptor in the head, and one here. A real core keeps what it knows of each node, 1 KB, so there are as many as half of the
 * free memory holds.
 *
 * All is over when each knows all. SETTLE_MS later the head's CPU is taken for STAY_MS, and its memory.
 *
 * Owns: the head, a folder that goes with it, the nodes. Thread: the main one, which runs the loop; gRPC has its own.
 */
#include "tests/bench/cluster/crowd/crowd.h"

#include "core/base/limits/raylet.h"
#include "core/ds/map.h"
#include "core/io/beat.h"
#include "core/io/io.h"
#include "core/proto/manta.pb-c.h"
#include "core/rpc/codec.h"
#include "core/rpc/rpc.h"
#include "raylet/core/core.h"
#include "tests/bench/cluster/crowd/floor.h"
#include "tests/bench/cluster/crowd/stand_in.h"
#include "tests/bench/cluster/rig.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    KNOWN_BYTES = 1200, /* that a real core keeps of a node, about */
    TURN_MS = 10,       /* a hundredth of the beat: so often some of them speak */
    LIMIT_MS = 240000,  /* until all know all */
    SETTLE_MS = 5000,   /* until the last of them is heard by its datagrams */
    STAY_MS = 10000,
    SPARE_FDS = 64,
    WINDOW = 24,     /* nodes that connect or register at a time: this process is slower than as many machines, and the head cuts
                          strangers off who keep others waiting */
    CORES_EACH = 64, /* real ones for each CPU of this machine: with more it is behind with what each of them is told */
    READ = 64,       /* messages that are kept read: most nodes are sent the same ones */
};

struct crowd_node {
    struct rpc_stream_handler handler;
    struct rpc_stream        *stream; /* NULL: it has ended, and begins again */
    struct rpc_channel       *channel;
    struct crowd             *crowd;
    double                    closed_ms;
    struct rlt               *core; /* NULL: a stand-in */
    uint32_t                  known;
    uint64_t                  report;
    bool                      is_registered;
    uint64_t                  session, counter, echo; /* of its datagrams; 0: the head takes none */
    uint8_t                   key[IO_BEAT_KEY_BYTES];
    bool                      is_heard; /* a stand-in: by its last one */
};

struct read_message {
    mt_buf                 bytes;
    Manta__V1__HeadToNode *message;
};

struct crowd {
    struct rig_folder   folder;
    char                target[128];
    pid_t               head;
    struct io_token     token;
    struct io_loop     *loop;
    struct rpc         *rpc;
    struct crowd_node  *nodes;
    uint32_t            count, real;
    uint32_t            begun, registered, turn, again; /* again: streams that ended before all had joined */
    uint32_t            reports;                        /* of stand-ins whose datagrams were not heard, while all stay */
    struct read_message read[READ];
    uint32_t            read_next;
    struct rlt_actions  actions;
    struct io_timer     timer;
    struct io_beats     beats;                        /* of all nodes */
    mt_map              sessions;                     /* of datagrams -> node */
    double              begun_ms, joined_ms, ends_ms; /* 0: not yet */
    double              bytes;
    bool                is_broken;
};

/* ---- what a node says ---- */

static void say(struct crowd_node *node, const Manta__V1__NodeToHead *m)
{
    mt_buf    bytes = {0};
    mt_status st = node->stream ? rpc_pack(&m->base, &bytes) : mt_ok();
    if (!st.code && node->stream)
        st = rpc_stream_send(node->stream, mt_buf_view(&bytes));
    node->crowd->is_broken |= st.code && st.code != MT_ECONN; /* of that `closed` tells */
    mt_buf_fini(&bytes);
}

static void stand_in_joins(struct crowd_node *node, uint32_t index)
{
    struct stand_in_says s;
    stand_in_comes(&s, index, index + 1);
    say(node, &s.message);
}

static void beat(struct crowd_node *node, uint64_t counter, uint64_t echo, uint64_t report)
{
    struct io_beat b = {.session = node->session, .counter = counter, .echo = echo, .report = report};
    if (node->session && node->crowd->beats.impl)
        io_beats_say(&node->crowd->beats, &b, node->key);
}

/* As raylet/core/head/beat.c, but for the times in between: a datagram, and a report where the last one was not heard. */
static void stand_in_lives(struct crowd_node *node)
{
    struct stand_in_says s;
    if (!node->is_heard) {
        stand_in_reports(&s, ++node->report);
        say(node, &s.message);
        node->crowd->reports++;
    }
    node->is_heard = false;
    beat(node, ++node->counter, node->echo, node->report);
}

static void core_step(struct crowd_node *node, struct rlt_event e)
{
    struct crowd *c = node->crowd;
    e.now = bench_now_ns();
    e.random = e.now;
    rlt_actions_reset(&c->actions);
    rlt_step(node->core, &e, &c->actions);
    for (size_t i = 0; i < c->actions.count; i++) { /* it has no processes and no lanes: nothing else concerns others */
        const struct rlt_action *a = &c->actions.data[i];
        if (a->kind == RLT_A_HEAD_SEND)
            say(node, a->head_send.message);
        else if (a->kind == RLT_A_BEAT)
            beat(node, a->beat.counter, a->beat.echo, a->beat.report);
    }
}

static void answered(struct io_beats *beats, const struct io_beat_in *list, uint32_t count)
{
    struct crowd *c = mt_container_of(beats, struct crowd, beats);
    for (uint32_t i = 0; i < count; i++) {
        const struct io_beat *b = &list[i].beat;
        struct crowd_node    *node = mt_map_ptr(&c->sessions, mt_map_key(b->session));
        if (!node || node->session != b->session || !b->is_answer || !io_beat_check(beats, &list[i], node->key))
            continue;
        node->echo = b->echo;
        node->is_heard = b->is_heard;
        if (node->core)
            core_step(node, (struct rlt_event){.kind = RLT_EV_BEAT, .beat = {b->counter, b->echo, b->is_heard}});
    }
}

/* The first node's terms open the socket, which all use. */
static void beats_begin(struct crowd_node *node, const Manta__V1__BeatTerms *terms)
{
    struct crowd *c = node->crowd;
    if (!terms || terms->key.len != sizeof node->key)
        return;
    memcpy(node->key, terms->key.data, sizeof node->key);
    node->session = terms->session;
    node->echo = 0;
    c->is_broken |= mt_map_put_ptr(&c->sessions, mt_map_key(node->session), node).code != 0;
    c->beats.came = answered;
    if (!c->beats.impl)
        c->is_broken |= io_beats_dial(c->loop, &c->beats, "127.0.0.1", (uint16_t)terms->port).code != 0;
}

static struct rlt *core_new(uint32_t index)
{
    struct rlt_config config = {.boot = index + 1, .has_head = true, .resource_count = 2};
    snprintf(config.node_name, sizeof config.node_name, "worker-%05u", index);
    snprintf(config.address, sizeof config.address, "10.0.%u.%u:40001", index / 256, index % 256);
    snprintf(config.data_address, sizeof config.data_address, "10.0.%u.%u:40002", index / 256, index % 256);
    snprintf(config.total[0].name, sizeof config.total[0].name, "CPU");
    config.total[0].milli = 64000;
    snprintf(config.total[1].name, sizeof config.total[1].name, "memory");
    config.total[1].milli = INT64_C(256) << 30;
    return rlt_new(&config);
}

/* ---- what it hears ---- */

static void node_hears(struct rpc_stream_handler *handler, struct rpc_stream *stream, mt_view bytes);
static void node_closed(struct rpc_stream_handler *handler, struct rpc_stream *stream, const struct rpc_result *result);

/* ---- joining ---- */

static bool node_attach(struct crowd_node *node)
{
    struct rpc_stream_config config = {.method = "/manta.v1.Head/Attach", .flags = RPC_WAIT_READY};
    if (rpc_stream_open(node->channel, &config, &node->handler, &node->stream).code)
        return false;
    if (node->core)
        core_step(node, (struct rlt_event){.kind = RLT_EV_HEAD_UP});
    else
        stand_in_joins(node, (uint32_t)(node - node->crowd->nodes));
    return true;
}

static bool node_begin(struct crowd *c, uint32_t index)
{
    struct crowd_node *node = &c->nodes[index];
    node->crowd = c;
    node->handler.message = node_hears;
    node->handler.closed = node_closed;
    struct rpc_channel_config config = {.target = c->target, .token = &c->token, .silent_ms = MT_KEEPALIVE_SERVER_MS};
    return rpc_channel_open(c->rpc, &config, &node->channel).code == 0 && (index >= c->real || (node->core = core_new(index))) &&
           node_attach(node);
}

/* The next ones, while few are on their way. */
static void more_begin(struct crowd *c)
{
    while (!c->is_broken && c->begun < c->count && c->begun < c->registered + WINDOW)
        c->is_broken = !node_begin(c, c->begun++);
}

/* NULL: it can't be read. */
static const Manta__V1__HeadToNode *read_once(struct crowd *c, mt_view bytes)
{
    ProtobufCMessage *m = NULL;
    for (uint32_t i = 0; i < READ; i++)
        if (c->read[i].message && c->read[i].bytes.size == bytes.size && memcmp(c->read[i].bytes.data, bytes.data, bytes.size) == 0)
            return c->read[i].message;
    struct read_message *to = &c->read[c->read_next++ % READ];
    if (to->message)
        rpc_unpack_free((ProtobufCMessage *)to->message);
    mt_buf_fini(&to->bytes);
    *to = (struct read_message){0};
    if (rpc_unpack(&manta__v1__head_to_node__descriptor, bytes, MT_CONTROL_BYTES_MAX, &m).code ||
        mt_buf_append(&to->bytes, bytes.data, bytes.size).code)
        return NULL;
    to->message = (Manta__V1__HeadToNode *)m;
    return to->message;
}

static uint64_t varint(mt_view *from)
{
    uint64_t value = 0;
    for (int shift = 0; from->size && shift < 64; shift += 7) {
        uint8_t byte = *from->data;
        *from = (mt_view){from->data + 1, from->size - 1};
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            break;
    }
    return value;
}

/* A stand-in takes nothing apart but its welcome: of a view it counts the nodes, by their tags. To unpack 8.7 GB of them would
 * take more than the head takes to make them. True: that was all. */
static bool stand_in_counts(struct crowd_node *node, mt_view bytes)
{
    uint64_t kind = varint(&bytes) >> 3;
    if (kind == MANTA__V1__HEAD_TO_NODE__KIND_REGISTERED)
        return false;
    if (kind != MANTA__V1__HEAD_TO_NODE__KIND_VIEW)
        return true;
    varint(&bytes);
    while (bytes.size) {
        uint64_t tag = varint(&bytes), size = varint(&bytes);
        node->known += tag == (2 << 3 | 2); /* View.nodes */
        if ((tag & 7) == 2)
            bytes = size < bytes.size ? (mt_view){bytes.data + size, bytes.size - size} : (mt_view){0};
    }
    return true;
}

static void node_takes(struct crowd_node *node, const Manta__V1__HeadToNode *m)
{
    struct crowd *c = node->crowd;
    if (m->kind_case == MANTA__V1__HEAD_TO_NODE__KIND_REGISTERED && !node->is_registered) {
        node->is_registered = m->registered->code == 0;
        c->is_broken |= m->registered->code != 0;
        c->registered += node->is_registered;
        beats_begin(node, m->registered->beats);
        if (c->registered == c->count)
            c->joined_ms = rig_now_ms() - c->begun_ms;
        more_begin(c);
    }
    if (node->core) {
        struct rlt_event e = {.kind = RLT_EV_HEAD};
        e.head.message = m;
        core_step(node, e);
    }
}

/* A real core says that it reads several messages as one; here each is a step of its own, as in the raylet's shell. */
static void node_hears(struct rpc_stream_handler *handler, struct rpc_stream *stream, mt_view bytes)
{
    struct crowd_node *node = mt_container_of(handler, struct crowd_node, handler);
    struct crowd      *c = node->crowd;
    (void)stream;
    c->bytes += (double)bytes.size;
    if (!node->core && stand_in_counts(node, bytes))
        return;
    const Manta__V1__HeadToNode *m = read_once(c, bytes);
    if (!m) {
        c->is_broken = true;
        return;
    }
    node_takes(node, m);
    for (size_t i = 0; i < m->n_more; i++) {
        Manta__V1__HeadToNode *more = manta__v1__head_to_node__unpack(NULL, m->more[i].len, m->more[i].data);
        c->is_broken |= !more;
        if (more)
            node_takes(node, more);
        manta__v1__head_to_node__free_unpacked(more, NULL);
    }
}

static void node_closed(struct rpc_stream_handler *handler, struct rpc_stream *stream, const struct rpc_result *result)
{
    struct crowd_node *node = mt_container_of(handler, struct crowd_node, handler);
    struct crowd      *c = node->crowd;
    if (c->joined_ms > 0 || c->again++ == 0)
        fprintf(stderr, "a node's stream has ended: %s %s\n", mt_code_name(result->status.code), result->detail);
    c->is_broken |= c->joined_ms > 0;
    c->registered -= node->is_registered;
    node->is_registered = false;
    node->is_heard = false;
    if (node->session)
        mt_map_remove(&c->sessions, mt_map_key(node->session));
    node->session = 0;
    node->known = 0;
    node->stream = NULL;
    node->closed_ms = rig_now_ms();
    rpc_stream_free(stream);
    if (node->core)
        core_step(node, (struct rlt_event){.kind = RLT_EV_HEAD_DOWN});
}

/* ---- time passes ---- */

static bool all_know_all(const struct crowd *c)
{
    for (uint32_t i = 0; i < c->count; i++) {
        uint32_t known = c->nodes[i].known;
        if (c->nodes[i].core)
            (void)rlt_view_version(c->nodes[i].core, &known);
        if (known < c->count)
            return false;
    }
    return true;
}

static void turn(struct io_timer *timer)
{
    struct crowd *c = mt_container_of(timer, struct crowd, timer);
    uint32_t      slices = MT_RLT_BEAT_MS / TURN_MS;
    uint64_t      now = bench_now_ns();
    io_timer_start(c->loop, timer, TURN_MS);
    uint32_t due = (uint32_t)((rig_now_ms() - c->begun_ms) / TURN_MS); /* a late turn makes up for those before it */
    for (c->turn = due - c->turn > slices ? due - slices : c->turn; c->turn != due; c->turn++)
        for (uint32_t i = c->turn % slices; i < c->count; i += slices)
            if (!c->nodes[i].core && c->nodes[i].is_registered && c->nodes[i].stream)
                stand_in_lives(&c->nodes[i]);
    for (uint32_t i = 0; i < c->begun; i++)
        if (!c->nodes[i].stream && rig_now_ms() - c->nodes[i].closed_ms >= MT_RLT_HEAD_RETRY_MS && !node_attach(&c->nodes[i]))
            c->is_broken = true;
    for (uint32_t i = 0; i < c->real && i < c->begun; i++)
        if (c->nodes[i].stream && rlt_deadline(c->nodes[i].core) <= now)
            core_step(&c->nodes[i], (struct rlt_event){.kind = RLT_EV_TICK});
    if (c->beats.impl)
        io_beats_flush(&c->beats);
    bool is_over = c->ends_ms > 0 ? rig_now_ms() >= c->ends_ms : c->joined_ms > 0 && all_know_all(c);
    if (is_over || c->is_broken || (c->ends_ms <= 0 && rig_now_ms() - c->begun_ms > LIMIT_MS))
        io_loop_stop(c->loop);
}

/* ---- the head, from outside ---- */

static double head_cpu_s(const struct crowd *c)
{
    char          path[64], text[1024];
    unsigned long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", c->head);
    FILE  *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = 0;
    const char *end = strrchr(text, ')');
    if (!end || sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
        return 0;
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

/* "VmRSS:", or "VmHWM:", the most that it ever was. */
static double head_mb(const struct crowd *c, const char *which)
{
    char   path[64], line[256];
    double kb = 0;
    snprintf(path, sizeof path, "/proc/%d/status", c->head);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, which, strlen(which)) == 0)
            kb = strtod(line + strlen(which), NULL);
    if (f)
        fclose(f);
    return kb * 1024 / 1e6;
}

/* ---- all of it ---- */

static bool crowd_start(struct crowd *c)
{
    char path[RIG_PATH];
    if (!rig_folder_make(&c->folder) || (c->head = rig_head(&c->folder)) <= 0)
        return false;
    snprintf(path, sizeof path, "%s/head.addr", c->folder.dir);
    FILE *f = fopen(path, "re");
    bool  ok = f && fgets(c->target, sizeof c->target, f);
    if (f)
        fclose(f);
    c->target[strcspn(c->target, "\n")] = 0;
    snprintf(path, sizeof path, "%s/token", c->folder.dir);
    return ok && io_token_read(path, &c->token).code == 0 && io_loop_new(&c->loop).code == 0 && rpc_new(c->loop, &c->rpc).code == 0;
}

static void say_row(struct bench *b, const struct crowd *c, const char *id, const char *what, const char *unit, double value)
{
    char text[64];
    snprintf(text, sizeof text, "%s%s", id, what);
    bench_print_value(b, text, unit, value, c->count);
}

static bool measure(struct bench *b, struct crowd *c, const char *id)
{
    double before = head_cpu_s(c), empty_mb = head_mb(c, "VmRSS:");
    io_loop_run(c->loop);
    double known_ms = rig_now_ms() - c->begun_ms, joined_s = head_cpu_s(c) - before;
    if (c->is_broken || c->joined_ms <= 0 || !all_know_all(c)) {
        fprintf(stderr, "%s: %u of %u nodes have joined, and not all know all: see %s\n", id, c->registered, c->count,
                c->folder.dir);
        return false;
    }
    c->ends_ms = rig_now_ms() + SETTLE_MS;
    io_loop_run(c->loop);
    c->ends_ms = rig_now_ms() + STAY_MS;
    c->reports = 0;
    before = head_cpu_s(c);
    io_loop_run(c->loop);
    say_row(b, c, id, "", "s", c->joined_ms / 1e3);
    say_row(b, c, id, ".known", "s", known_ms / 1e3);
    say_row(b, c, id, ".cpu", "s", joined_s);
    say_row(b, c, id, ".bytes", "MB", c->bytes / 1e6);
    say_row(b, c, id, ".b", "%", 100 * (head_cpu_s(c) - before) / (STAY_MS / 1e3));
    say_row(b, c, id, ".c", "MB", head_mb(c, "VmRSS:"));
    say_row(b, c, id, ".peak", "MB", head_mb(c, "VmHWM:"));
    say_row(b, c, id, ".empty", "MB", empty_mb);
    say_row(b, c, id, ".again", "", c->again);
    say_row(b, c, id, ".reports", "", c->reports);
    say_row(b, c, id, ".real", "", c->real);
    double floor = crowd_floor(c->count);
    if (floor >= 0)
        say_row(b, c, id, ".floor", "%", floor);
    return !c->is_broken;
}

static void crowd_stop(struct crowd *c, bool ok)
{
    c->is_broken = true; /* what ends now ends on purpose */
    io_timer_stop(&c->timer);
    for (uint32_t i = 0; i < c->count && c->nodes; i++) {
        if (c->nodes[i].stream)
            rpc_stream_free(c->nodes[i].stream);
        if (c->nodes[i].core)
            rlt_free(c->nodes[i].core);
    }
    io_beats_close(&c->beats);
    mt_map_fini(&c->sessions);
    for (uint32_t i = 0; i < c->count && c->nodes; i++)
        if (c->nodes[i].channel)
            rpc_channel_close(c->nodes[i].channel);
    if (c->rpc)
        rpc_free(c->rpc);
    if (c->loop)
        io_loop_free(c->loop);
    for (uint32_t i = 0; i < READ; i++) {
        if (c->read[i].message)
            rpc_unpack_free((ProtobufCMessage *)c->read[i].message);
        mt_buf_fini(&c->read[i].bytes);
    }
    rlt_actions_fini(&c->actions);
    free(c->nodes);
    rig_end(&c->head, SIGKILL);
    if (ok)
        rig_folder_remove(&c->folder);
}

static bool has_descriptors(uint32_t count)
{
    uint32_t  before, limit;
    mt_status st = io_raise_fd_limit(&before, &limit);
    if (st.code == 0 && io_fd_share() > count + SPARE_FDS)
        return true;
    fprintf(stderr, "%u nodes need as many descriptors, and a quarter more: ulimit -Hn\n", count);
    return false;
}

static bool crowd(struct bench *b, const char *id, uint32_t count, uint32_t real)
{
    struct crowd c = {.count = count, .real = real};
    uint64_t     room = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
    if (room / ((uint64_t)count * KNOWN_BYTES) < c.real)
        c.real = (uint32_t)(room / ((uint64_t)count * KNOWN_BYTES));
    uint32_t cores = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN) * CORES_EACH;
    c.real = c.real < cores ? c.real : cores;
    c.nodes = calloc(count, sizeof *c.nodes);
    bool ok = c.nodes && has_descriptors(count) && crowd_start(&c);
    c.begun_ms = rig_now_ms();
    if (ok) {
        more_begin(&c);
        c.timer.fire = turn;
        io_timer_start(c.loop, &c.timer, TURN_MS);
        ok = measure(b, &c, id);
    }
    crowd_stop(&c, ok);
    return ok;
}

bool bench_head_1k(struct bench *b)
{
    return crowd(b, "head_1k", 1000, 100);
}

bool bench_head_3k(struct bench *b)
{
    return crowd(b, "head_3k", 3000, 300);
}

bool bench_head_10k(struct bench *b)
{
    return crowd(b, "head_10k", 10000, 1000);
}
