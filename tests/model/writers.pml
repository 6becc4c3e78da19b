/* Two writers of one direction: two threads of a process, or (FORK) the process and a forked child: lock, counts and lane
 * state are in family memory. Promotion by T1, own demotion by either, promotion again, shutdown by T1; KILLC kills the
 * child at any step; RAW: the child leaves by exec. The reader is the mended one (switch.pml). Values 11, 12, ... by T1, 21, 22, ... by T2, 101 marker. */
#ifndef MAXP
#define MAXP 2
#endif
#ifndef MAXD
#define MAXD 1
#endif
#ifndef N2
#define N2 2           /* bytes of T2 */
#endif
#ifdef ALLFIX
#define FIX_ENTER      /* a sender counts itself in and looks at the state in one critical section */
#define FIX_ENDLOCK    /* end mark and FIN inside the direction's lock; a put looks at the end mark inside it */
#define FIX_PROMLOCK   /* the whole promotion is one critical section; fork takes the lock */
#define FIX_DEMLOCK    /* so is a demotion */
#define FIX_INSEND     /* no promotion while another sender is inside the kernel */
#define FIX_HOLDERS    /* only a sole holder promotes; a copy that left counts for ever */
#define FIX_VOID       /* lock and count of a killed process are void */
#endif
#define NONE 99
chan kq = [3] of { byte };
byte ring[8], pos, tail, X = NONE, P = NONE, gen, ack, ksent, krcv, insend, inchild, acc1, acc2, del1, del2, holders = 1;
bool kfin, lk, agreed, eof, endmark, c1, c2, cdead, clk; byte nd; bool unk;
#define WRING (gen > ack && X != NONE && P == NONE && !unk)
#define MINE (id == 2)
#ifdef FIX_VOID
#define INSEND (insend + (cdead -> 0 : inchild))
#else
#define INSEND (insend + inchild)
#endif
inline lock() {
#ifdef FIX_VOID
  atomic { (!lk || (clk && cdead)) -> lk = 1; clk = MINE }
#else
  atomic { !lk -> lk = 1; clk = MINE }
#endif
}
inline unlock() { atomic { lk = 0; clk = 0 } }
inline countin() { atomic { if :: MINE -> inchild++ :: else -> insend++ fi } }
inline countout() { atomic { if :: MINE -> inchild-- :: else -> insend-- fi } }
inline put(v) { ring[pos] = v; pos++ }
#ifdef FIX_INSEND
#define ALONE (INSEND == 0)
#else
#define ALONE true
#endif
#ifdef FIX_HOLDERS
#define SOLE (holders == 1)
#else
#define SOLE true
#endif
#define MAYPROM (agreed && gen == ack && gen < MAXP && ALONE && SOLE && !endmark)
inline promote(v) {
  unk = 1; P = NONE; X = ksent; gen++; put(v);
  atomic { if :: len(kq) < 3 -> kq!101; ksent++; ok = 1 :: len(kq) == 3 -> ok = 0 fi };
  if :: ok -> unk = 0 :: else -> X = NONE; gen--; pos--; unk = 0 fi
}
inline demote() { nd++; x = pos; P = x; x = 0 }
inline wr(v, acc) {
  ok = 0; d = 0;
#ifdef FIX_ENTER
  lock();
  if :: endmark -> d = 2                                  /* EPIPE */
     :: !endmark && WRING -> if :: put(v); d = 1 :: nd < MAXD -> 
#ifdef FIX_DEMLOCK
          demote(); countin()
#else
          d = 3
#endif
        fi
     :: !endmark && !WRING && MAYPROM && id == 1 ->
#ifdef FIX_PROMLOCK
        promote(v); d = ok; if :: !ok -> countin() :: else fi
#else
        unlock(); promote(v); d = ok; lock(); if :: !ok -> countin() :: else fi
#endif
     :: else -> countin()
  fi;
  unlock();
  if :: d == 3 -> demote(); countin(); d = 0 :: else fi;
#else
  if :: endmark -> d = 2
     :: !endmark && WRING -> lock(); if :: endmark -> d = 2 :: !endmark && WRING -> put(v); d = 1 :: else fi; unlock()
     :: !endmark && !WRING && MAYPROM && id == 1 -> lock(); if :: MAYPROM -> promote(v); d = ok :: else fi; unlock()
     :: else
  fi;
  if :: d == 0 -> countin() :: else fi;
#endif
  if :: d == 0 -> atomic { (len(kq) < 3) || kfin; if :: kfin -> d = 2 :: !kfin -> kq!v; ksent++; d = 1 fi }; countout() :: else fi;
  if :: d == 1 -> acc = v :: else fi
}
proctype T1() {
  byte d, x; bool ok; byte id = 1;
  wr(11, acc1); wr(12, acc1);
#ifdef THREE
  wr(13, acc1);
#endif
  if :: /* shutdown(SHUT_WR) */
#ifdef FIX_ENDLOCK
     lock(); endmark = 1; kfin = 1; unlock()
#else
     endmark = 1; kfin = 1
#endif
     :: true fi; c1 = 1
}
proctype T2() {
  byte d, x; bool ok; byte id = 1;
#ifdef FORK
  /* the parent forks here: its call takes the lock */
#ifdef FIX_PROMLOCK
  lock(); holders = 2; unlock();
#else
  holders = 2;
#endif
  id = 2;
  {
#endif
#ifdef RAW
  /* the child leaves by exec: what it sends goes by the kernel from here on, and the next image knows nothing of us */
  lock(); if :: WRING -> x = pos; P = x; x = 0 :: else fi; unlock();
  atomic { (len(kq) < 3) || kfin; if :: kfin :: !kfin -> kq!21; ksent++; acc2 = 21 fi };
  atomic { (len(kq) < 3) || kfin; if :: kfin :: !kfin -> kq!22; ksent++; acc2 = 22 fi };
#else
  wr(21, acc2);
#if N2 > 1
  wr(22, acc2);
#endif
#endif
#ifdef FORK
  } unless { cdead }
#endif
  ; c2 = 1
}
active proctype Kill() {
#ifdef KILLC
  if :: holders == 2 -> cdead = 1 :: true fi
#else
  skip
#endif
}
inline dlv(b) {
  if :: b > 10 && b < 20 -> assert(b == 11 + del1); del1++
     :: b > 20 && b < 30 -> assert(b == 21 + del2); del2++
     :: else -> assert(false) fi }
proctype R() {
  byte b; bool marked;
  do
  :: !marked && len(kq) > 0 -> atomic { kq?b; if :: gen > ack && X != NONE && krcv == X -> assert(b == 101); marked = 1 :: else -> dlv(b) fi; krcv++; b = 0 }
  :: marked && tail < pos && (P == NONE || tail < P) -> atomic { dlv(ring[tail]); tail++ }
  :: marked && P != NONE && tail == P -> atomic { marked = 0; ack = gen }
  :: marked && tail == pos && P == NONE && len(kq) > 0 -> atomic { if :: tail < pos || P != NONE :: else -> kq?b; krcv++; dlv(b); b = 0 fi }
  :: kfin && len(kq) == 0 && (!marked || tail == pos) ->
     if :: marked && tail < pos -> skip :: else -> eof = 1; break fi
  od
}
active proctype Agree() { agreed = 1 }
active proctype Mon() { timeout -> assert(c1 && c2);
   assert(acc1 == 0 || del1 >= acc1 - 10); assert(acc2 == 0 || del2 >= acc2 - 20); assert(!kfin || eof) }
init { atomic { run T1(); run T2(); run R() } }
