/* SPDX-License-Identifier: Apache-2.0
 *
 * local.c - the raylet's own place among the processes that use its store.
 *
 * Owns:    its pin table and the writable mappings of the segments it writes; it reads through the store's
 * mappings. Thread:  the store's.
 */
#include "objectstore/server/local.h"

#include "objectstore/system/backing.h"

#include <stdlib.h>

struct os_local_map {
    struct os_local_map *next;
    uint32_t             segment;
    uint64_t             size;
    void                *data;
};

mt_status os_local_open(struct os_local *local, struct os_store *store, uint64_t process, uint32_t node, uint32_t job)
{
    *local = (struct os_local){.store = store, .pins = calloc(1, sizeof *local->pins)};
    if (!local->pins)
        return mt_error(MT_ENOMEM, 0, "object store: pin table");
    mt_status st = os_client_init(&local->client, process, node, job, local->pins);
    if (st.code == MT_OK)
        st = os_store_add_process(store, process, job, local->pins);
    if (st.code != MT_OK) {
        free(local->pins);
        local->pins = NULL;
    }
    return st;
}

static void unmap(struct os_local_map **link)
{
    struct os_local_map *map = *link;
    *link = map->next;
    os_memory_unmap(map->data, map->size);
    free(map);
}

mt_status os_local_close(struct os_local *local)
{
    if (!local->pins)
        return mt_ok();
    MT_TRY(os_store_process_gone(local->store, local->client.process));
    os_client_fini(&local->client);
    while (local->maps)
        unmap(&local->maps);
    free(local->pins);
    local->pins = NULL;
    return mt_ok();
}

mt_status os_local_pin(struct os_local *local, const struct lane_ref *ref, const void **out_data)
{
    mt_status st = os_client_pin(&local->client, ref, out_data);
    if (st.code != MT_ENOENT)
        return st;
    struct os_segment_view view;
    MT_TRY(os_store_segment(local->store, local->client.process, ref->segment, &view));
    MT_TRY(os_client_add_reader(&local->client, view.segment, view.size, view.backing.data, view.backing.generations));
    return os_client_pin(&local->client, ref, out_data);
}

void os_local_unpin(struct os_local *local, const struct lane_ref *ref)
{
    mt_status st = os_client_unpin(&local->client, ref);
    MT_ASSERT(st.code == MT_OK);
}

/* A new segment, or the mapping of a warm one, for us to write. */
static mt_status own_segment(struct os_local *local, struct os_grant grant)
{
    struct os_segment_view view;
    struct os_local_map   *map = calloc(1, sizeof *map);
    mt_status              st = mt_ok();
    uint32_t               segment = grant.segment;
    if (!map)
        return mt_error(MT_ENOMEM, 0, "object store: own segment");
    if (segment == 0) {
        struct os_backing backing;
        MT_TRY_GOTO(st, os_backing_make(grant.create_size, &backing), err);
        st = os_store_add_segment(local->store, local->client.process, grant.create_size, &backing, &segment);
        if (st.code != MT_OK) {
            os_backing_close(&backing, grant.create_size);
            goto err;
        }
    }
    (void)os_client_drop(&local->client, segment).code; /* ENOENT unless we have read what we write now */
    MT_TRY_GOTO(st, os_store_segment(local->store, local->client.process, segment, &view), err);
    MT_TRY_GOTO(st, os_memory_map(view.backing.data_rw, view.size, true, &map->data), err);
    map->segment = segment;
    map->size = view.size;
    map->next = local->maps;
    local->maps = map;
    return os_client_add_own(&local->client, segment, view.size, map->data, map->data, view.backing.generations);

err: /* a segment that was granted and not used goes back with us */
    free(map);
    return st;
}

mt_status os_local_alloc(struct os_local *local, uint64_t size, const struct os_headroom *room, struct os_place *out_place,
                         void **out_data, char *text, struct os_actions *actions)
{
    uint64_t        want;
    struct os_grant grant;
    text[0] = '\0';
    mt_status st = os_client_alloc(&local->client, size, out_place, out_data, &want);
    if (st.code != MT_EAGAIN)
        return st;
    MT_TRY(os_store_want(local->store, local->client.process, want, room, &grant, text, actions));
    MT_TRY(own_segment(local, grant));
    return os_client_alloc(&local->client, size, out_place, out_data, &want);
}

static void give_segment_back(struct os_local *local, uint32_t segment)
{
    for (struct os_local_map **link = &local->maps; *link; link = &(*link)->next)
        if ((*link)->segment == segment) {
            unmap(link);
            break;
        }
    mt_status st = os_store_segment_back(local->store, local->client.process, segment);
    MT_ASSERT(st.code == MT_OK || st.code == MT_ENOMEM);
}

void os_local_surrender(struct os_local *local, uint32_t segment)
{
    struct os_trim trim;
    if (os_client_surrender(&local->client, segment, &trim).code == MT_OK)
        give_segment_back(local, segment);
}

void os_local_trim(struct os_local *local, bool now)
{
    struct os_trim trim;
    if (now)
        os_client_trim_round(&local->client);
    for (os_client_trim(&local->client, 0, &trim); trim.kind != OS_TRIM_NOTHING; os_client_trim(&local->client, 0, &trim))
        if (trim.kind == OS_TRIM_SEGMENT)
            give_segment_back(local, trim.segment);
        else
            os_memory_drop(trim.data, trim.size);
    os_client_trim_round(&local->client);
}

void os_local_forget(struct os_local *local, uint32_t segment)
{
    (void)os_client_drop(&local->client, segment).code; /* a segment that is closed has no pin */
    for (struct os_local_map **link = &local->maps; *link;)
        if ((*link)->segment == segment)
            unmap(link);
        else
            link = &(*link)->next;
}
