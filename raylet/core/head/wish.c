/* SPDX-License-Identifier: Apache-2.0
 *
 * wish.c - what processes of this node would use beyond what they have: kept as long as they live, and told to the head.
 *
 * Owns: each process's wishes. Thread: the logic loop only.
 */
#include "raylet/core/head/head.h"
#include "raylet/core/head/private.h"

#include "core/text/labels.h"

#include <stdio.h>

/* Where the one of that name stands; the count of all: there is none. */
static size_t find(const struct rlt_proc *p, const char *name)
{
    size_t at = 0;
    while (at < p->wishes.count && strcmp(p->wishes.data[at].asked.name, name) != 0)
        at++;
    return at;
}

static void put(struct rlt *r, struct rlt_proc *p, const struct ctl_wish *wish)
{
    size_t at = find(p, wish->name);
    bool   is_there = at < p->wishes.count;
    if (is_there ? memcmp(&p->wishes.data[at].asked, wish, sizeof *wish) == 0 : wish->count == 0)
        return;
    if (wish->count == 0)
        mt_vec_remove(&p->wishes, at);
    else if (is_there)
        p->wishes.data[at].asked = *wish;
    else if (mt_vec_push(&p->wishes, ((struct rlt_wish){.asked = *wish})).code)
        rlt_out_of_memory();
    r->head.wish_changes++;
    r->is_dirty = true;
}

void rlt_wish(struct rlt *r, struct rlt_proc *p, const struct lane_record *record, const uint8_t *payload)
{
    struct ctl_wish wish;
    char            text[CTL_TEXT_SIZE] = "no such request";
    int32_t         code = MT_EINVAL;
    if (record->length < LANE_RECORD_SIZE + sizeof(struct ctl_request) + sizeof wish) {
        rlt_down_reply(r->out, p->conn, record->id, code, text);
        return;
    }
    memcpy(&wish, payload + sizeof(struct ctl_request), sizeof wish);
    wish.name[sizeof wish.name - 1] = wish.labels[sizeof wish.labels - 1] = '\0';
    if (wish.resource_count <= CTL_RESOURCES && find(p, wish.name) < MT_RLT_WISHES_MAX)
        code = mt_selector_check(wish.labels, text, sizeof text).code;
    else
        snprintf(text, sizeof text, "a process has %d wishes at most, of %d kinds of resource each", MT_RLT_WISHES_MAX,
                 CTL_RESOURCES);
    if (code == MT_OK)
        code = rlt_request_check(wish.resources, wish.resource_count, text, sizeof text).code;
    if (code == MT_OK)
        put(r, p, &wish);
    rlt_down_reply(r->out, p->conn, record->id, code, code ? text : "");
}

/* How it stands, by what the head said last. */
void rlt_wish_look(struct rlt *r, const struct rlt_proc *p, const struct lane_record *record, const uint8_t *payload)
{
    struct ctl_wish      wish;
    struct ctl_wish_news news = {0};
    if (record->length < LANE_RECORD_SIZE + sizeof(struct ctl_request) + sizeof wish) {
        rlt_down_reply(r->out, p->conn, record->id, MT_EINVAL, "no such request");
        return;
    }
    memcpy(&wish, payload + sizeof(struct ctl_request), sizeof wish);
    wish.name[sizeof wish.name - 1] = '\0';
    size_t at = find(p, wish.name);
    if (at < p->wishes.count)
        news = p->wishes.data[at].news;
    struct ctl_wish_news *kept = rlt_keep(r->out, &news, sizeof news);
    rlt_reply_bytes(r, p->conn, record->id, kept, sizeof news);
}

void rlt_wish_news(struct rlt *r, const Manta__V1__WishNews *said)
{
    MT_MAP_EACH(&r->conns, entry) {
        struct rlt_proc *p = entry->value.ptr;
        size_t           at = p->process == said->owner ? find(p, said->name) : p->wishes.count;
        if (at >= p->wishes.count)
            continue;
        struct ctl_wish_news *news = &p->wishes.data[at].news;
        *news = (struct ctl_wish_news){.stands = said->stands};
        snprintf(news->text, sizeof news->text, "%s", said->text);
    }
}

static Manta__V1__Wish *wish_make(struct rlt *r, const struct rlt_proc *p, const struct ctl_wish *wish)
{
    static const Manta__V1__Wish empty = MANTA__V1__WISH__INIT;
    Manta__V1__Wish             *w = rlt_keep(r->out, &empty, sizeof empty);
    w->owner = p->process;
    w->name = rlt_keep_text(r, wish->name);
    w->count = wish->count;
    w->worth_milli = wish->worth_milli;
    w->labels = rlt_keep_text(r, wish->labels);
    w->n_resources = wish->resource_count;
    w->resources = rlt_resources_make(r, wish->resources, wish->resource_count);
    return w;
}

void rlt_wishes_report(struct rlt *r, Manta__V1__Report *report)
{
    size_t count = 0;
    MT_MAP_EACH(&r->conns, entry)
        count += ((const struct rlt_proc *)entry->value.ptr)->wishes.count;
    if (count == 0)
        return;
    report->wishes = rlt_keep(r->out, NULL, count * sizeof *report->wishes);
    MT_MAP_EACH(&r->conns, entry) {
        const struct rlt_proc *p = entry->value.ptr;
        for (size_t i = 0; i < p->wishes.count; i++)
            report->wishes[report->n_wishes++] = wish_make(r, p, &p->wishes.data[i].asked);
    }
}
