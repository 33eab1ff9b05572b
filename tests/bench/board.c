/* SPDX-License-Identifier: Apache-2.0
 *
 * board.c - a page that the driver and its workers share.
 *
 * Made by the driver as a memfd and opened by workers through the driver's /proc entry, so it needs nothing of Manta
 * and leaves nothing behind. Number: driver's pid and its descriptor.
 */
#include "tests/bench/bench.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BOARD_BYTES = 4096 };

static struct bench_board *board_of(int fd)
{
    void *page = mmap(NULL, BOARD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return page == MAP_FAILED ? NULL : page;
}

struct bench_board *bench_board_new(uint64_t *number)
{
    int fd = memfd_create("manta-bench-board", MFD_CLOEXEC); /* stays open as long as the program */
    if (fd < 0 || ftruncate(fd, BOARD_BYTES) != 0)
        return NULL;
    *number = (uint64_t)getpid() << 32 | (uint32_t)fd;
    return board_of(fd);
}

struct bench_board *bench_board_map(uint64_t number)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)(number >> 32), (int)(uint32_t)number);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    struct bench_board *board = board_of(fd);
    close(fd);
    return board;
}

void bench_board_free(struct bench_board *board)
{
    if (board)
        munmap(board, BOARD_BYTES);
}
