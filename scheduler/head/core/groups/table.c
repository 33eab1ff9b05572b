/* SPDX-License-Identifier: Apache-2.0
 *
 * table.c - placement groups by id and by name, their records, and the states of their bundles.
 *
 * Owns:    every struct group.
 * Always:  a bundle that is not NONE has a node, an epoch of it, and a version that no other placement ever had.
 *
 *   NONE --policy--> PREPARING --node: yes--> PREPARED --all of the group--> COMMITTED
 *    ^                   |                       |                              |
 *    '--one refuses, or a node is lost: the others are returned-- node is lost -'
 */

#include "scheduler/head/core/groups/internal.h"

#include "core/base/machine.h"

#include <inttypes.h>

enum { NAME_SEPARATOR = 0x1f, JOB_DIGITS = 16 /* in front of the name of a group that is its job's alone */ };

struct group *head_groups_find(const struct head *h, mt_id id)
{
    char                    key[MT_ID_TEXT_SIZE];
    struct head_index_node *at = head_index_find(&h->groups, mt_id_text(id, key));
    return at ? mt_container_of(at, struct group, at) : NULL;
}

static void full_name(char *out, size_t size, uint64_t apart_job, const char *space, const char *name)
{
    if (apart_job)
        snprintf(out, size, "%016" PRIx64 "%s%c%s", apart_job, space, NAME_SEPARATOR, name);
    else
        snprintf(out, size, "%s%c%s", space, NAME_SEPARATOR, name);
}

struct group *head_groups_find_name(const struct head *h, uint64_t apart_job, const char *space, const char *name)
{
    char full[2 * MT_NAME_BYTES_MAX + JOB_DIGITS];
    full_name(full, sizeof full, apart_job, space, name);
    struct head_index_node *at = head_index_find(&h->group_names, full);
    return at ? mt_container_of(at, struct group, named) : NULL;
}

void head_groups_split_name(const struct group *g, char space[HEAD_NAME_SIZE], const char **out_name)
{
    const char *full = g->full_name ? g->full_name + (g->is_apart ? JOB_DIGITS : 0) : NULL;
    const char *end = full ? strchr(full, NAME_SEPARATOR) : NULL;
    snprintf(space, HEAD_NAME_SIZE, "%.*s", end ? (int)(end - full) : 0, end ? full : "");
    *out_name = end ? end + 1 : "";
}

void head_groups_name(const struct group *g, char *out, size_t size)
{
    char        space[HEAD_NAME_SIZE];
    const char *name;
    head_groups_split_name(g, space, &name);
    if (name[0])
        snprintf(out, size, "%s/%s", space[0] ? space : "default", name);
    else
        snprintf(out, size, "%s", g->key);
}

void head_groups_free(struct head *h, struct group *g)
{
    for (size_t i = 0; i < h->open_groups.count; i++)
        if (h->open_groups.data[i] == g) {
            mt_vec_remove(&h->open_groups, i);
            break;
        }
    head_index_remove(&h->groups, &g->at);
    if (g->full_name)
        head_index_remove(&h->group_names, &g->named);
    h->group_waits -= (uint32_t)g->waits.count;
    mt_vec_fini(&g->waits);
    free(g->full_name);
    free(g->bundles);
    free(g);
}

void head_groups_fini(struct head *h)
{
    while (h->groups.first)
        head_groups_free(h, mt_container_of(h->groups.first, struct group, at));
    head_index_fini(&h->groups);
    head_index_fini(&h->group_names);
    mt_vec_fini(&h->open_groups);
    mt_recent_fini(&h->groups_over);
}

/* ENOMEM, and nothing is changed. */
mt_status head_groups_add(struct head *h, mt_id id, uint64_t apart_job, const char *space, const char *name, uint32_t bundle_count,
                          struct group **out_group)
{
    char          full[2 * MT_NAME_BYTES_MAX + JOB_DIGITS];
    struct group *g = calloc(1, sizeof *g);
    mt_status     st = mt_error(MT_ENOMEM, 0, "add a placement group");
    if (!g)
        return st;
    g->id = id;
    mt_id_text(id, g->key);
    g->bundles = calloc(bundle_count, sizeof *g->bundles);
    g->bundle_count = bundle_count;
    g->is_apart = apart_job != 0;
    full_name(full, sizeof full, apart_job, space, name);
    if (name[0])
        g->full_name = strdup(full);
    if (g->bundles && (g->full_name || !name[0]))
        st = head_index_add(&h->groups, &g->at, g->key);
    if (st.code == 0 && g->full_name && (st = head_index_add(&h->group_names, &g->named, g->full_name)).code != 0)
        head_index_remove(&h->groups, &g->at);
    if (st.code == 0) {
        *out_group = g;
        return st;
    }
    free(g->full_name);
    free(g->bundles);
    free(g);
    return st;
}

bool head_groups_is_over(const struct head *h, mt_id id)
{
    return mt_recent_find(&h->groups_over, id) != NULL;
}

void head_groups_remember_over(struct head *h, mt_id id)
{
    if (!head_groups_is_over(h, id))
        mt_recent_put(&h->groups_over, id, 0);
}

/* ---- bundles ---- */

static const char *const       bundle_names[] = {"NONE", "PREPARING", "PREPARED", "COMMITTED"};
static const uint32_t          bundle_next[] = {[BUNDLE_NONE] = MT_STATE(BUNDLE_PREPARING),
                                                [BUNDLE_PREPARING] = MT_STATE(BUNDLE_PREPARED) | MT_STATE(BUNDLE_NONE),
                                                [BUNDLE_PREPARED] = MT_STATE(BUNDLE_COMMITTED) | MT_STATE(BUNDLE_NONE),
                                                [BUNDLE_COMMITTED] = MT_STATE(BUNDLE_NONE)};
static const struct mt_machine bundle_machine = MT_MACHINE("bundle", bundle_names, bundle_next);

void head_bundles_set_state(struct bundle *b, enum bundle_state state)
{
    MT_TRANSITION(&bundle_machine, b->state, state);
    b->state = state;
    MT_ASSERT((state == BUNDLE_NONE) == (b->node == 0) && (state == BUNDLE_NONE) == (b->epoch == 0));
}

bool head_bundles_are_placed(const struct group *g)
{
    for (uint32_t i = 0; i < g->bundle_count; i++)
        if (g->bundles[i].state != BUNDLE_COMMITTED)
            return false;
    return true;
}

bool head_bundles_have(const struct group *g, enum bundle_state state)
{
    for (uint32_t i = 0; i < g->bundle_count; i++)
        if (g->bundles[i].state == state)
            return true;
    return false;
}

void head_bundles_open(struct head *h, struct group *g)
{
    h->groups_due_ms = h->now_ms;
    if (g->is_open)
        return;
    g->since_ms = h->now_ms;
    g->is_open = true;
    HEAD_TRY(h, mt_vec_push(&h->open_groups, g));
}

/* ---- the store ---- */

static void group_key(mt_id id, uint8_t key[16])
{
    for (int i = 0; i < 8; i++) {
        key[i] = (uint8_t)(id.process >> (56 - 8 * i));
        key[8 + i] = (uint8_t)(id.counter_index >> (56 - 8 * i));
    }
}

void head_groups_fill_bundles(const struct head *h, const struct group *g, Manta__V1__Bundle *bundles, resource *items,
                              resource **pointers)
{
    for (uint32_t i = 0; i < g->bundle_count; i++) {
        const struct bundle *b = &g->bundles[i];
        bundles[i] = (Manta__V1__Bundle)MANTA__V1__BUNDLE__INIT;
        bundles[i].index = i;
        bundles[i].version = b->version;
        bundles[i].node = b->node;
        bundles[i].epoch = b->epoch;
        bundles[i].committed = b->state == BUNDLE_COMMITTED;
        bundles[i].n_resources = b->request.amount_count;
        bundles[i].resources = pointers;
        for (uint32_t k = 0; k < b->request.amount_count; k++) {
            head_resource_fill(items, h->kinds.data[b->request.amounts[k].kind], b->request.amounts[k].amount);
            *pointers++ = items++;
        }
    }
}

void head_groups_store(struct head *h, const struct group *g)
{
    Manta__Store__GroupRecord record = MANTA__STORE__GROUP_RECORD__INIT;
    Manta__V1__Bundle         bundles[MT_GROUP_BUNDLES_MAX], *all[MT_GROUP_BUNDLES_MAX];
    resource                  items[MT_GROUP_RESOURCES_MAX], *pointers[MT_GROUP_RESOURCES_MAX];
    char                      space[HEAD_NAME_SIZE];
    const char               *name;
    uint8_t                   key[16];
    head_groups_split_name(g, space, &name);
    record.process = g->id.process;
    record.counter = g->id.counter_index;
    record.space = space;
    record.name = (char *)(uintptr_t)name;
    record.apart = g->is_apart;
    record.job = g->job;
    record.job_node = g->job_node;
    record.detached = g->is_detached;
    record.strategy = g->strategy;
    record.version = g->version;
    record.order = g->order;
    head_groups_fill_bundles(h, g, bundles, items, pointers);
    for (uint32_t i = 0; i < g->bundle_count; i++)
        all[i] = &bundles[i];
    record.bundles = all;
    record.n_bundles = g->bundle_count;
    group_key(g->id, key);
    head_record_change(h, HEAD_TABLE_GROUPS, key, sizeof key, &record.base);
}

void head_groups_unstore(struct head *h, mt_id id)
{
    uint8_t key[16];
    group_key(id, key);
    head_record_change(h, HEAD_TABLE_GROUPS, key, sizeof key, NULL);
}
