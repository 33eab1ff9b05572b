/* SPDX-License-Identifier: Apache-2.0
 *
 * error.c - errors for users, time, and pauses between tries.
 */
#include "clients/control/control.h"
#include "core/base/clock.h"
#include "core/base/rng.h"

#include <stdarg.h>
#include <string.h>

#define X(name, number, text) static_assert((int)MANTA_##name == (int)MT_##name, "one number for one error");
MT_CODES(X)
#undef X

const char *manta_status_name(manta_status code)
{
    return mt_code_name(code);
}

manta_status ctl_fail(manta_error *e, int32_t code, int outcome, const char *format, ...)
{
    if (e) {
        va_list args;
        memset(e, 0, sizeof *e);
        e->code = code;
        e->outcome = outcome;
        va_start(args, format);
        vsnprintf(e->message, sizeof e->message, format, args);
        va_end(args);
    }
    return code;
}

uint64_t ctl_now_ms(void)
{
    return (uint64_t)mt_now_ms();
}

uint32_t ctl_pause(unsigned n)
{
    uint64_t ms = MT_CTL_RETRY_MS_MIN, seed = 0;
    for (unsigned i = 0; i < n && ms < MT_CTL_RETRY_MS_MAX; i++)
        ms *= 2;
    ms = ms < MT_CTL_RETRY_MS_MAX ? ms : MT_CTL_RETRY_MS_MAX;
    if (mt_random_bytes(&seed, sizeof seed).code == 0) /* many clients of one head do not come back in step */
        ms = ms / 2 + seed % (ms / 2 + 1);
    mt_sleep_ms((int)ms);
    return (uint32_t)ms;
}

uint32_t ctl_try_begin(struct ctl_patience *p, uint32_t limit_ms)
{
    p->began_ms = ctl_now_ms();
    p->given_ms = p->left_ms < limit_ms ? (uint32_t)p->left_ms : limit_ms;
    return p->given_ms;
}

bool ctl_try_end(struct ctl_patience *p)
{
    uint64_t took = ctl_now_ms() - p->began_ms;
    p->left_ms -= (int64_t)(took < p->given_ms ? took : p->given_ms);
    return p->left_ms > 0;
}

bool ctl_try_pause(struct ctl_patience *p)
{
    p->left_ms -= ctl_pause(p->tries++);
    return p->left_ms > 0;
}
