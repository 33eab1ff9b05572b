/* SPDX-License-Identifier: Apache-2.0
 *
 * gpt2_trainer_bench.c - row h200_gpt2_trainer: what gpt2_bench.c measures, by the trainer as a worker runs it: guard, sums of
 * virtual ranks, AdamW with a clipped gradient, progress; then what a checkpoint's copy costs.
 *
 *   gpt2_trainer_bench [BATCH [STEPS [LAYERS]]]      64 windows of 1024 tokens, 20 steps, 12 layers
 *
 * Once with the batch as one virtual rank, once as 8 (manta_sgd.h's default). A loss that does not fall is a failure. Exit status
 * 77 without a device. Thread: one.
 */
#include "sgd/model/gpt2.h"
#include "sgd/train/trainer.h"
#include "tests/gpu/bench.h"

#include <math.h>
#include <sys/mman.h>

enum { TIME = 1024, WARM = 3, TOKENS = 50257 };

struct run {
    const struct k_ops *ops, *cpu;
    uint32_t            batch, layers;
    int                 steps;
    struct sgd_dataset  data;
};

struct worker {
    struct sgd_model  *model;
    struct sgd_trainer trainer;
    struct sgd_group   group;
};

/* Skewed, as words are; the batch again and again, which is to be learned by heart. */
static void data_make(struct run *r)
{
    size_t    count = (size_t)r->batch * (TIME + 1);
    uint16_t *tokens = malloc(count * sizeof *tokens);
    for (size_t i = 0; tokens && i < count; i++)
        tokens[i] = (uint16_t)(TOKENS * pow((double)(i * 2654435761u % 1000003u) / 1000003.0, 3.0));
    bench_must(sgd_dataset_borrow((const uint8_t *)tokens, NULL, r->batch, 2 * (TIME + 1), &r->data), "data");
}

static void worker_make(struct worker *w, const struct run *r, uint32_t vranks)
{
    struct sgd_gpt2_config gpt2 = {
        .ops = r->ops, .shape = {r->layers, 768, 12, TIME, TOKENS}, .token_bytes = 2, .batch_max = r->batch / vranks};
    struct sgd_trainer_config config = {
        .ops = r->cpu,
        .train = &r->data,
        .seed = 42,
        .vranks = vranks,
        .micro_batch = r->batch / vranks,
        .epochs = 100000,
        .optimizer = {
            .kind = SGD_ADAMW, .schedule = SGD_CONSTANT, .rate = 6e-4f, .beta2 = 0.95f, .decay = 0.1f, .clip_norm = 1.0f}};
    bench_must(sgd_gpt2_half_new(&gpt2, &w->model), "model");
    config.model = w->model;
    bench_must(sgd_trainer_init(&w->trainer, &config), "trainer");

    struct sgd_group_config group = {.plan = sgd_trainer_plan(&w->trainer), .generation = 1, .members = 1};
    bench_must(sgd_group_region_size(&group.plan, &group.region_size), "region");
    group.region = mmap(NULL, group.region_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (group.region == MAP_FAILED)
        bench_must(mt_error(MT_ENOMEM, 0, "region"), "region");
    bench_must(sgd_group_join(&w->group, &group), "join");
    bench_must(sgd_trainer_begin(&w->trainer), "begin");
    bench_must(sgd_trainer_sync(&w->trainer, &w->group), "sync");
}

static void worker_unmake(struct worker *w)
{
    void  *region = w->group.shm.shared;
    size_t size;
    bench_must(sgd_group_region_size(&w->group.plan, &size), "region");
    sgd_trainer_leave(&w->trainer);
    sgd_group_leave(&w->group);
    sgd_trainer_fini(&w->trainer);
    w->model->ops->free(w->model);
    munmap(region, size);
}

static double step(struct worker *w)
{
    struct sgd_result result;
    bench_must(sgd_train_step(&w->trainer, &w->group, &result), w->trainer.fault[0] ? w->trainer.fault : "step");
    return (double)result.loss;
}

static bool measure(const struct run *r, uint32_t vranks, const char *row)
{
    static struct worker w;
    worker_make(&w, r, vranks);
    double first = step(&w), last = first, begun;
    for (int i = 1; i < WARM; i++)
        last = step(&w);
    begun = bench_now();
    for (int i = 0; i < r->steps; i++)
        last = step(&w);
    bench_must(r->ops->wait(NULL), "wait");
    double seconds = (bench_now() - begun) / r->steps;
    printf("row %s %.0f tokens/s  %.1f ms a step of %u x %d in %u virtual ranks; gate 450000, target 615000\n", row,
           (double)r->batch * TIME / seconds, seconds * 1e3, r->batch, TIME, vranks);
    begun = bench_now();
    bench_must(sgd_resident_pull(&w.trainer), "pull");
    seconds = bench_now() - begun;
    size_t size = w.trainer.state_size - sizeof(struct sgd_state);
    printf("row %s_pull %.1f ms  for a checkpoint of %.0f MB, %.1f GB/s\n", row, seconds * 1e3, (double)size * 1e-6,
           (double)size / seconds * 1e-9);
    bool is_bad = !(last < first - 0.2 && fabs(first - log(TOKENS)) < 1.0);
    if (is_bad)
        printf("FAILED %s: the loss began at %.4f and is %.4f\n", row, first, last);
    worker_unmake(&w);
    return !is_bad;
}

static uint32_t number(int argc, char **argv, int i, uint32_t otherwise)
{
    long value = argc > i ? strtol(argv[i], NULL, 10) : (long)otherwise;
    return value < 1 ? 1 : (uint32_t)value;
}

int main(int argc, char **argv)
{
    struct run r = {.ops = bench_device(false),
                    .batch = number(argc, argv, 1, 64),
                    .layers = number(argc, argv, 3, 12),
                    .steps = (int)number(argc, argv, 2, 20)};
    bench_must(k_ops_choose(&(struct k_config){.kind = K_CPU}, &r.cpu), "CPU");
    data_make(&r);
    bool is_good = measure(&r, 1, "h200_gpt2_trainer");
    if (r.batch % 8 == 0)
        is_good &= measure(&r, 8, "h200_gpt2_trainer_shards8");
    return is_good ? 0 : 1;
}
