/* SPDX-License-Identifier: Apache-2.0
 *
 * other.c - linked into a program, it makes of it one of another release: what core/base/release.c says is weak.
 */
#include "core/base/release.h"

const struct mt_release mt_release = {
    .name = OTHER_NAME, .wire = {OTHER_WIRE}, .schema = {OTHER_SCHEMA}, .schema_needs = OTHER_NEEDS};
