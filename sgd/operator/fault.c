/* SPDX-License-Identifier: Apache-2.0
 *
 * fault.c - what went wrong in an operator, and where a public call enters. The first failure counts.
 *
 * Owns: nothing. Thread: the operator's.
 */
#include "core/ds/living.h"
#include "sgd/ground/text.h"
#include "sgd/operator/operator.h"

#include <stdarg.h>
#include <stdio.h>

static struct mt_living living = MT_LIVING_INIT;

manta_sgd *sgd_operator_new(void)
{
    return mt_living_new(&living, sizeof(manta_sgd));
}

void sgd_operator_free(manta_sgd *t)
{
    mt_living_free(&living, t);
}

const manta_sgd *sgd_operator_of(const manta_sgd *t)
{
    static const manta_sgd nothing = {.failed = MANTA_EINVAL}, over = {.failed = MANTA_EHANDLE};
    return !t ? &nothing : mt_living_has(&living, t) ? t : &over;
}

manta_status manta_sgd_fail(manta_sgd *t, manta_status code, const char *format, ...)
{
    va_list          args;
    const manta_sgd *of = sgd_operator_of(t);
    code = code ? code : MANTA_ETASK;
    if (of->failed == MANTA_EHANDLE && of != t)
        return of->failed;
    if (of->failed)
        return code; /* the first one tells why */
    va_start(args, format);
    vsnprintf(t->text, sizeof t->text, format, args);
    va_end(args);
    return t->failed = code;
}

manta_status sgd_operator_fault(manta_sgd *t, mt_status st, const char *of)
{
    char text[SGD_TEXT_BYTES];
    return manta_sgd_fail(t, st.code, "%s%s%s", of, of[0] ? ": " : "", sgd_status_text(st, text));
}
