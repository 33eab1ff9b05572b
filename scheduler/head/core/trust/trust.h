/* SPDX-License-Identifier: Apache-2.0
 *
 * trust.h - door: tickets, certificates that are asked for, and those that are revoked.
 */
#ifndef HEAD_TRUST_H
#define HEAD_TRUST_H

#include "scheduler/head/core/kit/kit.h"

/* ---- tickets.c ----------------------------------------------------------------------------------------------------- */

void head_tickets_create(struct head *h, uint64_t call, const Manta__V1__CreateTicketRequest *request);
void head_tickets_list(struct head *h, uint64_t call);
void head_tickets_revoke(struct head *h, uint64_t call, const Manta__V1__RevokeTicketRequest *request);
/* Takes a use, or finds the one that `member` has taken. MT_OK, or why not, in words. */
int32_t head_tickets_use(struct head *h, uint64_t id, uint64_t member, const char *name, char *text, size_t size);
/* A new ticket for one machine, which the instance of that number joins with; id 0: this cluster has none. */
struct head_ticket head_tickets_of_instance(struct head *h, uint64_t instance);
/* The instance is not wanted any more: its ticket goes, and the certificates of who has used it are revoked. Returns who that is;
 * 0: nobody. */
uint64_t head_tickets_end_instance(struct head *h, uint64_t instance);

MT_MUST_USE mt_status head_tickets_load(struct head *h, const Manta__V1__Ticket *record);
void                  head_tickets_fini(struct head *h);

/* ---- tokens.c ------------------------------------------------------------------------------------------------------ */

/* Who made a call. */
struct head_who {
    const char   *name; /* borrowed for the step */
    enum mt_right right;
};
/* False: the token was revoked, or has ended, since the call came in. Number 0: the cluster's own. */
bool head_tokens_who(const struct head *h, uint64_t number, struct head_who *out);
void head_tokens_create(struct head *h, uint64_t call, const Manta__V1__CreateTokenRequest *request);
void head_tokens_list(struct head *h, uint64_t call);
void head_tokens_revoke(struct head *h, uint64_t call, const Manta__V1__RevokeTokenRequest *request);
/* Tells the shell whom it lets in. */
void head_tokens_tell(struct head *h);
/* Those whose end has come are let in no more. */
void                  head_tokens_tick(struct head *h);
MT_MUST_USE mt_status head_tokens_load(struct head *h, const Manta__V1__Token *record);
void                  head_tokens_fini(struct head *h);

/* ---- certify.c ----------------------------------------------------------------------------------------------------- */

/* `asks`: a number that only this request has. */
void head_certify(struct head *h, uint64_t call, const struct head_peer *peer, uint64_t asks,
                  const Manta__V1__CertifyRequest *request);

/* ---- revoked.c ----------------------------------------------------------------------------------------------------- */

bool head_revoked_has(const struct head *h, uint64_t member);
/* Stored, and told to all nodes with the next changes. `ends_ms`: of its last certificate; `node`: 0 where it is none. False: too
 * many are. */
bool head_revoked_add(struct head *h, uint64_t member, uint32_t node, uint64_t ends_ms, const char *reason);
/* Tells the shell of all: it refuses them at the door. */
void head_revoked_tell(struct head *h);
/* Those whose certificates have ended by themselves go. */
void head_revoked_tick(struct head *h);

MT_MUST_USE mt_status head_revoked_load(struct head *h, const Manta__Store__RevokedRecord *record);

/* Of both tables of this room. */
void head_trust_key(uint64_t id, uint8_t key[8]);

#endif
