/* SPDX-License-Identifier: Apache-2.0
 *
 * quota.c - processes that want room while their job has its quota of the object store: they wait for the job's own
 * values to go, and nobody waits for them.
 *
 * Owns: who waits. Thread: the loop only.
 * Always: each is answered once: with a segment, or after MT_ROOM_MS with what the job has (request.c serves them).
 */
#include "core/base/limits/object.h"
#include "raylet/store/private.h"
#include "raylet/store/quota.h"

#include "objectstore/server/store.h"
#include "raylet/core/kit/list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct name_search {
    uint64_t process;
    char     name[CTL_NAME_SIZE];
};

static void take_name(void *user, const struct rlt_proc_view *view)
{
    struct name_search *search = user;
    if (view->process == search->process)
        snprintf(search->name, sizeof search->name, "%s", view->program);
}

void sh_quota_refuse(struct sh *sh, const struct sh_conn *c, mt_id request, const char *text)
{
    struct name_search search = {.process = c->process};
    char               full[OS_TEXT_SIZE + 2 * CTL_NAME_SIZE];
    rlt_each_proc(sh->core, take_name, &search);
    snprintf(full, sizeof full, "job \"%s\" has its share of the object store: %s", search.name, text);
    sh_store_refuse(sh, c->conn, request, mt_error(MT_ESTORE_FULL, EDQUOT, "object store: quota of the job"), full);
}

void sh_quota_end(struct sh_quotas *q, struct quota_waiter *w)
{
    rlt_list_out(&w->link);
    q->count--;
    free(w);
}

void sh_quota_wait(struct sh *sh, struct sh_conn *c, mt_id request, uint64_t size, const char *text)
{
    struct sh_quotas    *q = sh->quotas;
    struct quota_waiter *w = q->count < MT_SPILL_WAITERS_MAX && size <= sh->options.job_bytes ? calloc(1, sizeof *w) : NULL;
    if (!w) {
        sh_quota_refuse(sh, c, request, text);
        return;
    }
    w->conn = c->conn;
    w->request = request;
    w->size = size;
    w->since_ms = io_now_ms();
    rlt_list_init(&w->link);
    rlt_list_append(&q->waiters, &w->link);
    if (q->count++ == 0)
        io_timer_start(sh->loop, &q->timer, MT_SPILL_LOOK_MS);
    sh_store_ask_back(sh, c->job);
}

void sh_quota_conn_gone(struct sh *sh, uint64_t conn)
{
    if (!sh->quotas)
        return;
    RLT_LIST_EACH(&sh->quotas->waiters, link) {
        struct quota_waiter *w = mt_container_of(link, struct quota_waiter, link);
        if (w->conn == conn)
            sh_quota_end(sh->quotas, w);
    }
}

mt_status sh_quotas_start(struct sh *sh)
{
    sh->quotas = calloc(1, sizeof *sh->quotas);
    if (!sh->quotas)
        return mt_error(MT_ENOMEM, 0, "quotas");
    sh->quotas->sh = sh;
    rlt_list_init(&sh->quotas->waiters);
    return mt_ok();
}

void sh_quotas_stop(struct sh *sh)
{
    if (!sh->quotas)
        return;
    io_timer_stop(&sh->quotas->timer);
    RLT_LIST_EACH(&sh->quotas->waiters, link)
        sh_quota_end(sh->quotas, mt_container_of(link, struct quota_waiter, link));
    free(sh->quotas);
    sh->quotas = NULL;
}
