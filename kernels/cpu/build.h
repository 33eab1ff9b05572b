/* SPDX-License-Identifier: Apache-2.0
 *
 * build.h - names of entries that are built once for each width of vectors: ENTRY(k_copy) is k_copy_plain, k_copy_avx2
 * or k_copy_avx512, as K_BUILD says.
 */
#ifndef K_BUILD_H
#define K_BUILD_H

#ifndef K_BUILD
#define K_BUILD plain
#endif
#define K_PASTE_(a, b) a##_##b
#define K_PASTE(a, b)  K_PASTE_(a, b)
#define ENTRY(name)    K_PASTE(name, K_BUILD)

#endif
