/* SPDX-License-Identifier: Apache-2.0
 *
 * connect.c - the handshake with the raylet, and what it maps.
 *
 * Owns:   the unix socket and every mapping of memory shared with the raylet. Thread: any, under the lock once connected.
 */
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/segments/segments.h"
#include "clients/lib/shell/socket/socket.h"
#include "clients/lib/shell/state/state.h"

#include "core/sys/cpus.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

/* ---- hello ---- */

/* What does not fit is counted all the same. */
static size_t append(char *to, size_t at, const char *text)
{
    size_t size = strlen(text) + 1;
    if (at + size <= CTL_HELLO_STRINGS_MAX)
        memcpy(to + at, text, size);
    return at + size;
}

/* What a worker may not see: the way to the cluster's token, and the marks of our own processes. */
static bool environment_passes(const char *entry)
{
    return strncmp(entry, "MANTA_TOKEN", 11) && strncmp(entry, "MANTA_FD=", 9) && strncmp(entry, "MANTA_ROLE=", 11) &&
           strncmp(entry, "MANTA_ENV=", 10) && strncmp(entry, "MANTA_CODE=", 11) &&
           strncmp(entry, LIB_SOCKET "=", sizeof LIB_SOCKET) && strncmp(entry, LIB_WARDEN "=", sizeof LIB_WARDEN);
}

static mt_status hello_strings(char *strings, int argc, char **argv, struct ctl_hello *hello)
{
    size_t at = 0;
    char   folder[4096];
    for (int i = 0; i < argc; i++, hello->argc++)
        at = append(strings, at, argv[i]);
    for (char **entry = environ; entry && *entry; entry++) {
        if (!environment_passes(*entry))
            continue;
        at = append(strings, at, *entry);
        hello->envc++;
    }
    if (!getcwd(folder, sizeof folder))
        return mt_error(MT_ESYS, errno, "the current folder, in which workers are to start, can't be found (was it removed?)");
    at = append(strings, at, folder);
    if (at > CTL_HELLO_STRINGS_MAX)
        return mt_error(MT_EINVAL, 0,
                        "this program's arguments and environment, which its workers get, are more than 128 KiB: pass long "
                        "ones in a file, and unset variables that no worker needs");
    hello->strings_size = (uint32_t)at;
    return mt_ok();
}

mt_status lib_hello(int fd, enum ctl_role role, uint64_t process, uint64_t job, int argc, char **argv, const char *job_name)
{
    struct ctl_hello hello = {.flags = role == CTL_DRIVER && lib.output.is_wanted ? CTL_HELLO_LOGS : 0,
                              .magic = CTL_MAGIC,
                              .version_min = mt_release.wire.min,
                              .version_max = mt_release.wire.max,
                              .role = role,
                              .process = process,
                              .job = job};
    char            *strings = NULL;
    int              exe = -1;
    mt_status        st = mt_ok();

    snprintf(hello.job_name, sizeof hello.job_name, "%s", job_name);
    if (role == CTL_DRIVER) {
        strings = malloc(CTL_HELLO_STRINGS_MAX);
        exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        if (!strings || exe < 0)
            st = mt_error(MT_ESYS, errno, "own executable");
        else
            st = hello_strings(strings, argc, argv, &hello);
    }
    if (st.code == 0)
        st = lib_socket_send(fd, CTL_HELLO, mt_id_make(process, 0, 0), &hello, sizeof hello, strings, hello.strings_size, exe);
    free(strings);
    if (exe >= 0)
        close(exe);
    return st;
}

/* ---- welcome ---- */

enum { PREPARE_ATTEMPTS = 8 };
enum { WELCOME_FDS = 4 }; /* what comes after them not every process gets */

static bool events_are_off(void)
{
    const char *text = getenv("MANTA_EVENTS");
    return text && strcmp(text, "0") == 0;
}

/* The ring of events; its size is the memory's. */
static mt_status events_map(int fd)
{
    struct stat st;
    void       *at = fstat(fd, &st) == 0 && st.st_size > LANE_EVENTS_OFFSET ? lib_map(fd, 0, (size_t)st.st_size, true) : NULL;
    if (!at)
        return mt_error(MT_ENOMEM, errno, "map the ring of events");
    lib.events.shared = at;
    lib.events.capacity = (uint32_t)(((size_t)st.st_size - LANE_EVENTS_OFFSET) / sizeof(struct lane_event));
    lib.events.wall_ns = lib_wall_ns();
    return mt_ok();
}

/* manta_init has checked the option behind it; what else stands there is the default. */
static uint64_t lineage_bytes(void)
{
    const char *text = getenv("MANTA_LINEAGE_BYTES");
    char       *end = NULL;
    long long   bytes = text ? strtoll(text, &end, 10) : 0;
    if (!text || *end || bytes == 0)
        return MT_LIB_LINEAGE_BYTES;
    return bytes < 0 ? 0 : (uint64_t)bytes;
}

static mt_status welcome_map(const struct lane_record *record, const int *fds, int fd_count)
{
    lib.ctl = lib_map(fds[0], 0, LANE_BYTES, true);
    lib.park = lib_map(fds[1], record->slot * sizeof *lib.park, sizeof *lib.park, true);
    lib.pins = lib_map(fds[2], 0, OS_PINS_BYTES, true);
    lib.switch_park = lib_map(fds[3], 0, sizeof *lib.switch_park, true);
    if (!lib.ctl || !lib.park || !lib.pins || !lib.switch_park)
        return mt_error(MT_ENOMEM, errno, "map the memory shared with the raylet");
    lane_producer_init(&lib.up, &lane_header_of(lib.ctl)->forward, lane_forward_of(lib.ctl));
    lane_consumer_init(&lib.down, &lane_header_of(lib.ctl)->back, lane_back_of(lib.ctl));
    return fd_count > WELCOME_FDS ? events_map(fds[WELCOME_FDS]) : mt_ok();
}

mt_status lib_prepare(void)
{
    mt_status news = mt_vec_reserve(&lib.news, MT_LIB_SPARE), maps = mt_vec_reserve(&lib.mappings, MT_LIB_SPARE);
    mt_status wrk = lib.role == LIB_DRIVER ? mt_ok() : wrk_prepare(&lib.wrk);
    return news.code ? news : maps.code ? maps : wrk;
}

mt_status lib_welcome(int fd, uint64_t process, int64_t timeout_ms, char text[256])
{
    struct pollfd      p = {.fd = fd, .events = POLLIN};
    uint8_t            bytes[LANE_RECORD_SIZE + sizeof(struct ctl_welcome)];
    int                fds[CTL_FDS_MAX], fd_count, n;
    size_t             size;
    struct lane_record record;

    do
        n = poll(&p, 1, (int)timeout_ms);
    while (n < 0 && errno == EINTR);
    if (n <= 0) {
        snprintf(text, 256, "the raylet has not answered within %lld ms", (long long)timeout_ms);
        return mt_error(MT_ETIMEDOUT, 0, "welcome");
    }
    snprintf(text, 256, "the raylet closed the connection before it answered");
    MT_TRY(lib_socket_receive(fd, bytes, sizeof bytes, &size, fds, &fd_count));
    if (size < sizeof bytes)
        return mt_error(MT_EPROTO, 0, "welcome");
    memcpy(&record, bytes, sizeof record);
    memcpy(&lib.welcome, bytes + LANE_RECORD_SIZE, sizeof lib.welcome);
    if (lib.welcome.magic != CTL_MAGIC || (lib.welcome.code == 0 && fd_count < WELCOME_FDS))
        return mt_error(MT_EPROTO, 0, "welcome");
    if (lib.welcome.code) {
        snprintf(text, 256, "the raylet refused: %.200s", lib.welcome.text);
        return mt_error(lib.welcome.code, 0, "welcome");
    }
    text[0] = 0;
    MT_TRY(welcome_map(&record, fds, fd_count));
    lib.socket = fd;
    lib_lock(); /* other threads may free what an earlier job has left */
    own_reopen(&lib.own, process, lib.welcome.node, lib.welcome.epoch, lib.welcome.job);
    lib_unlock();
    lib.own.pid = (int32_t)getpid();
    lib.own.cpus = (uint32_t)mt_cpus_allowed();
    lib.own.now_ns = lib_now_ns();
    lib.own.wall_ns = events_are_off() ? 0 : lib_wall_ns();
    lib.own.free_place = lib_free_place;
    lib.own.kept_max = lineage_bytes();
    wrk_init(&lib.wrk, lib.welcome.epoch);
    wrk_tie(&lib.wrk, &lib.own);
    for (int attempt = 0; own_prepare(&lib.own).code || lib_prepare().code; attempt++)
        if (attempt == PREPARE_ATTEMPTS)
            return mt_error(MT_ENOMEM, 0, "memory set aside for what may not fail");
    MT_TRY(os_client_init(&lib.store, process, lib.welcome.node, lib.welcome.job, lib.pins));
    lib.store.is_summing = getenv("MANTA_CHECKSUM") && strcmp(getenv("MANTA_CHECKSUM"), "1") == 0;
    return mt_ok();
}

/* ---- the end ---- */

static void unmap(void *memory, size_t size)
{
    if (memory)
        munmap(memory, size);
}

void lib_unmap_shared(void)
{
    while (lib.mappings.count)
        lib_unmap_lane(lib.mappings.data[0].lane);
    for (size_t i = 0; i < lib.segments.count; i++)
        unmap(lib.segments.data[i].data, lib.segments.data[i].size);
    mt_vec_fini(&lib.segments);
    mt_vec_fini(&lib.mappings);
    mt_vec_fini(&lib.regions); /* they stay mapped until the user closes them */
    unmap(lib.ctl, LANE_BYTES);
    unmap(lib.park, sizeof *lib.park);
    unmap(lib.pins, OS_PINS_BYTES);
    unmap(lib.switch_park, sizeof *lib.switch_park);
    if (lib.events.shared)
        unmap(lib.events.shared, lane_events_bytes(lib.events.capacity));
    lib.events.shared = NULL;
    lib.ctl = lib.pins = NULL;
    lib.park = lib.switch_park = NULL;
}

void lib_unmap_lane(void *lane)
{
    for (size_t i = 0; i < lib.mappings.count; i++) {
        if (lib.mappings.data[i].lane != lane)
            continue;
        munmap(lane, LANE_BYTES);
        munmap(lib.mappings.data[i].park, sizeof(struct lane_park));
        mt_vec_remove_swap(&lib.mappings, i);
        return;
    }
}
