/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_train.c - not a test: trains the MLP or, with -c, the CNN on Fashion-MNIST and prints accuracy per epoch
 * and samples per second.
 *
 *   bench_train [-c] [-e epochs] [-w workers] [-H hidden] [-r rate] [-d decay]
 *               [-v vranks] [-m micro_batch] [-u warmup] [-s seed]
 */
#include "sgd/model/cnn.h"
#include "sgd/model/mlp.h"
#include "sgd/train/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct options {
    struct sgd_trainer_config trainer;
    uint32_t                  workers, hidden;
    bool                      is_cnn;
};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void check(mt_status st)
{
    if (st.code == 0)
        return;
    fprintf(stderr, "%s: %s\n", mt_code_name(st.code), st.what);
    _exit(1);
}

static struct sgd_model *model_make(const struct options *options, uint32_t batch_max)
{
    struct sgd_mlp_config config = {.ops = options->trainer.ops, .hidden = {options->hidden}, .batch_max = batch_max};
    struct sgd_cnn_config cnn = {.ops = options->trainer.ops, .batch_max = batch_max};
    struct sgd_model     *model;
    check(options->is_cnn ? sgd_cnn_new(&cnn, &model) : sgd_mlp_new(&config, &model));
    return model;
}

/* Prints what one epoch came to, by rank 0. */
static void epoch_report(struct sgd_trainer *trainer, const struct sgd_dataset *test, double loss, double spent, uint64_t samples)
{
    struct sgd_result result;
    check(sgd_trainer_evaluate(trainer, test, &result));
    printf("step %6llu  train loss %.4f  test accuracy %.4f  %.0f samples/s\n", (unsigned long long)trainer->state->step, loss,
           (double)result.accuracy, (double)samples / spent);
    fflush(stdout);
}

static void worker(const struct options *options, const struct sgd_dataset *test, void *region, size_t size, uint32_t rank)
{
    struct sgd_trainer_config config = options->trainer;
    struct sgd_trainer        trainer;
    struct sgd_group          group;
    config.model = model_make(options, config.micro_batch > 250 ? config.micro_batch : 250);
    check(sgd_trainer_init(&trainer, &config));
    struct sgd_group_config join = {.region = region,
                                    .region_size = size,
                                    .plan = sgd_trainer_plan(&trainer),
                                    .generation = 1,
                                    .rank = rank,
                                    .members = options->workers};
    check(sgd_group_join(&group, &join));
    (void)sgd_trainer_begin(&trainer);

    double   start = seconds(), loss = 0;
    uint64_t epoch_steps = trainer.steps_total / config.epochs, samples = 0;
    while (!sgd_trainer_is_done(&trainer)) {
        struct sgd_result result;
        check(sgd_train_step(&trainer, &group, &result));
        loss += (double)result.loss;
        samples += result.samples;
        if (trainer.state->step % epoch_steps)
            continue;
        if (rank == 0)
            epoch_report(&trainer, test, loss / (double)epoch_steps, seconds() - start, samples);
        check(sgd_group_barrier(&group));
        start = seconds(), loss = 0, samples = 0;
    }
    sgd_trainer_fini(&trainer);
    config.model->ops->free(config.model);
}

static double number_read(const char *text)
{
    char  *end;
    double value = strtod(text, &end);
    if (end == text || *end || value < 0 || value > 1e9) {
        fprintf(stderr, "bench_train: not a number in range: %s\n", text);
        exit(2);
    }
    return value;
}

static void options_read(int argc, char **argv, struct options *options)
{
    struct sgd_trainer_config *trainer = &options->trainer;
    int                        o;
    while ((o = getopt(argc, argv, "ce:w:H:r:d:v:m:u:s:")) != -1) {
        double value = o == '?' || o == 'c' ? 0 : number_read(optarg);
        switch (o) {
        case 'c': options->is_cnn = true; break;
        case 'e': trainer->epochs = (uint32_t)value; break;
        case 'w': options->workers = (uint32_t)value; break;
        case 'H': options->hidden = (uint32_t)value; break;
        case 'r': trainer->optimizer.rate = (float)value; break;
        case 'd': trainer->optimizer.decay = (float)value; break;
        case 'v': trainer->vranks = (uint32_t)value; break;
        case 'm': trainer->micro_batch = (uint32_t)value; break;
        case 'u': trainer->optimizer.warmup = (uint64_t)value; break;
        case 's': trainer->seed = (uint64_t)value; break;
        default: exit(2);
        }
    }
}

int main(int argc, char **argv)
{
    struct options options = {
        .trainer = {.seed = 1, .vranks = 8, .micro_batch = 8, .epochs = 5, .optimizer.rate = 0.02f}, .workers = 1, .hidden = 256};
    struct k_config    kernels = {.kind = K_CPU};
    struct sgd_dataset train, test;
    struct sgd_trainer trainer;
    size_t             size;

    options_read(argc, argv, &options);
    check(k_ops_choose(&kernels, &options.trainer.ops));
    double start = seconds();
    check(sgd_dataset_load_fashion(NULL, true, &train));
    check(sgd_dataset_load_fashion(NULL, false, &test));
    printf("%s, core %s; data loaded in %.3f s\n", options.trainer.ops->name, k_blas_core(), seconds() - start);
    options.trainer.train = &train;

    options.trainer.model = model_make(&options, options.trainer.micro_batch);
    check(sgd_trainer_init(&trainer, &options.trainer));
    struct sgd_group_plan plan = sgd_trainer_plan(&trainer);
    check(sgd_group_region_size(&plan, &size));
    void *region = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (region == MAP_FAILED)
        return 1;
    printf("%zu parameters, %llu steps of %u x %u samples, %u workers, region %zu bytes\n", options.trainer.model->params.floats,
           (unsigned long long)trainer.steps_total, options.trainer.vranks, options.trainer.micro_batch, options.workers, size);
    sgd_trainer_fini(&trainer);
    options.trainer.model->ops->free(options.trainer.model);
    fflush(stdout);

    for (uint32_t rank = 0; rank < options.workers; rank++) {
        if (fork() == 0) {
            worker(&options, &test, region, size, rank);
            _exit(0);
        }
    }
    int status, failed = 0;
    while (wait(&status) > 0)
        failed |= status;
    sgd_dataset_fini(&train);
    sgd_dataset_fini(&test);
    return failed ? 1 : 0;
}
