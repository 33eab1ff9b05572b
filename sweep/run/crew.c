/* SPDX-License-Identifier: Apache-2.0
 *
 * crew.c - see crew.h.
 *
 * Owns: actor handles and the refs of their calls.
 */
#include "sweep/run/crew.h"

#include "core/base/clock.h"
#include "sweep/trial/ends.h"
#include "sweep/trial/gang.h"
#include "sweep/trial/trial.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

mt_status swp_crew_init(struct swp_crew *crew, int count, int most, const char *trial, const manta_sweep_opts *o,
                        const char *folder)
{
    size_t n = (size_t)most;
    bool   is_gang = o->command && o->command->gang; /* which reserves for itself */
    *crew = (struct swp_crew){.count = count, .trial = trial};
    crew->wish = (manta_wish){.num_cpus = swp_cpus(o),
                              .num_gpus = o->gpus,
                              .memory = o->memory,
                              .resources = o->resources,
                              .resource_count = o->resource_count};
    crew->parts = swp_gang_parts(o);
    crew->opts = (manta_actor_opts){.num_cpus = is_gang ? 0 : swp_cpus(o),
                                    .num_gpus = is_gang ? 0 : o->gpus,
                                    .memory = o->memory,
                                    .resources = o->resources,
                                    .resource_count = o->resource_count};
    snprintf(crew->ends, sizeof crew->ends, "%s/ends/%lld-%d", folder, (long long)mt_now_ns(), (int)getpid());
    crew->seats = calloc(n, sizeof *crew->seats);
    crew->refs = calloc(n, sizeof *crew->refs);
    crew->whose = calloc(n, sizeof *crew->whose);
    crew->is_there = calloc(n, 1);
    crew->data = o->data ? manta_put(o->data, o->data_size) : manta_put("", 1);
    if (!crew->seats || !crew->refs || !crew->whose || !crew->is_there)
        return mt_error(MT_ENOMEM, 0, "make slots");
    return swp_setup_put(&crew->setup, o, folder);
}

static void bury(struct swp_seat *seat)
{
    manta_free(seat->wait);
    manta_free(seat->run);
    manta_actor_free(seat->actor);
    mt_buf_fini(&seat->words);
    *seat = (struct swp_seat){.hires = seat->hires};
}

void swp_crew_fini(struct swp_crew *crew)
{
    for (int i = 0; crew->seats && i < crew->count; i++) {
        if (crew->seats[i].actor)
            manta_actor_kill(crew->seats[i].actor, false);
        bury(&crew->seats[i]);
    }
    free(crew->seats);
    free(crew->refs);
    free(crew->whose);
    free(crew->is_there);
    roster_fini(&crew->nodes);
    manta_free(crew->data);
    mt_buf_fini(&crew->setup);
}

void swp_crew_ends(const struct swp_crew *crew, int slot, char out[SWP_ENDS_PATH_SIZE])
{
    snprintf(out, SWP_ENDS_PATH_SIZE, "%s-%d-%u", crew->ends, slot, crew->seats[slot].hires);
}

void swp_crew_hire(struct swp_crew *crew, int slot)
{
    struct swp_seat *seat = &crew->seats[slot];
    char             ends[SWP_ENDS_PATH_SIZE];
    bury(seat);
    seat->hires++;
    swp_crew_ends(crew, slot, ends);
    swp_ends_make(ends);
    seat->actor = manta_actor_new(SWP_SLOT_TYPE, &crew->opts,
                                  MANTA_ARGS(manta_bytes_of(crew->setup.data, crew->setup.size), manta_str(crew->trial),
                                             manta_str(ends), manta_ref_arg(crew->data)));
    seat->wait = manta_actor_call(seat->actor, "ready", MANTA_NO_ARGS);
}

void swp_crew_kill(struct swp_crew *crew, int slot)
{
    struct swp_seat *seat = &crew->seats[slot];
    if (!seat->actor || seat->killed_ns)
        return;
    manta_actor_kill(seat->actor, false);
    seat->killed_ns = mt_now_ns();
}

mt_status swp_crew_write(struct swp_crew *crew, int slot, const struct swp_wire *word)
{
    return swp_wire_put(&crew->seats[slot].words, word);
}

/* ---- news ---- */

static mt_status down(struct swp_seat *seat, struct swp_event *ev, const manta_error *e, swp_crew_fn fn, void *user)
{
    char text[MT_ERROR_BYTES_MAX + sizeof e->backtrace];
    snprintf(text, sizeof text, "%s%s%s", e->message, e->backtrace[0] ? "\n" : "", e->backtrace);
    ev->kind = SWP_EV_SLOT_DOWN;
    ev->down.code = e->code == MANTA_ETASK && e->user_code ? e->user_code : e->code;
    ev->down.text = text;
    if (seat->actor && e->code != MANTA_EACTOR_DIED)
        manta_actor_kill(seat->actor, false);
    bury(seat);
    return fn(user, ev, (mt_view){0});
}

/* ---- words ---- */

/* What it was told waits in its lane, or has found no room in an object store and will never come. */
static bool is_told(manta_ref *told, manta_error *e)
{
    unsigned char is_over = 0;
    manta_view    view = {0};
    e->code = MANTA_OK;
    if (manta_wait(&told, 1, 1, 0, &is_over, NULL) == 1 && manta_get(told, 0, &view, e) == MANTA_OK)
        manta_release(&view);
    return e->code == MANTA_OK || e->code == MANTA_EACTOR_DIED; /* of that it hears by its news */
}

mt_status swp_crew_send(struct swp_crew *crew, swp_crew_fn fn, void *user)
{
    mt_status st = mt_ok();
    for (int i = 0; i < crew->count && st.code == 0; i++) {
        struct swp_seat *seat = &crew->seats[i];
        struct swp_event ev = {.slot = i, .trial = -1, .now_ns = mt_now_ns()};
        manta_error      e;
        if (seat->words.size == 0 || !seat->actor)
            continue;
        manta_ref *told = manta_actor_call(seat->actor, "tell", MANTA_ARGS(manta_bytes_of(seat->words.data, seat->words.size)));
        seat->words.size = 0;
        if (!is_told(told, &e))
            st = down(seat, &ev, &e, fn, user);
        manta_free(told);
    }
    return st;
}

static mt_status event_of(struct swp_event *ev, const struct swp_wire *m, swp_crew_fn fn, void *user)
{
    char text[MT_ERROR_BYTES_MAX + MT_SWEEP_TAIL_BYTES];
    snprintf(text, sizeof text, "%.*s", (int)(m->text.size < sizeof text ? m->text.size : sizeof text - 1),
             m->text.size ? (const char *)m->text.data : "");
    ev->trial = m->trial;
    ev->run = m->run;
    switch (m->kind) {
    case SWP_WIRE_REPORT:
        ev->kind = SWP_EV_REPORT;
        ev->report.step = m->step;
        ev->report.metric = text[0] ? text : NULL;
        ev->report.wants_answer = m->flags != 0;
        memcpy(&ev->report.value, &m->number, sizeof ev->report.value);
        break;
    case SWP_WIRE_SAVED:
        ev->kind = SWP_EV_SAVED;
        ev->saved.step = m->step;
        break;
    case SWP_WIRE_FINISHED:
        ev->kind = SWP_EV_FINISHED;
        ev->finished.code = (int32_t)m->number;
        ev->finished.why = text[0] ? text : NULL;
        ev->finished.is_final = (m->flags & SWP_FINISHED_FINAL) != 0;
        break;
    case SWP_WIRE_RETURNED: ev->kind = SWP_EV_RETURNED; break;
    default: return mt_ok();
    }
    return fn(user, ev, m->bytes);
}

static mt_status polled(struct swp_seat *seat, const struct swp_event *base, const manta_view *view, swp_crew_fn fn, void *user)
{
    mt_reader       r = mt_reader_of(mt_view_of(view->data, view->size));
    struct swp_wire m;
    mt_status       st = mt_ok();
    (void)seat;
    while (st.code == 0 && swp_wire_take(&r, &m)) {
        struct swp_event ev = *base;
        st = event_of(&ev, &m, fn, user);
    }
    return st;
}

static mt_status seat_look(struct swp_crew *crew, int slot, swp_crew_fn fn, void *user)
{
    struct swp_seat *seat = &crew->seats[slot];
    struct swp_event ev = {.slot = slot, .trial = -1, .now_ns = mt_now_ns()};
    manta_view       view = {0};
    manta_error      e;
    if (manta_get(seat->wait, MANTA_FOREVER, &view, &e) != MANTA_OK)
        return down(seat, &ev, &e, fn, user);
    manta_free(seat->wait);
    seat->wait = manta_actor_call(seat->actor, "poll", MANTA_NO_ARGS); /* while what came is looked at */
    mt_status st;
    if (seat->is_up) {
        st = polled(seat, &ev, &view, fn, user);
    } else {
        seat->is_up = true;
        if (view.size == sizeof(uint64_t))
            seat->node = (uint32_t)(*(const uint64_t *)view.data);
        seat->run = manta_actor_call(seat->actor, "run", MANTA_NO_ARGS);
        ev.kind = SWP_EV_SLOT_UP;
        st = fn(user, &ev, (mt_view){0});
    }
    manta_release(&view);
    return st;
}

/* One that was killed and does not say that it is dead: its node does not answer. */
static mt_status lost_look(struct swp_crew *crew, swp_crew_fn fn, void *user)
{
    static const manta_error e = {.code = MANTA_EACTOR_DIED, .message = "it was killed, and its node does not answer"};
    for (int i = 0; i < crew->count; i++) {
        struct swp_event ev = {.slot = i, .trial = -1, .now_ns = mt_now_ns()};
        if (crew->seats[i].killed_ns && ev.now_ns - crew->seats[i].killed_ns > MT_SWEEP_LEAVE_MS * 1000000ll)
            MT_TRY(down(&crew->seats[i], &ev, &e, fn, user));
    }
    return mt_ok();
}

mt_status swp_crew_look(struct swp_crew *crew, int wait_ms, swp_crew_fn fn, void *user)
{
    size_t      count = 0;
    manta_error e;
    for (int i = 0; i < crew->count; i++)
        if (crew->seats[i].wait) {
            crew->refs[count] = crew->seats[i].wait;
            crew->whose[count++] = i;
        }
    if (count == 0) {
        mt_sleep_ms(wait_ms);
        return mt_ok();
    }
    int n = manta_wait(crew->refs, count, 1, wait_ms, crew->is_there, &e);
    if (n < 0) {
        snprintf(crew->text, sizeof crew->text, "the trials can't be heard of: %.400s", e.message);
        return mt_error(-n, 0, "wait for trials");
    }
    for (size_t i = 0; i < count && n > 0; i++)
        if (crew->is_there[i])
            MT_TRY(seat_look(crew, crew->whose[i], fn, user));
    return lost_look(crew, fn, user);
}

/* ---- room ---- */

static double resource_of(const manta_sweep_opts *o, const manta_node_info *node)
{
    double cpus = swp_cpus(o), room = INFINITY;
    if (cpus > 0)
        room = floor(node->cpus / cpus + 1e-9);
    if (o->gpus > 0)
        room = fmin(room, floor(node->gpus / o->gpus + 1e-9));
    return isfinite(room) ? room : floor(node->cpus);
}

static int room_of(const manta_sweep_opts *o, const manta_node_info *nodes, int count)
{
    double room = 0;
    for (int i = 0; nodes && i < count; i++)
        room += nodes[i].alive ? resource_of(o, &nodes[i]) : 0;
    room = floor(room / swp_gang_parts(o));
    return count < 0 ? count : room < 1 ? 1 : room > MT_SWEEP_SLOTS_MAX ? MT_SWEEP_SLOTS_MAX : (int)room;
}

int swp_crew_room(const manta_sweep_opts *o, manta_error *e)
{
    int              count;
    manta_node_info *nodes = roster_list(&count, e);
    int              room = room_of(o, nodes, count);
    free(nodes);
    return room;
}

static bool is_leaving(const struct roster *nodes, uint32_t node)
{
    const manta_node_info *found = roster_find(nodes, node);
    return found && found->draining;
}

int swp_crew_nodes(struct swp_crew *crew, const manta_sweep_opts *o, swp_crew_fn fn, void *user, mt_status *out)
{
    *out = mt_ok();
    roster_look(&crew->nodes, MANTA_NEWS_NODES, 0);
    if (!crew->nodes.of)
        return -MANTA_ECONN;
    for (int i = 0; i < crew->count && out->code == 0; i++) {
        struct swp_event ev = {.kind = SWP_EV_LEAVE, .slot = i, .trial = -1, .now_ns = mt_now_ns()};
        if (crew->seats[i].is_up && is_leaving(&crew->nodes, crew->seats[i].node))
            *out = fn(user, &ev, (mt_view){0});
    }
    return room_of(o, crew->nodes.of, crew->nodes.count);
}

void swp_crew_wish(struct swp_crew *crew, const char *name, int count, int room)
{
    manta_wish wish = crew->wish;
    wish.name = name;
    wish.count = (count < MT_SWEEP_SLOTS_MAX - room ? count : MT_SWEEP_SLOTS_MAX - room) * crew->parts;
    wish.worth = 1.0 / room / crew->parts;
    if (wish.count == crew->wished && room == crew->wished_room)
        return;
    if (manta_wish_tell(&wish, NULL) == MANTA_OK) { /* else again, with the next look */
        crew->wished = wish.count;
        crew->wished_room = room;
    }
}
