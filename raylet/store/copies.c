/* SPDX-License-Identifier: Apache-2.0
 *
 * copies.c - copies here of values of other nodes: when each was last asked for, and which goes.
 *
 * Owns: struct sh_copies. Thread: the loop only.
 * Always: a copy goes when nobody has asked for it in a while, and when the store is full. None goes by age while some node is
 * suspect: if it is dead, the copies of what it had are what is left.
 */
#include "core/base/limits/object.h"
#include "core/base/plant.h"
#include "raylet/store/private.h"

#include <stdlib.h>

struct sh_copies {
    struct sh      *sh;
    mt_map          all;   /* object id -> when it was last asked for, in ms */
    struct io_timer timer; /* looks at them */
};

void sh_copy_used(struct sh *sh, mt_id id)
{
    struct sh_copies *p = sh->copies;
    if (mt_map_put_num(&p->all, id, io_now_ms()).code)
        (void)os_store_copy_dead(sh_store_of(p->sh), id).code; /* nobody would ever give it up */
    else if (!io_timer_is_started(&p->timer))
        io_timer_start(p->sh->loop, &p->timer, MT_SEGMENT_WARM_MS);
}

mt_status sh_copy_keep(struct sh *sh, mt_id id)
{
    MT_TRY(os_store_copy_keep(sh_store_of(sh), id, !MT_PLANT(MT_PLANT_ADOPT_AGES)));
    if (!MT_PLANT(MT_PLANT_ADOPT_AGES))
        mt_map_remove(&sh->copies->all, id);
    return mt_ok();
}

void sh_copy_ages(struct sh *sh, mt_id id)
{
    if (os_store_copy_keep(sh_store_of(sh), id, false).code == 0)
        sh_copy_used(sh, id);
}

static void copies_drop(struct sh_copies *p, uint64_t unused_ms)
{
    uint64_t now = io_now_ms();
    MT_MAP_EACH(&p->all, entry) {
        if (now - entry->value.num < unused_ms)
            continue;
        if (!MT_PLANT(MT_PLANT_COPY_STAYS))
            (void)os_store_copy_dead(sh_store_of(p->sh), entry->key).code; /* it may be gone already */
        mt_map_remove(&p->all, entry->key);
    }
    sh_store_settle(p->sh);
}

static void look_at_copies(struct io_timer *timer)
{
    struct sh_copies *p = mt_container_of(timer, struct sh_copies, timer);
    if (!rlt_some_node_is_suspect(p->sh->core))
        copies_drop(p, MT_SEGMENT_WARM_MS);
    if (p->all.count)
        io_timer_start(p->sh->loop, &p->timer, MT_SEGMENT_WARM_MS);
}

void sh_copies_shed(struct sh *sh)
{
    if (sh->copies)
        copies_drop(sh->copies, 0);
}

void sh_copy_forget(struct sh *sh, mt_id id)
{
    (void)os_store_copy_dead(sh_store_of(sh), id).code;
    mt_map_remove(&sh->copies->all, id);
    sh_store_settle(sh);
}

mt_status sh_copies_start(struct sh *sh)
{
    sh->copies = calloc(1, sizeof *sh->copies);
    if (!sh->copies)
        return mt_error(MT_ENOMEM, 0, "copies");
    sh->copies->sh = sh;
    sh->copies->timer.fire = look_at_copies;
    return mt_ok();
}

void sh_copies_stop(struct sh *sh)
{
    if (!sh->copies)
        return;
    io_timer_stop(&sh->copies->timer);
    mt_map_fini(&sh->copies->all);
    free(sh->copies);
    sh->copies = NULL;
}
