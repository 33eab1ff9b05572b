/* SPDX-License-Identifier: Apache-2.0
 *
 * quota.c - processes that want room while their job has its quota of the object store: they wait for the job's own
 * values to go, and nobody waits for them.
 *
 * Owns: who waits. Thread: the loop only.
 * Always: each is answered once: with a segment, or after MT_ROOM_MS with what the job has.
 */
#include "core/base/limits.h"
#include "raylet/store/private.h"

#include "objectstore/server/store.h"
#include "raylet/core/list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { ASK_MS = 200 };

struct quota_waiter {
    struct rlt_list link;
    uint64_t        conn;
    mt_id           request;
    uint64_t        size;
    uint64_t        since_ms;
};

struct sh_quotas {
    struct sh      *sh;
    struct rlt_list waiters; /* longest wait first */
    uint32_t        count;
    uint64_t        asked_ms; /* when writers were last asked for what is empty */
    struct io_timer timer;    /* while somebody waits */
};

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

static void refuse(struct sh *sh, const struct sh_conn *c, mt_id request, const char *text)
{
    struct name_search search = {.process = c->process};
    char               full[OS_TEXT_SIZE + 2 * CTL_NAME_SIZE];
    rlt_each_proc(sh->core, take_name, &search);
    snprintf(full, sizeof full, "job \"%s\" has its share of the object store: %s", search.name, text);
    sh_store_refuse(sh, c->conn, request, mt_error(MT_ESTORE_FULL, EDQUOT, "object store: quota of the job"), full);
}

static void waiter_end(struct sh_quotas *q, struct quota_waiter *w)
{
    rlt_list_out(&w->link);
    q->count--;
    free(w);
}

static void look(struct io_timer *timer)
{
    struct sh_quotas *q = mt_container_of(timer, struct sh_quotas, timer);
    uint64_t          now = io_now_ms();
    bool              asks = now - q->asked_ms >= ASK_MS;
    sh_store_settle(q->sh);
    q->asked_ms = asks ? now : q->asked_ms;
    RLT_LIST_EACH(&q->waiters, link) {
        struct quota_waiter *w = mt_container_of(link, struct quota_waiter, link);
        struct sh_conn      *c = sh_conn_find(q->sh, w->conn);
        char                 text[OS_TEXT_SIZE] = "";
        mt_status            st = sh_store_want_now(q->sh, w->conn, w->request, w->size, text);
        bool                 is_quota = st.code == MT_ESTORE_FULL && st.sys == EDQUOT;
        if (is_quota && now - w->since_ms < MT_ROOM_MS) {
            if (asks && c)
                sh_store_ask_back(q->sh, c->job);
            continue;
        }
        if (is_quota && c)
            refuse(q->sh, c, w->request, text);
        else if (st.code == MT_ESTORE_FULL && c)
            sh_store_want(q->sh, c, w->request, w->size); /* it is the store that is full now: it waits with all others */
        else if (st.code)
            sh_store_refuse(q->sh, w->conn, w->request, st, text);
        waiter_end(q, w);
    }
    if (q->count)
        io_timer_start(q->sh->loop, &q->timer, MT_SPILL_LOOK_MS);
}

static struct sh_quotas *quotas_of(struct sh *sh)
{
    if (!sh->quotas && (sh->quotas = calloc(1, sizeof *sh->quotas))) {
        sh->quotas->sh = sh;
        sh->quotas->timer.fire = look;
        rlt_list_init(&sh->quotas->waiters);
    }
    return sh->quotas;
}

void sh_quota_wait(struct sh *sh, struct sh_conn *c, mt_id request, uint64_t size, const char *text)
{
    struct sh_quotas    *q = quotas_of(sh);
    struct quota_waiter *w = q && q->count < MT_SPILL_WAITERS_MAX && size <= sh->options.job_bytes ? calloc(1, sizeof *w) : NULL;
    if (!w) {
        refuse(sh, c, request, text);
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
            waiter_end(sh->quotas, w);
    }
}

void sh_quotas_stop(struct sh *sh)
{
    if (!sh->quotas)
        return;
    io_timer_stop(&sh->quotas->timer);
    RLT_LIST_EACH(&sh->quotas->waiters, link)
        waiter_end(sh->quotas, mt_container_of(link, struct quota_waiter, link));
    free(sh->quotas);
    sh->quotas = NULL;
}
