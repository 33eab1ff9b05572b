/* SPDX-License-Identifier: Apache-2.0
 *
 * links.h - the streams to the head and to the other raylets, and the files that travel on them. Loop thread,
 * or, of what sends records, the switch thread; whoever speaks to other raylets holds sh->in_core.
 */
#ifndef SH_LINKS_H
#define SH_LINKS_H

#include "raylet/shell/ground/ground.h"

struct rpc_channel;

/* head.c */
void                  sh_head_answer(struct sh *sh, uint64_t number, Manta__V1__QueryReply *reply);
MT_MUST_USE mt_status sh_head_find(struct sh *sh);      /* address and token; waits for --head-file */
MT_MUST_USE mt_status sh_head_rpc_start(struct sh *sh); /* gRPC, before anything is served */
MT_MUST_USE mt_status sh_head_start(struct sh *sh);
void                  sh_head_stop(struct sh *sh);
void                  sh_head_send(struct sh *sh, const Manta__V1__NodeToHead *message);
void                  sh_head_flush(struct sh *sh); /* at the end of a step: what was sent goes out */
const char           *sh_head_address(const struct sh *sh);
struct rpc_channel   *sh_head_channel(const struct sh *sh);
const char           *sh_head_tls_file(const struct sh *sh); /* "": none */
void                  sh_head_certified(struct sh *sh);      /* the next connection shows the new certificate */

/* certificate.c: ours ends soon, and the head gives another for the next key, over the connection that is there */
void sh_certificate_start(struct sh *sh);
void sh_certificate_stop(struct sh *sh); /* before the head */

/* peer.c */
/* Takes --listen apart, before anything listens. EINVAL. */
MT_MUST_USE mt_status sh_listen_read(struct sh *sh);
MT_MUST_USE mt_status sh_peers_start(struct sh *sh, char address[RLT_ADDRESS_SIZE]);
/* The head has spoken: once it has given this node its number, peers that wait in the backlog are let in. */
void sh_peers_registered(struct sh *sh);
void sh_peers_stop(struct sh *sh);
void sh_peer_dial(struct sh *sh, const struct rlt_a_peer_dial *a);
void sh_peer_send(struct sh *sh, const struct rlt_a_peer_send *a);
void sh_peers_flush(struct sh *sh);      /* at the end of a round: what was sent goes out */
void sh_peers_flush_here(struct sh *sh); /* the same on another thread than the loop's, which goes on with the rest */
void sh_peer_close(struct sh *sh, uint64_t stream);
void sh_peers_drop_revoked(struct sh *sh); /* whose certificates are refused by now */
void sh_file_read(struct sh *sh, const struct rlt_a_file_read *a);
void sh_file_drop(struct sh *sh, const struct peer_file *file);
void sh_archive_write(struct sh *sh, const struct rlt_a_file_write *a); /* FILE_WRITE of an environment's archive */

/* upload.c: programs, to the head */
void sh_upload(struct sh *sh, const struct rlt_a_program_send *a);
void sh_uploads_stop(struct sh *sh);

#endif
