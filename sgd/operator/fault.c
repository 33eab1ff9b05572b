/* SPDX-License-Identifier: Apache-2.0
 *
 * fault.c - what went wrong in an operator, and where a public call enters. The first failure counts.
 *
 * Owns: nothing. Thread: the operator's.
 */
#include "sgd/ground/text.h"
#include "sgd/operator/operator.h"

#include <stdarg.h>
#include <stdio.h>

const manta_sgd *sgd_operator_of(const manta_sgd *t)
{
    static const manta_sgd nothing = {.failed = MANTA_EINVAL};
    return t ? t : &nothing;
}

manta_status manta_sgd_fail(manta_sgd *t, manta_status code, const char *format, ...)
{
    va_list args;
    code = code ? code : MANTA_ETASK;
    if (sgd_operator_of(t)->failed)
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
