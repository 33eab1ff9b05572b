/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.h - door: memory that processes share with each other and with this raylet. Loop thread.
 */
#ifndef SH_MEMORY_H
#define SH_MEMORY_H

#include "raylet/shell/conn/conn.h"

/* memory.c */
MT_MUST_USE mt_status sh_memory_welcome(struct sh_conn *c);
void                  sh_memory_given(struct sh_conn *c); /* the process has its descriptors: most are not needed here any more */
void                  sh_memory_forget(struct sh_conn *c);
/* The memory that its park page is in, borrowed (-1: there is none yet), and which of the pages there is its own. */
int      sh_park_fd(const struct sh_conn *c);
uint32_t sh_park_number(const struct sh_conn *c);
/* Sealed memory, mapped. EAGAIN: too few descriptors are left. */
MT_MUST_USE mt_status sh_memory_make(const char *name, uint64_t size, int *out_fd, void **out_memory);
MT_MUST_USE mt_status sh_lane_new(struct sh *sh, uint64_t lane);
void                  sh_lanes_given(struct sh *sh); /* at the end of a step */
struct sh_lane       *sh_lane_find(const struct sh *sh, uint64_t lane);
void                  sh_lane_free(struct sh *sh, uint64_t lane);
MT_MUST_USE mt_status sh_region_new(struct sh *sh, uint64_t number, uint64_t size);
void                  sh_region_free(struct sh *sh, uint64_t number);
int                   sh_fd_of(const struct sh *sh, const struct rlt_fd *fd); /* borrowed; -1: none */
void                  sh_memory_fini(struct sh *sh);
void                  sh_strict(struct sh *sh, const struct rlt_a_strict *a);

#endif
