/* SPDX-License-Identifier: Apache-2.0
 *
 * handle.h - what the user holds of collectives: groups, members, started calls and communicators are numbers, looked up where a
 * public call enters.
 *
 * A look-up takes no lock and costs a few nanoseconds. Who frees a handle while another thread is inside a call with it is not
 * told: the call goes on with what is freed. Thread: any.
 */
#ifndef SGD_COLL_HANDLE_H
#define SGD_COLL_HANDLE_H

#include "core/ds/handles.h"
#include "sgd/manta_collective.h"

/* For a public call, manta_coll_CALL, whose argument is NULL: EINVAL, naming both. */
manta_status coll_null(manta_error *e, const char *call, const char *argument);

/* A handle for `object`, until coll_handle_close. NULL: *e says why (ENOMEM, EFORKED). */
void *coll_handle_new(enum mt_handle_kind kind, void *object, manta_error *e);
/* What manta_coll_CALL was given as its argument of this kind. NULL: EINVAL (it is NULL) or EHANDLE (freed before, of another kind,
 * or none) or EFORKED, named in *e and given as *out_code (which may be NULL). */
void *coll_handle_of(enum mt_handle_kind kind, const void *handle, const char *call, manta_status *out_code, manta_error *e);
/* The same for a call that returns no code. */
void *coll_handle_look(enum mt_handle_kind kind, const void *handle);
/* It names nothing from now on; gives the object, to who closed it first. NULL: it was closed before, or is none. */
void *coll_handle_close(enum mt_handle_kind kind, const void *handle);

#endif
