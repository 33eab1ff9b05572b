/* SPDX-License-Identifier: Apache-2.0
 *
 * make.c - a runtime environment, from what the user describes to a key that the raylet knows.
 *
 * Owns:   nothing after the call. Thread: any; takes the owner lock only to talk to the raylet.
 */
#include "clients/lib/shell/env/env.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/wait/wait.h"

#include "core/base/reserved.h"
#include "core/sha/sha256.h"
#include "core/base/limits/env.h"

#include <stdlib.h>
#include <unistd.h>

/* ---- env_vars ---- */

/* Names that lead a process to its raylet: a user's value would lead it astray. */
static bool is_ours(const char *variable)
{
    static const char *const ours[] = {"MANTA_FD=", "MANTA_ROLE=", "MANTA_JOB=", "MANTA_ENV=", "MANTA_CODE=", "MANTA_TOKEN"};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (strncmp(variable, ours[i], strlen(ours[i])) == 0)
            return true;
    return false;
}

static manta_status vars_join(const char *const *vars, char *out, uint32_t *out_size, manta_error *e)
{
    uint32_t size = 0;
    for (; vars && *vars; vars++) {
        size_t more = strlen(*vars) + 1;
        if (!strchr(*vars, '=') || (*vars)[0] == '=')
            return lib_error(e, MANTA_EINVAL, "env_vars: \"%.100s\" is no NAME=value", *vars);
        if (is_ours(*vars))
            return lib_error(e, MANTA_EINVAL, "env_vars: \"%.40s\" is a name that Manta itself needs", *vars);
        if (more > MT_ENV_VARS_BYTES_MAX - size)
            return lib_error(e, MANTA_EENV, "could not set env_vars: they are more than %d bytes", MT_ENV_VARS_BYTES_MAX);
        memcpy(out + size, *vars, more);
        size += (uint32_t)more;
    }
    *out_size = size;
    return MANTA_OK;
}

/* ---- making one ---- */

static uint64_t key_of(const struct ctl_env *def, const char *strings)
{
    mt_sha256 sha;
    uint8_t   sum[MT_SHA256_SIZE];
    uint64_t  key;
    mt_sha256_init(&sha);
    mt_sha256_add(&sha, def, sizeof *def); /* its key is 0 so far */
    mt_sha256_add(&sha, strings, def->strings_size);
    mt_sha256_end(&sha, sum);
    memcpy(&key, sum, sizeof key);
    return key ? key : 1;
}

/* What goes into the archive, if anything: new files, and with them the code, also that of the environment around. */
static manta_status files_pack(const manta_runtime_env *env, struct ctl_env *def, struct lib_packed *packed, manta_error *e)
{
    const char  *code = env->code ? env->code : lib.code[0] ? lib.code : NULL;
    const char  *slash = code ? strrchr(code, '/') : NULL;
    manta_status status;
    packed->fd = -1;
    if (!env->working_dir && !(env->files && env->files[0]) && !env->code)
        return MANTA_OK;
    if (code && snprintf(def->code, sizeof def->code, "%s/%s", LIB_CODE_FOLDER, slash ? slash + 1 : code) >= (int)sizeof def->code)
        return lib_error(e, MANTA_EENV, "could not load code: the name of \"%.200s\" is too long", code);
    status = lib_pack(env, code, def->code, packed, e);
    if (status)
        return status;
    def->archive_size = packed->size;
    memcpy(def->sha256, packed->sha256, sizeof def->sha256);
    if (env->working_dir || (env->files && env->files[0]))
        def->flags |= CTL_ENV_CHDIR;
    return MANTA_OK;
}

manta_status lib_env_make(const manta_runtime_env *env, uint64_t *out_key, manta_error *e)
{
    struct ctl_env     def = {.parent = lib.env};
    struct lib_packed  packed;
    struct lib_request request;
    manta_status       code = MANTA_OK;
    if (MT_RESERVED_IS_USED(env))
        return lib_error(e, MANTA_EINVAL, MT_RESERVED_TEXT, "manta_runtime_env");
    char *strings = malloc(MT_ENV_VARS_BYTES_MAX);
    if (!strings)
        return lib_error(e, MANTA_ENOMEM, "no memory for a runtime environment");
    code = vars_join(env->env_vars, strings, &def.strings_size, e);
    if (!code && env->code)
        code = lib_code_load(env->code, e);
    if (!code && (code = files_pack(env, &def, &packed, e)) == MANTA_OK) {
        def.key = key_of(&def, strings);
        code = lib_enter(e);
        bool is_in = code == MANTA_OK;
        if (is_in && (code = lib_check(e)) == MANTA_OK)
            code = lib_call_socket(&request, CTL_ENV, &def, sizeof def, strings, def.strings_size, packed.fd, MT_LIB_REQUEST_MS, e);
        if (is_in)
            lib_unlock();
        if (packed.fd >= 0)
            close(packed.fd);
    }
    free(strings);
    *out_key = def.key;
    return code;
}
