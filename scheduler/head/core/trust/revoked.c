/* SPDX-License-Identifier: Apache-2.0
 *
 * revoked.c - whose certificates are refused: until the last of them has ended by itself.
 */
#include "scheduler/head/core/trust/trust.h"

#include "core/base/limits/net.h"
#include "core/base/plant.h"
#include "scheduler/head/core/nodes/view.h"

#include <inttypes.h>

void head_trust_key(uint64_t id, uint8_t key[8])
{
    for (int i = 0; i < 8; i++)
        key[i] = (uint8_t)(id >> (56 - 8 * i));
}

bool head_revoked_has(const struct head *h, uint64_t member)
{
    for (size_t i = 0; i < h->revoked.count; i++)
        if (h->revoked.data[i].id == member)
            return true;
    return false;
}

bool head_revoked_add(struct head *h, uint64_t member, uint32_t node, uint64_t ends_ms, const char *reason)
{
    Manta__Store__RevokedRecord record = MANTA__STORE__REVOKED_RECORD__INIT;
    struct revoked              r = {.id = member, .node = node};
    uint8_t                     key[8];
    if (head_revoked_has(h, member))
        return true;
    if (h->revoked.count >= MT_REVOKED_MAX)
        return false;
    r.until_ms = (ends_ms > h->wall_ms ? ends_ms : h->wall_ms) + INT64_C(1000) * MT_TLS_SLACK_S;
    snprintf(r.reason, sizeof r.reason, "%s", reason);
    r.view_version = head_view_news(h);
    HEAD_TRY(h, mt_vec_push(&h->revoked, r));
    h->count.revoked++;
    mt_log(MT_LOG_INFO, "node_revoked", "node=%u id=%016" PRIx64 " reason=\"%.100s\"", node, member, reason);
    record.id = r.id;
    record.until_ms = r.until_ms;
    record.node = r.node;
    record.reason = r.reason;
    head_trust_key(r.id, key);
    if (!MT_PLANT(MT_PLANT_REVOKE_UNSTORED))
        head_record_change(h, HEAD_TABLE_REVOKED, key, sizeof key, &record.base);
    head_out_revoked(h, r.id, r.until_ms);
    return true;
}

void head_revoked_tell(struct head *h)
{
    for (size_t i = 0; i < h->revoked.count; i++)
        head_out_revoked(h, h->revoked.data[i].id, h->revoked.data[i].until_ms);
}

void head_revoked_tick(struct head *h)
{
    uint8_t key[8];
    for (size_t i = h->revoked.count; i-- > 0;) {
        if (h->wall_ms < h->revoked.data[i].until_ms)
            continue;
        head_trust_key(h->revoked.data[i].id, key);
        head_record_change(h, HEAD_TABLE_REVOKED, key, sizeof key, NULL);
        mt_vec_remove(&h->revoked, i);
    }
}

mt_status head_revoked_load(struct head *h, const Manta__Store__RevokedRecord *record)
{
    struct revoked r = {.id = record->id, .until_ms = record->until_ms, .node = record->node};
    if (record->id == 0 || h->revoked.count >= MT_REVOKED_MAX)
        return mt_error(MT_ECORRUPT, 0, "the store holds a revocation that can't be");
    snprintf(r.reason, sizeof r.reason, "%s", record->reason);
    r.view_version = head_view_news(h);
    return mt_vec_push(&h->revoked, r);
}
