/* SPDX-License-Identifier: Apache-2.0
 *
 * shell.c - the pump: the queue's events into the core, its actions to the rooms that can do them; start and end of it all.
 *
 * Owns: struct sh. Thread: the loop, which is the main thread.
 * Always: the actions of one step are carried out, in order, before the next event is stepped.
 */
#include "raylet/shell/shell.h"
#include "raylet/shell/conn/memory.h"

#include "raylet/shell/cache/cache.h"
#include "raylet/shell/jobs/jobs.h"
#include "raylet/shell/links/beat.h"
#include "raylet/shell/links/links.h"
#include "raylet/shell/look/look.h"
#include "raylet/shell/procs/procs.h"
#include "raylet/store/store.h"

#include "core/io/tls/tls.h"
#include "core/sys/folder.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/rng.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DRAWN_MAX = 64 };

/* The shell, and what only the pump knows of it. */
struct pump {
    struct sh          sh;
    struct io_tick     tick;
    struct io_timer    timer; /* when the core wants to be stepped next */
    struct io_signal   sigchld, sigterm, sigint;
    struct rlt_actions actions, out_actions; /* of a step; of records that the switch thread sends */
    uint64_t           drawn[DRAWN_MAX];     /* random numbers; the first drawn_left are fresh */
    unsigned           drawn_left;
    int                folder_hold; /* a private cluster's runtime folder (core/sys/folder.h); -1: none */
};

/* ---- actions ------------------------------------------------------------------------------------------------------ */

static void do_welcome(struct sh *sh, const struct rlt_a_welcome *a)
{
    struct sh_conn    *c = sh_conn_find(sh, a->conn);
    struct ctl_welcome w;
    if (!c)
        return;
    memcpy(&w, a->payload, sizeof w);
    if (w.code || a->is_zygote) {
        sh_conn_send(c, &a->record, a->payload, NULL, 0);
        return;
    }
    sh->node = w.node;
    mt_status st = sh_memory_welcome(c);
    if (!st.code)
        st = sh_store_welcome(c, a->process, w.job);
    if (st.code) {
        sh_lacks(sh, a->conn, st);
        return;
    }
    int                fds[CTL_FDS_MAX] = {c->lane_fd, sh_park_fd(c), c->pins_fd, sh_switcher_park_fd(sh), -1};
    struct lane_record record = a->record;
    record.slot = sh_park_number(c);
    if (c->conn >= RLT_CONN_OURS && sh->event_capacity && sh_ring_new(c, a->process).code == 0)
        fds[4] = c->ring->fd; /* without memory for it a worker works all the same */
    sh_conn_send(c, &record, a->payload, fds, fds[4] >= 0 ? 5 : 4);
    sh_memory_given(c);
}

static void do_socket(struct sh *sh, const struct rlt_a_socket *a)
{
    struct sh_conn    *c = sh_conn_find(sh, a->conn);
    struct lane_record record = a->record;
    int                fds[RLT_FDS];
    if (!c)
        return;
    for (uint32_t i = 0; i < a->fd_count; i++) {
        fds[i] = sh_fd_of(sh, &a->fds[i]);
        if (fds[i] < 0)
            return; /* its memory could not be made, or its process has gone: the core hears of that by itself */
        if (a->fds[i].kind == RLT_FD_PARK)
            record.slot = sh_park_number(sh_conn_find(sh, a->fds[i].number));
    }
    sh_conn_send(c, &record, a->payload, fds, a->fd_count);
}

static void wake(const struct sh *sh, uint64_t conn)
{
    struct sh_conn *c = conn ? sh_conn_find(sh, conn) : NULL;
    if (c && c->park && lane_park_must_wake(c->park))
        lane_park_wake(c->park);
}

static void do_recall(struct sh *sh, const struct rlt_a_lane_recall *a)
{
    struct sh_lane *lane = sh_lane_find(sh, a->lane);
    if (!lane)
        return;
    shm_store32_release(&lane_header_of(lane->memory)->recall, a->word);
    wake(sh, a->owner);
    wake(sh, a->worker);
}

static void do_lane_new(struct sh *sh, uint64_t lane)
{
    mt_status        st = sh_lane_new(sh, lane);
    struct rlt_event e;
    if (!st.code)
        return;
    mt_log_status(MT_LOG_WARN, "no_memory", st);
    sh_event(&e, RLT_EV_LANE_FAILED);
    e.lane_failed.lane = lane;
    e.lane_failed.why = sh_keep_lack(sh, st);
    sh_post(sh, &e);
}

static void do_region_new(struct sh *sh, uint64_t region, uint64_t size)
{
    mt_status        st = sh_region_new(sh, region, size);
    struct rlt_event e;
    if (!st.code)
        return;
    mt_log_status(MT_LOG_WARN, "no_memory", st);
    sh_event(&e, RLT_EV_REGION_FAILED);
    e.region_failed.region = region;
    sh_post(sh, &e);
}

static void do_close(struct sh *sh, uint64_t conn)
{
    struct sh_conn *c = sh_conn_find(sh, conn);
    if (c)
        sh_conn_end(c);
}

static void do_watch(struct sh *sh, const struct rlt_a_watch *a)
{
    struct sh_conn *c = sh_conn_find(sh, a->conn);
    if (c)
        sh_conn_know_pid(c, a->pidfd, a->pid);
    else
        close(a->pidfd);
}

static void do_kill(struct sh *sh, uint64_t conn)
{
    struct sh_conn *c = sh_conn_find(sh, conn);
    if (c)
        sh_conn_kill(c);
}

static void do_status(struct sh *sh, uint64_t conn)
{
    struct sh_conn *c = sh_conn_find(sh, conn);
    if (c)
        sh_conn_status(c);
}

static void do_lane_open(struct sh *sh, const struct rlt_action *a)
{
    struct sh_lane *lane = sh_lane_find(sh, a->sw_lane_open.lane);
    sh_switcher_act(sh, a, lane ? lane->memory : NULL);
}

static void do_exit(struct sh *sh, enum mt_code code, const char *why)
{
    mt_log(MT_LOG_INFO, "raylet_leaves", "why=\"%s\"", why);
    if (code)
        sh->refused = mt_error(code, 0, "the head refused this node");
    sh->is_exiting = true;
    io_loop_stop(sh->loop);
}

/* `manta start` keeps its records in this folder. Whoever else has started us finds nothing left there. */
static bool has_records(const struct sh *sh)
{
    char path[IO_UNIX_PATH_SIZE];
    return sh_folder_file(sh, "daemons", path, sizeof path) && access(path, F_OK) == 0;
}

/* The first look at what is to move comes in the very step in which the node begins to leave: before the head can list it as left,
 * the file says to `manta start` that this raylet is to be waited for. */
static void do_leave(struct sh *sh)
{
    char path[IO_UNIX_PATH_SIZE];
    bool is_first = !sh->leave && has_records(sh) && sh_folder_file(sh, "leaving", path, sizeof path);
    int  fd = is_first ? open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600) : -1;
    if (fd >= 0)
        close(fd);
    sh_store_leave(sh);
}

static void do_ready(struct sh *sh)
{
    char line[512];
    if (sh->options.head || sh->options.head_file)
        sh_ends_begin(sh);
    int size = snprintf(line, sizeof line, "ready socket=%s\n", sh->has_listener ? sh->listener.path : "-");
    if (sh->options.ready_fd < 0)
        return;
    if (write(sh->options.ready_fd, line, (size_t)size) != size)
        mt_log(MT_LOG_WARN, "ready_unread", "errno=%d", errno);
    close(sh->options.ready_fd);
    sh->options.ready_fd = -1;
}

static void do_revoked(struct sh *sh, uint64_t id, uint64_t until_ms)
{
    mt_status st = sh->tls ? io_tls_revoke(sh->tls, id, (int64_t)(until_ms / 1000)) : mt_ok();
    if (st.code)
        mt_log_status(MT_LOG_ERROR, "revoke", st);
    sh_peers_drop_revoked(sh);
    sh_pulls_drop_revoked(sh);
}

/* No default: the compiler finds a kind that is missing. */
static void carry_out(struct sh *sh, const struct rlt_action *a)
{
    switch (a->kind) {
    case RLT_A_WELCOME: do_welcome(sh, &a->welcome); break;
    case RLT_A_SOCKET: do_socket(sh, &a->socket); break;
    case RLT_A_CLOSE: do_close(sh, a->close.conn); break;
    case RLT_A_SPAWN_ZYGOTE: sh_spawn_zygote(sh, &a->spawn_zygote); break;
    case RLT_A_FORK: sh_fork(sh, &a->fork); break;
    case RLT_A_WATCH: do_watch(sh, &a->watch); break;
    case RLT_A_KILL: do_kill(sh, a->kill.conn); break;
    case RLT_A_STATUS: do_status(sh, a->status.conn); break;
    case RLT_A_CLOSE_FD: close(a->close_fd.fd); break;
    case RLT_A_STRICT: sh_strict(sh, &a->strict); break;
    case RLT_A_LANE_NEW: do_lane_new(sh, a->lane_new.lane); break;
    case RLT_A_LANE_RECALL: do_recall(sh, &a->lane_recall); break;
    case RLT_A_LANE_FREE: sh_lane_free(sh, a->lane_free.lane); break;
    case RLT_A_CROWD: sh_switcher_crowd(sh, a->crowd.is); break;
    case RLT_A_REGION_NEW: do_region_new(sh, a->region_new.region, a->region_new.size); break;
    case RLT_A_REGION_FREE: sh_region_free(sh, a->region_free.region); break;
    case RLT_A_SW_LANE_OPEN: do_lane_open(sh, a); break;
    case RLT_A_SW_DOWN:
    case RLT_A_SW_PROC_DRAIN:
    case RLT_A_SW_LANE_DRAIN:
    case RLT_A_SW_LANE_CLOSE:
    case RLT_A_SW_FRAME:
    case RLT_A_SW_PAUSE: sh_switcher_act(sh, a, NULL); break;
    case RLT_A_HEAD_SEND: sh_head_send(sh, a->head_send.message); break;
    case RLT_A_BEAT: sh_beat(sh, a->beat.counter, a->beat.echo, a->beat.report); break;
    case RLT_A_PEER_DIAL: sh_peer_dial(sh, &a->peer_dial); break;
    case RLT_A_PEER_SEND: sh_peer_send(sh, &a->peer_send); break;
    case RLT_A_PEER_CLOSE: sh_peer_close(sh, a->peer_close.stream); break;
    case RLT_A_REVOKED: do_revoked(sh, a->revoked.id, a->revoked.until_ms); break;
    case RLT_A_FILE_READ: sh_file_read(sh, &a->file_read); break;
    case RLT_A_FILE_WRITE: (a->file_write.file.env ? sh_archive_write : sh_cache_write)(sh, &a->file_write); break;
    case RLT_A_FILE_DROP: sh_file_drop(sh, &a->file_drop.file); break;
    case RLT_A_PROGRAM_LIST: sh_program_list(sh, &a->program_list); break;
    case RLT_A_PROGRAM_OPEN: sh_program_open(sh, &a->program_open); break;
    case RLT_A_PROGRAM_DROP: sh_program_drop(sh, a->program_drop.job); break;
    case RLT_A_PROGRAM_SEND: sh_upload(sh, &a->program_send); break;
    case RLT_A_ENV_MAKE: sh_env_make(sh, &a->env_make); break;
    case RLT_A_ENV_DROP: sh_env_drop(sh, a->env_drop.env); break;
    case RLT_A_OBJECT_DEAD: sh_store_object_dead(sh, &a->object_dead.ref); break;
    case RLT_A_OWNER_GONE: sh_store_owner_gone(sh, a->owner_gone.process); break;
    case RLT_A_OWNERS_GONE: sh_store_owners_gone(sh, a->owners_gone.node); break;
    case RLT_A_JOB_OVER: sh_store_job_over(sh, a->job_over.job); break;
    case RLT_A_LEAVE: do_leave(sh); break;
    case RLT_A_MOVED: sh_store_moved(sh, &a->moved); break;
    case RLT_A_JOB_START: sh_job_start(sh, &a->job_start); break;
    case RLT_A_JOB_GO: sh_job_go(sh, a->job_go.id); break;
    case RLT_A_JOB_KILL: sh_job_kill(sh, &a->job_kill); break;
    case RLT_A_JOB_LOG_READ: sh_job_log_read(sh, &a->job_log_read); break;
    case RLT_A_JOB_KEEP: sh_job_keep(sh, &a->job_keep); break;
    case RLT_A_JOB_FORGET: sh_job_forget(sh, a->job_forget.id); break;
    case RLT_A_READY: do_ready(sh); break;
    case RLT_A_EXIT: do_exit(sh, a->exit.code, a->exit.why); break;
    }
}

static void set_timer(struct pump *p)
{
    uint64_t due = rlt_deadline(p->sh.core), now = io_now_ns();
    if (due == UINT64_MAX)
        io_timer_stop(&p->timer);
    else
        io_timer_start(p->sh.loop, &p->timer, due <= now ? 1 : (due - now + 999999) / 1000000);
}

/* Drawn many at a time: a system call for each step would cost more than most steps. */
static uint64_t draw(struct pump *p)
{
    if (!p->drawn_left && mt_random_bytes(p->drawn, sizeof p->drawn).code)
        return io_now_ns();
    p->drawn_left = p->drawn_left ? p->drawn_left : DRAWN_MAX;
    uint64_t number = p->drawn[--p->drawn_left];
    p->drawn[p->drawn_left] = 0;
    return number;
}

static void step(struct pump *p, struct rlt_event *event)
{
    event->now = io_now_ns();
    event->random = draw(p);
    rlt_actions_reset(&p->actions);
    rlt_step(p->sh.core, event, &p->actions);
    if (event->kind == RLT_EV_HEAD) { /* it may have been the head's welcome */
        sh_pulls_registered(&p->sh);
        sh_peers_registered(&p->sh);
    }
    for (size_t i = 0; i < p->actions.count; i++)
        carry_out(&p->sh, &p->actions.data[i]);
    sh_lanes_given(&p->sh);
}

/* See ground.h. What is ordered of the switch meanwhile waits in its queue, since this thread is in it. */
static bool records_out(struct sh *sh, const struct rlt_ev_out *records)
{
    struct pump *p = mt_container_of(sh, struct pump, sh);
    if (pthread_mutex_trylock(&sh->in_core))
        return false;
    rlt_actions_reset(&p->out_actions);
    rlt_out(sh->core, io_now_ns(), records, &p->out_actions);
    for (size_t i = 0; i < p->out_actions.count; i++)
        carry_out(sh, &p->out_actions.data[i]);
    sh_peers_flush_here(sh);
    pthread_mutex_unlock(&sh->in_core);
    return true;
}

/* Of a process whose end was seen: its status, if it is a child of ours, is told first. */
static bool is_told(struct sh *sh, uint64_t conn)
{
    const struct sh_conn *c;
    sh_reap(sh);
    c = sh_conn_find(sh, conn);
    return !c || c->is_over;
}

/* What is not for the core: a room answers it, or it came too late. */
static bool is_elsewhere(struct sh *sh, const struct rlt_event *e)
{
    switch (e->kind) {
    case RLT_EV_UP: return sh_store_record(sh, &e->up) || sh_look_record(sh, &e->up) || sh_output_record(sh, &e->up);
    case RLT_EV_EXITED: return !e->exited.has_status && is_told(sh, e->exited.conn);
    case RLT_EV_HEAD:
        if (e->head.message->kind_case != MANTA__V1__HEAD_TO_NODE__KIND_QUERY)
            return false;
        sh_look_order(sh, e->head.message->query);
        return true;
    case RLT_EV_SOCKET:
        if (sh_conn_find(sh, e->socket.conn))
            return false;
        if (e->socket.fd >= 0)
            close(e->socket.fd);
        return true;
    default: return false;
    }
}

/* After each round of the loop's callbacks: all that they have posted, and what follows from it. */
static void drain(struct io_tick *tick)
{
    struct pump     *p = mt_container_of(tick, struct pump, tick);
    struct rlt_event event;
    bool             any = false;
    while (sh_take(&p->sh, &event)) {
        if (p->sh.is_exiting)
            continue;
        pthread_mutex_lock(&p->sh.in_core);
        if (!is_elsewhere(&p->sh, &event)) {
            step(p, &event);
            sh_head_flush(&p->sh); /* the next step may start a program, which takes its time */
            any = true;
        }
        pthread_mutex_unlock(&p->sh.in_core);
    }
    pthread_mutex_lock(&p->sh.in_core);
    sh_peers_flush(&p->sh);
    sh_head_flush(&p->sh);
    pthread_mutex_unlock(&p->sh.in_core);
    if (any && !p->sh.is_exiting) {
        set_timer(p);
        sh_watch_busy(&p->sh);
    }
}

/* ---- start and end -------------------------------------------------------------------------------------------------- */

static void timer_fired(struct io_timer *timer)
{
    struct rlt_event e;
    sh_event(&e, RLT_EV_TICK);
    sh_post(&mt_container_of(timer, struct pump, timer)->sh, &e);
}

static void child_ended(struct io_signal *signal, int number)
{
    (void)number;
    sh_reap(&mt_container_of(signal, struct pump, sigchld)->sh);
}

static void told_to_leave(struct sh *sh, int number)
{
    struct rlt_event e;
    sh_event(&e, RLT_EV_SHUTDOWN);
    e.shutdown.why = number == SIGINT ? "interrupted" : "terminated";
    e.shutdown.drain_ms = number == SIGTERM ? sh->options.drain_ms : 0; /* a second one ends it at once */
    sh_post(sh, &e);
}

static void caught_term(struct io_signal *signal, int number)
{
    told_to_leave(&mt_container_of(signal, struct pump, sigterm)->sh, number);
}

static void caught_int(struct io_signal *signal, int number)
{
    told_to_leave(&mt_container_of(signal, struct pump, sigint)->sh, number);
}

/* As many as are asked for, and never more than there are descriptors for. */
static uint32_t workers_max(const struct sh *sh)
{
    uint32_t wanted = sh->options.workers_max ? sh->options.workers_max : MT_RLT_WORKERS_MAX;
    uint32_t could = (io_fd_share() - MT_RLT_OWN_FDS) / MT_RLT_TWO_WORKERS_FDS * 2;
    static_assert(MT_FDS_MIN * MT_FDS_SHARE_PERCENT / 100 > MT_RLT_OWN_FDS + MT_RLT_TWO_WORKERS_FDS, "one at least");
    if (wanted > could && sh->options.workers_max)
        mt_log(MT_LOG_WARN, "max_workers", "wanted=%u possible=%u why=\"its hard limit of descriptors\"", wanted, could);
    return wanted < could ? wanted : could;
}

static mt_status core_make(struct sh *sh, const char *address, const char *data_address)
{
    bool              has_head = sh->options.head || sh->options.head_file, is_private = sh->options.driver_fd >= 0;
    struct rlt_config config = {.has_head = has_head, .is_private = is_private};
    config.node = config.epoch = is_private || !has_head; /* else the head says */
    snprintf(config.head_address, sizeof config.head_address, "%s", sh_head_address(sh));
    snprintf(config.address, sizeof config.address, "%s", address);
    snprintf(config.data_address, sizeof config.data_address, "%s", data_address);
    MT_TRY(mt_random_bytes(&config.boot, sizeof config.boot));
    if (sh->options.node_name)
        snprintf(config.node_name, sizeof config.node_name, "%s", sh->options.node_name);
    else if (gethostname(config.node_name, sizeof config.node_name - 1) < 0)
        snprintf(config.node_name, sizeof config.node_name, "node");
    config.idle_workers_max = sh->options.idle_workers_max;
    snprintf(config.labels, sizeof config.labels, "%s", sh->options.labels);
    sh_cpus_read(&config.cpus);
    config.blocked_max = sh->options.blocked_max;
    config.jobs_apart = sh->options.users.count > 1;
    config.orphan_ms = sh->options.orphan_ms;
    config.workers_max = workers_max(sh);
    config.resource_count = sh->options.resource_count;
    memcpy(config.total, sh->options.resources, sizeof config.total);
    config.before = sh_ends_start(sh);
    sh->boot = config.boot;
    sh->core = rlt_new(&config);
    return sh->core ? mt_ok() : mt_error(MT_EINVAL, 0, "resources of this node");
}

/* A raylet that was killed while it started a program: until that is what it is to be, it has the socket too. */
static mt_status listener_open(struct sh *sh, const char *path)
{
    int64_t   until = mt_now_ms() + MT_RLT_SOCKET_WAIT_MS;
    mt_status st;
    while ((st = io_listener_open_unix(sh->loop, &sh->listener, path, SH_CONNECTIONS_MAX)).code == MT_EEXIST && mt_now_ms() < until)
        mt_sleep_ms(10);
    return st;
}

static mt_status open_socket(struct pump *p)
{
    struct sh *sh = &p->sh;
    char       path[IO_UNIX_PATH_SIZE];
    if (!sh->options.dir)
        return mt_ok();
    if (mkdir(sh->options.dir, 0700) < 0 && errno != EEXIST)
        return mt_error(MT_ESYS, errno, "make the runtime folder");
    if (sh->options.driver_fd >= 0)
        MT_TRY(mt_folder_hold(sh->options.dir, &p->folder_hold));
    if (!sh_folder_file(sh, "raylet.sock", path, sizeof path))
        return mt_error(MT_EINVAL, 0, "the runtime folder's path is too long for a socket");
    sh->listener.accepted = sh_conn_accepted;
    MT_TRY(listener_open(sh, path));
    sh->has_listener = true;
    if (sh_folder_file(sh, "leaving", path, sizeof path))
        unlink(path); /* of the one before */
    return mt_ok();
}

static mt_status adopt_driver(struct sh *sh)
{
    struct ucred     peer;
    socklen_t        size = sizeof peer;
    struct sh_conn  *c;
    struct rlt_event e;
    if (sh->options.driver_fd < 0)
        return mt_ok();
    if (getsockopt(sh->options.driver_fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
        return mt_error(MT_ESYS, errno, "credentials of the driver's socket");
    if (peer.uid != getuid())
        return mt_error(MT_EAUTH, 0, "the driver is another user's");
    MT_TRY(sh_conn_open(sh, sh->next_conn++, sh->options.driver_fd, &c));
    sh_event(&e, RLT_EV_ACCEPTED);
    e.accepted.conn = c->conn;
    e.accepted.pid = peer.pid;
    sh_post(sh, &e);
    sh_conn_watch_pid(c, (int)syscall(SYS_pidfd_open, peer.pid, 0), peer.pid);
    return mt_ok();
}

/* Nobody runs in them any more. */
static void folders_stop(struct sh *sh)
{
    sh_cache_stop(sh);
    sh_envs_stop(sh);
}

static void ports_stop(struct sh *sh)
{
    sh_certificate_stop(sh);
    sh_peers_stop(sh);
    sh_head_stop(sh);
    sh_pulls_stop(sh);
    io_bound_free(sh->bound);
}

static mt_status start(struct pump *p)
{
    struct sh *sh = &p->sh;
    char       address[RLT_ADDRESS_SIZE] = "", data_address[RLT_ADDRESS_SIZE] = "";
    MT_TRY(io_loop_new(&sh->loop));
    io_loop_set_tick(sh->loop, &p->tick);
    MT_TRY(sh_listen_read(sh));
    MT_TRY(sh_head_find(sh));
    MT_TRY(sh_peers_start(sh, address));
    MT_TRY(sh_pulls_start(sh, data_address));
    MT_TRY(core_make(sh, address, data_address));
    MT_TRY(sh_cgroup_start(sh));
    MT_TRY(sh_switcher_start(sh));
    MT_TRY(sh_store_start(sh));
    MT_TRY(sh_events_start(sh));
    MT_TRY(sh_looks_start(sh));
    MT_TRY(io_signal_start(sh->loop, &p->sigchld, SIGCHLD));
    MT_TRY(io_signal_start(sh->loop, &p->sigterm, SIGTERM));
    MT_TRY(io_signal_start(sh->loop, &p->sigint, SIGINT));
    MT_TRY(open_socket(p));
    sh_ends_read(sh);
    MT_TRY(adopt_driver(sh));
    timer_fired(&p->timer);
    sh_certificate_start(sh);
    return sh_head_start(sh);
}

static void stop(struct pump *p)
{
    struct sh *sh = &p->sh;
    if (sh->has_listener)
        io_listener_close(&sh->listener);
    sh_switcher_stop(sh);
    sh->is_exiting = true;
    sh_jobs_stop(sh);
    sh_ends_stop(sh);
    sh_uploads_stop(sh);
    ports_stop(sh);
    sh_cgroup_stop(sh);
    sh_processes_end(sh);
    sh_looks_stop(sh);
    sh_stacks_stop(sh);
    sh_outputs_stop(sh);
    folders_stop(sh);
    sh_store_stop(sh);
    sh_events_stop(sh);
    sh_memory_fini(sh);
    io_timer_stop(&p->timer);
    io_signal_stop(&p->sigchld);
    io_signal_stop(&p->sigterm);
    io_signal_stop(&p->sigint);
    mt_map_fini(&sh->conns);
    sh_queue_fini(sh);
    rlt_actions_fini(&p->actions);
    rlt_actions_fini(&p->out_actions);
    rlt_free(sh->core);
    io_loop_set_tick(sh->loop, NULL);
    io_loop_free(sh->loop);
    io_tls_free(sh->tls);
    if (p->folder_hold >= 0)
        mt_folder_leave(sh->options.dir, p->folder_hold, 0);
}

mt_status sh_run(const struct rlt_options *options, uint32_t fds_before)
{
    static struct pump p = {.folder_hold = -1,
                            .tick = {drain},
                            .timer = {.fire = timer_fired},
                            .sigchld = {.caught = child_ended},
                            .sigterm = {.caught = caught_term},
                            .sigint = {.caught = caught_int}};
    mt_status          st;
    pthread_mutex_init(&p.sh.in_core, NULL);
    p.sh.records_out = records_out;
    p.sh.options = *options;
    p.sh.fds_before = fds_before;
    p.sh.next_conn = 1;
    st = start(&p);
    if (st.code == 0) {
        sh_watch_start(&p.sh);
        sh_notice_start(&p.sh);
        io_loop_run(p.sh.loop);
        sh_notice_stop(&p.sh);
        sh_watch_stop(&p.sh);
        st = p.sh.refused;
    }
    if (p.sh.loop)
        stop(&p);
    return st;
}
