/* SPDX-License-Identifier: Apache-2.0
 *
 * next.h - a generation that is made ready while the present one computes. Pure: who calls does what it says.
 *
 *   NONE --a change is due--> CONNECTING --all are connected--> ORDERED --all of the present one are back--> NONE: it is that now
 *                                 |                                |        after one and the same step
 *                                 '--a death, an error, too late---'--> DROPPED --all its calls are back--> NONE
 *
 * CONNECTING, its members make their connections and touch their memory, on a thread beside the one that computes. ORDERED, each
 * has the orders for it behind those that it follows, so whoever is back from a step begins at once, and no word goes to the driver
 * and back. The generation's number is used up either way.
 *
 * One rule keeps one generation's memory from the other's: nobody joins before all members of the one before, on its own node, have
 * said that they have left it after a step. (Its last arrival is seen by some before others; who joined at once would write over
 * what these still look at.) Where it ends in another way nobody says so, and who waits is released by its own generation's end.
 *
 * Thread: any, one at a time per struct.
 */
#ifndef SGD_NEXT_H
#define SGD_NEXT_H

#include <stdbool.h>
#include <stdint.h>

enum sgd_next_state { SGD_NEXT_NONE, SGD_NEXT_CONNECTING, SGD_NEXT_ORDERED, SGD_NEXT_DROPPED };

struct sgd_next {
    enum sgd_next_state state;
    uint32_t            generation; /* its number */
    int64_t             until_ns;   /* CONNECTING: then it is too late */
};

/* What the driver sees. */
struct sgd_next_seen {
    bool lives;                        /* nothing has ended the present generation, and nobody of the next one is dead or killed */
    bool has_left;                     /* who is back from the present one says that all come back after this step */
    bool failed;                       /* an answer of a connecting member was no */
    int  connecting, present, ordered; /* calls that are not answered: of connecting, of the present generation, of the next one */
};

enum sgd_next_act {
    SGD_NEXT_WAIT,
    SGD_NEXT_ORDER,  /* give its orders, and ask the present one to leave */
    SGD_NEXT_DROP,   /* CONNECTING: nothing is to be undone. ORDERED: end it, and so the present one, on all nodes */
    SGD_NEXT_TAKE,   /* it is the present one now */
    SGD_NEXT_FORGET, /* nothing of it is left */
};

void              sgd_next_begin(struct sgd_next *next, uint32_t generation, int64_t until_ns);
enum sgd_next_act sgd_next_look(const struct sgd_next *next, const struct sgd_next_seen *seen, int64_t now_ns);
/* `act` of a look was done. */
void sgd_next_did(struct sgd_next *next, enum sgd_next_act act);

/* A worker's: whether one that was a member of `after` has said that it is out of it. Its word grows. */
bool sgd_next_is_out(uint32_t after, uint32_t said);

#endif
