/* SPDX-License-Identifier: Apache-2.0
 *
 * room.c - room in the object store: how much there may be, and what is given up for it.
 *
 * Owns: nothing. Thread: the loop only.
 * Always: a want is refused only after what is kept only because it may be asked for again has gone.
 */
#include "objectstore/system/backing.h"
#include "raylet/store/spill.h"

#include <errno.h>

enum {
    ASK_MS = 100,               /* at most so often processes are asked for what is empty of their segments */
    CGROUP_RESERVE_PERCENT = 6, /* at least: values alone never make the node so short that tasks are stopped */
    CGROUP_RESERVE_MIB = 64,    /* kept free for everything that is not the store */
};

/* The figures of the group are read at most every OS_CGROUP_LOOK_MS, those of the segments with them: both of one moment. */
static void headroom(struct sh_store *s, struct os_headroom *room)
{
    struct os_segment_view view = {0};
    memset(room, 0, sizeof *room);
    room->reserve = (uint64_t)CGROUP_RESERVE_MIB << 20;
    if (os_cgroup_look(&s->group, "/sys/fs/cgroup", io_now_ms())) {
        s->resident = 0;
        if (s->group.limit != UINT64_MAX)
            while (os_store_next(s->store, view.segment, &view))
                s->resident += os_memory_resident(view.backing.data_ro);
    }
    room->limit = s->group.limit;
    room->usage = s->group.usage;
    room->resident = s->resident;
    if (room->limit != UINT64_MAX && room->reserve < room->limit / 100 * CGROUP_RESERVE_PERCENT)
        room->reserve = room->limit / 100 * CGROUP_RESERVE_PERCENT;
}

/* The store is full: what it keeps only because it may be asked for again goes. False: there was nothing. */
static bool shed(struct sh_store *s, uint64_t bytes)
{
    bool any = sh_spill_shed(s->sh, bytes);
    sh_copies_shed(s->sh);
    sh_store_trim(s, true);
    return any;
}

/* A process keeps some segments for what it writes next, and in a small store these may be all there is. */
static void ask_all(struct sh_store *s)
{
    uint64_t now = io_now_ms();
    if (s->asked_ms && now - s->asked_ms < ASK_MS)
        return;
    s->asked_ms = now;
    sh_store_ask_back(s->sh, 0);
}

mt_status sh_store_local_alloc(struct sh *sh, struct os_local *local, uint64_t size, struct os_place *place, void **data,
                               char *text)
{
    struct os_headroom room;
    mt_status          st;
    headroom(sh->store, &room);
    st = os_local_alloc(local, size, &room, place, data, text, &sh->store->actions);
    sh_store_carry_out(sh->store);
    for (bool any = true; st.code == MT_ESTORE_FULL && st.sys != EDQUOT && any;) {
        any = shed(sh->store, size);
        sh->store->group.at_ms = 0; /* what it has become by that */
        headroom(sh->store, &room);
        st = os_local_alloc(local, size, &room, place, data, text, &sh->store->actions);
        sh_store_carry_out(sh->store);
    }
    if (st.code == MT_ESTORE_FULL && st.sys != EDQUOT)
        ask_all(sh->store);
    return st;
}

static mt_status find_room(struct sh_store *s, uint64_t process, uint64_t size, struct os_grant *grant, char *text)
{
    struct os_headroom room;
    mt_status          st;
    headroom(s, &room);
    room.kept = sh_spill_kept(s->sh);
    st = os_store_want(s->store, process, size, &room, grant, text, &s->actions);
    sh_store_carry_out(s);
    for (bool any = true; st.code == MT_ESTORE_FULL && st.sys != EDQUOT && any;) {
        any = shed(s, size);
        s->group.at_ms = 0; /* what it has become by that */
        headroom(s, &room);
        room.kept = sh_spill_kept(s->sh);
        st = os_store_want(s->store, process, size, &room, grant, text, &s->actions);
        sh_store_carry_out(s);
    }
    if (st.code == MT_ESTORE_FULL && st.sys != EDQUOT)
        ask_all(s);
    return st;
}

mt_status sh_store_want_now(struct sh *sh, uint64_t conn, mt_id request, uint64_t size, char *text)
{
    struct sh_store       *s = sh->store;
    struct sh_conn        *c = sh_conn_find(sh, conn);
    struct os_grant        grant;
    struct os_backing      backing;
    struct os_segment_view view;
    if (!c)
        return mt_error(MT_ENOENT, 0, "its process is gone");
    MT_TRY(find_room(s, c->process, size, &grant, text));
    if (!grant.segment) {
        MT_TRY(os_backing_make(grant.create_size, &backing));
        mt_status st = os_store_add_segment(s->store, c->process, grant.create_size, &backing, &grant.segment);
        if (st.code) {
            os_backing_close(&backing, grant.create_size);
            return st;
        }
    }
    MT_TRY(os_store_segment(s->store, c->process, grant.segment, &view));
    sh_store_give(sh, conn, request, &view, true);
    return mt_ok();
}

/* Whether any room that can be made would be enough. */
bool sh_store_could_fit(const struct sh *sh, uint64_t size)
{
    struct os_stats stats;
    os_store_stats(sh_store_of(sh), &stats);
    return size <= stats.bytes_allowed;
}
