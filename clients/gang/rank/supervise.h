/* SPDX-License-Identifier: Apache-2.0
 *
 * supervise.h - the actor that supervises one rank. Its methods: wire.h.
 */
#ifndef GNG_SUPERVISE_H
#define GNG_SUPERVISE_H

#define GNG_SUPERVISOR_TYPE "manta_gang_supervisor"

#endif
