/* SPDX-License-Identifier: Apache-2.0
 *
 * symbols.h - which function an address of a program or library lies in, by the symbol table in its file. Static functions stand
 * there too, unlike in the table for the loader, and it takes no flag at the link.
 *
 * For signal handlers: system calls and the caller's memory only. The file may be damaged, or be changed meanwhile. Thread: any.
 */
#ifndef MT_SYMBOLS_H
#define MT_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MT_SYMBOL_BYTES = 128,             /* a name, cut to that */
    MT_SYMBOLS_BUFFER_MIN = 64 * 1024, /* what one read brings */
};

struct mt_symbol {
    uint64_t address;               /* asked for: as the file counts, so less where it was loaded */
    uint64_t start;                 /* of the function */
    uint32_t name_at;               /* in the table of names */
    char     name[MT_SYMBOL_BYTES]; /* "": none is known */
};

/* Looks all of them up in one pass over the table; `buffer` is aligned as for any object. False: the table could not be read to
 * its end, or not before `until_ns` (mt_now_ns; what one read brings is looked at however late it is); names may be there all the
 * same. */
bool mt_symbols_find(int fd, struct mt_symbol *const *wanted, int count, void *buffer, size_t size, int64_t until_ns);

#endif
