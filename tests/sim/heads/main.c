/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - sim_heads: several heads over one store (scheduler/head/store: role.c, leader.c), on virtual time, with faults.
 *
 *   sim_heads [--seeds A-B] [--plant N]
 *
 * Heads are killed, stopped for up to 30 s, cut off from the store; their clocks run apart. Requests and answers are lost, late, or
 * arrive when another leads already. The store's server restarts, and forgets its last second. Leads are taken at every point
 * of that. Thread: one.
 *
 *   H1  what was acknowledged is in what each later leader loads
 *   H2  a lead has a fence of its own, higher than all before
 *   H3  what was acknowledged after another lead began is in the store
 *   H4  the lead is claimed only of one whose lock is gone, or whose process is
 *   H5  one that has stepped down does not lead next, as long as it leaves that to the others
 *   H6  when the faults end, one leads and acknowledges
 */
#include "core/base/limits/head.h"
#include "core/base/plant.h"
#include "core/base/rng.h"
#include "scheduler/head/store/leader.h"
#include "scheduler/head/store/role.h"
#include "tests/sim/twins/redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef MANTA_PLANTS
int mt_plant;
#endif

enum { HEADS = 3, END_MS = 60000, QUIET_MS = 40000, LIMIT_MS = 1000, COMMITS_MAX = 200000, FLYING = 64, COPIES = 16 };

struct flying { /* a request on its way, or an answer */
    bool              is_used, is_answer;
    int               head;
    uint64_t          number, due, life;
    struct head_ask   ask;
    struct head_shelf all;
    struct head_item *changes;
    struct head_said  said;
    struct head_shelf loaded;
    bool              is_short; /* something that was acknowledged is missing */
};

struct node {
    bool               is_alive, is_stopped, leads, is_loaded;
    uint64_t           until, life; /* dead or stopped until then; counts its processes */
    uint64_t           cut_until;   /* from the store */
    double             rate;
    struct head_role   role;
    struct head_leader leader;
    uint64_t           asked, deadline, next_ms; /* number of the request under way; 0: none */
    struct head_ask    ask;
    uint64_t           run, commit; /* number of the commit that is begun; 0: none */
    uint64_t           connected;   /* life of the leader that it is connected to, ... */
    int                connected_to;
    uint64_t           beat, gone_at, handed_at;
};

static struct sim {
    mt_rng            rng;
    uint64_t          seed, now;
    struct twin_redis server, copies[COPIES];
    struct twin_redis saved; /* what is restored then */
    uint64_t          copy_count, down_until, spared_until, restored_at;
    struct node       heads[HEADS];
    struct flying     flying[FLYING];
    uint64_t          next_number, next_commit, acknowledged_count, fence;
    bool              acknowledged[COMMITS_MAX];
    uint64_t          last_leads_by, last_fence, acknowledged_at, takeovers, claims, failovers, handed;
    const char       *broken;
} S;

static uint64_t below(uint64_t bound)
{
    return mt_rng_below(&S.rng, bound);
}

static bool chance(uint64_t one_in)
{
    return below(one_in) == 0;
}

static void breaks(const char *what)
{
    if (!S.broken)
        S.broken = what;
}

static uint64_t clock_of(const struct node *n)
{
    return 1000 + (uint64_t)((double)S.now * n->rate);
}

static int index_of(const struct node *n)
{
    return (int)(n - S.heads);
}

/* ---- copies ---- */

static struct head_item *item_copy(const struct head_item *from)
{
    struct head_item *copy = head_item_new(from->field, from->value);
    if (!copy)
        abort();
    copy->is_dropped = from->is_dropped;
    return copy;
}

static void shelf_copy(struct head_shelf *to, const struct head_shelf *from)
{
    head_shelf_fini(to);
    for (const struct head_item *item = NULL; (item = head_shelf_next(from, item));) {
        if (head_shelf_reserve(to, 1).code)
            abort();
        head_shelf_take(to, item_copy(item));
    }
}

static void flying_free(struct flying *f)
{
    for (struct head_item *item = f->changes, *next; item; item = next) {
        next = item->next;
        free(item);
    }
    head_shelf_fini(&f->all);
    head_shelf_fini(&f->loaded);
    memset(f, 0, sizeof *f);
}

static struct flying *flying_new(void)
{
    for (int i = 0; i < FLYING; i++)
        if (!S.flying[i].is_used) {
            S.flying[i].is_used = true;
            return &S.flying[i];
        }
    struct flying *f = &S.flying[below(FLYING)]; /* it is lost */
    flying_free(f);
    f->is_used = true;
    return f;
}

/* ---- what is acknowledged ---- */

static uint64_t number_at(mt_view field)
{
    uint64_t number = 0;
    memcpy(&number, field.data + 1, sizeof number);
    return number;
}

static bool shelf_has_acknowledged(const struct head_shelf *shelf)
{
    static bool has[COMMITS_MAX];
    uint64_t    count = 0;
    memset(has, 0, sizeof has);
    for (const struct head_item *item = NULL; (item = head_shelf_next(shelf, item));) {
        uint64_t number = number_at(item->field);
        if (number < COMMITS_MAX && S.acknowledged[number] && !has[number]) {
            has[number] = true;
            count++;
        }
    }
    return count == S.acknowledged_count;
}

static void acknowledge(struct node *n)
{
    if (!n->commit)
        return;
    S.acknowledged[n->commit] = true;
    S.acknowledged_count++;
    S.acknowledged_at = S.now;
    n->commit = 0;
    if (n->leader.at.fence < S.fence && S.now >= S.spared_until && !shelf_has_acknowledged(&S.server.records))
        breaks("H3: what a followed leader acknowledged is not in the store");
}

/* ---- a head ---- */

static void forget_process(struct node *n)
{
    if (n->leads)
        head_leader_fini(&n->leader);
    n->leads = n->is_loaded = false;
    n->asked = n->commit = n->connected = n->gone_at = 0;
}

static void begin_process(struct node *n)
{
    n->is_alive = true;
    n->is_stopped = false;
    n->life++;
    n->next_ms = 0;
    head_role_init(&n->role, false);
}

static void dies(struct node *n, uint64_t ms)
{
    uint64_t life = n->life;
    int      self = index_of(n);
    forget_process(n);
    n->is_alive = false;
    n->until = S.now + ms;
    for (int i = 0; i < HEADS; i++) /* its machine refuses those that were connected */
        if (S.heads[i].connected == life && S.heads[i].connected_to == self && S.heads[i].gone_at == 0)
            S.heads[i].gone_at = S.now + 1 + below(20);
}

static void send(struct node *n, const struct head_ask *ask)
{
    struct flying *f = flying_new();
    n->asked = f->number = ++S.next_number;
    n->ask = *ask;
    n->deadline = clock_of(n) + LIMIT_MS;
    f->head = index_of(n);
    f->life = n->life;
    f->ask = *ask;
    f->due = S.now + (chance(50) ? below(3000) : below(3));
    struct head_item **end = &f->changes;
    for (const struct head_item *item = ask->kind == HEAD_ASK_APPLY ? ask->changes : NULL; item; item = item->next) {
        *end = item_copy(item);
        end = &(*end)->next;
    }
    if (ask->kind == HEAD_ASK_REWRITE)
        shelf_copy(&f->all, ask->all);
    f->ask.changes = f->changes;
    f->ask.all = &f->all;
    f->ask.cluster = f->ask.new_cluster = "sim";
    if (S.now < n->cut_until || chance(200))
        flying_free(f); /* lost */
}

static void next_stand(struct node *n)
{
    struct head_ask ask = {.kind = HEAD_ASK_LOOK};
    if (n->role.state == HEAD_CLAIMING && !n->leads) {
        n->run = mt_rng_next(&S.rng) | 1;
        ask = (struct head_ask){
            .kind = HEAD_ASK_LEAD, .at = {.fence = n->role.fence, .run = n->run}, .was = {.run = n->role.gone_run}};
        S.claims++;
    } else if (n->role.state == HEAD_CLAIMING) {
        ask = (struct head_ask){.kind = HEAD_ASK_LOAD, .at = n->leader.at};
    }
    n->next_ms = clock_of(n) + MT_HEAD_STANDBY_LOOK_MS;
    send(n, &ask);
}

static void next_lead(struct node *n)
{
    struct head_ask ask;
    if (n->role.state == HEAD_HANDING && n->leader.next.seq == 0) {
        ask = (struct head_ask){.kind = HEAD_ASK_LEAVE, .at = n->leader.at};
        send(n, &ask);
        return;
    }
    if (n->leader.next.seq == 0 && S.next_commit + 1 < COMMITS_MAX && chance(3)) {
        uint64_t                  number = ++S.next_commit;
        struct head_record        record = {.table = HEAD_TABLE_JOBS,
                                            .key = (uint8_t *)&number,
                                            .key_size = sizeof number,
                                            .value = (uint8_t *)&number,
                                            .value_size = sizeof number};
        const struct head_record *list[] = {&record};
        if (head_leader_begin(&n->leader, list, 1).code)
            abort();
        n->commit = number;
    }
    head_leader_ask(&n->leader, &ask);
    n->next_ms = clock_of(n) + 1 + below(MT_HEAD_STORE_LOOK_MS / 10);
    send(n, &ask);
}

static void followed(struct node *n)
{
    if (n->role.state == HEAD_HANDING)
        n->handed_at = clock_of(n);
    head_role_followed(&n->role, n->run, clock_of(n));
    head_leader_fini(&n->leader);
    n->leads = n->is_loaded = false;
    n->commit = 0;
}

static void loaded(struct node *n, const struct flying *f)
{
    if (f->said.word != HEAD_WORD_OK) {
        head_leader_fini(&n->leader);
        n->leads = false;
        head_role_claimed(&n->role, false);
        return;
    }
    if (f->is_short)
        breaks("H1: a leader loads less than was acknowledged");
    shelf_copy(&n->leader.shelf, &f->loaded);
    for (int i = 0; i < HEAD_PAST; i++)
        if (S.server.past[i].seq)
            head_leader_past(&n->leader, S.server.past[i].seq, S.server.past[i].digest);
    n->is_loaded = true;
    head_role_claimed(&n->role, true);
    if (S.now > S.last_leads_by)
        S.takeovers++;
}

static void claimed(struct node *n, const struct head_said *said)
{
    bool is_ours = said->word == HEAD_WORD_OK && said->at.run == n->run;
    if (!is_ours) {
        head_role_claimed(&n->role, false);
        return;
    }
    if (n->role.handed_run != 0 && said->at.fence == S.last_fence + 1 && clock_of(n) < n->handed_at + MT_HEAD_HANDED_MS &&
        n->role.seen.at.run == n->role.handed_run)
        breaks("H5: one that has stepped down leads next");
    if (head_leader_init(&n->leader, said).code)
        abort();
    n->leads = true;
    S.last_fence = said->at.fence;
}

static void looked(struct node *n, const struct head_said *said)
{
    bool is_gone = n->role.gone_run != 0 && said->at.run == n->role.gone_run;
    if (!head_role_looked(&n->role, said, clock_of(n)))
        return;
    if (said->holder[0] && !is_gone)
        breaks("H4: a lead is claimed whose lock stands");
    n->next_ms = 0;
}

static void answered(struct node *n, const struct flying *f)
{
    n->asked = 0;
    switch (n->ask.kind) {
    case HEAD_ASK_LOOK: looked(n, &f->said); return;
    case HEAD_ASK_LEAD: claimed(n, &f->said); return;
    case HEAD_ASK_LOAD: loaded(n, f); return;
    case HEAD_ASK_LEAVE: followed(n); return;
    default: break;
    }
    enum head_verdict verdict = head_leader_told(&n->leader, &f->said);
    if (verdict == HEAD_DONE && n->leader.next.seq == 0)
        acknowledge(n);
    else if (verdict == HEAD_FENCED && n->role.state == HEAD_LEADING)
        followed(n);
    else if (verdict == HEAD_FENCED || verdict == HEAD_STOPPED)
        dies(n, 100);
}

/* To the leader of its last look, where that lives, runs and is in reach. */
static void connects(struct node *n)
{
    for (int i = 0; i < HEADS; i++) {
        struct node *l = &S.heads[i];
        if (l == n || !l->is_alive || l->is_stopped || !l->is_loaded || l->run != n->role.seen.at.run)
            continue;
        n->connected = l->life;
        n->connected_to = i;
    }
}

/* Beats come over the connection, as long as the leader's store says that it leads. */
static void hears(struct node *n)
{
    const struct node *l = &S.heads[n->connected_to];
    bool               is_there = n->connected && l->is_alive && !l->is_stopped && l->life == n->connected;
    if (is_there && l->role.state != HEAD_LEADING) {
        n->connected = 0;
        head_role_lost(&n->role);
    } else if (is_there && S.now >= l->cut_until && S.now % MT_HEAD_BEAT_MS == 0) {
        head_role_heard(&n->role, clock_of(n));
    }
}

static void runs(struct node *n)
{
    if (n->gone_at && S.now >= n->gone_at) {
        n->gone_at = n->connected = 0;
        head_role_lost(&n->role);
        head_role_gone(&n->role);
    }
    if (n->asked && clock_of(n) >= n->deadline) {
        n->asked = 0;
        if (n->ask.kind == HEAD_ASK_LEAVE)
            followed(n); /* the lock ends by itself */
        else if (n->ask.kind == HEAD_ASK_LEAD)
            head_role_claimed(&n->role, false);
        n->next_ms = 0;
    }
    if (n->role.state == HEAD_STANDBY) {
        connects(n);
        hears(n);
    }
    if (n->asked || clock_of(n) < n->next_ms)
        return;
    if (n->is_loaded)
        next_lead(n);
    else
        next_stand(n);
}

/* ---- the server ---- */

static void serve(struct flying *f)
{
    char was[64];
    snprintf(S.server.me, sizeof S.server.me, "head%d", f->head);
    snprintf(was, sizeof was, "%s", S.server.holder);
    S.server.now = S.now;
    struct head_position before = S.server.at;
    twin_redis_do(&S.server, &f->ask, &f->said);
    if (f->ask.kind == HEAD_ASK_LEAD && f->said.word == HEAD_WORD_OK && before.run != S.server.at.run) {
        if (S.server.at.fence <= S.fence && S.failovers == 0)
            breaks("H2: two leads have the same fence");
        S.fence = S.server.at.fence;
    }
    if (f->ask.kind == HEAD_ASK_LOAD && f->said.word == HEAD_WORD_OK) {
        shelf_copy(&f->loaded, &S.server.records);
        f->is_short = !shelf_has_acknowledged(&f->loaded);
    }
    f->is_answer = true;
    f->due = S.now + (chance(100) ? below(2000) : below(3));
    if (chance(200) || S.now < S.heads[f->head].cut_until)
        flying_free(f);
}

static void arrive(struct flying *f)
{
    struct node *n = &S.heads[f->head];
    if (!f->is_answer && S.now >= S.down_until) {
        serve(f);
        return;
    }
    if (!f->is_answer) {
        flying_free(f);
        return;
    }
    if (n->is_alive && n->is_stopped && f->life == n->life)
        return; /* it lies in its socket until it wakes up */
    if (n->is_alive && f->life == n->life && f->number == n->asked)
        answered(n, f);
    flying_free(f);
}

static bool is_quiet(void)
{
    for (int i = 0; i < HEADS; i++)
        if (!S.heads[i].is_alive || S.heads[i].is_stopped || S.now < S.heads[i].cut_until ||
            (!S.heads[i].is_loaded && !S.heads[i].connected))
            return false;
    return S.now >= S.down_until;
}

/* Those that stand by have seen more than that. */
static bool is_behind_all(const struct twin_redis *older)
{
    for (int i = 0; i < HEADS; i++) {
        const struct head_said *seen = &S.heads[i].role.seen;
        bool is_behind = older->at.fence < S.heads[i].role.fence || (older->at.run == seen->at.run && older->at.seq < seen->at.seq);
        if (!S.heads[i].is_loaded && !is_behind)
            return false;
    }
    return true;
}

static void server_fault(void)
{
    if (S.restored_at && S.now >= S.restored_at) {
        twin_redis_copy(&S.server, &S.saved);
        S.restored_at = S.copy_count = 0;
    }
    if (S.now % 100 == 0)
        twin_redis_copy(&S.copies[S.copy_count++ % COPIES], &S.server);
    if (chance(6000))
        S.down_until = S.now + below(1500);
    bool is_led = false;
    for (int i = 0; i < HEADS; i++) {
        bool is_leader = S.heads[i].is_loaded && S.heads[i].role.state == HEAD_LEADING &&
                         S.heads[i].leader.at.run == S.server.at.run;
        if (S.heads[i].leads && !is_leader)
            return; /* it was followed, and does not know: were that forgotten too, it would lead again (store.md, not closed) */
        is_led |= is_leader;
    }
    if (!chance(2000) || S.now < S.spared_until || !is_led || !is_quiet() || S.copy_count < 20)
        return;
    for (int i = 0; i < HEADS; i++) /* who stands by has heard the leader: not one that has only just connected */
        if (!S.heads[i].is_loaded && (!S.heads[i].role.heard_ms || clock_of(&S.heads[i]) - S.heads[i].role.heard_ms > 700))
            return;
    S.failovers++;
    S.spared_until = S.now + 5000; /* what it forgot, the leader is to give it again */
    const struct twin_redis *older = &S.copies[(S.copy_count - 1 - below(10)) % COPIES];
    if (chance(3) && is_behind_all(older)) { /* the leader's machine went with it: somebody restores the newer copy */
        twin_redis_copy(&S.saved, &S.server);
        S.restored_at = S.now + 3000;
        for (int i = 0; i < HEADS; i++)
            if (S.heads[i].is_loaded)
                dies(&S.heads[i], 4000);
    }
    for (int i = 0; i < FLYING; i++) /* what was on its way went to the server that is gone */
        flying_free(&S.flying[i]);
    twin_redis_copy(&S.server, older);
    S.server.now = S.now;
}

static void head_fault(struct node *n)
{
    bool is_leader = n->is_loaded;
    if (S.now < S.spared_until)
        return;
    if (n->is_alive && chance(is_leader ? 3000 : 12000)) {
        dies(n, below(4000));
    } else if (n->is_alive && !n->is_stopped && chance(is_leader ? 5000 : 15000)) {
        n->is_stopped = true;
        n->until = S.now + (chance(3) ? below(30000) : below(4000));
    } else if (n->is_alive && chance(6000)) {
        n->cut_until = S.now + below(5000);
    } else if (n->is_alive && !n->is_stopped && n->role.state == HEAD_LEADING && n->is_loaded && chance(3000)) {
        head_role_hand_over(&n->role);
        n->next_ms = 0;
        S.handed++;
    }
}

static void pass(bool has_faults)
{
    if (has_faults)
        server_fault();
    for (int i = 0; i < HEADS; i++) {
        struct node *n = &S.heads[i];
        if (has_faults)
            head_fault(n);
        if (!n->is_alive && S.now >= n->until)
            begin_process(n);
        if (n->is_stopped && S.now >= n->until)
            n->is_stopped = false;
    }
    for (int i = 0; i < FLYING && !S.broken; i++)
        if (S.flying[i].is_used && S.now >= S.flying[i].due)
            arrive(&S.flying[i]);
    for (int i = 0; i < HEADS && !S.broken; i++)
        if (S.heads[i].is_alive && !S.heads[i].is_stopped)
            runs(&S.heads[i]);
}

static void begin(uint64_t seed)
{
    memset(&S, 0, sizeof S);
    S.seed = seed;
    S.rng.state = seed;
    S.server.has_lock = true;
    /* The first head has made the cluster, and is dead. */
    struct head_ask  make = {.kind = HEAD_ASK_LEAD, .cluster = "", .new_cluster = "sim", .may_make = true, .at = {.run = 1}};
    struct head_said said;
    snprintf(S.server.me, sizeof S.server.me, "first");
    twin_redis_do(&S.server, &make, &said);
    S.fence = 1;
    for (int i = 0; i < HEADS; i++) {
        S.heads[i].rate = 0.8 + (double)below(450) / 1000;
        begin_process(&S.heads[i]);
    }
}

static void end(void)
{
    for (int i = 0; i < HEADS; i++)
        forget_process(&S.heads[i]);
    for (int i = 0; i < FLYING; i++)
        flying_free(&S.flying[i]);
    for (int i = 0; i < COPIES; i++)
        twin_redis_clear(&S.copies[i]);
    twin_redis_clear(&S.server);
    twin_redis_clear(&S.saved);
}

static void tell(const char *broken)
{
    printf("seed %llu at %llu ms: %s\n  the store: fence %llu seq %llu holder \"%s\", %llu failovers, the last commit at %llu ms\n",
           (unsigned long long)S.seed, (unsigned long long)S.now, broken, (unsigned long long)S.server.at.fence,
           (unsigned long long)S.server.at.seq, S.server.holder, (unsigned long long)S.failovers,
           (unsigned long long)S.acknowledged_at);
    for (int i = 0; i < HEADS; i++)
        printf("  head %d: alive %d stopped %d state %d, has seen fence %llu seq %llu, heard %llu, connected %llu\n", i,
               S.heads[i].is_alive, S.heads[i].is_stopped, (int)S.heads[i].role.state, (unsigned long long)S.heads[i].role.fence,
               (unsigned long long)S.heads[i].role.seen.at.seq, (unsigned long long)S.heads[i].role.heard_ms,
               (unsigned long long)S.heads[i].connected);
}

int main(int argc, char **argv)
{
    unsigned long long first = 1, last = 100, takeovers = 0, commits = 0, failovers = 0, handed = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seeds") == 0 && sscanf(argv[i + 1], "%llu-%llu", &first, &last) == 2)
            continue;
#ifdef MANTA_PLANTS
        if (strcmp(argv[i], "--plant") == 0) {
            mt_plant = (int)strtol(argv[i + 1], NULL, 10);
            continue;
        }
#endif
        fprintf(stderr, "usage: sim_heads [--seeds A-B]\n");
        return 2;
    }
    for (unsigned long long seed = first; seed <= last; seed++) {
        begin(seed);
        for (S.now = 1; S.now < END_MS && !S.broken; S.now++)
            pass(S.now < QUIET_MS || S.restored_at);
        if (!S.broken && S.acknowledged_at < END_MS - 10000)
            breaks("H6: the faults have ended, and nobody acknowledges");
        takeovers += S.takeovers;
        commits += S.acknowledged_count;
        failovers += S.failovers;
        handed += S.handed;
        const char *broken = S.broken;
        if (broken)
            tell(broken);
        end();
        if (broken)
            return 1;
    }
    printf("%llu seeds: %llu leads taken, %llu handed over, %llu failovers, %llu commits acknowledged\n", last - first + 1,
           takeovers, handed, failovers, commits);
    return takeovers > 10 * (last - first + 1) / 2 ? 0 : 1;
}
