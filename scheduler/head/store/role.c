/* SPDX-License-Identifier: Apache-2.0
 *
 * role.c - see role.h, where the drawing is.
 */
#include "scheduler/head/store/role.h"

#include "core/base/limits/head.h"
#include "core/base/machine.h"
#include "core/base/plant.h"

#include <string.h>

static const char *const role_names[] = {
    [HEAD_STANDBY] = "STANDBY", [HEAD_CLAIMING] = "CLAIMING", [HEAD_LEADING] = "LEADING", [HEAD_HANDING] = "HANDING"};
static const uint32_t role_next[] = {
    [HEAD_STANDBY] = MT_STATE(HEAD_CLAIMING),
    [HEAD_CLAIMING] = MT_STATE(HEAD_LEADING) | MT_STATE(HEAD_STANDBY),
    [HEAD_LEADING] = MT_STATE(HEAD_HANDING) | MT_STATE(HEAD_STANDBY),
    [HEAD_HANDING] = MT_STATE(HEAD_STANDBY),
};
static const struct mt_machine role_machine = MT_MACHINE("head role", role_names, role_next);

static void head_role_set_state(struct head_role *role, enum head_role_state to)
{
    MT_TRANSITION(&role_machine, role->state, to);
    role->state = to;
}

void head_role_init(struct head_role *role, bool is_leading)
{
    *role = (struct head_role){.state = is_leading ? HEAD_LEADING : HEAD_STANDBY};
}

/* Who let it go left it to the others; if none of them comes, the cluster still needs a head. */
static bool is_left_to_others(const struct head_role *role, const struct head_said *said, uint64_t now_ms)
{
    return !MT_PLANT(MT_PLANT_HANDED_CLAIMS) && role->handed_run != 0 && said->at.run == role->handed_run &&
           now_ms < role->handed_until_ms;
}

bool head_role_looked(struct head_role *role, const struct head_said *said, uint64_t now_ms)
{
    MT_ASSERT(role->state == HEAD_STANDBY);
    bool is_heard = role->heard_ms != 0 && now_ms - role->heard_ms < MT_HEAD_HEARD_MS && !MT_PLANT(MT_PLANT_STANDBY_DOUBTS);
    bool is_free = (said->holder[0] == '\0' && !is_heard) || (role->gone_run != 0 && said->at.run == role->gone_run);
    bool is_older = said->at.fence < role->fence || (said->at.run == role->seen.at.run && said->at.seq < role->seen.at.seq);
    if (MT_PLANT(MT_PLANT_STANDBY_HASTY))
        is_free = true;
    if (said->word == HEAD_WORD_OK && !is_older)
        role->fence = said->at.fence;
    if (!is_older)
        role->seen = *said;
    if (said->word != HEAD_WORD_OK || (is_older && !MT_PLANT(MT_PLANT_STANDBY_OLDER)))
        return false; /* an empty store is its leader's to fill; an older one has forgotten what somebody was told */
    if (!is_free || is_left_to_others(role, said, now_ms))
        return false;
    head_role_set_state(role, HEAD_CLAIMING);
    return true;
}

void head_role_heard(struct head_role *role, uint64_t now_ms)
{
    role->heard_ms = now_ms;
}

void head_role_lost(struct head_role *role)
{
    role->heard_ms = 0;
}

void head_role_gone(struct head_role *role)
{
    if (role->state == HEAD_STANDBY)
        role->gone_run = role->seen.at.run;
}

void head_role_claimed(struct head_role *role, bool is_ours)
{
    if (!is_ours)
        role->gone_run = 0; /* it is looked at anew */
    head_role_set_state(role, is_ours ? HEAD_LEADING : HEAD_STANDBY);
}

void head_role_hand_over(struct head_role *role)
{
    head_role_set_state(role, HEAD_HANDING);
}

void head_role_followed(struct head_role *role, uint64_t run, uint64_t now_ms)
{
    bool was_handing = role->state == HEAD_HANDING;
    role->handed_run = was_handing ? run : 0;
    role->handed_until_ms = now_ms + MT_HEAD_HANDED_MS;
    role->gone_run = role->heard_ms = 0;
    head_role_set_state(role, HEAD_STANDBY);
}
