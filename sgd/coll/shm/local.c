/* SPDX-License-Identifier: Apache-2.0
 *
 * local.c - see local.h. Owns: a descriptor and its mapping.
 */
#include "sgd/coll/shm/local.h"

#include "core/base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, NAME_BYTES = 40 };

static void name_print(char out[NAME_BYTES], uint64_t group)
{
    snprintf(out, NAME_BYTES, "manta-coll-%016" PRIx64, group);
}

/* Of this boot, and of the processes that are numbered together. 0: not known. */
static uint64_t machine_now(void)
{
    char        boot[64] = "";
    struct stat st;
    FILE       *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    bool        is_read = file && fgets(boot, sizeof boot, file);
    if (file)
        fclose(file);
    if (!is_read || stat("/proc/self/ns/pid", &st))
        return 0;
    return mt_hash_mix(mt_hash_text(MT_HASH_START, boot), st.st_ino) | 1;
}

static mt_status map(struct coll_local *local, size_t size)
{
    void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, local->fd, 0);
    if (data == MAP_FAILED)
        return mt_error(MT_ENOMEM, errno, "map a group's memory");
    local->data = data;
    local->size = size;
    return mt_ok();
}

mt_status coll_local_new(uint64_t group, size_t size, struct coll_local *out, struct coll_place *out_place)
{
    char name[NAME_BYTES];
    name_print(name, group);
    *out = (struct coll_local){.fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    if (out->fd < 0)
        return mt_error(MT_ESYS, errno, "memory for a group");
    mt_status st = mt_ok();
    if (ftruncate(out->fd, (off_t)size) || fcntl(out->fd, F_ADD_SEALS, SEALS))
        st = mt_error(MT_ENOMEM, errno, "memory for a group");
    if (st.code == MT_OK)
        st = map(out, size);
    *out_place = (struct coll_place){machine_now(), (uint32_t)getpid(), (uint32_t)out->fd};
    if (st.code == MT_OK && out_place->machine == 0)
        st = mt_error(MT_ESYS, errno, "/proc can't be read, by which members find a group's memory");
    if (st.code != MT_OK)
        coll_local_close(out);
    return st;
}

/* Whether the descriptor is memory of that group, made by this user, of a size that nobody can change. */
static bool is_of_group(int fd, uint64_t group, size_t size)
{
    char        name[NAME_BYTES], want[NAME_BYTES + 32], path[64], is[128];
    struct stat st;
    int         seals = fcntl(fd, F_GET_SEALS);
    name_print(name, group);
    snprintf(want, sizeof want, "/memfd:%s (deleted)", name);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(path, is, sizeof is - 1);
    if (n <= 0)
        return false;
    is[n] = 0;
    return strcmp(is, want) == 0 && seals >= 0 && (seals & SEALS) == SEALS && fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
           (size_t)st.st_size == size;
}

mt_status coll_local_open(const struct coll_place *place, uint64_t group, size_t size, struct coll_local *out,
                          char text[COLL_TEXT_BYTES])
{
    char path[64];
    *out = (struct coll_local){.fd = -1};
    if (place->machine != machine_now()) {
        snprintf(text, COLL_TEXT_BYTES,
                 "the group's memory is on another machine, or in another container: its members have to be "
                 "where its creator is; make it with transport MANTA_COLL_TCP");
        return mt_error(MT_EINVAL, 0, "group: another machine");
    }
    snprintf(path, sizeof path, "/proc/%u/fd/%u", place->pid, place->fd);
    out->fd = open(path, O_RDWR | O_CLOEXEC);
    if (out->fd < 0) {
        int why = errno;
        snprintf(text, COLL_TEXT_BYTES, "the group's memory can't be opened: process %u, which made it, %s (%s)", place->pid,
                 why == ENOENT ? "has gone" : "is not this user's", strerror(why));
        return mt_error(why == ENOENT ? MT_EFENCED : MT_EAUTH, why, "group: open its memory");
    }
    mt_status st = is_of_group(out->fd, group, size) ? map(out, size) : mt_error(MT_EAUTH, 0, "group: not its memory");
    if (st.code == MT_EAUTH)
        snprintf(text, COLL_TEXT_BYTES, "what process %u has as descriptor %u is no memory of this group and user", place->pid,
                 place->fd);
    if (st.code != MT_OK)
        coll_local_close(out);
    return st;
}

void coll_local_close(struct coll_local *local)
{
    if (local->data)
        munmap(local->data, local->size);
    if (local->fd > 0)
        close(local->fd);
    *local = (struct coll_local){.fd = -1};
}
