/* SPDX-License-Identifier: Apache-2.0
 *
 * env.h - runtime environments: from what the user describes to a key that the raylet knows; code from a .so.
 *
 * Owns: nothing after a call. Thread: any, without the owner lock.
 */
#ifndef LIB_ENV_H
#define LIB_ENV_H

#include "clients/lib/manta.h"

#define LIB_CODE_FOLDER ".manta-code"

struct lib_packed {
    int      fd;
    uint64_t size;
    uint8_t  sha256[32];
};
/* Packs working_dir and files, and the .so under code_name (NULL: none). EENV, with the step in words. */
manta_status lib_pack(const manta_runtime_env *env, const char *code_path, const char *code_name, struct lib_packed *out,
                      manta_error *e);
manta_status lib_env_make(const manta_runtime_env *env, uint64_t *out_key, manta_error *e);
manta_status lib_env_enter(manta_error *e); /* a zygote: takes over what its raylet has said of it */
manta_status lib_code_load(const char *path, manta_error *e);

#endif
