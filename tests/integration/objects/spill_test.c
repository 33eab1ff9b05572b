/* SPDX-License-Identifier: Apache-2.0
 *
 * spill_test.c - more values than memory: they go to disk and come back; and the ends of memory and of the disk.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/harness.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static const size_t KIB = 1024, MIB = 1024 * 1024;

/* ---- contents ---- */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * 0x7fb5d329728ea185u;
    return x ^ x >> 27;
}
/* Noise, that no compression shortens, for odd seeds; else rows of one letter. */
static void fill(void *data, size_t size, uint64_t seed)
{
    uint8_t *p = data;
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word = seed % 2 ? mix(seed << 32 ^ i) : (seed + i / 4096) % 251 * 0x0101010101010101u;
        memcpy(p + i, &word, size - i < 8 ? size - i : 8);
    }
}
static char       scratch[64 << 20];
static manta_ref *put_filled(size_t size, uint64_t seed)
{
    fill(scratch, size, seed);
    return manta_put(scratch, size);
}
static void check_filled(manta_ref *ref, size_t size, uint64_t seed)
{
    manta_error e;
    manta_view  view;
    CHECK_CODE(manta_get(ref, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK_EQ(view.size, size);
    fill(scratch, size, seed);
    CHECK(memcmp(view.data, scratch, size) == 0);
    manta_release(&view);
}

/* How many files without a name the raylet has open: its spill files. Not what has lost its name, as this program does, which the
 * raylet holds too, when it is built anew meanwhile. */
static int spill_files(void)
{
    char           path[64], link[512];
    struct dirent *entry;
    int            raylet, count = 0;
    CHECK_EQ(test_find(getpid(), "manta-raylet", &raylet, 1), 1);
    snprintf(path, sizeof path, "/proc/%d/fd", raylet);
    DIR *folder = opendir(path);
    CHECK(folder);
    while ((entry = readdir(folder))) {
        snprintf(path, sizeof path, "/proc/%d/fd/%.20s", raylet, entry->d_name);
        ssize_t n = readlink(path, link, sizeof link - 1);
        link[n > 0 ? n : 0] = 0;
        count += strstr(link, "(deleted)") && (strstr(link, "/#") || strstr(link, "/.manta-spill-"));
    }
    closedir(folder);
    return count;
}
static void no_spill_files_soon(void)
{
    CHECK_SOON(spill_files() <= 0);
}

static void there_and_back(size_t size, int count, int rounds)
{
    manta_ref **refs = calloc((size_t)count, sizeof *refs);
    CHECK(refs);
    for (int i = 0; i < count; i++)
        refs[i] = put_filled(size, (uint64_t)i);
    CHECK(spill_files() > 0);
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < count; i++)
            check_filled(refs[i], size, (uint64_t)i);
    for (int i = 0; i < count; i++)
        manta_free(refs[i]);
    free(refs);
    no_spill_files_soon();
}

/* Four times the store. */
static void large(void)
{
    there_and_back(4 * MIB, 64, 2);
}
static void huge_values(void)
{
    there_and_back(40 * MIB, 5, 1);
}
static void small(void)
{
    there_and_back(10 * KIB, 12000, 1);
}
/* What is freed while it is on disk takes along nobody who lives at its old place by now. */
static void freed_on_disk(void)
{
    enum { COUNT = 3000 };
    static manta_ref *old[COUNT], *young[COUNT], *more[COUNT];
    for (uint64_t i = 0; i < COUNT; i++)
        old[i] = put_filled(10 * KIB, i);
    for (uint64_t i = 0; i < COUNT; i++)
        young[i] = put_filled(10 * KIB, COUNT + i);
    CHECK(spill_files() > 0);
    for (uint64_t i = 0; i < COUNT; i++)
        manta_free(old[i]);
    for (uint64_t i = 0; i < COUNT; i++)
        more[i] = put_filled(10 * KIB, 2 * COUNT + i);
    for (uint64_t i = 0; i < COUNT; i++) {
        check_filled(young[i], 10 * KIB, COUNT + i);
        check_filled(more[i], 10 * KIB, 2 * COUNT + i);
    }
    for (uint64_t i = 0; i < COUNT; i++) {
        manta_free(young[i]);
        manta_free(more[i]);
    }
    no_spill_files_soon();
}
static void mixed(void)
{
    enum { COUNT = 400 };
    manta_ref *refs[COUNT];
    size_t     sizes[COUNT];
    for (int i = 0; i < COUNT; i++) {
        sizes[i] = 5000 + (size_t)(mix((uint64_t)i) % 7) * (size_t)(mix((uint64_t)i * 3) % (200 * KIB));
        refs[i] = put_filled(sizes[i], (uint64_t)i);
        if (i % 5 == 4) { /* some are gone before they could be spilled, some after */
            manta_free(refs[i - 2]);
            refs[i - 2] = NULL;
        }
    }
    for (int i = COUNT - 1; i >= 0; i--)
        if (refs[i]) {
            check_filled(refs[i], sizes[i], (uint64_t)i);
            manta_free(refs[i]);
        }
    no_spill_files_soon();
}

/* ---- between processes ---- */
static manta_status sum(manta_ctx *c, int argc, const manta_arg *argv)
{
    uint64_t x = 0;
    for (int a = 0; a < argc; a++)
        for (size_t i = 0; i + 8 <= argv[a].y.size; i += 8) {
            uint64_t word;
            memcpy(&word, (const char *)argv[a].y.data + i, 8);
            x = x * 31 + word;
        }
    return manta_return_i64(c, (int64_t)x);
}
MANTA_REGISTER(sum, "y>l");
static manta_status make(manta_ctx *c, int argc, const manta_arg *argv)
{
    char        *data = malloc((size_t)argv[0].l);
    manta_status code;
    (void)argc;
    fill(data, (size_t)argv[0].l, (uint64_t)argv[1].l);
    code = manta_return_bytes(c, data, (size_t)argv[0].l);
    free(data);
    return code;
}
MANTA_REGISTER(make, "ll>y");

/* Results that workers wrote, arguments that were spilled. */
static void results(void)
{
    enum { COUNT = 64 };
    manta_ref *made[COUNT], *sums[COUNT];
    for (int i = 0; i < COUNT; i++)
        made[i] = manta_call("make", NULL, MANTA_ARGS(manta_i64((int64_t)(3 * MIB)), manta_i64(i)));
    for (int i = 0; i < COUNT; i++) {
        check_filled(made[i], 3 * MIB, (uint64_t)i);
        sums[i] = manta_call("sum", NULL, MANTA_ARGS(manta_ref_arg(made[i])));
    }
    for (int i = 0; i < COUNT; i++) {
        uint64_t x = 0, word;
        fill(scratch, 3 * MIB, (uint64_t)i);
        for (size_t at = 0; at < 3 * MIB; at += 8) {
            memcpy(&word, scratch + at, 8);
            x = x * 31 + word;
        }
        CHECK_I64(sums[i], (int64_t)x);
        manta_free(made[i]);
    }
    no_spill_files_soon();
}

/* A view stays what it is while everything else moves. */
static void views_stay(void)
{
    enum { COUNT = 40 };
    manta_ref  *refs[COUNT];
    manta_view  held[3];
    manta_error e;
    for (int i = 0; i < COUNT; i++) {
        refs[i] = put_filled(4 * MIB, (uint64_t)i);
        if (i < 3)
            CHECK_CODE(manta_get(refs[i], TEST_WAIT_MS, &held[i], &e), MANTA_OK, &e);
    }
    for (int i = 0; i < COUNT; i++)
        manta_free(refs[i]); /* those that are viewed as well */
    for (int i = 0; i < 3; i++) {
        fill(scratch, 4 * MIB, (uint64_t)i);
        CHECK(memcmp(held[i].data, scratch, 4 * MIB) == 0);
        manta_release(&held[i]);
    }
    no_spill_files_soon();
}

/* ---- freed at once ---- */
static void is_freed(manta_ref *ref)
{
    manta_error e;
    manta_view  view;
    CHECK_CODE(manta_get(ref, TEST_WAIT_MS, &view, &e), MANTA_EOBJ_LOST, &e);
    CHECK_SAYS(e.message, "freed");
}
/* Says how the get of a reference ends. */
static manta_status code_of_get(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_error  e;
    manta_view   view;
    manta_status code = manta_get(argv[0].r, TEST_WAIT_MS, &view, &e);
    (void)argc;
    if (code == MANTA_OK)
        manta_release(&view);
    return manta_return_i64(c, code);
}
MANTA_REGISTER(code_of_get, "r>l");
static manta_status free_it(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_i64(c, manta_free_now(&argv[0].r, 1, NULL));
}
MANTA_REGISTER(free_it, "r>l");
static manta_status held(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_i64(c, test_board_wait(&test_board_map(argv[0].u)->words[0], 1));
}
MANTA_REGISTER(held, "u>l");

static void free_now(void)
{
    enum { COUNT = 30 };
    manta_error e;
    manta_view  view;
    manta_ref  *refs[COUNT], *tiny = manta_put("tiny", 4), *gone, *code;
    uint64_t    number;
    for (int i = 0; i < COUNT; i++)
        refs[i] = put_filled(4 * MIB, (uint64_t)i); /* some of them on disk */
    CHECK_I64(manta_call("code_of_get", NULL, MANTA_ARGS(manta_ref_arg(refs[COUNT - 1]))), MANTA_OK);
    CHECK_CODE(manta_get(refs[0], TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK_CODE(manta_free_now(refs, COUNT, &e), MANTA_OK, &e);
    CHECK_CODE(manta_free_now(&tiny, 1, &e), MANTA_OK, &e);
    CHECK_CODE(manta_free_now(&tiny, 1, &e), MANTA_OK, &e); /* again is nothing */
    for (int i = 0; i < COUNT; i++)
        is_freed(refs[i]);
    is_freed(tiny);
    fill(scratch, 4 * MIB, 0);
    CHECK(memcmp(view.data, scratch, 4 * MIB) == 0); /* a view stays */
    manta_release(&view);
    no_spill_files_soon();
    CHECK_FAILS(manta_call("sum", NULL, MANTA_ARGS(manta_ref_arg(refs[1]))), MANTA_EOBJ_LOST, &e);
    gone = put_filled(4 * MIB, 5); /* freed by a borrower: the owner is told */
    CHECK_I64(manta_call("free_it", NULL, MANTA_ARGS(manta_ref_arg(gone))), MANTA_OK);
    for (int64_t limit = test_now_ms() + TEST_WAIT_MS; manta_get(gone, TEST_WAIT_MS, &view, &e) == MANTA_OK; test_sleep_ms(5)) {
        manta_release(&view);
        CHECK(test_now_ms() < limit);
    }
    is_freed(gone);
    struct test_board *board = test_board_new(&number);
    code = manta_call("held", NULL, MANTA_ARGS(manta_u64(number)));
    CHECK_CODE(manta_free_now(&code, 1, &e), MANTA_EAGAIN, &e);
    board->words[0] = 1;
    CHECK_I64(code, 1);
    CHECK_CODE(manta_free_now((manta_ref *[]){NULL}, 1, &e), MANTA_EINVAL, &e);
    CHECK_CODE(manta_free_now(NULL, 3, &e), MANTA_EINVAL, &e);
    for (int i = 0; i < COUNT; i++)
        manta_free(refs[i]);
    manta_free(tiny), manta_free(gone);
    for (int i = 0; i < 40; i++) { /* the places are used again */
        manta_ref *ref = put_filled(4 * MIB, 3);
        check_filled(ref, 4 * MIB, 3);
        manta_free(ref);
    }
}

/* ---- the end of it ---- */
/* All that is in memory is being read: the put waits, then fails; once enough is released it works. With the first value
 * on disk an eighth of the store is kept for reading back, so one value's room is not enough. */
static void all_pinned(void)
{
    enum { MOST = 20, RELEASED = 3 };
    manta_ref  *refs[MOST];
    manta_view  views[MOST], none;
    manta_error e;
    int         n = 0;
    for (; n < MOST; n++) {
        refs[n] = put_filled(4 * MIB, (uint64_t)n);
        if (manta_get(refs[n], TEST_WAIT_MS, &views[n], &e) != MANTA_OK)
            break;
    }
    CHECK(n > 8 && n < MOST);
    CHECK_EQ(e.code, MANTA_ESTORE_FULL);
    CHECK_SAYS(e.message, "object store is full");
    manta_free(refs[n]);
    for (int i = 0; i < RELEASED; i++)
        manta_release(&views[i]);
    refs[n] = put_filled(4 * MIB, (uint64_t)n);
    CHECK_CODE(manta_get(refs[n], TEST_WAIT_MS, &none, &e), MANTA_OK, &e);
    manta_release(&none);
    for (int i = 0; i < RELEASED; i++)
        check_filled(refs[i], 4 * MIB, (uint64_t)i);
    for (int i = RELEASED; i < n; i++)
        manta_release(&views[i]);
    for (int i = 0; i <= n; i++)
        manta_free(refs[i]);
}

static void too_large(void)
{
    manta_error e;
    manta_view  view;
    manta_ref  *keep = put_filled(30 * MIB, 1), *more = put_filled(30 * MIB, 2), *too = manta_put(scratch, 64 * MIB);
    CHECK_CODE(manta_get(too, TEST_WAIT_MS, &view, &e), MANTA_ESTORE_FULL, &e);
    CHECK(!strstr(e.message, "could be spilled for")); /* it did not wait for what can't be */
    check_filled(keep, 30 * MIB, 1);
    check_filled(more, 30 * MIB, 2);
    manta_free(keep), manta_free(more), manta_free(too);
}

/* Larger than this machine's memory and disk together, and than any machine's: refused at once, by every way to make one, and the
 * values that are there stay. */
static void beyond_all(void)
{
    static const size_t sizes[] = {(size_t)1 << 42, (size_t)1 << 36, (size_t)1 << 60, SIZE_MAX - 4096, SIZE_MAX};
    manta_error         e;
    manta_view          view;
    manta_buffer        buffer;
    manta_ref          *keep = put_filled(8 * MIB, 1);
    void               *data = mmap(NULL, sizes[0], PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data != MAP_FAILED) { /* pages of it are only made where somebody reads */
        manta_ref *too = manta_put(data, sizes[0]);
        CHECK_CODE(manta_get(too, TEST_WAIT_MS, &view, &e), MANTA_ESTORE_FULL, &e);
        CHECK_SAYS(e.message, "larger than any object store");
        manta_free(too);
        munmap(data, sizes[0]);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        CHECK_CODE(manta_create(sizes[i], &buffer, &e), MANTA_ESTORE_FULL, &e);
    }
    check_filled(keep, 8 * MIB, 1);
    manta_free(keep);
}

/* Puts until one fails with `code`; then everything that was put is still there, and with less of it puts work again. */
static void until(manta_status code, const char *says)
{
    enum { MOST = 40 };
    manta_ref  *refs[MOST];
    manta_error e;
    manta_view  view;
    int         n = 0;
    for (; n < MOST; n++) {
        refs[n] = put_filled(4 * MIB, 2 * (uint64_t)n + 1);
        if (manta_get(refs[n], TEST_WAIT_MS, &view, &e) != MANTA_OK)
            break;
        manta_release(&view);
    }
    CHECK(n > 5 && n < MOST);
    CHECK_EQ(e.code, code);
    CHECK_SAYS(e.message, says);
    manta_free(refs[n]);
    for (int i = 0; i < n / 2; i++)
        check_filled(refs[i], 4 * MIB, 2 * (uint64_t)i + 1);
    for (int i = 0; i < 4; i++)
        manta_free(refs[i]);
    refs[0] = put_filled(4 * MIB, 7);
    check_filled(refs[0], 4 * MIB, 7);
    manta_free(refs[0]);
    for (int i = 4; i < n; i++) {
        check_filled(refs[i], 4 * MIB, 2 * (uint64_t)i + 1);
        manta_free(refs[i]);
    }
}
static void disk_limit(void)
{
    until(MANTA_EDISK_FULL, "limit of spilled bytes");
}
static void no_folder(void)
{
    until(MANTA_ESTORE_FULL, "/no/such/folder");
}
static void no_disk(void)
{
    until(MANTA_ESTORE_FULL, "object store is full");
}

/* A real disk that is full: a file system of 24 MiB. */
static void disk_full(void)
{
    char        path[200];
    manta_error e;
    CHECK(snprintf(path, sizeof path, "%s/full", getenv("XDG_RUNTIME_DIR")) < (int)sizeof path);
    CHECK(mkdir(path, 0700) == 0 || errno == EEXIST); /* workers come here too, up to manta_init */
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("tmpfs", path, "tmpfs", 0, "size=24m")) {
        rmdir(path);
        test_skip("no file system can be mounted here");
    } else {
        manta_init_opts opts = {.num_cpus = 1, .store_memory = 64 << 20, .spill_dir = path};
        CHECK_CODE(manta_init(&test_argc, &test_argv, &opts, &e), MANTA_OK, &e);
        until(MANTA_EDISK_FULL, "No space left on device");
        manta_shutdown();
        CHECK_EQ(umount2(path, MNT_DETACH), 0); /* whoever ends in these moments may have it still */
    }
    rmdir(path);
}

/* Values on disk, and some on their way, when the driver ends. */
static void left_behind(void)
{
    for (int i = 0; i < 60; i++)
        put_filled(4 * MIB, (uint64_t)i);
}
static void killed(void)
{
    left_behind();
    kill(getpid(), SIGKILL);
}

#define SMALL_STORE \
    { \
        .num_cpus = 2, .store_memory = 64 << 20 \
    }
static const struct test_case cases[] = {
    {"spill_large", large, SMALL_STORE, false, 0},
    {"spill_huge_values", huge_values, {.num_cpus = 2, .store_memory = 96 << 20}, false, 0},
    {"spill_small", small, {.num_cpus = 2, .store_memory = 32 << 20}, false, 0},
    {"spill_freed_on_disk", freed_on_disk, {.num_cpus = 2, .store_memory = 32 << 20}, false, 0},
    {"spill_mixed", mixed, {.num_cpus = 2, .store_memory = 16 << 20}, false, 0},
    {"spill_results", results, SMALL_STORE, false, 0},
    {"spill_views_stay", views_stay, SMALL_STORE, false, 0},
    {"free_now", free_now, SMALL_STORE, false, 0},
    {"spill_all_pinned", all_pinned, SMALL_STORE, false, 0},
    {"spill_beyond_all", beyond_all, {.num_cpus = 1, .store_memory = 48 << 20}, false, 0},
    {"spill_too_large", too_large, {.num_cpus = 1, .store_memory = 48 << 20}, false, 0},
    {"spill_disk_limit", disk_limit, {.num_cpus = 1, .store_memory = 64 << 20, .spill_bytes = 24 << 20}, false, 0},
    {"spill_no_folder", no_folder, {.num_cpus = 1, .store_memory = 64 << 20, .spill_dir = "/no/such/folder"}, false, 0},
    {"spill_no_disk", no_disk, {.num_cpus = 1, .store_memory = 64 << 20, .spill_dir = "none"}, false, 0},
    {"spill_disk_full", disk_full, {0}, true, 0},
    {"spill_left_behind", left_behind, SMALL_STORE, false, 0},
    {"spill_killed", killed, SMALL_STORE, false, SIGKILL},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}
