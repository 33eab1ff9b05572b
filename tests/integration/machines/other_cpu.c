/* SPDX-License-Identifier: Apache-2.0
 *
 * other_cpu.c - loaded into every process of a test's machine (ld.so.preload): there OpenBLAS takes its code for another type of
 * CPU, as it would on one. Thread: any.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((visibility("default"))) char *getenv(const char *name)
{
    static char other[] = "Prescott";
    size_t      size = strlen(name);
    if (strcmp(name, "OPENBLAS_CORETYPE") == 0)
        return other;
    for (char **at = environ; at && *at; at++)
        if (strncmp(*at, name, size) == 0 && (*at)[size] == '=')
            return *at + size + 1;
    return NULL;
}
