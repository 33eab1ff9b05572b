/* SPDX-License-Identifier: Apache-2.0
 *
 * store.c - the object store of a simulated node: raylet_store's files as they are, and what they find around them.
 *
 * Owns: each node's struct sh, of which only what the store looks at is filled in. Thread: one.
 * Always: when a call into the store has ended, its figures are what the node holds.
 */
#include "tests/sim/shells/store.h"

#include "core/io/token.h"
#include "objectstore/server/spill.h"
#include "objectstore/server/table.h"
#include "raylet/store/known.h"
#include "raylet/store/spill.h"
#include "tests/sim/load/object.h"
#include "tests/sim/oracle.h"

/* ---- what the store asks the rest of the shell for ---------------------------------------------------------------- */

static const struct io_token token = {.hex = "5b0c77e5ab8f3f0a8fd06f4ae1c6f0f85b0c77e5ab8f3f0a8fd06f4ae1c6f0f8"};

mt_status sh_random(struct sh *sh, uint64_t *out)
{
    *out = mt_rng_next(&sh->loop->s->rng) | 1;
    return mt_ok();
}

struct sh_conn *sh_conn_find(const struct sh *sh, uint64_t conn)
{
    return mt_map_ptr(&sh->conns, mt_map_key(conn));
}

void sh_conn_send(struct sh_conn *c, const struct lane_record *record, const void *payload, const int *fds, uint32_t fd_count)
{
    struct sim     *s = c->sh->loop->s;
    struct sim_mem *mem[2] = {NULL, NULL};
    for (uint32_t i = 0; i < fd_count; i++) {
        SIM_REQUIRE(s, i < 2 && sim_memory_of(s, fds[i]), "I6: a segment is sent whose descriptor is closed");
        mem[i] = sim_memory_of(s, fds[i]);
    }
    sim_node_send(s, c->sh->loop->n, c->conn, record, payload, mem);
}

void sh_switcher_act(struct sh *sh, const struct rlt_action *a, void *lane)
{
    struct sim_node *n = sh->loop->n;
    struct ctl_space space;
    (void)lane;
    if (sh->is_exiting)
        return;
    SIM_REQUIRE(n->s, a->kind == RLT_A_SW_DOWN, "the store asks the switch for what this file does not know");
    if (a->sw_down.record.kind == CTL_SPACE_BACK) {
        memcpy(&space, a->sw_down.payload, sizeof space);
        sim_values_hand_back(n->s, n->serial, space.segment, space.offset);
    }
    sim_note(n->s, "store says", a->sw_down.record.kind, a->sw_down.conn);
    sw_act(n->sw, a, NULL, &n->sw_out);
    if (sw_has_work(n->sw))
        sim_node_switch_wake(n->s, n);
}

static void doubt_fired(struct sim *s, struct sim_event *e)
{
    struct sim_node *n = sim_node_of(s, e->target);
    if (n)
        sim_node_step(s, n, &(struct rlt_event){.kind = RLT_EV_PEER_DOUBT, .peer_doubt = {.node = (uint32_t)e->arg}});
}

static void word_fired(struct sim *s, struct sim_event *e)
{
    struct sim_node *n = sim_node_of(s, e->target);
    struct rlt_event event;
    memcpy(&event, e->bytes, sizeof event);
    if (n)
        sim_node_step(s, n, &event);
}

void sh_post(struct sh *sh, const struct rlt_event *event)
{
    struct sim_node *n = sh->loop->n;
    if (sh->is_exiting)
        return;
    if (event->kind == RLT_EV_MOVED || event->kind == RLT_EV_LEFT) {
        bool is_answer = event->kind == RLT_EV_MOVED && event->moved.word.code == MT_OK;
        if (is_answer && (event->moved.kind == PEER_ADOPTED || event->moved.kind == PEER_SOUGHT))
            sim_value_adopted(n->s, n, &event->moved.word);
        n->s->counters.value_rescued += is_answer && event->moved.kind == PEER_SOUGHT;
        n->s->counters.copy_told += event->kind == RLT_EV_MOVED && event->moved.kind == PEER_COPY;
        if (event->kind == RLT_EV_MOVED && event->moved.kind == PEER_SEEK)
            sim_fault_sought(n->s, event->moved.node);
        struct sim_event *e = sim_after(n->s, 0, "adoption", word_fired, n->serial);
        e->bytes = sim_alloc(e->size = sizeof *event);
        memcpy(e->bytes, event, sizeof *event);
        return;
    }
    SIM_REQUIRE(n->s, event->kind == RLT_EV_PEER_DOUBT, "the store tells the core what this file does not know");
    n->s->counters.pull_doubted++;
    sim_after(n->s, 0, "doubt", doubt_fired, n->serial)->arg = event->peer_doubt.node; /* the store has the turn now */
}

/* ---- looking ------------------------------------------------------------------------------------------------------ */

static void check(struct io_loop *loop)
{
    struct sim            *s = loop->s;
    const struct sh       *sh = loop->n->sh;
    const struct os_store *store = sh && sh->store ? sh_store_of(sh) : NULL;
    uint64_t               bytes = 0, withheld = 0, closing = 0;
    if (!store)
        return;
    for (const struct os_segment *segment = store->first; segment; segment = segment->next) {
        SIM_REQUIRE(s, segment->withheld < segment->size, "I7: node %d withholds more of a segment than it has", loop->n->index);
        bytes += segment->size;
        withheld += segment->withheld;
    }
    for (size_t i = 0; i < sh->store->closes.count; i++)
        closing += sh->store->closes.data[i].size;
    const char *breach = sh_spill_check(sh);
    breach = breach ? breach : sh_known_check(sh);
    SIM_REQUIRE(s, !breach, "I7: node %d: %s", loop->n->index, breach);
    SIM_REQUIRE(s, bytes == store->bytes_reserved && bytes + closing == sim_memory_bytes(loop->n),
                "I7: node %d counts %llu bytes of segments, and holds %llu", loop->n->index,
                (unsigned long long)store->bytes_reserved, (unsigned long long)sim_memory_bytes(loop->n));
    SIM_REQUIRE(s, withheld == store->bytes_withheld, "I7: node %d counts %llu withheld bytes, and they are %llu", loop->n->index,
                (unsigned long long)store->bytes_withheld, (unsigned long long)withheld);
    SIM_REQUIRE(s, bytes - withheld <= store->config.bytes_max, "I7: node %d holds more than its store may", loop->n->index);
    s->counters.space_back += store->back_total - loop->n->back_total;
    s->counters.spilled += store->taken_total - loop->n->taken_total;
    loop->n->back_total = store->back_total;
    loop->n->taken_total = store->taken_total;
}

void sim_enter(struct io_loop *loop)
{
    SIM_REQUIRE(loop->s, !loop->s->acting, "two nodes act at a time");
    loop->s->acting = loop;
}

void sim_leave(struct io_loop *loop)
{
    check(loop);
    loop->s->acting = NULL;
}

/* ---- what happens to it ------------------------------------------------------------------------------------------- */

void sim_store_start(struct sim *s, struct sim_node *n)
{
    char address[RLT_ADDRESS_SIZE];
    n->loop = sim_loop_new(s, n);
    n->memory_bytes = n->back_total = n->taken_total = 0;
    struct sh *sh = n->sh = sim_alloc(sizeof *sh);
    sh->loop = n->loop;
    sh->core = n->core;
    sh->token = s->config.has_head ? &token : NULL;
    sh->options.store_bytes = s->config.is_short ? SIM_STORE_SHORT : SIM_STORE_BYTES;
    sh->options.spill_dir = s->config.is_short ? "disk" : "";
    sh->options.chunk_bytes = SIM_CHUNK;
    sh->peers = (struct sh_peers *)(void *)sh; /* that there are some: never looked into */
    sim_enter(n->loop);
    if (sh_pulls_start(sh, address).code || sh_store_start(sh).code)
        abort();
    sim_leave(n->loop);
}

void sim_store_stop(struct sim_node *n)
{
    struct io_loop *loop = n->loop;
    struct sh      *sh = n->sh;
    sim_enter(loop);
    sh->is_exiting = true;
    sh_pulls_stop(sh);
    MT_MAP_EACH(&sh->conns, entry)
        free(entry->value.ptr);
    mt_map_fini(&sh->conns);
    sh_store_stop(sh);
    loop->s->acting = NULL;
    free(sh);
    sim_loop_free(loop);
    n->sh = NULL;
    n->loop = NULL;
}

void sim_store_welcome(struct sim_node *n, const struct sim_conn *conn, uint64_t process, const struct ctl_welcome *w)
{
    struct sh_conn *c = sim_alloc(sizeof *c);
    c->sh = n->sh;
    c->conn = conn->conn;
    c->pins = conn->pins->base;
    n->sh->node = w->node;
    if (mt_map_put_ptr(&n->sh->conns, mt_map_key(c->conn), c).code)
        abort();
    sim_enter(n->loop);
    if (sh_store_welcome(c, process, w->job).code)
        abort();
    sim_leave(n->loop);
}

void sim_store_goodbye(struct sim_node *n, uint64_t conn)
{
    struct sh_conn *c = sh_conn_find(n->sh, conn);
    if (!c)
        return;
    sim_enter(n->loop);
    sh_store_goodbye(c);
    mt_map_remove(&n->sh->conns, mt_map_key(conn));
    free(c);
    sim_leave(n->loop);
}

bool sim_store_record(struct sim_node *n, const struct rlt_event *e)
{
    if (e->kind != RLT_EV_UP)
        return false;
    n->s->counters.copy_asked += e->up.record.kind == CTL_SEEK;
    sim_enter(n->loop);
    bool is_ours = sh_store_record(n->sh, &e->up);
    sim_leave(n->loop);
    return is_ours;
}

void sim_store_told(struct sim_node *n, const struct rlt_action *a)
{
    sim_enter(n->loop);
    if (a->kind == RLT_A_OBJECT_DEAD)
        sh_store_object_dead(n->sh, &a->object_dead.ref);
    else if (a->kind == RLT_A_OWNER_GONE)
        sh_store_owner_gone(n->sh, a->owner_gone.process);
    else if (a->kind == RLT_A_OWNERS_GONE)
        sh_store_owners_gone(n->sh, a->owners_gone.node);
    else if (a->kind == RLT_A_LEAVE)
        sh_store_leave(n->sh);
    else if (a->kind == RLT_A_MOVED)
        sh_store_moved(n->sh, &a->moved);
    else
        sh_store_job_over(n->sh, a->job_over.job);
    sim_leave(n->loop);
}

bool sim_store_holds(const struct sim_node *n, const struct lane_ref *place)
{
    return n->sh && n->sh->store &&
           (os_store_lives(sh_store_of(n->sh), place) || (n->sh->spill && spilled_find(n->sh->spill, place)));
}

void sim_store_registered(struct sim_node *n)
{
    sh_pulls_registered(n->sh);
}

/* ---- at the end --------------------------------------------------------------------------------------------------- */

uint32_t sim_store_living(const struct sim_node *n, uint32_t job, mt_id *out_first)
{
    enum { AT_A_TIME = 64 };
    struct os_seen seen[AT_A_TIME];
    uint32_t       segment = 1, count = 0;
    uint64_t       offset = 0;
    const char    *breach = n->serial ? os_store_check(sh_store_of(n->sh)) : NULL;
    SIM_REQUIRE(n->s, !breach, "I6: %s", breach);
    while (n->serial && segment) {
        uint32_t got = os_store_look(sh_store_of(n->sh), &segment, &offset, seen, AT_A_TIME);
        for (uint32_t i = 0; i < got; i++)
            if (seen[i].job == job && count++ == 0)
                *out_first = seen[i].id;
    }
    return count;
}

/* Bytes of the segments that the raylet keeps warm for itself: written by nobody, and nothing lives in them. */
static uint64_t warm_bytes(struct sim *s, const struct sim_node *n)
{
    struct os_segment_view view = {.segment = 0};
    uint64_t               bytes = 0;
    mt_id                  first = {0, 0};
    while (os_store_next(sh_store_of(n->sh), view.segment, &view)) {
        SIM_REQUIRE(s, view.job == OS_JOB_NODE && view.writer == 0, "I6: the store of node %d keeps segment %u of job %u", n->index,
                    view.segment, view.job);
        bytes += view.size;
    }
    SIM_REQUIRE(s, bytes <= MT_SEGMENT_WARM_BYTES_MAX, "I6: the store of node %d keeps %llu bytes warm", n->index,
                (unsigned long long)bytes);
    SIM_REQUIRE(s, sim_store_living(n, OS_JOB_NODE, &first) == 0, "I6: the store of node %d keeps a value", n->index);
    return bytes;
}

uint32_t sim_store_check_empty(struct sim *s, const struct sim_node *n)
{
    enum { SEGMENT_FDS = 3 };
    struct os_stats stats;
    uint64_t        warm = warm_bytes(s, n);
    os_store_stats(sh_store_of(n->sh), &stats);
    /* The raylet itself stays one of its processes once it has served, or fetched, a value of a job that is not here. */
    SIM_REQUIRE(s, stats.processes <= 1 && stats.copies == 0 && n->memory_bytes == warm,
                "I6: the store of node %d keeps %u segments, %u processes, %u copies, %llu bytes", n->index, stats.segments,
                stats.processes, stats.copies, (unsigned long long)n->memory_bytes);
    SIM_REQUIRE(s, n->sh->spill->files == 0 && n->sh->spill->bytes == 0, "I6: node %d keeps %u spill files", n->index,
                n->sh->spill->files);
    return stats.segments * SEGMENT_FDS;
}
