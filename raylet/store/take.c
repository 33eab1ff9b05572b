/* SPDX-License-Identifier: Apache-2.0
 *
 * take.c - values adopted here: of nodes that leave, which are fetched, and of nodes that are gone, where a copy is here. They are
 * kept, and their owners told.
 *
 * Owns: struct sh_takes. Thread: the loop only.
 * Always: who asks (the node that leaves; the owner's) is answered once for each time that it asks. What is answered with success
 * is kept here as any value is, and its owner knows so; what is answered otherwise goes by age, as a copy.
 *
 * The copy is kept before the owner hears of it, for from then on its readers come here. An owner that does not know the value
 * at its former place (it has let it go, or the word that the task has ended is still on its way) says EAGAIN.
 */
#include "raylet/store/adopt.h"

#include "core/base/machine.h"
#include "core/base/plant.h"

#include <stdlib.h>

enum { TAKES_MAX = 4096 };

/* NEW --asked--> FETCHING --the copy is here--> TELLING --its owner has answered--> OVER
 *                   '-----could not be had, its owner is gone------------------------> OVER
 *                                                TELLING --asked again--> TELLING */
enum take_state { TAKE_NEW = 0, TAKE_FETCHING = 1, TAKE_TELLING = 2, TAKE_OVER = 3 };
static const char *const state_names[] = {
    [TAKE_NEW] = "NEW", [TAKE_FETCHING] = "FETCHING", [TAKE_TELLING] = "TELLING", [TAKE_OVER] = "OVER"};
static const uint32_t          state_next[] = {[TAKE_NEW] = MT_STATE(TAKE_FETCHING),
                                               [TAKE_FETCHING] = MT_STATE(TAKE_TELLING) | MT_STATE(TAKE_OVER),
                                               [TAKE_TELLING] = MT_STATE(TAKE_TELLING) | MT_STATE(TAKE_OVER),
                                               [TAKE_OVER] = 0};
static const struct mt_machine machine = MT_MACHINE("value adopted", state_names, state_next);

struct take {
    enum take_state  state;
    uint32_t         asker;     /* the node that leaves; or its owner's, ... */
    bool             is_sought; /* ... since the value is lost: what is to be kept is a copy */
    struct ctl_moved word;
};

struct sh_takes {
    mt_map all; /* object id -> take */
};

static void take_set_state(struct take *t, enum take_state to)
{
    MT_TRANSITION(&machine, t->state, to);
    t->state = to;
}

static void say(struct sh *sh, uint32_t node, enum peer_kind kind, const struct ctl_moved *word, int32_t code)
{
    struct rlt_event e;
    sh_event(&e, RLT_EV_MOVED);
    e.moved.node = node;
    e.moved.kind = kind;
    e.moved.word = *word;
    e.moved.word.code = code;
    sh_post(sh, &e);
}

static struct take *take_of(const struct sh *sh, mt_id id)
{
    return sh->takes ? mt_map_ptr(&sh->takes->all, id) : NULL;
}

static void take_over(struct sh *sh, struct take *t, int32_t code)
{
    say(sh, t->asker, t->is_sought ? PEER_SOUGHT : PEER_ADOPTED, &t->word, code);
    take_set_state(t, TAKE_OVER);
    mt_map_remove(&sh->takes->all, t->word.from.id);
    free(t);
}

static void owner_tell(struct sh *sh, struct take *t)
{
    take_set_state(t, TAKE_TELLING);
    if (MT_PLANT(MT_PLANT_ADOPT_UNTOLD))
        take_over(sh, t, MT_OK);
    else
        say(sh, t->word.from.owner_node, PEER_MOVED, &t->word, MT_OK);
}

static void fetched(struct sh *sh, mt_id id, const struct lane_ref *here, mt_status st)
{
    struct take *t = take_of(sh, id);
    if (!t || t->state != TAKE_FETCHING)
        return;
    if (st.code == 0)
        st = sh_copy_keep(sh, id);
    if (st.code) {
        take_over(sh, t, st.code == MT_ENOENT ? MT_EAGAIN : st.code);
        return;
    }
    t->word.to = *here;
    owner_tell(sh, t);
}

static bool is_same_place(const struct lane_ref *a, const struct lane_ref *b)
{
    return a->node == b->node && a->segment == b->segment && a->offset == b->offset && a->generation == b->generation;
}

static struct take *take_new(struct sh *sh, uint32_t asker, const struct ctl_moved *word)
{
    struct take *t = NULL;
    if (!sh->takes)
        sh->takes = calloc(1, sizeof *sh->takes);
    if (sh->takes && sh->takes->all.count < TAKES_MAX)
        t = calloc(1, sizeof *t);
    if (!t || mt_map_put_ptr(&sh->takes->all, word->from.id, t).code) {
        free(t);
        return NULL;
    }
    t->asker = asker;
    t->word = *word;
    return t;
}

static void asked(struct sh *sh, uint32_t asker, const struct ctl_moved *word)
{
    struct take *t = take_of(sh, word->from.id);
    if (t && is_same_place(&t->word.from, &word->from)) {
        t->asker = asker;
        t->is_sought = false;
        if (t->state == TAKE_TELLING)
            owner_tell(sh, t);
        return;
    }
    if (sh_jobs_are_apart(sh) && !mt_map_find(&sh->store->jobs, mt_map_key(word->from.job))) {
        say(sh, asker, PEER_ADOPTED, word, MT_EWRONGJOB); /* nobody of its user could map what stands in memory of no job */
        return;
    }
    t = t ? NULL : take_new(sh, asker, word);
    if (!t) {
        say(sh, asker, PEER_ADOPTED, word, MT_EAGAIN);
        return;
    }
    take_set_state(t, TAKE_FETCHING);
    sh_pull_for(sh, &t->word.from, fetched); /* t may be gone after */
}

/* The value is lost: what is here of it becomes the value. */
static void sought(struct sh *sh, uint32_t asker, const struct ctl_moved *word)
{
    struct take    *t = take_of(sh, word->from.id);
    struct lane_ref here;
    bool is_here = os_store_copy_find(sh_store_of(sh), word->from.id, &here).code == 0 && here.attempt == word->from.attempt;
    if (t && is_same_place(&t->word.from, &word->from)) { /* its node was about to leave */
        t->asker = asker;
        t->is_sought = true;
        return;
    }
    t = t || !is_here ? NULL : take_new(sh, asker, word);
    if (!t) {
        say(sh, asker, PEER_SOUGHT, word, MT_ENOENT);
        return;
    }
    t->is_sought = true;
    take_set_state(t, TAKE_FETCHING);
    fetched(sh, word->from.id, &here, mt_ok());
}

static void heard(struct sh *sh, const struct ctl_moved *word)
{
    struct take *t = take_of(sh, word->from.id);
    if (!t || t->state != TAKE_TELLING || !is_same_place(&t->word.to, &word->to))
        return;
    if (word->code == MT_EAGAIN) {
        sh_copy_ages(sh, word->from.id);
    } else if (word->code) {
        (void)os_store_dead(sh_store_of(sh), 0, &t->word.to).code; /* it may have died with its owner already */
        sh_store_settle(sh);
    }
    take_over(sh, t, word->code);
}

void sh_take_heard(struct sh *sh, const struct rlt_moved *m)
{
    if (m->kind == PEER_ADOPT)
        asked(sh, m->node, &m->word);
    else if (m->kind == PEER_SEEK)
        sought(sh, m->node, &m->word);
    else
        heard(sh, &m->word);
}

void sh_take_owner_gone(struct sh *sh, uint64_t owner, uint32_t node)
{
    if (!sh->takes)
        return;
    MT_MAP_EACH(&sh->takes->all, entry) {
        struct take *t = entry->value.ptr;
        if ((owner && t->word.from.id.process == owner) || (node && t->word.from.owner_node == node))
            take_over(sh, t, MT_EOWNER_DIED);
    }
}

void sh_take_stop(struct sh *sh)
{
    if (!sh->takes)
        return;
    MT_MAP_EACH(&sh->takes->all, entry)
        free(entry->value.ptr);
    mt_map_fini(&sh->takes->all);
    free(sh->takes);
    sh->takes = NULL;
}
