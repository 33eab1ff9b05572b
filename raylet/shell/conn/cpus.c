/* SPDX-License-Identifier: Apache-2.0
 *
 * cpus.c - the CPUs that this process may use, and the NUMA node of each.
 *
 * Owns: nothing. Thread: main, before the loop; reads /sys/devices/system/node.
 */
#include "raylet/shell/conn/conn.h"

#include "core/sys/file.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "0-3,8-11" */
static void take_list(const char *text, uint16_t node, struct rlt_pins *p)
{
    for (char *end; *text; text = *end == ',' ? end + 1 : end) {
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (end == text)
            return;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (uint32_t i = 0; i < p->count; i++)
            if (p->cpus[i].cpu >= first && p->cpus[i].cpu <= last)
                p->cpus[i].node = node;
        if (*end != ',')
            return;
    }
}

static void read_nodes(struct rlt_pins *p)
{
    DIR *folder = opendir("/sys/devices/system/node"); /* absent without NUMA: all are of node 0 */
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char     path[128], list[4096];
        unsigned node;
        if (sscanf(entry->d_name, "node%u", &node) != 1 || node > UINT16_MAX)
            continue;
        snprintf(path, sizeof path, "/sys/devices/system/node/node%u/cpulist", node);
        if (mt_file_read(path, list, sizeof list) > 0)
            take_list(list, (uint16_t)node, p);
    }
    if (folder)
        closedir(folder);
}

void sh_cpus_read(struct rlt_pins *out)
{
    cpu_set_t set;
    memset(out, 0, sizeof *out);
    if (sched_getaffinity(0, sizeof set, &set))
        return; /* more CPUs than a cpu_set_t has: nobody is bound */
    for (uint16_t cpu = 0; cpu < CPU_SETSIZE && cpu < MT_CPUS_MAX; cpu++)
        if (CPU_ISSET(cpu, &set))
            out->cpus[out->count++].cpu = cpu;
    read_nodes(out);
}
