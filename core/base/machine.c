/* SPDX-License-Identifier: Apache-2.0
 *
 * machine.c - what a transition that is not allowed says before it fails.
 *
 * Owns: nothing. Thread: any.
 */
#include "core/base/machine.h"

#include <stdio.h>

void mt_machine_refuse(const struct mt_machine *m, uint32_t from, uint32_t to, const char *file, int line)
{
    char text[160];
    snprintf(text, sizeof text, "%s: %s -> %s is no transition", m->name, mt_machine_text(m, from), mt_machine_text(m, to));
    mt_assert_fail(text, file, line);
}
