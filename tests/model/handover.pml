/* Hand-over at exec: a connection goes into the next image on its lane. One direction; the process that calls exec writes
 * it (default) or reads it (RX). It has a second thread that may be anywhere (THREAD), and perhaps that one calls exec
 * (OTHER: a thread that is not the first); or it is a vfork child whose parent goes on with the connection (VFORK); or
 * another process of the family has it too (HOLDER). exec may fail, and the process may be killed between any two steps
 * (KILL). The next image may be one that is not preloaded (FOREIGN). The other end keeps the rules of switch.pml.
 * A lock is a futex: who finds it taken sleeps until somebody wakes him. The marker is one byte above 100. */
#ifndef N
#define N 4
#endif
#ifdef ALLFIX
#define FIX_STOP       /* with threads exec holds the direction's lock: nobody is inside when they are ended */
#define FIX_ANEW       /* the next image makes that lock anew: the kernel gives back what the first thread held, and no other's */
#define FIX_SOLE       /* ... and where another process holds the connection it leaves instead: nobody may wait for that lock */
#define FIX_SHARE      /* a vfork child counts as a holder, and its parent locks, before the exec */
#define FIX_BUILD      /* only an image with this very library gets it; else it leaves */
#define FIX_UNDO       /* a failed exec gives the lock back */
#define FIX_FAMILY     /* modes and offsets are the family's: the next image finds what the last call has stored */
#endif
#define NONE 99
#define OLD 0
#define NEW 1
#define DEAD 2
#define LEFT 3         /* the rest is switch.pml's */
#ifdef OTHER
#define CALLER 2
#else
#define CALLER 1
#endif
chan kq = [N + 1] of { byte };
byte ring[N + 1], pos, tail, X = NONE, ksent, krcv;
bool gate = 1;                               /* closed */
byte sent, got;                              /* bytes that the programs have put and got */
/* family memory */
byte lk, txmode, rxmode, cons;
bool asleep[6], solo = 1, orphan;
byte image = OLD; bool tried;

inline lock(me) {
  do
  :: atomic { lk == 0 -> lk = me; break }
  :: atomic { lk != 0 -> asleep[me] = 1 }; !asleep[me]
  od
}
inline wake() { asleep[1] = 0; asleep[2] = 0; asleep[3] = 0; asleep[4] = 0; asleep[5] = 0 }
inline unlock() { atomic { lk = 0; wake() } }

/* One byte of the stream, by the lane, with a promotion, or by the kernel. */
inline put(me, locks) {
  if :: locks -> lock(me) :: else fi;
  byte_ = sent + 1;
  if
  :: byte_ > N -> skip
  :: byte_ <= N && txmode == 1 -> ring[pos] = byte_; atomic { pos++; sent++ }
  :: byte_ <= N && txmode == 0 && !gate ->
     txmode = 1;
     X = ksent; ring[pos] = byte_; pos++;
     if
     :: atomic { kq!101; ksent++; sent++ }
     :: X = NONE; atomic { pos--; txmode = 0 }; atomic { kq!byte_; ksent++; sent++ } /* refused: withdrawn */
     fi
  :: byte_ <= N && txmode == 0 && gate -> atomic { kq!byte_; ksent++; sent++ }
  fi;
  if :: locks -> unlock() :: else fi
}

/* One look: takes a byte for the program, or the marker, or nothing. */
inline take(me, locks) {
  if :: locks -> lock(me) :: else fi;
  if :: orphan -> cons = krcv; rxmode = (X != NONE && cons > X); orphan = 0 :: else fi;
  if
  :: rxmode == 1 ->
     if
     :: tail < pos -> byte_ = ring[tail]; atomic { assert(byte_ == got + 1); tail++; got++ }
     :: else
     fi
  :: rxmode == 0 ->
     x_ = X;
     if
     :: len(kq) == 0 -> skip
     :: len(kq) > 0 && X == cons -> atomic { kq?byte_; krcv++; assert(byte_ > 100) }; cons++; rxmode = 1
     :: len(kq) > 0 && X != cons && x_ == X ->
        atomic { kq?byte_; krcv++; assert(byte_ == got + 1); got++ }; cons++
     :: len(kq) > 0 && x_ != X -> skip
     fi
  fi;
  if :: locks -> unlock() :: else fi
}

#ifdef RX
#define WORK(me, locks) take(me, locks)
#define DONE (got == N)
#else
#define WORK(me, locks) put(me, locks)
#define DONE (sent == N)
#endif

proctype Next() {
  byte byte_, x_;
#ifndef FIX_FAMILY
  txmode = 0; rxmode = 0; cons = 0;
#endif
#ifdef FIX_ANEW
  if :: lk == CALLER || lk == 1 || lk == 2 -> lk = 0 :: else fi;
#endif
  do
  :: !DONE -> WORK(4, 1)
  :: DONE -> break
  od
}

/* An image without us reads what the kernel has. */
proctype Foreign() {
  byte byte_;
  do
  :: kq?byte_ -> atomic { assert(byte_ == got + 1); got++ }
  od
}

proctype Thread() provided (image == OLD) {
  byte byte_, x_;
  do
  :: !DONE -> WORK(2, 1)
  :: DONE -> break
  od
}

/* The holder that the family has besides, or the vfork child's parent from the exec on. */
proctype Holder() {
  byte byte_, x_;
#ifdef VFORK
  (image == NEW || image == DEAD);
#endif
  do
  :: !DONE -> WORK(5, !solo)
  :: !DONE -> break                      /* goes quiet */
  :: DONE -> break
  od
}

proctype Exec() provided (image == OLD) {
  byte byte_, x_;
  do
  :: !DONE && !tried ->
     WORK(CALLER, 1)
  :: !tried ->
     tried = 1;
#ifdef HOLDER
#ifdef FIX_SOLE
#ifdef THREAD
     image = LEFT;
#endif
#endif
#endif
#ifdef FOREIGN
#ifdef FIX_BUILD
     image = LEFT;
#endif
#endif
#ifdef VFORK
#ifdef FIX_SHARE
     solo = 0;
#endif
#endif
#ifdef THREAD
#ifdef FIX_STOP
     lock(CALLER);
#endif
#endif
     if
     :: atomic {                         /* threads end where they are; the kernel gives back what it knows of */
          tried = 1;
          if
          :: lk == 1 || (lk == 2 && CALLER != 2) -> lk = 0; orphan = 1; wake()
          :: else
          fi;
#ifdef FOREIGN
          run Foreign();
#else
          run Next();
#endif
          image = NEW
        }
     :: skip;                            /* it fails */
#ifdef THREAD
#ifdef FIX_UNDO
#ifdef FIX_STOP
        unlock()
#endif
#endif
#endif
#ifdef KILL
     :: atomic { tried = 1; if :: lk == 1 || lk == 2 -> lk = 0; orphan = 1; wake() :: else fi; image = DEAD }
#endif
     fi
  :: !DONE && tried -> WORK(CALLER, 1)
  :: DONE -> break
  od
}

/* The other end. */
proctype Peer() {
  byte byte_, x_;
#ifdef RX
  do
  :: sent < N -> put(3, 0)
  :: sent == N -> break
  od
#else
  do
  :: got < N -> 
     if
     :: rxmode == 1 && tail < pos -> byte_ = ring[tail]; assert(byte_ == got + 1); atomic { tail++; got++ }
     :: rxmode == 0 && len(kq) > 0 ->
        x_ = X;
        atomic {
          if
          :: X == cons -> kq?byte_; assert(byte_ > 100); cons++; rxmode = 1
          :: X != cons && x_ == X -> kq?byte_; assert(byte_ == got + 1); got++; cons++
          :: else
          fi
        }
     fi
  :: got == N -> break
  od
#endif
}

proctype Gate() { gate = 0 }                 /* agreement comes at any time */

init {
  atomic {
#ifdef VFORK
    solo = 1;
#else
    solo = 0;
#endif
    run Exec(); run Peer(); run Gate();
#ifdef THREAD
    run Thread();
#endif
#ifdef HOLDER
    run Holder();
#endif
#ifdef VFORK
    run Holder();
#endif
  }
  timeout;
  assert(image == LEFT || !asleep[5]);   /* another holder, for a lock that nobody gives back */
  assert(image == DEAD || image == LEFT || (sent == N && got == N));
}
