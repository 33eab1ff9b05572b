/* SPDX-License-Identifier: Apache-2.0
 *
 * meet.c - see meet.h. Owns: the list of ranks, and the lines that were not sent yet.
 */
#include "clients/gang/plan/meet.h"

#include "core/base/limits/gang.h"
#include "core/base/machine.h"
#include "core/base/plant.h"
#include "core/text/json.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const names[] = {[GNG_MEET_GATHERING] = "GATHERING",
                                    [GNG_MEET_MAKING] = "MAKING",
                                    [GNG_MEET_TOGETHER] = "TOGETHER",
                                    [GNG_MEET_CLOSED] = "CLOSED"};
/* Drawn in meet.h. */
static const uint32_t next[] = {
    [GNG_MEET_GATHERING] = MT_STATE(GNG_MEET_MAKING) | MT_STATE(GNG_MEET_TOGETHER) | MT_STATE(GNG_MEET_CLOSED),
    [GNG_MEET_MAKING] = MT_STATE(GNG_MEET_GATHERING) | MT_STATE(GNG_MEET_TOGETHER) | MT_STATE(GNG_MEET_CLOSED),
    [GNG_MEET_TOGETHER] = MT_STATE(GNG_MEET_GATHERING) | MT_STATE(GNG_MEET_CLOSED),
    [GNG_MEET_CLOSED] = 0,
};
static const struct mt_machine meet_machine = MT_MACHINE("meet", names, next);

static void meet_set_state(struct gng_meet *m, enum gng_meet_state to)
{
    MT_TRANSITION(&meet_machine, m->state, to);
    m->state = to;
}

void gng_meet_init(struct gng_meet *m, struct gng_met *of, int count, bool is_one_node)
{
    *m = (struct gng_meet){.of = of, .count = count, .maker = -1, .finished = -1, .is_one_node = is_one_node};
}

void gng_meet_sent(struct gng_meet *m)
{
    for (size_t i = 0; i < m->lines.count; i++)
        mt_buf_fini(&m->lines.data[i].line);
    m->lines.count = 0;
}

void gng_meet_fini(struct gng_meet *m)
{
    gng_meet_sent(m);
    mt_vec_fini(&m->lines);
    free(m->of);
    *m = (struct gng_meet){0};
}

bool gng_meet_stuck(const struct gng_meet *m, int rank)
{
    return m->state == GNG_MEET_CLOSED && m->of[rank].takes_part;
}

/* ---- what is told ---- */

/* Takes the text. */
static mt_status line_push(struct gng_meet *m, int rank, mt_buf *text, mt_status st)
{
    if (st.code == 0)
        st = mt_buf_append(text, "\n", 1);
    if (st.code == 0)
        st = mt_vec_push(&m->lines, (struct gng_heard){rank, *text});
    if (st.code)
        mt_buf_fini(text);
    return st;
}

static mt_status peers_put(const struct gng_meet *m, const char *key, mt_buf *out)
{
    MT_TRY(mt_buf_printf(out, ", \"key\": \"%s\", \"group\": 1, \"peers\": [", key));
    for (int i = 0; i < m->count; i++)
        MT_TRY(mt_buf_printf(out, "%s\"%s\"", i ? ", " : "", m->of[i].address));
    return mt_buf_printf(out, "]");
}

/* `id`: of the memory, or NULL: they meet. */
static mt_status generation_tell(struct gng_meet *m, const char *id, const char *key)
{
    for (int i = 0; i < m->count; i++) {
        struct gng_met *r = &m->of[i];
        mt_buf          text = {0};
        mt_status       st = mt_buf_printf(&text,
                                           "{\"generation\": %u, \"rank\": %d, \"size\": %d, \"local_rank\": %d, "
                                                 "\"local_size\": %d, \"timeout_ms\": %d",
                                           m->generation, i, m->count, r->local_rank, r->local_size, MT_GANG_MEET_MS);
        if (st.code == 0)
            st = id ? mt_buf_printf(&text, ", \"afresh\": \"%s\"", id) : peers_put(m, key, &text);
        if (st.code == 0)
            st = mt_buf_printf(&text, "}");
        MT_TRY(line_push(m, i, &text, st));
        r->is_member = true;
        r->has_joined = r->is_over = false;
    }
    meet_set_state(m, GNG_MEET_TOGETHER);
    return mt_ok();
}

static mt_status closed_tell(struct gng_meet *m, int rank)
{
    mt_buf    text = {0};
    mt_status st = m->finished < 0 ? mt_buf_printf(&text, "{\"closed\": null}")
                                   : mt_buf_printf(&text, "{\"closed\": %d}", m->finished);
    return line_push(m, rank, &text, st);
}

/* A survivor makes it, since it has its memory longest. */
static int maker_choose(const struct gng_meet *m)
{
    for (int i = 0; i < m->count; i++)
        if (m->of[i].is_member)
            return i;
    return 0;
}

static mt_status form(struct gng_meet *m, const char *key)
{
    mt_buf text = {0};
    for (int i = 0; i < m->count && !MT_PLANT(MT_PLANT_MEET_PART); i++)
        if (!m->of[i].is_ready)
            return mt_ok();
    m->generation++;
    if (!m->is_one_node)
        return generation_tell(m, NULL, key);
    m->maker = maker_choose(m);
    meet_set_state(m, GNG_MEET_MAKING);
    mt_status st = mt_buf_printf(&text, "{\"make\": %u, \"size\": %d, \"timeout_ms\": %d}", m->generation, m->count,
                                 MT_GANG_MEET_MS);
    return line_push(m, m->maker, &text, st);
}

/* ---- what is said ---- */

struct said {
    int64_t ready, made, joined, over;
    char    address[GNG_MEET_ADDRESS + 2], id[GNG_MEET_ID + 2]; /* one more: what is too long is seen */
};

static bool is_hex(const char *text, size_t digits)
{
    return strlen(text) == digits && strspn(text, "0123456789abcdef") == digits;
}

static mt_status member_read(struct mt_json *json, mt_buf *name, mt_buf *text, struct said *out)
{
    struct mt_literal value;
    MT_TRY(mt_json_name(json, name));
    MT_TRY(mt_json_literal(json, text, &value));
    const char *is = (const char *)name->data;
    bool        is_number = value.kind == MT_LITERAL_INT && value.integer > 0;
    if (value.kind == MT_LITERAL_TEXT && strcmp(is, "address") == 0)
        snprintf(out->address, sizeof out->address, "%s", value.text);
    else if (value.kind == MT_LITERAL_TEXT && strcmp(is, "id") == 0)
        snprintf(out->id, sizeof out->id, "%s", value.text);
    else if (is_number && strcmp(is, "ready") == 0)
        out->ready = value.integer;
    else if (is_number && strcmp(is, "made") == 0)
        out->made = value.integer;
    else if (is_number && strcmp(is, "joined") == 0)
        out->joined = value.integer;
    else if (is_number && strcmp(is, "over") == 0)
        out->over = value.integer;
    return mt_ok();
}

static mt_status said_read(mt_view line, struct said *out)
{
    struct mt_json json = mt_json_of(line);
    mt_buf         name = {0}, text = {0};
    bool           first = true;
    mt_status      st = mt_json_take(&json, '{');
    while (st.code == 0 && mt_json_more(&json, '}', &first, &st))
        st = member_read(&json, &name, &text, out);
    if (st.code == 0)
        st = mt_json_end(&json);
    mt_buf_fini(&name);
    mt_buf_fini(&text);
    return st;
}

static mt_status ready_take(struct gng_meet *m, struct gng_met *r, const struct said *s, const char *key)
{
    if (r->is_ready || (!m->is_one_node && !is_hex(s->address, GNG_MEET_ADDRESS)))
        return mt_error(MT_EPROTO, 0, "it says twice that it is ready, or not where it listens");
    r->is_ready = r->takes_part = true;
    memcpy(r->address, s->address, sizeof r->address - 1);
    r->address[sizeof r->address - 1] = 0;
    if (m->state == GNG_MEET_CLOSED && !MT_PLANT(MT_PLANT_MEET_DEAF))
        return closed_tell(m, (int)(r - m->of));
    return m->state == GNG_MEET_GATHERING ? form(m, key) : mt_ok();
}

/* Where all say so they meet again as they are. */
static mt_status over_take(struct gng_meet *m, struct gng_met *r, int64_t generation, const char *key)
{
    if (m->state != GNG_MEET_TOGETHER || generation != m->generation || MT_PLANT(MT_PLANT_MEET_GIVEN_UP))
        return mt_ok();
    r->is_over = true;
    for (int i = 0; i < m->count && !MT_PLANT(MT_PLANT_MEET_HASTY); i++)
        if (!m->of[i].is_over)
            return mt_ok();
    if (++m->given_up > MT_GANG_GIVEN_UP_MAX)
        return mt_error(MT_EPROTO, 0, "as all others, it gives up generation after generation, and nobody has died");
    meet_set_state(m, GNG_MEET_GATHERING);
    return form(m, key);
}

mt_status gng_meet_said(struct gng_meet *m, int rank, mt_view line, const char *key)
{
    struct said s = {0};
    mt_status   st = said_read(line, &s);
    if (st.code == MT_ENOMEM)
        return st;
    if (st.code || (!s.ready && !s.made && !s.joined && !s.over))
        return mt_error(MT_EPROTO, 0, "it says something else than manta_torch does");
    if (s.ready)
        return ready_take(m, &m->of[rank], &s, key);
    if (s.joined) {
        m->of[rank].has_joined = s.joined == m->generation;
        return mt_ok();
    }
    if (s.over)
        return over_take(m, &m->of[rank], s.over, key);
    if (!is_hex(s.id, GNG_MEET_ID))
        return mt_error(MT_EPROTO, 0, "it names no group");
    if (m->state != GNG_MEET_MAKING || rank != m->maker || (s.made != m->generation && !MT_PLANT(MT_PLANT_MEET_STALE)))
        return mt_ok(); /* one that nobody waits for any more */
    return generation_tell(m, s.id, key);
}

/* ---- ends ---- */

/* Those that were in a generation need not wait until they see it themselves. */
static mt_status over_tell(struct gng_meet *m)
{
    for (int i = 0; i < m->count; i++) {
        mt_buf text = {0};
        if (m->of[i].is_member)
            MT_TRY(line_push(m, i, &text, mt_buf_printf(&text, "{\"over\": %u}", m->generation)));
    }
    return mt_ok();
}

/* Of those that take part, so that they need not wait for a generation. */
static mt_status close_for(struct gng_meet *m, int finished)
{
    if (m->state == GNG_MEET_CLOSED)
        return mt_ok();
    m->finished = finished;
    meet_set_state(m, GNG_MEET_CLOSED);
    for (int i = 0; i < m->count; i++)
        if (m->of[i].is_ready)
            MT_TRY(closed_tell(m, i));
    return mt_ok();
}

mt_status gng_meet_close(struct gng_meet *m)
{
    return close_for(m, -1);
}

mt_status gng_meet_ended(struct gng_meet *m, int rank, bool is_failed)
{
    struct gng_met *r = &m->of[rank];
    bool            was_ready = r->is_ready, was_in = r->has_joined || MT_PLANT(MT_PLANT_MEET_JOINING);
    r->is_ready = r->is_member = r->has_joined = false;
    r->address[0] = 0;
    if (m->state == GNG_MEET_TOGETHER && was_ready && (is_failed || !was_in))
        MT_TRY(over_tell(m));
    if (!is_failed && !MT_PLANT(MT_PLANT_MEET_ON))
        return close_for(m, rank); /* it is not started again, and each generation has all ranks */
    if (!was_ready || m->state == GNG_MEET_GATHERING || m->state == GNG_MEET_CLOSED)
        return mt_ok();
    meet_set_state(m, GNG_MEET_GATHERING);
    return mt_ok();
}
