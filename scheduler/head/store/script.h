/* SPDX-License-Identifier: Apache-2.0
 *
 * script.h - the script of script.c. KEYS: head, records, lock, past. ARGV: what link.c packs.
 */
#ifndef HEAD_SCRIPT_H
#define HEAD_SCRIPT_H

extern const char head_store_script[];

#endif
