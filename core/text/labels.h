/* SPDX-License-Identifier: Apache-2.0
 *
 * labels.h - labels of nodes ("zone=a,disk=ssd"), and selectors that ask for them.
 *
 *   selector     alternatives, the best first, separated by ';'
 *   alternative  terms that all must hold, separated by ','; an empty one holds everywhere
 *   term         key = value | key != value | key in (value, ...) | key !in (value, ...) | key | !key
 *
 * Keys and values are made of letters, digits, '.', '_', '-' and '/'. A node without the key satisfies !=, !in and !key.
 * Pure functions; nothing is allocated or kept.
 */
#ifndef MT_BASE_LABELS_H
#define MT_BASE_LABELS_H

#include "core/base/limits/text.h"
#include "core/base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* Whether a node's labels, or a selector, can be read: EINVAL, with what is wrong and where in `text`. */
MT_MUST_USE mt_status mt_labels_check(const char *labels, char *text, size_t text_size);
MT_MUST_USE mt_status mt_selector_check(const char *selector, char *text, size_t text_size);

/* The first alternative of the selector that the labels satisfy, from 1; 0: none, or one of the two can't be read. */
unsigned mt_selector_match(const char *selector, const char *labels);

#endif
