/* SPDX-License-Identifier: Apache-2.0
 *
 * release.c - see release.h.
 *
 *   wire 2    what has come since 0.1.0: raylets speak over sockets of their own (they did by gRPC), lists travel as differences,
 *             nodes are drained, raylets know several heads
 *   schema 2  tables for the scaler, tickets, named tokens, revocations and accounts; the records of schema 1 are read as they are
 */
#include "core/base/release.h"

__attribute__((weak)) const struct mt_release mt_release = {.name = "0.2", .wire = {2, 2}, .schema = {1, 2}, .schema_needs = 2};
