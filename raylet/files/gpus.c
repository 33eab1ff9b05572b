/* SPDX-License-Identifier: Apache-2.0
 *
 * gpus.c - see gpus.h. Owns nothing.
 */
#include "raylet/files/gpus.h"

#include "core/base/limits/raylet.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* "nvidia7", and not "nvidiactl" or "nvidia-uvm". */
static bool is_gpu(const char *name)
{
    unsigned number;
    int      end = 0;
    return sscanf(name, "nvidia%u%n", &number, &end) == 1 && name[end] == 0;
}

/* Entries of a list with commas, up to the first negative one: there CUDA stops reading. */
static uint32_t entries(const char *list)
{
    uint32_t count = 0;
    while (list && *list && *list != '-') {
        count++;
        list = strchr(list, ',');
        list = list ? list + 1 : NULL;
    }
    return count;
}

uint32_t rlt_gpus_found(const char *folder, const char *visible)
{
    uint32_t       count = 0;
    DIR           *dir = opendir(folder);
    struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        count += is_gpu(entry->d_name);
    if (dir)
        closedir(dir);
    if (visible && entries(visible) < count)
        count = entries(visible);
    return count < MT_RLT_GPUS_MAX ? count : MT_RLT_GPUS_MAX;
}
