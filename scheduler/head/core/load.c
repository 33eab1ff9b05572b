/* SPDX-License-Identifier: Apache-2.0
 *
 * load.c - before the start: what the store and the folders have. After it: what the shell asks of the tables.
 */

#include "scheduler/head/core/account/account.h"
#include "scheduler/head/core/core.h"
#include "scheduler/head/core/groups/groups.h"
#include "scheduler/head/core/jobs/blobs.h"
#include "scheduler/head/core/jobs/jobs.h"
#include "scheduler/head/core/names/names.h"
#include "scheduler/head/core/nodes/nodes.h"
#include "scheduler/head/core/nodes/view.h"
#include "scheduler/head/core/scale/scale.h"
#include "scheduler/head/core/trust/trust.h"

static mt_status meta_load(struct head *h, const Manta__Store__Meta *meta)
{
    if (meta->schema > mt_release.schema.max)
        return mt_error(MT_EVERSION, 0, "the store was written by a newer head");
    if (meta->cluster[0] == '\0' || strlen(meta->cluster) >= HEAD_CLUSTER_SIZE)
        return mt_error(MT_ECORRUPT, 0, "the store names no cluster");
    snprintf(h->config.cluster, sizeof h->config.cluster, "%s", meta->cluster);
    h->schema = meta->schema;
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
    case HEAD_TABLE_NODES: return head_nodes_load(h, message);
    case HEAD_TABLE_NAMES: return head_names_load(h, message);
    case HEAD_TABLE_JOBS: return head_jobs_load(h, message);
    case HEAD_TABLE_GROUPS: return head_groups_load(h, message);
    case HEAD_TABLE_SCALE: return head_scale_load(h, message);
    case HEAD_TABLE_TICKETS: return head_tickets_load(h, message);
    case HEAD_TABLE_REVOKED: return head_revoked_load(h, message);
    case HEAD_TABLE_TOKENS: return head_tokens_load(h, message);
    case HEAD_TABLE_ACCOUNT: return head_account_load(h, message);
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
        [HEAD_TABLE_SCALE] = {&manta__store__scale_record__descriptor, "read a record of the scaler from the store"},
        [HEAD_TABLE_TICKETS] = {&manta__v1__ticket__descriptor, "read a ticket from the store"},
        [HEAD_TABLE_REVOKED] = {&manta__store__revoked_record__descriptor, "read a revocation from the store"},
        [HEAD_TABLE_TOKENS] = {&manta__v1__token__descriptor, "read a named token from the store"},
        [HEAD_TABLE_ACCOUNT] = {&manta__store__account_record__descriptor, "read an account from the store"},
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

mt_status head_load_log(struct head *h, const char *id, uint64_t size, bool *out_keep)
{
    *out_keep = head_jobs_log_found(h, id, size);
    return mt_ok();
}

mt_status head_load_blob(struct head *h, const uint8_t sha256[HEAD_SHA_SIZE], uint64_t size)
{
    return head_blobs_found(h, sha256, size);
}

/* ---- questions of the shell ---- */

mt_status head_job_look(const struct head *h, const char *id, struct head_job_view *out)
{
    const struct job *job = head_jobs_find(h, id);
    if (!job)
        return mt_error(MT_ENOENT, 0, "find a job");
    *out = (struct head_job_view){head_jobs_has_ended(job), job->attempt, job->log_size};
    return mt_ok();
}

mt_status head_blob_admit(const struct head *h, const uint8_t sha256[HEAD_SHA_SIZE], uint64_t size)
{
    return head_blobs_admit(h, sha256, size);
}

uint64_t head_view_each(const struct head *h, void (*fn)(void *user, const struct head_node_view *view), void *user)
{
    MT_MAP_EACH(&h->nodes, entry) {
        const struct node    *n = entry->value.ptr;
        struct head_node_view view = {n->place.id, n->epoch, n->told, n->name, n->address, n->data_address, n->place.labels};
        if (fn)
            fn(user, &view);
    }
    return head_view_version(h);
}
