/* SPDX-License-Identifier: Apache-2.0
 *
 * greet.c - what a process says over its socket: its greeting first, then what comes with descriptors.
 *
 * Owns: nothing of its own. Thread: the logic loop only.
 * Always: a descriptor that came is taken over by whom the message is for, or closed.
 */
#include "raylet/core/head/head.h"
#include "raylet/core/jobs/jobs.h"
#include "raylet/core/pool/pool.h"
#include "raylet/core/procs/procs.h"
#include "raylet/core/usage/usage.h"
#include "core/base/limits/env.h"

#include <stdio.h>
#include <stdlib.h>

static void welcome_send(struct rlt *r, struct rlt_proc *p, mt_id id, int32_t code, const char *text)
{
    struct ctl_welcome w = {.magic = CTL_MAGIC, .version = (uint16_t)p->version, .code = code, .node = r->node, .epoch = r->epoch};
    w.job = p->job ? p->job->number : 0;
    memcpy(w.node_name, r->config.node_name, sizeof w.node_name);
    memcpy(w.address, r->config.head_address, sizeof w.address);
    snprintf(w.text, sizeof w.text, "%s", text);
    struct rlt_a_welcome *a = &rlt_act(r->out, RLT_A_WELCOME)->welcome;
    a->conn = p->conn;
    a->record = rlt_record(r->out, CTL_WELCOME, id, &w, sizeof w, &a->payload);
    a->is_zygote = p->role == CTL_ZYGOTE;
    a->process = p->process;
}

static void hello_refuse(struct rlt *r, struct rlt_proc *p, mt_id id, int32_t code, const char *text)
{
    welcome_send(r, p, id, code, text);
    rlt_proc_gone(r, p);
}

static const char *hello_driver(struct rlt *r, struct rlt_proc *p, const struct ctl_hello *h, const struct rlt_ev_socket *e)
{
    size_t size = e->record.length - LANE_RECORD_SIZE;
    if (p->conn >= RLT_CONN_OURS)
        return "this connection is not a driver's";
    if (e->fd < 0)
        return "a driver brings a descriptor of its executable";
    if (!rlt_hello_strings_ok(h, e->payload + sizeof *h, size - sizeof *h))
        return "the strings of the greeting do not add up";
    if (!h->job || mt_map_find(&r->jobs, mt_map_key(h->job)))
        return "the job's number is zero or in use";
    p->job = rlt_job_new(r, h->job, h->job, r->node, h->job_name);
    p->job->driver = p;
    p->job->hello = rlt_calloc(size);
    p->job->hello_size = (uint32_t)size;
    memcpy(p->job->hello, e->payload, size);
    rlt_program_greeted(r, p->job, e->fd);
    rlt_usage_known(r, h->job, rlt_submit_of(r, p->leader));
    return NULL;
}

static const char *hello_check(struct rlt *r, struct rlt_proc *p, const struct ctl_hello *h)
{
    if (!h->process || mt_map_find(&r->processes, mt_map_key(h->process)))
        return "the process number is zero or in use";
    if (h->role == CTL_DRIVER)
        return NULL;
    if (!p->job || (h->job && h->job != p->job->job)) /* 0: the socket says which */
        return "not a process of that job";
    if ((h->role == CTL_ZYGOTE) != (p == p->job->zygote) || h->role > CTL_WORKER)
        return "not in that role";
    return NULL;
}

/* Returns whether the descriptor was taken over. */
static bool proc_hello(struct rlt *r, struct rlt_proc *p, const struct rlt_ev_socket *e)
{
    struct ctl_hello h;
    const char      *refusal;
    if (e->record.length < LANE_RECORD_SIZE + sizeof h) {
        rlt_proc_gone(r, p);
        return false;
    }
    memcpy(&h, e->payload, sizeof h);
    h.job_name[sizeof h.job_name - 1] = 0;
    if (h.magic != CTL_MAGIC) {
        rlt_proc_gone(r, p);
        return false;
    }
    if (!r->head.is_ready) {
        hello_refuse(r, p, e->record.id, MT_EAGAIN, "the raylet has not joined its cluster yet");
        return false;
    }
    p->version = mt_versions_common(mt_release.wire, (struct mt_versions){h.version_min, h.version_max});
    if (!p->version) {
        char text[CTL_TEXT_SIZE];
        snprintf(text, sizeof text,
                 "the raylet speaks versions %u to %u, the program speaks %u to %u: take libmanta of the same release",
                 mt_release.wire.min, mt_release.wire.max, h.version_min, h.version_max);
        hello_refuse(r, p, e->record.id, MT_EVERSION, text);
        return false;
    }
    refusal = hello_check(r, p, &h);
    if (!refusal && h.role == CTL_DRIVER)
        refusal = hello_driver(r, p, &h, e);
    if (refusal) {
        hello_refuse(r, p, e->record.id, MT_EPROTO, refusal);
        return false;
    }
    p->role = h.role;
    p->process = h.process;
    rlt_proc_set_state(p, PROC_ALIVE);
    if (p->role != CTL_WORKER)
        rlt_timer_clear(r, &p->timer);
    rlt_map_put(&r->processes, mt_map_key(p->process), p);
    welcome_send(r, p, e->record.id, MT_OK, "");
    if (p->role == CTL_DRIVER)
        rlt_job_begin(r, p->job);
    else if (p->role == CTL_ZYGOTE)
        rlt_pool_zygote_ready(r, p);
    else
        rlt_worker_ready(r, p);
    return p->role == CTL_DRIVER;
}

void rlt_proc_socket(struct rlt *r, struct rlt_proc *p, const struct rlt_ev_socket *e)
{
    bool   took_fd = false;
    size_t size = e->record.length - LANE_RECORD_SIZE;
    bool   from_zygote = p->role == CTL_ZYGOTE && p->state == PROC_ALIVE;

    if (e->record.kind == CTL_HELLO && p->state == PROC_GREETING) {
        took_fd = proc_hello(r, p, e);
    } else if (e->record.kind == CTL_PROGRAM_FILE && p->state == PROC_GREETING && p->conn < RLT_CONN_OURS &&
               size >= sizeof(struct ctl_program_file) && p->files.count <= MT_PROGRAM_LIBRARIES_MAX) {
        took_fd = true;
        if (!rlt_program_file(r, p, e))
            rlt_proc_gone(r, p);
    } else if (e->record.kind == CTL_FORKED && from_zygote && size >= sizeof(struct ctl_forked)) {
        rlt_zygote_forked(r, p, e);
        took_fd = true;
    } else if (e->record.kind == CTL_ENV && p->state == PROC_ALIVE && size >= sizeof(struct ctl_env)) {
        rlt_env_define(r, p, e);
        took_fd = true;
    } else if (e->record.kind == CTL_DETACH && p->state == PROC_ALIVE && size >= sizeof(struct ctl_request)) {
        rlt_detach(r, p, &e->record, e->payload, e->fd);
        took_fd = true;
    } else if (e->record.kind == CTL_ZYGOTE_FAILED && p->job && p == p->job->zygote && size >= sizeof(struct ctl_reply)) {
        struct ctl_reply why;
        memcpy(&why, e->payload, sizeof why);
        why.text[sizeof why.text - 1] = 0;
        rlt_job_fail(r, p->job, MT_EENV, why.text);
    } else if (e->record.kind == CTL_ZYGOTE_FAILED && p->role == CTL_WORKER && p->is_child && !p->crash &&
               size >= sizeof(struct ctl_reply)) {
        struct ctl_reply why;
        memcpy(&why, e->payload, sizeof why);
        p->crash = strndup(why.text, sizeof why.text - 1);
        p->is_unable = true; /* its end follows */
    } else if (e->record.kind == CTL_CHILD_EXIT && from_zygote && size >= sizeof(struct ctl_child_exit)) {
        struct ctl_child_exit exit;
        memcpy(&exit, e->payload, sizeof exit);
        rlt_zygote_child_exit(r, p, &exit);
    } else {
        rlt_proc_gone(r, p);
    }
    if (!took_fd)
        rlt_close_fd(r->out, e->fd);
}
