/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_symbols.c - programs and libraries of any bytes, as a process that crashes reads them for the names of its functions.
 */
#include "core/sys/symbols.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

/* Half of them with a head that is right, so that what follows is reached. */
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    static _Alignas(8) char buffer[MT_SYMBOLS_BUFFER_MIN];
    struct mt_symbol        symbols[2] = {{.address = 1}, {.address = 0x1000}}, *wanted[] = {&symbols[0], &symbols[1]};
    ElfW(Ehdr) head = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64},
                       .e_shoff = sizeof head,
                       .e_shentsize = sizeof(ElfW(Shdr)),
                       .e_shnum = (uint16_t)(size / sizeof(ElfW(Shdr)))};
    int fd = memfd_create("elf", MFD_CLOEXEC);
    if (fd < 0 || (size % 2 && write(fd, &head, sizeof head) < 0) || write(fd, input, size) < 0)
        abort();
    (void)mt_symbols_find(fd, wanted, 2, buffer, sizeof buffer, INT64_MAX);
    for (int i = 0; i < 2; i++)
        if (!memchr(symbols[i].name, 0, sizeof symbols[i].name))
            abort();
    close(fd);
    return 0;
}
