/* SPDX-License-Identifier: Apache-2.0
 *
 * events.c - files of events as TensorBoard reads them.
 *
 *   record:  length (u64) | masked crc32c of the length (u32) | data | masked crc32c of the data (u32)     little-endian
 *   data:    a protobuf Event {1: wall time (double), 2: step (varint), 3: file version, 5: Summary, 7: SessionLog}
 *
 * The first record says which version it is; each further one holds one scalar, or a message for a plug-in. Thread: the main one.
 */
#include "clients/cli/events/events.h"
#include "core/base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NAME_BEGIN "events.out.tfevents."

enum { EVENT_MAX = 256, TAG_MAX = 128, PLUGIN_MAX = 16 * 1024 };

static uint32_t crc32c(const unsigned char *bytes, size_t size)
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static size_t put(unsigned char *to, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = (unsigned char)(value >> 8 * i);
    return bytes;
}

static size_t put_crc(unsigned char *to, const unsigned char *bytes, size_t size)
{
    uint32_t crc = crc32c(bytes, size);
    return put(to, (crc >> 15 | crc << 17) + 0xa282ead8u, 4);
}

static size_t put_varint(unsigned char *to, uint64_t value)
{
    size_t n = 0;
    for (; value > 127; value >>= 7)
        to[n++] = (unsigned char)(value | 128);
    to[n++] = (unsigned char)value;
    return n;
}

static size_t put_wall_time(unsigned char *to, double wall_s)
{
    uint64_t bits;
    memcpy(&bits, &wall_s, sizeof bits);
    to[0] = 0x09;
    return 1 + put(to + 1, bits, 8);
}

static bool record_write(FILE *file, const unsigned char *data, size_t size)
{
    unsigned char head[12], tail[4];
    put(head, size, 8);
    put_crc(head + 8, head, 8);
    put_crc(tail, data, size);
    return fwrite(head, sizeof head, 1, file) == 1 && fwrite(data, size, 1, file) == 1 && fwrite(tail, sizeof tail, 1, file) == 1 &&
           fflush(file) == 0;
}

static double wall_now(void)
{
    return (double)mt_wall_ns() * 1e-9;
}

/* The second that a new file's name tells. TensorBoard reads a folder's files in the order of their names, so it is past that of
   each file which is there: of the same second, or written by a machine whose clock is ahead. */
static long long name_second(const char *folder)
{
    long long      second = (long long)time(NULL), other;
    DIR           *dir = opendir(folder);
    struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        if (sscanf(entry->d_name, NAME_BEGIN "%10lld", &other) == 1 && other >= second)
            second = other + 1;
    if (dir)
        closedir(dir);
    return second;
}

FILE *train_events_open(const char *folder)
{
    static const char version[] = "brain.Event:2";
    char              path[4096], host[256] = "host";
    unsigned char     data[EVENT_MAX];
    mkdir(folder, 0755); /* where it is there already, well */
    gethostname(host, sizeof host - 1);
    snprintf(path, sizeof path, "%.3000s/" NAME_BEGIN "%010lld.%.200s.%d.0", folder, name_second(folder), host, (int)getpid());
    FILE *file = fopen(path, "wbe");
    if (!file)
        return NULL;
    size_t n = put_wall_time(data, wall_now());
    data[n++] = 0x1a;
    data[n++] = sizeof version - 1;
    memcpy(data + n, version, sizeof version - 1);
    if (record_write(file, data, n + sizeof version - 1))
        return file;
    int err = errno;
    fclose(file);
    errno = err;
    return NULL;
}

/* Event {2: step, 7: SessionLog {1: START}}: readers drop what they have of that step and later ones. */
bool train_events_from(FILE *file, int64_t step)
{
    unsigned char data[EVENT_MAX];
    size_t        n = put_wall_time(data, wall_now());
    data[n++] = 0x10;
    n += put_varint(data + n, (uint64_t)step);
    data[n++] = 0x3a;
    data[n++] = 2;
    data[n++] = 0x08;
    data[n++] = 1;
    return record_write(file, data, n);
}

bool train_events_scalar(FILE *file, double wall_s, int64_t step, const char *tag, double value)
{
    unsigned char data[EVENT_MAX];
    size_t        n, tag_size = strnlen(tag, TAG_MAX - 1), value_size = 2 + tag_size + 5;
    float         simple = (float)value;
    uint32_t      bits;

    memcpy(&bits, &simple, sizeof bits);
    n = put_wall_time(data, wall_s > 0 ? wall_s : wall_now());
    data[n++] = 0x10;
    n += put_varint(data + n, (uint64_t)step);
    data[n++] = 0x2a; /* Summary, with one Value: its tag and its number */
    n += put_varint(data + n, value_size + (value_size > 127 ? 3 : 2));
    data[n++] = 0x0a;
    n += put_varint(data + n, value_size);
    data[n++] = 0x0a;
    n += put_varint(data + n, tag_size);
    memcpy(data + n, tag, tag_size);
    n += tag_size;
    data[n++] = 0x15;
    n += put(data + n, bits, 4);
    return record_write(file, data, n);
}

static size_t put_field(unsigned char *to, unsigned char key, const void *bytes, size_t size)
{
    size_t n = 0;
    to[n++] = key;
    n += put_varint(to + n, size);
    memmove(to + n, bytes, size);
    return n + size;
}

/* Event {5: Summary {1: Value {1: tag, 8: a tensor that says nothing, 9: metadata {1: for a plug-in {1: name, 2: content}}}}} */
bool train_events_plugin(FILE *file, double wall_s, const char *tag, const char *plugin, const void *content, size_t size)
{
    static const unsigned char nothing[] = {0x08, 1, 0x12, 4, 0x12, 2, 0x08, 1, 0x2a, 4, 0, 0, 0, 0}; /* float32[1] */
    unsigned char              one[PLUGIN_MAX + EVENT_MAX], two[sizeof one];
    size_t                     n;
    if (size > PLUGIN_MAX - 2 * TAG_MAX || strlen(tag) >= TAG_MAX || strlen(plugin) >= TAG_MAX) {
        errno = EMSGSIZE;
        return false;
    }
    n = put_field(one, 0x0a, plugin, strlen(plugin));
    n += put_field(one + n, 0x12, content, size);
    n = put_field(two, 0x0a, one, n);
    size_t of_value = put_field(one, 0x0a, tag, strlen(tag));
    of_value += put_field(one + of_value, 0x42, nothing, sizeof nothing);
    of_value += put_field(one + of_value, 0x4a, two, n);
    n = put_field(two, 0x0a, one, of_value);
    of_value = put_wall_time(one, wall_s);
    of_value += put_field(one + of_value, 0x2a, two, n);
    return record_write(file, one, of_value);
}
