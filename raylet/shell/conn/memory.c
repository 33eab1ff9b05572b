/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.c - lanes, park pages, pin tables and regions: sealed memfds, given away by descriptor only.
 *
 * Owns: struct sh_lane, struct sh_region, struct sh_parks, and the shared memory of each struct sh_conn. Thread: the loop only.
 * Always: the switch has forgotten a process or lane before its memory is unmapped (the core sees to the order). A descriptor is
 * kept only while somebody may still be given it: that of the park pages as long as one of their processes lives, others for one
 * step.
 */
#include "raylet/shell/conn/conn.h"
#include "raylet/shell/conn/memory.h"

#include "objectstore/layout/layout.h"
#include "objectstore/system/memory.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { PARKS = 16 }; /* in one memory: the last of them keeps the pages of all */

mt_status sh_memory_make(const char *name, uint64_t size, int *out_fd, void **out_memory)
{
    MT_TRY(os_memory_create(name, size, out_fd, NULL));
    mt_status st = (uint32_t)*out_fd < io_fd_share() ? os_memory_map(*out_fd, size, true, out_memory)
                                                     : mt_error(MT_EAGAIN, EMFILE, "descriptors of this node");
    if (st.code) {
        close(*out_fd);
        *out_fd = -1;
    }
    return st;
}

/* ---- park pages --------------------------------------------------------------------------------------------------- */

/* Park pages of several processes in one memory, since each new peer of a process is given the descriptor, as long as it lives:
 * with one of its own for each process they would be a third of the descriptors of a node that is full of actors. A process maps
 * its own page and those of its peers, and closes the descriptor. It could map the others: so they all are of one user, and a
 * process whose user is not the raylet's has a memory of its own. A page is used once: who has mapped it may write there late. */
struct sh_parks {
    int               fd;
    uint32_t          count, used, live;
    struct lane_park *pages;
};

static void parks_free_if_over(struct sh *sh, struct sh_parks *parks)
{
    if (parks->live || (parks == sh->parks && parks->used < parks->count))
        return;
    if (parks == sh->parks)
        sh->parks = NULL;
    os_memory_unmap(parks->pages, parks->count * sizeof *parks->pages);
    close(parks->fd);
    free(parks);
}

static mt_status parks_new(struct sh *sh)
{
    uint32_t         count = sh->options.users.count ? 1 : PARKS;
    struct sh_parks *parks = calloc(1, sizeof *parks);
    void            *pages = NULL;
    if (!parks)
        return mt_error(MT_ENOMEM, 0, "park pages");
    mt_status st = sh_memory_make("manta-park", count * sizeof(struct lane_park), &parks->fd, &pages);
    if (st.code) {
        free(parks);
        return st;
    }
    parks->count = count;
    parks->pages = pages;
    sh->parks = parks;
    return mt_ok();
}

static mt_status park_take(struct sh_conn *c)
{
    struct sh *sh = c->sh;
    if (!sh->parks || sh->parks->used == sh->parks->count)
        MT_TRY(parks_new(sh));
    c->parks = sh->parks;
    c->parks->live++;
    c->park = &c->parks->pages[c->parks->used++];
    return mt_ok();
}

static void park_drop(struct sh_conn *c)
{
    struct sh_parks *parks = c->parks;
    if (!parks)
        return;
    c->parks = NULL;
    c->park = NULL;
    parks->live--;
    parks_free_if_over(c->sh, parks);
}

uint32_t sh_park_number(const struct sh_conn *c)
{
    return (uint32_t)(c->park - c->parks->pages);
}

int sh_park_fd(const struct sh_conn *c)
{
    return c->parks ? c->parks->fd : -1;
}

/* ---- what a process shares with this raylet ------------------------------------------------------------------------ */

mt_status sh_memory_welcome(struct sh_conn *c)
{
    mt_status st;
    MT_TRY_GOTO(st, sh_memory_make("manta-control", LANE_BYTES, &c->lane_fd, &c->lane), err);
    MT_TRY_GOTO(st, park_take(c), err);
    MT_TRY_GOTO(st, sh_memory_make("manta-pins", OS_PINS_BYTES, &c->pins_fd, &c->pins), err);
    MT_TRY_GOTO(st, sh_switcher_add(c->sh, c->conn, c->lane, c->park), err);
    return mt_ok();
err:
    sh_memory_forget(c);
    return st;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void drop(int *fd, void *memory, uint64_t size)
{
    if (memory)
        os_memory_unmap(memory, size);
    close_fd(fd);
}

void sh_memory_given(struct sh_conn *c)
{
    close_fd(&c->lane_fd);
    close_fd(&c->pins_fd);
    if (c->ring)
        close_fd(&c->ring->fd);
}

void sh_memory_forget(struct sh_conn *c)
{
    drop(&c->lane_fd, c->lane, LANE_BYTES);
    drop(&c->pins_fd, c->pins, OS_PINS_BYTES);
    park_drop(c);
    c->lane = c->pins = NULL;
}

struct sh_lane *sh_lane_find(const struct sh *sh, uint64_t lane)
{
    return mt_map_ptr(&sh->lanes, mt_map_key(lane));
}

mt_status sh_lane_new(struct sh *sh, uint64_t lane)
{
    struct sh_lane *l = calloc(1, sizeof *l);
    mt_status       st;
    if (!l)
        return mt_error(MT_ENOMEM, 0, "lane");
    MT_TRY_GOTO(st, sh_memory_make("manta-lane", LANE_BYTES, &l->fd, &l->memory), err_free);
    MT_TRY_GOTO(st, mt_vec_push(&sh->new_lanes, lane), err_drop);
    MT_TRY_GOTO(st, mt_map_put_ptr(&sh->lanes, mt_map_key(lane), l), err_drop);
    return mt_ok();
err_drop:
    drop(&l->fd, l->memory, LANE_BYTES);
err_free:
    free(l);
    return st;
}

void sh_lanes_given(struct sh *sh)
{
    for (size_t i = 0; i < sh->new_lanes.count; i++) {
        struct sh_lane *l = sh_lane_find(sh, sh->new_lanes.data[i]);
        if (l)
            close_fd(&l->fd);
    }
    sh->new_lanes.count = 0;
}

void sh_lane_free(struct sh *sh, uint64_t lane)
{
    struct sh_lane *l = sh_lane_find(sh, lane);
    if (!l)
        return;
    mt_map_remove(&sh->lanes, mt_map_key(lane));
    drop(&l->fd, l->memory, LANE_BYTES);
    free(l);
}

mt_status sh_region_new(struct sh *sh, uint64_t number, uint64_t size)
{
    struct sh_region *region = calloc(1, sizeof *region);
    mt_status         st;
    if (!region)
        return mt_error(MT_ENOMEM, 0, "region");
    MT_TRY_GOTO(st, os_memory_create("manta-region", size, &region->fd, NULL), err_free);
    MT_TRY_GOTO(st, mt_map_put_ptr(&sh->regions, mt_map_key(number), region), err_close);
    return mt_ok();
err_close:
    close(region->fd);
err_free:
    free(region);
    return st;
}

void sh_region_free(struct sh *sh, uint64_t number)
{
    struct sh_region *region = mt_map_ptr(&sh->regions, mt_map_key(number));
    if (!region)
        return;
    mt_map_remove(&sh->regions, mt_map_key(number));
    close(region->fd);
    free(region);
}

int sh_fd_of(const struct sh *sh, const struct rlt_fd *fd)
{
    struct sh_lane   *lane;
    struct sh_conn   *conn;
    struct sh_region *region;
    switch (fd->kind) {
    case RLT_FD_LANE: return (lane = sh_lane_find(sh, fd->number)) ? lane->fd : -1;
    case RLT_FD_PARK: return (conn = sh_conn_find(sh, fd->number)) ? sh_park_fd(conn) : -1;
    case RLT_FD_SWITCH_PARK: return sh_switcher_park_fd(sh);
    case RLT_FD_REGION: return (region = mt_map_ptr(&sh->regions, mt_map_key(fd->number))) ? region->fd : -1;
    default: return -1;
    }
}

void sh_memory_fini(struct sh *sh)
{
    MT_MAP_EACH(&sh->lanes, lane)
        sh_lane_free(sh, lane->key.counter_index);
    MT_MAP_EACH(&sh->regions, region)
        sh_region_free(sh, region->key.counter_index);
    mt_map_fini(&sh->lanes);
    mt_vec_fini(&sh->new_lanes);
    mt_map_fini(&sh->regions);
    if (sh->parks) {
        sh->parks->used = sh->parks->count; /* there is no next process */
        parks_free_if_over(sh, sh->parks);
    }
}

/* ---- strict actors ---- */

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Between the two clocks lies the time that the machine has slept: it only makes the lease shorter. */
void sh_strict(struct sh *sh, const struct rlt_a_strict *a)
{
    struct sh_conn *c = sh_conn_find(sh, a->conn);
    uint64_t        mono = clock_ns(CLOCK_MONOTONIC), boot = clock_ns(CLOCK_BOOTTIME);
    if (!c || !c->park || (a->until != UINT64_MAX && a->until <= mono))
        return; /* it came too late */
    uint64_t until = a->until == UINT64_MAX ? INT64_MAX : boot + (a->until - mono);
    uint64_t armed = shm_load64_acquire(&c->park->strict_armed);
    shm_store64_release(&c->park->strict_until, until);
    if (armed && armed <= boot) /* its timer has stopped it. One that stops it right now is seen by the next extension */
        (void)sh_conn_signal(c, SIGCONT);
}
