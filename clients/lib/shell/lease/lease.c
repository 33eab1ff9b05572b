/* SPDX-License-Identifier: Apache-2.0
 *
 * lease.c - what a lease brings to its worker's process: devices, and CPUs of its own.
 *
 * Owns:   which CPUs the process had before it was bound to some. Thread: any, under the owner lock.
 */
#include "clients/lib/shell/lease/lease.h"
#include "clients/lib/shell/names/names.h"
#include "clients/lib/shell/state/state.h"
#include "core/sys/process.h"

#include <sched.h>
#include <stdlib.h>

/* The devices of the lease, as the node counts them: of those that were visible when the worker started, if that was
 * restricted. A worker of a lease with devices serves no other, so nothing has to be taken back. */
static void show_devices(const struct ctl_grant *grant)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    char        text[512], names[512] = "", *device[64], *rest = names;
    size_t      at = 0;
    uint32_t    count = 0;
    if (grant->gpu_count == 0 || grant->gpu_count > sizeof grant->gpus / sizeof grant->gpus[0])
        return;
    snprintf(names, sizeof names, "%s", visible ? visible : "");
    while (visible && count < 64 && (device[count] = strsep(&rest, ",")))
        count++;
    for (uint32_t i = 0; i < grant->gpu_count && at < sizeof text; i++) {
        uint16_t gpu = grant->gpus[i];
        if (gpu < count && device[gpu][0])
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i ? "," : "", device[gpu]);
        else
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%u", i ? "," : "", gpu);
    }
    setenv("CUDA_VISIBLE_DEVICES", text, 1);
}

/* All threads that there are; those to come take it from the one that makes them. */
static void bind_threads(const cpu_set_t *set)
{
    DIR *threads = mt_process_threads(getpid());
    for (pid_t thread; (thread = mt_process_next(threads));)
        (void)sched_setaffinity(thread, sizeof *set, set); /* CPUs that were taken from us meanwhile: it stays where it is */
}

static void bind_to_cpus(const struct ctl_grant *grant)
{
    static cpu_set_t before; /* while is_bound */
    static bool      is_bound;
    cpu_set_t        set;
    CPU_ZERO(&set);
    for (uint32_t cpu = 0; cpu < MT_CPUS_MAX && cpu < CPU_SETSIZE; cpu++)
        if (grant->cpus[cpu / 64] >> cpu % 64 & 1)
            CPU_SET(cpu, &set);
    if (CPU_COUNT(&set) == 0 && !is_bound)
        return;
    if (!is_bound && sched_getaffinity(0, sizeof before, &before))
        return;
    is_bound = CPU_COUNT(&set) > 0;
    bind_threads(is_bound ? &set : &before);
}

/* Calls without options name another class when what they belong to changes. */
static void take_group(const struct ctl_grant *grant)
{
    mt_id captured = grant->flags & CTL_CLASS_CAPTURE ? grant->group : (mt_id){0, 0};
    lib.group = grant->group;
    if (!mt_id_equal(captured, lib.captured))
        lib_entries_forget_classes();
    lib.captured = captured;
}

void lib_lease_begin(const struct ctl_grant *grant)
{
    if (lib.wrk.lanes.count)
        return; /* a further caller of the actor that lives here */
    lib.lease_cpu_milli = grant->cpu_milli;
    lib.lease_gpus = grant->gpu_count;
    lib.is_actors_lease = grant->flags & CTL_CLASS_ACTOR;
    take_group(grant);
    if (grant->flags & CTL_CLASS_STRICT)
        lib_strict_begin();
    show_devices(grant);
    bind_to_cpus(grant);
}
