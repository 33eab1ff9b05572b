/* SPDX-License-Identifier: Apache-2.0
 *
 * list.c - placement groups for people: one row each, with filters.
 */

#include "scheduler/head/core/groups/internal.h"

#include "core/ds/rows.h"
#include "core/text/near.h"

#include <inttypes.h>
#include <stdarg.h>

static const char *const strategies[] = {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD", NULL};

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

enum shown { SHOWN_PENDING, SHOWN_INFEASIBLE, SHOWN_CREATED, SHOWN_RESCHEDULING };
static const char *const shown[] = {"PENDING", "INFEASIBLE", "CREATED", "RESCHEDULING", NULL};

static enum shown shown_of(const struct group *g)
{
    if (head_bundles_are_placed(g))
        return SHOWN_CREATED;
    for (uint32_t i = 0; i < g->bundle_count; i++)
        if (g->bundles[i].state == BUNDLE_COMMITTED)
            return SHOWN_RESCHEDULING;
    return g->why[0] ? SHOWN_INFEASIBLE : SHOWN_PENDING;
}

static const char *const yes_no[] = {"yes", "no", NULL};

enum { COLUMNS = 9 };
static const char *const columns[COLUMNS] = {"group",    "name", "namespace", "strategy", "state",
                                             "detached", "job",  "bundles",   "reason"};

/* Those that have a few words only; NULL: any. */
static const char *const *const words_of[COLUMNS] = {[3] = strategies, [4] = shown, [5] = yes_no};

/* "column=value" or "column!=value": the column, or -1: neither, or no such column. */
static int filter_column(const char *filter, const char **out_value, bool *out_is_not)
{
    const char *equals = strchr(filter, '=');
    bool        is_not = equals && equals > filter && equals[-1] == '!';
    size_t      size = equals ? (size_t)(equals - filter) - is_not : 0;
    *out_value = equals ? equals + 1 : filter;
    *out_is_not = is_not;
    for (int i = 0; i < COLUMNS && equals; i++)
        if (strlen(columns[i]) == size && strncmp(columns[i], filter, size) == 0)
            return i;
    return -1;
}

/* False: what is wrong with a filter is in `text`. */
static bool filters_check(const Manta__V1__QueryRequest *request, char text[HEAD_TEXT_SIZE])
{
    char        known[200];
    const char *value;
    bool        is_not;
    for (size_t i = 0; i < request->n_filters; i++) {
        int column = filter_column(request->filters[i], &value, &is_not);
        if (column >= 0 && (!words_of[column] || mt_word_is_of(value, words_of[column], known, sizeof known)))
            continue;
        if (column < 0)
            snprintf(text, HEAD_TEXT_SIZE,
                     "the filter \"%.200s\" is no column=value or column!=value with a column of placement groups",
                     request->filters[i]);
        else
            snprintf(text, HEAD_TEXT_SIZE, "filter: no %s of placement groups is \"%.60s\"; %s", columns[column], value, known);
        return false;
    }
    return true;
}

static void row_add(struct head *h, const struct group *g, const Manta__V1__QueryRequest *request, struct mt_rows *rows)
{
    char        space[HEAD_NAME_SIZE], job[24], bundles[4096];
    const char *name, *value;
    bool        is_shown = true, is_not;
    head_groups_split_name(g, space, &name);
    snprintf(job, sizeof job, "%016" PRIx64, g->job);
    describe_bundles(h, g, bundles, sizeof bundles);
    const char *texts[COLUMNS] = {g->key,
                                  name,
                                  name[0] ? (space[0] ? space : "default") : "",
                                  strategies[g->strategy],
                                  shown[shown_of(g)],
                                  yes_no[!g->is_detached],
                                  job,
                                  bundles,
                                  g->why};
    for (size_t i = 0; i < request->n_filters; i++) {
        const char *text = texts[filter_column(request->filters[i], &value, &is_not)];
        is_shown &= (strcmp(text, value) == 0) != is_not;
    }
    if (is_shown)
        HEAD_TRY(h, mt_rows_add(rows, COLUMNS, texts, SIZE_MAX));
}

void head_groups_list(struct head *h, uint64_t call, const Manta__V1__QueryRequest *request)
{
    Manta__V1__QueryReply reply = MANTA__V1__QUERY_REPLY__INIT;
    struct mt_rows        rows = {0};
    char                  text[HEAD_TEXT_SIZE];
    bool                  is_good = filters_check(request, text);
    for (const struct head_index_node *at = h->groups.first; at && is_good; at = at->next) {
        if (rows.bytes.size > MT_HEAD_LIST_BYTES_MAX - 8192 || (request->limit && rows.count >= request->limit)) {
            snprintf(text, sizeof text, "only the first %u placement groups are here", rows.count);
            reply.notice = text;
            break;
        }
        row_add(h, mt_container_of(at, struct group, at), request, &rows);
    }
    if (!is_good) {
        reply.code = MT_EINVAL;
        reply.text = text;
    }
    reply.columns = (char **)(uintptr_t)columns;
    reply.n_columns = COLUMNS;
    reply.rows = (ProtobufCBinaryData){rows.bytes.size, rows.bytes.data};
    reply.count = rows.count;
    head_out_reply(h, call, HEAD_QUERY, &reply.base);
    mt_rows_fini(&rows);
}
