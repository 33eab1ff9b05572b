/* SPDX-License-Identifier: Apache-2.0
 *
 * segments.c - see segments.h.
 *
 * Owns:   lib.segments: every mapping of a segment.
 */
#include "clients/lib/shell/segments/segments.h"
#include "clients/lib/shell/socket/socket.h"
#include "clients/lib/shell/state/state.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static bool note(const void *data, size_t size)
{
    return mt_vec_push(&lib.segments, (struct lib_segment){(void *)(uintptr_t)data, size}).code == 0;
}

/* And forgets the note, if there is one. */
static void unmap(const void *data, size_t size)
{
    if (!data)
        return;
    for (size_t i = 0; i < lib.segments.count; i++) {
        if (lib.segments.data[i].data == data) {
            mt_vec_remove_swap(&lib.segments, i);
            break;
        }
    }
    munmap((void *)(uintptr_t)data, size);
}

void lib_segment_unmap(const struct lib_segment_memory *m, uint64_t size)
{
    unmap(m->data, size);
    if (m->view != m->data)
        unmap(m->view, size);
    unmap(m->generations, os_generations_bytes(size));
}

/* Takes both descriptors. False: nothing is mapped. */
bool lib_segment_map_both(const int fds[2], uint64_t size, bool is_own, struct lib_segment_memory *out)
{
    uint64_t generations = os_generations_bytes(size);
    int      again = is_own ? fcntl(fds[0], F_DUPFD_CLOEXEC, 0) : -1;
    *out = (struct lib_segment_memory){.data = lib_map(fds[0], 0, size, is_own)};
    out->view = is_own ? (again < 0 ? NULL : lib_map(again, 0, size, false)) : out->data;
    out->generations = lib_map(fds[1], 0, generations, false);
    if (out->data && out->view && out->generations && note(out->data, size) && (!is_own || note(out->view, size)) &&
        note(out->generations, generations))
        return true;
    lib_segment_unmap(out, size);
    return false;
}

/* It could not be taken over: one that was granted goes back to the raylet. */
void lib_segment_refuse(const struct ctl_segment *segment, bool is_own)
{
    if (is_own)
        own_send(&lib.own, CTL_SEGMENT_BACK, own_id_next(&lib.own), segment, sizeof *segment);
}

/* What a sealed buffer's pointer would still write is mapped read-only as far as that costs little: 64 KiB are 3 us, a GiB is
 * 20 ms, twice. */
static bool thaw(void *header)
{
    return mprotect(header, MT_LIB_FREEZE_BYTES, PROT_READ | PROT_WRITE) == 0;
}

void lib_store_freeze(struct os_place place, void *data, size_t size)
{
    void *header = (uint8_t *)data - OS_HEADER_SIZE; /* of a run of chunks: whole pages */
    if (size < MT_LIB_FREEZE_FROM || lib.store.frozen >= MT_LIB_FROZEN_MAX)
        return;
    lib.store.thaw = thaw;
    if (mprotect(header, MT_LIB_FREEZE_BYTES, PROT_READ) == 0)
        os_client_frozen(&lib.store, place);
}

void lib_store_warm(const struct os_place *place, void *data)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)data & ~(page - 1);
    if (place->cold >= MT_LIB_COLD_BYTES) /* else, and on an old kernel, the copy makes them one by one */
        (void)madvise((void *)first, (uintptr_t)data + place->cold - first, MADV_POPULATE_WRITE);
}

static void segment_give_back(const struct os_trim *trim)
{
    struct ctl_segment        back = {.segment = trim->segment, .size = trim->size};
    struct lib_segment_memory memory = {trim->data, trim->view, trim->generations};
    lib_segment_unmap(&memory, trim->size);
    own_send(&lib.own, CTL_SEGMENT_BACK, own_id_next(&lib.own), &back, sizeof back);
}

void lib_store_trim(uint64_t now_ns)
{
    struct os_trim trim;
    if (now_ns < lib.trim_at_ns)
        return;
    os_client_trim(&lib.store, MT_LIB_WARM_BYTES, &trim);
    if (trim.kind == OS_TRIM_PAGES) {
        (void)madvise(trim.data, trim.size, MADV_REMOVE); /* under the lock: the place may be given out again at once */
    } else if (trim.kind == OS_TRIM_SEGMENT) {
        segment_give_back(&trim);
    } else {
        os_client_trim_round(&lib.store);
        lib.trim_at_ns = now_ns + (uint64_t)OS_TRIM_ROUND_MS * 1000000;
    }
}

void lib_store_unpin(const struct lane_ref *ref)
{
    if (os_client_unpin(&lib.store, ref).code == MT_EAGAIN) /* freed meanwhile, and the raylet has it on disk */
        own_send(&lib.own, CTL_OBJECT_DEAD, own_id_next(&lib.own), ref, sizeof *ref);
}

/* The last ref of a value of ours went. Only the one who wrote it may reuse the place by itself, and only if nobody
 * else ever heard of it. */
void lib_free_place(struct own *own, const struct lane_ref *place, bool escaped)
{
    if (!escaped && os_client_free(&lib.store, place->segment, place->offset, place->generation).code == 0)
        return;
    own_send(own, CTL_OBJECT_DEAD, own_id_next(own), place, sizeof *place);
}

void lib_segment_asked(uint32_t segment)
{
    struct os_trim trim;
    if (os_client_surrender(&lib.store, segment, &trim).code == MT_OK)
        segment_give_back(&trim);
}

void lib_space_back(const struct ctl_space *space)
{
    mt_status st = os_client_space_back(&lib.store, space->segment, space->offset);
    if (st.code && st.code != MT_ENOENT) /* given up while the raylet said so */
        lib_break(st.code, st.what);
}
