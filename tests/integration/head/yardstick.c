/* SPDX-License-Identifier: Apache-2.0
 *
 * yardstick.c - what a user writes to submit a job from anywhere and follow it: the whole program.
 */
#include <manta_client.h>

static int line(void *user, const manta_log *l)
{
    (void)user;
    return fwrite(l->text, 1, l->len, stdout) != l->len;
}

int main(void)
{
    manta_error    e;
    manta_job_info j;
    manta_client  *c = manta_client_open(NULL, &e);
    if (!c)
        return manta_perror(&e);
    manta_job job = {.id = manta_job_new_id(),
                     .argv = (const char *[]){"./trainer", "--epochs", "5", NULL},
                     .files = (const char *[]){"trainer", "data/", NULL},
                     .time_s = 3600,
                     .retries = 2};
    if (manta_job_submit(c, &job, &e))
        return manta_perror(&e);
    if (manta_job_follow(c, job.id, line, NULL, &e))
        return manta_perror(&e);
    if (manta_job_wait(c, job.id, MANTA_FOREVER, &j, &e))
        return manta_perror(&e);
    fprintf(stderr, "%s: %s\n", j.state, j.reason);
    manta_client_close(c);
    return j.exit_code;
}
