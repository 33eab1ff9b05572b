/* SPDX-License-Identifier: Apache-2.0
 *
 * env.c - runtime environments: from what the user describes to a key that the raylet knows; code from a .so.
 *
 * Owns: every struct manta_env. Thread: any; takes the owner lock only to talk to the raylet.
 */
#include "clients/lib/shell/lib.h"
#include "core/base/reserved.h"
#include "core/sha/sha256.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <sys/stat.h>
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

/* ---- code ---- */

static bool elf_head(const char *path, ElfW(Ehdr) * out)
{
    int  fd = open(path, O_RDONLY | O_CLOEXEC);
    bool is_elf = fd >= 0 && pread(fd, out, sizeof *out, 0) == sizeof *out && memcmp(out->e_ident, ELFMAG, SELFMAG) == 0;
    if (fd >= 0)
        close(fd);
    return is_elf;
}

/* Whether all that its segments name is in the file: the dynamic linker maps what is missing, and dies of SIGBUS there. */
static bool elf_is_whole(const char *path, const ElfW(Ehdr) * head)
{
    int         fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    bool        is_whole = fd >= 0 && fstat(fd, &st) == 0 && head->e_phnum;
    for (int i = 0; is_whole && i < head->e_phnum; i++) {
        ElfW(Phdr) segment;
        off_t at = (off_t)(head->e_phoff + (uint64_t)i * sizeof segment);
        is_whole = pread(fd, &segment, sizeof segment, at) == sizeof segment &&
                   (segment.p_type != PT_LOAD ||
                    (segment.p_offset <= (uint64_t)st.st_size && segment.p_filesz <= (uint64_t)st.st_size - segment.p_offset));
    }
    if (fd >= 0)
        close(fd);
    return is_whole;
}

/* What the dynamic linker would not say, or not clearly: it passes over a file for another machine as if it were not there. */
static const char *code_wrong(const char *path, char *text, size_t size)
{
    ElfW(Ehdr) code, own;
    if (access(path, R_OK) < 0)
        return strerrordesc_np(errno);
    if (!elf_head(path, &code))
        return "it is not an ELF file";
    if (!elf_head("/proc/self/exe", &own))
        return NULL;
    if (code.e_ident[EI_CLASS] != own.e_ident[EI_CLASS] || code.e_ident[EI_DATA] != own.e_ident[EI_DATA] ||
        code.e_machine != own.e_machine) {
        snprintf(text, size, "it is for another architecture (ELF machine %d, class %d; this program's are %d and %d)",
                 code.e_machine, code.e_ident[EI_CLASS], own.e_machine, own.e_ident[EI_CLASS]);
        return text;
    }
    if (code.e_type != ET_DYN)
        return "it is not a shared object (link it with -shared)";
    return elf_is_whole(path, &code) ? NULL : "it is cut short";
}

manta_status lib_code_load(const char *path, manta_error *e)
{
    char        text[160], full[4096];
    const char *wrong = code_wrong(path, text, sizeof text);
    if (!wrong && !realpath(path, full)) /* a name without a slash would be searched for elsewhere */
        wrong = strerrordesc_np(errno);
    if (!wrong && !dlopen(full, RTLD_NOW | RTLD_LOCAL))
        wrong = dlerror();
    if (!wrong)
        return MANTA_OK; /* its constructors have registered its functions; it stays loaded */
    return lib_error(e, MANTA_EENV, "could not load code: \"%.150s\": %.250s", path, wrong);
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

bool lib_env_key(struct own_class_spec *spec, const manta_env *env, struct own_failure *f)
{
    const struct manta_env *made = lib_handle_of(env, LIB_OF_ENV);
    spec->env = made ? made->key : lib.role == LIB_DRIVER ? lib.env : 0;
    if (made || !env)
        return true;
    own_failure_set(f, MT_EHANDLE, "%s: its runtime environment's handle was freed before, or is none", spec->name);
    return false;
}

/* ---- inside one ---- */

manta_status lib_env_enter(manta_error *e)
{
    const char  *key = getenv("MANTA_ENV"), *code = getenv("MANTA_CODE");
    manta_status status = MANTA_OK;
    if (key)
        lib.env = strtoull(key, NULL, 16);
    if (code) {
        snprintf(lib.code, sizeof lib.code, "%s", code);
        status = lib_code_load(code, e);
    }
    unsetenv("MANTA_ENV"); /* what this process starts itself is in no environment of ours */
    unsetenv("MANTA_CODE");
    return status;
}
