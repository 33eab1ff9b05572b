/* SPDX-License-Identifier: Apache-2.0
 *
 * object.c - values for the user: put, create and seal, freed before their time.
 *
 * Owns:   buffers that are not sealed. Thread: any; takes the owner lock.
 */
#include "clients/lib/api/api.h"
#include "clients/lib/shell/handles/handles.h"
#include "clients/lib/shell/helper/helper.h"
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/segments/segments.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/values/values.h"

#include "core/base/reserved.h"
#include "objectstore/layout/sum.h"

#include <stdlib.h>

enum { SMALL_PUT = MANTA_INLINE_MAX }; /* values up to here stay with their owner and travel inline */

static manta_ref *put(const void *data, size_t size, char type, bool with_sum);

static struct own_ref *new_value(manta_error *e)
{
    struct own_ref *ref = own_ref_new(&lib.own, mt_id_with_index(own_id_next(&lib.own), 1));
    if (!ref)
        lib_error(e, MANTA_ENOMEM, "no memory for a reference");
    return ref;
}

/* Not inlined: the failure alone takes a page of stack. */
__attribute__((noinline)) static manta_ref *failed(const manta_error *e)
{
    struct own_failure f;
    own_failure_set(&f, e->code, "%s", e->message);
    return lib_failed_ref(&f);
}

/* Under the lock: what is given to the user, which has failed where there is no `ref`. */
static inline manta_ref *given(struct own_ref *ref, const manta_error *e)
{
    return MT_LIKELY(ref != NULL) ? lib_handle_ref(&lib.own, ref) : failed(e);
}

static void publish(struct own_ref *ref, struct os_place place, void *data, size_t size, char type)
{
    struct lane_ref wire;
    os_client_publish(&lib.store, place, data, ref->id, lib.own.node, size, (uint8_t)type, &wire);
    own_ref_set_place(&lib.own, ref, &wire);
}

/* Without the lock, which a GiB would hold for 0.1 s. */
static void place_sum(struct os_place *place, const void *data, size_t size)
{
    place->sum = os_sum(data, size);
    place->is_summed = true;
}

/* It gives back what is free again in our segments. */
static void helper_for_driver(void)
{
    if (MT_UNLIKELY(!lib.has_helper) && lib.role == LIB_DRIVER)
        lib_helper_start();
}

manta_ref *manta_put(const void *data, size_t size)
{
    return put(data, size, 'y', false);
}

manta_ref *manta_put_with(const void *data, size_t size, const manta_put_opts *opts)
{
    if (opts && MT_RESERVED_IS_USED(opts))
        return lib_reserved_ref("manta_put_with");
    return put(data, size, 'y', opts && opts->checksum);
}

manta_ref *lib_put(const void *data, size_t size, char type)
{
    return put(data, size, type, false);
}

static manta_ref *put(const void *data, size_t size, char type, bool with_sum)
{
    manta_error     e;
    struct own_ref *ref = NULL;
    struct os_place place;
    void           *to = NULL;
    manta_ref      *handle;
    manta_status    code = lib_enter(NULL);

    if (MT_UNLIKELY(code != MANTA_OK))
        return lib_refused_call(&(struct own_call){.count = 1}, code);
    if (MT_UNLIKELY(lib.broken || (!data && size)) &&
        (lib_check(&e) || lib_error(&e, MANTA_EINVAL, "manta_put of %zu bytes at NULL", size))) {
        handle = given(NULL, &e);
        lib_unlock();
        lib_refused_pause();
        return handle;
    }
    lib.calls++;
    if (size <= SMALL_PUT) {
        ref = new_value(&e);
        if (ref)
            own_ref_set_inline(&lib.own, ref, (uint8_t)type, data, (uint32_t)size);
    } else if (lib_store_alloc(size, &place, &to, &e) == MANTA_OK) {
        helper_for_driver();
        lib_unlock(); /* the copy may take long; the place is ours alone */
        lib_store_warm(&place, to);
        os_copy(to, data, size);
        if (with_sum)
            place_sum(&place, to, size);
        lib_lock();
        ref = new_value(&e);
        if (ref)
            publish(ref, place, to, size, type);
        else
            (void)os_client_free(&lib.store, place.segment, place.offset, place.generation).code;
    }
    handle = given(ref, &e);
    lib_unlock();
    return handle;
}

struct unsealed { /* a manta_buffer's, whatever the user has made of his */
    struct os_place place;
    uint32_t        session; /* its memory went with that */
    void           *data;
    size_t          size;
    bool            with_sum;
};

manta_status manta_create(size_t size, manta_buffer *out, manta_error *e)
{
    return manta_create_with(size, NULL, out, e);
}

manta_status manta_create_with(size_t size, const manta_put_opts *opts, manta_buffer *out, manta_error *e)
{
    struct unsealed *u;
    manta_status     code;
    if (!out)
        return lib_error(e, MANTA_EINVAL, "manta_create without a place for the buffer");
    memset(out, 0, sizeof *out);
    if (opts && MT_RESERVED_IS_USED(opts))
        return lib_error(e, MANTA_EINVAL, MT_RESERVED_TEXT, "manta_create_with");
    u = calloc(1, sizeof *u);
    if (!u)
        return lib_error(e, MANTA_ENOMEM, "no memory for a buffer");
    if ((code = lib_enter(e)) != MANTA_OK) {
        free(u);
        return code;
    }
    code = lib_check(e);
    if (code == MANTA_OK)
        code = lib_store_alloc(size, &u->place, &out->data, e);
    if (code == MANTA_OK)
        helper_for_driver();
    if (code == MANTA_OK && !(out->hold = lib_handle_new(LIB_OF_BUFFER, u))) {
        (void)os_client_free(&lib.store, u->place.segment, u->place.offset, u->place.generation).code;
        code = lib_error(e, MANTA_ENOMEM, "no memory for a buffer");
    }
    lib_unlock();
    if (code) {
        free(u);
        out->data = NULL;
        return code;
    }
    u->session = lib.session;
    u->with_sum = opts && opts->checksum;
    u->data = out->data;
    u->size = size;
    lib_store_warm(&u->place, out->data);
    out->size = size;
    return MANTA_OK;
}

/* Nobody else may seal or drop it from now on. NULL: *code says why not. */
static struct unsealed *unsealed_take(const manta_buffer *buffer, const char *call, manta_status *code, manta_error *e)
{
    struct unsealed *u;
    if (!buffer || !buffer->hold) {
        *code = lib_error(e, MANTA_EINVAL, "%s of %s", call, buffer ? "a buffer that was sealed or dropped before" : "NULL");
        return NULL;
    }
    if ((*code = lib_enter_held(e)) != MANTA_OK)
        return NULL;
    u = lib_handle_end(buffer->hold, LIB_OF_BUFFER);
    if (!u)
        *code = lib_handle_wrong(buffer->hold, LIB_OF_BUFFER, call, e);
    lib_unlock();
    return u;
}

manta_ref *manta_seal(manta_buffer *buffer)
{
    manta_error      e;
    manta_status     code;
    struct unsealed *u = unsealed_take(buffer, "manta_seal", &code, &e);
    struct own_ref  *ref = NULL;
    manta_ref       *handle;
    if (u && u->with_sum && u->session == lib.session)
        place_sum(&u->place, u->data, u->size);
    if ((code = lib_enter(NULL)) == MANTA_OK) {
        if (u && u->session != lib.session)
            lib_error(&e, MANTA_EINVAL, "manta_seal of a buffer from before manta_shutdown: its memory is gone");
        else if (u && lib_check(&e) == MANTA_OK && (ref = new_value(&e))) {
            publish(ref, u->place, u->data, u->size, 'y');
            lib_store_freeze(u->place, u->data, u->size);
        }
        handle = given(ref, &e);
        lib_unlock();
    } else {
        handle = lib_handle_error(code);
    }
    free(u);
    if (buffer)
        memset(buffer, 0, sizeof *buffer);
    return handle;
}

manta_status manta_drop(manta_buffer *buffer)
{
    manta_status     code;
    struct unsealed *u = buffer && buffer->hold ? unsealed_take(buffer, "manta_drop", &code, NULL) : NULL;
    if (!buffer || !buffer->hold)
        return MANTA_OK;
    memset(buffer, 0, sizeof *buffer);
    if (!u)
        return code;
    if (u->session == lib.session && lib_enter(NULL) == MANTA_OK) {
        (void)os_client_free(&lib.store, u->place.segment, u->place.offset, u->place.generation).code;
        lib_unlock();
    }
    free(u);
    return MANTA_OK;
}

/* Under the lock: all of them, before the value of one goes. */
static manta_status free_now_check(manta_ref *const *refs, size_t count, manta_error *e)
{
    struct own_ref *ref;
    char            call[48];
    for (size_t i = 0; i < count; i++) {
        snprintf(call, sizeof call, "manta_free_now, reference %zu", i);
        manta_status code = lib_ref(refs[i], call, &ref, e);
        if (code)
            return code;
    }
    return lib_check(e);
}

manta_status manta_free_now(manta_ref *const *refs, size_t count, manta_error *e)
{
    size_t       early = 0;
    manta_status code;
    if (count && !refs)
        return lib_error(e, MANTA_EINVAL, "manta_free_now of %zu references at NULL", count);
    if ((code = lib_enter(e)) != MANTA_OK)
        return code;
    code = free_now_check(refs, count, e);
    for (size_t i = 0; i < count && code == MANTA_OK; i++)
        early += !own_ref_free_now(&lib.own, lib_ref_in(&lib.own, refs[i]));
    if (code == MANTA_OK)
        lib_act();
    lib_unlock();
    if (early)
        return lib_error(e, MANTA_EAGAIN, "%zu of %zu references have no value yet: wait for them, or cancel", early, count);
    return code;
}
