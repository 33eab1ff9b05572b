/* SPDX-License-Identifier: Apache-2.0
 *
 * kit.c - what every room of the core needs: failures of the head itself, room on its disk, records of the store.
 */

#include "scheduler/head/core/kit/kit.h"

static const char META_KEY[] = "head";

void head_broken(struct head *h, mt_status st)
{
    if (h->broken.code == 0)
        h->broken = st;
}

bool head_has_room(struct head *h, size_t bytes)
{
    bool has = h->room == HEAD_ROOM_ENOUGH && bytes <= h->room_bytes;
    h->count.no_room += !has;
    return has;
}

mt_status head_room_refusal(const struct head *h)
{
    return h->room == HEAD_ROOM_AWAY ? mt_error(MT_EAGAIN, 0, HEAD_AWAY_TEXT) : mt_error(MT_EDISK_FULL, 0, HEAD_FULL_TEXT);
}

char *head_strdup(struct head *h, const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        head_broken(h, mt_error(MT_ENOMEM, 0, "copy a text"));
    return copy;
}

void head_replace_text(struct head *h, char **text, const char *with)
{
    char *copy = head_strdup(h, with);
    if (copy) {
        free(*text);
        *text = copy;
    }
}

bool head_in_grace(const struct head *h)
{
    return h->now_ms - h->start_ms < h->config.grace_ms;
}

/* ---- records of the store ---- */

/* What this step has said of that record before; NULL: nothing, or long ago. */
static struct head_record *said_before(const struct head *h, enum head_table table, const void *key, size_t key_size)
{
    enum { LOOK_BACK = 32 };
    for (size_t i = h->changes.count, last = i > LOOK_BACK ? i - LOOK_BACK : 0; i-- > last;) {
        struct head_record *r = &h->changes.data[i];
        if (r->table == table && r->key_size == key_size && memcmp(r->key, key, key_size) == 0)
            return r;
    }
    return NULL;
}

/* All of a step is one batch: of several words on a record the last one counts. */
void head_record_change(struct head *h, enum head_table table, const void *key, size_t key_size, const ProtobufCMessage *value)
{
    struct head_record record = {.table = table, .key_size = key_size}, *before = said_before(h, table, key, key_size);
    if (value) {
        record.value_size = protobuf_c_message_get_packed_size(value);
        record.value = malloc(record.value_size + 1);
        if (record.value)
            protobuf_c_message_pack(value, record.value);
    }
    if (before && (!value || record.value)) {
        free(before->value);
        before->value = record.value;
        before->value_size = record.value_size;
        return;
    }
    record.key = malloc(key_size);
    if (!record.key || (value && !record.value) || mt_vec_push(&h->changes, record).code != 0) {
        free(record.key);
        free(record.value);
        head_broken(h, mt_error(MT_ENOMEM, 0, "make a record"));
        return;
    }
    memcpy(record.key, key, key_size);
}

void head_record_meta(struct head *h)
{
    Manta__Store__Meta meta = MANTA__STORE__META__INIT;
    meta.schema = h->schema > mt_release.schema_needs ? h->schema : mt_release.schema_needs;
    meta.cluster = h->config.cluster;
    meta.head_epoch = h->epoch;
    meta.next_node = h->next_node;
    meta.next_order = h->next_order;
    head_record_change(h, HEAD_TABLE_META, META_KEY, sizeof META_KEY - 1, &meta.base);
}
