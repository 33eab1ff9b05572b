/* SPDX-License-Identifier: Apache-2.0
 *
 * region.c - shared memory that all members of a group may write, freed with its last member.
 *
 * Owns: every struct rlt_region; the memory is the shell's. Thread: the logic loop only.
 * Always: a region has at least one member, each a living process of the job that made it.
 */
#include "core/lane/edge.h"
#include "raylet/core/procs/procs.h"

#include <stdlib.h>

static void region_free(struct rlt *r, struct rlt_region *region, bool has_memory)
{
    if (has_memory)
        rlt_act(r->out, RLT_A_REGION_FREE)->region_free.region = region->number;
    mt_map_remove(&r->regions, mt_map_key(region->number));
    mt_vec_fini(&region->members);
    free(region);
}

static struct rlt_region *region_new(struct rlt *r, const struct rlt_proc *p, const struct ctl_region_want *want)
{
    struct rlt_region *region = rlt_calloc(sizeof *region);
    uint64_t           size = want->segment.size;
    region->number = r->next_region++;
    region->size = size;
    region->job = p->job->job;
    region->owner = want->segment.segment ? want->owner : 0;
    rlt_map_put(&r->regions, mt_map_key(region->number), region);
    struct rlt_action *a = rlt_act(r->out, RLT_A_REGION_NEW);
    a->region_new.region = region->number;
    a->region_new.size = size;
    return region;
}

static bool has_member(const struct rlt_region *region, uint64_t conn, size_t *out_index)
{
    for (size_t i = 0; i < region->members.count; i++)
        if (region->members.data[i] == conn) {
            *out_index = i;
            return true;
        }
    return false;
}

/* The one that is meant, of this job; NULL: there is none (yet). */
static struct rlt_region *region_find(struct rlt *r, uint64_t job, const struct ctl_region_want *want)
{
    struct rlt_region *numbered = mt_map_ptr(&r->regions, mt_map_key(want->segment.segment));
    if (!(want->segment.segment & LANE_BOARD_FAR))
        return numbered && numbered->job == job ? numbered : NULL;
    MT_MAP_EACH(&r->regions, entry) {
        struct rlt_region *region = entry->value.ptr;
        if (want->owner && region->owner == want->owner && region->job == job)
            return region;
    }
    return NULL;
}

void rlt_region_want(struct rlt *r, struct rlt_proc *p, mt_id id, const struct ctl_region_want *want)
{
    struct rlt_region *region = region_find(r, p->job->job, want);
    uint64_t           size = want->segment.size;
    size_t             index;
    bool               is_far = want->segment.segment & LANE_BOARD_FAR;
    if (!region && want->segment.segment && (!is_far || !want->owner)) {
        rlt_down_reply(r->out, p->conn, id, MT_ENOENT, "no such region on this node");
        return;
    }
    if (!region && (size == 0 || size > RLT_REGION_BYTES_MAX || r->regions.count >= MT_RLT_REGIONS_MAX)) {
        rlt_down_reply(r->out, p->conn, id, size ? MT_ENOMEM : MT_EINVAL, "a region of this size, or one more");
        return;
    }
    if (!region)
        region = region_new(r, p, want);
    if (!has_member(region, p->conn, &index) && mt_vec_push(&region->members, p->conn).code)
        rlt_out_of_memory();
    struct ctl_segment   answer = {.segment = region->number, .size = region->size};
    struct rlt_a_socket *a = rlt_socket(r->out, p->conn, CTL_REGION, id, &answer, sizeof answer);
    a->fds[0].kind = RLT_FD_REGION;
    a->fds[0].number = region->number;
    a->fd_count = 1;
}

static void region_leave(struct rlt *r, struct rlt_region *region, uint64_t conn)
{
    size_t index;
    if (!has_member(region, conn, &index))
        return;
    mt_vec_remove(&region->members, index);
    if (!region->members.count)
        region_free(r, region, true);
}

void rlt_region_drop(struct rlt *r, struct rlt_proc *p, uint32_t number)
{
    struct rlt_region *region = mt_map_ptr(&r->regions, mt_map_key(number));
    if (region)
        region_leave(r, region, p->conn);
}

void rlt_regions_leave(struct rlt *r, struct rlt_proc *p)
{
    MT_MAP_EACH(&r->regions, entry)
        region_leave(r, entry->value.ptr, p->conn);
}

void rlt_region_failed(struct rlt *r, uint32_t number)
{
    struct rlt_region *region = mt_map_ptr(&r->regions, mt_map_key(number));
    if (region)
        region_free(r, region, false);
}

void rlt_regions_fini(struct rlt *r)
{
    MT_MAP_EACH(&r->regions, entry) {
        struct rlt_region *region = entry->value.ptr;
        mt_vec_fini(&region->members);
        free(region);
    }
    mt_map_fini(&r->regions);
}
