/* SPDX-License-Identifier: Apache-2.0
 *
 * layout.h - what stands where in a segment, in its page of generations and in a pin table.
 *
 * A segment is written by one process and read by any other of its user. It is a row of chunks:
 *
 *   chunk 0..k-1              chunk k ...
 *   +-------------------------+---------------------+-----------+------------------------------+------
 *   | os_segment, chunk words | slab: 4 chunks      | free      | run: one object, n chunks    | ...
 *   +-------------------------+---------------------+-----------+------------------------------+------
 *                             | o | o | o | .. | o  |           | o                            |
 *                               places of one class               o: an object header, then the value
 *
 * The chunk word of the first chunk of a slab or run says which it is; the words of the others are 0. A place is a
 * multiple of OS_UNIT, in place and in size, so that one generation per unit covers every possible place. All fields
 * are little-endian. A reader trusts none of it.
 */
#ifndef OS_LAYOUT_H
#define OS_LAYOUT_H

#include "core/base/id.h"
#include "core/lane/shm.h"

enum {
    OS_UNIT = 128,        /* bytes: the smallest place; the step of offsets */
    OS_HEADER_SIZE = 64,  /* bytes of header in front of a value: values are 64-aligned */
    OS_CHUNK = 16 * 1024, /* bytes */
    OS_SLAB_CHUNKS = 4,
    OS_SLAB = OS_CHUNK * OS_SLAB_CHUNKS, /* bytes */
    OS_CLASSES = 25,
    OS_CLASS_MAX = 21760,              /* bytes of the largest class: three places in a slab */
    OS_PLACES_MAX = OS_SLAB / OS_UNIT, /* places in a slab of the smallest class */
    OS_RUN = 255,                      /* "class" of a run of chunks */
    OS_PIN_SLOTS = 65528,              /* objects that one process pins at a time */
    OS_SEGMENT_MAGIC = 0x67657373,     /* "sseg" */
    OS_VERSION = 1,
};

/* Bytes of a place of class 1..OS_CLASSES (index 0 is not used). Chosen so that a value of a power of two, header
 * included, wastes little, and that the places fill the slab. */
#define OS_CLASS_SIZES \
    { \
        0, 128, 256, 384, 512, 640, 768, 896, 1024, 1152, 1408, 1664, 1920, 2176, 2688, 3200, 3712, 4224, 5376, 6528, 8064, 9344, \
            10880, 13056, 16384, OS_CLASS_MAX \
    }

/* Offset 0 of every segment, written once by its writer; then shm_u32 chunk words, one per chunk. */
struct os_segment_header {
    uint32_t magic;
    uint32_t version;
    uint64_t size; /* of the segment, in bytes */
    uint8_t  reserved[48];
};
static_assert(sizeof(struct os_segment_header) == OS_HEADER_SIZE, "chunk words follow");

/* What a state word says. Any other value is EMPTY too. */
enum os_state {
    OS_EMPTY = 0,
    OS_WRITING = 0x54495257, /* "WRIT": allocated, the value is being written */
    OS_SEALED = 0x4c414553,  /* "SEAL": header and value are complete and will not change */
    OS_TAKEN = 0x454b4154,   /* "TAKE": the raylet has the value on disk; the place is its own to hand back. Who frees a
                                sealed place by itself and who takes it both change the word by CAS: one of them wins */
};

/* In front of every value. Written by the segment's writer, `state` last, with release; from SEALED on the raylet may
 * change the state. */
struct os_object {
    shm_u32  state;
    uint32_t generation; /* of this place when it was published: a mismatch with the page means dead */
    mt_id    id;
    uint64_t size; /* of the value */
    uint32_t owner_node;
    uint32_t job;
    uint8_t  type;  /* letter of the value */
    uint8_t  flags; /* OS_OBJECT_SUMMED */
    uint8_t  reserved[2];
    uint32_t ref_count; /* declared refs: so many struct lane_ref follow the value, 8-aligned; no others keep anything alive */
    uint64_t sum;       /* os_sum of the value, where it is SUMMED */
    uint8_t  reserved2[8];
};
enum { OS_OBJECT_SUMMED = 1 };
static_assert(sizeof(struct os_object) == OS_HEADER_SIZE && offsetof(struct os_object, size) == 24, "frozen");

/* A pin table: one per process, written by that process only, read by the raylet. Fresh memory is all zero. */
struct os_pins {
    shm_u32 high; /* slots below this one have been used; only grows */
    uint8_t pad[60];
    shm_u64 slot[OS_PIN_SLOTS]; /* os_place_word of what is pinned, 0: free */
};
enum { OS_PINS_BYTES = 64 + OS_PIN_SLOTS * 8 };
static_assert(sizeof(struct os_pins) == OS_PINS_BYTES && OS_PINS_BYTES == 512 * 1024, "whole pages");

/* Segment numbers are 1 .. 2^24-1, offsets below 2^47. */
enum { OS_SEGMENT_MAX = (1 << 24) - 1 };

/* A place on this node in one word, never 0. */
static inline uint64_t os_place_word(uint32_t segment, uint64_t offset)
{
    return (uint64_t)segment << 40 | offset / OS_UNIT;
}

static inline uint32_t os_chunk_word(uint32_t size_class, uint32_t chunks)
{
    return size_class << 24 | chunks;
}
static inline uint32_t os_chunk_class(uint32_t word)
{
    return word >> 24;
}
static inline uint32_t os_chunk_count(uint32_t word)
{
    return word & 0xffffff;
}

/* Chunks at the start of a segment of `size` bytes that hold its header and chunk words. */
static inline uint32_t os_head_chunks(uint64_t size)
{
    return (uint32_t)((OS_HEADER_SIZE + size / OS_CHUNK * 4 + OS_CHUNK - 1) / OS_CHUNK);
}
/* Bytes of the page of generations that belongs to a segment of `size` bytes. Sparse: only touched pages cost. */
static inline uint64_t os_generations_bytes(uint64_t size)
{
    return (size / OS_UNIT * 4 + 4095) & ~(uint64_t)4095;
}
static inline shm_u32 *os_chunk_words(void *data)
{
    return (shm_u32 *)(void *)((uint8_t *)data + OS_HEADER_SIZE);
}

#endif
