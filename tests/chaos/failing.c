/* SPDX-License-Identifier: Apache-2.0
 *
 * failing.c - a library to preload: every n-th of one sort of call fails, in one program.
 *
 * FAIL_CALL names the call (malloc covers calloc and realloc, fsync fdatasync, mmap those of a descriptor), FAIL_EVERY is n,
 * FAIL_IN is what the program's name begins with. Without them nothing fails.
 *
 * FULL_FOLDER is on a disk that has room for FULL_AFTER bytes more of each process that writes to files in it.
 *
 * Thread: any; the count is the process's.
 */
#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

static char         chosen[32];
static long         every;
static _Atomic long calls;
static const char  *full_folder; /* as the kernel names it; NULL: the disk is not full */
static _Atomic long room;

__attribute__((constructor)) static void choose_disk(void)
{
    const char *folder = getenv("FULL_FOLDER"), *after = getenv("FULL_AFTER");
    full_folder = folder && after ? folder : NULL;
    room = full_folder ? strtol(after, NULL, 10) : 0;
}

/* How much of `size` still has room: as on a real disk, a write may be a short one before there is none. */
static size_t room_take(int fd, size_t size)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    size_t  folder = strlen(full_folder);
    if (n < (ssize_t)folder + 1 || memcmp(path, full_folder, folder) != 0 || path[folder] != '/')
        return size;
    long left = atomic_fetch_sub(&room, (long)size);
    return left <= 0 ? 0 : (size_t)left < size ? (size_t)left : size;
}

__attribute__((constructor)) static void choose(void)
{
    const char *call = getenv("FAIL_CALL"), *n = getenv("FAIL_EVERY"), *in = getenv("FAIL_IN");
    if (!call || !n || !in || strncmp(program_invocation_short_name, in, strlen(in)) != 0)
        return;
    every = strtol(n, NULL, 10);
    for (size_t i = 0; i + 1 < sizeof chosen && call[i]; i++)
        chosen[i] = call[i];
}

static bool fails(const char *call)
{
    return every && strcmp(call, chosen) == 0 && atomic_fetch_add(&calls, 1) % every == every - 1;
}

EXPORTED int memfd_create(const char *name, unsigned flags)
{
    if (fails("memfd_create"))
        return errno = EMFILE, -1;
    return (int)syscall(SYS_memfd_create, name, flags);
}

EXPORTED void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    if (fd >= 0 && fails("mmap"))
        return errno = ENOMEM, MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
}

EXPORTED pid_t fork(void)
{
    static pid_t (*real)(void);
    if (fails("fork"))
        return errno = EAGAIN, -1;
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "fork");
    return real();
}

EXPORTED int posix_spawn(pid_t *restrict pid, const char *restrict path, const posix_spawn_file_actions_t *actions,
                         const posix_spawnattr_t *restrict attributes, char *const argv[restrict], char *const envp[restrict])
{
    static int (*real)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const[],
                       char *const[]);
    if (fails("posix_spawn"))
        return EAGAIN;
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "posix_spawn");
    return real(pid, path, actions, attributes, argv, envp);
}

EXPORTED ssize_t write(int fd, const void *bytes, size_t size)
{
    if (fd > 2 && fails("write"))
        return errno = ENOSPC, -1;
    size_t fits = full_folder && fd > 2 && size ? room_take(fd, size) : size;
    if (fits == 0 && size)
        return errno = ENOSPC, -1;
    return syscall(SYS_write, fd, bytes, fits);
}

EXPORTED int fsync(int fd)
{
    return fails("fsync") ? (errno = EIO, -1) : (int)syscall(SYS_fsync, fd);
}
EXPORTED int fdatasync(int fd)
{
    return fails("fsync") ? (errno = EIO, -1) : (int)syscall(SYS_fdatasync, fd);
}

/* The daemons bring a malloc of their own: whichever comes next. */
static void *next_of(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

EXPORTED void *malloc(size_t size)
{
    static void *(*real)(size_t);
    if (!real)
        *(void **)&real = next_of("malloc");
    return fails("malloc") ? (errno = ENOMEM, NULL) : real(size);
}
EXPORTED void *calloc(size_t count, size_t size)
{
    static void *(*real)(size_t, size_t);
    if (!real)
        *(void **)&real = next_of("calloc");
    return fails("malloc") ? (errno = ENOMEM, NULL) : real(count, size);
}
EXPORTED void *realloc(void *old, size_t size)
{
    static void *(*real)(void *, size_t);
    if (!real)
        *(void **)&real = next_of("realloc");
    return fails("malloc") ? (errno = ENOMEM, NULL) : real(old, size);
}
