/* SPDX-License-Identifier: Apache-2.0
 *
 * unpack_test.c - archives that would leave their folder, lie about their sizes, or are cut short: refused, and nothing of
 * them stays; a good one makes what it says.
 *
 * Thread: one. Works in a folder of its own in /tmp.
 */
#include "tests/unit/base/test.h"

#include "core/sys/archive.h"
#include "core/base/limits/env.h"
#include "core/sha/sha256.h"
#include "core/sys/file.h"
#include "raylet/files/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

struct made {
    uint8_t  bytes[16 * 1024];
    uint64_t size;
    uint32_t entries;
};

static char base[64], folder[96], text[MT_ENV_TEXT_BYTES_MAX];

static void begin(struct made *m)
{
    struct mt_archive_head head = {.magic = MT_ARCHIVE_MAGIC, .version = MT_ARCHIVE_VERSION};
    memcpy(m->bytes, &head, sizeof head);
    m->size = sizeof head;
    m->entries = 0;
}

static struct mt_archive_entry *add(struct made *m, uint32_t kind, const char *path, const char *data, uint64_t size)
{
    struct mt_archive_entry entry = {.kind = kind, .mode = 0600, .size = size, .path_size = (uint32_t)strlen(path)};
    struct mt_archive_head  head;
    void                   *at = m->bytes + m->size;
    memcpy(at, &entry, sizeof entry);
    memcpy(m->bytes + m->size + sizeof entry, path, entry.path_size);
    memcpy(m->bytes + m->size + sizeof entry + entry.path_size, data, size);
    m->size += sizeof entry + entry.path_size + size;
    memcpy(&head, m->bytes, sizeof head);
    head.entries = ++m->entries;
    memcpy(m->bytes, &head, sizeof head);
    return at;
}

static bool unpack_as(const struct made *m, uint64_t size, bool right_hash)
{
    mt_sha256 sha;
    uint8_t   sum[MT_SHA256_SIZE];
    int       fd = memfd_create("archive", MFD_CLOEXEC);
    assert_true(write(fd, m->bytes, m->size) == (ssize_t)m->size);
    mt_sha256_init(&sha);
    mt_sha256_add(&sha, m->bytes, m->size);
    mt_sha256_end(&sha, sum);
    sum[0] ^= !right_hash;
    bool is_done = rlt_unpack(fd, size, sum, folder, text, sizeof text);
    close(fd);
    return is_done;
}

static bool exists(const char *name)
{
    char        path[256];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return lstat(path, &st) == 0;
}

/* Refused with this word, and the folder is gone. */
static void refused(const struct made *m, uint64_t size, bool right_hash, const char *word)
{
    struct stat st;
    assert_true(!unpack_as(m, size, right_hash));
    if (!strstr(text, word))
        fprintf(stderr, "\"%s\" does not say \"%s\"\n", text, word);
    assert_true(strstr(text, word));
    assert_true(lstat(folder, &st) < 0);
}

static void good(void **state)
{
    (void)state;
    struct made m;
    begin(&m);
    add(&m, MT_ARCHIVE_FOLDER, "d", "", 0);
    add(&m, MT_ARCHIVE_FILE, "d/f", "hello", 5);
    add(&m, MT_ARCHIVE_LINK, "d/up", "../x", 4);
    add(&m, MT_ARCHIVE_FILE, "deep/er/f", "", 0); /* folders on the way are made */
    assert_true(unpack_as(&m, m.size, true));
    assert_true(exists("d/f") && exists("d/up") && exists("deep/er/f"));
    mt_tree_remove(folder);
}

/* Every way out that a path or a link has. */
static void climbers(void **state)
{
    (void)state;
    static const char *const paths[] = {"../x", "/tmp/x", "a/../../x", "..", "a/..", ".", "", "a//b", "a/", "./a"};
    static const struct {
        const char *path, *target;
    } links[] = {
        {"l", "/etc/passwd"}, {"l", ".."}, {"l", "../x"}, {"a/l", "../../x"}, {"l", "a/../../x"}, {"l", "a/.."}, {"l", ""},
    };
    struct made m;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        begin(&m);
        add(&m, MT_ARCHIVE_FILE, "first", "x", 1);
        add(&m, MT_ARCHIVE_FILE, paths[i], "x", 1);
        refused(&m, m.size, true, "path");
    }
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        begin(&m);
        add(&m, MT_ARCHIVE_LINK, links[i].path, links[i].target, strlen(links[i].target));
        refused(&m, m.size, true, "link");
    }
    begin(&m); /* through a link that is fine by itself: never followed */
    add(&m, MT_ARCHIVE_FOLDER, "real", "", 0);
    add(&m, MT_ARCHIVE_LINK, "l", "real", 4);
    add(&m, MT_ARCHIVE_FILE, "l/f", "x", 1);
    refused(&m, m.size, true, "l/f");
    begin(&m); /* over a link */
    add(&m, MT_ARCHIVE_LINK, "l", "elsewhere", 9);
    add(&m, MT_ARCHIVE_FILE, "l", "x", 1);
    refused(&m, m.size, true, "make \"l\"");
    begin(&m); /* a zero byte hides the rest of the path */
    add(&m, MT_ARCHIVE_FILE, "abc", "x", 1);
    m.bytes[sizeof(struct mt_archive_head) + sizeof(struct mt_archive_entry) + 1] = 0;
    refused(&m, m.size, true, "zero byte");
}

static void liars(void **state)
{
    (void)state;
    struct made              m;
    struct mt_archive_entry *entry;
    begin(&m);
    add(&m, MT_ARCHIVE_FILE, "f", "hello", 5);
    refused(&m, m.size, false, "SHA-256");
    refused(&m, m.size - 1, true, "larger than the archive");
    refused(&m, 10, true, "cut short");
    refused(&m, m.size + 1000, true, "SHA-256"); /* more was promised than the entries are */
    m.size -= 3;
    refused(&m, m.size + 3, true, "cut short");
    begin(&m);
    entry = add(&m, MT_ARCHIVE_FILE, "f", "x", 1);
    entry->size = UINT64_MAX - 10;
    refused(&m, m.size, true, "larger than the archive");
    entry->size = 1;
    entry->path_size = UINT32_MAX;
    refused(&m, m.size, true, "path");
    entry->path_size = 1;
    entry->kind = 77;
    refused(&m, m.size, true, "unknown kind");
    begin(&m);
    m.bytes[0] = 'X';
    refused(&m, m.size, true, "no archive");
    begin(&m);
    m.bytes[8] = 9;
    refused(&m, m.size, true, "version");
    begin(&m);
    memset(m.bytes + 12, 0xff, 4);
    refused(&m, m.size, true, "too many files");
    begin(&m);
    add(&m, MT_ARCHIVE_FILE, "twice", "x", 1);
    add(&m, MT_ARCHIVE_FILE, "twice", "x", 1);
    refused(&m, m.size, true, "twice");
}

/* A file system that is full, as a limit on a file's size shows it. */
static void full(void **state)
{
    (void)state;
    static const char data[8000];
    struct rlimit     before, small;
    struct made       m;
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 4096;
    begin(&m);
    add(&m, MT_ARCHIVE_FILE, "f", data, sizeof data);
    int       fd = memfd_create("archive", MFD_CLOEXEC);
    mt_sha256 sha;
    uint8_t   sum[MT_SHA256_SIZE];
    assert_true(write(fd, m.bytes, m.size) == (ssize_t)m.size);
    mt_sha256_init(&sha);
    mt_sha256_add(&sha, m.bytes, m.size);
    mt_sha256_end(&sha, sum);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    bool is_done = rlt_unpack(fd, m.size, sum, folder, text, sizeof text);
    setrlimit(RLIMIT_FSIZE, &before);
    close(fd);
    assert_true(!is_done && strstr(text, "write \"f\"") && strstr(text, strerrordesc_np(EFBIG)));
    assert_true(!exists(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good),
        cmocka_unit_test(climbers),
        cmocka_unit_test(liars),
        cmocka_unit_test(full),
    };
    snprintf(base, sizeof base, "/tmp/mt-unpack.XXXXXX");
    if (!mkdtemp(base))
        return 1;
    snprintf(folder, sizeof folder, "%s/it", base);
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    return rmdir(base) < 0 ? 1 : failures;
}
