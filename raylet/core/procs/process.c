/* SPDX-License-Identifier: Apache-2.0
 *
 * process.c - the life of one process of this node: greeting, welcome, end.
 *
 * Owns: every struct rlt_proc. Thread: the logic loop only.
 * Always: a process is found by its number only while it is ALIVE.
 *
 *   GREETING --CTL_HELLO--> ALIVE --socket or pidfd ends--> DYING --rings read, status known or late--> gone
 *      '------------------- ends, or MT_RLT_HELLO_MS passes -----------^
 *
 * Between ALIVE and gone what it left in its rings still counts: a lease that it drained, a ref that it gave up. Only
 * then do the others hear of its death, with the wait status and the backtrace that it wrote.
 */
#include "raylet/core/state.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

struct rlt_proc *rlt_proc_of_conn(const struct rlt *r, uint64_t conn)
{
    return mt_map_ptr(&r->conns, mt_map_key(conn));
}

struct rlt_proc *rlt_proc_of_process(const struct rlt *r, uint64_t process)
{
    return process ? mt_map_ptr(&r->processes, mt_map_key(process)) : NULL;
}

static void proc_end(struct rlt *r, struct rlt_proc *p);

static void proc_timer_fire(struct rlt *r, struct rlt_timer *t)
{
    struct rlt_proc *p = mt_container_of(t, struct rlt_proc, timer);
    if (p->state == PROC_DYING) {
        p->is_child = false; /* its status is late: go on without */
        if (p->is_drained)
            proc_end(r, p);
    } else {
        rlt_proc_gone(r, p); /* has not greeted, or has not left when asked */
    }
}

struct rlt_proc *rlt_proc_new(struct rlt *r, uint64_t conn)
{
    struct rlt_proc *p = rlt_calloc(sizeof *p);
    p->conn = conn;
    p->pid = -1;
    rlt_list_init(&p->classes);
    rlt_list_init(&p->owned);
    rlt_list_init(&p->served);
    rlt_list_init(&p->monitors);
    rlt_list_init(&p->in_idle);
    p->timer.fire = proc_timer_fire;
    rlt_map_put(&r->conns, mt_map_key(conn), p);
    rlt_timer_set(r, &p->timer, r->now + MT_RLT_HELLO_MS * RLT_MS);
    return p;
}

void rlt_proc_accepted(struct rlt *r, uint64_t conn, int32_t pid)
{
    if (r->conns.count >= MT_RLT_PROCS_MAX || r->is_stopping) {
        rlt_act(r->out, RLT_A_CLOSE)->conn = conn;
        return;
    }
    struct rlt_proc *p = rlt_proc_new(r, conn);
    p->pid = pid;
    p->is_keeper = r->config.is_private && !r->had_keeper; /* the first is the one whose socket the raylet was started with */
    r->had_keeper = true;
}

/* ---- greeting -------------------------------------------------------------------------------------------------- */

static void welcome_send(struct rlt *r, struct rlt_proc *p, mt_id id, int32_t code, const char *text)
{
    struct ctl_welcome w = {.magic = CTL_MAGIC, .version = CTL_VERSION, .code = code, .node = r->node, .epoch = r->epoch};
    w.job = p->job ? p->job->number : 0;
    memcpy(w.node_name, r->config.node_name, sizeof w.node_name);
    memcpy(w.address, r->config.head_address, sizeof w.address);
    snprintf(w.text, sizeof w.text, "%s", text);
    struct rlt_action *a = rlt_act_ctl(r->out, RLT_A_WELCOME, p->conn, CTL_WELCOME, id, &w, sizeof w);
    a->flags = p->role == CTL_ZYGOTE ? RLT_WELCOME_ZYGOTE : 0;
    a->number = p->process;
}

static void hello_refuse(struct rlt *r, struct rlt_proc *p, mt_id id, int32_t code, const char *text)
{
    welcome_send(r, p, id, code, text);
    rlt_proc_gone(r, p);
}

/* argc + envc + 1 texts, each with its NUL, fill strings_size exactly. */
bool rlt_hello_strings_ok(const struct ctl_hello *h, const uint8_t *strings, size_t size)
{
    uint64_t texts = 0;
    if (h->strings_size != size || size > CTL_HELLO_STRINGS_MAX || h->argc == 0)
        return false;
    for (size_t i = 0; i < size; i++)
        texts += strings[i] == 0;
    return size && strings[size - 1] == 0 && texts == (uint64_t)h->argc + h->envc + 1;
}

static const char *hello_driver(struct rlt *r, struct rlt_proc *p, const struct ctl_hello *h, const struct rlt_event *e)
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
static bool proc_hello(struct rlt *r, struct rlt_proc *p, const struct rlt_event *e)
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
    if (h.version_min > CTL_VERSION || h.version_max < CTL_VERSION) {
        char text[CTL_TEXT_SIZE];
        snprintf(text, sizeof text, "the raylet speaks version %d, the program speaks %u to %u", CTL_VERSION, h.version_min,
                 h.version_max);
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
    p->state = PROC_ALIVE;
    if (p->role != CTL_WORKER)
        rlt_timer_clear(r, &p->timer);
    rlt_map_put(&r->processes, mt_map_key(p->process), p);
    welcome_send(r, p, e->record.id, MT_OK, "");
    if (p->role == CTL_DRIVER)
        rlt_job_begin(r, p->job);
    else if (p->role == CTL_ZYGOTE)
        rlt_pool_zygote_ready(r, p);
    else
        rlt_pool_worker_ready(r, p);
    return p->role == CTL_DRIVER;
}

void rlt_proc_socket(struct rlt *r, const struct rlt_event *e)
{
    struct rlt_proc *p = rlt_proc_of_conn(r, e->conn);
    bool             took_fd = false;
    size_t           size = e->record.length - LANE_RECORD_SIZE;
    bool             from_zygote = p->role == CTL_ZYGOTE && p->state == PROC_ALIVE;

    if (e->record.kind == CTL_HELLO && p->state == PROC_GREETING) {
        took_fd = proc_hello(r, p, e);
    } else if (e->record.kind == CTL_PROGRAM_FILE && p->state == PROC_GREETING && p->conn < RLT_CONN_OURS &&
               size >= sizeof(struct ctl_program_file) && p->files.count <= MT_PROGRAM_LIBRARIES_MAX) {
        rlt_program_file(r, p, e);
        took_fd = true;
    } else if (e->record.kind == CTL_FORKED && from_zygote && size >= sizeof(struct ctl_forked)) {
        rlt_pool_forked(r, p, e);
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
        rlt_pool_child_exit(r, p, &exit);
    } else {
        rlt_proc_gone(r, p);
    }
    if (!took_fd && e->fd >= 0)
        rlt_act(r->out, RLT_A_CLOSE_FD)->fd = e->fd;
}

/* ---- the end --------------------------------------------------------------------------------------------------- */

void rlt_proc_leave(struct rlt *r, struct rlt_proc *p, const char *why)
{
    struct ctl_reply reply = {.code = MT_OK};
    if (p->is_leaving || p->state != PROC_ALIVE)
        return;
    p->is_leaving = true;
    snprintf(reply.text, sizeof reply.text, "%s", why);
    rlt_down(r->out, p->conn, CTL_SHUTDOWN, (mt_id){0, 0}, &reply, sizeof reply);
    rlt_timer_set(r, &p->timer, r->now + MT_RLT_LEAVE_MS * RLT_MS);
}

void rlt_proc_gone(struct rlt *r, struct rlt_proc *p)
{
    bool was_alive = p->state == PROC_ALIVE;
    if (p->state == PROC_DYING)
        return;
    p->state = PROC_DYING;
    if (p->is_keeper)
        rlt_shut_down(r, "the driver has left");
    if (p->process)
        mt_map_remove(&r->processes, mt_map_key(p->process));
    rlt_pool_remove(p);
    if (p->is_child)
        rlt_act(r->out, RLT_A_KILL)->conn = p->conn; /* it may live on without its socket: it must not */
    rlt_timer_set(r, &p->timer, r->now + (p->is_child && !p->has_status ? MT_RLT_STATUS_MS * RLT_MS : 0));
    if (was_alive && p->role != CTL_ZYGOTE)
        rlt_act(r->out, RLT_A_SW_PROC_DRAIN)->conn = p->conn;
    else
        p->is_drained = true; /* it never had rings */
    if (p->is_drained && (!p->is_child || p->has_status))
        proc_end(r, p);
}

void rlt_proc_status(struct rlt *r, struct rlt_proc *p, int32_t status)
{
    p->has_status = true;
    p->status = status;
    if (p->state != PROC_DYING)
        rlt_proc_gone(r, p);
    else if (p->is_drained)
        proc_end(r, p);
}

void rlt_proc_drained(struct rlt *r, struct rlt_proc *p, const char *crash)
{
    if (p->state != PROC_DYING || p->is_drained)
        return;
    p->is_drained = true;
    if (crash && crash[0] && !p->crash)
        p->crash = strdup(crash);
    if (!p->is_child || p->has_status)
        proc_end(r, p);
}

void rlt_proc_describe(const struct rlt *r, const struct rlt_proc *p, char *text, size_t size)
{
    bool        is_zygote = p->role == CTL_ZYGOTE || (p->is_child && !p->forked_by);
    const char *role = p->role == CTL_DRIVER ? "driver" : is_zygote ? "zygote" : "worker";
    char        how[96] = "ended";
    if (p->stopped) {
        snprintf(text, size, "%s pid %d on node %u (%s) was stopped: %s", role, p->pid, r->node, r->config.node_name, p->stopped);
        return;
    }
    if (p->has_status && WIFSIGNALED(p->status)) {
        const char *name = sigabbrev_np(WTERMSIG(p->status));
        snprintf(how, sizeof how, "was killed by signal %d (SIG%s)", WTERMSIG(p->status), name ? name : "?");
    } else if (p->has_status && WIFEXITED(p->status)) {
        snprintf(how, sizeof how, "exited with status %d", WEXITSTATUS(p->status));
    } else if (p->forked_by && !rlt_pool_has_zygote(p)) {
        snprintf(how, sizeof how, "ended with its zygote"); /* who would have told the status */
    }
    snprintf(text, size, "%s pid %d on node %u (%s) %s%s%s", role, p->pid, r->node, r->config.node_name, how, p->crash ? "\n" : "",
             p->crash ? p->crash : "");
}

static void end_as_worker(struct rlt *r, struct rlt_proc *p, const char *text)
{
    RLT_LIST_EACH(&p->served, link) {
        struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_worker);
        struct ctl_ended  end = {.lease = l->id,
                                 .code = p->stopped ? p->stopped_code : MT_EWORKER_DIED,
                                 .status = p->status,
                                 .pid = p->pid,
                                 .node = r->node};
        if (l->state == LEASE_DRAINED)
            end.code = MT_OK; /* it had finished with this one */
        snprintf(end.text, sizeof end.text, "%s", text);
        rlt_lease_end(r, l, &end);
    }
}

static void end_as_owner(struct rlt *r, struct rlt_proc *p)
{
    RLT_LIST_EACH(&p->classes, link)
        rlt_class_drop(r, mt_container_of(link, struct rlt_class, in_owner));
    RLT_LIST_EACH(&p->owned, link) {
        struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_owner);
        l->is_owner_dead = true;
        rlt_lease_owner_gone(r, l);
    }
    RLT_LIST_EACH(&p->monitors, link)
        rlt_monitor_free(r, mt_container_of(link, struct rlt_monitor, in_watcher));
    rlt_regions_leave(r, p);
}

static void proc_end(struct rlt *r, struct rlt_proc *p)
{
    struct rlt_job  *job = p->job;
    struct ctl_death death = {.process = p->process, .node = r->node, .code = MT_EWORKER_DIED, .status = p->status, .pid = p->pid};

    rlt_timer_clear(r, &p->timer);
    mt_map_remove(&r->conns, mt_map_key(p->conn));
    rlt_proc_describe(r, p, death.text, sizeof death.text);
    end_as_worker(r, p, death.text);
    end_as_owner(r, p);
    if (p->process) {
        rlt_monitors_fire(r, &death);
        rlt_object_owner_gone(r, p);
        rlt_names_process_gone(r, p->process);
        if (p->has_names)
            rlt_head_process_gone(r, p->process);
    }
    if (p->role == CTL_WORKER && !p->is_leaving)
        r->stats.worker_deaths++;
    rlt_act(r->out, RLT_A_CLOSE)->conn = p->conn;
    if (job && job->driver == p) {
        job->driver = NULL;
        rlt_head_job_gone(r, job->job);
        rlt_job_end(r, job);
    } else if (job) {
        rlt_pool_lost(r, p);
        rlt_job_free_if_empty(r, job);
    }
    rlt_program_files_close(r, p->files.data, p->files.count);
    mt_vec_fini(&p->files);
    free(p->crash);
    free(p->stopped);
    free(p);
    r->is_dirty = true;
}
