/* SPDX-License-Identifier: Apache-2.0
 *
 * list.c - placement groups for people: one row each, with filters.
 */

#include "scheduler/head/core/groups/internal.h"

#include "core/ds/rows.h"

#include <inttypes.h>
#include <stdarg.h>

static const char *const strategies[] = {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"};

static void text_append(char *out, size_t room, size_t *at, const char *format, ...) MT_PRINTF(4, 5);

static void text_append(char *out, size_t room, size_t *at, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(out + *at, room - *at, format, args);
    va_end(args);
    *at = n < 0 ? *at : *at + (size_t)n < room ? *at + (size_t)n : room - 1;
}

/* "{CPU: 1}@2 {CPU: 0.5, GPU: 1}@-": what each bundle reserves, and on which node. */
static void describe_bundles(const struct head *h, const struct group *g, char *out, size_t room)
{
    size_t at = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < g->bundle_count; i++) {
        const struct bundle *b = &g->bundles[i];
        text_append(out, room, &at, "%s{", i ? " " : "");
        for (uint32_t k = 0; k < b->request.amount_count; k++) {
            const char *name = h->kinds.data[b->request.amounts[k].kind];
            double      scale = strcmp(name, "memory") == 0 ? 1 : 1000;
            text_append(out, room, &at, "%s%s: %.10g", k ? ", " : "", name, (double)b->request.amounts[k].amount / scale);
        }
        if (b->node)
            text_append(out, room, &at, "}@%u", b->node);
        else
            text_append(out, room, &at, "}@-");
    }
}

static const char *state_text(const struct group *g)
{
    if (head_bundles_are_placed(g))
        return "CREATED";
    for (uint32_t i = 0; i < g->bundle_count; i++)
        if (g->bundles[i].state == BUNDLE_COMMITTED)
            return "RESCHEDULING";
    return g->why[0] ? "INFEASIBLE" : "PENDING";
}

enum { COLUMNS = 9 };
static const char *const columns[COLUMNS] = {"group",    "name", "namespace", "strategy", "state",
                                             "detached", "job",  "bundles",   "reason"};

/* "column=value" or "column!=value". -1: neither, or no such column. */
static int filter_holds(const char *filter, const char *const texts[COLUMNS])
{
    const char *equals = strchr(filter, '=');
    bool        is_not = equals && equals > filter && equals[-1] == '!';
    size_t      size = equals ? (size_t)(equals - filter) - is_not : 0;
    for (int i = 0; i < COLUMNS && equals; i++)
        if (strlen(columns[i]) == size && strncmp(columns[i], filter, size) == 0)
            return (strcmp(texts[i], equals + 1) == 0) != is_not;
    return -1;
}

/* False: a filter can't be read, and `wrong` is it. */
static bool row_add(struct head *h, const struct group *g, const Manta__V1__QueryRequest *request, struct mt_rows *rows,
                    const char **wrong)
{
    char        space[HEAD_NAME_SIZE], job[24], bundles[4096];
    const char *name;
    bool        is_shown = true;
    head_groups_split_name(g, space, &name);
    snprintf(job, sizeof job, "%016" PRIx64, g->job);
    describe_bundles(h, g, bundles, sizeof bundles);
    const char *texts[COLUMNS] = {g->key,
                                  name,
                                  name[0] ? (space[0] ? space : "default") : "",
                                  strategies[g->strategy],
                                  state_text(g),
                                  g->is_detached ? "yes" : "no",
                                  job,
                                  bundles,
                                  g->why};
    for (size_t i = 0; i < request->n_filters; i++) {
        int holds = filter_holds(request->filters[i], texts);
        if (holds < 0) {
            *wrong = request->filters[i];
            return false;
        }
        is_shown &= holds;
    }
    if (is_shown)
        HEAD_TRY(h, mt_rows_add(rows, COLUMNS, texts, SIZE_MAX));
    return true;
}

void head_groups_list(struct head *h, uint64_t call, const Manta__V1__QueryRequest *request)
{
    Manta__V1__QueryReply reply = MANTA__V1__QUERY_REPLY__INIT;
    struct mt_rows        rows = {0};
    const char           *wrong = NULL;
    char                  text[HEAD_TEXT_SIZE];
    for (const struct head_index_node *at = h->groups.first; at && !wrong; at = at->next) {
        if (rows.bytes.size > MT_HEAD_LIST_BYTES_MAX - 8192 || (request->limit && rows.count >= request->limit)) {
            snprintf(text, sizeof text, "only the first %u placement groups are here", rows.count);
            reply.notice = text;
            break;
        }
        row_add(h, mt_container_of(at, struct group, at), request, &rows, &wrong);
    }
    if (wrong) {
        snprintf(text, sizeof text, "the filter \"%.200s\" is no column=value or column!=value with a column of placement groups",
                 wrong);
        reply.code = MT_EINVAL;
        reply.text = text;
        mt_rows_fini(&rows);
    }
    reply.columns = (char **)(uintptr_t)columns;
    reply.n_columns = COLUMNS;
    reply.rows = (ProtobufCBinaryData){rows.bytes.size, rows.bytes.data};
    reply.count = rows.count;
    head_out_reply(h, call, HEAD_QUERY, &reply.base);
    mt_rows_fini(&rows);
}
