/* SPDX-License-Identifier: Apache-2.0
 *
 * symbols_test.c - names of functions out of a program's own file, and out of files that are damaged.
 */
#include "core/base/clock.h"
#include "core/base/rng.h"
#include "core/sys/symbols.h"
#include "tests/unit/base/test.h"

#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static _Alignas(8) char buffer[MT_SYMBOLS_BUFFER_MIN];
static const int64_t no_end = INT64_MAX;

__attribute__((noinline)) static int is_static(int x)
{
    __asm__ volatile("");
    return x + 1;
}

static uint64_t own_address(const void *at)
{
    return (uintptr_t)at - _r_debug.r_map->l_addr;
}

static int own_file(void)
{
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static int file_of(const void *bytes, size_t size)
{
    int fd = memfd_create("elf", MFD_CLOEXEC);
    assert_true(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
    return fd;
}

static bool find(int fd, struct mt_symbol *one)
{
    return mt_symbols_find(fd, &one, 1, buffer, sizeof buffer, no_end);
}

static void static_functions_have_names(void **state)
{
    struct mt_symbol in = {.address = own_address((const char *)(uintptr_t)&is_static + 1)}, out = {.address = 1},
                     again = {.address = in.address + 1}, *all[] = {&out, &in, &again};
    int fd = own_file();
    (void)state;
    assert_int_equal(is_static(1), 2);
    assert_true(mt_symbols_find(fd, all, 3, buffer, sizeof buffer, no_end));
    assert_string_equal(in.name, "is_static");
    assert_int_equal(in.address - in.start, 1);
    assert_string_equal(again.name, "is_static");
    assert_string_equal(out.name, ""); /* no function is there */
    /* however little is read at a time */
    memset(in.name, 'x', sizeof in.name);
    assert_true(mt_symbols_find(fd, all, 3, buffer, sizeof(ElfW(Sym)), no_end));
    assert_string_equal(in.name, "is_static");
    close(fd);
}

static void its_time_is_bounded(void **state)
{
    struct mt_symbol one = {.address = own_address((const void *)(uintptr_t)&is_static)}, *all[] = {&one};
    int              fd = own_file();
    (void)state;
    assert_false(mt_symbols_find(fd, all, 1, buffer, sizeof(ElfW(Sym)), mt_now_ns() - 1)); /* one symbol is looked at */
    assert_string_equal(one.name, "");
    close(fd);
}

/* ---- a file of three functions ------------------------------------------------------------------------------------- */

static const char names[] = "\0first\0second\n\0outer";
struct file {
    ElfW(Ehdr) head;
    ElfW(Shdr) sections[4];
    ElfW(Sym) symbols[5];
    char names[sizeof names];
};

static struct file file_new(void)
{
    struct file f = {.head = {.e_shoff = offsetof(struct file, sections), .e_shentsize = sizeof(ElfW(Shdr)), .e_shnum = 4}};
    memcpy(f.head.e_ident, ELFMAG, SELFMAG);
    f.head.e_ident[EI_CLASS] = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
    f.sections[1] = (ElfW(Shdr)){.sh_type = SHT_SYMTAB,
                                 .sh_link = 3,
                                 .sh_entsize = sizeof f.symbols[0],
                                 .sh_offset = offsetof(struct file, symbols),
                                 .sh_size = sizeof f.symbols};
    f.sections[3] = (ElfW(Shdr)){.sh_type = SHT_STRTAB, .sh_offset = offsetof(struct file, names), .sh_size = sizeof names};
    f.symbols[1] = (ElfW(Sym)){.st_info = STT_FUNC, .st_shndx = 1, .st_name = 1, .st_value = 100, .st_size = 10};
    f.symbols[2] = (ElfW(Sym)){.st_info = STT_FUNC, .st_shndx = 1, .st_name = 7, .st_value = 110, .st_size = 10};
    f.symbols[3] = (ElfW(Sym)){.st_info = STT_OBJECT, .st_shndx = 1, .st_name = 7, .st_value = 120, .st_size = 10};
    f.symbols[4] = (ElfW(Sym)){.st_info = STT_FUNC, .st_shndx = 1, .st_name = 15, .st_value = 90, .st_size = 25};
    memcpy(f.names, names, sizeof names);
    return f;
}

/* The name at this address, and whether the file was read. */
static const char *name_in(const void *bytes, size_t size, uint64_t address, bool *out_read)
{
    static struct mt_symbol one;
    int                     fd = file_of(bytes, size);
    one = (struct mt_symbol){.address = address};
    *out_read = find(fd, &one);
    assert_non_null(memchr(one.name, 0, sizeof one.name));
    close(fd);
    return one.name;
}

static void the_innermost_function_is_named(void **state)
{
    struct file f = file_new();
    bool        is_read;
    (void)state;
    assert_string_equal(name_in(&f, sizeof f, 100, &is_read), "first");
    assert_true(is_read);
    assert_string_equal(name_in(&f, sizeof f, 109, &is_read), "first");
    assert_string_equal(name_in(&f, sizeof f, 110, &is_read), "second?"); /* what would break a line */
    assert_string_equal(name_in(&f, sizeof f, 99, &is_read), "outer");
    assert_string_equal(name_in(&f, sizeof f, 125, &is_read), ""); /* data */
    f.sections[1].sh_type = SHT_DYNSYM;
    assert_string_equal(name_in(&f, sizeof f, 100, &is_read), "first"); /* stripped */
}

static void offsets_beyond_the_file_are_no_names(void **state)
{
    static const uint64_t far[] = {
        1, sizeof(struct file), (uint64_t)1 << 40, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX - 63, UINT64_MAX};
    bool is_read;
    (void)state;
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++) {
        struct file f = file_new();
        f.head.e_shoff = far[i];
        assert_string_equal(name_in(&f, sizeof f, 100, &is_read), "");
        assert_false(is_read);
        f = file_new();
        f.sections[1].sh_offset = far[i];
        assert_string_equal(name_in(&f, sizeof f, 100, &is_read), "");
        f = file_new();
        f.sections[1].sh_size = far[i];
        name_in(&f, sizeof f, 100, &is_read);
        assert_int_equal(is_read, far[i] < sizeof f); /* a table of none is read */
        f = file_new();
        f.sections[1].sh_link = (uint32_t)far[i];
        (void)name_in(&f, sizeof f, 100, &is_read);
        f = file_new();
        f.sections[3].sh_offset = far[i];
        (void)name_in(&f, sizeof f, 100, &is_read);
        f = file_new();
        f.sections[3].sh_size = far[i];
        (void)name_in(&f, sizeof f, 100, &is_read);
        f = file_new();
        f.symbols[1].st_name = (uint32_t)far[i];
        (void)name_in(&f, sizeof f, 109, &is_read);
        f = file_new();
        f.symbols[1].st_value = far[i];
        f.symbols[1].st_size = far[i];
        (void)name_in(&f, sizeof f, 100, &is_read);
    }
}

static void a_file_that_was_cut_is_no_harm(void **state)
{
    struct file f = file_new();
    bool        is_read;
    (void)state;
    for (size_t size = 0; size < offsetof(struct file, names); size++) {
        assert_string_equal(name_in(&f, size, 100, &is_read), "");
        assert_false(is_read);
    }
    for (size_t size = offsetof(struct file, names); size < sizeof f; size++) {
        const char *name = name_in(&f, size, 100, &is_read);
        assert_int_equal(strncmp(name, "first", strlen(name)), 0);
    }
}

static void any_bytes_are_no_harm(void **state)
{
    struct mt_rng rng = {7};
    bool          is_read;
    (void)state;
    for (int round = 0; round < 2000; round++) {
        struct file f = file_new();
        for (int n = 0; n < 4; n++)
            ((uint8_t *)&f)[mt_rng_below(&rng, sizeof f)] = (uint8_t)mt_rng_next(&rng);
        (void)name_in(&f, sizeof f, 100, &is_read);
    }
}

static void what_is_no_file_is_not_waited_for(void **state)
{
    struct mt_symbol one = {.address = 1};
    int              ends[2], folder = open("/", O_RDONLY | O_CLOEXEC);
    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_false(find(ends[0], &one));
    assert_false(find(folder, &one));
    assert_false(find(-1, &one));
    close(ends[0]);
    close(ends[1]);
    close(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(static_functions_have_names),       cmocka_unit_test(its_time_is_bounded),
        cmocka_unit_test(the_innermost_function_is_named),   cmocka_unit_test(offsets_beyond_the_file_are_no_names),
        cmocka_unit_test(a_file_that_was_cut_is_no_harm),    cmocka_unit_test(any_bytes_are_no_harm),
        cmocka_unit_test(what_is_no_file_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
