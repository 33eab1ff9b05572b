/* SPDX-License-Identifier: Apache-2.0
 *
 * train_fashion_mnist.c - trains a classifier on Fashion-MNIST with several worker processes, and survives their death.
 *
 *   train_fashion_mnist --workers 2 --epochs 5
 *   train_fashion_mnist --nodes 1:4 --epochs 50    on a cluster that grows by itself: a worker on each of so many nodes
 *   train_fashion_mnist --workers 2 --storage /tmp/checkpoints --name mine     goes on where it was, when started again
 *
 * Kill a worker while it runs (kill -9, its pid stands in the output): the training goes on, and ends with the same
 * weights. Without MANTA_ADDRESS it brings its own cluster; as a submitted job it uses the one that it runs in.
 */
#include <manta_sgd.h>

#include <stdlib.h>
#include <string.h>

static int on_event(void *user, const manta_sgd_event *event)
{
    (void)user;
    printf("%s\n", event->text);
    fflush(stdout);
    return 0;
}

static char        config_texts[2][512];
static const char *config[3]; /* what the operator asks for */

static void config_add(const char *name, const char *value)
{
    int at = config[0] && strncmp(config[0], name, strlen(name)) ? 1 : 0;
    snprintf(config_texts[at], sizeof config_texts[at], "%s=%s", name, value);
    config[at] = config_texts[at];
}

static int usage(const char *program)
{
    fprintf(stderr,
            "usage: %s [--workers N] [--min-workers N] [--nodes MIN:MAX] [--spares N] [--epochs N]\n"
            "          [--hidden WIDTHS] [--batch N] [--lr RATE] [--seed N]\n"
            "          [--data FOLDER] [--storage FOLDER] [--name NAME] [--checkpoint-steps N] [--max-failures N]\n",
            program);
    return 2;
}

/* "MIN:MAX" nodes, with a worker on each, which holds a CPU there. */
static void nodes_read(const char *text, char **end, manta_sgd_opts *o)
{
    o->scaling.min_workers = (int)strtol(text, end, 10);
    if (**end == ':')
        o->scaling.max_workers = o->scaling.nodes = o->run.shards = (int)strtol(*end + 1, end, 10);
    o->scaling.cpus = 1;
}

/* Reads "--option value" pairs. */
static int options_read(int argc, char **argv, manta_sgd_opts *o)
{
    for (int i = 1; i < argc; i += 2) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        char       *end = "";
        if (!value)
            return 0;
        if (!strcmp(name, "--workers"))
            o->scaling.max_workers = (int)strtol(value, &end, 10);
        else if (!strcmp(name, "--min-workers"))
            o->scaling.min_workers = (int)strtol(value, &end, 10);
        else if (!strcmp(name, "--nodes"))
            nodes_read(value, &end, o);
        else if (!strcmp(name, "--spares"))
            o->scaling.spares = (int)strtol(value, &end, 10);
        else if (!strcmp(name, "--epochs"))
            o->run.epochs = (int)strtol(value, &end, 10);
        else if (!strcmp(name, "--hidden"))
            config_add("hidden", value);
        else if (!strcmp(name, "--batch"))
            o->run.batch = (int)strtol(value, &end, 10);
        else if (!strcmp(name, "--lr"))
            o->optimizer.lr = strtod(value, &end);
        else if (!strcmp(name, "--seed"))
            o->seed = strtoull(value, &end, 10);
        else if (!strcmp(name, "--data"))
            config_add("data", value);
        else if (!strcmp(name, "--storage"))
            o->run.storage = value;
        else if (!strcmp(name, "--name"))
            o->run.name = value;
        else if (!strcmp(name, "--checkpoint-steps"))
            o->checkpoint.every_steps = strtoll(value, &end, 10);
        else if (!strcmp(name, "--max-failures"))
            o->failure.max_failures = (int)strtol(value, &end, 10);
        else
            return 0;
        if (*end)
            return 0;
    }
    return 1;
}

int main(int argc, char **argv)
{
    manta_error      e;
    manta_sgd_result r;
    manta_sgd_opts   opts = {
          .scaling.max_workers = 2, .run.epochs = 5, .failure.max_failures = -1, .config = config, .on_event = on_event};

    if (manta_init(&argc, &argv, NULL, &e))
        return manta_perror(&e);
    if (!options_read(argc, argv, &opts))
        return usage(argv[0]);
    if (manta_sgd_fit("mlp", &opts, &r, &e))
        return manta_perror(&e);
    printf("test accuracy=%.4f loss=%.4f steps=%lld weights=%016llx\n", r.accuracy, r.loss, (long long)r.steps,
           (unsigned long long)r.weights);
    printf("%d restarts, slowest %.1f ms, %.1f s in all\n", r.restarts, r.slowest_s * 1e3, r.wall_s);
    return manta_shutdown();
}
