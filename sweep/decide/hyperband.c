/* SPDX-License-Identifier: Apache-2.0
 *
 * hyperband.c - HyperBand (Li et al., JMLR 2018) as Ray Tune has it: synchronous brackets, filled one after the other.
 *
 * With S = round(log_eta max_t) + 1, a band has brackets s = 0 ... S - 1 of n0 = ceil(S / (s + 1) eta^s) trials, which first run to
 * r0 = floor(max_t eta^-s). A trial that has reached the milestone pauses. When the bracket is full and all of it have paused (or
 * ended), the best ceil(n / eta) go on to the next milestone, eta times as far, and the others are dropped; after s such halvings
 * whoever reaches max_t is stopped. Where no new trials come, a bracket that is not full goes on with what it has.
 *
 * (Tune's last milestone is min(eta r, max_t - r), 54 of 81, by a slip; here it is max_t, as in the paper.)
 *
 *   bracket:  FILLING --full, or no more supply--> CLOSED --all have paused--> (halving) ... --no halving left--> last stretch
 *
 * Owns:    the brackets.
 * Thread:  one at a time.
 */
#include "sweep/decide/private.h"

#include <math.h>

struct bracket {
    uint32_t halves; /* still to come */
    uint32_t band;
    double   capacity;  /* n0 */
    double   survivors; /* n */
    double   milestone;
    double   total_work, done_work;
    uint32_t added;
    bool     is_closed;
    MT_VEC(uint32_t) live; /* members */
};

struct hyperband {
    MT_VEC(struct bracket) brackets;
    MT_VEC(uint32_t) doomed; /* members that may be paused still */
    uint32_t next_s, band;
};

static mt_status hyperband_init(struct swp_scheduler *s, struct swp_problem *out_problem)
{
    (void)out_problem;
    s->model = calloc(1, sizeof(struct hyperband));
    return s->model ? mt_ok() : mt_error(MT_ENOMEM, 0, "sweep: HyperBand");
}

static void hyperband_fini(struct swp_scheduler *s)
{
    struct hyperband *h = s->model;
    for (size_t i = 0; i < h->brackets.count; i++)
        mt_vec_fini(&h->brackets.data[i].live);
    mt_vec_fini(&h->brackets);
    mt_vec_fini(&h->doomed);
    free(h);
}

/* ---- brackets ---- */

static mt_status open_bracket(struct swp_scheduler *s)
{
    struct hyperband *h = s->model;
    double            eta = s->opts.eta, brackets = nearbyint(log(s->opts.max_t) / log(eta)) + 1;
    struct bracket    b = {.band = h->band, .halves = h->next_s};
    b.capacity = b.survivors = ceil(brackets / (h->next_s + 1) * pow(eta, h->next_s) - 1e-9);
    b.milestone = floor(s->opts.max_t * pow(eta, -(double)h->next_s) + 1e-9);
    double n = b.capacity, r = b.milestone;
    for (uint32_t i = 0; i <= h->next_s; i++, n = ceil(n / eta), r = fmin(r * eta, s->opts.max_t))
        b.total_work += n * r;
    MT_TRY(mt_vec_push(&h->brackets, b));
    h->next_s++;
    if (h->next_s >= brackets || s->opts.max_t * pow(eta, -(double)h->next_s) < 1 - 1e-9) {
        h->next_s = 0;
        h->band++;
    }
    return mt_ok();
}

static mt_status hyperband_added(struct swp_scheduler *s, struct swp_member *m, const struct swp_point *point)
{
    struct hyperband *h = s->model;
    (void)point;
    if (h->brackets.count == 0 || h->brackets.data[h->brackets.count - 1].is_closed)
        MT_TRY(open_bracket(s));
    struct bracket *b = &h->brackets.data[h->brackets.count - 1];
    MT_TRY(mt_vec_reserve(&h->doomed, s->members.count - h->doomed.count)); /* so that dooming can't fail */
    MT_TRY(mt_vec_push(&b->live, (uint32_t)(m - s->members.data)));
    m->bracket = (uint32_t)(h->brackets.count - 1);
    b->is_closed = ++b->added >= b->capacity;
    return mt_ok();
}

static bool all_wait(const struct swp_scheduler *s, const struct bracket *b)
{
    for (size_t i = 0; i < b->live.count; i++)
        if (!s->members.data[b->live.data[i]].waits)
            return false;
    return b->live.count > 0;
}

/* Puts the best in front: few, and in the order in which they were added among equals. */
static void sort_live(const struct swp_scheduler *s, struct bracket *b)
{
    for (size_t i = 1; i < b->live.count; i++) {
        uint32_t one = b->live.data[i];
        size_t   k = i;
        for (; k > 0 && s->members.data[b->live.data[k - 1]].value > s->members.data[one].value; k--)
            b->live.data[k] = b->live.data[k - 1];
        b->live.data[k] = one;
    }
}

static void halve(struct swp_scheduler *s, struct bracket *b)
{
    struct hyperband *h = s->model;
    b->halves--;
    b->survivors = ceil(b->survivors / s->opts.eta - 1e-9);
    b->milestone = fmin(floor(b->milestone * s->opts.eta + 1e-9), s->opts.max_t);
    if (b->halves == 0)
        b->milestone = s->opts.runs_on ? INFINITY : s->opts.max_t;
    sort_live(s, b);
    while ((double)b->live.count > b->survivors) {
        uint32_t last = b->live.data[--b->live.count];
        s->members.data[last].doomed = true;
        h->doomed.data[h->doomed.count++] = last;
    }
    for (size_t i = 0; i < b->live.count; i++)
        s->members.data[b->live.data[i]].waits = s->members.data[b->live.data[i]].t >= b->milestone;
}

/* Halves as often as everybody has come as far. */
static void process(struct swp_scheduler *s, struct bracket *b)
{
    while (b->is_closed && b->halves > 0 && all_wait(s, b))
        halve(s, b);
}

/* ---- events ---- */

static mt_status hyperband_report(struct swp_scheduler *s, struct swp_member *m, struct swp_verdict *out_verdict)
{
    struct bracket *b = &((struct hyperband *)s->model)->brackets.data[m->bracket];
    b->done_work = fmin(b->done_work + 1, b->total_work); /* reports stand for work: steps are mostly one apart */
    if (!m->doomed && m->t >= b->milestone && b->halves > 0) {
        m->waits = true;
        process(s, b);
    }
    bool is_over = m->doomed || (b->halves == 0 && m->t >= b->milestone);
    out_verdict->decision = is_over ? SWP_STOP : m->waits ? SWP_PAUSE : SWP_CONTINUE;
    return mt_ok();
}

static double hyperband_next_t(const struct swp_scheduler *s, const struct swp_member *m)
{
    return m->doomed ? 0 : ((struct hyperband *)s->model)->brackets.data[m->bracket].milestone;
}

static void take_out(uint32_t *data, size_t *count, uint32_t member)
{
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++)
        if (data[i] != member)
            data[kept++] = data[i];
    *count = kept;
}

static void hyperband_ended(struct swp_scheduler *s, struct swp_member *m)
{
    struct hyperband *h = s->model;
    struct bracket   *b = &h->brackets.data[m->bracket];
    take_out(h->doomed.data, &h->doomed.count, (uint32_t)(m - s->members.data));
    take_out(b->live.data, &b->live.count, (uint32_t)(m - s->members.data));
    process(s, b);
}

/* The last bracket goes on with what it has; what comes later opens another. */
static void hyperband_supplied(struct swp_scheduler *s)
{
    struct hyperband *h = s->model;
    if (s->has_supply || h->brackets.count == 0)
        return;
    struct bracket *b = &h->brackets.data[h->brackets.count - 1];
    if (!b->is_closed)
        b->survivors = b->added;
    b->is_closed = true;
    process(s, b);
}

/* Who may go on: of the earliest band, of its least advanced bracket. */
static const struct swp_member *find_resumable(const struct swp_scheduler *s)
{
    const struct hyperband  *h = s->model;
    const struct swp_member *found = NULL;
    uint32_t                 band = 0;
    double                   share = INFINITY;
    for (size_t i = 0; i < h->brackets.count; i++) {
        const struct bracket *b = &h->brackets.data[i];
        if ((found && b->band > band) || b->done_work / b->total_work >= share)
            continue;
        for (size_t k = 0; k < b->live.count; k++) {
            const struct swp_member *m = &s->members.data[b->live.data[k]];
            if (m->state != SWP_MEMBER_PAUSED || m->waits)
                continue;
            found = m;
            band = b->band;
            share = b->done_work / b->total_work;
            break;
        }
    }
    return found;
}

static struct swp_action hyperband_next(const struct swp_scheduler *s, bool has_place)
{
    const struct hyperband *h = s->model;
    for (size_t i = 0; i < h->doomed.count; i++) {
        const struct swp_member *m = &s->members.data[h->doomed.data[i]];
        if (m->state == SWP_MEMBER_PAUSED)
            return swp_action_of(SWP_DROP, m->trial);
    }
    const struct swp_member *m = has_place ? find_resumable(s) : NULL;
    return m ? swp_action_of(SWP_RESUME, m->trial) : swp_start_or_wait(s, has_place);
}

const struct swp_policy swp_hyperband_policy = {
    .needs_saves = true,
    .init = hyperband_init,
    .fini = hyperband_fini,
    .added = hyperband_added,
    .report = hyperband_report,
    .next_t = hyperband_next_t,
    .next = hyperband_next,
    .ended = hyperband_ended,
    .supplied = hyperband_supplied,
};
