/* SPDX-License-Identifier: Apache-2.0
 *
 * manifest.c - writing and strictly reading manifests: keys in one order, nothing missing, nothing more.
 *
 * Owns: nothing. Thread: any.
 */
#include "sgd/save/manifest.h"

#include "sgd/ground/checksum.h"
#include "core/base/real.h"
#include "core/text/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT    "manta-checkpoint-4"
#define OLD       "manta-checkpoint-2" /* without the number of parts, which is 0, and the data's mark */
#define OLD_PARTS "manta-checkpoint-3" /* without the data's mark */
#define SUM_LINE  "xxh3 %016llx\n"
enum { SUM_LINE_SIZE = 5 + 16 + 1 };

static const struct {
    const char *key;
    size_t      offset;
} numbers[] = {
    {"step", offsetof(struct sgd_checkpoint_meta, step)},
    {"epoch", offsetof(struct sgd_checkpoint_meta, epoch)},
    {"samples", offsetof(struct sgd_checkpoint_meta, samples)},
    {"seed", offsetof(struct sgd_checkpoint_meta, seed)},
    {"generation", offsetof(struct sgd_checkpoint_meta, generation)},
};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

/* The score for people and other programs; the trainer's own progress as the bytes that it is, in hexadecimal digits. */
static mt_status score_write(mt_buf *text, const struct sgd_checkpoint_meta *meta)
{
    if (meta->has_score)
        MT_TRY(mt_buf_printf(text, ",\"score\":\"%.17g\",\"progress\":\"", meta->score));
    else
        MT_TRY(mt_buf_printf(text, ",\"score\":\"\",\"progress\":\""));
    for (size_t i = 0; i < meta->progress_size; i++)
        MT_TRY(mt_buf_printf(text, "%02x", meta->progress[i]));
    return mt_buf_printf(text, "\"");
}

mt_status sgd_manifest_write(mt_buf *text, const struct sgd_checkpoint_meta *meta, uint64_t header_checksum,
                             const struct sgd_tensor *tensors, size_t count)
{
    MT_TRY(mt_buf_printf(text, "{\"format\":\"%s\",\"parts\":%llu,\"data\":\"%016llx\"", FORMAT, (unsigned long long)meta->parts,
                         (unsigned long long)meta->data));
    for (size_t i = 0; i < NUMBERS; i++) {
        uint64_t value;
        memcpy(&value, (const char *)meta + numbers[i].offset, sizeof value);
        MT_TRY(mt_buf_printf(text, ",\"%s\":%llu", numbers[i].key, (unsigned long long)value));
    }
    MT_TRY(score_write(text, meta));
    MT_TRY(mt_buf_printf(text, ",\"kernels\":\"%s\",\"header\":\"%016llx\",\"tensors\":{", meta->kernels,
                         (unsigned long long)header_checksum));
    for (size_t i = 0; i < count; i++) {
        uint64_t sum = sgd_checksum(tensors[i].data, (size_t)(tensors[i].end - tensors[i].begin));
        MT_TRY(mt_buf_printf(text, "%s\"%s\":\"%016llx\"", i ? "," : "", tensors[i].name, (unsigned long long)sum));
    }
    MT_TRY(mt_buf_printf(text, "}}\n"));
    return mt_buf_printf(text, SUM_LINE, (unsigned long long)sgd_checksum(text->data, text->size));
}

static mt_status key_take(struct mt_json *json, const char *expected)
{
    char key[32];
    MT_TRY(mt_json_string(json, key, sizeof key));
    if (strcmp(key, expected) != 0)
        return mt_error(MT_ECORRUPT, 0, "manifest: another key was expected");
    return mt_json_take(json, ':');
}

static mt_status sum_take(struct mt_json *json, uint64_t *out)
{
    char     text[17];
    uint64_t sum = 0;
    MT_TRY(mt_json_string(json, text, sizeof text));
    if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return mt_error(MT_ECORRUPT, 0, "manifest: bad checksum");
    for (int i = 0; i < 16; i++)
        sum = sum << 4 | (uint64_t)(text[i] <= '9' ? text[i] - '0' : text[i] - 'a' + 10);
    *out = sum;
    return mt_ok();
}

/* Checks the last line and gives the JSON before it. */
static mt_status own_checksum_check(const char *text, size_t size, struct mt_json *out_json)
{
    char line[SUM_LINE_SIZE + 1];
    if (size <= SUM_LINE_SIZE)
        return mt_error(MT_ECORRUPT, 0, "manifest: truncated");
    size -= SUM_LINE_SIZE;
    snprintf(line, sizeof line, SUM_LINE, (unsigned long long)sgd_checksum(text, size));
    if (memcmp(line, text + size, SUM_LINE_SIZE) != 0)
        return mt_error(MT_ECORRUPT, 0, "manifest: truncated or damaged");
    *out_json = (struct mt_json){text, text + size};
    return mt_ok();
}

static mt_status score_take(struct mt_json *json, struct sgd_checkpoint_meta *meta)
{
    char text[40], *end;
    MT_TRY(key_take(json, "score"));
    MT_TRY(mt_json_string(json, text, sizeof text));
    meta->has_score = text[0] != 0;
    meta->score = mt_real_read(text, &end);
    return *end ? mt_error(MT_ECORRUPT, 0, "manifest: bad score") : mt_ok();
}

static mt_status progress_take(struct mt_json *json, struct sgd_checkpoint_meta *meta)
{
    char text[2 * SGD_PROGRESS_BYTES + 1];
    MT_TRY(key_take(json, "progress"));
    MT_TRY(mt_json_string(json, text, sizeof text));
    size_t size = strlen(text);
    if (size % 2 || strspn(text, "0123456789abcdef") != size)
        return mt_error(MT_ECORRUPT, 0, "manifest: bad progress");
    meta->progress_size = size / 2;
    for (size_t i = 0; i < meta->progress_size; i++) {
        char byte[3] = {text[2 * i], text[2 * i + 1], 0};
        meta->progress[i] = (uint8_t)strtoul(byte, NULL, 16);
    }
    return mt_ok();
}

static mt_status parts_take(struct mt_json *json, struct sgd_checkpoint_meta *meta)
{
    MT_TRY(mt_json_take(json, ','));
    MT_TRY(key_take(json, "parts"));
    MT_TRY(mt_json_u64(json, &meta->parts));
    return meta->parts <= MT_GROUP_MEMBERS_MAX ? mt_ok() : mt_error(MT_ECORRUPT, 0, "manifest: bad number of parts");
}

static mt_status data_take(struct mt_json *json, struct sgd_checkpoint_meta *meta)
{
    MT_TRY(mt_json_take(json, ','));
    MT_TRY(key_take(json, "data"));
    return sum_take(json, &meta->data);
}

static mt_status meta_take(struct mt_json *json, struct sgd_checkpoint_meta *meta)
{
    char format[32];
    MT_TRY(mt_json_take(json, '{'));
    MT_TRY(key_take(json, "format"));
    MT_TRY(mt_json_string(json, format, sizeof format));
    bool is_present = strcmp(format, FORMAT) == 0, is_old = strcmp(format, OLD) == 0;
    if (!is_present && !is_old && strcmp(format, OLD_PARTS) != 0)
        return mt_error(MT_EUNSUPPORTED, 0, "manifest: a format of another version");
    meta->parts = meta->data = 0;
    if (!is_old)
        MT_TRY(parts_take(json, meta));
    if (is_present)
        MT_TRY(data_take(json, meta));
    for (size_t i = 0; i < NUMBERS; i++) {
        uint64_t value;
        MT_TRY(mt_json_take(json, ','));
        MT_TRY(key_take(json, numbers[i].key));
        MT_TRY(mt_json_u64(json, &value));
        memcpy((char *)meta + numbers[i].offset, &value, sizeof value);
    }
    MT_TRY(mt_json_take(json, ','));
    MT_TRY(score_take(json, meta));
    MT_TRY(mt_json_take(json, ','));
    MT_TRY(progress_take(json, meta));
    MT_TRY(mt_json_take(json, ','));
    MT_TRY(key_take(json, "kernels"));
    return mt_json_string(json, meta->kernels, sizeof meta->kernels);
}

mt_status sgd_manifest_read_meta(const char *text, size_t size, struct sgd_checkpoint_meta *out_meta)
{
    struct mt_json json;
    MT_TRY(own_checksum_check(text, size, &json));
    return meta_take(&json, out_meta);
}

mt_status sgd_manifest_read(const char *text, size_t size, const struct sgd_tensor *tensors, size_t count,
                            struct sgd_manifest *manifest)
{
    struct mt_json json;
    char           name[MT_NAME_BYTES_MAX];

    MT_TRY(own_checksum_check(text, size, &json));
    MT_TRY(meta_take(&json, &manifest->meta));
    MT_TRY(mt_json_take(&json, ','));
    MT_TRY(key_take(&json, "header"));
    MT_TRY(sum_take(&json, &manifest->header_checksum));
    MT_TRY(mt_json_take(&json, ','));
    MT_TRY(key_take(&json, "tensors"));
    MT_TRY(mt_json_take(&json, '{'));
    for (size_t i = 0; i < count; i++) {
        if (i)
            MT_TRY(mt_json_take(&json, ','));
        MT_TRY(mt_json_string(&json, name, sizeof name));
        if (strcmp(name, tensors[i].name) != 0)
            return mt_error(MT_ECORRUPT, 0, "manifest: other tensors than in the file");
        MT_TRY(mt_json_take(&json, ':'));
        MT_TRY(sum_take(&json, &manifest->sums[i]));
    }
    MT_TRY(mt_json_take(&json, '}'));
    MT_TRY(mt_json_take(&json, '}'));
    return mt_json_end(&json);
}
