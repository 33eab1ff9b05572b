/* SPDX-License-Identifier: Apache-2.0
 *
 * board.c - the memory of cells (core/lane/edge.h): a region of the node, which an owner asks for and its workers map.
 *
 * Owns:   the region of the job of now, once a task could be sent ahead. Thread: any, under the owner lock.
 */
#include "clients/lib/shell/segments/segments.h"
#include "clients/lib/shell/socket/socket.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/wait/wait.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static struct {
    struct lib_request *request; /* under way; NULL: none */
    void               *memory;
    bool                is_refused;
} board;

void *lib_board_map(struct lib_request *request, struct ctl_segment *got)
{
    void *memory = NULL;
    if (request->kind == CTL_REGION && request->size >= sizeof *got && request->fd_count == 1) {
        memcpy(got, request->payload, sizeof *got);
        memory = got->size == LIB_BOARD_BYTES ? lib_map(request->fds[0], 0, got->size, true) : NULL;
    }
    if (!memory && request->kind == CTL_REGION)
        own_send(&lib.own, CTL_REGION_DROP, own_id_next(&lib.own), got, sizeof *got);
    return memory;
}

static void ask(void)
{
    struct ctl_segment want = {.size = LIB_BOARD_BYTES};
    board.request = calloc(1, sizeof *board.request);
    if (board.request && lib_call_send(board.request, CTL_REGION_WANT, &want, sizeof want, NULL) == MANTA_OK)
        return;
    free(board.request);
    board.request = NULL;
    board.is_refused = true;
}

static void answered(void)
{
    struct ctl_segment got = {0};
    board.memory = lib_board_map(board.request, &got);
    lib_call_forget(board.request);
    free(board.request);
    board.request = NULL;
    board.is_refused = !board.memory || !own_edges_open(&lib.own, board.memory, got.segment, OWN_EDGE_CELLS);
}

void lib_board_tick(void)
{
    if (board.request && board.request->is_done)
        answered();
    if (lib.own.edges.is_wanted && !board.request && !board.is_refused && !lib.own.edges.memory && !lib.inlined && !lib.broken)
        ask();
}

/* An answer may have come that nobody has looked at: its descriptor is ours. */
static void request_drop(struct lib_request *request)
{
    lib_call_forget(request);
    for (int i = 0; i < request->fd_count; i++)
        close(request->fds[i]);
    free(request);
}

void lib_board_end(void)
{
    if (board.request)
        request_drop(board.request);
    if (board.memory)
        munmap(board.memory, LIB_BOARD_BYTES);
    memset(&board, 0, sizeof board);
}
