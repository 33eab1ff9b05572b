/* SPDX-License-Identifier: Apache-2.0
 *
 * own.c - the owner half's events: control records, completions, time.
 *
 * Owns:   struct own and all that hangs from it. Thread: one at a time (libmanta's owner lock).
 */
#include "clients/lib/owner/own.h"

#include "core/base/plant.h"

#ifdef MANTA_PLANTS
enum { CHECKED_CHUNKS = 0 }; /* the simulation, which alone has planted bugs, asks by itself */
#else
enum { CHECKED_CHUNKS = 8 };
#endif

/* Each is tried, whatever the others say. */
static int32_t worse(int32_t code, mt_status st)
{
    return st.code ? st.code : code;
}

mt_status own_prepare(struct own *own)
{
    mt_map *const maps[] = {&own->refs,     &own->actors,     &own->borrows,  &own->monitors, &own->peers,
                            &own->requests, &own->early_ends, &own->unwanted, &own->extras};
    int32_t       code = worse(0, mt_stash_fill(&own->stash));
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++)
        code = worse(code, mt_map_reserve(maps[i], MT_LIB_SPARE));
    code = worse(code, mt_buf_reserve(&own->out.up, MT_LIB_SPARE_BYTES));
    code = worse(code, mt_vec_reserve(&own->out.deaths, MT_LIB_SPARE));
    code = worse(code, mt_vec_reserve(&own->out.unmap, MT_LIB_SPARE));
    code = worse(code, mt_vec_reserve(&own->lanes, MT_LIB_SPARE));
    return code ? mt_error(code, 0, "memory set aside for what may not fail") : mt_ok();
}

/* ---- control records ---- */

static bool class_has_room(struct own_class *cls)
{
    uint32_t          room = cls->lane_room ? cls->lane_room * 2 : 4;
    struct own_lane **more;
    if (cls->lane_count < cls->lane_room)
        return true;
    more = realloc(cls->lanes, room * sizeof *more);
    if (!more)
        return false;
    cls->lanes = more;
    cls->lane_room = room;
    return true;
}

/* The actor that a grant is for: of its class, or of the request that it answers. NULL: a task class's lease. */
static struct own_actor *actor_of_grant(struct own *own, const struct ctl_grant *grant, mt_id id, struct own_class **out_cls)
{
    struct own_request *request = mt_map_ptr(&own->requests, id);
    struct own_actor   *actor = NULL;
    *out_cls = NULL;
    if (grant->class_id && (*out_cls = own_class_of_id(own, grant->class_id))) {
        if ((*out_cls)->wire.flags & CTL_CLASS_ACTOR)
            actor = mt_map_ptr(&own->actors, (*out_cls)->key);
    } else if (request) {
        actor = mt_map_ptr(&own->actors, request->actor);
        mt_map_remove(&own->requests, id);
        free(request);
    }
    return actor;
}

/* The end of a lease whose grant has not come yet is kept until it comes. */
static void ended_early(struct own *own, const struct ctl_ended *why)
{
    struct ctl_ended *kept;
    if (mt_map_remove(&own->unwanted, mt_map_key(why->lease)) || MT_PLANT(MT_PLANT_EARLY_END_LOST))
        return;
    kept = mt_stash_take(&own->stash, sizeof *kept);
    if (!kept || mt_map_put_ptr(&own->early_ends, mt_map_key(why->lease), kept).code) {
        free(kept);
        own->out.is_starved = true; /* what is sent on that lease would wait for ever */
        return;
    }
    *kept = *why;
}

/* A lease that nobody here wants any more is given up; its memory is not used. */
static void grant_unwanted(struct own *own, const struct ctl_grant *grant, void *memory)
{
    struct ctl_lease  lease = {.lease = grant->lease};
    struct ctl_ended *early = mt_map_ptr(&own->early_ends, mt_map_key(grant->lease));
    own_send(own, CTL_LANE_DROP, own_id_next(own), &lease, sizeof lease);
    (void)mt_vec_push(&own->out.unmap, memory).code;
    if (early) {
        mt_map_remove(&own->early_ends, mt_map_key(grant->lease));
        free(early);
    } else {
        (void)mt_map_put_num(&own->unwanted, mt_map_key(grant->lease), 1).code;
    }
}

/* A lease that had ended before its grant came: nothing has run on it. */
static void end_if_early(struct own *own, struct own_lane *lane)
{
    struct ctl_ended *early = mt_map_ptr(&own->early_ends, mt_map_key(lane->lease));
    if (!early)
        return;
    mt_map_remove(&own->early_ends, mt_map_key(lane->lease));
    own_lane_ended(own, lane, early);
    free(early);
}

static mt_status granted(struct own *own, const struct ctl_grant *grant, mt_id id, void *memory, struct lane_park *park)
{
    struct own_class *cls;
    struct own_actor *actor = actor_of_grant(own, grant, id, &cls);
    struct own_lane  *lane;
    bool              is_task = cls && !(cls->wire.flags & CTL_CLASS_ACTOR);

    if (!memory || !park)
        return mt_error(MT_EPROTO, 0, "a grant without memory");
    if ((!is_task && (!actor || actor->state == OWN_ACTOR_DEAD)) || (is_task && !class_has_room(cls)) ||
        own_lane_open(own, grant, memory, park, &lane).code) {
        grant_unwanted(own, grant, memory);
        if (actor)
            actor->is_asking = false; /* a caller without memory for the lane asks again */
        return mt_ok();
    }
    if (actor && !is_task) {
        own_actor_granted(own, actor, lane);
    } else {
        cls->lanes[cls->lane_count++] = lane;
        lane->cls = cls;
        own_class_pump(own, cls);
        own_class_tick(own, cls);
    }
    end_if_early(own, lane);
    return mt_ok();
}

static struct own_lane *lane_of(struct own *own, uint64_t lease)
{
    for (size_t i = 0; i < own->lanes.count; i++)
        if (own->lanes.data[i]->lease == lease)
            return own->lanes.data[i];
    return NULL;
}

static void replied(struct own *own, mt_id id, const struct ctl_reply *reply, const uint8_t *bytes, size_t size)
{
    struct own_request *found = mt_map_ptr(&own->requests, id), request;
    if (!found) {
        own_news_came(own, id, reply);
        return;
    }
    request = *found;
    mt_map_remove(&own->requests, id);
    free(found);
    own_actor_reply(own, &request, reply, bytes, size);
}

static void refused(struct own *own, const struct ctl_unschedulable *why)
{
    struct own_class *cls = own_class_of_id(own, why->class_id);
    struct own_actor *actor = cls && cls->wire.flags & CTL_CLASS_ACTOR ? mt_map_ptr(&own->actors, cls->key) : NULL;
    if (actor)
        own_actor_die_of(own, actor, why->code, why->text);
    else if (cls && !(cls->wire.flags & CTL_CLASS_ACTOR))
        own_class_refused(own, cls, why);
}

/* Copies a payload into `to`; false where it is too short. */
static bool take(void *to, size_t size, const uint8_t *payload, size_t have)
{
    if (have < size)
        return false;
    shm_read(to, payload, size);
    return true;
}

static bool moved(struct own *own, uint16_t kind, const uint8_t *payload, size_t size)
{
    struct ctl_moved word;
    bool             fits = take(&word, sizeof word, payload, size);
    if (fits && kind == CTL_MOVED)
        own_ref_adopted(own, &word);
    else if (fits)
        own_ref_not_found(own, &word);
    return fits;
}

static mt_status control(struct own *own, const struct lane_record *record, const uint8_t *payload, void *memory,
                         struct lane_park *park)
{
    size_t           size = record->length - LANE_RECORD_SIZE;
    struct own_lane *lane;
    bool             fits = true;
    union {
        struct ctl_grant         grant;
        struct ctl_lease         lease;
        struct ctl_ended         ended;
        struct ctl_unschedulable refused;
        struct ctl_message       message;
        struct ctl_bounce        bounce;
        struct ctl_death         death;
        struct ctl_reply         reply;
    } in;

    (void)own_prepare(own).code; /* without memory now, what was set aside before has to do */
    switch (record->kind) {
    case CTL_GRANT:
        fits = take(&in, sizeof in.grant, payload, size);
        if (fits)
            return granted(own, &in.grant, record->id, memory, park);
        break;
    case CTL_RECALL:
        fits = take(&in, sizeof in.lease, payload, size);
        lane = fits ? lane_of(own, in.lease.lease) : NULL;
        if (lane && !lane->actor)
            own_lane_recall(own, lane);
        break;
    case CTL_ENDED:
        fits = take(&in, sizeof in.ended, payload, size);
        lane = fits ? lane_of(own, in.ended.lease) : NULL;
        if (lane)
            own_lane_ended(own, lane, &in.ended);
        else if (fits)
            ended_early(own, &in.ended);
        break;
    case CTL_UNSCHEDULABLE:
        fits = take(&in, sizeof in.refused, payload, size);
        if (fits)
            refused(own, &in.refused);
        break;
    case CTL_MESSAGE:
        fits = take(&in, sizeof in.message, payload, size);
        if (fits)
            own_message(own, &in.message, payload + sizeof in.message, size - sizeof in.message);
        break;
    case CTL_BOUNCE:
        fits = take(&in, sizeof in.bounce, payload, size);
        if (fits)
            own_bounced(own, &in.bounce);
        break;
    case CTL_MOVED:
    case CTL_SEEK: fits = moved(own, record->kind, payload, size); break;
    case CTL_DEATH:
        fits = take(&in, sizeof in.death, payload, size);
        if (fits)
            own_died(own, record->id, &in.death);
        break;
    case CTL_REPLY:
        fits = take(&in, sizeof in.reply, payload, size);
        if (fits)
            replied(own, record->id, &in.reply, payload + sizeof in.reply, size - sizeof in.reply);
        break;
    default: break;
    }
    return fits ? mt_ok() : mt_error(MT_EPROTO, 0, "a control record that is too short");
}

mt_status own_control(struct own *own, const struct lane_record *record, const uint8_t *payload, void *memory,
                      struct lane_park *park)
{
    mt_status st = control(own, record, payload, memory, park);
    own_settle_posted(own);
    return st;
}

/* ---- completions and time ---- */

bool own_poll(struct own *own)
{
    uint64_t before = own->completed;
    bool     any = false;
    for (size_t i = 0; i < own->lanes.count; i++) {
        struct own_lane *lane = own->lanes.data[i];
        uint32_t         inflight = lane->inflight;
        own_lane_poll(own, lane);
        if (lane->inflight == inflight)
            continue;
        any = true;
        if (lane->actor && own_actor_has_queued(lane->actor))
            own_actor_pump(own, lane->actor);
        else if (lane->cls && own_class_has_queued(lane->cls))
            own_class_pump(own, lane->cls);
    }
    return any || own->completed != before;
}

unsigned own_where_served(const struct own *own, uint32_t cpu)
{
    unsigned where = 0;
    for (size_t i = 0; i < own->lanes.count; i++)
        if (own->lanes.data[i]->inflight)
            where |= shm_load32(&own->lanes.data[i]->peer->cpu) == cpu ? OWN_HERE : OWN_ELSEWHERE;
    return where;
}

/* The kernel looks for an idle cpu for who is woken only while the machine has little to do, and moves nobody who ran half
 * a millisecond ago: workers with short tasks that once met on one cpu stay there together, beside an idle one. */
void own_spread(struct own *own)
{
    enum { CPUS = 1024, TICKS = 2, RECENT_NS = 2 * 1000 * 1000 };
    uint64_t         seen[CPUS / 64] = {0};
    uint32_t         used = 0;
    struct own_lane *surplus = NULL;
    if (own->lanes.count < 2)
        return;
    for (size_t i = 0; i < own->lanes.count; i++) {
        struct own_lane *lane = own->lanes.data[i];
        uint32_t         at = shm_load32(&lane->peer->cpu);
        if (at == 0 || at >= CPUS || own->now_ns - lane->progress_ns > RECENT_NS)
            continue; /* works elsewhere, or not at all: on a shared cpu it need not have anything just now */
        surplus = seen[at / 64] >> at % 64 & 1 ? lane : surplus;
        used += !(seen[at / 64] >> at % 64 & 1);
        seen[at / 64] |= UINT64_C(1) << at % 64;
    }
    own->crowded_ticks = surplus && used < own->cpus ? own->crowded_ticks + 1 : 0;
    if (own->crowded_ticks < TICKS)
        return;
    own->crowded_ticks = 0;
    shm_store32(&surplus->peer->leave, shm_load32(&surplus->peer->cpu));
}

void own_flush(struct own *own)
{
    for (size_t i = 0; i < own->lanes.count; i++)
        if (own->lanes.data[i]->unpublished)
            own_lane_publish(own, own->lanes.data[i]);
}

/* At each tick of an owner that has few tasks, in builds for tests. */
static void check(const struct own *own)
{
    const char *wrong = own_check(own);
    if (wrong)
        mt_assert_fail(wrong, __FILE__, __LINE__);
}

void own_tick(struct own *own, uint64_t now_ns)
{
    own->now_ns = now_ns;
    if (OWN_CHECKS_ALL && own->task_chunks.count <= CHECKED_CHUNKS)
        check(own);
    (void)own_prepare(own).code; /* tried again at the next one */
    own->is_lacking = false;
    for (size_t i = 0; i < own->class_list.count; i++) {
        own_class_tick(own, own->class_list.data[i]);
        own_ahead_tick(own, own->class_list.data[i]);
    }
    own_class_ticked(own);
    own_actor_tick(own);
    own_settle_posted(own);
    for (size_t i = 0; i < own->lanes.count; i++) {
        own_lane_look(own, own->lanes.data[i]);
        if (own->lanes.data[i]->kill_ns)
            own_cancel_tick(own, own->lanes.data[i]);
    }
    own_probe_tick(own);
    own_settle_posted(own);
    own_flush(own);
}
