/* SPDX-License-Identifier: Apache-2.0
 *
 * custom_operator.c - trains a model of one's own: three functions and a name. Workers that die are replaced, and the result
 * is the same to the bit.
 *
 *   custom_operator               makes its data and keeps its checkpoints in a new folder in /tmp
 *   custom_operator FOLDER        the same in that one, where a run that was ended goes on
 *
 * The model is a linear regression: each record has 15 inputs and the value that belongs to them.
 */
#include <manta_sgd.h>

#include <stdlib.h>
#include <string.h>

/* ---- the operator ---- */

typedef struct {
    float  *w, *g;
    int64_t n;
} model;

/* The batch's mean squared error, and its gradient added to g. */
static double forward_backward(const float *w, float *g, int64_t n, const float *record, int64_t count)
{
    double loss = 0;
    for (int64_t r = 0; r < count; r++, record += n + 1) {
        float error = -record[n];
        for (int64_t i = 0; i < n; i++)
            error += w[i] * record[i];
        for (int64_t i = 0; g && i < n; i++)
            g[i] += 2 * error * record[i] / (float)count;
        loss += (double)(error * error);
    }
    return loss / (double)count;
}

static manta_status setup(manta_sgd *t, void **self)
{
    model *m = *self = manta_sgd_alloc(t, sizeof *m);
    m->n = manta_sgd_conf_i64(t, "n", 15);
    manta_sgd_param(t, "w", MANTA_SGD_F32, 1, &m->n, &m->w, &m->g); /* named once: broadcast, reduced, saved, re-sharded */
    return manta_sgd_data(t, manta_sgd_conf_str(t, "data", "train.bin"),
                          &(manta_sgd_data_opts){.record = 4 * (m->n + 1), .shuffle = true});
}

static manta_status batch(manta_sgd *t, void *self, const manta_sgd_batch *b)
{
    model *m = self;
    return manta_sgd_metric(t, "loss", forward_backward(m->w, m->g, m->n, b->data, b->count));
}
MANTA_SGD_OPERATOR(mymodel, .setup = setup, .train_batch = batch);

/* ---- a run ---- */

static int data_write(const char *path)
{
    FILE    *f = fopen(path, "wb");
    unsigned state = 1;
    for (int r = 0; f && r < 8192; r++) {
        float record[16] = {0};
        for (int i = 0; i < 15; i++) {
            state = state * 1664525u + 1013904223u;
            record[i] = (float)(state >> 16) / 65536 - 0.5f;
            record[15] += record[i] * (float)(i - 7);
        }
        fwrite(record, sizeof record, 1, f);
    }
    return f ? fclose(f) : -1;
}

int main(int argc, char **argv)
{
    char             made[] = "/tmp/custom_operator-XXXXXX", data[4096];
    manta_error      e;
    manta_sgd_result r;
    if (manta_init(&argc, &argv, NULL, &e))
        return manta_perror(&e);
    const char *folder = argc > 1 ? argv[1] : mkdtemp(made);
    if (!folder || snprintf(data, sizeof data, "data=%s/train.bin", folder) < 0 || data_write(data + strlen("data=")))
        return perror(argc > 1 ? argv[1] : made), 1;
    if (manta_sgd_fit("mymodel",
                      &(manta_sgd_opts){.scaling = {.min_workers = 1, .max_workers = 4, .spares = 1},
                                        .run = {.name = "demo", .storage = folder, .epochs = 5, .batch = 256},
                                        .failure = {.max_failures = 3},
                                        .checkpoint = {.every_s = 30, .keep = 2},
                                        .optimizer = {MANTA_SGD_ADAMW, .lr = 0.3},
                                        .config = (const char *[]){data, NULL}},
                      &r, &e))
        return manta_perror(&e);
    printf("loss %g, %d restarts, slowest %g s\n", r.loss, r.restarts, r.slowest_s);
    return manta_shutdown();
}
