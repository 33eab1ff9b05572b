/* SPDX-License-Identifier: Apache-2.0
 *
 * device_sum.c - sums between GPUs: this build has none, so they go through the host's slots. Owns nothing. Thread: any.
 */
#include "sgd/device_sum.h"

#include <stdio.h>

static mt_status none(void)
{
    return mt_error(MT_EUNSUPPORTED, 0, "sums between GPUs are not part of this build");
}

mt_status sgd_device_sum_new(const struct k_ops *ops, int device, struct sgd_device_sum **out, char text[256])
{
    (void)ops, (void)device, (void)out;
    snprintf(text, 256, "%s", none().what);
    return none();
}

void sgd_device_sum_beats(struct sgd_device_sum *s, void (*beat)(void *user), void *user)
{
    (void)s, (void)beat, (void)user;
}

mt_status sgd_device_sum_join(struct sgd_device_sum *s, struct sgd_group *group)
{
    (void)s, (void)group;
    return none();
}

mt_status sgd_device_sum_begin(struct sgd_device_sum *s, struct sgd_group *group)
{
    return sgd_device_sum_join(s, group);
}

mt_status sgd_device_sum_ready(struct sgd_device_sum *s, struct sgd_group *group, bool *out_is_ready)
{
    *out_is_ready = false;
    return sgd_device_sum_join(s, group);
}

mt_status sgd_device_sum_run(struct sgd_device_sum *s, struct sgd_group *group, const float *const *pieces, uint32_t count,
                             size_t floats, float *out)
{
    (void)s, (void)group, (void)pieces, (void)count, (void)floats, (void)out;
    return none();
}

void sgd_device_sum_leave(struct sgd_device_sum *s)
{
    (void)s;
}

bool sgd_device_sum_is_stuck(const struct sgd_device_sum *s)
{
    (void)s;
    return false;
}

const char *sgd_device_sum_text(const struct sgd_device_sum *s)
{
    (void)s;
    return "";
}

void sgd_device_sum_free(struct sgd_device_sum *s)
{
    (void)s;
}
