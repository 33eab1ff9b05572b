/* SPDX-License-Identifier: Apache-2.0
 *
 * values.h - values in the object store: room for new ones, pins of those that are read, views, and refs that a value declares.
 *
 * Thread: any, under the owner lock, which may be released meanwhile: what is missing is asked of the raylet.
 */
#ifndef LIB_VALUES_H
#define LIB_VALUES_H

#include "clients/lib/shell/state/state.h"

/* Room in a segment of ours; asks the raylet for segments as needed. A driver's helper gives back what is free again: who puts
 * starts it (lib_helper_start). */
manta_status lib_store_alloc(size_t size, struct os_place *place, void **data, manta_error *e);
/* The value of a place, pinned; maps or pulls what is missing. *ref becomes the local copy's where it was on another node: that
 * is what is to be unpinned. `of`: the ref that names it, where a reader who gives up leaves its question; NULL: none. */
manta_status lib_store_pin(struct own_ref *of, struct lane_ref *ref, const void **data, int64_t deadline_ns, manta_error *e);

/* ---- views ---- */
/* A ready value as the user sees it; the ref is held until manta_release. */
manta_status lib_view(struct own_ref *ref, manta_view *out, int64_t deadline_ns, manta_error *e);
/* Under the lock: what manta_release does. False: it is no view. */
bool lib_view_end(manta_view *view);
/* The ref behind a view of a value in the store; NULL: inline, or an item. *out_place: what is pinned. */
struct own_ref *lib_view_ref(const manta_view *view, struct lane_ref *out_place);

/* ---- values that declare refs: these stand behind the data (record.h, lane_declared) ---- */
static inline size_t lib_declared_offset(size_t data_size)
{
    return (data_size + 7) & ~(size_t)7;
}
/* Reads the end of a value. False: it is not one that declares refs. */
bool lib_declared_end(const void *data, size_t size, struct lane_declared *out);
/* Where the data of a value ends, whose last bytes may be declared refs. */
size_t lib_declared_size(const struct lane_ref *place, const void *data);
/* Whether each of them is a handle of the user's: EINVAL, EHANDLE. */
manta_status lib_declared_check(manta_ref *const *refs, size_t count, manta_error *e);
/* A value of `size` bytes and the refs that it declares, in the store. Takes and gives the lock. */
manta_status lib_declared_store(const void *data, size_t size, manta_ref *const *refs, size_t count, struct os_place *place,
                                void **out, size_t *out_size, manta_error *e);

#endif
