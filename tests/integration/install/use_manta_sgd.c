/* SPDX-License-Identifier: Apache-2.0
 *
 * use_manta_sgd.c - a stranger's program: it asks for a training run whose data is not there, and is told which package
 * has it.
 */
#include <manta_sgd.h>

#include <string.h>

int main(int argc, char **argv)
{
    manta_error    e;
    manta_sgd_opts opts = {.scaling = {.max_workers = 2}, .config = (const char *[]){"data=/nowhere", NULL}};
    if (manta_init(&argc, &argv, NULL, &e))
        return manta_perror(&e);
    if (manta_sgd_fit("mlp", &opts, NULL, &e) != MANTA_ENOENT || !strstr(e.message, "dataset-fashion-mnist"))
        return manta_perror(&e), 1;
    return manta_shutdown();
}
