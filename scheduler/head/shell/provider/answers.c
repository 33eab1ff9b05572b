/* SPDX-License-Identifier: Apache-2.0
 *
 * answers.c - a provider's line, read. It comes from a program that a user may have written: nothing of it is trusted.
 */
#include "scheduler/head/shell/provider/private.h"

#include "core/text/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A string, cut where it is longer than fits. */
static mt_status text(struct mt_json *json, mt_buf *scratch, char *out, size_t size)
{
    MT_TRY(mt_json_text(json, scratch));
    snprintf(out, size, "%s", (const char *)scratch->data);
    return mt_ok();
}

/* What it has with another cluster's tag is none of ours. */
static mt_status item_keep(struct provider_answer *out, struct scl_listed item, const char *id, const char *cluster)
{
    size_t length = strlen(cluster);
    char  *end;
    if (strncmp(id, cluster, length) != 0 || id[length] != '-')
        return mt_ok();
    item.instance = strtoull(id + length + 1, &end, 10);
    if (*end || end == id + length + 1 || item.instance == 0)
        return mt_ok();
    return out->listed.count < 2 * MT_SCL_INSTANCES_MAX ? mt_vec_push(&out->listed, item) : mt_error(MT_ECORRUPT, 0, "too many");
}

static mt_status item_read(struct mt_json *json, mt_buf *scratch, const char *cluster, struct provider_answer *out)
{
    char              id[HEAD_CLUSTER_SIZE + 32] = "", name[16];
    struct scl_listed item = {0};
    bool              first = true;
    mt_status         st = mt_ok();
    MT_TRY(mt_json_take(json, '{'));
    while (mt_json_more(json, '}', &first, &st)) {
        MT_TRY(text(json, scratch, name, sizeof name));
        MT_TRY(mt_json_take(json, ':'));
        if (strcmp(name, "id") == 0)
            MT_TRY(text(json, scratch, id, sizeof id));
        else if (strcmp(name, "handle") == 0)
            MT_TRY(text(json, scratch, item.handle, sizeof item.handle));
        else if (strcmp(name, "waits") == 0)
            MT_TRY(mt_json_bool(json, scratch, &item.is_waiting));
        else if (strcmp(name, "failed") == 0)
            MT_TRY(text(json, scratch, item.failed, sizeof item.failed));
        else
            MT_TRY(mt_json_skip(json));
    }
    return st.code ? st : item_keep(out, item, id, cluster);
}

static mt_status list_read(struct mt_json *json, mt_buf *scratch, const char *cluster, struct provider_answer *out)
{
    bool      first = true;
    mt_status st = mt_ok();
    MT_TRY(mt_json_take(json, '['));
    while (mt_json_more(json, ']', &first, &st))
        MT_TRY(item_read(json, scratch, cluster, out));
    return st;
}

static mt_status member_read(struct mt_json *json, mt_buf *scratch, const char *cluster, const char *name,
                             struct provider_answer *out)
{
    if (strcmp(name, "op") == 0)
        return text(json, scratch, out->op, sizeof out->op);
    if (strcmp(name, "handle") == 0)
        return text(json, scratch, out->handle, sizeof out->handle);
    if (strcmp(name, "text") == 0)
        return text(json, scratch, out->text, sizeof out->text);
    if (strcmp(name, "number") == 0)
        return mt_json_u64(json, &out->number);
    if (strcmp(name, "instances") == 0)
        return list_read(json, scratch, cluster, out);
    if (strcmp(name, "ok") != 0)
        return mt_json_skip(json);
    return mt_json_bool(json, scratch, &out->is_ok);
}

static mt_status object_read(struct mt_json *json, mt_buf *scratch, const char *cluster, struct provider_answer *out)
{
    char      name[16];
    bool      first = true;
    mt_status st = mt_ok();
    MT_TRY(mt_json_take(json, '{'));
    while (mt_json_more(json, '}', &first, &st)) {
        MT_TRY(text(json, scratch, name, sizeof name));
        MT_TRY(mt_json_take(json, ':'));
        MT_TRY(member_read(json, scratch, cluster, name, out));
    }
    return st.code ? st : mt_json_end(json);
}

mt_status head_provider_read(mt_view line, const char *cluster, struct provider_answer *out)
{
    struct mt_json json = mt_json_of(line);
    mt_buf         scratch = {0};
    memset(out, 0, sizeof *out);
    mt_status st = object_read(&json, &scratch, cluster, out);
    mt_buf_fini(&scratch);
    return st;
}
