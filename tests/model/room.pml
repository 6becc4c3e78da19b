/* Waiting for room. Two writer threads of one direction (the put is under the direction's lock) and the reader; one word
 * want_room in link memory; a wake-up reaches every thread that sleeps for this direction (its waitset's fd: wake.pml).
 * TSO: the store of want_room and the store of tail go through store buffers. */
#ifndef S
#define S 1
#endif
#ifndef N
#define N 3            /* items of each thread */
#endif
#ifdef ALLFIX
#define FIX_WFENCE     /* writer: fence between want_room and the second look at tail */
#define FIX_RFENCE     /* reader: fence between tail and the look at want_room */
#define FIX_AGAIN      /* writer looks at tail again after want_room was stored */
#define FIX_CLEARFIRST /* the reader takes want_room back before it wakes, and wakes all */
#define FIX_RCLEARS    /* only the reader takes it back */
#endif
#define NOBUF 255
byte pos, tail, tbuf = NOBUF; bool want, wantb[2], latch[2], lk, wend[2];
active proctype Flush() {
  do
  :: atomic { tbuf != NOBUF -> tail = tbuf; tbuf = NOBUF }
  :: atomic { wantb[0] -> want = 1; wantb[0] = 0 }
  :: atomic { wantb[1] -> want = 1; wantb[1] = 0 }
  od
}
proctype W(byte me) {
  byte n; bool ok;
  do
  :: n == N -> break
  :: n < N ->
     atomic { !lk -> lk = 1 };
     if :: pos - tail < S -> pos++; ok = 1 :: else -> ok = 0 fi;
     lk = 0;
     if
     :: ok -> n++; ok = 0
#ifndef FIX_RCLEARS
        ; want = 0
#endif
     :: else ->
        wantb[me] = 1;
#ifdef FIX_WFENCE
        !wantb[me];
#endif
#ifdef FIX_AGAIN
        if :: pos - tail < S -> skip :: else -> atomic { latch[me] -> latch[me] = 0 } fi
#else
        atomic { latch[me] -> latch[me] = 0 }
#endif
     fi
  od;
  wend[me] = 1
}
active proctype R() {
  byte t;
  do
  :: t < pos ->
     t++; tbuf = t;
#ifdef FIX_RFENCE
     tbuf == NOBUF;
#endif
#ifdef FIX_CLEARFIRST
     if :: want -> want = 0; atomic { latch[0] = 1; latch[1] = 1 } :: else fi;
#else
     if :: want -> atomic { latch[0] = 1; latch[1] = 1 }; want = 0 :: else fi;
#endif
     tbuf == NOBUF
  od
}
active proctype Mon() { timeout -> assert(wend[0] && wend[1]); assert(tail == pos) }
init { atomic { run W(0); run W(1) } }
