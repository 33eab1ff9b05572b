/* SPDX-License-Identifier: Apache-2.0
 *
 * region.c - shared memory that all members of a group may write, freed with its last member.
 *
 * Owns: every struct rlt_region; the memory is the shell's. Thread: the logic loop only.
 * Always: a region has at least one member, each a living process of the job that made it.
 */
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

static struct rlt_region *region_new(struct rlt *r, const struct rlt_proc *p, uint64_t size)
{
    struct rlt_region *region = rlt_calloc(sizeof *region);
    region->number = r->next_region++;
    region->size = size;
    region->job = p->job->job;
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

void rlt_region_want(struct rlt *r, struct rlt_proc *p, mt_id id, const struct ctl_segment *want)
{
    struct rlt_region *region;
    size_t             index;
    if (want->segment) {
        region = mt_map_ptr(&r->regions, mt_map_key(want->segment));
        if (!region || region->job != p->job->job) {
            rlt_down_reply(r->out, p->conn, id, MT_ENOENT, "no such region on this node");
            return;
        }
    } else {
        if (want->size == 0 || want->size > RLT_REGION_BYTES_MAX || r->regions.count >= MT_RLT_REGIONS_MAX) {
            rlt_down_reply(r->out, p->conn, id, want->size ? MT_ENOMEM : MT_EINVAL, "a region of this size, or one more");
            return;
        }
        region = region_new(r, p, want->size);
    }
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
