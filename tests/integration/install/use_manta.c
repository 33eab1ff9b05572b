/* SPDX-License-Identifier: Apache-2.0
 *
 * use_manta.c - a stranger's program: one task, run by another process of a private cluster.
 */
#include <manta.h>
#include <stdio.h>

MANTA_TASK(double, scale, (double, x), (int64_t, n))
{
    return x * (double)n;
}

int main(int argc, char **argv)
{
    manta_error e;
    if (manta_init(&argc, &argv, NULL, &e))
        return manta_perror(&e);

    manta_ref   *ref = scale_remote(NULL, 2.0, 21);
    double       y = 0;
    manta_status failed = manta_get_f64(ref, 30 * 1000, &y, &e);
    manta_free(ref);
    if (failed)
        return manta_perror(&e);
    printf("%g\n", y);
    return manta_shutdown() || y != 42.0;
}
