/* SPDX-License-Identifier: Apache-2.0
 *
 * scale.c - nodes that are started and given back by themselves: what may be, what is wanted, what there is and why.
 */
#include "clients/control/control.h"

#include "core/base/limits/scaler.h"
#include "core/text/amounts.h"

#include <stdlib.h>
#include <string.h>

/* A message in the making; its parts are freed together. */
struct making {
    MT_VEC(void *) parts;
    bool is_short; /* of memory */
};

static void *part(struct making *m, size_t count, size_t size)
{
    void *made = calloc(count + 1, size);
    if (!made || mt_vec_push(&m->parts, made).code) {
        free(made);
        m->is_short = true;
        return NULL;
    }
    return made;
}

static void making_fini(struct making *m)
{
    for (size_t i = 0; i < m->parts.count; i++)
        free(m->parts.data[i]);
    mt_vec_fini(&m->parts);
}

static int64_t thousandths(double x)
{
    return (int64_t)(x * 1000 + (x < 0 ? -0.5 : 0.5));
}

static Manta__V1__Resource **resources_make(struct making *m, const manta_scale_resource *from, size_t count)
{
    Manta__V1__Resource  *items = part(m, count, sizeof *items);
    Manta__V1__Resource **list = part(m, count, sizeof(Manta__V1__Resource *));
    for (size_t i = 0; i < count && items && list; i++) {
        manta__v1__resource__init(&items[i]);
        items[i].name = (char *)(uintptr_t)from[i].name;
        items[i].milli = strcmp(from[i].name, "memory") == 0 ? (int64_t)from[i].amount : thousandths(from[i].amount);
        list[i] = &items[i];
    }
    return list;
}

static Manta__V1__ScaleSetting **settings_make(struct making *m, const manta_scale_setting *from, size_t count)
{
    Manta__V1__ScaleSetting  *items = part(m, count, sizeof *items);
    Manta__V1__ScaleSetting **list = part(m, count, sizeof(Manta__V1__ScaleSetting *));
    for (size_t i = 0; i < count && items && list; i++) {
        manta__v1__scale_setting__init(&items[i]);
        items[i].name = (char *)(uintptr_t)from[i].name;
        items[i].value = (char *)(uintptr_t)from[i].value;
        list[i] = &items[i];
    }
    return list;
}

static void type_make(struct making *m, const manta_scale_type *from, Manta__V1__ScaleType *out)
{
    manta__v1__scale_type__init(out);
    out->name = (char *)(uintptr_t)(from->name ? from->name : "");
    out->resources = resources_make(m, from->resources, from->resource_count);
    out->n_resources = from->resource_count;
    out->labels = (char *)(uintptr_t)(from->labels ? from->labels : "");
    out->min = from->min;
    out->max = from->max;
    out->idle_ms = from->idle_ms > 0 ? (uint64_t)from->idle_ms : 0;
    out->boot_ms = from->boot_ms > 0 ? (uint64_t)from->boot_ms : 0;
    out->price_milli = thousandths(from->price);
    out->settings = settings_make(m, from->settings, from->setting_count);
    out->n_settings = from->setting_count;
    out->zones = (char **)(uintptr_t)from->zones;
    out->n_zones = from->zone_count;
    out->is_spread = from->is_spread;
    out->is_spot = from->is_spot;
}

static bool config_make(struct making *m, const manta_scale_cluster *from, Manta__V1__ScaleConfig *out)
{
    Manta__V1__ScaleType *types = part(m, from->type_count, sizeof *types);
    manta__v1__scale_config__init(out);
    out->types = part(m, from->type_count, sizeof(Manta__V1__ScaleType *));
    out->provider = (char *)(uintptr_t)(from->provider ? from->provider : "");
    out->settings = settings_make(m, from->settings, from->setting_count);
    out->n_settings = from->setting_count;
    out->max = from->max;
    out->consolidate_ms = from->consolidate_ms == 0  ? MT_SCL_CONSOLIDATE_MS
                          : from->consolidate_ms > 0 ? (uint64_t)from->consolidate_ms
                                                     : 0;
    out->on_demand_min = from->on_demand_min < UINT32_MAX ? (uint32_t)from->on_demand_min : UINT32_MAX;
    for (size_t i = 0; i < from->type_count && types && out->types; i++) {
        type_make(m, &from->types[i], &types[i]);
        out->types[out->n_types++] = &types[i];
    }
    return !m->is_short;
}

/* ---- amounts that there are not ---- */

/* `what` has them, or wants them. */
static manta_status resources_check(const char *what, const char *of, const manta_scale_resource *list, size_t count,
                                    const char *(*wrong_of)(const char *name, double amount), manta_error *e)
{
    for (size_t i = 0; i < count; i++) {
        const char *wrong = list[i].name ? wrong_of(list[i].name, list[i].amount) : "a name is NULL";
        if (wrong)
            return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, "%s %.64s: %.32s: %g: %s", what, of, list[i].name ? list[i].name : "?",
                            list[i].amount, wrong);
    }
    return MANTA_OK;
}

static manta_status cluster_check(const manta_scale_cluster *cluster, manta_error *e)
{
    manta_status st = MANTA_OK;
    for (size_t i = 0; i < cluster->type_count && st == MANTA_OK; i++) {
        const manta_scale_type *t = &cluster->types[i];
        st = resources_check("type", t->name ? t->name : "?", t->resources, t->resource_count, mt_amount_wrong_of_node, e);
    }
    return st;
}

/* ---- the call ---- */

static manta_status rows_take(const Manta__V1__ScaleReply *reply, manta_scale_row **out_rows, size_t *out_count, manta_error *e)
{
    if (!out_rows)
        return MANTA_OK;
    manta_scale_row *rows = calloc(reply->n_rows + 1, sizeof *rows);
    if (!rows)
        return ctl_fail(e, MT_ENOMEM, MANTA_NOT_DONE, "no memory for the rows");
    for (size_t i = 0; i < reply->n_rows; i++) {
        snprintf(rows[i].what, sizeof rows[i].what, "%s", reply->rows[i]->what);
        snprintf(rows[i].text, sizeof rows[i].text, "%s", reply->rows[i]->text);
    }
    *out_rows = rows;
    *out_count = reply->n_rows;
    return MANTA_OK;
}

static manta_status ask(struct ctl_client *c, const Manta__V1__ScaleRequest *request, manta_scale_row **out_rows, size_t *out_count,
                        uint32_t *out_instances, manta_error *e)
{
    ProtobufCMessage *message;
    manta_status      st = ctl_call(c, "/manta.v1.Head/Scale", &request->base, &manta__v1__scale_reply__descriptor, c->timeout_ms,
                                    MT_CALL_MS, &message, e);
    if (st != MANTA_OK)
        return st;
    const Manta__V1__ScaleReply *reply = (const Manta__V1__ScaleReply *)message;
    if (reply->code)
        st = ctl_fail(e, reply->code, MANTA_NOT_DONE, "%s", reply->text);
    else
        st = rows_take(reply, out_rows, out_count, e);
    if (out_instances)
        *out_instances = reply->instances;
    rpc_unpack_free(message);
    return st;
}

enum { OP_UP = 1, OP_DOWN, OP_STATUS, OP_EXPLAIN, OP_HISTORY, OP_WANT }; /* enum head_scale_op */

manta_status manta_scale_up(manta_client *client, const manta_scale_cluster *cluster, bool is_dry, manta_scale_row **out_rows,
                            size_t *out_count, manta_error *e)
{
    Manta__V1__ScaleRequest request = MANTA__V1__SCALE_REQUEST__INIT;
    Manta__V1__ScaleConfig  config;
    struct making           m = {0};
    struct ctl_client      *c;
    manta_status            st = ctl_enter(client, "manta_scale_up", &c, e);
    if (st != MANTA_OK)
        return st;
    if (!cluster || (out_rows && !out_count))
        return ctl_leave(client, ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, "manta_scale_up: cluster is NULL, or out_count"));
    if ((st = cluster_check(cluster, e)) != MANTA_OK)
        return ctl_leave(client, st);
    request.op = OP_UP;
    request.config = &config;
    request.is_dry = is_dry;
    st = config_make(&m, cluster, &config) ? ask(c, &request, out_rows, out_count, NULL, e)
                                           : ctl_fail(e, MT_ENOMEM, MANTA_NOT_DONE, "no memory for the request");
    making_fini(&m);
    return ctl_leave(client, st);
}

manta_status manta_scale_down(manta_client *client, manta_error *e)
{
    Manta__V1__ScaleRequest request = MANTA__V1__SCALE_REQUEST__INIT;
    struct ctl_client      *c;
    manta_status            st = ctl_enter(client, "manta_scale_down", &c, e);
    request.op = OP_DOWN;
    return st != MANTA_OK ? st : ctl_leave(client, ask(c, &request, NULL, NULL, NULL, e));
}

manta_status manta_scale_request(manta_client *client, const char *name, const manta_scale_resource *resources,
                                 size_t resource_count, const char *labels, uint32_t count, manta_error *e)
{
    Manta__V1__ScaleRequest request = MANTA__V1__SCALE_REQUEST__INIT;
    Manta__V1__ScaleWant    want = MANTA__V1__SCALE_WANT__INIT;
    struct making           m = {0};
    struct ctl_client      *c;
    manta_status            st = ctl_enter(client, "manta_scale_request", &c, e);
    if (st != MANTA_OK)
        return st;
    if ((st = resources_check("request", name ? name : "?", resources, resource_count, mt_amount_wrong, e)) != MANTA_OK)
        return ctl_leave(client, st);
    request.op = OP_WANT;
    request.want = &want;
    want.name = (char *)(uintptr_t)(name ? name : "");
    want.labels = (char *)(uintptr_t)(labels ? labels : "");
    want.count = count;
    want.resources = resources_make(&m, resources, resource_count);
    want.n_resources = resource_count;
    st = m.is_short ? ctl_fail(e, MT_ENOMEM, MANTA_NOT_DONE, "no memory for the request") : ask(c, &request, NULL, NULL, NULL, e);
    making_fini(&m);
    return ctl_leave(client, st);
}

manta_status manta_scale_look(manta_client *client, const char *what, manta_scale_row **out_rows, size_t *out_count,
                              uint32_t *out_instances, manta_error *e)
{
    static const struct {
        const char *word;
        uint32_t    op;
    } words[] = {{"status", OP_STATUS}, {"explain", OP_EXPLAIN}, {"history", OP_HISTORY}};
    Manta__V1__ScaleRequest request = MANTA__V1__SCALE_REQUEST__INIT;
    struct ctl_client      *c;
    manta_status            st = ctl_enter(client, "manta_scale_look", &c, e);
    if (st != MANTA_OK)
        return st;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (what && strcmp(what, words[i].word) == 0)
            request.op = words[i].op;
    if (!request.op || (out_rows && !out_count))
        return ctl_leave(client, ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, "manta_scale_look: status, explain or history is wanted"));
    return ctl_leave(client, ask(c, &request, out_rows, out_count, out_instances, e));
}
