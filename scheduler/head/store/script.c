/* SPDX-License-Identifier: Apache-2.0
 *
 * script.c - what Redis runs for each request of a leading head: all or nothing, since nothing else runs meanwhile.
 *
 *   manta:{NAME}:head     hash   schema, cluster, fence, run, seq, digest, count (of the records); of the leader: place, release
 *   manta:{NAME}:records  hash   a field a record (shelf.h)
 *   manta:{NAME}:past     list   seq:digest of the last commits, the newest first
 *   manta:{NAME}:lock     text   who leads, as long as it says so: it keeps others waiting, and protects nothing. The fence does.
 *
 * Errors in words come before the first write. A script that has begun to write goes on though memory is short.
 */
#include "scheduler/head/store/script.h"

const char head_store_script[] =
    "local H, R, L, P = KEYS[1], KEYS[2], KEYS[3], KEYS[4]\n"
    "local op, schema, cluster, fence, run, seq, digest = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]\n"
    "local w_fence, w_run, w_seq, w_digest, me, ttl, made = ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12], ARGV[13], ARGV[14]\n"
    "local place, oldest, newest, release = ARGV[15], tonumber(ARGV[16]), tonumber(ARGV[17]), ARGV[18]\n"
    "local FIRST = 19\n"
    "local at = redis.call('HMGET', H, 'schema', 'cluster', 'fence', 'run', 'seq', 'digest', 'count', 'place', 'release')\n"
    "local holder = redis.call('GET', L) or ''\n"
    "local function say(word)\n"
    "  return {word, at[2] or '', at[3] or '0', at[4] or '', at[5] or '0', at[6] or '', holder, at[8] or '', at[1] or '0', at[9] "
    "or ''}\n"
    "end\n"
    "local function hold()\n"
    "  if holder == me then redis.call('PEXPIRE', L, ttl) else redis.call('SET', L, me, 'PX', ttl); holder = me end\n"
    "  if place ~= (at[8] or '') then redis.call('HSET', H, 'place', place); at[8] = place end\n"
    "end\n"
    "local function stand(f, r, s, d)\n"
    "  redis.call('HSET', H, 'fence', f, 'run', r, 'seq', s, 'digest', d, 'count', redis.call('HLEN', R))\n"
    "  if s ~= at[5] or d ~= at[6] then\n"
    "    redis.call('LPUSH', P, s .. ':' .. d)\n"
    "    redis.call('LTRIM', P, 0, 1023)\n"
    "  end\n"
    "  at[3], at[4], at[5], at[6] = f, r, s, d\n"
    "  hold()\n"
    "  return say('OK')\n"
    "end\n"
    "if op == 'LEAVE' then\n"
    "  if holder == me then redis.call('DEL', L) end\n"
    "  return say('OK')\n"
    "end\n"
    /* whose place it is */
    "local count = redis.call('HLEN', R)\n"
    "if not at[2] and (count > 0 or redis.call('EXISTS', H) == 1) then return say('FOREIGN') end\n"
    "if at[2] and cluster ~= '' and at[2] ~= cluster then return say('OTHER') end\n"
    "local has = tonumber(at[1]) or 0\n" /* only its leader raises it: who leads need not ask */
    "if at[2] and (op == 'LOOK' or op == 'LEAD') and (has < oldest or has > newest) then return say('SCHEMA') end\n"
    "if op == 'LOOK' then return say(at[2] and 'OK' or 'EMPTY') end\n"
    "if op == 'LEAD' then\n"
    "  if at[4] == run then return say('OK') end\n" /* the answer was lost */
    "  if holder ~= '' and holder ~= me and (w_run == '' or at[4] ~= w_run) then return say('BUSY') end\n"
    "  if not at[2] then\n"
    "    if seq == '0' then return say('EMPTY') end\n"
    "    redis.call('HSET', H, 'schema', schema, 'cluster', made, 'release', release)\n"
    "    at[2] = made\n"
    "    return stand('1', run, '0', '0000000000000000')\n"
    "  end\n"
    "  if tonumber(at[3]) < tonumber(fence) then return say('OLDER') end\n"
    "  if count ~= tonumber(at[7]) then return say('BROKEN') end\n"
    "  return stand(string.format('%.0f', tonumber(at[3]) + 1), run, at[5], at[6])\n"
    "end\n"
    "if op == 'REWRITE' then\n"
    "  if (at[4] or '') ~= w_run or (at[2] and (at[3] ~= w_fence or at[5] ~= w_seq or at[6] ~= w_digest)) then\n"
    "    return say('MOVED')\n"
    "  end\n"
    "  redis.call('DEL', R)\n"
    "  for i = FIRST, #ARGV, 2 do redis.call('HSET', R, ARGV[i], ARGV[i + 1]) end\n"
    "  redis.call('HSET', H, 'schema', schema, 'cluster', cluster, 'release', release)\n"
    "  at[2] = cluster\n"
    "  return stand(fence, run, seq, digest)\n"
    "end\n"
    /* LOAD, KEEP, APPLY: it must be ours */
    "if not at[2] then return say('EMPTY') end\n"
    "if at[4] ~= run then return say(tonumber(at[3]) < tonumber(fence) and 'OLDER' or 'FENCED') end\n"
    "if count ~= tonumber(at[7]) then return say('BROKEN') end\n"
    "if op == 'LOAD' then\n"
    "  local said = say('OK')\n"
    "  said[11], said[12] = redis.call('HGETALL', R), redis.call('LRANGE', P, 0, -1)\n"
    "  return said\n"
    "end\n"
    "if at[5] == seq and at[6] == digest then\n" /* done already */
    "  hold()\n"
    "  return say('OK')\n"
    "end\n"
    "if op ~= 'APPLY' or at[5] ~= w_seq or at[6] ~= w_digest then return say('BEHIND') end\n"
    "for i = FIRST, #ARGV, 2 do\n"
    "  if ARGV[i + 1] == '' then redis.call('HDEL', R, ARGV[i]) else redis.call('HSET', R, ARGV[i], ARGV[i + 1]) end\n"
    "end\n"
    "if at[1] ~= schema or at[9] ~= release then redis.call('HSET', H, 'schema', schema, 'release', release) end\n"
    "return stand(fence, run, seq, digest)\n";
