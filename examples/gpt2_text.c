/* SPDX-License-Identifier: Apache-2.0
 *
 * gpt2_text.c - trains a small GPT-2 on a text, each byte a token: by default on that of Debian's package bible-kjv-text.
 *
 *   gpt2_text [--text FILE] [--workers N] [--steps N] [--layers N] [--width N] [--heads N] [--context N] [--batch N]
 *             [--storage FOLDER] [--detached]
 *
 * It goes on from the newest checkpoint in FOLDER where there is one. With --detached, in a cluster (MANTA_ADDRESS), the run
 * outlives this program: started again with the same words, it finds it and shows how it goes.
 */
#include <manta_sgd.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 256, PAIRS = 6 };

struct words {
    const char *name;
    long        value;
};

static int on_event(void *user, const manta_sgd_event *event)
{
    const long *steps = user;
    if (event->kind == MANTA_SGD_STEP)
        printf("step %lld of %lld: loss %.3f, %.0f windows/s, %.1f %% waiting for data\n", (long long)event->step,
               (long long)event->steps, event->loss, event->samples_per_s, event->data_wait * 100);
    else
        printf("%s\n", event->text);
    fflush(stdout);
    return *steps && event->kind == MANTA_SGD_STEP && event->step >= *steps;
}

static struct words words[] = {{"workers", 2}, {"steps", 0}, {"batch", 16},  {"layers", 4},
                               {"width", 128}, {"heads", 4}, {"context", 64}};
enum { WORKERS, STEPS, BATCH, MODEL, WORDS = sizeof words / sizeof *words };

static const char *text, *storage;
static bool        is_detached;

static bool words_read(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        int w = 0;
        if (strcmp(argv[i], "--detached") == 0) {
            is_detached = true;
            continue;
        }
        if (strncmp(argv[i], "--", 2) != 0 || i + 1 == argc)
            return false;
        while (w < WORDS && strcmp(words[w].name, argv[i] + 2) != 0)
            w++;
        if (w < WORDS)
            words[w].value = strtol(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--text") == 0)
            text = argv[++i];
        else if (strcmp(argv[i], "--storage") == 0)
            storage = argv[++i];
        else
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    char             texts[PAIRS][TEXT];
    const char      *config[PAIRS + 1] = {NULL};
    int              pairs = 0;
    manta_error      e;
    manta_sgd_result r;
    if (manta_init(&argc, &argv, NULL, &e))
        return manta_perror(&e);
    if (!words_read(argc, argv))
        return fprintf(stderr,
                       "usage: %s [--text FILE] [--workers N] [--steps N] [--layers N] [--width N] [--heads N]\n"
                       "          [--context N] [--batch N] [--storage FOLDER] [--detached]\n",
                       argv[0]),
               2;
    for (int w = MODEL; w < WORDS; w++, pairs++)
        snprintf(texts[pairs], TEXT, "%s=%ld", words[w].name, words[w].value);
    if (text)
        snprintf(texts[pairs++], TEXT, "data=%s", text);
    for (int i = 0; i < pairs; i++)
        config[i] = texts[i];
    manta_sgd_opts opts = {
        .scaling = {.min_workers = 1, .max_workers = (int)words[WORKERS].value},
        .run = {.name = "gpt2", .storage = storage, .batch = (int)words[BATCH].value, .log_steps = 10, .detached = is_detached},
        .failure = {.max_failures = -1},
        .optimizer = {.kind = MANTA_SGD_ADAMW, .lr = 1e-3, .warmup_steps = 20, .clip_norm = 1},
        .config = config,
        .seed = 1,
        .on_event = on_event,
        .user = &words[STEPS].value};
    if (manta_sgd_fit("gpt2", &opts, &r, &e))
        return manta_perror(&e);
    printf("%lld steps, loss %.3f (%.2f bits a byte), %d restarts\n", (long long)r.steps, r.loss, r.loss / log(2), r.restarts);
    return manta_shutdown();
}
