/* SPDX-License-Identifier: Apache-2.0
 *
 * models.c - manta-bench-models: how fast the models train, by the arithmetic alone, and what they learn.
 *
 *   manta-bench-models [-w workers] [-b batch] [-s seconds] [-t text] [-d] [-o table|wide|json] [mlp] [cnn] [gpt]
 *
 * Each worker is a process of one thread; a step is the trainer's own, over shared memory, as in a run, without the
 * cluster around it. mlp and cnn take one epoch of Fashion-MNIST, `batch` samples a worker and step (64), and are then
 * tested; gpt takes `seconds` (10) of windows of a text, 4 a worker and step. The floor is what one large matrix product
 * reaches on each of the workers' cores in the same run.
 *
 * With -d the same steps are made by one worker of one thread, by `workers` of one, and by one of `workers` threads, `seconds`
 * (2) each and three times in turn; the rows are the medians. Thread: one a process, but for that.
 */
#include "tests/bench/bench.h"
#include "tests/bench/usage.h"

#include "sgd/model/cnn.h"
#include "sgd/model/gpt2.h"
#include "sgd/model/mlp.h"
#include "sgd/data/tokens.h"
#include "sgd/train/trainer.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 3, WARM_STEPS = 10, WORKERS_MAX = 64, GPT_BATCH = 4, GPT_TESTS = 100, GEMM_SIDE = 1024, GEMM_MS = 500 };

static struct {
    uint32_t    workers, batch;
    double      seconds; /* 0: as is usual */
    const char *text;
    bool        is_devices;
} options = {.workers = 2, .batch = 64};

/* What the workers tell the parent: one page that they share. */
struct result {
    volatile uint64_t stop_at; /* by rank 0: the last step; 0: not yet */
    uint64_t          steps;   /* that were timed */
    double            seconds;
    struct sgd_result test; /* after the last step */
};

struct bench_model {
    const char *name, *id, *unit;
    mt_status (*data)(bool is_train, struct sgd_dataset *out_set);
    mt_status (*make)(const struct k_ops *ops, uint32_t batch_max, struct sgd_model **out_model);
    double   operations; /* of one sample, forward and backward */
    double   units;      /* in a sample */
    uint32_t batch;      /* 0: as the option says */
    float    rate;
};

static bool complain(mt_status st)
{
    if (st.code != 0)
        fprintf(stderr, "manta-bench-models: %s: %s\n", mt_code_name(st.code), st.what);
    return st.code != 0;
}

/* ---- the models ---- */

static mt_status fashion(bool is_train, struct sgd_dataset *out_set)
{
    return sgd_dataset_load_fashion(NULL, is_train, out_set);
}

static mt_status text(bool is_train, struct sgd_dataset *out_set)
{
    struct sgd_tokens tokens;
    MT_TRY(sgd_tokens_load(options.text, &tokens));
    mt_status st = sgd_dataset_windows(&tokens, 256, is_train, out_set);
    sgd_tokens_fini(&tokens);
    if (!is_train && st.code == 0 && out_set->count > GPT_TESTS)
        out_set->count = GPT_TESTS;
    return st;
}

static mt_status mlp_make(const struct k_ops *ops, uint32_t batch_max, struct sgd_model **out_model)
{
    return sgd_mlp_new(&(struct sgd_mlp_config){.ops = ops, .hidden = {256}, .batch_max = batch_max}, out_model);
}

static mt_status cnn_make(const struct k_ops *ops, uint32_t batch_max, struct sgd_model **out_model)
{
    return sgd_cnn_new(&(struct sgd_cnn_config){.ops = ops, .batch_max = batch_max}, out_model);
}

static mt_status gpt_make(const struct k_ops *ops, uint32_t batch_max, struct sgd_model **out_model)
{
    return sgd_gpt2_new(&(struct sgd_gpt2_config){.ops = ops, .batch_max = batch_max}, out_model);
}

/* Two operations a weight and use; backward twice those of forward, but for the first layer's input. */
#define MLP_OPERATIONS (4.0 * 784 * 256 + 6.0 * 256 * 10)
#define CNN_OPERATIONS (4.0 * 676 * 9 * 32 + 6.0 * 576 * 288 * 64 + 6.0 * (9216 * 128 + 128 * 10))
#define GPT_OPERATIONS (256 * (6.0 * (6 * 12 * 256 * 256 + 256 * 256) + 6.0 * 6 * 256 * 256))

static const struct bench_model models[] = {
    {"mlp", "mnist_mlp", "samples/s", fashion, mlp_make, MLP_OPERATIONS, 1, 0, 0.02f},
    {"cnn", "mnist_cnn", "samples/s", fashion, cnn_make, CNN_OPERATIONS, 1, 0, 0.02f},
    {"gpt", "gpt_cpu", "tokens/s", text, gpt_make, GPT_OPERATIONS, 256, GPT_BATCH, 0.05f},
};
enum { MODELS = sizeof models / sizeof *models };

/* ---- a worker ---- */

static mt_status steps_run(struct sgd_trainer *trainer, struct sgd_group *group, double limit_s, struct result *result)
{
    uint64_t          begun = 0, step;
    struct sgd_result each;

    while (!sgd_trainer_is_done(trainer)) {
        MT_TRY(sgd_train_step(trainer, group, &each));
        step = trainer->state->step;
        if (step == WARM_STEPS)
            begun = bench_now_ns();
        double spent = begun ? (double)(bench_now_ns() - begun) * 1e-9 : 0;
        bool   is_last = sgd_trainer_is_done(trainer) || (result->stop_at && step >= result->stop_at);
        if (group->rank == 0 && is_last) {
            result->steps = step - WARM_STEPS;
            result->seconds = spent;
        }
        if (is_last)
            break;
        /* The others see this before they end the step that rank 0 is about to join. */
        if (group->rank == 0 && limit_s > 0 && spent > limit_s && !result->stop_at)
            result->stop_at = step + 1;
    }
    return mt_ok();
}

struct job {
    const struct bench_model *of;
    uint32_t                  workers, devices;
    double                    limit_s; /* 0: an epoch */
    const struct k_ops       *ops;
    struct sgd_dataset        train, test;
    struct sgd_group_plan     plan;
    void                     *region;
    size_t                    region_size;
    struct result            *result; /* shared */
};

/* Models and trainer are the process's as long as it lives. */
static mt_status trainer_make(const struct job *job, struct sgd_trainer *trainer)
{
    uint32_t                  batch = job->of->batch ? job->of->batch : options.batch;
    struct sgd_model        **made = calloc(job->devices, sizeof *made);
    struct sgd_trainer_config config = {.ops = job->ops,
                                        .train = &job->train,
                                        .seed = 1,
                                        .vranks = options.workers,
                                        .micro_batch = batch,
                                        .epochs = job->limit_s > 0 ? 1000 : 1,
                                        .devices = job->devices,
                                        .optimizer.rate = job->of->rate};
    if (!made)
        return mt_error(MT_ENOMEM, 0, "models");
    for (uint32_t d = 0; d < job->devices; d++)
        MT_TRY(job->of->make(job->ops, batch, &made[d]));
    config.model = made[0];
    config.others = made + 1;
    return sgd_trainer_init(trainer, &config);
}

static mt_status worker(const struct job *job, uint32_t rank)
{
    struct sgd_trainer trainer;
    struct sgd_group   group;
    MT_TRY(trainer_make(job, &trainer));
    struct sgd_group_config join = {.region = job->region,
                                    .region_size = job->region_size,
                                    .plan = job->plan,
                                    .generation = 1,
                                    .rank = rank,
                                    .members = job->workers};
    MT_TRY(sgd_group_join(&group, &join));
    (void)sgd_trainer_begin(&trainer);
    MT_TRY(steps_run(&trainer, &group, job->limit_s, job->result));
    return rank == 0 && !options.is_devices ? sgd_trainer_evaluate(&trainer, &job->test, &job->result->test) : mt_ok();
}

static bool workers_run(const struct job *job)
{
    int  status;
    bool is_good = true;

    fflush(NULL);
    for (uint32_t rank = 0; rank < job->workers; rank++) {
        pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            _exit(complain(worker(job, rank)) ? 1 : 0);
        }
        is_good &= pid > 0;
    }
    while (wait(&status) > 0)
        is_good &= status == 0;
    return is_good;
}

/* ---- the parent ---- */

static double gemm_rate(const struct k_ops *ops)
{
    size_t        count = (size_t)GEMM_SIDE * GEMM_SIDE;
    float        *a = calloc(count, sizeof *a), *c = calloc(count, sizeof *c);
    struct k_gemm gemm = {.m = GEMM_SIDE, .n = GEMM_SIDE, .k = GEMM_SIDE, .a = a, .b = a, .c = c};
    double        done = 0, spent = 0;
    if (a && c) {
        (void)ops->gemm(NULL, &gemm);
        for (uint64_t begun = bench_now_ns(); spent < GEMM_MS * 1e-3; done++) {
            (void)ops->gemm(NULL, &gemm);
            spent = (double)(bench_now_ns() - begun) * 1e-9;
        }
    }
    free(a), free(c);
    return spent > 0 ? done * 2e-9 * GEMM_SIDE * GEMM_SIDE * GEMM_SIDE / spent : 0;
}

static double rate_of(const struct bench_model *of, const struct result *result)
{
    return (double)result->steps * options.workers * (of->batch ? of->batch : options.batch) / result->seconds;
}

static void rows_print(struct bench *b, const struct bench_model *of, const struct result *result)
{
    double           rate = rate_of(of, result), floor = b->floors[FLOOR_GEMM] * options.workers;
    char             id[64];
    struct bench_row row = {
        .id = of->id, .unit = of->unit, .value = rate * of->units, .n = result->steps, .floor = FLOOR_GEMM, .floor_value = floor};

    bench_print_row(b, &row);
    snprintf(id, sizeof id, "%s.gflops", of->id);
    row.id = id, row.unit = "GFLOP/s", row.value = rate * of->operations * 1e-9;
    bench_print_row(b, &row);
    snprintf(id, sizeof id, "%s.%s", of->id, of->batch ? "loss" : "accuracy");
    row = (struct bench_row){.id = id,
                             .unit = of->batch ? "nat" : "share",
                             .n = result->test.samples,
                             .value = (double)(of->batch ? result->test.loss : result->test.accuracy)};
    bench_print_row(b, &row);
}

static mt_status plan_learn(struct job *job)
{
    struct sgd_trainer trainer;
    struct job         alone = *job;
    alone.devices = 1;
    MT_TRY(trainer_make(&alone, &trainer));
    struct sgd_model *model = trainer.config.model;
    job->plan = sgd_trainer_plan(&trainer);
    job->plan.lanes = job->devices;
    sgd_trainer_fini(&trainer);
    model->ops->free(model);
    return sgd_group_region_size(&job->plan, &job->region_size);
}

static mt_status job_run(struct job *job, struct result *out)
{
    MT_TRY(plan_learn(job));
    job->region = mmap(NULL, job->region_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    job->result = mmap(NULL, sizeof *job->result, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (job->region == MAP_FAILED || job->result == MAP_FAILED)
        return mt_error(MT_ENOMEM, 0, "shared memory of the workers");
    bool is_good = workers_run(job);
    *out = *job->result;
    munmap(job->result, sizeof *job->result);
    munmap(job->region, job->region_size);
    return is_good ? mt_ok() : mt_error(MT_EWORKER_DIED, 0, "a worker failed");
}

static mt_status usual_run(struct bench *b, struct job *job)
{
    struct result result;
    job->workers = options.workers;
    job->devices = 1;
    job->limit_s = !job->of->batch ? 0 : options.seconds > 0 ? options.seconds : 10;
    MT_TRY(job_run(job, &result));
    rows_print(b, job->of, &result);
    return mt_ok();
}

/* Workers and threads of each. */
static mt_status devices_run(struct bench *b, struct job *job)
{
    const uint32_t shapes[][2] = {{1, 1}, {options.workers, 1}, {1, options.workers}};
    enum { SHAPES = sizeof shapes / sizeof *shapes };
    struct bench_samples rates[SHAPES];
    struct result        result;

    job->limit_s = options.seconds > 0 ? options.seconds : 2;
    for (int s = 0; s < SHAPES; s++)
        if (!bench_samples_init(&rates[s]))
            return mt_error(MT_ENOMEM, 0, "rates");
    for (int i = 0; i < ROUNDS * SHAPES; i++) {
        job->workers = shapes[i % SHAPES][0];
        job->devices = shapes[i % SHAPES][1];
        MT_TRY(job_run(job, &result));
        bench_samples_add(&rates[i % SHAPES], rate_of(job->of, &result) * job->of->units);
    }
    for (int s = 0; s < SHAPES; s++) {
        char             id[64];
        struct bench_row row = {.id = id, .unit = job->of->unit, .floor = FLOOR_GEMM};
        row.floor_value = b->floors[FLOOR_GEMM] * shapes[s][0] * shapes[s][1];
        snprintf(id, sizeof id, "%s.%ux%u", job->of->id, shapes[s][0], shapes[s][1]);
        if (bench_samples_row(&rates[s], 0.5, &row))
            bench_print_row(b, &row);
    }
    return mt_ok();
}

static bool measure(struct bench *b, const struct k_ops *ops, const struct bench_model *of)
{
    struct job job = {.of = of, .ops = ops};
    mt_status  st = of->data(true, &job.train);
    if (st.code == MT_ENOENT) { /* the package is not there: said, and no failure */
        fprintf(stderr, "manta-bench-models: %s: %s\n", of->id, st.what);
        return true;
    }
    if (st.code == 0)
        st = of->data(false, &job.test);
    if (st.code == 0)
        st = options.is_devices ? devices_run(b, &job) : usual_run(b, &job);
    sgd_dataset_fini(&job.test);
    sgd_dataset_fini(&job.train);
    return !complain(st);
}

static bool options_read(int argc, char **argv, struct bench *b)
{
    for (int o; (o = getopt(argc, argv, "w:b:s:t:do:")) != -1;) {
        if (o == 'w')
            options.workers = (uint32_t)strtoul(optarg, NULL, 10);
        else if (o == 'b')
            options.batch = (uint32_t)strtoul(optarg, NULL, 10);
        else if (o == 's')
            options.seconds = strtod(optarg, NULL);
        else if (o == 't')
            options.text = optarg;
        else if (o == 'd')
            options.is_devices = true;
        else if (o == 'o' && (strcmp(optarg, "json") == 0 || strcmp(optarg, "wide") == 0))
            b->options.output = strcmp(optarg, "json") == 0 ? BENCH_JSON : BENCH_WIDE;
        else if (o != 'o' || strcmp(optarg, "table") != 0)
            return false;
    }
    return options.workers >= 1 && options.workers <= WORKERS_MAX && options.batch >= 1 && options.batch <= 4096 &&
           options.seconds >= 0;
}

static bool is_named(const char *name, int count, char **names)
{
    bool found = count == 0;
    for (int i = 0; i < count; i++)
        found |= strcmp(names[i], name) == 0;
    return found;
}

int main(int argc, char **argv)
{
    static struct bench b;
    const struct k_ops *ops;

    bool is_help = bench_is_help(argc, argv);
    if (is_help || !options_read(argc, argv, &b))
        return bench_usage(is_help,
                           "--models [-w workers] [-b batch] [-s seconds] [-t text] [-d] [-o table|wide|json] [mlp] [cnn] [gpt]");
    if (complain(k_ops_choose(&(struct k_config){.kind = K_CPU}, &ops)))
        return 1;
    b.floors[FLOOR_GEMM] = gemm_rate(ops);
    bench_print_head(&b);
    bool is_good = true;
    for (size_t i = 0; i < MODELS; i++)
        if (is_named(models[i].name, argc - optind, argv + optind))
            is_good &= measure(&b, ops, &models[i]);
    return is_good ? 0 : 1;
}
