/* Sleep and wake. One waitset with two threads T0, T1 (one epoch word, their count under the waitset's lock, a hidden
 * epoll fd each; SHARED: both wait in one epoll set, whose edge wakes only one of them); waker process A with threads 0 and 1 (one private "last epoch woken"), waker process B with thread 2,
 * each with a connection of its own. TSO store buffers of the wakers (position, then ready bit) and of the epoch word.
 * FORKED: A and B are processes of one family that share the socket on which the word's descriptor comes, and T1 is a process
 * that takes the word over when T0 has ended, with a descriptor of its own.
 * PEEP: a further thread looks into the set without waiting, takes what wake-up there is, and returns to its program.
 * JOIN is the other way than LEAVE: a thread that joins sleepers changes the epoch. STOP halts all of A at any step. BUSY: T0 returns to its program with one event and never comes back. */
#ifdef ALLFIX
#define FIX_AFTER      /* the wake-up write comes first, the remembering after it */
#define FIX_WFENCE     /* waker: fence between ready bit and the look at the epoch */
#define FIX_SFENCE     /* sleeper: fence between epoch and the last look */
#define FIX_BITAFTER   /* the ready bit is set after the position is stored */
#define FIX_CLEARFIRST /* the ready bit is cleared before the ring is looked at */
#define FIX_CLEARRMW   /* it is cleared by an atomic exchange: a late plain store would wipe out a newer bit */
#define FIX_LASTLOOK   /* look once more after "asleep" was published */
#define FIX_LEAVE      /* a thread that leaves other sleepers behind changes the epoch (by 2) */
#define FIX_OWNWORD    /* a forked child that sleeps has a word of its own */
#define FIX_LFENCE     /* and fences before it looks at the connections (needed where threads share a latch) */
#define FIX_BELL       /* who has not got the word's descriptor wakes all words of the family */
#define FIX_INCARNATION /* a descriptor of the word's last owner counts as none */
#define FIX_PASSON     /* who leaves ready connections behind wakes the threads that sleep */
#define FIX_PASSPEEK   /* who takes a wake-up without having slept on the word wakes the threads that sleep */
#endif
#define ANY (rdy[0] || rdy[1] || rdy[2])
#define NOBUF 255
byte epoch, ebuf = NOBUF, cnt;     /* memory, pending store of the threads, sleepers */
byte wb[3];                                  /* pending stores of a waker: 1 position, 2 ready bit */
byte data[3], taken[3]; bool rdy[3], cbuf[3];/* cbuf: pending plain store that clears the bit */
bool latch[2], fin[3], stopA, busy0; byte lastA = NOBUF, lastB = NOBUF;
inline wake() { atomic { latch[0] = 1; latch[1] = 1 } }
#ifdef FORKED
byte have[2]; bool msg[2], said[2], inc, handed; /* descriptor that a waker process has got (owner + 1), messages */
#ifdef FIX_INCARNATION
#define NONE(p) (have[p] != inc + 1)
#else
#define NONE(p) (have[p] == 0)
#endif
inline rouse(p) { atomic {
  if :: NONE(p) && msg[0] -> have[p] = 1; msg[0] = 0 :: else fi;
  if :: NONE(p) && msg[1] -> have[p] = 2; msg[1] = 0 :: else fi;
  if
#ifdef FIX_BELL
  :: NONE(p) -> wake()
#else
  :: NONE(p) -> skip
#endif
  :: else -> latch[have[p] - 1] = 1
  fi } }
#else
#define rouse(p) wake()
#endif
inline drain(c) {
#ifdef FIX_BITAFTER
  if :: wb[c] & 1 -> data[c]++; wb[c] = wb[c] - 1 :: else -> rdy[c] = 1; wb[c] = 0 fi
#else
  if :: wb[c] & 2 -> rdy[c] = 1; wb[c] = wb[c] - 2 :: else -> data[c]++; wb[c] = 0 fi
#endif
}
active proctype Flush() { /* store buffers drain at any time, each in its order */
  do
  :: atomic { ebuf != NOBUF -> epoch = ebuf; ebuf = NOBUF }
  :: atomic { wb[0] > 0 -> drain(0) }
  :: atomic { wb[1] > 0 -> drain(1) }
  :: atomic { wb[2] > 0 -> drain(2) }
  :: atomic { cbuf[0] -> rdy[0] = 0; cbuf[0] = 0 }
  :: atomic { cbuf[1] -> rdy[1] = 0; cbuf[1] = 0 }
  :: atomic { cbuf[2] -> rdy[2] = 0; cbuf[2] = 0 }
  od
}
proctype Waker(byte id; byte items) {
  byte w;
  {
  do
  :: items > 0 ->
     atomic { (wb[id] == 0) -> wb[id] = 3 };
#ifdef FIX_WFENCE
     wb[id] == 0;
#endif
     atomic { w = epoch; if :: w % 2 == 0 || (id < 2 && lastA == w) || (id == 2 && lastB == w) -> w = 0 :: else fi };
     if
     :: w > 0 && id < 2 ->
#ifdef FIX_AFTER
        rouse(0); lastA = w
#else
        lastA = w; rouse(0)
#endif
     :: w > 0 && id == 2 -> rouse(1); lastB = w
     :: else
     fi; w = 0;
     atomic { items--; fin[id] = (items == 0) }
  :: items == 0 -> break
  od
  } unless { stopA && id < 2 }
}
active proctype Stop() {
#ifdef STOP
  if :: stopA = 1 :: true fi
#else
  skip
#endif
}
inline clear(c) {
#ifdef FIX_CLEARRMW
  rdy[c] = 0
#else
  cbuf[c] = 1
#endif
}
/* one connection of the ready set: maxevents is 1 */
inline look(c) {
  if
  :: !got && rdy[c] ->
#ifdef FIX_CLEARFIRST
     clear(c);
     atomic { if :: data[c] > taken[c] -> taken[c]++; got = 1; if :: data[c] > taken[c] -> rdy[c] = 1 :: else fi :: else fi }
#else
     atomic { if :: data[c] > taken[c] -> taken[c]++; got = 1 :: else fi };
     clear(c)
#endif
  :: else
  fi
}
#ifdef SHARED
#define L 0
#else
#define L me
#endif
proctype T(byte me) {
  bool got;
#ifdef FORKED
  atomic { (me == 0 || handed); inc = me }
#endif
  do
  :: got = 0; look(0); look(1); look(2);
     if
     :: got ->
#ifdef FIX_PASSON
        if :: ANY && cnt > 0 -> wake() :: else fi;
#endif
#ifdef FORKED
        if :: me == 0 -> handed = 1; break :: else fi
#endif
#ifdef BUSY
        if :: me == 0 -> busy0 = 1; break :: true fi
#endif
     :: else ->
#ifdef FORKED
        atomic { if :: !said[me] -> said[me] = 1; msg[me] = 1 :: else fi };
#endif
        atomic { (ebuf == NOBUF); cnt++;            /* under the lock; taking it drains the other thread's stores */
        if :: cnt == 1 -> ebuf = epoch + 1
           :: else ->
#ifdef FIX_JOIN
              ebuf = epoch + 2
#else
              skip
#endif
        fi };
#ifdef FIX_SFENCE
        ebuf == NOBUF;
#endif
#ifdef FIX_LASTLOOK
        if :: ANY -> skip :: else -> atomic { latch[L] -> latch[L] = 0 } fi;
#else
        atomic { latch[L] -> latch[L] = 0 };
#endif
        atomic { (ebuf == NOBUF); cnt--;
        if :: cnt == 0 -> ebuf = epoch + 1
           :: else ->
#ifdef FIX_LEAVE
              ebuf = epoch + 2
#else
              skip
#endif
        fi };
#ifdef FIX_LFENCE
        ebuf == NOBUF
#else
        skip
#endif
     fi
  od
}
#ifdef PEEP
active proctype Peep() {
  byte n;
  do
  :: n < 2 -> n++;
     if
     :: atomic { latch[0] -> latch[0] = 0 };
#ifdef FIX_PASSPEEK
        if :: cnt > 0 -> latch[0] = 1 :: else fi
#else
        skip
#endif
     :: true
     fi
  :: break
  od
}
#endif
#ifdef CHILD
/* a forked child that waits on the inherited waitset sleeps and wakes by itself */
active proctype Child() {
#ifndef FIX_OWNWORD
  byte n;
  do :: n < 2 -> n++; atomic { ebuf == NOBUF -> epoch = epoch + 1 } :: break od
#else
  skip
#endif
}
#endif
#ifndef I0
#define I0 1           /* items put by each waker */
#endif
#ifndef I1
#define I1 0
#endif
#ifndef I2
#define I2 1
#endif
active proctype Mon() { timeout ->
  assert(!fin[0] || taken[0] == data[0]); assert(!fin[1] || taken[1] == data[1]); assert(!fin[2] || taken[2] == data[2]);
  assert(fin[2] || I2 == 0); assert(stopA || (fin[0] == (I0 > 0) && fin[1] == (I1 > 0))) }
init { atomic { 
#if I0
  run Waker(0, I0);
#endif
#if I1
  run Waker(1, I1);
#endif
#if I2
  run Waker(2, I2);
#endif
  run T(0);
#ifndef ONE
  run T(1)
#endif
  } }
