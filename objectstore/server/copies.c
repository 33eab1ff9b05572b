/* SPDX-License-Identifier: Apache-2.0
 *
 * copies.c - copies here of objects of other nodes, and of the disk, by id.
 *
 * Owns: every struct os_copy. Thread: the raylet's logic thread.
 */
#include "objectstore/server/table.h"

#include <stdlib.h>

static struct os_copy **copy_link(struct os_store *store, mt_id id)
{
    struct os_copy **link = &store->copies[mt_id_hash(id) % STORE_BUCKETS];
    while (*link && !mt_id_equal((*link)->ref.id, id))
        link = &(*link)->next;
    return link;
}

static void copy_delete(struct os_store *store, struct os_copy **link)
{
    struct os_copy *copy = *link;
    *link = copy->next;
    store->copy_count--;
    free(copy);
}

mt_status os_store_copy_add(struct os_store *store, const struct lane_ref *ref)
{
    struct os_copy **link = copy_link(store, ref->id);
    if (*link)
        return mt_error(MT_EEXIST, 0, "object store: copy");
    struct os_copy *copy = calloc(1, sizeof *copy);
    if (!copy)
        return mt_error(MT_ENOMEM, 0, "object store: copy");
    copy->ref = *ref;
    *link = copy;
    store->copy_count++;
    return mt_ok();
}

mt_status os_store_copy_find(const struct os_store *store, mt_id id, struct lane_ref *out)
{
    const struct os_copy *copy = store->copies[mt_id_hash(id) % STORE_BUCKETS];
    while (copy && !mt_id_equal(copy->ref.id, id))
        copy = copy->next;
    if (!copy)
        return mt_error(MT_ENOENT, 0, "object store: no copy here");
    *out = copy->ref;
    return mt_ok();
}

mt_status os_store_copy_keep(struct os_store *store, mt_id id, bool is_kept)
{
    struct os_copy *copy = *copy_link(store, id);
    if (!copy)
        return mt_error(MT_ENOENT, 0, "object store: no copy here");
    copy->is_kept = is_kept;
    return mt_ok();
}

bool os_store_copy_is_kept(const struct os_store *store, mt_id id)
{
    const struct os_copy *copy = store->copies[mt_id_hash(id) % STORE_BUCKETS];
    while (copy && !mt_id_equal(copy->ref.id, id))
        copy = copy->next;
    return copy && copy->is_kept;
}

void os_copy_place_gone(struct os_store *store, mt_id id, uint64_t place)
{
    struct os_copy **link = store->copy_count ? copy_link(store, id) : NULL;
    if (link && *link && os_place_word((*link)->ref.segment, (*link)->ref.offset) == place)
        copy_delete(store, link);
}

void os_copy_remove(struct os_store *store, mt_id id)
{
    struct os_copy **link = copy_link(store, id);
    if (*link)
        copy_delete(store, link);
}

void os_store_copies_forget(struct os_store *store, uint64_t owner, uint32_t owner_node, uint32_t job)
{
    bool all = owner == 0 && owner_node == 0 && job == 0;
    for (uint32_t i = 0; i < STORE_BUCKETS; i++)
        for (struct os_copy **link = &store->copies[i]; *link;) {
            struct lane_ref *ref = &(*link)->ref;
            if (all || (owner && ref->id.process == owner) || (owner_node && ref->owner_node == owner_node) ||
                (job && ref->job == job))
                copy_delete(store, link);
            else
                link = &(*link)->next;
        }
}
