/* SPDX-License-Identifier: Apache-2.0
 *
 * file.c - the file of copy.h: made and read. Pure.
 */
#include "scheduler/head/copy/copy.h"

#include <stdio.h>

enum { FORMAT = 1, PART_MAX = 1 << 30 };
static const char magic[] = "manta head copy\n";

/* ---- making ---- */

static mt_status take(struct head_copy *c, size_t from)
{
    mt_sha256_add(&c->sha, c->bytes.data + from, c->bytes.size - from);
    return mt_ok();
}

static mt_status take_record(struct head_store_reader *reader, enum head_table table, const uint8_t *key, size_t key_size,
                             const uint8_t *value, size_t value_size)
{
    struct head_copy *c = mt_container_of(reader, struct head_copy, reader);
    size_t            from = c->bytes.size;
    mt_writer         w = mt_writer_to_buf(&c->bytes, SIZE_MAX);
    if (table <= 0 || table > UINT8_MAX || key_size > PART_MAX || value_size > PART_MAX)
        return mt_error(MT_EINVAL, 0, "a record is too large for a copy");
    mt_writer_u8(&w, (uint8_t)table);
    mt_writer_blob(&w, mt_view_of(key, key_size));
    mt_writer_blob(&w, mt_view_of(value, value_size));
    MT_TRY(w.status);
    c->count++;
    return take(c, from);
}

mt_status head_copy_begin(struct head_copy *c, const char *cluster)
{
    *c = (struct head_copy){.reader.record = take_record};
    mt_writer w = mt_writer_to_buf(&c->bytes, SIZE_MAX);
    mt_sha256_init(&c->sha);
    mt_writer_bytes(&w, magic, sizeof magic - 1);
    mt_writer_u32(&w, FORMAT);
    size_t from = c->bytes.size;
    mt_writer_blob(&w, mt_view_text(cluster));
    MT_TRY(w.status);
    return take(c, from);
}

mt_status head_copy_end(struct head_copy *c, struct head_copy_info *out)
{
    mt_writer w = mt_writer_to_buf(&c->bytes, SIZE_MAX);
    uint8_t   digest[MT_SHA256_SIZE];
    mt_sha256_end(&c->sha, digest);
    mt_writer_u8(&w, 0);
    mt_writer_u64(&w, c->count);
    mt_writer_bytes(&w, digest, sizeof digest);
    MT_TRY(w.status);
    return head_copy_read(mt_buf_view(&c->bytes), out, NULL); /* what could not be read again is no copy */
}

void head_copy_fini(struct head_copy *c)
{
    mt_buf_fini(&c->bytes);
}

/* ---- reading ---- */

static mt_status torn(void)
{
    return mt_error(MT_ECORRUPT, 0, "the file is torn: it ends in the middle");
}

static mt_status changed(void)
{
    return mt_error(MT_ECORRUPT, 0, "the file has changed since it was written: its digest does not fit");
}

static int order_of(mt_view x, mt_view y)
{
    int way = memcmp(x.data, y.data, x.size < y.size ? x.size : y.size);
    return way ? way : (x.size > y.size) - (x.size < y.size);
}

struct place { /* of the record before */
    uint8_t table;
    mt_view key;
};

/* One record; table 0: the end has come. */
static mt_status next(mt_reader *r, struct place *at, mt_view *out_value)
{
    struct place before = *at;
    at->table = mt_reader_u8(r);
    if (r->failed)
        return torn();
    if (at->table == 0)
        return mt_ok();
    at->key = mt_reader_blob(r, PART_MAX);
    *out_value = mt_reader_blob(r, PART_MAX);
    if (r->failed)
        return torn();
    bool is_after = before.table == 0 || at->table > before.table ||
                    (at->table == before.table && order_of(at->key, before.key) > 0);
    return is_after ? mt_ok() : changed();
}

static mt_status give(mt_reader r, struct head_store_reader *reader)
{
    struct place at = {0};
    mt_view      value = {0};
    MT_TRY(next(&r, &at, &value)); /* checked before: none of these fails */
    while (at.table != 0) {
        MT_TRY(reader->record(reader, (enum head_table)at.table, at.key.data, at.key.size, value.data, value.size));
        MT_TRY(next(&r, &at, &value));
    }
    return mt_ok();
}

/* Up to the end of the file. */
static mt_status check(mt_reader r, const uint8_t *from, struct head_copy_info *out)
{
    struct place at = {0};
    mt_view      value = {0};
    mt_sha256    sha;
    MT_TRY(next(&r, &at, &value));
    for (out->count = 0; at.table != 0; out->count++)
        MT_TRY(next(&r, &at, &value));
    mt_sha256_init(&sha);
    mt_sha256_add(&sha, from, (size_t)(r.at - from) - 1);
    mt_sha256_end(&sha, out->digest);
    uint64_t count = mt_reader_u64(&r);
    mt_view  digest = mt_reader_bytes(&r, MT_SHA256_SIZE);
    if (r.failed)
        return torn();
    return count == out->count && r.left == 0 && memcmp(digest.data, out->digest, MT_SHA256_SIZE) == 0 ? mt_ok() : changed();
}

mt_status head_copy_read(mt_view file, struct head_copy_info *out, struct head_store_reader *reader)
{
    mt_reader r = mt_reader_of(file);
    *out = (struct head_copy_info){.count = 0};
    mt_view start = mt_reader_bytes(&r, sizeof magic - 1);
    if (r.failed || !mt_view_equal(start, mt_view_text(magic)))
        return mt_error(MT_ECORRUPT, 0, "that is no backup of a cluster's state");
    uint32_t format = mt_reader_u32(&r);
    if (!r.failed && format != FORMAT)
        return format > FORMAT ? mt_error(MT_EVERSION, 0, "a newer head has written the file: use that release") : changed();
    const uint8_t *from = r.at;
    mt_view        cluster = mt_reader_blob(&r, PART_MAX);
    if (r.failed)
        return torn();
    if (cluster.size == 0 || cluster.size >= sizeof out->cluster)
        return changed();
    memcpy(out->cluster, cluster.data, cluster.size);
    MT_TRY(check(r, from, out));
    return reader ? give(r, reader) : mt_ok();
}
