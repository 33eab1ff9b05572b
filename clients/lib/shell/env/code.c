/* SPDX-License-Identifier: Apache-2.0
 *
 * code.c - code from a .so: looked at before the dynamic linker does, and loaded.
 *
 * Owns:   nothing; what is loaded stays. Thread: any, without the owner lock.
 */
#include "clients/lib/shell/env/env.h"
#include "clients/lib/shell/state/state.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* ---- a zygote ---- */

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
