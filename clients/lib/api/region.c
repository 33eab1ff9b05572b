/* SPDX-License-Identifier: Apache-2.0
 *
 * region.c - regions: memory that processes of a node share by a number.
 *
 * Owns:   lib.regions: those of the job of now. Thread: any; takes the owner lock.
 */
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/socket/socket.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/wait/wait.h"

#include <stdlib.h>
#include <sys/mman.h>

static void region_refuse(const struct ctl_segment *region)
{
    struct ctl_segment drop = {.segment = region->segment};
    lib_lock();
    own_send(&lib.own, CTL_REGION_DROP, own_id_next(&lib.own), &drop, sizeof drop);
    lib_act();
    lib_unlock();
}

static bool region_note(void *data)
{
    lib_lock();
    bool is_noted = mt_vec_push(&lib.regions, data).code == MT_OK;
    lib_unlock();
    return is_noted;
}

/* Under the lock. False: it is of an earlier job, and its number may be another one's by now. */
static bool region_forget(const void *data)
{
    for (size_t i = 0; i < lib.regions.count; i++)
        if (lib.regions.data[i] == data) {
            mt_vec_remove_swap(&lib.regions, i);
            return true;
        }
    return false;
}

manta_status manta_region_open(size_t size, uint64_t number, manta_region *out, manta_error *e)
{
    struct ctl_segment  ask = {.segment = (uint32_t)number, .size = size}, got;
    struct lib_request *request;
    manta_status        code;

    if (!out)
        return lib_error(e, MANTA_EINVAL, "manta_region_open without a place for the region");
    memset(out, 0, sizeof *out);
    if ((size == 0) == (number == 0) || number > UINT32_MAX)
        return lib_error(e, MANTA_EINVAL, "a region needs a size, or the number of one that exists");
    code = lib_ask(CTL_REGION_WANT, &ask, sizeof ask, &request, e);
    if (code == MANTA_OK && (request->size < sizeof got || request->fd_count != 1))
        code = lib_error(e, MANTA_EPROTO, "the raylet's answer brings no region");
    if (code == MANTA_OK) {
        memcpy(&got, request->payload, sizeof got);
        out->data = lib_map(request->fds[0], 0, got.size, true);
        out->size = got.size;
        out->number = got.segment;
        if (!out->data || !region_note(out->data)) {
            if (out->data)
                munmap(out->data, out->size);
            out->data = NULL;
            region_refuse(&got);
            code = lib_error(e, MANTA_ENOMEM, "a region of %llu bytes could not be mapped", (unsigned long long)got.size);
        }
    }
    free(request);
    return code;
}

void manta_region_close(manta_region *region)
{
    struct ctl_segment drop = {.segment = region ? (uint32_t)region->number : 0};
    if (!region || !region->data)
        return;
    lib_lock();
    bool is_current = region_forget(region->data);
    lib_unlock();
    munmap(region->data, region->size);
    if (is_current && lib_enter(NULL) == MANTA_OK) {
        own_send(&lib.own, CTL_REGION_DROP, own_id_next(&lib.own), &drop, sizeof drop);
        lib_act();
        lib_unlock();
    }
    memset(region, 0, sizeof *region);
}
