/* SPDX-License-Identifier: Apache-2.0
 *
 * pace.c - a job that must have ended by some time: when it waits for a spot node, and when it runs on one that nobody takes away.
 *
 *   no time to spare (less than two changes of place)      --> a sure node, until it ends
 *   spot nodes will do, by what was seen of them           --> a spot node; where none can be had it waits
 *   they will not                                          --> whichever can be had
 *   it runs on a spot node                                 --> it stays until that is taken away
 *   it runs on a sure one, and there is time to spare      --> a spot node is looked for; it moves once that is there
 *
 * From the policy of Wu et al., "Can't Be Late: Optimizing Spot Instance Savings under Deadlines" (NSDI 2024): the last rule of
 * safety, staying on spot nodes, and the hysteresis. Its line of uniform progress is replaced by what is to be expected of spot
 * nodes: the share of time in which there were any, which begins as a half, seen for twelve hours.
 */
#include "scheduler/scaler/pack.h"

#include "core/base/plant.h"

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

static enum scl_place place_of(const struct scl *s, uint32_t node)
{
    const struct scl_known    *n = node ? mt_map_ptr(&s->nodes, mt_map_key(node)) : NULL;
    const struct scl_instance *i = n ? scl_find(s, n->instance) : NULL;
    if (!n || n->place.state != POLICY_ALIVE)
        return SCL_NOWHERE;
    return i && i->type_index != SCL_NO_TYPE && s->types[i->type_index].is_spot ? SCL_ON_SPOT : SCL_ON_SURE;
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

struct scl_pace_choice scl_pace_choose(const struct scl *s, const struct scl_pace *pace)
{
    struct scl_pace_choice c = {.place = place_of(s, pace->node)};
    uint64_t               change = pace->change_ms + boot_of(s) + MT_SCL_PACE_LATE_MS;
    uint64_t               time = pace->deadline_ms > s->now_ms ? pace->deadline_ms - s->now_ms : 0;
    bool                   is_late = time < pace->left_ms + 2 * change && !MT_PLANT(MT_PLANT_PACE_CALM);
    bool                   is_ahead = pace->left_ms + 4 * change < expected(s, time);
    if (c.place == SCL_ON_SPOT)
        c.wants = SCL_WANTS_NOTHING;
    else if (c.place == SCL_ON_SURE)
        c.wants = time < pace->left_ms + 3 * change ? SCL_WANTS_NOTHING : SCL_WANTS_SPOT;
    else
        c.wants = is_late ? SCL_WANTS_SURE : pace->left_ms > expected(s, time) ? SCL_WANTS_ANY : SCL_WANTS_SPOT;
    c.leaves = c.place == SCL_ON_SURE && c.wants == SCL_WANTS_SPOT && is_ahead;
    c.late_ms = pace->deadline_ms - pace->left_ms - 2 * change; /* from then on it is late */
    if (pace->deadline_ms < pace->left_ms + 2 * change)
        c.late_ms = 0;
    return c;
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
