/* SPDX-License-Identifier: Apache-2.0
 *
 * byhand.c - data-parallel SGD as one writes it who needs nothing but speed. Owns: its processes and shared memory.
 */
#include "tests/bench/train/byhand.h"

#include "sgd/model/mlp.h"
#include "sgd/data/sampler.h"
#include "tests/bench/bench.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SHARES = 8 };

struct shared {
    pthread_barrier_t barrier;
    _Atomic uint64_t  begun_ns, ended_ns;
    _Alignas(64) float slots[]; /* a gradient for each share, then their sum */
};

struct loop {
    const struct k_ops *ops;
    struct sgd_model   *model;
    struct sgd_dataset  train;
    struct sgd_sampler  sampler;
    struct shared      *shared;
    float              *params, *velocity;
    uint8_t            *records, *labels;
    uint64_t           *indices, steps;
    int                 rank, workers;
    size_t              floats, stride;
};

static bool step(struct loop *l, uint64_t s)
{
    uint32_t     micro = l->sampler.micro_batch;
    float        metrics[SGD_METRICS], *sum = l->shared->slots + SHARES * l->stride;
    const float *in[SHARES];
    size_t   begin = l->floats * (size_t)l->rank / (size_t)l->workers, end = l->floats * (size_t)(l->rank + 1) / (size_t)l->workers;
    uint64_t size = sgd_sampler_step_size(&l->sampler);

    for (int v = SHARES * l->rank / l->workers; v < SHARES * (l->rank + 1) / l->workers; v++) {
        struct sgd_batch batch = {.records = l->records, .labels = l->labels, .count = micro, .record_size = l->train.record_size};
        sgd_sampler_batch(&l->sampler, s * size, (uint32_t)v, l->indices);
        sgd_dataset_gather(&l->train, l->indices, micro, l->records, l->labels);
        if (l->model->ops
                ->gradient(l->model, l->params, &batch, 1.0f / (float)size, l->shared->slots + (size_t)v * l->stride, metrics)
                .code)
            return false;
    }
    pthread_barrier_wait(&l->shared->barrier);
    for (int v = 0; v < SHARES; v++)
        in[v] = l->shared->slots + (size_t)v * l->stride + begin;
    if (l->ops->tree_sum(NULL, in, SHARES, end - begin, sum + begin).code)
        return false;
    pthread_barrier_wait(&l->shared->barrier);
    float        rate = (float)(0.01 * (1 + cos(3.14159265358979 * (double)s / (double)l->steps)));
    struct k_sgd update = {l->params, l->velocity, sum, l->floats, rate, 0.9f, 0};
    return l->ops->sgd_update(NULL, &update).code == 0;
}

static void run(struct loop *l)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pthread_barrier_wait(&l->shared->barrier);
    uint64_t begun = bench_now_ns();
    for (uint64_t s = 0; s < l->steps; s++)
        if (!step(l, s))
            _exit(1);
    atomic_store(&l->shared->begun_ns, begun);
    atomic_store(&l->shared->ended_ns, bench_now_ns());
    _exit(0);
}

static bool loop_init(struct loop *l, int workers, int batch, int epochs)
{
    struct sgd_mlp_config mlp = {.hidden = {256}, .batch_max = (uint32_t)batch / SHARES};
    if (k_ops_choose(&(struct k_config){.kind = K_CPU}, &l->ops).code || sgd_dataset_load_fashion(NULL, true, &l->train).code)
        return false;
    mlp.ops = l->ops;
    if (sgd_mlp_new(&mlp, &l->model).code)
        return false;
    l->floats = l->model->params.floats;
    l->stride = (l->floats + 15) / 16 * 16;
    l->workers = workers;
    l->sampler = (struct sgd_sampler){.seed = 1, .records = l->train.count, .vranks = SHARES, .micro_batch = mlp.batch_max};
    l->steps = l->train.count * (uint64_t)epochs / (uint64_t)batch;
    l->params = calloc(l->floats, sizeof(float));
    l->velocity = calloc(l->floats, sizeof(float));
    l->records = malloc((size_t)batch * l->train.record_size);
    l->labels = malloc((size_t)batch);
    l->indices = malloc((size_t)batch * sizeof(uint64_t));
    l->shared = mmap(NULL, sizeof *l->shared + (SHARES + 1) * l->stride * sizeof(float), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!l->params || !l->velocity || !l->records || !l->labels || !l->indices || l->shared == MAP_FAILED)
        return false;
    pthread_barrierattr_t shared;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&l->shared->barrier, &shared, (unsigned)workers);
    l->model->ops->init(l->model, 1, l->params);
    return true;
}

double train_byhand(int workers, int batch, int epochs)
{
    static struct loop l; /* ends with the program */
    bool               ok = loop_init(&l, workers, batch, epochs);
    pid_t              pids[SHARES];
    for (l.rank = 0; ok && l.rank < workers; l.rank++) {
        pids[l.rank] = fork();
        if (pids[l.rank] == 0)
            run(&l);
        ok = pids[l.rank] > 0;
    }
    for (int r = 0, status = 0; ok && r < workers; r++)
        ok = waitpid(pids[r], &status, 0) == pids[r] && status == 0;
    uint64_t ns = ok ? l.shared->ended_ns - l.shared->begun_ns : 0;
    return ns ? (double)l.steps * batch / ((double)ns * 1e-9) : 0;
}
