/* Several readers of one direction: calls that are inside the kernel when somebody wants to agree (recv, poll, an epoll
 * set), two readers of the library at once, kill of one of two reader processes inside its critical section (KILLR), fork.
 * W writes N bytes: by the kernel, then ring and marker (first write after the gate opened), then the ring; then it is quiet.
 * A reader may be satisfied with what it has at any time (its program goes quiet); nobody may be blocked while bytes are
 * there to be read. The marker is one byte above 100. */
#ifndef N
#define N 3
#endif
#ifdef ALLFIX
#define FIX_INSIDE     /* recv, poll and select count themselves in; who agrees does it only when none is inside */
#define FIX_DOOR       /* count in, then look at the door; close the door, then look at the count, then open the gate */
#define FIX_KICK       /* epoll sleepers are kicked awake when their set gets its first lane member */
#define FIX_LOCK       /* SIOCINQ, slot and recv are one critical section of the direction */
#define FIX_NONBLOCK   /* after agreement nobody blocks in recv: it waits by poll with the wake-up fd */
#define FIX_REDERIVE   /* lock owner died: consumed and phase are taken from the kernel's counters again */
#define FIX_DEATHLOOK  /* ring bytes there, marker not seen, more than one holder: the sleep is bounded (a lock owner may have died) */
#endif
#define NONE 99
chan kq = [N] of { byte };
byte ring[N], pos, tail, X = NONE, ksent, krcv;       /* krcv: the kernel's truth */
byte cons; bool ringph;                               /* family memory: what the library believes */
byte inside, wrote, got, lost; bool door, gate = 1, kick, lk, ownerdead, r1dead;
byte blocked[4]; bool tried;
#define UNREAD (wrote - got - lost)
proctype W() {
  byte i = 1;
  do
  :: i <= N && X == NONE -> atomic { kq!i; ksent++; wrote = i }; i++
  :: i <= N && X == NONE && !gate ->
     X = ksent; ring[pos] = i;
     atomic { if :: !gate -> pos++ :: else -> X = NONE; goto wd fi };
     atomic { kq!101; ksent++; wrote = i }; i++
  :: i <= N && X != NONE -> ring[pos] = i; atomic { pos++; wrote = i }; i++
  :: i > N || i > 1 -> break;
wd: skip
  od
}
inline lock() { atomic { (!lk || ownerdead) -> lk = 1; if :: ownerdead -> ownerdead = 0; rec = 1 :: else fi };
#ifdef FIX_REDERIVE
  atomic { if :: rec -> cons = krcv; ringph = (X != NONE && cons > X); rec = 0 :: else fi }
#else
  rec = 0
#endif
}
inline unlock() { lk = 0 }
/* one look of the library: res 1 = took a byte for the program (or, with peek, one is there), 2 = marker, 0 = nothing */
inline look(peek) {
  res = 0;
#ifdef FIX_LOCK
  lock();
#endif
  if
  :: ringph -> atomic { if :: tail < pos -> res = 1; if :: !peek -> got++; inh = 2 :: else fi :: else fi };
     if :: res == 1 && !peek -> atomic { tail++; inh = 0 } :: else fi
  :: !ringph ->
     n = len(kq); x = X;
     if
     :: n > 0 && x == cons ->
        atomic { if :: len(kq) > 0 -> kq?b; krcv++; assert(b > 100); res = 2 :: else fi };
        if :: res == 2 -> cons++; ringph = 1 :: else fi; b = 0
     :: n > 0 && x != cons ->
        if :: peek -> res = 1
           :: !peek -> atomic { if :: len(kq) > 0 -> kq?b; krcv++; assert(b <= 100); got++; inh = 1; res = 1 :: else fi };
              if :: res == 1 -> cons++; inh = 0 :: else fi; b = 0 fi
     :: n == 0
     fi; x = 0; n = 0
  fi;
#ifdef FIX_LOCK
  unlock()
#endif
}
#ifdef FIX_DEATHLOOK
#define READY(p) ((ringph && tail < pos) || len(kq) > 0 || (ownerdead && (pos > tail)))
#else
#define READY(p) ((ringph && tail < pos) || len(kq) > 0)
#endif
/* the library's receive (peek 0) or poll (peek 1) after agreement */
inline engine(me, peek) {
  do
  :: look(peek);
     if :: res == 1 -> res = 0; break
        :: res == 2 -> res = 0
        :: res == 0 ->
#ifdef FIX_NONBLOCK
           blocked[me] = 1; READY(0); blocked[me] = 0
#else
           blocked[me] = 1; (len(kq) > 0); blocked[me] = 0
#endif
     fi
  od
}
inline enter() {
#ifdef FIX_INSIDE
#ifdef FIX_DOOR
  atomic { inside++ }; if :: door -> d = 1; atomic { inside-- } :: else -> d = 0 fi
#else
  if :: door -> d = 1 :: else -> d = 0; atomic { inside++ } fi
#endif
  ;if :: d -> lock(); d = door; unlock(); if :: !d -> goto again :: else fi :: else fi
#else
  d = door
#endif
}
inline leave() {
#ifdef FIX_INSIDE
  atomic { inside-- }
#else
  skip
#endif
}
proctype Recv(byte me) {      /* a program that reads, one byte a call */
  byte res, n, x, b; bool d, rec; byte inh;
  {
  do
  :: again: enter();
     if
     :: d -> engine(me, 0)
     :: !d -> blocked[me] = 1;
        atomic { (len(kq) > 0) -> kq?b; krcv++; assert(b <= 100); got++; blocked[me] = 0; b = 0 };
        leave()
     fi; d = 0
  :: got > 0 -> break         /* satisfied */
  od
  } unless {
#ifdef KILLR
    me == 0 && r1dead -> atomic { if :: lk -> ownerdead = 1 :: else fi; blocked[0] = 0;
      if :: inh == 1 -> lost++; got-- :: inh == 2 -> got-- :: else fi }   /* TCP loses what a killed call had taken; the ring does not */
#else
    false
#endif
  }
}
proctype Agreer(byte me) {    /* a program whose receive call agrees, then reads on or is satisfied */
  byte res, n, x, b; bool d, rec; byte inh;
  lock();
#ifdef FIX_DOOR
  door = 1;
  if :: inside == 0 -> cons = krcv; gate = 0; kick = 1 :: else -> door = 0; tried = 1 fi;
#else
  if :: inside == 0 -> door = 1; cons = krcv; gate = 0; kick = 1 :: else fi;
#endif
  unlock();
#ifndef FIX_KICK
  kick = 0;
#endif
  do
  :: door -> engine(me, 0)
  :: true -> break
  od
}
proctype Poll(byte me) {
  byte res, n, x, b; bool d, rec; byte inh;
again: enter();
  if
  :: d -> engine(me, 1)
  :: !d -> blocked[me] = 1; (len(kq) > 0); blocked[me] = 0; leave()
  fi
}
proctype Epoll(byte me) {     /* a set, not counted: other connections come and go in it */
  byte res, n, x, b; bool d, rec; byte inh;
  if
  :: door -> engine(me, 1)
  :: !door -> blocked[me] = 1; (len(kq) > 0 || kick); blocked[me] = 0;
     if :: kick -> engine(me, 1) :: else fi
  fi
}
active proctype Kill() {
#ifdef KILLR
  if :: r1dead = 1 :: true fi
#else
  skip
#endif
}
/* the count of a killed process is void: nobody agrees after that in this model */
active proctype Mon() { timeout ->
  assert(UNREAD == 0 || (!blocked[0] && !blocked[1] && !blocked[2] && !blocked[3])); assert(got + lost <= wrote) }
init { atomic { run W();
#ifdef KILLR
  run Recv(0); run Agreer(1)
#elif defined(TWO)
  run Recv(0); run Agreer(1); run Recv(2)
#elif defined(POLLER)
  run Recv(0); run Agreer(1); run Poll(2)
#elif defined(EPOLL)
  run Agreer(1); run Epoll(3)
#else
  run Recv(0); run Agreer(1)
#endif
  } }
