/* SPDX-License-Identifier: Apache-2.0
 *
 * options.c - options of tasks and actors into scheduling classes.
 *
 * Owns:   nothing. Thread: any, under the owner lock.
 */
#include "clients/lib/api/api.h"
#include "clients/lib/shell/handles/handles.h"
#include "clients/lib/shell/state/state.h"

#include "core/text/labels.h"

#include <math.h>

static bool add_resource(struct own_class_spec *spec, const char *name, double amount, double unit, struct own_failure *f)
{
    struct ctl_resource *to = &spec->resources[spec->resource_count];
    size_t               length = name ? strlen(name) : 0;
    if (length == 0 || length >= sizeof to->name) {
        own_failure_set(f, MT_EINVAL, "a resource's name has 1 to %d letters", (int)sizeof to->name - 1);
        return false;
    }
    if (!(amount > 0) || !isfinite(amount) || amount * unit > 9e15 || amount * unit < 1) {
        own_failure_set(f, MT_EINVAL, "resource %s: %g is not an amount: it must be positive (at least %g)", name, amount,
                        1 / unit);
        return false;
    }
    if (spec->resource_count == CTL_RESOURCES) {
        own_failure_set(f, MT_EINVAL, "a task needs at most %d kinds of resource", CTL_RESOURCES);
        return false;
    }
    memcpy(to->name, name, length + 1);
    to->milli = (int64_t)(amount * unit + 0.5);
    spec->resource_count++;
    return true;
}

bool lib_class_spec(struct own_class_spec *spec, double cpus, double gpus, int64_t memory, const manta_resource *resources,
                    int count, struct own_failure *f)
{
    if (cpus != 0 && !add_resource(spec, "CPU", cpus, 1000, f))
        return false;
    if (gpus != 0 && !add_resource(spec, "GPU", gpus, 1000, f))
        return false;
    if (memory != 0 && !add_resource(spec, "memory", (double)memory, 1, f))
        return false;
    if (count < 0 || (count && !resources)) {
        own_failure_set(f, MT_EINVAL, "%d resources at %s", count, resources ? "an address" : "NULL");
        return false;
    }
    for (int i = 0; i < count; i++)
        if (!add_resource(spec, resources[i].name, resources[i].amount,
                          resources[i].name && strcmp(resources[i].name, "memory") == 0 ? 1 : 1000, f))
            return false;
    return true;
}

/* Whole CPUs can be had for oneself. */
bool lib_class_pin(struct own_class_spec *spec, double cpus, struct own_failure *f)
{
    spec->flags |= CTL_CLASS_PIN;
    if (cpus >= 1 && cpus <= MT_CPUS_MAX && cpus == (int)cpus)
        return true;
    own_failure_set(f, MT_EINVAL, "%s: pin binds to whole CPUs, and num_cpus is %g", spec->name, cpus);
    return false;
}

bool lib_class_place(struct own_class_spec *spec, uint32_t node, bool node_soft, bool spread, const char *labels,
                     struct own_failure *f)
{
    char text[2 * MT_LABELS_BYTES_MAX];
    spec->policy = node ? (node_soft ? CTL_NODE_SOFT : CTL_NODE) : spread ? CTL_SPREAD : CTL_HYBRID;
    spec->node = node;
    spec->labels = labels;
    if (!labels || mt_selector_check(labels, text, sizeof text).code == 0)
        return true;
    own_failure_set(f, MT_EINVAL, "%s: %s", spec->name, text);
    return false;
}

static bool pg_could_hold(const struct manta_pg *pg, int bundle, const struct own_class_spec *spec, char *text, size_t size)
{
    const struct ctl_resource *lacking = NULL;
    if (bundle < 0 || bundle > pg->bundle_count) {
        snprintf(text, size, "bundle %d of a placement group with %d: it is 1 to %d, or 0 for any", bundle, pg->bundle_count,
                 pg->bundle_count);
        return false;
    }
    for (int b = bundle ? bundle - 1 : 0; b < (bundle ? bundle : pg->bundle_count); b++) {
        const struct ctl_resource *short_of = NULL;
        for (uint32_t i = 0; i < spec->resource_count && !short_of; i++) {
            int64_t has = 0;
            for (uint32_t k = pg->at[b]; k < pg->at[b + 1]; k++)
                if (strcmp(pg->resources[k].name, spec->resources[i].name) == 0)
                    has = pg->resources[k].milli;
            short_of = has < spec->resources[i].milli ? &spec->resources[i] : NULL;
        }
        if (!short_of)
            return true;
        lacking = short_of;
    }
    double scale = lacking && strcmp(lacking->name, "memory") == 0 ? 1 : 1000;
    snprintf(text, size,
             "it wants %.10g of \"%s\", which is more than %s of its placement group has: ask for less, or "
             "reserve more",
             lacking ? (double)lacking->milli / scale : 0, lacking ? lacking->name : "", bundle ? "that bundle" : "any bundle");
    return false;
}

bool lib_class_group(struct own_class_spec *spec, const manta_pg *handle, int bundle, bool captures, struct own_failure *f)
{
    char                   text[256];
    const struct manta_pg *pg = lib_handle_of(handle, LIB_OF_PG);
    bool                   is_placed = spec->policy != CTL_HYBRID || (spec->labels && spec->labels[0]);
    if (handle && !pg) {
        own_failure_set(f, MT_EHANDLE, "%s: its placement group's handle was freed before, or is none", spec->name);
        return false;
    }
    if (!pg && (bundle || captures)) {
        own_failure_set(f, MT_EINVAL, "%s: %s without a placement group", spec->name, bundle ? "a bundle" : "pg_capture");
        return false;
    }
    if (!pg && (is_placed || !lib.captured.process))
        return true;
    if (!pg) { /* the running task's */
        spec->pg = lib.captured;
        spec->flags |= CTL_CLASS_CAPTURE;
        return true;
    }
    if (is_placed) {
        own_failure_set(f, MT_EINVAL, "%s: a placement group says where it runs: node, spread and labels can't be given as well",
                        spec->name);
        return false;
    }
    if (pg->is_removed) {
        own_failure_set(f, MT_EPG_REMOVED, "%s: its placement group was removed before", spec->name);
        return false;
    }
    spec->pg = pg->id;
    spec->bundle = (uint32_t)bundle;
    spec->flags |= captures ? CTL_CLASS_CAPTURE : 0;
    if (pg_could_hold(pg, bundle, spec, text, sizeof text))
        return true;
    own_failure_set(f, MT_EINVAL, "%s: %s", spec->name, text);
    return false;
}

bool lib_env_key(struct own_class_spec *spec, const manta_env *env, struct own_failure *f)
{
    const struct manta_env *made = lib_handle_of(env, LIB_OF_ENV);
    spec->env = made ? made->key : lib.role == LIB_DRIVER ? lib.env : 0;
    if (made || !env)
        return true;
    own_failure_set(f, MT_EHANDLE, "%s: its runtime environment's handle was freed before, or is none", spec->name);
    return false;
}
