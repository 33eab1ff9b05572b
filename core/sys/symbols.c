/* SPDX-License-Identifier: Apache-2.0
 *
 * symbols.c - see symbols.h. Offsets and sizes are the file's own word. Each is only ever given to pread, which brings nothing from
 * beyond the end of the file, and what it brings is data: no pointer, no index. So a lie costs a wrong name at worst.
 */
#include "core/base/clock.h"
#include "core/sys/file.h"
#include "core/sys/symbols.h"

#include <link.h>
#include <string.h>

typedef ElfW(Shdr) elf_section;
typedef ElfW(Sym) elf_symbol;

static bool get(int fd, uint64_t at, void *out, size_t size)
{
    return mt_pread_all(fd, out, size, at) == (ssize_t)size;
}

/* The table of symbols and that of their names. A file without the former (strip) has that for the loader. */
static bool find_tables(int fd, elf_section *symbols, elf_section *names)
{
    ElfW(Ehdr) head;
    elf_section section;
    if (!get(fd, 0, &head, sizeof head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) || head.e_shentsize != sizeof section)
        return false;
    for (uint64_t i = 0; i < head.e_shnum && symbols->sh_type != SHT_SYMTAB; i++) {
        if (!get(fd, head.e_shoff + i * sizeof section, &section, sizeof section))
            return false;
        if (section.sh_type == SHT_SYMTAB || section.sh_type == SHT_DYNSYM)
            *symbols = section;
    }
    return symbols->sh_type != SHT_NULL && symbols->sh_entsize == sizeof(elf_symbol) && !(symbols->sh_flags & SHF_COMPRESSED) &&
           get(fd, head.e_shoff + symbols->sh_link * sizeof *names, names, sizeof *names);
}

/* Whose address the function spans: of several that do, the one that begins last. */
static void compare(const elf_symbol *s, struct mt_symbol *const *wanted, int count)
{
    unsigned type = ELF64_ST_TYPE(s->st_info); /* both classes have it at the same place */
    if ((type != STT_FUNC && type != STT_GNU_IFUNC) || s->st_shndx == SHN_UNDEF || s->st_name == 0)
        return;
    for (int i = 0; i < count; i++) {
        struct mt_symbol *w = wanted[i];
        if (w->address - s->st_value < s->st_size && (!w->name_at || s->st_value > w->start)) {
            w->start = s->st_value;
            w->name_at = s->st_name;
        }
    }
}

static bool scan(int fd, const elf_section *table, struct mt_symbol *const *wanted, int count, void *buffer, size_t size,
                 int64_t until_ns)
{
    elf_symbol *symbols = buffer;
    uint64_t    left = table->sh_size / sizeof *symbols, at = table->sh_offset, most = size / sizeof *symbols, low = UINT64_MAX,
             high = 0;
    for (int i = 0; i < count; i++) {
        low = wanted[i]->address < low ? wanted[i]->address : low;
        high = wanted[i]->address > high ? wanted[i]->address : high;
    }
    while (left) {
        uint64_t n = left < most ? left : most;
        if (!get(fd, at, symbols, n * sizeof *symbols))
            return false;
        for (const elf_symbol *s = symbols; s < symbols + n; s++)
            if (s->st_value <= high && !(low >= s->st_value && low - s->st_value >= s->st_size)) /* else it spans none of them */
                compare(s, wanted, count);
        at += n * sizeof *symbols;
        left -= n;
        if (left && mt_now_ns() > until_ns)
            return false;
    }
    return true;
}

/* It goes to terminals, and into JSON. */
static void read_name(int fd, const elf_section *names, struct mt_symbol *w)
{
    ssize_t n = w->name_at < names->sh_size ? mt_pread_all(fd, w->name, sizeof w->name - 1, names->sh_offset + w->name_at) : 0;
    w->name[n > 0 ? n : 0] = 0;
    for (char *c = w->name; *c; c++)
        if (*c <= ' ' || *c > '~')
            *c = '?';
}

bool mt_symbols_find(int fd, struct mt_symbol *const *wanted, int count, void *buffer, size_t size, int64_t until_ns)
{
    elf_section symbols = {.sh_type = SHT_NULL}, names;
    bool        is_whole;
    for (int i = 0; i < count; i++) {
        wanted[i]->name_at = 0;
        wanted[i]->name[0] = 0;
    }
    if (!find_tables(fd, &symbols, &names))
        return false;
    is_whole = scan(fd, &symbols, wanted, count, buffer, size, until_ns);
    for (int i = 0; i < count; i++)
        if (wanted[i]->name_at)
            read_name(fd, &names, wanted[i]);
    return is_whole;
}
