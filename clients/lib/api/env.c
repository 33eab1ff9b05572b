/* SPDX-License-Identifier: Apache-2.0
 *
 * env.c - runtime environments for the user.
 *
 * Owns:   every struct manta_env. Thread: any; takes the owner lock only to talk to the raylet.
 */
#include "clients/lib/api/api.h"
#include "clients/lib/shell/env/env.h"
#include "clients/lib/shell/handles/handles.h"
#include "clients/lib/shell/state/state.h"

#include <stdlib.h>

manta_env *manta_env_new(const manta_runtime_env *env, manta_error *e)
{
    struct manta_env *made = NULL;
    manta_env        *handle = NULL;
    if (!env) {
        lib_error(e, MANTA_EINVAL, "manta_env_new of NULL");
        return NULL;
    }
    if (lib_enter(e))
        return NULL;
    manta_status code = lib_check(e);
    lib_unlock();
    made = code ? NULL : calloc(1, sizeof *made);
    if (!code && !made)
        lib_error(e, MANTA_ENOMEM, "no memory for a runtime environment");
    if (made && lib_env_make(env, &made->key, e) == MANTA_OK && lib_enter(e) == MANTA_OK) {
        handle = lib_handle_new(LIB_OF_ENV, made);
        if (!handle)
            lib_error(e, MANTA_ENOMEM, "no memory for a runtime environment");
        lib_unlock();
    }
    if (!handle)
        free(made);
    return handle;
}

manta_status manta_env_free(manta_env *env)
{
    manta_status code = env ? lib_enter_held(NULL) : MANTA_OK;
    if (!env || code)
        return code;
    void *made = lib_handle_end(env, LIB_OF_ENV);
    lib_unlock();
    free(made);
    return made ? MANTA_OK : MANTA_EHANDLE;
}
