/* SPDX-License-Identifier: Apache-2.0
 *
 * rights.h - what the bearer of a token may ask of the control plane. Each right contains those before it.
 */
#ifndef MT_RIGHTS_H
#define MT_RIGHTS_H

#include <stddef.h>
#include <string.h>

enum mt_right {
    MT_MAY_NOTHING = 0, /* revoked, or ended */
    MT_MAY_READ = 1,    /* lists, states, logs: changes nothing */
    MT_MAY_SUBMIT = 2,  /* jobs: makes them, and stops and deletes its own */
    MT_MAY_ADMIN = 3,   /* everything; the cluster's own token has it */
};

/* Who the bearer of the cluster's own token is, in records and lists. No other token has this name. */
#define MT_ADMIN_NAME "admin"

static inline const char *mt_right_text(enum mt_right right)
{
    static const char *const texts[] = {"nothing", "read", "submit", "admin"};
    return (size_t)right < sizeof texts / sizeof *texts ? texts[right] : "nothing";
}

/* MT_MAY_NOTHING: it is no right's name. */
static inline enum mt_right mt_right_parse(const char *text)
{
    for (int right = MT_MAY_READ; right <= MT_MAY_ADMIN; right++)
        if (strcmp(text, mt_right_text((enum mt_right)right)) == 0)
            return (enum mt_right)right;
    return MT_MAY_NOTHING;
}

#endif
