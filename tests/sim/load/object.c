/* SPDX-License-Identifier: Apache-2.0
 *
 * object.c - a process's side of the object store: what api/object.c does by waiting, done in turns.
 *
 * Owns: struct sim_objects. Thread: one.
 */
#include "tests/sim/load/object.h"

#include "tests/sim/shells/proc.h"

#include <sys/mman.h>

enum { PIN_ATTEMPTS = 4, ROOM_ATTEMPTS = 3 };

/* ---- segments ----------------------------------------------------------------------------------------------------- */

static void unmap(struct sim_proc *p, uint32_t number)
{
    struct sim_objects *o = &p->objects;
    for (size_t i = 0; i < o->segments.count; i++)
        if (o->segments.data[i].number == number) {
            sim_mem_unref(p->s, o->segments.data[i].data);
            sim_mem_unref(p->s, o->segments.data[i].generations);
            mt_vec_remove_swap(&o->segments, i);
            return;
        }
    SIM_REQUIRE(p->s, false, "I6: a segment is unmapped that is not mapped");
}

static void map(struct sim_proc *p, uint32_t number, struct sim_mem *data, struct sim_mem *generations)
{
    struct sim_segment segment = {number, data, generations};
    for (size_t i = 0; i < p->objects.segments.count; i++)
        if (p->objects.segments.data[i].number == number) {
            unmap(p, number); /* what it has read, it writes now */
            break;
        }
    if (mt_vec_push(&p->objects.segments, segment).code)
        abort();
}

static struct sim_ask *ask_of(struct sim_proc *p, mt_id id)
{
    for (size_t i = 0; i < p->objects.asks.count; i++)
        if (mt_id_equal(p->objects.asks.data[i].id, id))
            return &p->objects.asks.data[i];
    return NULL;
}

static mt_id ask(struct sim_proc *p, uint16_t kind, const void *payload, size_t size)
{
    struct sim_ask a = {.id = own_id_next(&p->own)};
    if (mt_vec_push(&p->objects.asks, a).code)
        abort();
    own_send(&p->own, kind, a.id, payload, size);
    return a.id;
}

/* The answer, if it is there; then it is forgotten here. */
static bool answer(struct sim_proc *p, mt_id *id, struct sim_ask *out)
{
    struct sim_ask *a = ask_of(p, *id);
    if (!a->is_done)
        return false;
    *out = *a;
    mt_vec_remove_swap(&p->objects.asks, (size_t)(a - p->objects.asks.data));
    *id = (mt_id){0, 0};
    return true;
}

static void segment_came(struct sim_proc *p, struct sim_ask *a, const uint8_t *payload, struct sim_mem *const mem[2])
{
    struct ctl_segment got;
    mt_status          st;
    memcpy(&got, payload, sizeof got);
    SIM_REQUIRE(p->s, mem[0] && mem[1] && mem[0]->size == got.size, "I6: a segment comes without its memory");
    if (a->here.size) { /* it was wanted for writing; a size stands for that */
        st = os_client_add_own(&p->objects.client, got.segment, got.size, mem[0]->base, mem[0]->base, mem[1]->base);
        SIM_REQUIRE(p->s, st.code == MT_OK || st.code == MT_EAGAIN, "a segment that was granted is refused: %s", st.what);
    } else {
        st = os_client_add_reader(&p->objects.client, got.segment, got.size, mem[0]->base, mem[1]->base);
        SIM_REQUIRE(p->s, st.code == MT_OK || st.code == MT_EEXIST, "a segment that was asked for is refused: %s", st.what);
    }
    if (st.code == MT_OK)
        map(p, got.segment, sim_mem_ref(mem[0]), sim_mem_ref(mem[1]));
    a->code = st.code == MT_EEXIST ? MT_OK : st.code;
}

static void give_back(struct sim_proc *p, const struct os_trim *trim)
{
    struct ctl_segment back = {.segment = trim->segment, .size = trim->size};
    unmap(p, trim->segment);
    own_send(&p->own, CTL_SEGMENT_BACK, own_id_next(&p->own), &back, sizeof back);
    p->s->counters.segment_back++;
}

static bool was_surrendered(const struct sim_proc *p, uint32_t segment)
{
    for (size_t i = 0; i < p->objects.surrendered.count; i++)
        if (p->objects.surrendered.data[i] == segment)
            return true;
    return false;
}

bool sim_objects_control(struct sim_proc *p, const struct lane_record *record, const uint8_t *payload, struct sim_mem *const mem[2])
{
    struct sim_ask    *a = ask_of(p, record->id);
    struct ctl_space   space;
    struct ctl_segment segment;
    struct ctl_reply   reply;
    struct os_trim     trim;
    mt_status          st;
    if (record->kind == CTL_SPACE_BACK) {
        memcpy(&space, payload, sizeof space);
        st = os_client_space_back(&p->objects.client, space.segment, space.offset);
        SIM_REQUIRE(p->s, st.code == MT_OK || (st.code == MT_ENOENT && was_surrendered(p, space.segment)), "I5: %s", st.what);
    } else if (record->kind == CTL_SEGMENT_ASK) {
        memcpy(&segment, payload, sizeof segment);
        if (os_client_surrender(&p->objects.client, segment.segment, &trim).code == MT_OK) {
            give_back(p, &trim);
            if (mt_vec_push(&p->objects.surrendered, trim.segment).code)
                abort();
        }
    } else if (!a) {
        return false;
    } else if (record->kind == CTL_SEGMENT) {
        segment_came(p, a, payload, mem);
        a->is_done = true;
    } else {
        memcpy(record->kind == CTL_HERE ? (void *)&a->here : (void *)&reply, payload,
               record->kind == CTL_HERE ? sizeof a->here : sizeof reply);
        a->code = record->kind == CTL_HERE ? MT_OK : reply.code;
        a->is_done = true;
    }
    return true;
}

void sim_objects_tick(struct sim_proc *p)
{
    struct os_trim trim;
    if (p->s->now < p->objects.trim_at)
        return;
    const char *breach = os_client_check(&p->objects.client);
    if (breach)
        sim_fail(p->s, "%s", breach);
    os_client_trim(&p->objects.client, MT_LIB_WARM_BYTES, &trim);
    if (trim.kind == OS_TRIM_PAGES) {
        if (madvise(trim.data, trim.size, MADV_DONTNEED) != 0)
            abort();
    } else if (trim.kind == OS_TRIM_SEGMENT) {
        give_back(p, &trim);
    } else {
        os_client_trim_round(&p->objects.client);
        p->objects.trim_at = p->s->now + (uint64_t)OS_TRIM_ROUND_MS * SIM_MS;
    }
}

/* ---- life --------------------------------------------------------------------------------------------------------- */

/* lib_free_place. */
static void free_place(struct own *own, const struct lane_ref *place, bool escaped)
{
    struct sim_proc  *p = mt_container_of(own, struct sim_proc, own);
    struct sim_value *v = sim_value_of(p->s, place->id);
    if (v && !v->is_dropped && v->id.process == p->process) {
        v->is_dropped = true;
        p->s->counters.value_freed++;
    }
    if (!escaped && os_client_free(&p->objects.client, place->segment, place->offset, place->generation).code == 0) {
        p->s->counters.value_freed_here++;
        return;
    }
    own_send(own, CTL_OBJECT_DEAD, own_id_next(own), place, sizeof *place);
}

void sim_objects_welcome(struct sim_proc *p, const struct ctl_welcome *w, struct sim_mem *pins)
{
    p->objects.pins = sim_mem_ref(pins);
    if (os_client_init(&p->objects.client, p->process, w->node, w->job, pins->base).code)
        abort();
    p->own.free_place = free_place;
}

static void forget(struct sim_reading *r)
{
    struct sim_proc *p = r->p;
    for (size_t i = 0; i < p->objects.readings.count; i++)
        if (p->objects.readings.data[i] == r)
            mt_vec_remove_swap(&p->objects.readings, i);
    free(r);
}

void sim_objects_gone(struct sim_proc *p)
{
    struct sim_objects *o = &p->objects;
    p->own.free_place = NULL; /* the dead write nothing */
    while (o->readings.count) {
        sim_value_unpinned(p->s, o->readings.data[0]);
        forget(o->readings.data[0]);
    }
    while (o->segments.count)
        unmap(p, o->segments.data[0].number);
    os_client_fini(&o->client);
    sim_mem_unref(p->s, o->pins);
    mt_vec_fini(&o->segments);
    mt_vec_fini(&o->surrendered);
    mt_vec_fini(&o->asks);
    mt_vec_fini(&o->readings);
}

void sim_objects_disowned(struct sim_proc *p)
{
    p->objects.is_disowned = true;
    for (size_t i = 0; i < p->objects.readings.count; i++)
        sim_value_unpinned(p->s, p->objects.readings.data[i]);
}

/* ---- reading: lib_store_pin --------------------------------------------------------------------------------------- */

static void read_from(struct sim_reading *r, const struct lane_ref *place)
{
    r->asked = r->at = *place;
    r->must_ask = place->node != r->p->own.node;
    r->attempts = 0;
}

struct sim_reading *sim_read_at(struct sim_proc *p, const struct lane_ref *place)
{
    struct sim_reading *r = sim_alloc(sizeof *r);
    r->p = p;
    read_from(r, place);
    p->s->counters.value_pulled += r->must_ask;
    if (mt_vec_push(&p->objects.readings, r).code)
        abort();
    return r;
}

struct sim_reading *sim_read(struct sim_proc *p, struct own_ref *ref)
{
    struct sim_reading *r = sim_read_at(p, own_ref_place(&p->own, ref));
    r->mine = ref->flags & OWN_REF_BORROWED ? NULL : ref;
    r->polled = mt_id_counter(ref->id) & 1 ? ref : NULL;
    return r;
}

static bool is_loss(int32_t code)
{
    return code == MT_EOBJ_LOST || code == MT_ENODE_DIED || code == MT_ECORRUPT || code == MT_ETIMEDOUT || code == MT_EPROTO;
}

static void doubt_begin(struct sim_reading *r)
{
    own_doubt_begin(&r->p->own, &r->doubt, r->mine, &r->asked, r->doubted_for, mt_code_name(r->doubted_for));
}

/* lib_store_pin: whoever can't have a value asks its owner, or waits for its task. False: it is not over. */
static bool read_over(struct sim_reading *r, int32_t code)
{
    if (is_loss(code) && !r->is_doubted) {
        if (!r->mine && r->asked.id.process == r->p->process)
            r->mine = mt_map_ptr(&r->p->own.refs, r->asked.id);
        r->is_doubted = true;
        r->doubted_at = r->p->s->now;
        r->doubted_for = code;
        doubt_begin(r);
        r->p->s->counters.value_away += code == MT_ENODE_DIED;
        return false;
    }
    r->is_doubted = false;
    r->code = code;
    r->is_over = true;
    if (code)
        sim_value_lost(r->p->s, r);
    return true;
}

/* An attempt has found that the value is not there, or that its segment is not mapped (yet). */
static void try_again(struct sim_reading *r, int32_t code)
{
    r->attempts++;
    r->must_ask = code == MT_EOBJ_LOST;
    r->p->s->counters.pin_lost += r->must_ask;
}

/* True: the attempt goes on with a pin. */
static bool read_answered(struct sim_reading *r, const struct sim_ask *a)
{
    if (r->ask_kind == CTL_SEGMENT_MAP && (a->code == MT_OK || a->code == MT_EOBJ_LOST)) {
        try_again(r, a->code);
        return !r->must_ask;
    }
    if (a->code) {
        read_over(r, a->code);
        return false;
    }
    r->at = a->here;
    return true;
}

static bool read_pin(struct sim_reading *r)
{
    struct sim_proc   *p = r->p;
    const void        *data;
    mt_status          st = os_client_pin(&p->objects.client, &r->at, &data);
    struct ctl_segment wanted = {.segment = r->at.segment};
    if (st.code == MT_OK) {
        r->data = data;
        r->is_pinned = true;
        sim_value_pinned(p->s, r);
        return read_over(r, MT_OK);
    }
    if (st.code == MT_ENOENT) {
        r->ask_kind = CTL_SEGMENT_MAP;
        r->ask = ask(p, CTL_SEGMENT_MAP, &wanted, sizeof wanted);
        return false;
    }
    if (st.code != MT_EOBJ_LOST)
        return read_over(r, st.code);
    try_again(r, st.code);
    return false;
}

static void count_found(const struct sim_reading *r)
{
    struct sim             *s = r->p->s;
    const struct sim_value *v = sim_value_of(s, r->asked.id);
    const struct sim_task  *t = sim_oracle_task(s, mt_id_with_index(r->asked.id, 0));
    s->counters.value_found_again++;
    s->counters.item_found_again += v && !mt_id_is_zero(v->maker);
    s->counters.call_found_again += t && t->kind == SIM_CALL;
}

/* One look, of who waits or who polls. */
static bool doubt_is_over(struct sim_reading *r)
{
    if (r->is_left && !own_doubt_resume(&r->p->own, &r->doubt, r->polled))
        doubt_begin(r);
    r->is_left = !own_doubt_is_over(&r->p->own, &r->doubt) && r->polled;
    if (r->is_left)
        own_doubt_leave(&r->p->own, &r->doubt, r->polled);
    else if (r->doubt.is_over)
        own_doubt_end(&r->p->own, &r->doubt);
    return r->doubt.is_over;
}

bool sim_read_go(struct sim_reading *r)
{
    struct sim_ask a;
    while (!r->is_over) {
        if (r->is_doubted) {
            if (!doubt_is_over(r))
                return false;
            if (r->doubt.why.code)
                return read_over(r, r->doubt.why.code);
            r->is_doubted = false;
            count_found(r);
            read_from(r, &r->doubt.place);
        }
        if (mt_id_is_zero(r->ask) && r->mine && (own_ref_is_sought(r->mine) || r->mine->again == OWN_AGAIN_LOST)) {
            read_over(r, MT_EOBJ_LOST);
            continue;
        }
        if (!mt_id_is_zero(r->ask)) {
            if (!answer(r->p, &r->ask, &a))
                return false;
            if (!read_answered(r, &a))
                continue;
        }
        if (r->attempts == PIN_ATTEMPTS) {
            read_over(r, MT_ESTORE_FULL);
            continue;
        }
        if (r->must_ask) {
            r->must_ask = false;
            r->ask_kind = CTL_PULL;
            r->ask = ask(r->p, CTL_PULL, &r->asked, sizeof r->asked);
            continue;
        }
        read_pin(r);
    }
    return true;
}

void sim_read_end(struct sim_reading *r)
{
    struct sim_proc *p = r->p;
    if (r->is_pinned) {
        sim_value_unpinned(p->s, r);
        if (os_client_unpin(&p->objects.client, &r->at).code == MT_EAGAIN) /* lib_store_unpin */
            own_send(&p->own, CTL_OBJECT_DEAD, own_id_next(&p->own), &r->at, sizeof r->at);
    }
    if (!mt_id_is_zero(r->ask)) /* nobody waits for the answer any more */
        SIM_REQUIRE(p->s, r->is_over, "a read is given up that is under way");
    forget(r);
}

/* ---- writing ------------------------------------------------------------------------------------------------------ */

/* True: there is room, or there will be none. */
static bool find_room(struct sim_proc *p, struct sim_writing *w, uint64_t size)
{
    struct sim_ask a;
    uint64_t       want;
    void          *data;
    if (!mt_id_is_zero(w->ask)) {
        if (!answer(p, &w->ask, &a))
            return false;
        w->code = a.code == MT_EAGAIN ? MT_OK : a.code; /* what it was granted is read here: the next attempt asks again */
        w->attempts++;
    }
    if (w->code)
        return true;
    mt_status st = os_client_alloc(&p->objects.client, size, &w->place, &data, &want);
    if (st.code == MT_EAGAIN && w->attempts < ROOM_ATTEMPTS) {
        struct ctl_segment wanted = {.size = want};
        w->ask = ask(p, CTL_SEGMENT_WANT, &wanted, sizeof wanted);
        ask_of(p, w->ask)->here.size = want;
        return false;
    }
    w->code = st.code == MT_EAGAIN ? MT_ESTORE_FULL : st.code;
    w->has_room = st.code == MT_OK;
    w->data = data;
    return true;
}

bool sim_write_go(struct sim_proc *p, struct sim_writing *w, struct sim_value *v)
{
    if (!w->has_room) {
        if (!find_room(p, w, v->size))
            return false;
        if (w->code) {
            p->s->counters.room_refused++;
            return true;
        }
        sim_values_written(p->s, sim_node_serial(p->n), &w->place, v->size + OS_HEADER_SIZE);
        sim_value_fill(v, w->data, 0, v->size / 2);
        w->ready_at = p->s->now + sim_between(p->s, 0, 300 * SIM_US);
    }
    return p->s->now >= w->ready_at;
}

bool sim_write_publish(struct sim_proc *p, struct sim_writing *w, struct sim_value *v, uint32_t owner_node, struct lane_ref *out)
{
    if (sim_proc_step(p))
        return false; /* half written */
    sim_value_fill(v, w->data, v->size / 2, v->size);
    if (sim_proc_step(p))
        return false; /* written, never published */
    os_client_publish(&p->objects.client, w->place, w->data, v->id, owner_node, v->size, 'y', out);
    sim_value_published(v, p->own.node, sim_node_serial(p->n));
    p->s->counters.value_put++;
    return !sim_proc_step(p);
}
