/* SPDX-License-Identifier: Apache-2.0
 *
 * text.c - see text.h. Owns nothing. Thread: any.
 */
#include "sgd/ground/text.h"

#include <stdio.h>
#include <string.h>

const char *sgd_status_text(mt_status st, char out[SGD_TEXT_BYTES])
{
    const char *what = st.what ? st.what : mt_code_text(st.code);
    if (st.code == MT_EDEVICE && st.sys)
        snprintf(out, SGD_TEXT_BYTES, "%s (error %d of the device's)", what, st.sys);
    else
        snprintf(out, SGD_TEXT_BYTES, "%s%s%s", what, st.sys ? ": " : "", st.sys ? strerror(st.sys) : "");
    return out;
}
