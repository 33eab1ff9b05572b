/* SPDX-License-Identifier: Apache-2.0
 *
 * io.h - the simulation's twins of core/io and of objectstore's os_system: timers, disk threads, memory behind
 * segments, spill files and data sockets, all of them on virtual time, with faults.
 *
 * The object store's own files (os_server) and its part of the raylet's shell (raylet_store) are linked as they are, and find
 * these behind the headers io.h, system/memory.h, system/backing.h, system/disk.h and transfer/transfer.h.
 */
#ifndef SIM_IO_H
#define SIM_IO_H

#include "core/io/io.h"
#include "tests/sim/shells/node.h"

struct os_transfer;

/* One raylet's loop. Everything that it will call ends with it. */
struct io_loop {
    struct sim         *s;
    struct sim_node    *n;
    uint64_t            serial;   /* of the node's incarnation */
    mt_map              timers;   /* number -> io_timer */
    mt_map              workers;  /* number -> io_worker */
    struct os_transfer *transfer; /* its data socket; NULL: it is alone */
};

struct io_loop *sim_loop_new(struct sim *s, struct sim_node *n);
void            sim_loop_free(struct io_loop *loop);
/* The loop of that incarnation of a node; NULL: it is gone. */
struct io_loop *sim_loop_of(struct sim *s, uint64_t serial);

/* Whose memory, files and descriptors those are that are made until sim_leave: every call into the store stands between the
 * two. sim_leave looks whether the store's figures are true. */
void sim_enter(struct io_loop *loop);
void sim_leave(struct io_loop *loop);

/* memory.c */
struct sim_mem *sim_memory_of(struct sim *s, int fd);       /* borrowed */
uint64_t        sim_memory_bytes(const struct sim_node *n); /* of segments that it has not closed */

/* disk.c */
void sim_disks_free(struct sim *s);

/* wire.c: data sockets */
void sim_wires_free(struct sim *s);
bool sim_wire_break_one(struct sim *s); /* a random one breaks off, in the middle; false: there is none */

#endif
