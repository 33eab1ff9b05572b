/* SPDX-License-Identifier: Apache-2.0
 *
 * list.c - what clients ask of accounts.
 */
#include "scheduler/head/core/account/account.h"
#include "scheduler/head/core/account/private.h"

#include <stdlib.h>

#define DAY_MS (UINT64_C(24) * 3600 * 1000)

struct list { /* rows as they are gathered; each owns nothing */
    MT_VEC(Manta__V1__AccountRow) rows;
    MT_VEC(struct spent) sums;
};

static void put(struct head *h, struct list *l, const struct account *a, uint64_t day_ms, const struct spent *spent)
{
    Manta__V1__AccountRow row = MANTA__V1__ACCOUNT_ROW__INIT;
    row.user = (char *)(uintptr_t)a->user;
    row.day_ms = day_ms;
    HEAD_TRY(h, mt_vec_push(&l->rows, row));
    HEAD_TRY(h, mt_vec_push(&l->sums, *spent));
}

static void list_account(struct head *h, const Manta__V1__AccountRequest *request, const struct account *a, struct list *out)
{
    struct spent sum = {0};
    bool         is_any = false;
    for (size_t i = 0; i < a->days.count; i++) {
        const struct account_day *day = &a->days.data[i];
        if (day->day < request->since_ms / DAY_MS)
            continue;
        is_any = true;
        if (request->by_day)
            put(h, out, a, day->day * DAY_MS, &day->spent);
        sum.cpu_us += day->spent.cpu_us;
        sum.gpu_us += day->spent.gpu_us;
        sum.memory_mib_ms += day->spent.memory_mib_ms;
        sum.cost_micro += day->spent.cost_micro;
    }
    if (!request->by_day && is_any)
        put(h, out, a, 0, request->since_ms ? &sum : &a->spent);
}

void head_account_call(struct head *h, uint64_t call, const Manta__V1__AccountRequest *request)
{
    Manta__V1__AccountReply reply = MANTA__V1__ACCOUNT_REPLY__INIT;
    struct list             list = {0};
    for (struct head_index_node *at = h->account.users.first; at; at = at->next) {
        const struct account *a = mt_container_of(at, struct account, at);
        if (!request->user[0] || strcmp(request->user, a->user) == 0)
            list_account(h, request, a, &list);
    }
    Manta__V1__Spent *sums = calloc(list.sums.count + 1, sizeof *sums);
    reply.rows = calloc(list.rows.count + 1, sizeof(Manta__V1__AccountRow *));
    for (size_t i = 0; sums && reply.rows && i < list.sums.count; i++) {
        head_account_fill(&list.sums.data[i], &sums[i]);
        list.rows.data[i].spent = &sums[i];
        reply.rows[reply.n_rows++] = &list.rows.data[i];
    }
    if (sums && reply.rows)
        head_out_reply(h, call, HEAD_ACCOUNT, &reply.base);
    else
        head_broken(h, mt_error(MT_ENOMEM, 0, "list accounts"));
    free(sums);
    free(reply.rows);
    mt_vec_fini(&list.rows);
    mt_vec_fini(&list.sums);
}
