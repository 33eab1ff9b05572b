/* SPDX-License-Identifier: Apache-2.0
 *
 * node.c - a raylet's shell: feeds its core one event at a time, carries out the actions, runs its switch.
 *
 * Owns: every struct sim_node, its core and switch. Thread: one.
 * Always: all actions of a step are carried out before the next step; while the node is paused its events queue up.
 */
#include "raylet/core/schedule/schedule.h"
#include "tests/sim/shells/node.h"

#include "tests/sim/shells/store.h"

enum { SIM_SWITCH_ROUNDS = 64, SIM_KEPT_S = 3 };

struct sim_conn *sim_conn_of(const struct sim_node *n, uint64_t conn)
{
    return mt_map_ptr(&n->conns, mt_map_key(conn));
}

int sim_node_index(const struct sim_node *n)
{
    return n->index;
}

bool sim_node_is_up(const struct sim_node *n)
{
    return n->serial != 0;
}

uint64_t sim_node_serial(const struct sim_node *n)
{
    return n->serial;
}

struct sim_node *sim_node_of(struct sim *s, uint64_t serial)
{
    for (int i = 0; serial && i < s->config.nodes; i++)
        if (s->nodes[i] && s->nodes[i]->serial == serial)
            return s->nodes[i];
    return NULL;
}

/* ---- stepping ------------------------------------------------------------------------------------------------------ */

static void pending_free(struct sim_pending *p)
{
    free(p->copies[0]);
    free(p->copies[1]);
}

static void *copy_of(const void *data, size_t size)
{
    void *to;
    if (!data)
        return NULL;
    to = sim_alloc(size + 8);
    memcpy(to, data, size);
    return to;
}

static const void *bytes_kept(struct sim_pending *p, const void *data, size_t size)
{
    void **place = &p->copies[p->copies[0] != NULL];
    return *place = copy_of(data, size);
}

static const char *text_kept(struct sim_pending *p, const char *text)
{
    return text ? bytes_kept(p, text, strlen(text) + 1) : NULL;
}

static void record_kept(struct sim_pending *p, struct rlt_ev_record *said)
{
    said->payload = bytes_kept(p, said->payload, said->record.length - LANE_RECORD_SIZE);
}

/* What the event points to, until its step. No default: the compiler finds a kind that is missing. */
static void keep(struct sim_pending *p)
{
    struct rlt_event *e = &p->e;
    switch (e->kind) {
    case RLT_EV_SOCKET: e->socket.payload = bytes_kept(p, e->socket.payload, e->socket.record.length - LANE_RECORD_SIZE); break;
    case RLT_EV_CLOSED: e->closed.lacked = text_kept(p, e->closed.lacked); break;
    case RLT_EV_EXITED: e->exited.last_line = text_kept(p, e->exited.last_line); break;
    case RLT_EV_LANE_FAILED: e->lane_failed.why = text_kept(p, e->lane_failed.why); break;
    case RLT_EV_UP: record_kept(p, &e->up); break;
    case RLT_EV_PROC_DRAINED: e->proc_drained.crash = text_kept(p, e->proc_drained.crash); break;
    case RLT_EV_UNDELIVERED: record_kept(p, &e->undelivered); break;
    case RLT_EV_OUT: e->out.bytes = bytes_kept(p, e->out.bytes, e->out.size); break;
    case RLT_EV_FILE_BYTES: e->file_bytes.bytes = bytes_kept(p, e->file_bytes.bytes, e->file_bytes.size); break;
    case RLT_EV_FILE_READY: e->file_ready.why = text_kept(p, e->file_ready.why); break;
    case RLT_EV_PROGRAM_LISTED:
        e->program_listed.files = bytes_kept(p, e->program_listed.files, e->program_listed.count * sizeof *e->program_listed.files);
        break;
    case RLT_EV_PROGRAM_OPENED: e->program_opened.remark = text_kept(p, e->program_opened.remark); break;
    case RLT_EV_PROGRAM_SENT: e->program_sent.why = text_kept(p, e->program_sent.why); break;
    case RLT_EV_ENV_MADE:
        e->env_made.folder = text_kept(p, e->env_made.folder);
        e->env_made.wrong = text_kept(p, e->env_made.wrong);
        break;
    case RLT_EV_JOB_STARTED: e->job_started.id = text_kept(p, e->job_started.id); break;
    case RLT_EV_JOB_FAILED:
        e->job_failed.id = text_kept(p, e->job_failed.id);
        e->job_failed.why = text_kept(p, e->job_failed.why);
        break;
    case RLT_EV_JOB_LOG: e->job_log.id = text_kept(p, e->job_log.id); break;
    case RLT_EV_JOB_TEXT:
        e->job_text.id = text_kept(p, e->job_text.id);
        e->job_text.bytes = bytes_kept(p, e->job_text.bytes, e->job_text.size);
        break;
    case RLT_EV_JOB_EXITED:
        e->job_exited.id = text_kept(p, e->job_exited.id);
        e->job_exited.loader = text_kept(p, e->job_exited.loader);
        break;
    case RLT_EV_MEMORY:
        e->memory.why = text_kept(p, e->memory.why);
        e->memory.once = bytes_kept(p, e->memory.once, e->memory.once_count * sizeof *e->memory.once);
        break;
    case RLT_EV_SHUTDOWN: e->shutdown.why = text_kept(p, e->shutdown.why); break;
    case RLT_EV_NOTICE: e->notice.why = text_kept(p, e->notice.why); break;
    case RLT_EV_TICK:
    case RLT_EV_ACCEPTED:
    case RLT_EV_SPAWNED:
    case RLT_EV_REGION_FAILED:
    case RLT_EV_UP_BROKEN:
    case RLT_EV_LANE_DRAINED:
    case RLT_EV_LANE_CLOSED:
    case RLT_EV_LANE_BROKEN:
    case RLT_EV_HEAD_UP:
    case RLT_EV_HEAD_DOWN:
    case RLT_EV_BEAT:
    case RLT_EV_PEER_OPEN:
    case RLT_EV_PEER_CLOSED:
    case RLT_EV_MOVED:
    case RLT_EV_LEFT:
    case RLT_EV_PEER_DOUBT: break;
    case RLT_EV_HEAD: /* both come packed: sim_node_packed */
    case RLT_EV_PEER_FRAME: break;
    }
}

static void pend(struct sim_node *n, const struct rlt_event *e)
{
    struct sim_pending p = {.e = *e};
    keep(&p);
    if (mt_vec_push(&n->pending, p).code)
        abort();
}

/* The connection that an event is about, for the trace; 0: none. */
static uint64_t conn_of_event(const struct rlt_event *e)
{
    switch (e->kind) {
    case RLT_EV_ACCEPTED: return e->accepted.conn;
    case RLT_EV_SOCKET: return e->socket.conn;
    case RLT_EV_CLOSED: return e->closed.conn;
    case RLT_EV_EXITED: return e->exited.conn;
    case RLT_EV_SPAWNED: return e->spawned.conn;
    case RLT_EV_UP: return e->up.conn;
    case RLT_EV_UP_BROKEN: return e->up_broken.conn;
    case RLT_EV_PROC_DRAINED: return e->proc_drained.conn;
    case RLT_EV_UNDELIVERED: return e->undelivered.conn;
    default: return 0;
    }
}

static uint64_t conn_of_action(const struct rlt_action *a)
{
    switch (a->kind) {
    case RLT_A_WELCOME: return a->welcome.conn;
    case RLT_A_SOCKET: return a->socket.conn;
    case RLT_A_CLOSE: return a->close.conn;
    case RLT_A_SPAWN_ZYGOTE: return a->spawn_zygote.conn;
    case RLT_A_FORK: return a->fork.worker;
    case RLT_A_WATCH: return a->watch.conn;
    case RLT_A_KILL: return a->kill.conn;
    case RLT_A_STATUS: return a->status.conn;
    case RLT_A_STRICT: return a->strict.conn;
    case RLT_A_LANE_RECALL: return a->lane_recall.owner;
    case RLT_A_SW_DOWN: return a->sw_down.conn;
    case RLT_A_SW_PROC_DRAIN: return a->sw_proc_drain.conn;
    case RLT_A_SW_LANE_OPEN: return a->sw_lane_open.conn;
    default: return 0;
    }
}

static void count_stats(struct sim_node *n)
{
    struct rlt_stats     now, *old = &n->stats;
    struct sim_counters *c = &n->s->counters;
    rlt_stats(n->core, &now);
    c->lease_granted += now.grants - old->grants;
    c->lease_recalled += now.recalls - old->recalls;
    c->lease_ended += now.ended - old->ended;
    c->lease_alone += now.granted_alone - old->granted_alone;
    c->drain_limit += now.is_limit_over && !old->is_limit_over;
    c->bounced += now.bounced - old->bounced;
    c->fenced += now.fenced - old->fenced;
    c->frame_replayed += now.replayed_frames - old->replayed_frames;
    *old = now;
}

/* I22. Leases are asked back one slice after the other, and what is granted to others can be asked back in its turn. */
static void check_kept(struct sim *s, struct sim_node *n, uint64_t turns)
{
    uint64_t patience;
    bool     keeps = rlt_keeps_room(n->core, &patience), was_long = n->is_kept_long;
    if (!keeps || !n->kept_since || n->stats.turns != turns)
        n->kept_since = s->now;
    n->is_kept_long = s->now - n->kept_since > SIM_S;
    s->room_kept += n->is_kept_long && !was_long;
    SIM_REQUIRE(s, s->now - n->kept_since <= patience + SIM_KEPT_S * SIM_S,
                "I22: node %d: somebody has waited for what is free for %llu ms", n->index,
                (unsigned long long)((s->now - n->kept_since) / SIM_MS));
}

static void tick_fired(struct sim *s, struct sim_event *e);

static void arm_tick(struct sim *s, struct sim_node *n)
{
    uint64_t at = rlt_deadline(n->core);
    if (at == UINT64_MAX || (n->tick_at && n->tick_at <= at && n->tick_at > s->now))
        return;
    if (at <= s->now)
        at = s->now + 1;
    n->tick_at = at;
    sim_after(s, at - s->now, "tick", tick_fired, n->serial);
}

static void step_one(struct sim *s, struct sim_node *n, struct sim_pending *p)
{
    uint64_t serial = n->serial;
    p->e.now = s->now;
    p->e.random = mt_rng_next(&s->rng);
    sim_note(s, "raylet", (uint64_t)p->e.kind | (uint64_t)n->index << 32, conn_of_event(&p->e));
    if (sim_store_record(n, &p->e))
        return;
    Manta__V1__HeadToNode *head = NULL;
    Manta__V1__Frame      *frame = NULL;
    if (p->e.kind == RLT_EV_HEAD)
        p->e.head.message = head = manta__v1__head_to_node__unpack(NULL, p->packed, p->copies[0]);
    else if (p->e.kind == RLT_EV_PEER_FRAME)
        p->e.peer_frame.frame = frame = manta__v1__frame__unpack(NULL, p->packed, p->copies[0]);
    rlt_actions_reset(&n->actions);
    rlt_step(n->core, &p->e, &n->actions);
    if (p->e.kind == RLT_EV_HEAD)
        sim_store_registered(n); /* it may have been the head's welcome */
    for (size_t i = 0; i < n->actions.count && n->serial == serial; i++) {
        if (n->crash_in && --n->crash_in == 0) {
            sim_node_crash(s, n);
            break;
        }
        sim_note(s, "action", (uint64_t)n->actions.data[i].kind, conn_of_action(&n->actions.data[i]));
        sim_node_act(s, n, &n->actions.data[i]);
    }
    if (head)
        manta__v1__head_to_node__free_unpacked(head, NULL);
    if (frame)
        manta__v1__frame__free_unpacked(frame, NULL);
    if (n->serial != serial)
        return;
    const char *broken = rlt_check(n->core);
    SIM_REQUIRE(s, !broken, "I7: node %d: %s", n->index, broken);
    uint64_t turns = n->stats.turns;
    count_stats(n);
    check_kept(s, n, turns);
}

static void work_off(struct sim *s, struct sim_node *n)
{
    uint64_t serial = n->serial;
    if (n->is_stepping || !serial || n->paused_until > s->now)
        return;
    n->is_stepping = true;
    while (n->serial == serial && n->pending_done < n->pending.count) {
        struct sim_pending p = n->pending.data[n->pending_done++];
        step_one(s, n, &p);
        pending_free(&p);
    }
    if (n->serial == serial) {
        n->pending.count = n->pending_done = 0;
        arm_tick(s, n);
    }
    n->is_stepping = false;
}

void sim_node_step(struct sim *s, struct sim_node *n, const struct rlt_event *e)
{
    pend(n, e);
    work_off(s, n);
}

void sim_node_packed(struct sim *s, struct sim_node *n, const struct rlt_event *e, const void *bytes, size_t size)
{
    struct sim_pending p = {.e = *e, .packed = size};
    bytes_kept(&p, bytes, size);
    if (mt_vec_push(&n->pending, p).code)
        abort();
    work_off(s, n);
}

static void tick_fired(struct sim *s, struct sim_event *e)
{
    struct sim_node *n = sim_node_of(s, e->target);
    if (!n || n->tick_at != s->now)
        return;
    n->tick_at = 0;
    sim_node_step(s, n, &(struct rlt_event){.kind = RLT_EV_TICK});
}

/* ---- the switch ------------------------------------------------------------------------------------------------------ */

static void sw_event(struct sw_out *out, const struct rlt_event *e)
{
    struct sim_node *n = mt_container_of(out, struct sim_node, sw_out);
    pend(n, e); /* stepped when the actions under way are done */
}

static void sw_wake(struct sw_out *out, struct lane_park *park)
{
    struct sim_node *n = mt_container_of(out, struct sim_node, sw_out);
    sim_wake(n->s, park);
}

static struct lane_park *switch_park(const struct sim_node *n)
{
    return (struct lane_park *)(void *)n->switch_park->base;
}

static void backlog_fired(struct sim *s, struct sim_event *e);

static void switch_fired(struct sim *s, struct sim_event *e)
{
    struct sim_node *n = sim_node_of(s, e->target);
    if (!n)
        return;
    if (n->paused_until > s->now) {
        sim_after(s, n->paused_until - s->now, "switch", switch_fired, n->serial);
        return;
    }
    n->switch_is_due = false;
    bool more = true;
    for (int i = 0; i < SIM_SWITCH_ROUNDS && more; i++)
        more = sw_poll(n->sw, &n->sw_out);
    if (!more) {
        lane_park_prepare(switch_park(n));
        if (sw_has_work(n->sw)) {
            lane_park_cancel(switch_park(n));
            more = true;
        }
    }
    if (more)
        sim_node_switch_wake(s, n);
    else if (sw_has_backlog(n->sw))
        sim_after(s, MT_SW_BACKLOG_US * SIM_US, "switch", backlog_fired, n->serial);
    work_off(s, n);
}

/* Something waits for room in a ring whose reader does not ring. */
static void backlog_fired(struct sim *s, struct sim_event *e)
{
    struct sim_node *n = sim_node_of(s, e->target);
    if (n)
        sim_node_switch_wake(s, n);
}

void sim_node_switch_wake(struct sim *s, struct sim_node *n)
{
    if (n->switch_is_due)
        return;
    n->switch_is_due = true;
    sim_after(s, sim_between(s, SIM_US, 20 * SIM_US), "switch", switch_fired, n->serial);
}

/* ---- connections -------------------------------------------------------------------------------------------------------- */

uint64_t sim_node_accept(struct sim *s, struct sim_node *n, struct sim_proc *p)
{
    uint64_t         conn = ++n->next_conn;
    struct sim_conn *c = sim_alloc(sizeof *c);
    c->conn = conn;
    c->proc = sim_proc_serial(p);
    c->is_open = true;
    if (mt_map_put_ptr(&n->conns, mt_map_key(conn), c).code)
        abort();
    sim_node_step(s, n, &(struct rlt_event){.kind = RLT_EV_ACCEPTED, .accepted = {.conn = conn, .pid = sim_proc_pid(p)}});
    return conn;
}

static void socket_arrived(struct sim *s, struct sim_event *e)
{
    struct sim_node *n = sim_node_of(s, e->target);
    struct sim_conn *c = n ? sim_conn_of(n, e->arg) : NULL;
    struct rlt_event ev = {.kind = RLT_EV_SOCKET, .socket = {.conn = e->arg, .fd = -1}};
    if (!c || !c->is_open)
        return;
    memcpy(&ev.socket.record, e->bytes, sizeof ev.socket.record);
    ev.socket.payload = e->bytes + LANE_RECORD_SIZE;
    if (e->fd > 0) {
        ev.socket.fd = sim_fd_new(s, n->serial);
        if (ev.socket.record.kind == CTL_FORKED &&
            mt_map_put_num(&n->pidfds, mt_map_key((uint64_t)ev.socket.fd), (uint64_t)e->fd).code)
            abort();
    }
    sim_node_step(s, n, &ev);
}

/* When a message sent now arrives: after a moment, and after those before it. */
static uint64_t in_order(struct sim *s, uint64_t *last)
{
    uint64_t at = s->now + sim_between(s, SIM_US, 30 * SIM_US);
    if (at <= *last)
        at = *last + 1;
    *last = at;
    return at - s->now;
}

void sim_node_socket(struct sim *s, struct sim_node *n, uint64_t conn, const struct lane_record *record, const void *payload,
                     int fd)
{
    struct sim_conn  *c = sim_conn_of(n, conn);
    struct sim_event *e;
    if (!c)
        return;
    e = sim_after(s, in_order(s, &c->up_at), "socket", socket_arrived, n->serial);
    e->arg = conn;
    e->size = record->length;
    e->bytes = sim_alloc(record->length + 8);
    memcpy(e->bytes, record, LANE_RECORD_SIZE);
    if (payload)
        memcpy(e->bytes + LANE_RECORD_SIZE, payload, record->length - LANE_RECORD_SIZE);
    e->fd = fd;
}

static void closed_arrived(struct sim *s, struct sim_event *e)
{
    struct sim_node *n = sim_node_of(s, e->target);
    struct sim_conn *c = n ? sim_conn_of(n, e->arg) : NULL;
    if (c && c->is_open)
        sim_node_step(s, n, &(struct rlt_event){.kind = RLT_EV_CLOSED, .closed = {.conn = e->arg}});
}

void sim_node_conn_closed(struct sim *s, struct sim_node *n, uint64_t conn)
{
    struct sim_conn *c = sim_conn_of(n, conn);
    if (c)
        sim_after(s, in_order(s, &c->up_at), "closed", closed_arrived, n->serial)->arg = conn;
}

static void exited_arrived(struct sim *s, struct sim_event *e)
{
    struct sim_node *n = sim_node_of(s, e->target);
    if (n && sim_conn_of(n, e->arg))
        sim_node_step(
            s, n, &(struct rlt_event){.kind = RLT_EV_EXITED, .exited = {.conn = e->arg, .has_status = e->size, .status = e->fd}});
}

void sim_node_exited(struct sim *s, struct sim_node *n, uint64_t conn, uint64_t late, bool has_status, int32_t status)
{
    struct sim_conn  *c = sim_conn_of(n, conn);
    struct sim_event *e;
    if (!c || !c->is_watched)
        return;
    e = sim_after(s, sim_between(s, SIM_US, late), "exited", exited_arrived, n->serial);
    e->arg = conn;
    e->size = has_status;
    e->fd = status;
}

/* ---- life ------------------------------------------------------------------------------------------------------------ */

static struct ctl_resource resource(const char *name, int64_t milli)
{
    struct ctl_resource r = {.milli = milli};
    snprintf(r.name, sizeof r.name, "%s", name);
    return r;
}

void sim_node_start(struct sim *s, struct sim_node *n)
{
    struct rlt_config config = {.resource_count = 3, .has_head = s->config.has_head};
#ifndef MANTA_PLANTS /* a planted bug is looked for by its seed */
    /* So few that leases wait for a process. Not where one node is all there is: parents that wait would hold all of them, and what
     * helps then, that they run their children themselves, is not in this world. */
    config.workers_max = s->config.seed % 4 || !s->config.has_head ? 0 : 6;
#endif
    if (n->serial || s->is_over)
        return;
    n->serial = sim_serial(s);
    n->lost = 0;
    n->is_restarting = false;
    n->is_ready = false;
    n->starts++;
    config.boot = mt_rng_next(&s->rng) | 1;
    n->boot = config.boot;
    n->found = n->disk;
    n->before = (struct rlt_before){n->found.boot, n->found.count, n->found.ends};
    config.before = n->found.boot && s->config.many_jobs ? &n->before : NULL;
    config.total[0] = resource("CPU", 2000 + 1000 * (n->index % 3));
    config.total[1] = resource("memory", INT64_C(8) << 30);
    config.total[2] = resource("G", 1500); /* for placement groups: any one of them fits */
    snprintf(config.node_name, sizeof config.node_name, "node%d", n->index);
    snprintf(config.labels, sizeof config.labels, "zone=z%d", n->index);
    snprintf(config.address, sizeof config.address, "10.0.0.%d:7000", n->index);
    snprintf(config.data_address, sizeof config.data_address, "10.0.0.%d:7001", n->index);
    snprintf(config.head_address, sizeof config.head_address, "10.0.0.100:7000");
    if (!s->config.has_head)
        config.node = config.epoch = 1;
    n->core = rlt_new(&config);
    n->sw = sw_new();
    if (!n->core || !n->sw)
        abort();
    n->sw_out = (struct sw_out){.event = sw_event, .wake = sw_wake};
    n->switch_park = sim_mem_new(s, sizeof(struct lane_park));
    n->switch_park->owner = n->serial;
    if (mt_map_put_ptr(&s->parks, mt_map_key((uintptr_t)n->switch_park->base), n->switch_park).code)
        abort();
    memset(&n->stats, 0, sizeof n->stats);
    n->paused_until = n->tick_at = n->kept_since = n->crash_in = 0;
    n->switch_is_due = false;
    s->counters.raylet_restarted += n->starts > 1;
    sim_note(s, "raylet starts", (uint64_t)n->index, n->serial);
    sim_store_start(s, n);
    sim_node_step(s, n, &(struct rlt_event){.kind = RLT_EV_TICK});
    sim_node_switch_wake(s, n);
    if (s->config.has_head)
        sim_net_node_up(s, n);
}

static void tables_free(struct sim *s, struct sim_node *n)
{
    MT_MAP_EACH(&n->conns, entry) {
        struct sim_conn *c = entry->value.ptr;
        sim_mem_unref(s, c->lane);
        sim_mem_unref(s, c->park);
        sim_mem_unref(s, c->pins);
        free(c);
    }
    MT_MAP_EACH(&n->lanes, entry)
        sim_mem_unref(s, entry->value.ptr);
    mt_map_fini(&n->conns);
    mt_map_fini(&n->lanes);
    mt_map_fini(&n->regions);
    mt_map_fini(&n->pidfds);
    MT_MAP_EACH(&n->programs, entry)
        free(entry->value.ptr);
    mt_map_fini(&n->programs);
    for (size_t i = n->pending_done; i < n->pending.count; i++)
        pending_free(&n->pending.data[i]);
    n->pending.count = n->pending_done = 0;
}

static void node_end(struct sim *s, struct sim_node *n)
{
    uint64_t serial = n->serial;
    sim_procs_of_node_die(s, n);
    sim_store_stop(n);
    n->serial = 0;
    if (s->config.has_head)
        sim_net_node_down(s, n, serial);
    MT_MAP_EACH(&s->fds, entry)
        if (entry->value.num == serial)
            mt_map_remove(&s->fds, entry->key);
    tables_free(s, n);
    sw_free(n->sw);
    rlt_free(n->core);
    n->sw = NULL;
    n->core = NULL;
    sim_mem_unref(s, n->switch_park);
    n->switch_park = NULL;
}

void sim_node_crash(struct sim *s, struct sim_node *n)
{
    if (!n->serial)
        return;
    sim_note(s, "raylet crashes", (uint64_t)n->index, n->serial);
    node_end(s, n);
}

static void pause_over(struct sim *s, struct sim_event *e)
{
    struct sim_node *n = sim_node_of(s, e->target);
    if (n)
        work_off(s, n);
}

void sim_node_pause(struct sim *s, struct sim_node *n, uint64_t for_ns)
{
    if (!n->serial || n->paused_until > s->now)
        return;
    n->paused_until = s->now + for_ns;
    n->kept_since = 0;
    sim_after(s, for_ns, "goes on", pause_over, n->serial);
}

void sim_node_new(struct sim *s, int index)
{
    struct sim_node *n = sim_alloc(sizeof *n);
    n->s = s;
    n->index = index;
    s->nodes[index] = n;
    sim_node_start(s, n);
}

void sim_node_check_empty(struct sim *s, struct sim_node *n)
{
    struct rlt_stats st;
    if (!n->serial)
        return;
    rlt_stats(n->core, &st);
    SIM_REQUIRE(s, st.processes == 0 && st.workers == 0 && st.jobs == 0, "I6: node %d keeps %u processes, %u workers, %u jobs",
                n->index, st.processes, st.workers, st.jobs);
    SIM_REQUIRE(s, st.leases == 0 && st.lanes == 0, "I6: node %d keeps %u leases, %u lanes", n->index, st.leases, st.lanes);
    SIM_REQUIRE(s, st.monitors == 0 && st.regions == 0, "I6: node %d keeps %u monitors, %u regions", n->index, st.monitors,
                st.regions);
    for (uint32_t i = 0; i < st.resource_count; i++)
        SIM_REQUIRE(s, st.leased[i] == 0, "I7: node %d still has resource %u leased", n->index, i);
    SIM_REQUIRE(s, n->conns.count == 0 && n->lanes.count == 0 && n->regions.count == 0,
                "I6: node %d: the shell keeps %u sockets, %u lanes, %u regions", n->index, n->conns.count, n->lanes.count,
                n->regions.count);
    uint32_t warm = sim_store_check_empty(s, n), kept = 0;
    MT_MAP_EACH(&s->fds, entry)
        kept += entry->value.num == n->serial;
    SIM_REQUIRE(s, kept == warm, "I6: node %d keeps %u descriptors, of which %u are of warm segments", n->index, kept, warm);
}

void sim_node_dump(struct sim *s)
{
    for (int i = 0; i < s->config.nodes; i++) {
        struct sim_node *n = s->nodes[i];
        struct rlt_stats st;
        if (!n->serial) {
            printf("  node %d is down\n", i);
            continue;
        }
        rlt_stats(n->core, &st);
        printf("  node %d (number %u, epoch %u): processes %u workers %u idle %u starting %u jobs %u leases %u lanes %u "
               "CPU free %lld of %lld\n",
               i, st.node, st.epoch, st.processes, st.workers, st.idle_workers, st.starting_workers, st.jobs, st.leases, st.lanes,
               (long long)st.free[0], (long long)st.total[0]);
    }
}

void sim_node_free(struct sim *s, struct sim_node *n)
{
    if (!n)
        return;
    if (n->serial)
        node_end(s, n);
    mt_vec_fini(&n->pending);
    rlt_actions_fini(&n->actions);
    free(n);
}
