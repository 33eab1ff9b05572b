/* SPDX-License-Identifier: Apache-2.0
 *
 * options.h - "name,option=value,flag": how a sampler or a scheduler is chosen in one text.
 */
#ifndef SWP_OPTIONS_H
#define SWP_OPTIONS_H

#include "sweep/space/space.h"

enum swp_option_kind { SWP_OPTION_FLAG /* bool */, SWP_OPTION_COUNT /* uint32_t */, SWP_OPTION_REAL /* double */ };
struct swp_option {
    const char          *name; /* NULL: the end of the list */
    enum swp_option_kind kind;
    void                *target;
};

/* Sets the targets of the options in `text` and copies the name in front of them. EINVAL with *out_problem. */
MT_MUST_USE mt_status swp_options_parse(const char *text, const struct swp_option *options, char out_name[MT_NAME_BYTES_MAX],
                                        struct swp_problem *out_problem);

#endif
