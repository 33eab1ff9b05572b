/* SPDX-License-Identifier: Apache-2.0
 *
 * learn.c - what nodes of a type have, by the word of those that have joined.
 *
 *   resources not said --> one is started --> it joins, and tells --> counts for the type from then on, also after a restart
 *   resources said     --> one has less   --> what it has counts: else one after the other would be started for what fits on none
 *
 * Owns: `learnt` of the types in h->scale.config. It is stored with that.
 */
#include "scheduler/head/core/scale/private.h"

#include "core/base/log.h"

#include <inttypes.h>

/* ---- lists of resources ---- */

struct list {
    Manta__V1__Resource **items;
    size_t                count;
};

static void list_free(struct list *l)
{
    for (size_t i = 0; i < l->count; i++)
        manta__v1__resource__free_unpacked(l->items[i], NULL);
    free(l->items);
    *l = (struct list){NULL, 0};
}

static void list_add(struct head *h, struct list *l, const char *name, int64_t amount)
{
    Manta__V1__Resource **items = realloc(l->items, (l->count + 1) * sizeof *items);
    Manta__V1__Resource  *one = items ? calloc(1, sizeof *one) : NULL;
    if (items)
        l->items = items;
    if (!one) {
        head_broken(h, mt_error(MT_ENOMEM, 0, "learn what a node has"));
        return;
    }
    manta__v1__resource__init(one);
    one->name = head_strdup(h, name);
    one->milli = amount;
    l->items[l->count++] = one;
}

static void learnt_set(Manta__V1__ScaleType *type, struct list *l)
{
    struct list old = {type->learnt, type->n_learnt};
    type->learnt = l->items;
    type->n_learnt = l->count;
    list_free(&old);
}

/* ---- from a node ---- */

static int64_t total_of(const struct head *h, const struct node *n, const char *name)
{
    for (uint32_t i = 0; i < n->place.resource_count; i++)
        if (strcmp(h->kinds.data[n->place.resources[i].kind], name) == 0)
            return n->place.resources[i].total;
    return 0;
}

static Manta__V1__ScaleType *type_of(struct head *h, const struct node *n)
{
    char     name[MT_SCL_NAME_SIZE], handle[MT_SCL_NAME_SIZE];
    uint64_t number = h->scale.config ? head_scale_instance_of(h, n->place.labels, handle) : 0;
    if (!number || !head_scale_label(n->place.labels, "manta.type", name, sizeof name))
        return NULL;
    for (size_t t = 0; t < h->scale.config->n_types; t++)
        if (strcmp(h->scale.config->types[t]->name, name) == 0)
            return number >= h->scale.config->types[t]->since ? h->scale.config->types[t] : NULL;
    return NULL;
}

/* Whether a node has less of something than `has` says. */
static bool is_less(const struct head *h, const struct node *n, const struct list *has)
{
    for (size_t i = 0; i < has->count; i++)
        if (total_of(h, n, has->items[i]->name) < has->items[i]->milli)
            return true;
    return false;
}

/* What of `has` the node has; where nothing is known, all that it has. */
static void learn(struct head *h, const struct node *n, const struct list *has, struct list *out)
{
    for (size_t i = 0; i < has->count; i++) {
        int64_t total = total_of(h, n, has->items[i]->name);
        list_add(h, out, has->items[i]->name, total < has->items[i]->milli ? total : has->items[i]->milli);
    }
    for (uint32_t i = 0; i < n->place.resource_count && has->count == 0; i++)
        if (n->place.resources[i].total > 0)
            list_add(h, out, h->kinds.data[n->place.resources[i].kind], n->place.resources[i].total);
}

void head_scale_learn(struct head *h, const struct node *n)
{
    Manta__V1__ScaleType *type = type_of(h, n);
    struct list           out = {NULL, 0};
    char                  text[HEAD_TEXT_SIZE] = "";
    if (!type)
        return;
    const struct list has = type->n_learnt ? (struct list){type->learnt, type->n_learnt}
                                           : (struct list){type->resources, type->n_resources};
    if (has.count && !is_less(h, n, &has))
        return;
    learn(h, n, &has, &out);
    if (out.count == 0 || h->broken.code)
        return; /* it has nothing at all */
    mt_log(MT_LOG_INFO, "type_learnt", "type=%s node=%" PRIu32 " was=%s", type->name, n->place.id, has.count ? "less" : "unknown");
    learnt_set(type, &out);
    HEAD_TRY(h, head_scale_configure(h, h->scale.config, true, text, sizeof text));
}

/* ---- into a new configuration ---- */

static bool settings_are_same(Manta__V1__ScaleSetting *const *a, size_t a_count, Manta__V1__ScaleSetting *const *b, size_t b_count)
{
    for (size_t i = 0; i < a_count && a_count == b_count; i++)
        if (strcmp(a[i]->name, b[i]->name) != 0 || strcmp(a[i]->value, b[i]->value) != 0)
            return false;
    return a_count == b_count;
}

/* The same machines, as far as their description goes. */
static bool is_same_kind(const Manta__V1__ScaleType *a, const Manta__V1__ScaleType *b)
{
    for (size_t i = 0; i < a->n_resources && a->n_resources == b->n_resources; i++)
        if (strcmp(a->resources[i]->name, b->resources[i]->name) != 0 || a->resources[i]->milli != b->resources[i]->milli)
            return false;
    return strcmp(a->name, b->name) == 0 && a->n_resources == b->n_resources &&
           settings_are_same(a->settings, a->n_settings, b->settings, b->n_settings);
}

/* Where somebody says again what they have, that is believed again, of those that are started from now on. */
static void keep(struct head *h, const Manta__V1__ScaleType *was, Manta__V1__ScaleType *to)
{
    struct list kept = {NULL, 0};
    for (size_t i = 0; i < was->n_learnt && to->n_resources == 0; i++)
        list_add(h, &kept, was->learnt[i]->name, was->learnt[i]->milli);
    if (to->n_resources == 0 || was->n_learnt == 0)
        to->since = was->since;
    learnt_set(to, &kept);
}

void head_scale_keep_learnt(struct head *h, Manta__V1__ScaleConfig *to)
{
    const Manta__V1__ScaleConfig *was = h->scale.config;
    bool                          is_same = was && strcmp(was->provider, to->provider) == 0 &&
                   settings_are_same(was->settings, was->n_settings, to->settings, to->n_settings);
    for (size_t t = 0; t < to->n_types; t++) {
        struct list none = {NULL, 0};
        learnt_set(to->types[t], &none);
        to->types[t]->since = h->scale.core ? scl_next_number(h->scale.core) : h->scale.stored_next;
        for (size_t o = 0; is_same && o < was->n_types; o++)
            if (is_same_kind(was->types[o], to->types[t]))
                keep(h, was->types[o], to->types[t]);
    }
}
