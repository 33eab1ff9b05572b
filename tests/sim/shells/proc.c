/* SPDX-License-Identifier: Apache-2.0
 *
 * proc.c - the shells of zygotes, workers and drivers: what libmanta's own shell does with sockets, rings and
 * sleeping, on virtual time.
 *
 * Owns: every struct sim_proc. Thread: one.
 * Always: a process acts in turns; between two of them it sleeps in its park page, polls, or computes. It may die between
 * any two steps of a turn (sim_proc_step), and then nothing of it happens any more.
 */
#include "tests/sim/shells/proc.h"

#include "tests/sim/shells/node.h"

#include <signal.h>

enum { SIM_CELLS = 24, SIM_TICK_NS = 1000 * 1000, SIM_BUSY_NS = 8 * SIM_TICK_NS, SIM_SLEEP_NS = 500 * 1000 * 1000 };

static void turn_fired(struct sim *s, struct sim_event *e);
static void greets(struct sim *s, struct sim_event *e);
static void hung_up(struct sim *s, struct sim_event *e);

uint64_t sim_proc_serial(const struct sim_proc *p)
{
    return p->serial;
}

int32_t sim_proc_pid(const struct sim_proc *p)
{
    return p->pid;
}

struct sim_proc *sim_proc_of(struct sim *s, uint64_t serial)
{
    return serial ? mt_map_ptr(&s->procs, mt_map_key(serial)) : NULL;
}

static struct sim_proc *proc_new(struct sim *s, struct sim_node *n, enum ctl_role role, uint64_t job)
{
    struct sim_proc *p = sim_alloc(sizeof *p);
    p->s = s;
    p->serial = sim_serial(s);
    p->n = n;
    p->role = role;
    p->job = job;
    p->process = mt_rng_next(&s->rng) | 1;
    if (mt_map_put_ptr(&s->procs, mt_map_key(p->serial), p).code)
        abort();
    return p;
}

static void turn_at(struct sim_proc *p, uint64_t at)
{
    struct sim *s = p->s;
    if (at < p->paused_until)
        at = p->paused_until;
    if (p->turn_at && p->turn_at <= at)
        return;
    p->turn_at = at;
    sim_after(s, at - s->now, "turn", turn_fired, p->serial);
}

void sim_proc_wake(struct sim *s, uint64_t serial)
{
    struct sim_proc *p = sim_proc_of(s, serial);
    if (p)
        turn_at(p, s->now + sim_between(s, 2 * SIM_US, 40 * SIM_US));
}

/* ---- dying ------------------------------------------------------------------------------------------------------- */

static void message_free(struct sim *s, struct sim_message *m)
{
    free(m->payload);
    sim_mem_unref(s, m->mem[0]);
    sim_mem_unref(s, m->mem[1]);
}

static void child_reaped(struct sim *s, struct sim_event *e)
{
    struct sim_proc      *zygote = sim_proc_of(s, e->target);
    struct ctl_child_exit exit = {.pid = e->fd, .status = (int32_t)e->arg};
    struct lane_record    record = {.length = LANE_RECORD_SIZE + sizeof exit, .kind = CTL_CHILD_EXIT};
    if (!zygote)
        return;
    if (zygote->paused_until > s->now) {
        struct sim_event *again = sim_after(s, zygote->paused_until - s->now, "reap", child_reaped, zygote->serial);
        again->arg = e->arg;
        again->fd = e->fd;
        return;
    }
    sim_node_socket(s, zygote->n, zygote->conn, &record, &exit, -1);
}

static void children_die(struct sim_proc *zygote)
{
    struct sim *s = zygote->s;
    for (size_t i = 0; i < zygote->children.count; i++) {
        struct sim_proc *child = sim_proc_of(s, zygote->children.data[i]);
        if (child)
            sim_proc_kill(s, child, SIGKILL);
    }
    mt_vec_fini(&zygote->children);
    for (size_t i = 0; i < zygote->inbox.count; i++) /* sockets of children that it has not forked */
        if (zygote->inbox.data[i].fork_conn)
            sim_node_conn_closed(s, zygote->n, zygote->inbox.data[i].fork_conn);
}

static void proc_free(struct sim_proc *p)
{
    struct sim *s = p->s;
    if (p->role != CTL_ZYGOTE && p->is_ready) {
        sim_objects_gone(p);
        sim_hold_gone(p);
        own_fini(&p->own);
        wrk_fini(&p->wrk);
    }
    for (size_t i = 0; i < p->inbox.count; i++)
        message_free(s, &p->inbox.data[i]);
    for (size_t i = 0; i < p->mappings.count; i++) {
        sim_mem_unref(s, p->mappings.data[i].lane);
        sim_mem_unref(s, p->mappings.data[i].park);
    }
    sim_mem_unref(s, p->lane);
    sim_mem_unref(s, p->park);
    sim_mem_unref(s, p->switch_park);
    sim_mem_unref(s, p->board);
    for (size_t i = 0; i < p->boards.count; i++)
        sim_mem_unref(s, p->boards.data[i].memory);
    mt_vec_fini(&p->boards);
    mt_vec_fini(&p->inbox);
    mt_vec_fini(&p->mappings);
    mt_vec_fini(&p->script.items);
    mt_vec_fini(&p->script.streams);
    free(p);
}

/* The process is gone at once; the raylet hears of it in its own time, by its socket and its zygote. A child of its own may have
 * the socket still, and the zygote be stopped: then by neither, but the raylet looks for itself. */
static void proc_die(struct sim_proc *p, int signal)
{
    struct sim      *s = p->s;
    struct sim_proc *zygote = sim_proc_of(s, p->zygote);
    sim_note(s, "process dies", p->serial, (uint64_t)signal);
    mt_map_remove(&s->procs, mt_map_key(p->serial));
    if (mt_map_put_num(&s->died_at, mt_map_key(p->process), s->now).code)
        abort();
    if (p->role == CTL_ZYGOTE)
        children_die(p);
    sim_oracle_owner_died(s, p->serial);
    if (p->role == CTL_DRIVER)
        sim_driver_gone(p);
    bool is_socket_held = zygote && sim_chance(s, 100 * 1000) && s->now < s->config.faults_until;
    if (mt_map_put_num(&s->died_on, mt_map_key(p->process), is_socket_held ? 0 : sim_node_serial(p->n)).code)
        abort();
    if (!is_socket_held)
        sim_node_conn_closed(s, p->n, p->conn);
    sim_node_exited(s, p->n, p->conn, zygote ? MT_RLT_LOOK_ROUND_MS * SIM_MS : 300 * SIM_US, p->role == CTL_ZYGOTE, signal);
    if (zygote) {
        struct sim_event *e = sim_after(s, sim_between(s, SIM_US, 200 * SIM_US), "reap", child_reaped, zygote->serial);
        e->fd = p->pid;
        e->arg = (uint64_t)(uint32_t)signal;
    }
    proc_free(p);
}

void sim_proc_kill(struct sim *s, struct sim_proc *p, int signal)
{
    (void)s;
    if (p->in_turn)
        p->killed_in_turn = signal;
    else
        proc_die(p, signal);
}

bool sim_proc_step(struct sim_proc *p)
{
    if (p->crash_in && --p->crash_in == 0) {
        p->s->counters.kill_worker_step++;
        p->killed_in_turn = SIGKILL;
    }
    return p->killed_in_turn != 0;
}

void sim_procs_of_node_die(struct sim *s, struct sim_node *n)
{
    MT_MAP_EACH(&s->procs, entry) {
        struct sim_proc *p = entry->value.ptr;
        if (p->n == n && p->role != CTL_WORKER) /* workers go with their zygote */
            sim_proc_kill(s, p, SIGKILL);
    }
}

void sim_proc_exit(struct sim_proc *p)
{
    if (p->is_ready && p->role != CTL_ZYGOTE) {
        struct ctl_reply   bye = {.code = MT_OK};
        struct lane_record record = {.length = LANE_RECORD_SIZE + sizeof bye, .kind = CTL_SHUTDOWN};
        if (lane_ring_push(&p->up, &record, &bye))
            lane_ring_publish(&p->up);
    }
    if (!p->killed_in_turn)
        p->killed_in_turn = -1; /* exit status 0 */
}

/* ---- the socket -------------------------------------------------------------------------------------------------- */

void sim_proc_socket(struct sim *s, uint64_t serial, const struct lane_record *record, const void *payload,
                     struct sim_mem *const mem[2], uint64_t fork_conn)
{
    struct sim_proc   *p = sim_proc_of(s, serial);
    struct sim_message m = {.record = *record, .mem = {mem[0], mem[1]}, .fork_conn = fork_conn};
    size_t             size = record->length - LANE_RECORD_SIZE;
    if (!p) {
        message_free(s, &m);
        return;
    }
    m.payload = sim_alloc(size + 8);
    memcpy(m.payload, payload, size);
    if (mt_vec_push(&p->inbox, m).code)
        abort();
    if (!p->is_ready || !p->park) {
        turn_at(p, s->now + SIM_US);
        return;
    }
    struct lane_park *park = (struct lane_park *)(void *)p->park->base;
    shm_add32(&park->socket_count, 1);
    if (lane_park_must_wake(park))
        sim_wake(s, park);
}

/* A driver without its raylet asks what became of each call: "not done" must stay true. */
static void withdraw_all(struct sim *s, struct sim_proc *p)
{
    for (size_t i = 0; i < p->own.lanes.count; i++)
        for (int slot = 0; slot < LANE_SLOTS; slot++) {
            const struct own_task *task = p->own.lanes.data[i]->tasks[slot];
            struct sim_task       *known = task ? sim_oracle_task(s, task->id) : NULL;
            if (!known || !own_task_withdraw(task))
                continue;
            SIM_REQUIRE(s, !known->executions, "I3: a task has run, and its owner, whose raylet is gone, is told that it has not");
            known->must_not_run = true;
            s->counters.task_withdrawn++;
        }
}

void sim_proc_socket_closed(struct sim *s, uint64_t serial)
{
    struct sim_proc *p = sim_proc_of(s, serial);
    if (p && p->role == CTL_DRIVER)
        withdraw_all(s, p);
    if (p) /* a worker without its raylet exits; a driver's calls all fail from here on */
        sim_proc_kill(s, p, SIGKILL);
}

static void say_hello(struct sim_proc *p)
{
    static const char  strings[] = "driver\0/home";
    struct ctl_hello   hello = {.magic = CTL_MAGIC,
                                .version_min = mt_release.wire.min,
                                .version_max = mt_release.wire.max,
                                .role = p->role,
                                .process = p->process,
                                .job = p->job,
                                .argc = 1,
                                .strings_size = sizeof strings};
    struct lane_record record = {.kind = CTL_HELLO, .id = mt_id_make(p->process, 1, 0)};
    uint8_t            bytes[sizeof hello + sizeof strings];
    size_t             size = p->role == CTL_DRIVER ? sizeof bytes : sizeof hello;
    if (p->role != CTL_DRIVER)
        hello.argc = hello.strings_size = 0;
    memcpy(bytes, &hello, sizeof hello);
    memcpy(bytes + sizeof hello, strings, sizeof strings);
    record.length = (uint32_t)(LANE_RECORD_SIZE + size);
    sim_node_socket(p->s, p->n, p->conn, &record, bytes, p->role == CTL_DRIVER ? 1 : -1);
}

/* A driver gives its raylet an environment with a variable and an archive. It uses the key once that has been answered. */
static void give_env(struct sim_proc *p)
{
    static const char strings[] = "V=1";
    struct ctl_env    env = {
           .key = p->process ^ SIM_ENV_MIX,
           .flags = CTL_ENV_CHDIR,
           .strings_size = sizeof strings,
           .archive_size = SIM_PROGRAM_BYTES,
    };
    struct lane_record record = {.kind = CTL_ENV, .id = mt_id_make(p->process, SIM_ENV_REQUEST, 0)};
    uint8_t            bytes[sizeof env + sizeof strings];
    memcpy(bytes, &env, sizeof env);
    memcpy(bytes + sizeof env, strings, sizeof strings);
    record.length = (uint32_t)(LANE_RECORD_SIZE + sizeof bytes);
    sim_node_socket(p->s, p->n, p->conn, &record, bytes, 1);
}

void sim_proc_welcome(struct sim *s, uint64_t serial, const struct lane_record *record, const void *payload,
                      struct sim_mem *const mem[3], struct sim_mem *switch_park)
{
    struct sim_proc   *p = sim_proc_of(s, serial);
    struct ctl_welcome w;
    (void)record;
    if (!p)
        return;
    memcpy(&w, payload, sizeof w);
    SIM_REQUIRE(s, w.code == MT_OK, "a process is refused: %s", w.text);
    p->is_ready = true;
    if (p->role == CTL_ZYGOTE) {
        turn_at(p, s->now + SIM_US);
        return;
    }
    p->lane = sim_mem_ref(mem[0]);
    p->park = sim_mem_ref(mem[1]);
    p->switch_park = switch_park ? sim_mem_ref(switch_park) : NULL;
    struct lane_header *h = lane_header_of(p->lane->base);
    lane_producer_init(&p->up, &h->forward, lane_forward_of(p->lane->base));
    lane_consumer_init(&p->down, &h->back, lane_back_of(p->lane->base));
    own_init(&p->own, p->process, w.node, w.epoch, w.job);
    p->own.now_ns = s->now;
    p->own.edges.short_ns = UINT64_MAX; /* here no task is short */
    wrk_init(&p->wrk, w.epoch);
    wrk_tie(&p->wrk, &p->own);
    sim_objects_welcome(p, &w, mem[2]);
    if (p->role == CTL_DRIVER)
        give_env(p);
    turn_at(p, s->now + SIM_US);
}

/* ---- control records --------------------------------------------------------------------------------------------- */

static void replied(struct sim_proc *p, const struct lane_record *record, const uint8_t *payload)
{
    const struct own_request *request = mt_map_ptr(&p->own.requests, record->id);
    struct ctl_reply          reply;
    memcpy(&reply, payload, sizeof reply);
    if (record->id.process == p->process && mt_id_counter(record->id) == SIM_ENV_REQUEST) {
        SIM_REQUIRE(p->s, reply.code == MT_OK, "an environment is refused: %s", reply.text);
        p->env = p->process ^ SIM_ENV_MIX;
    } else if (request && request->kind == OWN_REQUEST_NAME)
        sim_oracle_name_answered(p->s, request->actor, reply.code);
    else if (p->role == CTL_DRIVER)
        sim_driver_replied(p, record->id, &reply, payload + sizeof reply, record->length - LANE_RECORD_SIZE - sizeof reply);
}

static void control(struct sim_proc *p, const struct lane_record *record, const uint8_t *payload, struct sim_mem *const mem[2])
{
    struct sim       *s = p->s;
    void             *lane_at = mem[0] ? mem[0]->base : NULL;
    struct lane_park *park_at = mem[1] ? (struct lane_park *)(void *)mem[1]->base : NULL;
    mt_status         st = mt_ok();
    if (sim_objects_control(p, record, payload, mem))
        return;
    if (mem[0]) {
        struct sim_mapping mapping = {sim_mem_ref(mem[0]), sim_mem_ref(mem[1])};
        if (mt_vec_push(&p->mappings, mapping).code)
            abort();
    }
    s->counters.death_news += record->kind == CTL_DEATH;
    if (record->kind == CTL_GRANT) {
        struct ctl_grant grant;
        memcpy(&grant, payload, sizeof grant);
        s->counters.remote_lease += (grant.flags & CTL_GRANT_REMOTE) != 0;
    }
    if (record->kind == CTL_REPLY && record->length >= LANE_RECORD_SIZE + sizeof(struct ctl_reply))
        replied(p, record, payload);
    if (record->kind == CTL_SHUTDOWN) {
        sim_proc_exit(p);
        return;
    }
    if (record->kind == CTL_LANE) {
        struct ctl_grant grant;
        memcpy(&grant, payload, sizeof grant);
        if (!p->wrk.lanes.count)
            p->group = grant.group;
        p->is_strict |= (grant.flags & CTL_CLASS_STRICT) != 0;
    }
    if (record->kind == CTL_LANE || (record->kind == CTL_RECALL && p->role == CTL_WORKER))
        st = wrk_control(&p->wrk, record, payload, lane_at, park_at);
    if (st.code == MT_OK && record->kind != CTL_LANE)
        st = own_control(&p->own, record, payload, lane_at, park_at);
    SIM_REQUIRE(s, st.code == MT_OK, "the raylet broke the protocol with a process: %s", st.what);
}

static void socket_drain(struct sim_proc *p)
{
    for (size_t i = 0; i < p->inbox.count && !p->killed_in_turn; i++) {
        struct sim_message m = p->inbox.data[i];
        control(p, &m.record, m.payload, m.mem);
        message_free(p->s, &m);
        memset(&p->inbox.data[i], 0, sizeof m);
        sim_proc_step(p);
    }
    p->inbox.count = 0;
}

static void down_drain(struct sim_proc *p)
{
    struct lane_record record;
    const uint8_t     *payload;
    uint64_t           copy[LANE_RECORD_MAX / 8];
    bool               found = true;
    while (!p->killed_in_turn) {
        SIM_REQUIRE(p->s, lane_ring_peek(&p->down, &record, &payload, &found).code == MT_OK, "a down ring is broken");
        if (!found)
            break;
        memcpy(copy, payload, record.length - LANE_RECORD_SIZE);
        socket_drain(p);
        lane_ring_consume(&p->down);
        control(p, &record, (const uint8_t *)copy, (struct sim_mem *const[2]){NULL, NULL});
        sim_proc_step(p);
    }
    lane_ring_release(&p->down);
}

/* ---- what the halves want done ----------------------------------------------------------------------------------- */

static void unmap(struct sim_proc *p, void *lane)
{
    for (size_t i = 0; i < p->mappings.count; i++) {
        struct sim_mapping m = p->mappings.data[i];
        if (m.lane->base != lane)
            continue;
        mt_vec_remove_swap(&p->mappings, i);
        sim_mem_unref(p->s, m.lane);
        sim_mem_unref(p->s, m.park);
        return;
    }
    SIM_REQUIRE(p->s, false, "I6: a lane is unmapped that is not mapped");
}

static void send_up(struct sim_proc *p, mt_buf *up)
{
    size_t at = 0;
    while (at < up->size) {
        struct lane_record record;
        memcpy(&record, up->data + at, sizeof record);
        if (!lane_ring_push(&p->up, &record, up->data + at + LANE_RECORD_SIZE))
            break;
        at += lane_record_padded(record.length);
    }
    if (!at)
        return;
    memmove(up->data, up->data + at, up->size - at);
    up->size -= at;
    if (sim_proc_step(p))
        return; /* written, never published */
    lane_ring_publish(&p->up);
    struct lane_park *park = p->switch_park ? (struct lane_park *)(void *)p->switch_park->base : NULL;
    if (park && lane_park_must_wake(park))
        sim_wake(p->s, park);
}

static void act(struct sim_proc *p, struct own_out *out)
{
    if (out->up.size)
        send_up(p, &out->up);
    for (uint32_t i = 0; i < out->wake_count && !p->killed_in_turn; i++) {
        sim_wake(p->s, out->wake[i]);
        sim_proc_step(p);
    }
    out->wake_count = 0;
    for (size_t i = 0; i < out->unmap.count; i++)
        unmap(p, out->unmap.data[i]);
    out->unmap.count = 0;
    out->deaths.count = 0;
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

static void fork_child(struct sim_proc *zygote, const struct sim_message *m)
{
    struct sim        *s = zygote->s;
    struct sim_conn   *c = sim_conn_of(zygote->n, m->fork_conn);
    struct ctl_fork    fork;
    struct ctl_forked  forked = {0};
    struct lane_record record = {.length = LANE_RECORD_SIZE + sizeof forked, .kind = CTL_FORKED};
    uint64_t           pidfd = 0;
    memcpy(&fork, m->payload, sizeof fork);
    forked.token = fork.token;
    if (!s->is_healed && sim_chance(s, 3000)) {
        s->counters.fork_failed++;
        s->counters.fault_total++;
        forked.pid = -11; /* EAGAIN */
        sim_node_conn_closed(s, zygote->n, m->fork_conn);
    } else {
        struct sim_proc *p = proc_new(s, zygote->n, CTL_WORKER, zygote->job);
        p->pid = ++s->next_pid;
        p->zygote = zygote->serial;
        p->env_in = zygote->env_in;
        p->conn = m->fork_conn;
        forked.pid = p->pid;
        pidfd = p->serial;
        if (mt_vec_push(&zygote->children, p->serial).code)
            abort();
        if (c) {
            c->proc = p->serial;
            say_hello(p);
        } else {
            sim_after(s, SIM_US, "hang up", hung_up, p->serial); /* the raylet has closed its end already */
        }
    }
    sim_node_socket(s, zygote->n, zygote->conn, &record, &forked, pidfd ? (int)pidfd : -1);
}

static void zygote_turn(struct sim_proc *p)
{
    for (size_t i = 0; i < p->inbox.count; i++) {
        struct sim_message m = p->inbox.data[i];
        if (m.record.kind == CTL_FORK)
            fork_child(p, &m);
        else if (m.record.kind == CTL_SHUTDOWN)
            sim_proc_exit(p);
        message_free(p->s, &m);
    }
    p->inbox.count = 0;
}

static bool has_work(struct sim_proc *p)
{
    if (p->inbox.count || lane_ring_has_more(&p->down))
        return true;
    for (size_t i = 0; i < p->own.lanes.count; i++)
        if (p->own.lanes.data[i]->state != OWN_LANE_BROKEN && lane_ring_has_more(&p->own.lanes.data[i]->back))
            return true;
    return !p->run.is_active && wrk_has_work(&p->wrk);
}

/* Sleeps in the park page until something comes, or until the next thing that is due. */
static void go_to_sleep(struct sim_proc *p)
{
    struct sim       *s = p->s;
    struct lane_park *park = (struct lane_park *)(void *)p->park->base;
    uint64_t          due = sim_work_due(p);
    bool              is_busy = p->own.outstanding || p->run.is_waiting || p->script.items.count || p->script.streams.count;
    uint64_t          tick = s->now + (is_busy ? sim_between(s, SIM_TICK_NS, SIM_BUSY_NS) : SIM_SLEEP_NS);
    if (sim_chance(s, 200000)) { /* polls for a while */
        shm_store32(&park->state, LANE_HUNGRY);
        turn_at(p, s->now + sim_between(s, SIM_US, 20 * SIM_US));
        return;
    }
    lane_park_prepare(park);
    if (has_work(p)) {
        lane_park_cancel(park);
        turn_at(p, s->now + SIM_US);
        return;
    }
    turn_at(p, due < tick ? (due > s->now ? due : s->now + 1) : tick);
}

/* Stopped by its timer, until its raylet continues it. */
static void freeze(struct sim_proc *p)
{
    p->is_frozen = true;
    p->s->counters.strict_frozen++;
}

void sim_proc_strict(struct sim *s, uint64_t serial, uint64_t until)
{
    struct sim_proc *p = sim_proc_of(s, serial);
    if (!p || until <= s->now)
        return;
    if (p->actor)
        sim_oracle_may_run(p->s, p->actor, p->actor_incarnation);
    p->strict_until = until;
    if (p->is_frozen && !sim_proc_is_frozen(p)) {
        p->is_frozen = false;
        p->s->counters.strict_continued++;
        turn_at(p, p->s->now + 1);
    }
}

/* The board of an owner on another node, as raylet/core/procs/region.c has it: one for all who serve him on this node. */
static struct sim_mem *far_board(struct sim_proc *p, uint64_t owner)
{
    MT_MAP_EACH(&p->s->procs, entry) {
        struct sim_proc *other = entry->value.ptr;
        for (size_t i = 0; other->n == p->n && i < other->boards.count; i++)
            if (other->boards.data[i].owner == owner)
                return sim_mem_ref(other->boards.data[i].memory);
    }
    return sim_mem_new(p->s, SIM_CELLS * LANE_CELL_BYTES);
}

static void board_map(struct sim_proc *p, const struct wrk_lane *lane)
{
    struct sim            *s = p->s;
    bool                   is_far = lane->board_asked & LANE_BOARD_FAR;
    const struct sim_proc *owner = sim_proc_of(s, lane->board_asked);
    struct sim_board       board = {.owner = is_far ? lane->owner : 0};
    struct wrk_board       mapped = {.count = SIM_CELLS};
    if (sim_chance(s, 50000))
        s->counters.cell_refused++;
    else if (is_far)
        board.memory = far_board(p, lane->owner);
    else if (owner && owner->board)
        board.memory = sim_mem_ref(owner->board);
    if (board.memory && mt_vec_push(&p->boards, board).code)
        abort();
    mapped.memory = board.memory ? board.memory->base : NULL;
    wrk_board_open(&p->wrk, lane->lease, &mapped);
}

/* As shell/wait/board.c; some raylets have no memory for it. */
static void board_turn(struct sim_proc *p)
{
    struct sim            *s = p->s;
    const struct wrk_lane *lane;
    if (p->own.edges.is_wanted && !p->board) {
        p->board = sim_mem_new(s, SIM_CELLS * LANE_CELL_BYTES);
        SIM_REQUIRE(s, own_edges_open(&p->own, p->board->base, (uint32_t)p->serial, SIM_CELLS), "cells found no memory");
    }
    while ((lane = wrk_board_asked(&p->wrk)))
        board_map(p, lane);
    for (size_t i = 0; i < p->wrk.boards_gone.count; i++)
        for (size_t k = 0; k < p->boards.count; k++)
            if (p->boards.data[k].memory->base == p->wrk.boards_gone.data[i].memory) {
                sim_mem_unref(s, p->boards.data[k].memory);
                mt_vec_remove_swap(&p->boards, k);
                break;
            }
    p->wrk.boards_gone.count = 0;
}

static void process_turn(struct sim_proc *p)
{
    struct sim *s = p->s;
    socket_drain(p);
    if (!p->killed_in_turn)
        down_drain(p);
    if (!p->killed_in_turn && sim_proc_is_frozen(p)) {
        freeze(p); /* it has just become a strict actor's: the head has not said yet that it may begin */
        return;
    }
    if (!p->killed_in_turn)
        own_poll(&p->own);
    if (!sim_proc_step(p) && s->now - p->ticked_at >= SIM_TICK_NS) {
        p->ticked_at = s->now;
        own_tick(&p->own, s->now);
        const char *wrong = s->now / SIM_TICK_NS % 4 == 0 ? own_check(&p->own) : NULL; /* each time: a third more */
        SIM_REQUIRE(s, !wrong, "the owner's state: %s", wrong);
        sim_objects_tick(p);
    }
    if (!p->killed_in_turn)
        board_turn(p);
    if (!sim_proc_step(p)) {
        if (p->role == CTL_DRIVER)
            sim_driver_work(p);
        else
            sim_worker_work(p);
        if (p->role == CTL_WORKER && !p->killed_in_turn)
            sim_hold_work(p);
    }
    if (!sim_proc_step(p)) {
        own_settle_posted(&p->own);
        own_flush(&p->own);
        wrk_watch_ahead(&p->wrk);
        wrk_flush(&p->wrk);
    }
    if (!sim_proc_step(p))
        act(p, &p->own.out);
    if (!sim_proc_step(p))
        act(p, &p->wrk.out);
    if (!p->killed_in_turn && p->wrk.is_over)
        sim_proc_exit(p);
    if (!p->killed_in_turn)
        go_to_sleep(p);
}

static void turn_fired(struct sim *s, struct sim_event *e)
{
    struct sim_proc *p = sim_proc_of(s, e->target);
    if (!p || p->turn_at != s->now)
        return;
    p->turn_at = 0;
    if (p->paused_until > s->now) {
        turn_at(p, p->paused_until);
        return;
    }
    if (!p->is_ready || p->is_frozen)
        return;
    if (sim_proc_is_frozen(p)) {
        freeze(p);
        return;
    }
    p->in_turn = true;
    if (p->role == CTL_ZYGOTE) {
        zygote_turn(p);
    } else {
        struct lane_park *park = (struct lane_park *)(void *)p->park->base;
        shm_store32(&park->state, LANE_BUSY);
        process_turn(p);
    }
    p->in_turn = false;
    if (p->killed_in_turn)
        proc_die(p, p->killed_in_turn < 0 ? 0 : p->killed_in_turn);
}

/* ---- beginnings -------------------------------------------------------------------------------------------------- */

void sim_driver_start(struct sim *s, struct sim_node *n, bool is_late)
{
    struct sim_proc *p = proc_new(s, n, CTL_DRIVER, mt_rng_next(&s->rng) | 1);
    p->script.is_late = is_late;
    p->pid = ++s->next_pid;
    p->script.ops_left = s->config.ops;
    s->drivers_started++;
    s->drivers_alive++;
    uint64_t serial = p->serial, conn = sim_node_accept(s, n, p);
    if ((p = sim_proc_of(s, serial))) { /* the raylet may end in that very step */
        p->conn = conn;
        say_hello(p);
    }
}

uint64_t sim_zygote_start(struct sim *s, struct sim_node *n, uint64_t conn, uint64_t job, uint64_t env, int32_t pid)
{
    struct sim_proc *p = proc_new(s, n, CTL_ZYGOTE, job);
    p->env_in = env;
    p->pid = pid;
    p->conn = conn;
    sim_conn_of(n, conn)->proc = p->serial;
    sim_after(s, sim_between(s, 200 * SIM_US, 2 * SIM_MS), "zygote is up", greets, p->serial);
    return p->serial;
}

static void greets(struct sim *s, struct sim_event *e)
{
    struct sim_proc *p = sim_proc_of(s, e->target);
    if (p)
        say_hello(p);
}

static void hung_up(struct sim *s, struct sim_event *e)
{
    sim_proc_socket_closed(s, e->target);
}

bool sim_proc_has_actor(struct sim *s, uint64_t serial, mt_id id)
{
    const struct sim_proc  *p = sim_proc_of(s, serial);
    const struct own_actor *actor = p ? mt_map_ptr(&p->own.actors, id) : NULL;
    return actor && actor->state != OWN_ACTOR_DEAD;
}

/* ---- for people -------------------------------------------------------------------------------------------------- */

static void dump_actor(const struct own_actor *a)
{
    printf("    actor %llx.%llu state %u incarnation %u holds %u queue %u lane %s%s%s%s\n", (unsigned long long)a->id.process,
           (unsigned long long)mt_id_counter(a->id), a->state, a->incarnation, a->holds, a->queue.count, a->lane ? "yes" : "no",
           a->is_mine ? " mine" : "", a->is_asking ? " asking" : "", a->is_ending ? " ending" : "");
}

void sim_proc_dump(struct sim *s)
{
    MT_MAP_EACH(&s->procs, entry) {
        struct sim_proc *p = entry->value.ptr;
        printf("  process %llu (%llx) node %d role %d pid %d%s outstanding %u items %zu ops %u\n", (unsigned long long)p->serial,
               (unsigned long long)p->process, sim_node_index(p->n), p->role, p->pid, p->is_ready ? "" : " not ready",
               p->own.outstanding, p->script.items.count, p->script.ops_left);
        if (p->role == CTL_ZYGOTE || !p->is_ready)
            continue;
        if (p->run.is_active)
            printf("    runs fn %llu phase %d children %d\n", (unsigned long long)p->run.run.record.aux, p->run.phase,
                   p->run.child_count);
        for (size_t i = 0; i < p->own.class_list.count; i++) {
            struct own_class *c = p->own.class_list.data[i];
            printf("    class %u %s queue %u outstanding %u wanted %u lanes %u\n", c->wire.class_id, c->wire.name, c->queue.count,
                   c->outstanding, c->wanted, c->lane_count);
        }
        for (size_t i = 0; i < p->own.lanes.count; i++) {
            struct own_lane *l = p->own.lanes.data[i];
            printf("    lane %llx to %llx inflight %u%s%s\n", (unsigned long long)l->lease, (unsigned long long)l->worker,
                   l->inflight, l->state == OWN_LANE_RECALLED ? " recalled" : "", l->state == OWN_LANE_BROKEN ? " broken" : "");
        }
        for (size_t i = 0; i < p->wrk.lanes.count; i++)
            printf("    serves %llx%s\n", (unsigned long long)p->wrk.lanes.data[i]->lease,
                   p->wrk.lanes.data[i]->is_recalled ? " recalled" : "");
        MT_MAP_EACH(&p->own.actors, actor)
            dump_actor(actor->value.ptr);
    }
}
