/* SPDX-License-Identifier: Apache-2.0
 *
 * device_sum_test.c - sums between devices (sgd/sum/device_sum.h) among processes: the bits of the fixed tree for any number of
 * members, and what becomes of the others when one dies, stops, fails or has no NCCL.
 *
 *   device_sum_test [CASE...]     exit status 0, 1 (something is wrong), 77 (there is no device, or no NCCL)
 *   device_sum_test threads       the first case with threads as members, for a thread sanitizer
 *
 * Built twice: for GPUs (one, shared by all members, each of which says to NCCL that it is a host of its own) and for the
 * emulated NCCL, where NCCL_EMULATED makes it fail. The parent forks members before it has touched CUDA, orders generations in a
 * page that all share, and sees deaths by waitpid. Members find out by themselves, but for one that dies before it has joined.
 * Thread: one in each process.
 */
#include "core/base/clock.h"
#include "core/base/rng.h"
#include "sgd/sum/collective.h"
#include "sgd/sum/device_sum.h"
#include "tests/gpu/table.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 5, FLOATS_MAX = 70001, ROUNDS = 3, PATIENCE_MS = 40 * 1000, STUCK = 42, SKIPPED = 77 };

/* What a slot is to do; written by the parent before `order`. */
struct task {
    uint32_t generation, rank, members, vranks, floats, wait_ms, rounds;
    char     fault[32]; /* for NCCL_EMULATED ... */
    bool     at_join;   /* ... from the join on, else from the second sum on */
    bool     no_nccl;   /* as a process that has no plugin */
    bool     is_begun;  /* the communicator is made beside sums by the host's slots */
};

struct slot {
    struct task      task;
    _Atomic uint32_t order, ready, done; /* generation to work in; there is a device; generation worked in */
    _Atomic int      code, beats;        /* how it ended: enum mt_code */
    char             text[256];          /* what NCCL said then; before `done` */
};

static bool is_emulated;
static struct world {
    struct slot slots[SLOTS];
    _Atomic int bad;
} * world;

static void  *region;
static size_t region_size;
static pid_t  pids[SLOTS];

static void wrong(const char *what, long want, long got)
{
    printf("FAILED %s: want %ld, got %ld\n", what, want, got);
    fflush(stdout);
    atomic_fetch_add(&world->bad, 1);
}

/* ---- a member ---- */

struct member {
    struct slot           *slot;
    const struct k_ops    *ops, *cpu;
    struct sgd_device_sum *sum;
    struct sgd_group       group;
    float                 *pieces[SGD_PIECES_MAX], *out; /* the device's */
    float                 *host, *values, *want;
};

static float value(uint32_t round, uint32_t v, size_t i)
{
    uint32_t x = round * 2654435761u + v * 40503u + (uint32_t)i * 97u;
    x ^= x >> 13, x *= 0x5bd1e995, x ^= x >> 15;
    return (float)(x % 20011) * 1.7e-3f - 11.0f;
}

/* The sum of the virtual ranks of a run, by the tree. */
static mt_status run_sum(struct member *m, uint32_t round, uint32_t first, uint32_t last, float *out)
{
    const float *in[64];
    size_t       floats = m->slot->task.floats;
    for (uint32_t v = first; v < last; v++) {
        float *to = m->values + (v - first) * floats;
        for (size_t i = 0; i < floats; i++)
            to[i] = value(round, v, i);
        in[v - first] = to;
    }
    return m->cpu->tree_sum(NULL, in, last - first, floats, out);
}

static mt_status round_run(struct member *m, uint32_t round)
{
    struct sgd_piece pieces[SGD_PIECES_MAX];
    size_t           floats = m->slot->task.floats, size = floats * sizeof(float);
    uint32_t         first, last, count;
    sgd_group_vranks(&m->group, &first, &last);
    count = sgd_pieces_of(first, last, pieces);
    for (uint32_t i = 0; i < count; i++) {
        MT_TRY(run_sum(m, round, pieces[i].first, pieces[i].first + (1u << pieces[i].level), m->host));
        MT_TRY(m->ops->copy(NULL, m->pieces[i], m->host, size));
        if (i + 1 < count) /* the last piece is still on its way when the sum is asked for */
            MT_TRY(m->ops->wait(NULL));
    }
    MT_TRY(sgd_device_sum_run(m->sum, &m->group, (const float *const *)m->pieces, count, floats, m->out));
    MT_TRY(m->ops->copy(NULL, m->host, m->out, size));
    MT_TRY(m->ops->wait(NULL));
    MT_TRY(run_sum(m, round, 0, m->slot->task.vranks, m->want));
    if (memcmp(m->host, m->want, size) != 0)
        wrong("the tree's bits", 0, 1);
    return mt_ok();
}

/* Where a member has no NCCL: the generation goes on, and the slots are the way. */
static mt_status host_sum(struct member *m)
{
    const struct sgd_lane *lane = sgd_group_lane(&m->group, 0);
    const float           *sum;
    float                 *room;
    for (uint32_t done = 0; done < sgd_lane_length(lane); done++) {
        MT_TRY(sgd_group_room(&m->group, m->cpu, 0, done, (struct sgd_range){0, 1}, &room));
        room[0] = 1;
    }
    MT_TRY(sgd_group_reduce(&m->group, m->cpu, &sum));
    if (sum[0] != (float)m->slot->task.vranks)
        wrong("the host's sum", m->slot->task.vranks, (long)sum[0]);
    return mt_error(MT_EUNSUPPORTED, 0, "no NCCL");
}

/* Sums by the slots until all are ready: the same bits. */
static mt_status begun(struct member *m)
{
    const struct sgd_lane *lane = sgd_group_lane(&m->group, 0);
    bool                   is_ready = false;
    const float           *sum;
    float                 *room;
    uint32_t               round = 0;
    size_t                 floats = m->slot->task.floats;
    MT_TRY(sgd_device_sum_begin(m->sum, &m->group));
    for (; !is_ready; round++) {
        for (uint32_t done = 0; done < sgd_lane_length(lane); done++) {
            MT_TRY(sgd_group_room(&m->group, m->cpu, 0, done, (struct sgd_range){0, floats}, &room));
            for (size_t i = 0; i < floats; i++)
                room[i] = value(round, sgd_lane_vrank(lane, done), i);
        }
        MT_TRY(sgd_group_reduce(&m->group, m->cpu, &sum));
        MT_TRY(run_sum(m, round, 0, m->slot->task.vranks, m->want));
        if (memcmp(sum, m->want, floats * sizeof *sum) != 0)
            wrong("the host's sum beside NCCL", 0, 1);
        MT_TRY(sgd_device_sum_ready(m->sum, &m->group, &is_ready));
    }
    return mt_ok();
}

static void beat(void *of)
{
    atomic_fetch_add(&((struct slot *)of)->beats, 1);
}

static mt_status generation_run(struct member *m)
{
    const struct task      *t = &m->slot->task;
    struct sgd_group_config config = {.region = region,
                                      .region_size = region_size,
                                      .generation = t->generation,
                                      .rank = t->rank,
                                      .members = t->members,
                                      .wait_limit_ms = t->wait_ms ? t->wait_ms : PATIENCE_MS,
                                      .plan = {.vranks = t->vranks, .slot_floats = FLOATS_MAX}};
    MT_TRY(sgd_group_join(&m->group, &config));
    if (t->at_join)
        setenv("NCCL_EMULATED", t->fault, 1);
    if (strcmp(t->fault, "one-gpu") == 0)
        unsetenv("NCCL_HOSTID");
    mt_status st = t->is_begun ? begun(m) : sgd_device_sum_join(t->no_nccl ? NULL : m->sum, &m->group);
    if (st.code == MT_EUNSUPPORTED)
        return host_sum(m);
    MT_TRY(st);
    for (uint32_t round = 0; round < (t->rounds ? t->rounds : ROUNDS); round++) {
        if (round == 1 && !t->at_join && t->fault[0])
            setenv("NCCL_EMULATED", t->fault, 1);
        MT_TRY(round_run(m, round));
    }
    return mt_ok();
}

static const struct k_ops *table, *cpu_table;

static void process_open(void)
{
    char        name[32];
    const char *why;
    snprintf(name, sizeof name, "manta%d", (int)getpid());
    setenv("NCCL_HOSTID", name, 1);
    setenv("NCCL_SOCKET_IFNAME", "lo", 0);
    setenv("NCCL_IB_DISABLE", "1", 0);
    setenv("NCCL_MNNVL_ENABLE", "0", 0);
    setenv("NCCL_MAX_CTAS", "8", 0);
    table = test_table(&why);
    if (!table) {
        printf("skipped: %s\n", why);
        fflush(stdout);
        _exit(SKIPPED);
    }
    if (k_ops_choose(&(struct k_config){.kind = K_CPU}, &cpu_table).code != 0)
        abort();
}

static void member_init(struct member *m)
{
    size_t size = FLOATS_MAX * sizeof(float);
    bool   is_bad = false;
    char   text[256];
    m->ops = table, m->cpu = cpu_table;
    if (sgd_device_sum_new(m->ops, 0, &m->sum, text).code != 0) {
        printf("skipped: %s\n", text);
        fflush(stdout);
        _exit(SKIPPED);
    }
    sgd_device_sum_beats(m->sum, beat, m->slot);
    for (uint32_t i = 0; i < 4; i++)
        is_bad |= m->ops->alloc(size, (void **)&m->pieces[i]).code != 0;
    is_bad |= m->ops->alloc(size, (void **)&m->out).code != 0;
    m->host = malloc(size), m->values = malloc(16 * size), m->want = malloc(size);
    if (is_bad || !m->host || !m->values || !m->want)
        abort();
}

static void member_fini(struct member *m)
{
    bool is_kept = sgd_device_sum_is_stuck(m->sum);
    sgd_device_sum_free(m->sum);
    for (uint32_t i = 0; i < 4 && !is_kept; i++)
        m->ops->release(m->pieces[i]);
    if (!is_kept)
        m->ops->release(m->out);
    free(m->host), free(m->values), free(m->want);
}

static void generation_do(struct member *m)
{
    mt_status st = generation_run(m);
    if (st.code != 0) /* as a worker does */
        sgd_group_abort(region, m->slot->task.generation, (enum mt_code)st.code, m->slot->task.rank);
    sgd_device_sum_leave(m->sum);
    sgd_group_leave(&m->group);
    unsetenv("NCCL_EMULATED");
    snprintf(m->slot->text, sizeof m->slot->text, "%s", sgd_device_sum_text(m->sum));
    atomic_store(&m->slot->code, st.code);
}

static void member_main(int index)
{
    struct member m = {.slot = &world->slots[index]};
    uint32_t      seen = 0, order;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    process_open();
    member_init(&m);
    atomic_store(&m.slot->ready, 1);
    while ((order = atomic_load(&m.slot->order)) != UINT32_MAX) {
        if (order == seen) {
            mt_sleep_ms(1);
            continue;
        }
        seen = order;
        generation_do(&m);
        bool is_stuck = sgd_device_sum_is_stuck(m.sum);
        atomic_store(&m.slot->done, order);
        if (is_stuck)
            _exit(STUCK);
    }
    member_fini(&m);
    fflush(stdout);
    exit(0);
}

/* ---- the parent ---- */

static void finish(int status)
{
    for (int i = 0; i < SLOTS; i++)
        if (pids[i] > 0) {
            kill(pids[i], SIGKILL);
            waitpid(pids[i], NULL, 0);
        }
    exit(status);
}

static void slot_start(int i)
{
    memset((void *)&world->slots[i], 0, sizeof world->slots[i]);
    fflush(stdout);
    pids[i] = fork();
    if (pids[i] == 0)
        member_main(i);
}

/* How a slot's process ended: its exit status, 1000 + the signal; -1: it did not, in that time. */
static int slot_end(int i, int64_t limit_ms)
{
    int status;
    for (int64_t until = mt_now_ms() + limit_ms; waitpid(pids[i], &status, WNOHANG) != pids[i]; mt_sleep_ms(1))
        if (mt_now_ms() > until)
            return -1;
    pids[i] = 0;
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void until(int slot, _Atomic uint32_t *word, uint32_t least, const char *what)
{
    for (int64_t limit = mt_now_ms() + PATIENCE_MS; atomic_load(word) < least; mt_sleep_ms(1)) {
        int code = pids[slot] ? slot_end(slot, 0) : -1;
        if (code < 0 && mt_now_ms() <= limit)
            continue;
        if (code == SKIPPED)
            finish(SKIPPED);
        printf("slot %d, waiting for %s\n", slot, what);
        wrong("a process that goes on", 0, code);
        finish(1);
    }
}

static void ends(int slot, int want, const char *what)
{
    int got = slot_end(slot, PATIENCE_MS);
    if (got != want)
        wrong(what, want, got);
}

static uint32_t    generation;
static struct task faults[SLOTS]; /* of the next generation */

static void fault(int slot, const char *what, bool at_join)
{
    snprintf(faults[slot].fault, sizeof faults[slot].fault, "%s", what);
    faults[slot].at_join = at_join;
}

/* A generation of `members` of the slots: rank r is slot of[r]. */
static void order(const int *of, uint32_t members, uint32_t vranks, uint32_t floats)
{
    generation++;
    for (uint32_t r = 0; r < members; r++) {
        if (!pids[of[r]])
            slot_start(of[r]);
        until(of[r], &world->slots[of[r]].ready, 1, "its device");
    }
    for (uint32_t r = 0; r < members; r++) {
        struct slot *s = &world->slots[of[r]];
        s->task = faults[of[r]];
        s->task.generation = generation, s->task.rank = r, s->task.members = members, s->task.vranks = vranks;
        s->task.floats = floats;
        atomic_store(&s->order, generation);
    }
    memset(faults, 0, sizeof faults);
}

static void expect(int slot, int want, const char *what)
{
    until(slot, &world->slots[slot].done, generation, what);
    int got = atomic_load(&world->slots[slot].code);
    if (got != want)
        wrong(what, want, got);
}

static void new_region(uint32_t vranks)
{
    struct sgd_group_plan plan = {.vranks = vranks, .slot_floats = FLOATS_MAX};
    if (region)
        munmap(region, region_size);
    if (sgd_group_region_size(&plan, &region_size).code != 0)
        abort();
    region = mmap(NULL, region_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (region == MAP_FAILED)
        abort();
}

/* Everyone goes home, and leaves nothing. */
static void all_home(void)
{
    for (int i = 0; i < SLOTS; i++)
        if (pids[i])
            atomic_store(&world->slots[i].order, UINT32_MAX);
    for (int i = 0; i < SLOTS; i++) {
        int code = pids[i] ? slot_end(i, PATIENCE_MS) : 0;
        if (code != 0)
            wrong("a member that goes home", 0, code);
    }
}

/* In which call a member was told of an error: by the one that failed, not by the next. */
static void says(int slot, const char *text)
{
    until(slot, &world->slots[slot].done, generation, text);
    if (strstr(world->slots[slot].text, text) == world->slots[slot].text)
        return;
    printf("slot %d says: %s\n", slot, world->slots[slot].text);
    wrong(text, 1, 0);
}

static const int in_order[SLOTS] = {0, 1, 2, 3, 4};

static void same_bits(void)
{
    static const uint32_t vranks[] = {8, 12, 5}, floats[] = {FLOATS_MAX, 1, 1000};
    for (size_t p = 0; p < 3; p++) {
        new_region(vranks[p]);
        for (uint32_t members = 1; members <= (is_emulated ? 4 : 3); members++) { /* a GPU bears few that share it */
            order(in_order, members, vranks[p], floats[(p + members) % 3]);
            for (uint32_t r = 0; r < members; r++)
                expect((int)r, MT_OK, "the sums of a generation");
        }
        all_home();
    }
    if (atomic_load(&world->slots[1].beats) == 0)
        wrong("signs of life while waiting", 1, 0);
}

/* The communicator comes while steps go by the host; also where that fails, or somebody dies over it. */
static void made_beside(void)
{
    static const char *const what[] = {"late-joins", "init-fails", "init-dies"};
    static const int         codes[] = {MT_OK, MT_EUNSUPPORTED, MT_EWORKER_DIED};
    for (int way = 0; way < 3; way++) {
        new_region(8);
        for (int r = 0; r < 3; r++)
            faults[r].is_begun = true;
        fault(1, what[way], true);
        order(in_order, 3, 8, 5000);
        if (way == 2)
            ends(1, 1000 + SIGKILL, what[way]);
        for (int r = 0; r < 3; r++)
            if (pids[r])
                expect(r, codes[way], what[way]);
        order(in_order, 3, 8, 5000);
        for (int r = 0; r < 3; r++)
            expect(r, MT_OK, "the generation after it");
        all_home();
    }
}

/* A generation whose slot `faulty` goes wrong; the others end with `code`, then slot 4 takes its place. */
static void one_fails(uint32_t members, int faulty, const char *what, bool at_join, int code, int end)
{
    int of[SLOTS];
    memcpy(of, in_order, sizeof of);
    new_region(8);
    slot_start(4); /* the spare has its device and NCCL before it has a rank */
    fault(faulty, what, at_join);
    order(in_order, members, 8, 30000);
    for (uint32_t r = 0; r < members; r++)
        if ((int)r != faulty)
            expect((int)r, code, what);
    if (end)
        ends(faulty, end, what);
    else
        says(faulty, at_join ? "join NCCL: " : "an exchange of NCCL: ");
    of[faulty] = 4;
    order(of, members, 8, 30000);
    for (uint32_t r = 0; r < members; r++)
        expect(of[r], MT_OK, "the generation after it");
    all_home();
}

static void killed(void)
{
    for (uint32_t members = 2; members <= 3; members++) {
        one_fails(members, 0, "init-dies", true, MT_EWORKER_DIED, 1000 + SIGKILL); /* who made the id */
        one_fails(members, 1, "init-dies", true, MT_EWORKER_DIED, 1000 + SIGKILL);
        one_fails(members, 1, "connect-dies", true, MT_EWORKER_DIED, 1000 + SIGKILL);
        one_fails(members, 0, "data-dies", false, MT_EWORKER_DIED, 1000 + SIGKILL);
    }
}

/* At any moment, again and again; DEVICE_SUM_KILLS says how often. Every generation before, between and after is right. */
static void killed_anywhere(void)
{
    const char *asked = getenv("DEVICE_SUM_KILLS");
    mt_rng      rng = {20261122};
    new_region(8);
    for (int kills = asked ? (int)strtol(asked, NULL, 10) : 40; kills > 0; kills--) {
        int      victim = (int)mt_rng_below(&rng, 3);
        uint64_t us = mt_rng_below(&rng, 8) ? mt_rng_below(&rng, 4000) : mt_rng_below(&rng, 40000);
        for (int r = 0; r < 3; r++)
            faults[r].rounds = UINT32_MAX, faults[r].is_begun = kills % 2;
        order(in_order, 3, 8, 5000);
        nanosleep(&(struct timespec){.tv_nsec = (long)us * 1000}, NULL);
        kill(pids[victim], SIGKILL);
        ends(victim, 1000 + SIGKILL, "the killed one");
        sgd_group_abort(region, generation, MT_EWORKER_DIED, (uint32_t)victim); /* it may not have joined */
        for (int r = 0; r < 3; r++)
            if (r != victim)
                expect(r, MT_EWORKER_DIED, "beside a death");
    }
    order(in_order, 3, 8, 5000);
    for (int r = 0; r < 3; r++)
        expect(r, MT_OK, "after all deaths");
    all_home();
}

static void until_stopped(int slot)
{
    int     status = 0;
    int64_t limit = mt_now_ms() + PATIENCE_MS;
    while (waitpid(pids[slot], &status, WUNTRACED | WNOHANG) != pids[slot] && mt_now_ms() < limit)
        mt_sleep_ms(1);
    if (!WIFSTOPPED(status))
        wrong("a member that stops", 1, 0);
}

/* Its connections stay open: only the limit ends this. */
static void stopped(void)
{
    new_region(8);
    fault(1, "data-stops", false);
    faults[0].wait_ms = 2000;
    order(in_order, 2, 8, FLOATS_MAX);
    expect(0, MT_ETIMEDOUT, "a member that is stopped");
    until_stopped(1);
    kill(pids[1], SIGKILL);
    ends(1, 1000 + SIGKILL, "the one that was stopped");
    order(in_order, 2, 8, 1000);
    expect(0, MT_OK, "the generation after it"), expect(1, MT_OK, "the generation after it");
    all_home();
}

/* A survivor whose abort hangs is back within the limit, says so and ends; the others go on without it. */
static void abort_hangs(void)
{
    const int of[] = {0, 3, 4};
    new_region(8);
    slot_start(3), slot_start(4);
    fault(1, "abort-hangs", false), fault(2, "data-dies", false);
    order(in_order, 3, 8, 30000);
    expect(0, MT_EWORKER_DIED, "beside one whose abort hangs");
    ends(1, STUCK, "the one whose abort hangs"), ends(2, 1000 + SIGKILL, "the killed one");
    if (atomic_load(&world->slots[1].code) != MT_EWORKER_DIED)
        wrong("the one whose abort hangs", MT_EWORKER_DIED, atomic_load(&world->slots[1].code));
    order(of, 3, 8, 30000);
    for (int r = 0; r < 3; r++)
        expect(of[r], MT_OK, "the generation after it");
    all_home();
}

/* A member without the plugin: all take the host's way, in this generation. */
static void no_plugin(void)
{
    new_region(8);
    faults[1].no_nccl = true;
    order(in_order, 3, 8, 1000);
    for (int r = 0; r < 3; r++)
        expect(r, MT_EUNSUPPORTED, "one without NCCL");
    order(in_order, 3, 8, 1000);
    for (int r = 0; r < 3; r++)
        expect(r, MT_OK, "all with NCCL");
    fault(0, "one-gpu", true), fault(2, "one-gpu", true);
    order(in_order, 3, 8, 1000);
    for (int r = 0; r < 3; r++)
        expect(r, MT_EUNSUPPORTED, "two on one GPU");
    fault(0, "id-fails", true);
    order(in_order, 2, 8, 1000);
    expect(0, MT_EUNSUPPORTED, "no id"), expect(1, MT_EUNSUPPORTED, "no id of the first's");
    all_home();
}

/* Errors that NCCL tells: where it refuses one, all go by the host; later the one that has them ends the generation for all. And a
 * death that NCCL feels before it is known. */
static void nccl_fails(void)
{
    one_fails(3, 1, "init-fails", true, MT_EUNSUPPORTED, 0);
    one_fails(2, 1, "call-fails", false, MT_EDEVICE, 0);
    new_region(8);
    fault(0, "data-stops", false), fault(1, "call-fails", false);
    order(in_order, 2, 8, 30000);
    until_stopped(0);
    kill(pids[0], SIGKILL);
    expect(1, MT_EWORKER_DIED, "a death that NCCL feels first");
    ends(0, 1000 + SIGKILL, "the dead one");
    all_home();
}

/* NCCL's work begins late: who does not wait for it reads what was there before. */
static void late_kernels(void)
{
    for (uint32_t members = 2; members <= 3; members++) {
        new_region(8);
        fault(1, "late-kernels", true);
        order(in_order, members, 8, 30000);
        for (uint32_t r = 0; r < members; r++)
            expect((int)r, MT_OK, "late work");
        all_home();
    }
}

/* ---- threads ---- */

static pthread_barrier_t between; /* a generation is formed when all are back from the one before */

static void *thread_main(void *of)
{
    struct member m = {.slot = of};
    member_init(&m);
    for (uint32_t g = 1; g <= 4; g++) {
        pthread_barrier_wait(&between);
        m.slot->task.generation = g;
        m.slot->task.is_begun = g % 2 == 0;
        generation_do(&m);
        if (atomic_load(&m.slot->code) != MT_OK)
            wrong("a thread's sums", MT_OK, atomic_load(&m.slot->code));
    }
    member_fini(&m);
    return NULL;
}

static void threads(void)
{
    pthread_t of[SLOTS];
    new_region(12);
    process_open();
    pthread_barrier_init(&between, NULL, 3);
    for (uint32_t i = 0; i < 3; i++) {
        world->slots[i].task = (struct task){.rank = i, .members = 3, .vranks = 12, .floats = 5000};
        if (pthread_create(&of[i], NULL, thread_main, &world->slots[i]) != 0)
            abort();
    }
    for (int i = 0; i < 3; i++)
        pthread_join(of[i], NULL);
    pthread_barrier_destroy(&between);
}

static const struct {
    const char *name;
    void (*run)(void);
    bool fails; /* makes NCCL fail */
} cases[] = {{"same_bits", same_bits, false},
             {"no_plugin", no_plugin, true},
             {"killed", killed, true},
             {"made_beside", made_beside, true},
             {"killed_anywhere", killed_anywhere, true},
             {"stopped", stopped, true},
             {"abort_hangs", abort_hangs, true},
             {"nccl_fails", nccl_fails, true},
             {"late_kernels", late_kernels, true}};

int main(int argc, char **argv)
{
    is_emulated = getenv("NCCL_EMULATED") != NULL;
    unsetenv("NCCL_EMULATED");
    world = mmap(NULL, sizeof *world, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (world == MAP_FAILED)
        return 1;
    if (argc > 1 && strcmp(argv[1], "threads") == 0) {
        threads();
        return atomic_load(&world->bad) != 0;
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool is_asked = argc == 1;
        for (int a = 1; a < argc; a++)
            is_asked |= strcmp(argv[a], cases[i].name) == 0;
        if (!is_asked || (cases[i].fails && !is_emulated))
            continue;
        int64_t begun = mt_now_ms();
        int     bad = atomic_load(&world->bad);
        cases[i].run();
        printf("%s: %s (%lld ms)\n", cases[i].name, atomic_load(&world->bad) > bad ? "FAILED" : "ok",
               (long long)(mt_now_ms() - begun));
        fflush(stdout);
    }
    finish(atomic_load(&world->bad) ? 1 : 0);
}
