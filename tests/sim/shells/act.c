/* SPDX-License-Identifier: Apache-2.0
 *
 * act.c - what a raylet's shell does for each action of its core.
 *
 * Owns: nothing of its own. Thread: one.
 */
#include "tests/sim/shells/proc.h"
#include "tests/sim/load/drain.h"
#include "tests/sim/load/job.h"
#include "tests/sim/shells/store.h"

#include <errno.h>

static struct lane_park *park_of(const struct sim_conn *c)
{
    return c && c->park ? (struct lane_park *)(void *)c->park->base : NULL;
}

static struct sim_conn *conn_new(struct sim_node *n, uint64_t conn)
{
    struct sim_conn *c = sim_alloc(sizeof *c);
    c->conn = conn;
    c->is_open = true;
    if (mt_map_put_ptr(&n->conns, mt_map_key(conn), c).code)
        abort();
    return c;
}

/* ---- to processes --------------------------------------------------------------------------------------------------- */

static void socket_down(struct sim *s, struct sim_event *e)
{
    struct lane_record record;
    struct sim_mem    *mem[2] = {e->mem[0], e->mem[1]};
    memcpy(&record, e->bytes, sizeof record);
    e->mem[0] = e->mem[1] = NULL;
    sim_proc_socket(s, e->target, &record, e->bytes + LANE_RECORD_SIZE, mem, e->arg);
}

/* A message on the socket; now and then one is so late that later records on the ring overtake it. */
static struct sim_event *send_down(struct sim *s, struct sim_conn *c, const struct lane_record *record, const uint8_t *payload,
                                   const char *name, void (*fire)(struct sim *, struct sim_event *))
{
    uint64_t          slow = sim_chance(s, 30000) ? 20 * SIM_MS : 30 * SIM_US, at = s->now + sim_between(s, SIM_US, slow);
    struct sim_event *e;
    if (at <= c->down_at)
        at = c->down_at + 1;
    c->down_at = at;
    e = sim_after(s, at - s->now, name, fire, c->proc);
    e->size = record->length;
    e->bytes = sim_alloc(record->length + 8);
    memcpy(e->bytes, record, LANE_RECORD_SIZE);
    memcpy(e->bytes + LANE_RECORD_SIZE, payload, record->length - LANE_RECORD_SIZE);
    return e;
}

void sim_node_send(struct sim *s, struct sim_node *n, uint64_t conn, const struct lane_record *record, const void *payload,
                   struct sim_mem *const mem[2])
{
    struct sim_event *e = send_down(s, sim_conn_of(n, conn), record, payload, "segment", socket_down);
    for (int i = 0; i < 2; i++)
        e->mem[i] = mem[i] ? sim_mem_ref(mem[i]) : NULL;
}

static struct sim_mem *mem_of_fd(struct sim_node *n, const struct rlt_fd *fd)
{
    struct sim_conn *c;
    switch (fd->kind) {
    case RLT_FD_LANE: return mt_map_ptr(&n->lanes, mt_map_key(fd->number));
    case RLT_FD_PARK: c = sim_conn_of(n, fd->number); return c ? c->park : NULL;
    case RLT_FD_SWITCH_PARK: return n->switch_park;
    default: return NULL;
    }
}

static void act_socket(struct sim *s, struct sim_node *n, const struct rlt_a_socket *a)
{
    struct sim_conn  *c = sim_conn_of(n, a->conn);
    struct sim_event *e;
    SIM_REQUIRE(s, c, "node %d sends to connection %llx, which is closed", n->index, (unsigned long long)a->conn);
    for (uint32_t i = 0; i < a->fd_count; i++)
        if (!mem_of_fd(n, &a->fds[i]))
            return; /* there was no memory for it: LANE_FAILED says so */
    e = send_down(s, c, &a->record, a->payload, "to process", socket_down);
    for (uint32_t i = 0; i < a->fd_count && i < 2; i++)
        e->mem[i] = sim_mem_ref(mem_of_fd(n, &a->fds[i]));
}

static void welcome_down(struct sim *s, struct sim_event *e)
{
    struct lane_record record;
    struct sim_node   *n = sim_node_of(s, e->arg);
    memcpy(&record, e->bytes, sizeof record);
    sim_proc_welcome(s, e->target, &record, e->bytes + LANE_RECORD_SIZE, e->mem, n ? n->switch_park : NULL);
}

static void act_welcome(struct sim *s, struct sim_node *n, const struct rlt_a_welcome *a)
{
    struct sim_conn   *c = sim_conn_of(n, a->conn);
    struct ctl_welcome w;
    struct sim_event  *e;
    memcpy(&w, a->payload, sizeof w);
    if (w.code == MT_OK && !a->is_zygote) {
        c->lane = sim_mem_new(s, LANE_BYTES);
        c->park = sim_mem_new(s, sizeof(struct lane_park));
        c->park->owner = c->proc;
        c->pins = sim_mem_new(s, OS_PINS_BYTES);
        sim_store_welcome(n, c, a->process, &w);
        if (mt_map_put_ptr(&s->parks, mt_map_key((uintptr_t)c->park->base), c->park).code ||
            sw_process_add(n->sw, a->conn, c->lane->base, park_of(c)).code)
            abort();
    }
    e = send_down(s, c, &a->record, a->payload, "welcome", welcome_down);
    e->arg = n->serial;
    e->mem[0] = c->lane ? sim_mem_ref(c->lane) : NULL;
    e->mem[1] = c->park ? sim_mem_ref(c->park) : NULL;
    e->mem[2] = c->pins ? sim_mem_ref(c->pins) : NULL;
}

static void hang_up(struct sim *s, struct sim_event *e)
{
    sim_proc_socket_closed(s, e->target);
}

static void act_close(struct sim *s, struct sim_node *n, uint64_t conn)
{
    struct sim_conn *c = sim_conn_of(n, conn);
    uint64_t         at = s->now + SIM_US;
    if (!c)
        return;
    if (at <= c->down_at)
        at = c->down_at + 1;
    if (sim_proc_of(s, c->proc))
        sim_objects_disowned(sim_proc_of(s, c->proc));
    if (c->proc)
        sim_after(s, at - s->now, "hang up", hang_up, c->proc);
    sim_store_goodbye(n, conn);
    sim_mem_unref(s, c->lane);
    sim_mem_unref(s, c->park);
    sim_mem_unref(s, c->pins);
    mt_map_remove(&n->conns, mt_map_key(conn));
    free(c);
}

/* ---- processes come and go -------------------------------------------------------------------------------------------- */

static void spawned(struct sim *s, struct sim_event *e)
{
    struct sim_node *n = sim_node_of(s, e->target);
    struct sim_conn *c = n ? sim_conn_of(n, e->arg) : NULL;
    if (!c)
        return;
    if (e->fd >= 0)
        c->is_watched = true; /* its own child: the shell reaps it */
    sim_node_step(s, n, &(struct rlt_event){.kind = RLT_EV_SPAWNED, .spawned = {.conn = e->arg, .pid = e->fd}});
}

/* The environment that a zygote's greeting puts it in. */
static uint64_t env_of(const struct rlt_a_spawn_zygote *a)
{
    const char *text = (const char *)a->hello + sizeof(struct ctl_hello), *end = (const char *)a->hello + a->hello_size;
    for (; text < end; text += strlen(text) + 1)
        if (strncmp(text, "MANTA_ENV=", 10) == 0)
            return strtoull(text + 10, NULL, 16);
    return 0;
}

static void act_spawn_zygote(struct sim *s, struct sim_node *n, const struct rlt_a_spawn_zygote *a)
{
    struct sim_conn  *c = conn_new(n, a->conn);
    struct ctl_hello  hello;
    struct sim_event *e = sim_after(s, sim_between(s, 50 * SIM_US, 500 * SIM_US), "spawned", spawned, n->serial);
    memcpy(&hello, a->hello, sizeof hello);
    SIM_REQUIRE(s, mt_map_find(&s->fds, mt_map_key((uint64_t)a->program)), "I6: a zygote of a descriptor that is closed");
    e->arg = a->conn;
    e->fd = ++s->next_pid;
    c->proc = sim_zygote_start(s, n, a->conn, hello.job, env_of(a), e->fd);
}

static void fork_message(struct sim *s, struct sim_event *e)
{
    struct lane_record record;
    struct sim_mem    *none[2] = {NULL, NULL};
    memcpy(&record, e->bytes, sizeof record);
    sim_proc_socket(s, e->target, &record, e->bytes + LANE_RECORD_SIZE, none, e->arg);
}

static void act_fork(struct sim *s, struct sim_node *n, const struct rlt_a_fork *a)
{
    struct sim_conn *zygote = sim_conn_of(n, a->zygote);
    SIM_REQUIRE(s, zygote, "a fork is asked of a zygote that is gone");
    conn_new(n, a->worker);
    send_down(s, zygote, &a->record, a->payload, "fork", fork_message)->arg = a->worker;
}

static void act_watch(struct sim *s, struct sim_node *n, const struct rlt_a_watch *a)
{
    struct sim_conn *c = sim_conn_of(n, a->conn);
    mt_map_entry    *pidfd = mt_map_find(&n->pidfds, mt_map_key((uint64_t)a->pidfd));
    SIM_REQUIRE(s, c && pidfd, "a watch without connection or pidfd");
    uint64_t proc = pidfd->value.num;
    c->is_watched = true;
    mt_map_remove(&n->pidfds, mt_map_key((uint64_t)a->pidfd));
    sim_fd_close(s, a->pidfd); /* the shell's own from here; it closes it with the connection */
    if (!sim_proc_of(s, proc))
        sim_node_exited(s, n, a->conn, 300 * SIM_US, false, 0);
}

static void killed(struct sim *s, struct sim_event *e)
{
    struct sim_proc *p = sim_proc_of(s, e->target);
    if (p)
        sim_proc_kill(s, p, 9);
}

/* One that gets no CPU lives on for a while. */
static void act_kill(struct sim *s, struct sim_node *n, uint64_t conn)
{
    struct sim_conn *c = sim_conn_of(n, conn);
    if (c && c->is_watched && c->proc)
        sim_after(s, sim_chance(s, 200000) ? sim_between(s, SIM_US, SIM_MS) : SIM_US, "kill", killed, c->proc);
}

/* ---- lanes ------------------------------------------------------------------------------------------------------------ */

static void act_lane_new(struct sim *s, struct sim_node *n, uint64_t lane)
{
    if (!s->is_healed && sim_chance(s, 2000)) {
        s->counters.lane_failed++;
        s->counters.fault_total++;
        sim_node_step(s, n, &(struct rlt_event){.kind = RLT_EV_LANE_FAILED, .lane_failed = {.lane = lane}});
        return;
    }
    if (mt_map_put_ptr(&n->lanes, mt_map_key(lane), sim_mem_new(s, LANE_BYTES)).code)
        abort();
}

static void act_lane_recall(struct sim *s, struct sim_node *n, const struct rlt_a_lane_recall *a)
{
    struct sim_mem   *lane = mt_map_ptr(&n->lanes, mt_map_key(a->lane));
    struct lane_park *park;
    if (!lane)
        return;
    shm_store32_release(&lane_header_of(lane->base)->recall, a->word);
    for (int end = 0; end < 2; end++) {
        park = park_of(sim_conn_of(n, end ? a->worker : a->owner));
        if (park && lane_park_must_wake(park))
            sim_wake(s, park);
    }
}

static void act_lane_free(struct sim *s, struct sim_node *n, uint64_t lane)
{
    sim_mem_unref(s, mt_map_ptr(&n->lanes, mt_map_key(lane)));
    mt_map_remove(&n->lanes, mt_map_key(lane));
}

static void act_switch(struct sim *s, struct sim_node *n, const struct rlt_action *a)
{
    struct sim_mem *lane = a->kind == RLT_A_SW_LANE_OPEN ? mt_map_ptr(&n->lanes, mt_map_key(a->sw_lane_open.lane)) : NULL;
    sw_act(n->sw, a, lane ? lane->base : NULL, &n->sw_out);
    if (sw_has_work(n->sw))
        sim_node_switch_wake(s, n);
}

/* ---- programs ------------------------------------------------------------------------------------------------------------ */

static uint8_t program_byte(uint64_t job, uint64_t offset)
{
    return (uint8_t)(job ^ offset * 31 ^ offset >> 8);
}

/* Stands for the SHA-256 of the whole; of an archive there is none. */
static void program_hash(uint64_t job, uint8_t out[32])
{
    for (int i = 0; i < 32; i++)
        out[i] = (uint8_t)(job >> i % 8 * 8) ^ (uint8_t)i;
}

static void act_file_read(struct sim *s, struct sim_node *n, const struct rlt_a_file_read *a)
{
    uint8_t          bytes[RLT_FILE_CHUNK];
    uint64_t         number = a->file.job ^ a->file.env;
    struct rlt_event e = {
        .kind = RLT_EV_FILE_BYTES,
        .file_bytes = {.file = a->file, .node = a->node, .offset = a->offset, .total = SIM_PROGRAM_BYTES, .bytes = bytes}};
    SIM_REQUIRE(s, mt_map_find(&s->fds, mt_map_key((uint64_t)a->fd)), "I6: a file is read from a closed descriptor");
    while (e.file_bytes.size < sizeof bytes && a->offset + e.file_bytes.size < SIM_PROGRAM_BYTES) {
        bytes[e.file_bytes.size] = program_byte(number, a->offset + e.file_bytes.size);
        e.file_bytes.size++;
    }
    sim_node_step(s, n, &e);
}

static mt_id file_key(const struct peer_file *file)
{
    return (mt_id){file->job, file->env};
}

static void act_file_drop(struct sim_node *n, mt_id key)
{
    free(mt_map_ptr(&n->programs, key));
    mt_map_remove(&n->programs, key);
}

static void act_file_write(struct sim *s, struct sim_node *n, const struct rlt_a_file_write *a)
{
    uint64_t            number = a->file.job ^ a->file.env;
    struct sim_program *p = mt_map_ptr(&n->programs, file_key(&a->file));
    struct rlt_event    e = {.kind = RLT_EV_FILE_READY, .file_ready = {.file = a->file, .fd = -1}};
    uint8_t             hash[32];
    if (!p) {
        p = sim_alloc(sizeof *p);
        if (mt_map_put_ptr(&n->programs, file_key(&a->file), p).code)
            abort();
    }
    SIM_REQUIRE(s, a->total == SIM_PROGRAM_BYTES && a->offset == p->have, "I5: a piece of a file is not the next one");
    for (size_t i = 0; i < a->size; i++)
        SIM_REQUIRE(s, a->bytes[i] == program_byte(number, a->offset + i), "I5: a file arrives damaged");
    p->have += a->size;
    if (p->have < a->total)
        return;
    program_hash(number, hash);
    SIM_REQUIRE(s, a->file.env || memcmp(hash, a->sha256, sizeof hash) == 0, "I5: the hash of a program is another's");
    s->counters.program_fetched += !a->file.env;
    s->counters.env_fetched += a->file.env != 0;
    if (a->file.env) {
        act_file_drop(n, file_key(&a->file));
        e.file_ready.fd = sim_fd_new(s, n->serial);
    }
    sim_node_step(s, n, &e);
}

static void act_program_list(struct sim *s, struct sim_node *n, const struct rlt_a_program_list *a)
{
    struct peer_program_file file = {.path = "program", .size = SIM_PROGRAM_BYTES};
    struct rlt_event         e = {.kind = RLT_EV_PROGRAM_LISTED, .program_listed = {.job = a->job, .files = &file, .count = 1}};
    SIM_REQUIRE(s, a->count == 1, "I6: a program has files that its driver has not told");
    program_hash(a->job, file.sha256);
    sim_node_step(s, n, &e);
}

/* The cache of a node: its program is whole when its one file has come. */
static void act_program_open(struct sim *s, struct sim_node *n, const struct rlt_a_program_open *a)
{
    const struct sim_program *p = mt_map_ptr(&n->programs, (mt_id){a->job, 0});
    struct rlt_event          e = {.kind = RLT_EV_PROGRAM_OPENED, .program_opened = {.job = a->job, .fd = -1}};
    SIM_REQUIRE(s, a->count == 1, "I5: the list of a program is not what was sent");
    if (p && p->have == SIM_PROGRAM_BYTES)
        e.program_opened.fd = sim_fd_new(s, n->serial);
    sim_node_step(s, n, &e);
}

static void act_strict(struct sim *s, struct sim_node *n, const struct rlt_a_strict *a)
{
    struct sim_conn *c = sim_conn_of(n, a->conn);
    if (c && c->proc)
        sim_proc_strict(s, c->proc, a->until);
}

static void act_env_make(struct sim *s, struct sim_node *n, const struct rlt_a_env_make *a)
{
    SIM_REQUIRE(s, mt_map_find(&s->fds, mt_map_key((uint64_t)a->archive)), "I6: an archive is unpacked from a closed descriptor");
    sim_node_step(s, n, &(struct rlt_event){.kind = RLT_EV_ENV_MADE, .env_made = {.env = a->env, .folder = "/env"}});
}

/* No default: the compiler finds a kind that is missing. */
/* ---- ends of jobs, which outlive the raylet ---- */

static void end_drop(struct sim_node *n, const char *id)
{
    for (uint32_t i = 0; i < n->disk.count; i++)
        if (strcmp(n->disk.ends[i].id, id) == 0)
            n->disk.ends[i--] = n->disk.ends[--n->disk.count];
}

static void end_keep(struct sim_node *n, const struct rlt_a_job_keep *a)
{
    end_drop(n, a->id);
    if (n->disk.count == SIM_DISK_ENDS || !n->s->config.many_jobs)
        return;
    struct rlt_before_end *end = &n->disk.ends[n->disk.count++];
    *end = (struct rlt_before_end){.attempt = a->attempt, .exit_code = a->exit_code};
    snprintf(end->id, sizeof end->id, "%s", a->id);
    snprintf(end->word, sizeof end->word, "%s", a->word);
}

/* The head has what was found on the disk: it is this incarnation's now. */
static void act_ready(struct sim *s, struct sim_node *n)
{
    n->is_ready = true;
    s->ends_told += n->before.count;
    n->disk = (struct sim_disk){.boot = n->boot};
}

void sim_node_act(struct sim *s, struct sim_node *n, const struct rlt_action *a)
{
    switch (a->kind) {
    case RLT_A_WELCOME: act_welcome(s, n, &a->welcome); break;
    case RLT_A_SOCKET: act_socket(s, n, &a->socket); break;
    case RLT_A_CLOSE: act_close(s, n, a->close.conn); break;
    case RLT_A_SPAWN_ZYGOTE: act_spawn_zygote(s, n, &a->spawn_zygote); break;
    case RLT_A_FORK: act_fork(s, n, &a->fork); break;
    case RLT_A_WATCH: act_watch(s, n, &a->watch); break;
    case RLT_A_KILL: act_kill(s, n, a->kill.conn); break;
    case RLT_A_STATUS: break; /* the system says nothing either */
    case RLT_A_STRICT: act_strict(s, n, &a->strict); break;
    case RLT_A_CLOSE_FD:
        mt_map_remove(&n->pidfds, mt_map_key((uint64_t)a->close_fd.fd));
        sim_fd_close(s, a->close_fd.fd);
        break;
    case RLT_A_LANE_NEW: act_lane_new(s, n, a->lane_new.lane); break;
    case RLT_A_LANE_RECALL: act_lane_recall(s, n, &a->lane_recall); break;
    case RLT_A_LANE_FREE: act_lane_free(s, n, a->lane_free.lane); break;
    case RLT_A_CROWD: shm_store32(&((struct lane_park *)(void *)n->switch_park->base)->crowd, a->crowd.is); break;
    case RLT_A_REGION_NEW:
        if (mt_map_put_num(&n->regions, mt_map_key(a->region_new.region), 1).code)
            abort();
        break;
    case RLT_A_REGION_FREE: mt_map_remove(&n->regions, mt_map_key(a->region_free.region)); break;
    case RLT_A_SW_DOWN:
    case RLT_A_SW_PROC_DRAIN:
    case RLT_A_SW_LANE_OPEN:
    case RLT_A_SW_LANE_DRAIN:
    case RLT_A_SW_LANE_CLOSE:
    case RLT_A_SW_FRAME:
    case RLT_A_SW_PAUSE: act_switch(s, n, a); break;
    case RLT_A_HEAD_SEND:
    case RLT_A_PEER_DIAL:
    case RLT_A_PEER_SEND:
    case RLT_A_PEER_CLOSE: sim_net_act(s, n, a); break;
    case RLT_A_FILE_READ: act_file_read(s, n, &a->file_read); break;
    case RLT_A_FILE_WRITE: act_file_write(s, n, &a->file_write); break;
    case RLT_A_FILE_DROP: act_file_drop(n, file_key(&a->file_drop.file)); break;
    case RLT_A_PROGRAM_LIST: act_program_list(s, n, &a->program_list); break;
    case RLT_A_PROGRAM_OPEN: act_program_open(s, n, &a->program_open); break;
    case RLT_A_PROGRAM_DROP: act_file_drop(n, (mt_id){a->program_drop.job, 0}); break;
    case RLT_A_PROGRAM_SEND: SIM_REQUIRE(s, false, "node %d sends a program, which no actor asks for", n->index); break;
    case RLT_A_ENV_MAKE: act_env_make(s, n, &a->env_make); break;
    case RLT_A_ENV_DROP: break; /* nothing was made */
    case RLT_A_OWNERS_GONE:
        n->lost |= UINT64_C(1) << a->owners_gone.node % 64;
        sim_store_told(n, a);
        break;
    case RLT_A_OBJECT_DEAD:
    case RLT_A_OWNER_GONE:
    case RLT_A_LEAVE:
    case RLT_A_MOVED:
    case RLT_A_JOB_OVER: sim_store_told(n, a); break;
    case RLT_A_JOB_START:
    case RLT_A_JOB_GO:
    case RLT_A_JOB_KILL:
    case RLT_A_JOB_LOG_READ:
    case RLT_A_JOB_FORGET:
        end_drop(n, a->job_forget.id);
        sim_job_act(s, n, a);
        break;
    case RLT_A_JOB_KEEP: end_keep(n, &a->job_keep); break;
    case RLT_A_REVOKED:
    case RLT_A_BEAT: break; /* the head of this world offers none: beats/ */
    case RLT_A_READY: act_ready(s, n); break;
    case RLT_A_EXIT: sim_drain_exits(s, n, a->exit.why); break;
    }
}
