/* SPDX-License-Identifier: Apache-2.0
 *
 * said.c - settings and labels by name, and the list that an answer brings. Thread: main; owns nothing.
 */
#include "scheduler/provider/provider.h"

#include "core/text/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *pairs_find(const struct pairs *pairs, const char *name)
{
    for (size_t i = 0; i < pairs->count; i++)
        if (strcmp(pairs->items[i].name, name) == 0)
            return pairs->items[i].value;
    return NULL;
}

const char *setting_find(const struct cluster *cluster, const struct request *r, const char *name)
{
    const char *of_type = pairs_find(&r->settings, name);
    return of_type ? of_type : pairs_find(&cluster->settings, name);
}

bool labels_find(const char *labels, const char *key, char *out)
{
    size_t length = strlen(key);
    for (const char *at = labels; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, key, length) == 0 && at[length] == '=') {
            snprintf(out, TEXT_SIZE, "%.*s", (int)strcspn(at + length + 1, ","), at + length + 1);
            return true;
        }
    return false;
}

bool cluster_has(const struct cluster *cluster, const char *id)
{
    size_t length = strlen(cluster->id);
    return length > 0 && strncmp(id, cluster->id, length) == 0 && id[length] == '-';
}

void said_list(struct said *said, const char *id, const char *handle, bool is_waiting, const char *failed)
{
    mt_status st = mt_buf_printf(&said->listed, "%s{\"id\":", said->listed.size ? "," : "");
    if (st.code == 0)
        st = mt_json_put_text(&said->listed, id);
    if (st.code == 0)
        st = mt_buf_printf(&said->listed, ",\"handle\":");
    if (st.code == 0)
        st = mt_json_put_text(&said->listed, handle);
    if (st.code == 0 && failed[0])
        st = mt_buf_printf(&said->listed, ",\"failed\":");
    if (st.code == 0 && failed[0])
        st = mt_json_put_text(&said->listed, failed);
    if (st.code == 0)
        st = mt_buf_printf(&said->listed, "%s}", is_waiting ? ",\"waits\":true" : "");
    if (st.code)
        exit(1);
}
