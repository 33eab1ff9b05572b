/* SPDX-License-Identifier: Apache-2.0
 *
 * families.h - the families of cases, in the order in which they run: X(name) for each cases_<name>.c (floor: floors.c).
 *
 * A new family is one file, cases_<name>.c with `const struct bench_case bench_<name>_cases[]`, and one line here.
 */
#ifndef BENCH_FAMILIES_H
#define BENCH_FAMILIES_H

/* clang-format off */
#define BENCH_FAMILIES(X) \
    X(floor)            \
    X(cluster)          \
    X(task)             \
    X(queue)            \
    X(actor)            \
    X(object)           \
    X(result)           \
    X(pg)               \
    X(failure)          \
    X(watch)
/* clang-format on */

#endif
