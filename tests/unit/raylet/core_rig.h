/* SPDX-License-Identifier: Apache-2.0
 *
 * core_rig.h - the raylet's logic by itself: one raylet, events in, its actions looked at. Each step checks its invariants.
 */
#ifndef TESTS_UNIT_RAYLET_CORE_RIG_H
#define TESTS_UNIT_RAYLET_CORE_RIG_H

#include "raylet/core/core.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h needs the four above. */
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

enum { DRIVER = 1, PROGRAM_FD = 40, PIDFD = 60, JOB = 0x77 };
#define MS UINT64_C(1000000)

static struct rlt        *r;
static struct rlt_actions out;
static uint64_t           now, zygote, last_version;

static inline void begin_as(struct rlt_config config)
{
    config.boot = 5;
    config.resource_count = 1;
    snprintf(config.total[0].name, sizeof config.total[0].name, "CPU");
    config.total[0].milli = config.total[0].milli ? config.total[0].milli : 2000;
    now = 1000 * MS;
    last_version = 0;
    r = rlt_new(&config);
    assert_non_null(r);
}

static inline void begin(bool has_head)
{
    begin_as((struct rlt_config){.has_head = has_head, .node = !has_head, .epoch = !has_head});
}

static inline int end(void **state)
{
    (void)state;
    rlt_free(r);
    r = NULL;
    rlt_actions_fini(&out);
    return 0;
}

static inline void step(struct rlt_event e)
{
    static uint64_t random = 1;
    e.now = now += 1000;
    e.random = random++;
    rlt_actions_reset(&out);
    rlt_step(r, &e, &out);
    const char *broken = rlt_check(r);
    if (broken)
        fail_msg("%s", broken);
}

/* The n-th action of a kind (from 0), NULL if there are not so many. */
static inline const struct rlt_action *action(enum rlt_action_kind kind, int n)
{
    for (size_t i = 0; i < out.count; i++)
        if (out.data[i].kind == kind && n-- == 0)
            return &out.data[i];
    return NULL;
}

/* The payload of the first control record of a kind that goes down to a process, by ring or socket; NULL: there is none. */
static inline const void *down(uint64_t conn, enum ctl_kind kind)
{
    for (size_t i = 0; i < out.count; i++) {
        const struct rlt_action *a = &out.data[i];
        if (a->kind == RLT_A_SW_DOWN && a->sw_down.conn == conn && a->sw_down.record.kind == kind)
            return a->sw_down.payload;
        if (a->kind == RLT_A_SOCKET && a->socket.conn == conn && a->socket.record.kind == kind)
            return a->socket.payload;
    }
    return NULL;
}

static inline void socket_in(uint64_t conn, enum ctl_kind kind, const void *payload, size_t size, int fd)
{
    struct rlt_event e = {.kind = RLT_EV_SOCKET, .socket = {.conn = conn, .fd = fd, .payload = payload}};
    e.socket.record = (struct lane_record){.length = (uint32_t)(LANE_RECORD_SIZE + size), .kind = (uint16_t)kind};
    step(e);
}

static inline void up(uint64_t conn, enum ctl_kind kind, mt_id id, const void *payload, size_t size)
{
    struct rlt_event e = {.kind = RLT_EV_UP, .up = {.conn = conn, .payload = payload}};
    e.up.record = (struct lane_record){.length = (uint32_t)(LANE_RECORD_SIZE + size), .kind = (uint16_t)kind, .id = id};
    step(e);
}

struct greeting {
    struct ctl_hello hello;
    char             strings[16];
};

static inline struct greeting greeting(enum ctl_role role, uint64_t process)
{
    struct greeting g = {.hello = {.magic = CTL_MAGIC,
                                   .version_min = mt_release.wire.min,
                                   .version_max = mt_release.wire.max,
                                   .role = role,
                                   .process = process,
                                   .job = JOB}};

    if (role == CTL_DRIVER) {
        g.hello.argc = 1;
        g.hello.envc = 1;
        g.hello.strings_size = 11;
        memcpy(g.strings, "prog\0A=b\0/", 11);
    }
    return g;
}

static inline void greet(uint64_t conn, const struct greeting *g, int fd)
{
    size_t size = sizeof g->hello + g->hello.strings_size;
    socket_in(conn, CTL_HELLO, g, size, fd);
}

static inline int32_t welcome_code(void)
{
    const struct rlt_action *a = action(RLT_A_WELCOME, 0);
    return a ? ((const struct ctl_welcome *)(const void *)a->welcome.payload)->code : -1;
}

static inline void driver_begins(void)
{
    struct greeting g = greeting(CTL_DRIVER, 100);
    step((struct rlt_event){.kind = RLT_EV_ACCEPTED, .accepted = {.conn = DRIVER, .pid = 9}});
    greet(DRIVER, &g, PROGRAM_FD);
    assert_int_equal(welcome_code(), MT_OK);
    const struct rlt_action *spawn = action(RLT_A_SPAWN_ZYGOTE, 0);
    assert_non_null(spawn);
    assert_int_equal(spawn->spawn_zygote.program, PROGRAM_FD);
    zygote = spawn->spawn_zygote.conn;
    step((struct rlt_event){.kind = RLT_EV_SPAWNED, .spawned = {.conn = zygote, .pid = 10}});
}

static uint64_t workers[8];

static inline void forked(uint64_t conn, int32_t pid)
{
    struct ctl_forked f = {.token = conn, .pid = pid};
    socket_in(zygote, CTL_FORKED, &f, sizeof f, PIDFD);
}

/* Driver, zygote and the two workers that are kept warm for two CPUs. */
static inline void job_begins(void)
{
    struct greeting g = greeting(CTL_ZYGOTE, 200);
    driver_begins();
    greet(zygote, &g, -1);
    for (int i = 0; i < 2; i++) {
        assert_non_null(action(RLT_A_FORK, i));
        assert_int_equal(action(RLT_A_FORK, i)->fork.zygote, zygote);
        workers[i] = action(RLT_A_FORK, i)->fork.worker;
    }
    assert_null(action(RLT_A_FORK, 2));
    for (int i = 0; i < 2; i++) {
        g = greeting(CTL_WORKER, 300 + (uint64_t)i);
        if (i) /* greeting and pid come in either order */
            forked(workers[i], 20 + i);
        greet(workers[i], &g, -1);
        if (!i)
            forked(workers[i], 20 + i);
    }
    struct rlt_stats s;
    rlt_stats(r, &s);
    assert_int_equal(s.idle_workers, 2);
}

static inline void define(uint32_t id, int64_t cpus, uint32_t flags)
{
    struct ctl_class c = {.class_id = id, .resource_count = 1, .flags = flags};
    snprintf(c.resources[0].name, sizeof c.resources[0].name, "CPU");
    c.resources[0].milli = cpus;
    up(DRIVER, CTL_CLASS, (mt_id){0, 0}, &c, sizeof c);
}

static inline void demand(uint32_t id, uint32_t wanted)
{
    struct ctl_demand d = {.class_id = id, .wanted = wanted, .version = ++last_version};
    up(DRIVER, CTL_DEMAND, (mt_id){0, 0}, &d, sizeof d);
}

static inline uint64_t granted_lease(void)
{
    const struct ctl_grant *grant = down(DRIVER, CTL_GRANT);
    assert_non_null(grant);
    return grant->lease;
}

/* ---- the head ---- */

static inline void head_says(Manta__V1__HeadToNode *m)
{
    step((struct rlt_event){.kind = RLT_EV_HEAD, .head = {.message = m}});
}

/* `beats` NULL: by a head that takes no datagrams. */
static inline void registered_as(uint64_t head_epoch, uint32_t node, uint32_t epoch, Manta__V1__BeatTerms *beats)
{
    Manta__V1__Registered g = MANTA__V1__REGISTERED__INIT;
    Manta__V1__HeadToNode m = MANTA__V1__HEAD_TO_NODE__INIT;
    step((struct rlt_event){.kind = RLT_EV_HEAD_UP});
    assert_int_equal(action(RLT_A_HEAD_SEND, 0)->head_send.message->kind_case, MANTA__V1__NODE_TO_HEAD__KIND_REGISTER);
    g.head_epoch = head_epoch;
    g.node = node;
    g.epoch = epoch;
    g.beats = beats;
    g.cluster = "c";
    m.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_REGISTERED;
    m.registered = &g;
    head_says(&m);
}

static inline void registered_by(uint64_t head_epoch, uint32_t node, uint32_t epoch)
{
    registered_as(head_epoch, node, epoch, NULL);
}

static inline void registered(uint32_t node, uint32_t epoch)
{
    registered_by(0, node, epoch);
}

#endif
