/* SPDX-License-Identifier: Apache-2.0
 *
 * records.c - the tables as records of the store: written whenever one changes, read once at the start.
 */
#include "scheduler/head/core/internal.h"

static const char META_KEY[] = "head";

static void change(struct head *h, enum head_table table, const void *key, size_t key_size, const ProtobufCMessage *value)
{
    struct head_record record = {.table = table, .key_size = key_size, .key = malloc(key_size)};
    if (value) {
        record.value_size = protobuf_c_message_get_packed_size(value);
        record.value = malloc(record.value_size + 1);
        if (record.value)
            protobuf_c_message_pack(value, record.value);
    }
    if (!record.key || (value && !record.value) || mt_vec_push(&h->changes, record).code != 0) {
        free(record.key);
        free(record.value);
        head_broken(h, mt_error(MT_ENOMEM, 0, "make a record"));
        return;
    }
    memcpy(record.key, key, key_size);
}

static void number_key(uint32_t number, uint8_t key[4])
{
    for (int i = 0; i < 4; i++)
        key[i] = (uint8_t)(number >> (24 - 8 * i));
}

void records_put_meta(struct head *h)
{
    Manta__Store__Meta meta = MANTA__STORE__META__INIT;
    meta.schema = HEAD_SCHEMA;
    meta.cluster = h->config.cluster;
    meta.head_epoch = h->epoch;
    meta.next_node = h->next_node;
    meta.next_order = h->next_order;
    change(h, HEAD_TABLE_META, META_KEY, sizeof META_KEY - 1, &meta.base);
}

void records_put_node(struct head *h, const struct node *n)
{
    Manta__Store__NodeRecord record = MANTA__STORE__NODE_RECORD__INIT;
    resource                 items[POLICY_RESOURCES_MAX], *total[POLICY_RESOURCES_MAX];
    uint8_t                  key[4];
    for (uint32_t i = 0; i < n->place.resource_count; i++) {
        resource_fill(&items[i], h->kinds.data[n->place.resources[i].kind], n->place.resources[i].total);
        total[i] = &items[i];
    }
    record.node = n->place.id;
    record.epoch = n->epoch;
    record.boot = n->boot;
    record.dead = n->place.state == POLICY_DEAD;
    record.name = n->name;
    record.address = n->address;
    record.data_address = n->data_address;
    record.reason = (char *)n->reason;
    record.labels = (char *)(uintptr_t)n->place.labels;
    record.n_void_leases = n->voids.count;
    record.void_leases = n->voids.data;
    record.n_total = n->place.resource_count;
    record.total = total;
    number_key(n->place.id, key);
    change(h, HEAD_TABLE_NODES, key, sizeof key, &record.base);
}

void records_drop_node(struct head *h, uint32_t number)
{
    uint8_t key[4];
    number_key(number, key);
    change(h, HEAD_TABLE_NODES, key, sizeof key, NULL);
}

void records_put_name(struct head *h, const struct name *n)
{
    Manta__Store__NameRecord record = MANTA__STORE__NAME_RECORD__INIT;
    char                     space[MT_NAME_BYTES_MAX];
    snprintf(space, sizeof space, "%.*s", (int)(n->name - n->key - 1), n->key);
    record.space = space;
    record.name = (char *)n->name;
    record.actor_process = n->holder.actor.process;
    record.actor_counter = n->holder.actor.counter_index;
    record.owner = n->holder.owner;
    record.owner_node = n->holder.owner_node;
    record.type = (char *)n->holder.type;
    record.detached = n->holder.is_detached;
    change(h, HEAD_TABLE_NAMES, n->key, strlen(n->key), &record.base);
}

void records_drop_name(struct head *h, const char *key)
{
    change(h, HEAD_TABLE_NAMES, key, strlen(key), NULL);
}

void records_put_job(struct head *h, const struct job *job)
{
    Manta__Store__JobRecord record = MANTA__STORE__JOB_RECORD__INIT;
    record.spec = job->spec;
    record.state = job->state;
    record.reason = (char *)job->reason;
    record.exit_code = job->exit_code;
    record.attempt = job->attempt;
    record.node = job->node;
    record.failures = job->failures;
    record.stop_requested = job->stop_requested;
    record.submitted_ms = job->submitted_ms;
    record.started_ms = job->started_ms;
    record.ended_ms = job->ended_ms;
    record.pid = job->pid;
    record.order = job->order;
    record.log_base = job->log_base;
    change(h, HEAD_TABLE_JOBS, job->spec->id, strlen(job->spec->id), &record.base);
}

void records_drop_job(struct head *h, const char *id)
{
    change(h, HEAD_TABLE_JOBS, id, strlen(id), NULL);
}

static void group_key(mt_id id, uint8_t key[16])
{
    for (int i = 0; i < 8; i++) {
        key[i] = (uint8_t)(id.process >> (56 - 8 * i));
        key[8 + i] = (uint8_t)(id.counter_index >> (56 - 8 * i));
    }
}

void records_fill_bundles(const struct head *h, const struct group *g, Manta__V1__Bundle *bundles, resource *items,
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
            resource_fill(items, h->kinds.data[b->request.amounts[k].kind], b->request.amounts[k].amount);
            *pointers++ = items++;
        }
    }
}

void records_put_group(struct head *h, const struct group *g)
{
    Manta__Store__GroupRecord record = MANTA__STORE__GROUP_RECORD__INIT;
    Manta__V1__Bundle         bundles[MT_GROUP_BUNDLES_MAX], *all[MT_GROUP_BUNDLES_MAX];
    resource                  items[MT_GROUP_RESOURCES_MAX], *pointers[MT_GROUP_RESOURCES_MAX];
    char                      space[HEAD_NAME_SIZE];
    const char               *name;
    uint8_t                   key[16];
    groups_split_name(g, space, &name);
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
    records_fill_bundles(h, g, bundles, items, pointers);
    for (uint32_t i = 0; i < g->bundle_count; i++)
        all[i] = &bundles[i];
    record.bundles = all;
    record.n_bundles = g->bundle_count;
    group_key(g->id, key);
    change(h, HEAD_TABLE_GROUPS, key, sizeof key, &record.base);
}

void records_drop_group(struct head *h, mt_id id)
{
    uint8_t key[16];
    group_key(id, key);
    change(h, HEAD_TABLE_GROUPS, key, sizeof key, NULL);
}

/* ---- reading ---- */

static mt_status meta_load(struct head *h, const Manta__Store__Meta *meta)
{
    if (meta->schema > HEAD_SCHEMA)
        return mt_error(MT_EVERSION, 0, "the store was written by a newer head");
    if (meta->cluster[0] == '\0' || strlen(meta->cluster) >= HEAD_CLUSTER_SIZE)
        return mt_error(MT_ECORRUPT, 0, "the store names no cluster");
    snprintf(h->config.cluster, sizeof h->config.cluster, "%s", meta->cluster);
    h->epoch = meta->head_epoch;
    h->next_node = meta->next_node > h->next_node ? meta->next_node : h->next_node;
    h->next_order = meta->next_order > h->next_order ? meta->next_order : h->next_order;
    return mt_ok();
}

/* A message of that type begins with its base, so the way back from that is sound. */
static mt_status record_load(struct head *h, enum head_table table, const ProtobufCMessage *record)
{
    const void *message = record;
    switch (table) {
    case HEAD_TABLE_META: return meta_load(h, message);
    case HEAD_TABLE_NODES: return nodes_load(h, message);
    case HEAD_TABLE_NAMES: return names_load(h, message);
    case HEAD_TABLE_JOBS: return jobs_load(h, message);
    case HEAD_TABLE_GROUPS: return groups_load(h, message);
    }
    return mt_error(MT_EVERSION, 0, "the store has a table that this head does not know");
}

mt_status head_load(struct head *h, enum head_table table, const uint8_t *key, size_t key_size, const uint8_t *value,
                    size_t value_size)
{
    static const struct {
        const ProtobufCMessageDescriptor *type;
        const char                       *step;
    } tables[] = {
        [HEAD_TABLE_META] = {&manta__store__meta__descriptor, "read the store's meta record"},
        [HEAD_TABLE_NODES] = {&manta__store__node_record__descriptor, "read a node from the store"},
        [HEAD_TABLE_NAMES] = {&manta__store__name_record__descriptor, "read a name from the store"},
        [HEAD_TABLE_JOBS] = {&manta__store__job_record__descriptor, "read a job from the store"},
        [HEAD_TABLE_GROUPS] = {&manta__store__group_record__descriptor, "read a placement group from the store"},
    };
    (void)key;
    (void)key_size;
    MT_ASSERT(!h->is_started);
    if ((size_t)table >= sizeof tables / sizeof tables[0] || !tables[table].type)
        return mt_error(MT_EVERSION, 0, "the store has a table that this head does not know");
    ProtobufCMessage *record = protobuf_c_message_unpack(tables[table].type, NULL, value_size, value);
    if (!record)
        return mt_error(MT_ECORRUPT, 0, tables[table].step);
    mt_status st = record_load(h, table, record);
    protobuf_c_message_free_unpacked(record, NULL);
    return st;
}
