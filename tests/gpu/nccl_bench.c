/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_bench.c - NCCL among processes that share one GPU: what its calls give, how they end when a member dies or hangs, and
 * row h200_recover: from a SIGKILL of one of two ranks until the next completed step.
 *
 *   nccl_bench        the row: with a new process in its place (cold), and with one that has its device already (warm)
 *   nccl_bench test   the calls, a killed and a stopped member; exit status 77 without a device or NCCL
 *
 * The parent plays the group: it forks the members before it has touched CUDA, gives orders (generation, rank) in a page that
 * all share, sees deaths by waitpid, and ends generations in that page. Every process says to NCCL that it is a host of its own.
 * Thread: one in each process.
 */
#include "sgd/coll/gpu/nccl.h"
#include "tests/gpu/bench.h"
#include "tests/gpu/table.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS = 3, COUNT = 1 << 20, STATE = 4 << 20, ROUNDS = 3, PATIENCE_S = 60 };

struct world {
    _Atomic int   over;  /* generations up to this one are over */
    _Atomic int   id_of; /* the generation that `id` is for */
    unsigned char id[SGD_NCCL_ID];
    struct {
        _Atomic int order; /* generation to join; -1: end */
        _Atomic int rank;
        _Atomic int ready;  /* has its device */
        _Atomic int joined; /* the generation */
        _Atomic int steps;  /* of that generation */
        _Atomic int ended;  /* generation that ended for it, and why */
        _Atomic int code;
    } slots[SLOTS];
    _Atomic int bad; /* wrong results */
};

static struct world *world;

struct member {
    int                           slot, generation, rank;
    const struct k_ops           *ops;
    const struct sgd_nccl_plugin *nccl;
    struct sgd_nccl              *comm;
    float                        *in, *out, *state;
    uint32_t                      wait_ms;
    char                          text[SGD_NCCL_TEXT];
};

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200 * 1000}, NULL);
}

/* ---- a member ---- */

static mt_status look(void *of)
{
    const struct member *m = of;
    return atomic_load(&world->over) >= m->generation ? mt_error(MT_EWORKER_DIED, 0, "a member died") : mt_ok();
}

static mt_status join(struct member *m)
{
    struct sgd_nccl_config config = {.rank = m->rank, .size = 2, .wait_ms = m->wait_ms, .look = look, .user = m, .text = m->text};
    unsigned char          id[SGD_NCCL_ID];
    if (m->rank == 0) {
        MT_TRY(m->nccl->id(world->id, m->text));
        atomic_store(&world->id_of, m->generation);
    }
    while (atomic_load(&world->id_of) != m->generation) {
        MT_TRY(look(m));
        nap();
    }
    memcpy(id, world->id, sizeof id);
    return m->nccl->join(&config, id, NULL, &m->comm);
}

static mt_status call(struct member *m, enum sgd_nccl_kind kind, enum coll_op op, const float *in, float *out, size_t count)
{
    struct sgd_nccl_call c = {.kind = kind, .type = COLL_F32, .op = op, .count = count, .in = in, .out = out};
    MT_TRY(m->nccl->start(m->comm, &c));
    return m->nccl->wait(m->comm, NULL);
}

/* A host's values into `in`, through a call, and `count` of `out` back. */
static mt_status through(struct member *m, enum sgd_nccl_kind kind, enum coll_op op, const float *values, float *results,
                         size_t count)
{
    MT_TRY(m->ops->copy(NULL, m->in, values, 2 * count * sizeof *values));
    MT_TRY(m->ops->wait(NULL));
    MT_TRY(call(m, kind, op, m->in, m->out, count));
    MT_TRY(m->ops->copy(NULL, results, m->out, 2 * count * sizeof *results));
    return m->ops->wait(NULL);
}

static void expect(const char *what, float want, float got)
{
    if (want == got)
        return;
    printf("FAILED %s: want %g, got %g\n", what, (double)want, (double)got);
    atomic_fetch_add(&world->bad, 1);
}

/* Rank r's element i is 10 r + i, of two parts of four. */
static mt_status calls_check(struct member *m)
{
    float r = (float)m->rank, in[8], out[8] = {0};
    for (int i = 0; i < 8; i++)
        in[i] = 10.0f * r + (float)i;
    MT_TRY(through(m, SGD_NCCL_ALL_REDUCE, COLL_SUM, in, out, 4));
    expect("sum", 10.0f + 2.0f * 3, out[3]);
    MT_TRY(through(m, SGD_NCCL_ALL_REDUCE, COLL_MEAN, in, out, 4));
    expect("mean", 5.0f + 3, out[3]);
    MT_TRY(through(m, SGD_NCCL_ALL_REDUCE, COLL_MAX, in, out, 4));
    expect("max", 13.0f, out[3]);
    MT_TRY(through(m, SGD_NCCL_ALL_REDUCE, COLL_MIN, in, out, 4));
    expect("min", 3.0f, out[3]);
    MT_TRY(through(m, SGD_NCCL_REDUCE_SCATTER, COLL_SUM, in, out, 4));
    expect("reduce-scatter", 10.0f + 2 * (4 * r + 1), out[1]);
    MT_TRY(through(m, SGD_NCCL_ALL_GATHER, COLL_SUM, in, out, 4));
    expect("all-gather", 12.0f, out[6]);
    MT_TRY(through(m, SGD_NCCL_ALL_TO_ALL, COLL_SUM, in, out, 4));
    expect("all-to-all", 10.0f + 4 * r + 2, out[6]);
    MT_TRY(through(m, SGD_NCCL_BROADCAST, COLL_SUM, in, out, 4));
    expect("broadcast", 3.0f, out[3]);
    return mt_ok();
}

/* One generation: the state from rank 0, then steps until it is over. */
static mt_status generation_run(struct member *m)
{
    MT_TRY(join(m));
    atomic_store(&world->slots[m->slot].joined, m->generation);
    MT_TRY(call(m, SGD_NCCL_BROADCAST, COLL_SUM, m->state, m->state, STATE));
    if (m->generation == 1)
        MT_TRY(calls_check(m));
    for (;;) {
        MT_TRY(call(m, SGD_NCCL_ALL_REDUCE, COLL_SUM, m->in, m->out, COUNT));
        atomic_fetch_add(&world->slots[m->slot].steps, 1);
    }
}

/* As device_sum.h does it: what NCCL does once in a process is done before the process has a rank. */
static mt_status warm(struct member *m)
{
    struct sgd_nccl_config config = {.size = 1, .wait_ms = PATIENCE_S * 1000, .text = m->text};
    unsigned char          id[SGD_NCCL_ID];
    struct sgd_nccl       *alone = NULL;
    MT_TRY(m->nccl->id(id, m->text));
    mt_status st = m->nccl->join(&config, id, NULL, &alone);
    if (alone)
        (void)m->nccl->leave(alone);
    return st;
}

static void member_main(int slot, uint32_t wait_ms)
{
    struct member m = {.slot = slot, .wait_ms = wait_ms};
    char          name[32];
    const char   *why;
    snprintf(name, sizeof name, "manta%d", (int)getpid());
    setenv("NCCL_HOSTID", name, 1);
    setenv("NCCL_SOCKET_IFNAME", "lo", 0);
    setenv("NCCL_IB_DISABLE", "1", 0);
    setenv("NCCL_MNNVL_ENABLE", "0", 0);
    setenv("NCCL_MAX_CTAS", "8", 0);
    m.ops = test_table(&why);
    if (!m.ops) {
        printf("skipped: %s\n", why);
        exit(77);
    }
    if (sgd_nccl_open(&m.nccl, m.text).code != 0) {
        printf("skipped: %s\n", m.text);
        exit(77);
    }
    bench_must(warm(&m), "a communicator of one");
    m.in = bench_buffer(m.ops, COUNT * sizeof(float)), m.out = bench_buffer(m.ops, COUNT * sizeof(float));
    m.state = bench_buffer(m.ops, STATE * sizeof(float));
    atomic_store(&world->slots[slot].ready, 1);
    for (;;) {
        int order = atomic_load(&world->slots[slot].order);
        if (order < 0)
            exit(0);
        if (order <= m.generation) {
            nap();
            continue;
        }
        m.generation = order;
        m.rank = atomic_load(&world->slots[slot].rank);
        mt_status st = generation_run(&m);
        atomic_store(&world->slots[slot].code, st.code);
        atomic_store(&world->slots[slot].ended, m.generation);
        if (st.code != MT_EWORKER_DIED)
            printf("# slot %d: generation %d ended: %s: %s\n", slot, m.generation, mt_code_name(st.code), m.text);
        fflush(stdout);
        if (m.comm)
            m.nccl->leave(m.comm);
        m.comm = NULL;
    }
}

/* ---- the parent ---- */

static pid_t pids[SLOTS];

static void finish(int status)
{
    for (int i = 0; i < SLOTS; i++)
        if (pids[i] > 0) {
            kill(pids[i], SIGKILL);
            waitpid(pids[i], NULL, 0);
        }
    exit(status);
}

/* A member that ends by itself has no device, or failed. */
static void members_check(void)
{
    for (int i = 0; i < SLOTS; i++) {
        int status;
        if (pids[i] <= 0 || waitpid(pids[i], &status, WNOHANG) != pids[i])
            continue;
        pids[i] = 0;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
            finish(77);
        printf("FAILED slot %d ended with status %x\n", i, (unsigned)status);
        finish(1);
    }
}

static void until(_Atomic int *word, int least, const char *what)
{
    double begun = bench_now();
    while (atomic_load(word) < least) {
        members_check();
        if (bench_now() - begun > PATIENCE_S) {
            printf("FAILED waiting for %s\n", what);
            finish(1);
        }
        nap();
    }
}

static void slot_start(int slot, uint32_t wait_ms)
{
    memset((void *)&world->slots[slot], 0, sizeof world->slots[slot]);
    fflush(stdout);
    pids[slot] = fork();
    if (pids[slot] == 0)
        member_main(slot, wait_ms);
}

static void order(int slot, int generation, int rank)
{
    atomic_store(&world->slots[slot].rank, rank);
    atomic_store(&world->slots[slot].steps, 0);
    atomic_store(&world->slots[slot].order, generation);
}

static void slot_kill(int slot)
{
    kill(pids[slot], SIGKILL);
    waitpid(pids[slot], NULL, 0);
    pids[slot] = 0;
}

/* Generation `first` of slots 0 and 1; slot 1 is killed, slot 2 takes its place. Seconds until both have made a step. */
static double recovery(int first, bool is_warm)
{
    slot_start(1, PATIENCE_S * 1000);
    if (is_warm) {
        slot_start(2, PATIENCE_S * 1000);
        until(&world->slots[2].ready, 1, "the spare");
    }
    order(0, first, 0), order(1, first, 1);
    until(&world->slots[0].steps, 10, "steps of slot 0"), until(&world->slots[1].steps, 10, "steps of slot 1");
    double begun = bench_now();
    slot_kill(1);
    atomic_store(&world->over, first);
    if (!is_warm)
        slot_start(2, PATIENCE_S * 1000);
    until(&world->slots[0].ended, first, "the survivor's abort");
    double aborted = bench_now();
    order(0, first + 1, 0), order(2, first + 1, 1);
    until(&world->slots[2].joined, first + 1, "the new member");
    double joined = bench_now();
    until(&world->slots[0].steps, 1, "the next step"), until(&world->slots[2].steps, 1, "the next step");
    double took = bench_now() - begun;
    printf("# %s: abort %.0f ms, start and join %.0f ms, state and step %.0f ms\n", is_warm ? "warm" : "cold",
           (aborted - begun) * 1e3, (joined - aborted) * 1e3, (took + begun - joined) * 1e3);
    slot_kill(2);
    atomic_store(&world->over, first + 1);
    until(&world->slots[0].ended, first + 1, "the end of a generation");
    return took;
}

static void row(const char *id, int *generation, bool is_warm, const char *aims)
{
    double times[ROUNDS];
    for (int i = 0; i < ROUNDS; i++, *generation += 2) {
        times[i] = recovery(*generation, is_warm);
        for (int j = i; j > 0 && times[j] < times[j - 1]; j--) {
            double t = times[j];
            times[j] = times[j - 1], times[j - 1] = t;
        }
    }
    printf("row %s %.0f ms  median of %d; %s\n", id, times[ROUNDS / 2] * 1e3, ROUNDS, aims);
}

/* The calls (generation 1 checks them), a killed member, and one that is stopped, whose connections stay open: only the limit
 * ends that wait. */
static void test(void)
{
    slot_start(1, 3000);
    order(0, 1, 0), order(1, 1, 1);
    until(&world->slots[0].steps, 3, "steps"), until(&world->slots[1].steps, 3, "steps");
    slot_kill(1);
    atomic_store(&world->over, 1);
    until(&world->slots[0].ended, 1, "the abort after a death");
    if (atomic_load(&world->slots[0].code) != MT_EWORKER_DIED && atomic_load(&world->slots[0].code) != MT_EDEVICE)
        printf("FAILED a death gave %d\n", atomic_load(&world->slots[0].code)), atomic_fetch_add(&world->bad, 1);
    slot_start(1, 3000);
    order(0, 2, 0), order(1, 2, 1);
    until(&world->slots[0].steps, 3, "steps after a death"), until(&world->slots[1].steps, 3, "steps after a death");
    kill(pids[1], SIGSTOP);
    until(&world->slots[0].ended, 2, "the limit of a wait");
    if (atomic_load(&world->slots[0].code) != MT_ETIMEDOUT)
        printf("FAILED a stopped member gave %d\n", atomic_load(&world->slots[0].code)), atomic_fetch_add(&world->bad, 1);
    printf("%s\n", atomic_load(&world->bad) ? "FAILED" : "calls, death and silence: ok");
}

int main(int argc, char **argv)
{
    bool is_test = argc > 1 && strcmp(argv[1], "test") == 0;
    int  generation = 1;
    world = mmap(NULL, sizeof *world, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (world == MAP_FAILED)
        return 1;
    slot_start(0, is_test ? 3000 : PATIENCE_S * 1000);
    until(&world->slots[0].ready, 1, "the first member");
    if (is_test) {
        test();
    } else {
        row("h200_recover_cold", &generation, false, "gate 5000, target 2000");
        row("h200_recover_warm", &generation, true, "gate 1000, target 300");
    }
    finish(atomic_load(&world->bad) ? 1 : 0);
}
