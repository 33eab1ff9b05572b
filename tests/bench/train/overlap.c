/* SPDX-License-Identifier: Apache-2.0
 *
 * overlap.c - how much of the communication between two nodes is hidden behind backward: two processes, each the one member
 * of its node, train a small GPT-2 with senders paced to 200 MB/s, with the sum after the gradients and beside them.
 *
 * Micro-batches are as large as it takes for backward to last longer than the communication: else its length would be the bound.
 * What bounds it then is the processor time of the communication, since backward wants both cores all the time.
 *
 * Each node has a core of its own, as nodes have: its two threads share it. The communication is that of the same sum with nothing
 * beside it; what a step without overlap does behind its gradient is longer, since there the faster node waits for the slower
 * one, and the update follows.
 *
 * Owns: its processes and their shared memory.
 */
#include "tests/bench/train/overlap.h"

#include "sgd/model/gpt2.h"
#include "sgd/train/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    NODES = 2,
    ROUNDS = 4,
    WARM = 2,
    STEPS = 8,
    FORWARDS = 3,
    MICRO = 8,
    CONTEXT = 256,
    RECORDS = 512,
    PACE = 200 * 1000 * 1000
};

/* Of one way to do it, by rank 0: seconds of a step; of the work in it, and of its forward pass alone; of a sum alone; of
 * processor time that threads other than the one that computes took in a step. */
struct timing {
    double step_s, work_s, forward_s, sum_s, beside_s;
};

struct run {
    struct sgd_group_net net;
    struct coll_door     doors[NODES];
    struct sgd_dataset   train;
    const struct k_ops  *ops;
    void                *regions[NODES];
    size_t               region_size;
    uint32_t             generation;
    bool                 is_lockstep;
    struct timing       *timing; /* shared */
    size_t               bytes;  /* of a gradient */
};

static double clock_s(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double beside_s(void)
{
    return clock_s(CLOCK_PROCESS_CPUTIME_ID) - clock_s(CLOCK_THREAD_CPUTIME_ID);
}

/* Seconds of a forward pass, on all nodes at the same time. */
static mt_status forward_time(struct sgd_trainer *trainer, struct sgd_group *group, double *out)
{
    const struct sgd_dataset *train = trainer->config.train;
    struct sgd_model         *model = trainer->config.model;
    struct sgd_batch          batch = {.records = train->records, .count = MICRO, .record_size = train->record_size};
    float                     metrics[SGD_METRICS_ALL];
    MT_TRY(sgd_group_barrier(group));
    double begun = clock_s(CLOCK_MONOTONIC);
    for (int i = 0; i < FORWARDS; i++)
        MT_TRY(model->ops->evaluate(model, trainer->params, &batch, metrics));
    *out = (clock_s(CLOCK_MONOTONIC) - begun) / FORWARDS;
    return mt_ok();
}

/* Seconds of a sum that has nothing beside it. */
static mt_status sum_time(struct sgd_trainer *trainer, struct sgd_group *group, double *out)
{
    const float *sum;
    double       all = 0;
    for (int i = 0; i < STEPS; i++) {
        MT_TRY(sgd_group_barrier(group));
        double begun = clock_s(CLOCK_MONOTONIC);
        MT_TRY(sgd_group_reduce(group, trainer->config.ops, &sum));
        all += clock_s(CLOCK_MONOTONIC) - begun;
    }
    *out = all / STEPS;
    return mt_ok();
}

static mt_status steps_run(struct run *r, struct sgd_trainer *trainer, struct sgd_group *group)
{
    struct sgd_result result;
    struct timing     timing = {0};
    uint64_t          begun = 0, work = 0;
    double            beside = 0;
    (void)sgd_trainer_begin(trainer);
    for (int i = 0; i < WARM + STEPS; i++) {
        if (i == WARM) {
            MT_TRY(sgd_group_barrier(group));
            begun = bench_now_ns();
            work = trainer->work_ns;
            beside = beside_s();
        }
        MT_TRY(sgd_train_step(trainer, group, &result));
    }
    timing.step_s = (double)(bench_now_ns() - begun) * 1e-9 / STEPS;
    timing.work_s = (double)(trainer->work_ns - work) * 1e-9 / STEPS;
    timing.beside_s = (beside_s() - beside) / STEPS;
    MT_TRY(forward_time(trainer, group, &timing.forward_s));
    MT_TRY(sum_time(trainer, group, &timing.sum_s));
    if (group->rank == 0)
        *r->timing = timing;
    return sgd_group_barrier(group);
}

static mt_status trainer_make(struct run *r, struct sgd_trainer *trainer)
{
    struct sgd_gpt2_config    model = {.ops = r->ops, .shape.context = CONTEXT, .batch_max = MICRO};
    struct sgd_trainer_config config = {.ops = r->ops,
                                        .train = &r->train,
                                        .seed = 1,
                                        .vranks = NODES,
                                        .micro_batch = MICRO,
                                        .epochs = 1000,
                                        .optimizer.rate = 1e-4f};
    MT_TRY(sgd_gpt2_new(&model, &config.model));
    return sgd_trainer_init(trainer, &config);
}

static mt_status member(struct run *r, uint32_t node)
{
    struct sgd_trainer trainer;
    struct sgd_group   group;
    r->net.node = node;
    MT_TRY(trainer_make(r, &trainer));
    trainer.is_lockstep = r->is_lockstep;
    struct sgd_group_config config = {.region = r->regions[node],
                                      .region_size = r->region_size,
                                      .plan = sgd_trainer_plan(&trainer),
                                      .generation = r->generation,
                                      .rank = node,
                                      .members = NODES,
                                      .net = &r->net,
                                      .door = &r->doors[node],
                                      .pace = PACE};
    config.plan.is_wide = true;
    MT_TRY(sgd_group_join(&group, &config));
    mt_status st = steps_run(r, &trainer, &group);
    sgd_group_leave(&group);
    return st;
}

/* Both nodes as processes; false: it could not be measured. */
static bool measure(struct run *r, bool is_lockstep, struct timing *out)
{
    int  status;
    bool ok = true;
    r->generation++;
    r->is_lockstep = is_lockstep;
    fflush(NULL);
    pid_t pids[NODES];
    for (uint32_t node = 0; node < NODES; node++) {
        pids[node] = fork();
        if (pids[node] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            bench_core_choose(0, node > 0);
            mt_status st = member(r, node);
            if (st.code)
                fprintf(stderr, "manta-bench-train: overlap: %s\n", st.what ? st.what : mt_code_text(st.code));
            _exit(st.code != 0);
        }
        ok = ok && pids[node] > 0;
    }
    for (uint32_t node = 0; node < NODES; node++)
        ok = pids[node] > 0 && waitpid(pids[node], &status, 0) == pids[node] && status == 0 && ok;
    *out = *r->timing;
    return ok;
}

static void *shared(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static mt_status run_init(struct run *r, uint8_t *records)
{
    struct sgd_trainer trainer;
    for (size_t i = 0; i < (size_t)RECORDS * (CONTEXT + 1); i++)
        records[i] = (uint8_t)(i * 2654435761u >> 13);
    MT_TRY(k_ops_choose(&(struct k_config){.kind = K_CPU}, &r->ops));
    MT_TRY(sgd_dataset_borrow(records, NULL, RECORDS, CONTEXT + 1, &r->train));
    MT_TRY(trainer_make(r, &trainer)); /* only to learn the plan */
    struct sgd_group_plan plan = sgd_trainer_plan(&trainer);
    sgd_trainer_fini(&trainer);
    r->bytes = plan.slot_floats * sizeof(float);
    plan.is_wide = true;
    MT_TRY(sgd_group_region_size(&plan, &r->region_size));
    r->net = (struct sgd_group_net){.nodes = NODES, .first = {0, 1, 2}, .group = 1, .secret = "paced"};
    r->timing = shared(sizeof *r->timing);
    for (int n = 0; n < NODES; n++) {
        MT_TRY(coll_door_open(&r->doors[n], &r->net.at[n]));
        r->regions[n] = shared(r->region_size);
        if (!r->regions[n] || !r->timing)
            return mt_error(MT_ENOMEM, 0, "no memory");
    }
    return mt_ok();
}

static void row_print(struct bench *b, const char *id, const char *unit, double value)
{
    struct bench_row row = {.id = id, .unit = unit, .n = STEPS * ROUNDS, .floor = FLOOR_NONE, .value = value};
    bench_print_row(b, &row);
}

static void rows_print(struct bench *b, const struct run *r, const struct timing *lockstep, const struct timing *beside)
{
    double sum_s = lockstep->sum_s, backward_s = lockstep->work_s - lockstep->forward_s;
    double room_s = backward_s < sum_s ? backward_s : sum_s;
    row_print(b, "overlap", "%", (lockstep->step_s - beside->step_s) / sum_s * 100);
    row_print(b, "overlap.bound", "%", (room_s - beside->beside_s) / sum_s * 100);
    row_print(b, "overlap.communication", "ms", sum_s * 1e3);
    row_print(b, "overlap.behind", "ms", (lockstep->step_s - lockstep->work_s) * 1e3);
    row_print(b, "overlap.behind_beside", "ms", (beside->step_s - beside->work_s) * 1e3);
    row_print(b, "overlap.work_beside", "ms", beside->work_s * 1e3);
    row_print(b, "overlap.paced", "ms", (double)r->bytes / PACE * 1e3);
    row_print(b, "overlap.cpu", "ms", beside->beside_s * 1e3);
    row_print(b, "overlap.work", "ms", lockstep->work_s * 1e3);
    row_print(b, "overlap.backward", "ms", backward_s * 1e3);
    row_print(b, "overlap.step", "ms", beside->step_s * 1e3);
}

static void timing_add(struct timing *sum, const struct timing *t)
{
    sum->step_s += t->step_s / ROUNDS;
    sum->work_s += t->work_s / ROUNDS;
    sum->forward_s += t->forward_s / ROUNDS;
    sum->sum_s += t->sum_s / ROUNDS;
    sum->beside_s += t->beside_s / ROUNDS;
}

/* Both ways in turn: the rate of the machine changes by more than what is looked for. */
static bool rounds_run(struct run *r, struct timing *lockstep, struct timing *beside)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct timing t;
        if (!measure(r, true, &t))
            return false;
        timing_add(lockstep, &t);
        if (!measure(r, false, &t))
            return false;
        timing_add(beside, &t);
    }
    return true;
}

void bench_overlap(struct bench *b)
{
    static struct run r; /* ends with the program */
    struct timing     lockstep = {0}, beside = {0};
    uint8_t          *records = malloc((size_t)RECORDS * (CONTEXT + 1));
    mt_status         st = records ? run_init(&r, records) : mt_error(MT_ENOMEM, 0, "no memory");
    if (st.code != MT_OK || !rounds_run(&r, &lockstep, &beside)) {
        fprintf(stderr, "manta-bench-train: overlap could not be measured\n");
        b->failures++;
        return;
    }
    rows_print(b, &r, &lockstep, &beside);
}
