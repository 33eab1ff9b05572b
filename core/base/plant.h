/* SPDX-License-Identifier: Apache-2.0
 *
 * plant.h - bugs on purpose, by number, for the tests that must find them.
 *
 * A test that has never failed proves little. Some test programs compile the very sources a second time with
 * MANTA_PLANTS defined and choose one bug at run time; each must be caught. In every other build MT_PLANT(n) is the
 * constant 0 and the compiler drops the branch.
 */
#ifndef MT_BASE_PLANT_H
#define MT_BASE_PLANT_H

enum mt_plant_number {
    MT_PLANT_NONE = 0,
    MT_PLANT_PARK_NO_FENCE = 1,    /* the sleeper looks at the rings before its ASLEEP is visible */
    MT_PLANT_CLAIM_BY_STORE = 2,   /* a slot is taken by load, compare, store instead of a compare-and-swap */
    MT_PLANT_PIN_NO_FENCE = 3,     /* a pin re-checks the generation with acquire only */
    MT_PLANT_RING_EARLY_HEAD = 4,  /* a record is shown before it is written */
    MT_PLANT_FINISH_LATE = 5,      /* a worker marks its slot DONE after the owner may have reused it */
    MT_PLANT_RAN_IS_NOT_RUN = 6,   /* an owner takes what ran when its worker died for not run */
    MT_PLANT_RETRY_LAST = 7,       /* a call that is tried again goes behind later ones */
    MT_PLANT_LEASE_KEEPS = 8,      /* a lease whose worker died does not give its resources back */
    MT_PLANT_DEATH_IS_SILENT = 9,  /* a raylet does not tell who monitors a process that it died */
    MT_PLANT_EARLY_ACK = 10,       /* the head answers before its store has the change */
    MT_PLANT_FINISH_EARLY = 11,    /* a worker marks its slot DONE before the outcome is written */
    MT_PLANT_NO_DEDUP = 12,        /* a frame that comes again is taken again */
    MT_PLANT_CLAIM_ANY = 13,       /* a record of a slot's former use claims its new task */
    MT_PLANT_LEASE_LEAKS = 14,     /* the memory of a lease that has ended is kept */
    MT_PLANT_FREE_UNDER_PIN = 15,  /* a dead object's place is handed back while somebody reads it */
    MT_PLANT_NO_FSYNC = 16,        /* the head's store confirms what is not on the disk */
    MT_PLANT_NO_REPLAY = 17,       /* a link that comes back does not send again what was not acknowledged */
    MT_PLANT_EARLY_END_LOST = 18,  /* the end of a lease that overtakes its grant is forgotten */
    MT_PLANT_RETRY_UNCOUNTED = 19, /* a retry does not count against max_retries */
    MT_PLANT_REVOKE_BLIND = 20,    /* an owner takes a task back that has begun */
    MT_PLANT_TAKE_BY_STORE = 23,   /* a value that went to disk is taken by load, compare, store */
    MT_PLANT_TAKE_ANY = 24,        /* ... whatever stands at its place by then */
    MT_PLANT_COPY_STAYS = 25,      /* a copy of another node's value outlives it */
    MT_PLANT_PULL_SHORT = 26,      /* a value whose fetch broke off counts as fetched */
    MT_PLANT_HOLD_UNTOLD = 27,     /* an owner does not note that a worker kept a ref after its task */
    MT_PLANT_BUNDLE_LEAKS = 29,    /* a prepared bundle that is returned does not give its resources back */
    MT_PLANT_POOL_OF_NOBODY = 30,  /* leases are granted from the pool of a removed placement group */
    MT_PLANT_LINEAGE_UNHELD = 31,  /* what only a task that may run again needs as an argument is let go */
    MT_PLANT_AGAIN_UNCOUNTED = 32, /* a run for a value that was lost costs no retry */
    MT_PLANT_DELETE_UNSTORED = 33, /* a job that was deleted stays in the head's store */
    MT_PLANT_ITEM_TWICE = 34,      /* an item that comes again is given to the user again */
    MT_PLANT_DRAIN_UNSTORED = 36,  /* a head that is restarted has forgotten that a node is to leave */
    MT_PLANT_DRAIN_GRANTS = 37,    /* a node that is to leave still grants leases */
    MT_PLANT_DRAIN_COUNTED = 38,   /* what was stopped when a node left costs a retry */
    MT_PLANT_DRAIN_EARLY = 39,     /* a node says that it is empty while leases are there */
    MT_PLANT_DRAIN_UNHEARD = 46,   /* ... or before the other nodes have heard how its tasks ended */
    MT_PLANT_CELL_EARLY = 41,      /* a cell says that its value is there before it is */
    MT_PLANT_CELL_BEFORE = 42,     /* a worker fills a cell before its outcome is written */
    MT_PLANT_CELL_UNSETTLED = 43,  /* an owner does not fill the cell that a dead worker has left empty */
    MT_PLANT_AHEAD_KEPT = 44,      /* what was sent ahead stays there when what it waits for has failed, or is cancelled */
    MT_PLANT_CELL_REUSED = 45,     /* an owner hands a cell out again when its maker has ended, whoever still reads it */
    MT_PLANT_CELL_UNTOLD = 110,    /* whoever fills a cell at which somebody sleeps tells nobody */
    MT_PLANT_CELL_UNWATCHED = 111, /* a worker sleeps, and its cell does not say so */
    MT_PLANT_CELL_UNCOUNTED = 112, /* an owner does not count a task that names a cell */
    MT_PLANT_CELL_KEPT = 113,      /* ... counts one for ever that has named it */
    MT_PLANT_CELL_STALE = 115,     /* what stands in a cell of an earlier generation is taken for the value */
    MT_PLANT_SWITCH_SILENT = 116,  /* a switch does not wake those who wait for a value of another worker of their owner */
    MT_PLANT_AHEAD_PASSES = 114,   /* a maker that comes back leaves those that wait for it where they are */
    MT_PLANT_WAIT_UNCOUNTED = 35,  /* who waited for a value on disk, and was refused, is still counted */
    MT_PLANT_OVER_CPUS = 40,       /* a lease is not asked back where more tasks run than there are CPUs */
    MT_PLANT_NOTICE_UNHEARD = 47,  /* a node that leaves already goes on until the later end, though its machine goes sooner */
    MT_PLANT_SIGNAL_GAP = 71,      /* a node that is told to leave between two heads ends at once */
    MT_PLANT_VIEW_MISSES = 48,     /* a node takes no note of it that another is suspect */
    MT_PLANT_DRAIN_UNADOPTED = 49, /* a node that leaves offers its values to nobody */
    MT_PLANT_ADOPT_UNTOLD = 50,    /* a value counts as adopted although its owner was not told */
    MT_PLANT_ADOPT_AGES = 51,      /* what was adopted goes by age, like any copy */
    MT_PLANT_COPY_UNTOLD = 52,     /* nobody tells an owner of a copy of its value */
    MT_PLANT_SEEK_UNANSWERED = 53, /* an owner that asks for a copy is not told that there is none */
    MT_PLANT_TREE_CIRCLE = 54,     /* a node that wants a value is sent to one that gets it from that very node */
    MT_PLANT_PART_EARLY = 55,      /* a node sends on what it has not got yet */
    MT_PLANT_SLOW_STAYS = 56,      /* who gets a value from a slow node stays with it */
    MT_PLANT_SLOW_UPSTREAM = 57,   /* ... leaves it also where that node gets it no quicker */
    MT_PLANT_STORE_FORGETS = 60,   /* a leader takes no notice of it that its store has forgotten commits */
    MT_PLANT_STORE_TAKES_ALL = 61, /* a leader writes over whatever stands in its store */
    MT_PLANT_STORE_UNFENCED = 62,  /* the store takes commits of a leader that was followed by another */
    MT_PLANT_STORE_UNORDERED = 63, /* the store takes a commit wherever it stands */
    MT_PLANT_STORE_REWRITTEN = 64, /* a leader that has rewritten its store takes the commit under way for done */
    MT_PLANT_SCALE_UNSTORED = 66,  /* an instance is ordered before its record is stored */
    MT_PLANT_SCALE_FLAPS = 67,     /* an idle node is given back, also where a gang that waits for others has its place there */
    MT_PLANT_SCALE_ZOMBIE = 68,    /* what runs at the provider and nobody knows is left there */
    MT_PLANT_SCALE_TWICE = 69,     /* what is being started does not count as room */
    MT_PLANT_SCALE_FAILED = 70,    /* what the provider says will never be a node is waited for */
    MT_PLANT_WISH_HASTY = 93,      /* a node is started for a wish at once, also while who wished takes what has just come */
    MT_PLANT_WISH_UNKEPT = 94,     /* a node that came for a wish is idle before it is taken */
    MT_PLANT_NEXT_EARLY = 95,      /* who is back from a generation joins the next one while others are still in it */
    MT_PLANT_NEXT_FORGOTTEN = 96,  /* the next generation is formed while somebody is still in one that was given up */
    MT_PLANT_NEXT_KEPT = 97,       /* a death leaves the next generation's orders where they are */
    MT_PLANT_SWITCH_PASSES = 100,  /* a record goes past those that wait for room in their ring */
    MT_PLANT_STORE_DROPPED = 65,   /* a leader keeps records that were dropped, and writes them again */
    MT_PLANT_STANDBY_OLDER = 80,   /* a head that stands by takes the lead of a store that has forgotten a leader it saw */
    MT_PLANT_LEADER_DEAF = 81,     /* a leader takes no notice of it that another was given the lead */
    MT_PLANT_FENCE_STAYS = 82,     /* the store gives a new leader the fence of the one before */
    MT_PLANT_STANDBY_HASTY = 83,   /* a head that stands by claims the lead of one whose lock stands */
    MT_PLANT_HANDED_CLAIMS = 84,   /* a head that has stepped down claims the lead again at once */
    MT_PLANT_STANDBY_DOUBTS = 85,  /* a head that stands by claims the lead of one that it hears, where the lock is forgotten */
    MT_PLANT_TICKET_UNSTORED = 90, /* a head that is restarted has forgotten that a ticket was used */
    MT_PLANT_REVOKE_UNSTORED = 91, /* ... that a node was revoked */
    MT_PLANT_TOKEN_UNSTORED = 101, /* a head that is restarted has forgotten that a named token was revoked */
    MT_PLANT_TOKEN_ANYBODY = 102,  /* whoever may submit jobs may stop those of others */
    MT_PLANT_REVOKED_MISSED = 92,  /* a node that is brought up to date is not told whom to refuse */
    MT_PLANT_SPOT_FLOOR = 150,     /* spot nodes are started also where there are fewer others than there must be */
    MT_PLANT_SPOT_AGAIN = 151,     /* a type of which a node was taken away just now is chosen again */
    MT_PLANT_QUOTA_DRIVERS = 131,  /* a user's bounds hold for what his drivers wish, whatever their tasks hold */
    MT_PLANT_ACCOUNT_TWICE = 130,  /* a head that is restarted counts again what a node has said before */
    MT_PLANT_SPARE_TIGHT = 152,    /* a node that is little used goes, also where its work has no room on others */
    MT_PLANT_SPARE_FIXED = 153,    /* ... also where something is on it that can't move */
    MT_PLANT_SCALE_MORE = 155,     /* of a launch it is said that more follow than do */
    MT_PLANT_SCALE_UNKNOWN = 156,  /* of a type several are started before one has told what it has */
    MT_PLANT_PACE_CALM = 154,      /* a job with a deadline waits for a spot node for ever */
    MT_PLANT_GANG_PART = 120,      /* ranks of a gang are started before all have room */
    MT_PLANT_GANG_KILLED_IS_ENDED = 121, /* a rank that was sent SIGKILL counts as ended */
    MT_PLANT_GANG_UNCOUNTED = 122,       /* what begins again after a failure costs no restart */
    MT_PLANT_GANG_RENEWED_TWICE = 123,   /* a rank that is at fault is started again before it has ended */
    MT_PLANT_GANG_SERVES_ON = 124,       /* parameter servers go on when the others have ended */
    MT_PLANT_MEET_PART = 125,            /* a generation of ranks is named while one of them is missing */
    MT_PLANT_MEET_STALE = 126,           /* a group's memory that was made for an earlier generation is taken */
    MT_PLANT_MEET_ON = 174,              /* ranks gather for a generation that can't come: one has finished */
    MT_PLANT_MEET_DEAF = 175,            /* who can join when one has finished is not told that it is in vain */
    MT_PLANT_MEET_JOINING = 176,         /* who joins a generation goes on waiting for one that has finished without coming there */
    MT_PLANT_MEET_GIVEN_UP = 177,        /* a generation that all have given up is followed by none */
    MT_PLANT_MEET_HASTY = 178,           /* a generation that one has given up is followed by another while the rest are in it */
    MT_PLANT_BEAT_AGAIN = 132,           /* a head hears a node by a datagram that it has had before */
    MT_PLANT_BEAT_LATE = 133,            /* ... by one that was made long ago, and held back */
    MT_PLANT_BEAT_UNANSWERED = 134,      /* a node whose datagrams are not answered says nothing on its stream */
    MT_PLANT_BEAT_ANY_ANSWER = 135,      /* a node takes an answer to an older datagram for one to the last */
    MT_PLANT_BACKFILL_DELAYS = 140,      /* a job starts in room that is reserved for another */
    MT_PLANT_FORERUNNER_DEAF = 128,      /* a head takes no ends of jobs from who follows a raylet that was killed */
    MT_PLANT_MORE_DEAF = 136,            /* of messages that travel together a head hears the first only */
    MT_PLANT_NOTICE_NONE = 127,          /* who makes room for another is killed without a notice */
    MT_PLANT_PREEMPT_COUNTED = 141,      /* who makes room for another pays a retry */
    MT_PLANT_AFTER_EARLY = 142,          /* a job starts before those that it waits for have ended */
    MT_PLANT_ROOM_UNSEEN = 144,          /* a report with more room than before moves nobody who waits */
    MT_PLANT_STATE_UNTOLD = 145,         /* that a node is suspect, or back, is told to nobody where many are so at once */
    MT_PLANT_PLACE_UNTOLD = 146,         /* who is told to use a node that was suspect is not told that it is back */
    MT_PLANT_NEWS_UNTOLD = 170,          /* who waits for news of nodes is not told that one is in another state */
    MT_PLANT_NEWS_SPENT = 171,           /* who hears that something is free spends the news of nodes that others wait for */
    MT_PLANT_ROW_FORGETS = 172,          /* a connection ends, and the last one that waits for a small value on it is not told */
    MT_PLANT_ROW_SHORT = 173,            /* a small value of which a piece has come counts as whole */
    MT_PLANT_UNFIT_AGAIN = 147,          /* a job is tried again on a node that can't run its program */
    MT_PLANT_BUCKET_FULL = 143,          /* jobs that found no room are not tried again when there is some */
    MT_PLANT_ARGUMENT_PASSES = 160,      /* a task is sent ahead to another node before what it waits for was sent */
    MT_PLANT_ARGUMENT_LATE = 161,        /* a switch hands an argument to a task that was taken back, or has begun */
    MT_PLANT_KILLED_SERVES = 182,        /* a worker that was killed, and had given its lease back, gets the next one */
    MT_PLANT_RESERVE_EVER = 179,         /* a lease that was asked back counts as room that comes, however long ago that was */
    MT_PLANT_RESERVE_ASLEEP = 180,       /* ... and when it does so no longer nobody looks who may have what was kept for it */
    MT_PLANT_RESERVE_UNLEARNED = 181,    /* ... and so long always, however late such leases come */
};

#ifdef MANTA_PLANTS
extern int mt_plant; /* the bug planted in this process; the test program defines and sets it */
#define MT_PLANT(n) (mt_plant == (n))
#else
#define MT_PLANT(n) 0
#endif

#endif
