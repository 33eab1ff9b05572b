/* SPDX-License-Identifier: Apache-2.0
 *
 * groups.c - placement groups: the table, and what processes ask of it.
 *
 * Owns:    every struct group, and who waits for one.
 * Always:  a group is stored before anybody hears of it; one that is not in the table was removed; it goes with its job,
 *          unless it is detached. Where its bundles stand is bundles.c's.
 */
#include "scheduler/head/core/internal.h"

#include <inttypes.h>
#include <stdarg.h>

enum verb { GROUP_NEW = 1, GROUP_WAIT = 2, GROUP_FIND = 3, GROUP_REMOVE = 4 }; /* enum ctl_group_verb */
enum { NAME_SEPARATOR = 0x1f };
static const char *const strategies[] = {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"};

struct group *groups_find(const struct head *h, mt_id id)
{
    char                    key[MT_ID_TEXT_SIZE];
    struct head_index_node *at = head_index_find(&h->groups, mt_id_text(id, key));
    return at ? mt_container_of(at, struct group, at) : NULL;
}

enum { JOB_DIGITS = 16 }; /* in front of the name of a group that is its job's alone */

static void full_name(char *out, size_t size, uint64_t apart_job, const char *space, const char *name)
{
    if (apart_job)
        snprintf(out, size, "%016" PRIx64 "%s%c%s", apart_job, space, NAME_SEPARATOR, name);
    else
        snprintf(out, size, "%s%c%s", space, NAME_SEPARATOR, name);
}

static struct group *find_name(const struct head *h, uint64_t apart_job, const char *space, const char *name)
{
    char full[2 * MT_NAME_BYTES_MAX + JOB_DIGITS];
    full_name(full, sizeof full, apart_job, space, name);
    struct head_index_node *at = head_index_find(&h->group_names, full);
    return at ? mt_container_of(at, struct group, named) : NULL;
}

void groups_split_name(const struct group *g, char space[HEAD_NAME_SIZE], const char **out_name)
{
    const char *full = g->full_name ? g->full_name + (g->is_apart ? JOB_DIGITS : 0) : NULL;
    const char *end = full ? strchr(full, NAME_SEPARATOR) : NULL;
    snprintf(space, HEAD_NAME_SIZE, "%.*s", end ? (int)(end - full) : 0, end ? full : "");
    *out_name = end ? end + 1 : "";
}

void groups_name(const struct group *g, char *out, size_t size)
{
    char        space[HEAD_NAME_SIZE];
    const char *name;
    groups_split_name(g, space, &name);
    if (name[0])
        snprintf(out, size, "%s/%s", space[0] ? space : "default", name);
    else
        snprintf(out, size, "%s", g->key);
}

/* ---- the table ---- */

static void group_free(struct head *h, struct group *g)
{
    for (size_t i = 0; i < h->open_groups.count; i++)
        if (h->open_groups.data[i] == g) {
            mt_vec_remove(&h->open_groups, i);
            break;
        }
    head_index_remove(&h->groups, &g->at);
    if (g->full_name)
        head_index_remove(&h->group_names, &g->named);
    h->group_waits -= (uint32_t)g->waits.count;
    mt_vec_fini(&g->waits);
    free(g->full_name);
    free(g->bundles);
    free(g);
}

void groups_fini(struct head *h)
{
    while (h->groups.first)
        group_free(h, mt_container_of(h->groups.first, struct group, at));
    head_index_fini(&h->groups);
    head_index_fini(&h->group_names);
    mt_vec_fini(&h->open_groups);
    mt_recent_fini(&h->groups_over);
}

/* ENOMEM, and nothing is changed. */
static mt_status group_add(struct head *h, mt_id id, uint64_t apart_job, const char *space, const char *name, uint32_t bundle_count,
                           struct group **out_group)
{
    char          full[2 * MT_NAME_BYTES_MAX + JOB_DIGITS];
    struct group *g = calloc(1, sizeof *g);
    mt_status     st = mt_error(MT_ENOMEM, 0, "add a placement group");
    if (!g)
        return st;
    g->id = id;
    mt_id_text(id, g->key);
    g->bundles = calloc(bundle_count, sizeof *g->bundles);
    g->bundle_count = bundle_count;
    g->is_apart = apart_job != 0;
    full_name(full, sizeof full, apart_job, space, name);
    if (name[0])
        g->full_name = strdup(full);
    if (g->bundles && (g->full_name || !name[0]))
        st = head_index_add(&h->groups, &g->at, g->key);
    if (st.code == 0 && g->full_name && (st = head_index_add(&h->group_names, &g->named, g->full_name)).code != 0)
        head_index_remove(&h->groups, &g->at);
    if (st.code == 0) {
        *out_group = g;
        return st;
    }
    free(g->full_name);
    free(g->bundles);
    free(g);
    return st;
}

static bool is_over(const struct head *h, mt_id id)
{
    return mt_recent_find(&h->groups_over, id) != NULL;
}

static void remember_over(struct head *h, mt_id id)
{
    if (!is_over(h, id))
        mt_recent_put(&h->groups_over, id, 0);
}

void groups_remove(struct head *h, struct group *g, const char *why)
{
    char name[HEAD_TEXT_SIZE], text[HEAD_TEXT_SIZE];
    groups_name(g, name, sizeof name);
    snprintf(text, sizeof text, "placement group %.200s was removed: %.200s", name, why);
    mt_log(MT_LOG_INFO, "group_removed", "group=%s why=\"%s\"", name, why);
    h->count.group_removed++;
    records_drop_group(h, g->id);
    groups_answer_waits(h, g, MT_EPG_REMOVED, text);
    bundles_return_all(h, g, text);
    remember_over(h, g->id);
    group_free(h, g);
}

/* ---- answers ---- */

static void send_reply(struct head *h, struct stream *s, mt_id request, int32_t code, const char *text, const struct group *g)
{
    Manta__V1__GroupReply answer = MANTA__V1__GROUP_REPLY__INIT;
    Manta__V1__Bundle     bundles[MT_GROUP_BUNDLES_MAX], *all[MT_GROUP_BUNDLES_MAX];
    resource              items[MT_GROUP_RESOURCES_MAX], *pointers[MT_GROUP_RESOURCES_MAX];
    to_node               message = MANTA__V1__HEAD_TO_NODE__INIT;
    char                  space[HEAD_NAME_SIZE];
    const char           *name;
    answer.id_process = request.process;
    answer.id_counter = request.counter_index;
    answer.code = code;
    answer.text = (char *)(uintptr_t)text;
    if (g) {
        records_fill_bundles(h, g, bundles, items, pointers);
        groups_split_name(g, space, &name);
        answer.group_process = g->id.process;
        answer.group_counter = g->id.counter_index;
        answer.space = space;
        answer.name = (char *)(uintptr_t)name;
        answer.strategy = g->strategy;
        answer.detached = g->is_detached;
        answer.ready = bundles_are_placed(g);
        for (uint32_t i = 0; i < g->bundle_count; i++)
            all[i] = &bundles[i];
        answer.bundles = all;
        answer.n_bundles = g->bundle_count;
    }
    message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_GROUP;
    message.group = &answer;
    out_send(h, s, &message, true);
}

void groups_answer_waits(struct head *h, struct group *g, int32_t code, const char *text)
{
    size_t kept = 0;
    for (size_t i = 0; i < g->waits.count; i++) {
        struct group_wait w = g->waits.data[i];
        struct stream    *s = mt_map_ptr(&h->streams, mt_map_key(w.stream));
        if (code == MT_ETIMEDOUT && w.due_ms > h->now_ms) {
            g->waits.data[kept++] = w;
            continue;
        }
        h->group_waits--;
        if (s)
            send_reply(h, s, w.request, code, text, NULL);
    }
    g->waits.count = kept;
}

/* ---- making one ---- */

static int32_t bundles_read(struct head *h, const Manta__V1__GroupRequest *r, struct bundle *out, char *text, size_t text_size)
{
    char   wrong[HEAD_TEXT_SIZE];
    size_t resources = 0;
    for (size_t i = 0; i < r->n_bundles; i++) {
        const Manta__V1__Bundle *b = r->bundles[i];
        if (resources_to_request(h, b->resources, b->n_resources, &out[i].request, wrong, sizeof wrong).code) {
            snprintf(text, text_size, "bundle %zu: %.400s", i + 1, wrong);
            return MT_EINVAL;
        }
        resources += out[i].request.amount_count;
        if (out[i].request.amount_count == 0) {
            snprintf(text, text_size, "bundle %zu is empty: it must reserve something", i + 1);
            return MT_EINVAL;
        }
    }
    if (resources <= MT_GROUP_RESOURCES_MAX)
        return MT_OK;
    snprintf(text, text_size, "the bundles name %zu amounts in all; at most %d", resources, MT_GROUP_RESOURCES_MAX);
    return MT_EINVAL;
}

/* 0: its groups and their names are for all jobs of the cluster. */
static uint64_t apart_of(const Manta__V1__GroupRequest *r)
{
    return r->apart ? r->job : 0;
}

/* What is refused stays so, also for a repeat that comes late: who asked has been told. */
static bool is_full(struct head *h, const Manta__V1__GroupRequest *r)
{
    mt_id          id = {r->group_process, r->group_counter};
    const int32_t *before = mt_recent_find(&h->groups_over, id);
    if (before)
        return *before == MT_EDISK_FULL;
    if (head_has_room(h, sizeof(struct group) + r->n_bundles * sizeof(struct bundle)))
        return false;
    mt_recent_put(&h->groups_over, id, MT_EDISK_FULL);
    return true;
}

static int32_t check_new(struct head *h, const Manta__V1__GroupRequest *r, char *text, size_t text_size)
{
    const struct node *n = nodes_find(h, r->job_node);
    if (r->n_bundles == 0 || r->n_bundles > MT_GROUP_BUNDLES_MAX) {
        snprintf(text, text_size, "a placement group has 1 to %d bundles, not %zu", MT_GROUP_BUNDLES_MAX, r->n_bundles);
        return MT_EINVAL;
    }
    if (r->strategy > POLICY_GROUP_STRICT_SPREAD || !names_text_is_fine(r->space, true) || !names_text_is_fine(r->name, true)) {
        snprintf(text, text_size, "strategy %u, name %.64s: no such strategy, or a name that can't be", r->strategy, r->name);
        return MT_EINVAL;
    }
    if (is_full(h, r)) {
        snprintf(text, text_size, "%s", HEAD_FULL_TEXT);
        return MT_EDISK_FULL;
    }
    if (is_over(h, (mt_id){r->group_process, r->group_counter}) || (!r->detached && names_is_gone(h, r->job)) ||
        (!r->detached && (!n || n->place.state == POLICY_DEAD || n->epoch != r->job_epoch))) {
        snprintf(text, text_size, "its job has ended, or it was removed already");
        return MT_EPG_REMOVED;
    }
    if (r->apart && r->detached) {
        snprintf(text, text_size,
                 "each job has a user of its own here (--job-users): a detached placement group would be nobody's "
                 "once its job has ended");
        return MT_EUNSUPPORTED;
    }
    if (r->name[0] && find_name(h, apart_of(r), r->space, r->name)) {
        snprintf(text, text_size,
                 "the name %.64s (namespace %.64s) is another placement group's: choose another name, or find "
                 "that one",
                 r->name, r->space);
        return MT_EEXIST;
    }
    if (h->groups.count >= MT_HEAD_GROUPS_MAX) {
        snprintf(text, text_size, "the cluster holds %d placement groups already: remove some", MT_HEAD_GROUPS_MAX);
        return MT_EAGAIN;
    }
    return MT_OK;
}

static int32_t make(struct head *h, const Manta__V1__GroupRequest *r, char *text, size_t text_size)
{
    struct group *g;
    mt_id         id = {r->group_process, r->group_counter};
    if (groups_find(h, id))
        return MT_OK; /* said twice */
    int32_t code = check_new(h, r, text, text_size);
    if (code != MT_OK)
        return code;
    mt_status st = group_add(h, id, apart_of(r), r->space, r->name, (uint32_t)r->n_bundles, &g);
    if (st.code != 0) {
        head_broken(h, st);
        return st.code;
    }
    code = bundles_read(h, r, g->bundles, text, text_size);
    if (code != MT_OK) {
        group_free(h, g);
        return code;
    }
    g->job = r->job;
    g->job_node = r->job_node;
    g->is_detached = r->detached;
    g->strategy = (enum policy_strategy)r->strategy;
    g->order = h->next_order++;
    h->count.group_made++;
    records_put_group(h, g);
    bundles_open(h, g);
    return MT_OK;
}

/* ---- what is asked of one that is there ---- */

static void wait_for(struct head *h, struct stream *s, const Manta__V1__GroupRequest *r, struct group *g)
{
    struct group_wait w = {.request = {r->id_process, r->id_counter}, .stream = s->number};
    uint32_t          ms = r->wait_ms < MT_HEAD_WAIT_MS_MAX ? r->wait_ms : MT_HEAD_WAIT_MS_MAX;
    if (bundles_are_placed(g)) {
        send_reply(h, s, w.request, MT_OK, "", NULL);
    } else if (g->why[0]) {
        send_reply(h, s, w.request, MT_EUNSCHEDULABLE, g->why, NULL);
    } else if (h->group_waits >= MT_HEAD_GROUP_WAITS_MAX) {
        send_reply(h, s, w.request, MT_EAGAIN, "too many wait for placement groups already: ask again later", NULL);
    } else {
        w.due_ms = h->now_ms + ms;
        HEAD_TRY(h, mt_vec_push(&g->waits, w));
        h->group_waits++;
        bundles_open(h, g);
    }
}

/* Where jobs are apart, another's group is as if it were not there. */
static struct group *find_asked(struct head *h, const Manta__V1__GroupRequest *r)
{
    bool is_named = r->verb == GROUP_FIND && r->name[0];
    if (is_named && (!names_text_is_fine(r->space, true) || !names_text_is_fine(r->name, false)))
        return NULL;
    struct group *g = is_named ? find_name(h, apart_of(r), r->space, r->name)
                               : groups_find(h, (mt_id){r->group_process, r->group_counter});
    return g && (r->apart || g->is_apart) && g->job != r->job ? NULL : g;
}

static void no_such(struct head *h, struct stream *s, const Manta__V1__GroupRequest *r)
{
    char  text[HEAD_TEXT_SIZE];
    mt_id request = {r->id_process, r->id_counter};
    if (r->verb == GROUP_REMOVE) {
        send_reply(h, s, request, MT_OK, "", NULL);
    } else if (r->verb == GROUP_FIND && r->name[0]) {
        snprintf(text, sizeof text, "no placement group has the name %.64s (namespace %.64s); it may have been removed", r->name,
                 r->space);
        send_reply(h, s, request, MT_ENOENT, text, NULL);
    } else {
        send_reply(h, s, request, MT_EPG_REMOVED, "the placement group was removed, or its job has ended", NULL);
    }
}

void groups_request(struct head *h, struct stream *s, const Manta__V1__GroupRequest *r)
{
    char          text[HEAD_TEXT_SIZE] = "";
    mt_id         request = {r->id_process, r->id_counter};
    struct group *g = r->verb == GROUP_NEW ? NULL : find_asked(h, r);
    if (r->verb == GROUP_NEW) {
        int32_t code = make(h, r, text, sizeof text);
        send_reply(h, s, request, code, text, NULL);
    } else if (!g) {
        no_such(h, s, r);
    } else if (r->verb == GROUP_WAIT) {
        wait_for(h, s, r, g);
    } else if (r->verb == GROUP_FIND) {
        send_reply(h, s, request, MT_OK, "", g);
    } else if (r->verb == GROUP_REMOVE) {
        groups_remove(h, g, "on request");
        send_reply(h, s, request, MT_OK, "", NULL);
    } else {
        send_reply(h, s, request, MT_EUNSUPPORTED, "a request of a newer release", NULL);
    }
}

/* ---- ends ---- */

void groups_job_gone(struct head *h, uint64_t job)
{
    names_remember_gone(h, job);
    for (struct head_index_node *at = h->groups.first, *next; at; at = next) {
        struct group *g = mt_container_of(at, struct group, at);
        next = at->next;
        if (g->job == job && !g->is_detached)
            groups_remove(h, g, "its job has ended");
    }
}

void groups_node_lost(struct head *h, uint32_t node)
{
    for (struct head_index_node *at = h->groups.first, *next; at; at = next) {
        struct group *g = mt_container_of(at, struct group, at);
        next = at->next;
        if (g->job_node == node && !g->is_detached)
            groups_remove(h, g, "the node of its job's driver died");
        else
            bundles_lose(h, g, node);
    }
}

/* ---- the store's ---- */

mt_status groups_load(struct head *h, const Manta__Store__GroupRecord *r)
{
    static const mt_status  wrong = {.code = MT_ECORRUPT, .what = "the store holds a placement group that can't be"};
    Manta__V1__GroupRequest request = MANTA__V1__GROUP_REQUEST__INIT;
    char                    text[HEAD_TEXT_SIZE];
    struct group           *g;
    mt_id                   id = {r->process, r->counter};
    if (groups_find(h, id) || r->n_bundles == 0 || r->n_bundles > MT_GROUP_BUNDLES_MAX ||
        r->strategy > POLICY_GROUP_STRICT_SPREAD || !names_text_is_fine(r->space, true) || !names_text_is_fine(r->name, true) ||
        (r->name[0] && find_name(h, r->apart ? r->job : 0, r->space, r->name)))
        return wrong;
    MT_TRY(group_add(h, id, r->apart ? r->job : 0, r->space, r->name, (uint32_t)r->n_bundles, &g));
    request.bundles = r->bundles;
    request.n_bundles = r->n_bundles;
    if (bundles_read(h, &request, g->bundles, text, sizeof text) != MT_OK) {
        group_free(h, g);
        return wrong;
    }
    g->job = r->job;
    g->job_node = r->job_node;
    g->is_detached = r->detached;
    g->strategy = (enum policy_strategy)r->strategy;
    g->version = r->version;
    g->order = r->order;
    for (size_t i = 0; i < r->n_bundles; i++) {
        struct bundle *b = &g->bundles[i];
        b->node = r->bundles[i]->node;
        b->epoch = r->bundles[i]->epoch;
        b->version = r->bundles[i]->version;
        b->state = b->node == 0 ? BUNDLE_NONE : r->bundles[i]->committed ? BUNDLE_COMMITTED : BUNDLE_PREPARING;
        for (uint32_t k = 0; k < b->request.amount_count; k++)
            b->free[k] = b->request.amounts[k].amount;
    }
    if (r->order >= h->next_order)
        h->next_order = r->order + 1;
    bundles_open(h, g); /* what was half done is finished; what was decided is said again */
    return mt_ok();
}

/* ---- looking in ---- */

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
    if (bundles_are_placed(g))
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
static bool row_add(struct head *h, const struct group *g, const Manta__V1__QueryRequest *request, mt_buf *rows, uint32_t *count,
                    const char **wrong)
{
    char        space[HEAD_NAME_SIZE], job[24], bundles[4096];
    const char *name;
    bool        is_shown = true;
    groups_split_name(g, space, &name);
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
    for (size_t i = 0; i < COLUMNS && is_shown; i++)
        HEAD_TRY(h, mt_buf_append(rows, texts[i], strlen(texts[i]) + 1));
    *count += is_shown;
    return true;
}

void groups_list(struct head *h, uint64_t call, const Manta__V1__QueryRequest *request)
{
    Manta__V1__QueryReply reply = MANTA__V1__QUERY_REPLY__INIT;
    mt_buf                rows = {0};
    const char           *wrong = NULL;
    char                  text[HEAD_TEXT_SIZE];
    for (const struct head_index_node *at = h->groups.first; at && !wrong; at = at->next) {
        if (rows.size > MT_HEAD_LIST_BYTES_MAX - 8192 || (request->limit && reply.count >= request->limit)) {
            snprintf(text, sizeof text, "only the first %u placement groups are here", reply.count);
            reply.notice = text;
            break;
        }
        row_add(h, mt_container_of(at, struct group, at), request, &rows, &reply.count, &wrong);
    }
    if (wrong) {
        snprintf(text, sizeof text, "the filter \"%.200s\" is no column=value or column!=value with a column of placement groups",
                 wrong);
        reply.code = MT_EINVAL;
        reply.text = text;
        reply.count = 0;
        rows.size = 0;
    }
    reply.columns = (char **)(uintptr_t)columns;
    reply.n_columns = COLUMNS;
    reply.rows = (ProtobufCBinaryData){rows.size, rows.data};
    out_reply(h, call, HEAD_QUERY, &reply.base);
    mt_buf_fini(&rows);
}

uint64_t groups_hash(const struct head *h, uint64_t hash)
{
    for (const struct head_index_node *at = h->groups.first; at; at = at->next) {
        const struct group *g = mt_container_of(at, struct group, at);
        hash = (hash ^ g->id.counter_index ^ g->version) * 0x100000001b3u;
        for (uint32_t i = 0; i < g->bundle_count; i++)
            hash = (hash ^ ((uint64_t)g->bundles[i].state << 32 | g->bundles[i].node)) * 0x100000001b3u;
    }
    return hash;
}

static const char *check_bundle(const struct head *h, const struct bundle *b)
{
    const struct node *n = nodes_find(h, b->node);
    if ((b->state == BUNDLE_NONE) != (b->node == 0))
        return "a bundle stands nowhere and has a node, or the other way round";
    if (b->state != BUNDLE_NONE && (!n || n->place.state == POLICY_DEAD || n->epoch != b->epoch))
        return "a bundle stands on a dead node";
    return NULL;
}

const char *groups_check(const struct head *h)
{
    uint32_t waits = 0;
    for (const struct head_index_node *at = h->groups.first; at; at = at->next) {
        const struct group *g = mt_container_of(at, struct group, at);
        const char         *breach = NULL;
        bool                has_none = false, is_asking = false;
        waits += (uint32_t)g->waits.count;
        for (uint32_t i = 0; i < g->bundle_count && !breach; i++) {
            breach = check_bundle(h, &g->bundles[i]);
            has_none |= g->bundles[i].state == BUNDLE_NONE;
            is_asking |= g->bundles[i].state == BUNDLE_PREPARING || g->bundles[i].state == BUNDLE_PREPARED;
        }
        if (!breach && has_none && is_asking)
            breach = "part of a placement was given up, and part not";
        if (!breach && (has_none || is_asking) && !g->is_open)
            breach = "a placement group waits, and nobody looks at it";
        if (breach)
            return breach;
    }
    return waits == h->group_waits ? NULL : "the count of those who wait for groups is wrong";
}
