/* SPDX-License-Identifier: Apache-2.0
 *
 * pbt_cnn.c - population based training: four networks learn side by side; every few steps the worst copies the weights of one
 * of the best and goes on with other hyperparameters.
 *
 *   pbt_cnn [STEPS]
 *
 * The network is a small convolution over 8 x 8 pictures of bars, lying or standing, under noise; it is written out here so that
 * one sees what a trial saves: its weights and where it is.
 */
#include <manta_sweep.h>

#include <math.h>
#include <stdlib.h>

enum { SIDE = 8, KERNEL = 3, OUT = SIDE - KERNEL + 1, FILTERS = 4, BATCH = 64 };

typedef struct {
    float    kernel[FILTERS][KERNEL * KERNEL], dense[FILTERS], bias;
    uint64_t rng;
} network;

static double uniform(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* A bar in noise; returns whether it lies. */
static int picture(uint64_t *rng, float x[SIDE * SIDE])
{
    int lies = uniform(rng) < 0.5, at = (int)(uniform(rng) * SIDE);
    for (int i = 0; i < SIDE * SIDE; i++)
        x[i] = (float)(uniform(rng) - 0.5) + ((lies ? i / SIDE : i % SIDE) == at ? 0.6f : 0.0f);
    return lies;
}

/* One picture forward and back; adds the gradient, returns the loss. */
static double learn(const network *n, const float *x, int y, network *gradient)
{
    float sum[FILTERS] = {0}, z = n->bias;
    int   where[FILTERS] = {0};
    for (int f = 0; f < FILTERS; f++) {
        float most = -1e9f;
        for (int o = 0; o < OUT * OUT; o++) {
            float s = 0;
            for (int k = 0; k < KERNEL * KERNEL; k++)
                s += n->kernel[f][k] * x[(o / OUT + k / KERNEL) * SIDE + o % OUT + k % KERNEL];
            if (s > most)
                most = s, where[f] = o;
        }
        sum[f] = tanhf(most);
        z += n->dense[f] * sum[f];
    }
    float p = 1 / (1 + expf(-z)), dz = p - (float)y;
    for (int f = 0; f < FILTERS; f++) {
        float ds = dz * n->dense[f] * (1 - sum[f] * sum[f]);
        gradient->dense[f] += dz * sum[f];
        for (int k = 0; k < KERNEL * KERNEL; k++)
            gradient->kernel[f][k] += ds * x[(where[f] / OUT + k / KERNEL) * SIDE + where[f] % OUT + k % KERNEL];
    }
    gradient->bias += dz;
    return -log(fmax(y ? p : 1 - p, 1e-7));
}

static double step(network *n, double lr, double decay)
{
    network gradient = {0};
    float   x[SIDE * SIDE], *w = &n->kernel[0][0], *g = &gradient.kernel[0][0];
    double  loss = 0;
    for (int i = 0; i < BATCH; i++) {
        int y = picture(&n->rng, x);
        loss += learn(n, x, y, &gradient) / BATCH;
    }
    for (int i = 0; i < FILTERS * KERNEL * KERNEL; i++)
        w[i] -= (float)(lr * (g[i] / BATCH + decay * w[i]));
    for (int f = 0; f < FILTERS; f++)
        n->dense[f] -= (float)(lr * (gradient.dense[f] / BATCH + decay * n->dense[f]));
    n->bias -= (float)(lr * gradient.bias / BATCH);
    return loss;
}

static manta_status trial(manta_trial *t)
{
    network n = {.rng = manta_trial_seed(t)};
    int64_t i = manta_trial_load(t, &n, sizeof n), wanted = manta_trial_i64(t, "steps");
    for (int k = 0; i == 0 && k < FILTERS * KERNEL * KERNEL; k++)
        n.kernel[k / (KERNEL * KERNEL)][k % (KERNEL * KERNEL)] = (float)(uniform(&n.rng) - 0.5);
    for (int f = 0; i == 0 && f < FILTERS; f++)
        n.dense[f] = (float)(uniform(&n.rng) - 0.5);
    while (i < wanted) {
        double loss = 0;
        for (int k = 0; k < 20; k++)
            loss += step(&n, manta_trial_f64(t, "lr"), manta_trial_f64(t, "decay")) / 20;
        i++;
        manta_trial_save(t, i, &n, sizeof n);
        if (manta_trial_report(t, i, "loss", loss) == MANTA_TRIAL_STOP)
            break;
    }
    return MANTA_OK;
}
MANTA_TRIAL(trial);

int main(int argc, char **argv)
{
    manta_error        e;
    manta_sweep_result r;
    if (manta_init(&argc, &argv, NULL, &e))
        return manta_perror(&e);
    if (manta_sweep_run("trial",
                        &(manta_sweep_opts){.name = "pbt",
                                            .metric = "loss",
                                            .mode = MANTA_SWEEP_MIN,
                                            .trials = 4,
                                            .concurrency = 2,
                                            .scheduler = "pbt",
                                            .scheduler_opts = "interval=5",
                                            .seed = 1,
                                            .space = MANTA_SWEEP_SPACE(MANTA_SWEEP_LOG_UNIFORM("lr", 1e-4, 1),
                                                                       MANTA_SWEEP_LOG_UNIFORM("decay", 1e-6, 1e-1),
                                                                       MANTA_SWEEP_CONST("steps", argc > 1 ? argv[1] : "40"))},
                        &r, &e))
        return manta_perror(&e);
    printf("best loss %.4f: trial %lld %s\n", r.best, (long long)r.best_trial, r.params_json);
    return manta_shutdown();
}
