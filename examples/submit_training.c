/* SPDX-License-Identifier: Apache-2.0
 *
 * submit_training.c - submits a training program to a cluster with its arguments, shows its output while it runs, and
 * ends with its exit code.
 *
 *   submit_training [ARGUMENT...]        arguments for train_fashion_mnist, the program beside this one
 *   submit_training --again JOB          follows one that was submitted before, from its beginning
 *
 * On a cluster that grows by itself (manta up examples/cluster.yaml) `submit_training --nodes 1:4 --epochs 50` begins with one
 * worker on the first node that comes, and asks for more as long as they make it quicker. This program may be killed, and the
 * machine that it runs on be off: the training goes on, and `--again` shows what was missed.
 *
 * The cluster: MANTA_ADDRESS, or the one that `manta start --head` has started on this machine.
 */
#include <manta_client.h>

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 63 };
static const char trainer[] = "train_fashion_mnist";

static int line(void *user, const manta_log *l)
{
    (void)user;
    return fwrite(l->text, 1, l->len, stdout) != l->len || fflush(stdout) != 0;
}

/* Path of the trainer: it lies where this program lies. */
static int find_trainer(char out[PATH_MAX])
{
    ssize_t size = readlink("/proc/self/exe", out, PATH_MAX - 1);
    out[size > 0 ? size : 0] = '\0';
    char *slash = strrchr(out, '/');
    if (!slash || (size_t)(slash - out) + sizeof trainer + 1 > PATH_MAX)
        return -1;
    memcpy(slash + 1, trainer, sizeof trainer);
    return access(out, R_OK);
}

/* Its id; NULL: it could not be submitted. */
static const char *submit(manta_client *c, int argc, char **argv)
{
    char        path[PATH_MAX];
    const char *command[ARGUMENTS_MAX + 2] = {"./train_fashion_mnist"};
    manta_error e;
    if (find_trainer(path)) {
        fprintf(stderr, "submit_training: there is no %s beside this program\n", trainer);
        return NULL;
    }
    for (int i = 1; i < argc && i <= ARGUMENTS_MAX; i++)
        command[i] = argv[i];
    manta_job job = {.id = manta_job_new_id(), /* ours, so a retry is safe */
                     .name = "train Fashion-MNIST",
                     .argv = command,
                     .files = (const char *[]){path, NULL},
                     .time_s = 3600};
    if (manta_job_submit(c, &job, &e)) {
        manta_perror(&e);
        return NULL;
    }
    fprintf(stderr, "submitted %s\n", job.id);
    return job.id;
}

int main(int argc, char **argv)
{
    manta_error    e;
    manta_job_info j;
    manta_client  *c = manta_client_open(NULL, &e);
    if (!c)
        return manta_perror(&e);
    const char *id = argc == 3 && strcmp(argv[1], "--again") == 0 ? argv[2] : submit(c, argc, argv);
    if (!id)
        return 1;
    if (manta_job_follow(c, id, line, NULL, &e)) /* reconnects by itself */
        return manta_perror(&e);
    if (manta_job_wait(c, id, MANTA_FOREVER, &j, &e))
        return manta_perror(&e);
    fprintf(stderr, "%s: %s%s%s\n", j.id, j.state, j.reason[0] ? ": " : "", j.reason);
    manta_client_close(c);
    return strcmp(j.state, "SUCCEEDED") == 0 ? 0 : j.exit_code ? j.exit_code : 1;
}
