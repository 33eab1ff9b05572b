/* SPDX-License-Identifier: Apache-2.0
 *
 * cgroup.c - how much memory the kernel lets us have before it kills. Thread: any; owns nothing.
 *
 * v2: memory.max, memory.current and inactive_file of memory.stat, in every group from ours up to the root.
 * v1: memory.limit_in_bytes, memory.usage_in_bytes and total_inactive_file, likewise, under <mount>/memory.
 * In a container the path of /proc/self/cgroup may name a place outside our view: then the mount itself is
 * ours.
 */
#include "core/base/limits/object.h"
#include "core/sys/file.h"
#include "objectstore/system/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_SIZE = 4096 };

struct names {
    const char *limit, *usage, *cache;
};
static const struct names names_v1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
static const struct names names_v2 = {"memory.max", "memory.current", "inactive_file"};

/* The number in a file of one line; UINT64_MAX for "max". False where there is no such file. */
static bool read_number(const char *folder, const char *name, uint64_t *out)
{
    char path[PATH_SIZE + 64], text[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (mt_file_read(path, text, sizeof text) <= 0)
        return false;
    *out = strncmp(text, "max", 3) == 0 ? UINT64_MAX : strtoull(text, NULL, 10);
    return true;
}

/* One value of memory.stat; 0 where there is none. */
static uint64_t read_stat(const char *folder, const char *key)
{
    char path[PATH_SIZE + 64], line[128];
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    uint64_t value = 0;
    size_t   key_size = strlen(key);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, key, key_size) == 0 && line[key_size] == ' ')
            value = strtoull(line + key_size, NULL, 10);
    fclose(file);
    return value;
}

/* Whether this group leaves less than the tightest so far; then it is. v1 says "no limit" by a huge number.
 */
static void consider(const char *folder, const struct names *names, uint64_t *limit, uint64_t *usage)
{
    uint64_t own_limit, own_usage;
    if (!read_number(folder, names->limit, &own_limit) || own_limit >= UINT64_C(1) << 60)
        return;
    if (!read_number(folder, names->usage, &own_usage))
        return;
    uint64_t cache = read_stat(folder, names->cache);
    own_usage -= cache < own_usage ? cache : own_usage;
    uint64_t own_left = own_limit > own_usage ? own_limit - own_usage : 0;
    uint64_t left = *limit == UINT64_MAX ? UINT64_MAX : *limit > *usage ? *limit - *usage : 0;
    if (own_left < left) {
        *limit = own_limit;
        *usage = own_usage;
    }
}

/* Our group's path below the mount, from /proc/self/cgroup. "0::/a/b" (v2) or "5:cpu,memory:/a/b" (v1). */
static mt_status find_group(char *out_path, bool *out_v1)
{
    char  line[PATH_SIZE];
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file)
        return mt_error(MT_ESYS, errno, "read /proc/self/cgroup");
    out_path[0] = '\0';
    *out_v1 = false;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        controllers++;
        bool v1 = strcmp(controllers, "memory") == 0 || strstr(controllers, ",memory") || strstr(controllers, "memory,");
        if (v1 || (*controllers == '\0' && !*out_v1)) {
            *out_v1 = v1;
            snprintf(out_path, PATH_SIZE, "%s", path);
        }
    }
    fclose(file);
    return mt_ok();
}

mt_status os_cgroup_read(const char *mount, uint64_t *out_limit, uint64_t *out_usage)
{
    char group[PATH_SIZE], folder[PATH_SIZE];
    bool v1;
    MT_TRY(find_group(group, &v1));
    *out_limit = UINT64_MAX;
    *out_usage = 0;
    int root = snprintf(folder, sizeof folder, v1 ? "%s/memory" : "%s", mount);
    if (root < 0 || (size_t)root + strlen(group) >= sizeof folder)
        return mt_error(MT_EINVAL, 0, "cgroup path is too long");
    memcpy(folder + root, group, strlen(group) + 1);
    for (;;) {
        consider(folder, v1 ? &names_v1 : &names_v2, out_limit, out_usage);
        char *slash = strrchr(folder, '/');
        if (!slash || slash < folder + root)
            break;
        *slash = '\0'; /* the parent; after the last, the mount itself */
    }
    return mt_ok();
}

uint64_t os_memory_look_ms(uint64_t limit, uint64_t usage, uint64_t cpus)
{
    uint64_t bound = limit == UINT64_MAX ? limit : limit / 1000 * MT_MEMORY_SHORT_PERMILLE;
    uint64_t left_mib = bound > usage ? (bound - usage) >> 20 : 0;
    uint64_t ms = left_mib / (MT_MEMORY_MIB_EACH_MS * cpus);
    return ms < MT_MEMORY_LOOK_MS_MIN ? MT_MEMORY_LOOK_MS_MIN : ms > MT_MEMORY_LOOK_MS_MAX ? MT_MEMORY_LOOK_MS_MAX : ms;
}

bool os_cgroup_look(struct os_cgroup_look *look, const char *mount, uint64_t now_ms)
{
    if (look->at_ms && now_ms - look->at_ms < OS_CGROUP_LOOK_MS)
        return false;
    look->at_ms = now_ms;
    if (os_cgroup_read(mount, &look->limit, &look->usage).code) {
        look->limit = UINT64_MAX;
        look->usage = 0;
    }
    return true;
}
