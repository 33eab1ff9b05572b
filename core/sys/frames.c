/* SPDX-License-Identifier: Apache-2.0
 *
 * frames.c - see frames.h. _dl_find_object says which file an address is of: made for unwinders, without a lock, where
 * dl_iterate_phdr and dladdr wait for whoever loads a library.
 */
#include "core/base/clock.h"
#include "core/base/limits/raylet.h"
#include "core/sys/file.h"
#include "core/sys/frames.h"
#include "core/sys/symbols.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

enum { HEAD = 4096 };

struct frame {
    const struct link_map *of;   /* NULL: of no file that the loader knows */
    void                  *head; /* the file's first bytes, as they were mapped */
    bool                   is_done, is_read;
    struct mt_symbol       symbol;
};

/* More than a small stack has left. */
struct room {
    struct frame      frames[MT_FRAMES_MAX];
    struct mt_symbol *wanted[MT_FRAMES_MAX];
    char              buffer[MT_SYMBOLS_BUFFER_MIN];
};

/* Looked up, and not linked: a program that is built here may run on a node whose C library is older than 2.35. */
static int (*find_object)(void *, struct dl_find_object *);

void mt_frames_load(void)
{
    void *warm[1], *found = dlsym(RTLD_DEFAULT, "_dl_find_object");
    memcpy(&find_object, &found, sizeof find_object);
    backtrace(warm, 1);
}

static void *interrupted(const void *context)
{
#ifdef __x86_64__
    const ucontext_t *at = context;
    void             *pc;
    memcpy(&pc, &at->uc_mcontext.gregs[REG_RIP], sizeof pc);
    return pc;
#else
    (void)context;
    return NULL;
#endif
}

void mt_frames_take(struct mt_frames *f, const void *context)
{
    void *at[MT_FRAMES_MAX + 8], *here = interrupted(context); /* and those of the handler */
    int   count = backtrace(at, MT_FRAMES_MAX + 8), first = 0;
    while (first < count && at[first] != here)
        first++;
    f->is_exact = first < count;
    if (!f->is_exact)
        first = count > 1 ? 1 : count; /* this function */
    f->count = count - first < MT_FRAMES_MAX ? count - first : MT_FRAMES_MAX;
    memcpy(f->at, &at[first], (size_t)f->count * sizeof f->at[0]);
}

/* The file may have been replaced since it was loaded, and names out of another one would mislead. The memory is read by a system
 * call: if the file was cut, it is not there. */
static bool is_same(int fd, void *head, char *buffer)
{
    ssize_t      n = mt_pread_all(fd, buffer, HEAD, 0);
    struct iovec own = {buffer + HEAD, n > 0 ? (size_t)n : 0}, mapped = {head, own.iov_len};
    return n > 0 && process_vm_readv(getpid(), &own, 1, &mapped, 1, 0) == n && memcmp(buffer, buffer + HEAD, own.iov_len) == 0;
}

/* The names of all frames that are of the same file as this one. */
static void find_names(struct room *r, int count, const struct frame *one, int64_t until_ns)
{
    int wanted = 0,
        fd = open(one->of->l_name[0] ? one->of->l_name : "/proc/self/exe", O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool is_read;
    for (int i = 0; i < count; i++)
        if (r->frames[i].of == one->of)
            r->wanted[wanted++] = &r->frames[i].symbol;
    is_read = fd >= 0 && is_same(fd, one->head, r->buffer) &&
              mt_symbols_find(fd, r->wanted, wanted, r->buffer, sizeof r->buffer, until_ns);
    for (int i = 0; i < count; i++)
        if (r->frames[i].of == one->of) {
            r->frames[i].is_done = true;
            r->frames[i].is_read = is_read;
        }
    if (fd >= 0)
        close(fd);
}

static struct iovec text(const char *s)
{
    return (struct iovec){(void *)(uintptr_t)s, strlen(s)};
}

static struct iovec hex(uint64_t n, char out[17])
{
    char *at = out + 16;
    *at = 0;
    do {
        *--at = "0123456789abcdef"[n % 16];
    } while (n /= 16);
    return text(at);
}

static void write_line(const struct frame *f, const void *at, int fd)
{
    char         offset[17], address[17];
    uint64_t     pc = (uintptr_t)at;
    struct iovec line[] = {
        text(f->of->l_name[0] ? f->of->l_name : program_invocation_name),
        text("("),
        text(f->symbol.name),
        text("+0x"),
        hex(pc - f->of->l_addr - (f->symbol.name[0] ? f->symbol.start : 0), offset),
        text(")[0x"),
        hex(pc, address),
        text("]\n"),
    };
    (void)!writev(fd, line, sizeof line / sizeof line[0]);
}

void mt_frames_write(const struct mt_frames *f, int fd)
{
    struct room *r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int64_t      until_ns = mt_now_ns() + (int64_t)MT_FRAMES_MS * 1000000;
    if (r == MAP_FAILED) {
        backtrace_symbols_fd(f->at, f->count, fd);
        return;
    }
    for (int i = 0; i < f->count; i++) {
        struct dl_find_object found;
        void                 *in = (char *)f->at[i] - (f->is_exact && i == 0 ? 0 : 1); /* a call may be a function's last word */
        if (find_object && find_object(in, &found) == 0) {
            r->frames[i].of = found.dlfo_link_map;
            r->frames[i].head = found.dlfo_map_start;
            r->frames[i].symbol.address = (uintptr_t)in - found.dlfo_link_map->l_addr;
        }
    }
    for (int i = 0; i < f->count; i++)
        if (r->frames[i].of && !r->frames[i].is_done)
            find_names(r, f->count, &r->frames[i], until_ns);
    for (int i = 0; i < f->count; i++)
        if (r->frames[i].is_read || r->frames[i].symbol.name[0])
            write_line(&r->frames[i], f->at[i], fd);
        else
            backtrace_symbols_fd(&f->at[i], 1, fd);
    munmap(r, sizeof *r);
}
