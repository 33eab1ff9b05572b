/* SPDX-License-Identifier: Apache-2.0
 *
 * ground.c - the queue of events for the core, and the memory that they point to.
 *
 * Owns: sh->posted, sh->kept. Thread: the loop only.
 * Always: events leave the queue in the order of their posts; what was kept goes only when the queue is empty.
 */
#include "raylet/shell/ground/ground.h"

#include "core/base/rng.h"

#include <stdio.h>
#include <stdlib.h>

void sh_post(struct sh *sh, const struct rlt_event *event)
{
    if (!sh->is_exiting && mt_vec_push(&sh->posted, *event).code)
        abort();
}

static void kept_free(struct sh *sh)
{
    for (size_t i = 0; i < sh->kept.count; i++)
        sh->kept.data[i].release(sh->kept.data[i].memory);
    sh->kept.count = 0;
}

bool sh_take(struct sh *sh, struct rlt_event *out)
{
    MT_ASSERT(sh->taken <= sh->posted.count);
    if (sh->taken < sh->posted.count) {
        *out = sh->posted.data[sh->taken++];
        return true;
    }
    sh->posted.count = sh->taken = 0;
    kept_free(sh);
    return false;
}

bool sh_folder_file(const struct sh *sh, const char *name, char *out, size_t size)
{
    return sh->options.dir && snprintf(out, size, "%s/%s", sh->options.dir, name) < (int)size;
}

void *sh_keep(struct sh *sh, size_t size)
{
    void *memory = malloc(size);
    if (memory && mt_vec_push(&sh->kept, ((struct sh_kept){memory, free})).code) {
        free(memory);
        memory = NULL;
    }
    return memory;
}

void sh_keep_this(struct sh *sh, void *take_memory, void (*release)(void *memory))
{
    if (mt_vec_push(&sh->kept, ((struct sh_kept){take_memory, release})).code)
        abort(); /* an event that points to it may be in the queue */
}

const char *sh_keep_text(struct sh *sh, const char *text)
{
    size_t size = strlen(text) + 1;
    char  *kept = sh_keep(sh, size);
    if (!kept)
        abort();
    return memcpy(kept, text, size);
}

const char *sh_keep_lack(struct sh *sh, mt_status st)
{
    char text[128];
    snprintf(text, sizeof text, "%s%s%s", st.what, st.sys ? ": " : "", st.sys ? strerrordesc_np(st.sys) : "");
    return sh_keep_text(sh, text);
}

void sh_lacks(struct sh *sh, uint64_t conn, mt_status st)
{
    struct rlt_event e;
    sh_event(&e, RLT_EV_CLOSED);
    e.closed.conn = conn;
    e.closed.lacked = sh_keep_lack(sh, st);
    sh_post(sh, &e);
}

void sh_queue_fini(struct sh *sh)
{
    kept_free(sh);
    mt_vec_fini(&sh->posted);
    mt_vec_fini(&sh->kept);
}

static_assert((int)LANE_LOOK_COLUMNS <= (int)MT_ROWS_COLUMNS_MAX, "a row has room for what is told");

mt_status sh_row_add(const struct lane_look *look, const char *const *cells, struct mt_rows *rows)
{
    enum lane_look_kind kind = (enum lane_look_kind)look->kind;
    if (look->filter_count && !lane_look_shows(look, cells))
        return mt_ok();
    return mt_rows_add(rows, lane_look_column_count(kind), cells, lane_look_cell_max(kind));
}

mt_status sh_random(struct sh *sh, uint64_t *out)
{
    (void)sh;
    return mt_random_bytes(out, sizeof *out);
}
