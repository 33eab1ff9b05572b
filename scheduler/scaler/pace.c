/* SPDX-License-Identifier: Apache-2.0
 *
 * pace.c - a job that must have ended by some time: when it waits for a spot node, and when it runs on one that nobody takes away.
 *
 *   no time to spare (less than two changes of place)      --> a sure node, until it ends
 *   spot nodes will do, by what was seen of them           --> a spot node; where none can be had it waits
 *   they will not                                          --> whichever can be had
 *   it runs on a spot node                                 --> it stays until that is taken away
 *   it runs on a sure one, and there is time to spare      --> a spot node is looked for; it moves once that is there
 *   it runs on one that the scaler has not started         --> it stays: that costs nothing more
 *   it starts over where its node is taken away            --> time to spare is what is left after all of it was lost; no moves
 *
 * From the policy of Wu et al., "Can't Be Late: Optimizing Spot Instance Savings under Deadlines" (NSDI 2024): the last rule of
 * safety, staying on spot nodes, and the hysteresis. Its line of uniform progress is replaced by what is to be expected of spot
 * nodes: the share of time in which there were any, which begins as a half, seen for twelve hours.
 */
#include "scheduler/scaler/pack.h"

#include "core/base/plant.h"

#include <inttypes.h>
#include <stdio.h>

enum { PRIOR_MS = 12 * 3600 * 1000, HOPE_PERCENT = 150 };

/* Spot nodes that are there say that they can be had; refusals, and such that were taken, that they can't. Else nobody knows. */
void scl_pace_look(struct scl *s)
{
    uint64_t passed = s->now_ms - s->spot_looked_ms;
    bool     is_there = s->live_spot > 0, is_refused = false;
    for (uint32_t t = 0; t < s->config.count; t++)
        is_refused = is_refused || (s->types[t].is_spot && (s->now_ms < s->state[t].back_ms || s->now_ms < s->state[t].avoid_ms));
    s->spot_looked_ms = s->now_ms;
    if (s->spot_was_there)
        s->spot_there_ms += passed;
    else if (s->spot_was_refused)
        s->spot_away_ms += passed;
    s->spot_was_there = is_there;
    s->spot_was_refused = is_refused;
}

/* So much of a time spot nodes can be expected to be there, with some hope. */
static uint64_t expected(const struct scl *s, uint64_t time_ms)
{
    double there = (double)s->spot_there_ms, all = there + (double)s->spot_away_ms;
    return (uint64_t)((double)time_ms * HOPE_PERCENT / 100 * (there + PRIOR_MS / 2.0) / (all + PRIOR_MS));
}

/* One of a person's own costs nothing more, and nobody takes it away: SCL_ON_OWN. */
static enum scl_place place_of(const struct scl *s, uint32_t node)
{
    const struct scl_known    *n = node ? mt_map_ptr(&s->nodes, mt_map_key(node)) : NULL;
    const struct scl_instance *i = n ? scl_find(s, n->instance) : NULL;
    if (!n || n->place.state != POLICY_ALIVE)
        return SCL_NOWHERE;
    if (!i)
        return SCL_ON_OWN;
    return i->type_index != SCL_NO_TYPE && s->types[i->type_index].is_spot ? SCL_ON_SPOT : SCL_ON_SURE;
}

/* The longest that a sure node takes to come: as seen, or else as long as it may take. */
static uint64_t boot_of(const struct scl *s)
{
    uint64_t most = 0;
    for (uint32_t t = 0; t < s->config.count; t++) {
        uint64_t boot = s->state[t].boot_ms ? s->state[t].boot_ms : s->types[t].boot_ms;
        most = !s->types[t].is_spot && boot > most ? boot : most;
    }
    return most;
}

/* Whether there are such types, and one of them could hold it. */
static bool could_be(const struct scl *s, bool is_spot, const struct policy_request *r)
{
    for (uint32_t t = 0; t < s->config.count; t++)
        if (s->types[t].is_spot == is_spot && s->types[t].max > 0 && policy_fits_total(&s->types[t].place, r))
            return true;
    return false;
}

static uint64_t change_of(const struct scl *s, const struct scl_pace *pace)
{
    return pace->change_ms + boot_of(s) + MT_SCL_PACE_LATE_MS;
}

/* From then on it must be on a sure node; 0: it must now. */
static uint64_t late_of(const struct scl *s, const struct scl_pace *pace)
{
    uint64_t needs = pace->left_ms + pace->risk_ms + 2 * change_of(s, pace);
    return pace->deadline_ms > needs ? pace->deadline_ms - needs : 0;
}

static enum scl_wants wants_elsewhere(const struct scl *s, const struct scl_pace *pace, uint64_t time, bool is_late)
{
    if (is_late)
        return SCL_WANTS_SURE;
    return pace->left_ms > expected(s, time) ? SCL_WANTS_ANY : SCL_WANTS_SPOT;
}

struct scl_pace_choice scl_pace_choose(const struct scl *s, const struct scl_pace *pace, const struct policy_request *r,
                                       uint64_t now_ms)
{
    struct scl_pace_choice c = {.place = place_of(s, pace->node), .late_ms = late_of(s, pace)};
    uint64_t               change = change_of(s, pace), time = pace->deadline_ms > now_ms ? pace->deadline_ms - now_ms : 0;
    bool                   is_late = now_ms >= c.late_ms && !MT_PLANT(MT_PLANT_PACE_CALM);
    bool                   is_ahead = pace->left_ms + 4 * change < expected(s, time);
    bool                   has_spot = could_be(s, true, r), has_sure = could_be(s, false, r);
    if (c.place == SCL_NOWHERE)
        c.wants = has_spot && has_sure ? wants_elsewhere(s, pace, time, is_late) : SCL_WANTS_ANY;
    else if (c.place == SCL_ON_SURE && has_spot && !pace->stays && time >= pace->left_ms + 3 * change)
        c.wants = SCL_WANTS_SPOT;
    else
        c.wants = SCL_WANTS_NOTHING;
    c.leaves = c.wants == SCL_WANTS_SPOT && c.place == SCL_ON_SURE && is_ahead;
    return c;
}

void scl_pace_ask(const struct scl *s, const struct scl_pace *pace, const struct policy_request *r, uint64_t now_ms,
                  char *out_labels, char *out_why, size_t why_size)
{
    struct scl_pace_choice c = scl_pace_choose(s, pace, r, now_ms);
    out_labels[0] = out_why[0] = '\0';
    if (c.wants == SCL_WANTS_SPOT) { /* ... or one of a person's own, which costs nothing more */
        snprintf(out_labels, MT_SCL_NAME_SIZE, "!manta.instance;manta.spot");
        snprintf(out_why, why_size, "has time to wait for a spot node, for %" PRIu64 " s more (manta scale explain)",
                 (c.late_ms - now_ms) / 1000);
    } else if (c.wants == SCL_WANTS_SURE) {
        snprintf(out_labels, MT_SCL_NAME_SIZE, "!manta.spot");
        snprintf(out_why, why_size, "needs a node that nobody takes away, to end in time (manta scale explain)");
    }
}

void scl_pace_request(const struct policy_request *r, enum scl_wants wants, struct policy_request *out)
{
    const char *term = wants == SCL_WANTS_SPOT ? "manta.spot" : "!manta.spot";
    size_t      used = 0, size = sizeof out->labels;
    *out = *r;
    if (wants == SCL_WANTS_ANY || wants == SCL_WANTS_NOTHING)
        return;
    for (const char *at = r->labels;;) { /* each alternative */
        size_t length = strcspn(at, ";");
        int    n = snprintf(out->labels + used, size - used, "%.*s%s%s%s", (int)length, at, length ? "," : "", term,
                         at[length] ? ";" : "");
        used += (size_t)n;
        if (used >= size) { /* too long to be added to: the type's own choice */
            snprintf(out->labels, size, "%s", r->labels);
            return;
        }
        if (!at[length])
            return;
        at += length + 1;
    }
}
