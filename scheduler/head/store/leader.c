/* SPDX-License-Identifier: Apache-2.0
 *
 * leader.c - see leader.h.
 *
 *                      .---- APPLY or KEEP ----> OK: done
 *   nothing begun ---->|  ^        |
 *   a commit begun     |  |        |  EMPTY, BROKEN; OLDER or BEHIND at a commit of the window
 *                      |  |        v
 *                      |  '-- OK, MOVED -- REWRITE (all records as of the last commit that is done)
 *                      '--> FENCED: somebody else leads   STOPPED: what stands there is nobody's that we know
 */
#include "scheduler/head/store/leader.h"

#include "core/base/hash.h"
#include "core/base/plant.h"

static bool is_begun(const struct head_leader *l)
{
    return l->next.seq != 0;
}

static void window_add(struct head_leader *l, const struct head_position *at)
{
    uint64_t slot = at->seq % HEAD_WINDOW;
    l->window[slot].seq = at->seq;
    l->window[slot].digest = at->digest;
}

static bool window_has(const struct head_leader *l, const struct head_position *at)
{
    uint64_t slot = at->seq % HEAD_WINDOW;
    return at->seq >= l->window_first && at->seq <= l->at.seq && l->window[slot].seq == at->seq &&
           l->window[slot].digest == at->digest;
}

static bool is_at(const struct head_position *a, const struct head_position *b)
{
    return a->fence == b->fence && a->run == b->run && a->seq == b->seq && a->digest == b->digest;
}

mt_status head_leader_init(struct head_leader *l, const struct head_said *said)
{
    *l = (struct head_leader){.at = said->at, .window_first = said->at.seq};
    memcpy(l->cluster, said->cluster, sizeof l->cluster);
    l->window = calloc(HEAD_WINDOW, sizeof *l->window);
    if (!l->window)
        return mt_error(MT_ENOMEM, 0, "lead a store");
    window_add(l, &l->at);
    return mt_ok();
}

void head_leader_past(struct head_leader *l, uint64_t seq, uint64_t digest)
{
    if (seq >= l->at.seq || l->at.seq - seq >= HEAD_WINDOW)
        return;
    window_add(l, &(struct head_position){.seq = seq, .digest = digest});
    if (seq < l->window_first)
        l->window_first = seq;
}

static void changes_free(struct head_leader *l)
{
    for (struct head_item *item = l->changes, *next; item; item = next) {
        next = item->next;
        free(item);
    }
    l->changes = NULL;
}

void head_leader_fini(struct head_leader *l)
{
    changes_free(l);
    head_shelf_fini(&l->shelf);
    free(l->window);
    l->window = NULL;
}

/* In order: a record may be changed twice in one commit. */
static mt_status changes_pack(struct head_leader *l, const struct head_record *const *records, size_t count)
{
    struct head_item **end = &l->changes;
    for (size_t i = 0; i < count; i++) {
        *end = head_item_pack(records[i]);
        if (!*end) {
            changes_free(l);
            return mt_error(MT_ENOMEM, 0, "pack a commit");
        }
        end = &(*end)->next;
    }
    return mt_ok();
}

mt_status head_leader_begin(struct head_leader *l, const struct head_record *const *records, size_t count)
{
    if (is_begun(l))
        return mt_ok();
    MT_TRY(head_shelf_reserve(&l->shelf, (uint32_t)count));
    MT_TRY(changes_pack(l, records, count));
    uint64_t digest = mt_hash_mix(l->at.digest, l->at.seq + 1);
    for (const struct head_item *item = l->changes; item; item = item->next) {
        digest = mt_hash_bytes(mt_hash_mix(digest, item->field.size), item->field.data, item->field.size);
        digest = mt_hash_bytes(mt_hash_mix(digest, item->value.size + item->is_dropped), item->value.data, item->value.size);
    }
    l->next = (struct head_position){l->at.fence, l->at.run, l->at.seq + 1, digest};
    return mt_ok();
}

void head_leader_ask(const struct head_leader *l, struct head_ask *out)
{
    *out = (struct head_ask){.kind = HEAD_ASK_KEEP, .cluster = l->cluster, .place = l->place, .at = l->at, .was = l->at};
    if (l->is_rewriting) {
        out->kind = HEAD_ASK_REWRITE;
        out->was = l->seen;
        out->all = &l->shelf;
    } else if (is_begun(l)) {
        out->kind = HEAD_ASK_APPLY;
        out->at = l->next;
        out->changes = l->changes;
    }
}

static void commit_done(struct head_leader *l)
{
    for (struct head_item *item = l->changes, *next; item; item = next) {
        next = item->next;
        head_shelf_take(&l->shelf, item);
    }
    l->changes = NULL;
    l->at = l->next;
    l->next = (struct head_position){0};
    window_add(l, &l->at);
    if (l->at.seq - l->window_first >= HEAD_WINDOW)
        l->window_first = l->at.seq - HEAD_WINDOW + 1;
}

static enum head_verdict rewrite(struct head_leader *l, const struct head_position *seen)
{
    l->is_rewriting = true;
    l->seen = *seen;
    return HEAD_AGAIN;
}

/* It stands elsewhere than at our last commit. What it has forgotten of ours it is given again; anything else was not our doing. */
static enum head_verdict elsewhere(struct head_leader *l, const struct head_said *said)
{
    if (MT_PLANT(MT_PLANT_STORE_FORGETS)) {
        if (is_begun(l))
            commit_done(l);
        return HEAD_DONE;
    }
    return window_has(l, &said->at) || MT_PLANT(MT_PLANT_STORE_TAKES_ALL) ? rewrite(l, &said->at) : HEAD_STOPPED;
}

enum head_verdict head_leader_told(struct head_leader *l, const struct head_said *said)
{
    static const struct head_position nowhere = {0};
    switch (said->word) {
    case HEAD_WORD_OK:
        if (!is_at(&said->at, l->is_rewriting || !is_begun(l) ? &l->at : &l->next))
            return HEAD_AGAIN; /* that was no answer to what was asked */
        if (l->is_rewriting) {
            l->is_rewriting = false;
            l->rewritten++;
            if (MT_PLANT(MT_PLANT_STORE_REWRITTEN) && is_begun(l))
                commit_done(l);
            return is_begun(l) ? HEAD_AGAIN : HEAD_DONE;
        }
        if (is_begun(l))
            commit_done(l);
        return HEAD_DONE;
    case HEAD_WORD_EMPTY: return rewrite(l, &nowhere);
    case HEAD_WORD_BROKEN: return rewrite(l, &said->at);
    case HEAD_WORD_OLDER:
    case HEAD_WORD_BEHIND: return elsewhere(l, said);
    case HEAD_WORD_MOVED: l->is_rewriting = false; return HEAD_AGAIN; /* look anew */
    case HEAD_WORD_FENCED:
        if (MT_PLANT(MT_PLANT_LEADER_DEAF)) {
            if (is_begun(l))
                commit_done(l);
            return HEAD_DONE;
        }
        return HEAD_FENCED;
    case HEAD_WORD_NONE:
    case HEAD_WORD_FOREIGN:
    case HEAD_WORD_SCHEMA:
    case HEAD_WORD_OTHER:
    case HEAD_WORD_BUSY: break;
    }
    return HEAD_STOPPED;
}
