/* SPDX-License-Identifier: Apache-2.0
 *
 * scale.c - the configuration of what can be started, requests for room, and their records.
 *
 * Owns: h->scale. Always: a record is stored before anybody hears of it.
 */
#include "scheduler/head/core/scale/private.h"

#include "core/text/labels.h"

#include <ctype.h>

/* ---- copies ---- */

/* A copy of a message; NULL: no memory, which is noted. */
static void *copy_of(struct head *h, const ProtobufCMessage *message)
{
    size_t   size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(size + 1);
    void    *copy = NULL;
    if (bytes) {
        protobuf_c_message_pack(message, bytes);
        copy = protobuf_c_message_unpack(message->descriptor, NULL, size, bytes);
    }
    free(bytes);
    if (!copy)
        head_broken(h, mt_error(MT_ENOMEM, 0, "copy a message"));
    return copy;
}

/* ---- is it sound ---- */

static bool is_name(const char *name)
{
    size_t size = strlen(name);
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '-' && *c != '_' && *c != '.')
            return false;
    return size > 0 && size < MT_SCL_NAME_SIZE - 1;
}

static mt_status refuse(char *text, size_t size, const char *type, const char *why)
{
    snprintf(text, size, "%s%s%s%s", type[0] ? "types." : "", type, type[0] ? ": " : "", why);
    return mt_error(MT_EINVAL, 0, "read a cluster file");
}

bool head_scale_labels(const Manta__V1__ScaleType *type, const char *zone, char *out, size_t size)
{
    int used = snprintf(out, size, "%s%smanta.type=%s%s%s%s", type->labels, type->labels[0] ? "," : "", type->name,
                        type->is_spot ? ",manta.spot=true" : "", zone[0] ? ",zone=" : "", zone);
    return used >= 0 && (size_t)used < size;
}

static mt_status type_read(struct head *h, const Manta__V1__ScaleType *from, const char *zone, struct scl_type *out, char *text,
                           size_t size)
{
    struct policy_request has = {0};
    char                  why[200];
    if (!is_name(from->name))
        return refuse(text, size, from->name, "a name is made of letters, digits, '.', '_' and '-', 62 at most");
    if (from->max < from->min)
        return refuse(text, size, from->name, "its maximum is less than its minimum");
    bool is_learnt = from->n_learnt > 0;
    if (head_resources_to_request(h, is_learnt ? from->learnt : from->resources, is_learnt ? from->n_learnt : from->n_resources,
                                  &has, why, sizeof why)
            .code)
        return refuse(text, size, from->name, why);
    out->is_learnt = is_learnt;
    out->is_unknown = !is_learnt && from->n_resources == 0;
    snprintf(out->name, sizeof out->name, "%s", from->name);
    if (strlen(zone) >= sizeof out->zone - 1)
        return refuse(text, size, from->name, "the name of a zone has 62 letters at most");
    snprintf(out->zone, sizeof out->zone, "%s", zone);
    if (!head_scale_labels(from, zone, out->place.labels, sizeof out->place.labels))
        return refuse(text, size, from->name, "its labels are too long");
    if (mt_labels_check(out->place.labels, why, sizeof why).code)
        return refuse(text, size, from->name, why);
    out->place.resource_count = has.amount_count;
    for (uint32_t i = 0; i < has.amount_count; i++)
        out->place.resources[i] = (struct policy_resource){has.amounts[i].kind, has.amounts[i].amount, has.amounts[i].amount};
    out->min = from->min;
    out->max = from->max;
    out->idle_ms = from->idle_ms;
    out->boot_ms = from->boot_ms ? from->boot_ms : MT_SCL_BOOT_MS;
    out->price = from->price_milli;
    out->is_spot = from->is_spot;
    out->is_spread = from->is_spread;
    return mt_ok();
}

/* One type of the scaler for each of its zones. */
static mt_status zones_read(struct head *h, const Manta__V1__ScaleType *from, struct scl_type *types, uint32_t *count, char *text,
                            size_t size)
{
    uint32_t zones = from->n_zones ? (uint32_t)from->n_zones : 1;
    if (zones > MT_SCL_TYPES_MAX - *count)
        return refuse(text, size, "", "types: there are more than 64, each zone of each counted");
    for (uint32_t z = 0; z < zones; z++) {
        if (from->n_zones && !from->zones[z][0])
            return refuse(text, size, from->name, "a zone has no name");
        for (uint32_t before = 0; before < z; before++)
            if (strcmp(from->zones[before], from->zones[z]) == 0)
                return refuse(text, size, from->name, "a zone stands there twice");
        MT_TRY(type_read(h, from, from->n_zones ? from->zones[z] : "", &types[(*count)++], text, size));
    }
    return mt_ok();
}

static mt_status config_read(struct head *h, const Manta__V1__ScaleConfig *from, struct scl_type *types, struct scl_config *out,
                             char *text, size_t size)
{
    uint64_t least = 0;
    bool     has_other = false;
    *out = (struct scl_config){.types = types,
                               .max = from->max,
                               .on_demand_min = from->on_demand_min,
                               .consolidate_ms = from->consolidate_ms,
                               .is_down = from->is_down};
    if (!from->provider[0])
        return refuse(text, size, "", "provider: which one (local, command, ssh, slurm, or the path of a program)");
    if (from->n_types == 0 || from->n_types > MT_SCL_TYPES_MAX)
        return refuse(text, size, "", from->n_types ? "types: there are more than 64" : "types: there are none");
    for (uint32_t t = 0; t < from->n_types; t++) {
        for (uint32_t before = 0; before < t; before++)
            if (strcmp(from->types[before]->name, from->types[t]->name) == 0)
                return refuse(text, size, from->types[t]->name, "stands there twice");
        MT_TRY(zones_read(h, from->types[t], types, &out->count, text, size));
        least += from->types[t]->min;
        has_other = has_other || !from->types[t]->is_spot;
    }
    if (from->on_demand_min && !has_other)
        return refuse(text, size, "", "on_demand_min: all of its types are spot");
    if (from->max && from->on_demand_min > from->max)
        return refuse(text, size, "", "on_demand_min: is more than max");
    if (from->max && least > from->max)
        return refuse(text, size, "", "max: the minimums of its types together are more");
    return mt_ok();
}

/* ---- records ---- */

static void store(struct head *h, const char *key, const Manta__Store__ScaleRecord *record)
{
    head_record_change(h, HEAD_TABLE_SCALE, key, strlen(key), record ? &record->base : NULL);
}

mt_status head_scale_configure(struct head *h, const Manta__V1__ScaleConfig *config, bool stores, char *text, size_t size)
{
    struct scl_type        *types = calloc(MT_SCL_TYPES_MAX, sizeof *types);
    Manta__V1__ScaleConfig *copy = copy_of(h, &config->base);
    struct scl_config       read;
    mt_status st = types && copy ? config_read(h, config, types, &read, text, size) : mt_error(MT_ENOMEM, 0, "configure");
    if (st.code == 0 && !h->scale.core)
        st = scl_new(h->now_ms, &h->scale.core);
    if (st.code == 0)
        st = scl_configure(h->scale.core, &read);
    free(types);
    if (st.code) {
        if (copy)
            manta__v1__scale_config__free_unpacked(copy, NULL);
        return st;
    }
    if (h->scale.config)
        manta__v1__scale_config__free_unpacked(h->scale.config, NULL);
    h->scale.config = copy;
    h->is_capacity_changed = true;
    if (stores) {
        Manta__Store__ScaleRecord record = MANTA__STORE__SCALE_RECORD__INIT;
        record.config = copy;
        store(h, "config", &record);
    }
    return mt_ok();
}

void head_scale_forget(struct head *h)
{
    store(h, "config", NULL);
    while (h->scale.wants.count)
        head_scale_want_put(h, &(Manta__V1__ScaleWant){.base = PROTOBUF_C_MESSAGE_INIT(&manta__v1__scale_want__descriptor),
                                                       .name = h->scale.wants.data[0]->name});
    head_out_provide(h, HEAD_PROVIDE_CLOSE, 0, 0, (mt_view){0}, NULL);
    uint64_t next = scl_next_number(h->scale.core);
    scl_free(h->scale.core);
    manta__v1__scale_config__free_unpacked(h->scale.config, NULL);
    h->scale.core = NULL;
    h->scale.config = NULL;
    h->scale.demands_hash = 0;
    h->scale.stored_next = next; /* numbers go on from there */
}

Manta__V1__ScaleWant *head_scale_want_find(const struct head *h, const char *name)
{
    for (size_t i = 0; i < h->scale.wants.count; i++)
        if (strcmp(h->scale.wants.data[i]->name, name) == 0)
            return h->scale.wants.data[i];
    return NULL;
}

static void store_want(struct head *h, const char *name, const Manta__V1__ScaleWant *want)
{
    Manta__Store__ScaleRecord record = MANTA__STORE__SCALE_RECORD__INIT;
    char                      key[MT_SCL_NAME_SIZE + 2];
    record.want = (Manta__V1__ScaleWant *)want;
    snprintf(key, sizeof key, "w%s", name);
    store(h, key, want ? &record : NULL);
}

void head_scale_want_put(struct head *h, const Manta__V1__ScaleWant *want)
{
    Manta__V1__ScaleWant *old = head_scale_want_find(h, want->name), *copy = want->count ? copy_of(h, &want->base) : NULL;
    if (want->count && !copy)
        return;
    store_want(h, want->name, copy);
    for (size_t i = 0; i < h->scale.wants.count && old; i++)
        if (h->scale.wants.data[i] == old) {
            mt_vec_remove(&h->scale.wants, i);
            manta__v1__scale_want__free_unpacked(old, NULL);
            break;
        }
    if (copy && mt_vec_push(&h->scale.wants, copy).code != 0) {
        manta__v1__scale_want__free_unpacked(copy, NULL);
        head_broken(h, mt_error(MT_ENOMEM, 0, "keep a request"));
    }
}

static mt_status instance_load(struct head *h, const Manta__Store__ScaleInstance *from)
{
    struct scl_instance i = {.number = from->number, .state = (enum scl_state)from->state, .node = from->node};
    if (from->state >= SCL_STATE_COUNT || from->state == SCL_GONE || from->number == 0)
        return mt_error(MT_ECORRUPT, 0, "an instance in the store has a state that there is not");
    snprintf(i.type, sizeof i.type, "%s", from->type);
    snprintf(i.handle, sizeof i.handle, "%s", from->handle);
    snprintf(i.why, sizeof i.why, "%s", from->why);
    snprintf(i.zone, sizeof i.zone, "%s", from->zone);
    return scl_load(h->scale.core, &i);
}

mt_status head_scale_load(struct head *h, const Manta__Store__ScaleRecord *record)
{
    char text[HEAD_TEXT_SIZE];
    if (!h->scale.core)
        MT_TRY(scl_new(h->now_ms, &h->scale.core));
    if (record->config && head_scale_configure(h, record->config, false, text, sizeof text).code)
        return mt_error(MT_ECORRUPT, 0, "the cluster file in the store can't be read");
    if (record->instance)
        return instance_load(h, record->instance);
    if (record->next_number > h->scale.stored_next)
        h->scale.stored_next = record->next_number;
    if (record->want) {
        Manta__V1__ScaleWant *copy = copy_of(h, &record->want->base);
        return copy ? mt_vec_push(&h->scale.wants, copy) : h->broken;
    }
    return mt_ok();
}

void head_scale_fini(struct head *h)
{
    scl_free(h->scale.core);
    if (h->scale.config)
        manta__v1__scale_config__free_unpacked(h->scale.config, NULL);
    for (size_t i = 0; i < h->scale.wants.count; i++)
        manta__v1__scale_want__free_unpacked(h->scale.wants.data[i], NULL);
    mt_vec_fini(&h->scale.wants);
    mt_vec_fini(&h->scale.ended);
    mt_vec_fini(&h->scale.actions.list);
}

/* ---- tags ---- */

bool head_scale_label(const char *labels, const char *key, char *out, size_t size)
{
    size_t length = strlen(key);
    for (const char *at = labels; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, key, length) == 0 && at[length] == '=') {
            snprintf(out, size, "%.*s", (int)strcspn(at + length + 1, ","), at + length + 1);
            return true;
        }
    return false;
}

uint64_t head_scale_instance_of(const struct head *h, const char *labels, char *out_handle)
{
    char   tag[HEAD_CLUSTER_SIZE + 32];
    size_t length = strlen(h->config.cluster);
    out_handle[0] = '\0';
    if (!head_scale_label(labels, "manta.instance", tag, sizeof tag) || strncmp(tag, h->config.cluster, length) != 0 ||
        tag[length] != '-')
        return 0;
    (void)head_scale_label(labels, "manta.handle", out_handle, MT_SCL_NAME_SIZE);
    return strtoull(tag + length + 1, NULL, 10);
}
