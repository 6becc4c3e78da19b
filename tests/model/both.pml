/* Both directions as bytes, and both ends hand their descriptor to a program without us at any moment (exec): each closes
 * the gate of what it receives and moves the ring's rest (12b), or a relay process stays between (12c, its inside is here);
 * each demotes what it sends. Direction d: writer End(d), reader End(1-d). Both directions are promoted and past their
 * markers at the start (switch.pml has the rest); UNREAD: a marker may be unread, then only the relay helps.
 * The programs: PING asks and answers in turn; else both send N bytes first and read then, which TCP's queues would hold.
 * ASYM: End(0) sends all, then End(1) reads all and sends. EVENT: End(1) is a plain program that sends and reads as it can.
 * Both shut down in the end. */
#ifndef N
#define N 3
#endif
#ifndef K
#define K 3            /* kernel queue; a socket pair to a relay holds as much */
#endif
#ifndef S
#define S 2            /* ring */
#endif
#ifdef ALLFIX
#define FIX_FRESH      /* the writer has demoted with ring bytes unread: relay */
#define FIX_SETTLE     /* who leaves waits until the peer's mover has settled what the leaving end had sent */
#define FIX_DEMFIRST   /* P is published before the mover word is looked at */
#define FIX_CANT       /* moving never blocks: what does not fit makes a relay */
#define FIX_COPIES     /* the relay drops the bytes that were moved before it began */
#define FIX_DUPLEX     /* the relay serves both directions without waiting in one */
#define FIX_RELAYEND   /* the relay passes an end on only after the bytes */
#define FIX_ENDRELAY   /* after the writer's FIN nothing can be moved: relay */
#endif
#define NONE 99
chan kq[2] = [K] of { byte };     /* kernel, by direction */
chan sq[2] = [K] of { byte };     /* program behind a relay to the relay, by end */
chan rq[2] = [K] of { byte };     /* relay to that program, by end */
typedef Dir { byte ring[S]; byte pos; byte tail; bool gate; byte P; byte mover; byte E; byte ks; byte kr; bool fin; bool ringph };
Dir D[2];
bool rfin[2], afin[2], done[2], raw[2], relay[2], relaydone[2];
byte got[2], sent[2];
#define IDLE 0
#define CLOSING 1
#define STAYS 3
#define MOVING 4
#define DONE 5
inline settled(d) { (D[d].mover != CLOSING && D[d].mover != MOVING) }
inline demote(d) {
#ifdef FIX_DEMFIRST
  D[d].P = D[d].pos; settled(d)
#else
  settled(d); D[d].P = D[d].pos
#endif
}
inline ksend(d, v) { atomic { (len(kq[d]) < K) -> kq[d]!v; D[d].ks++ } }
inline app_send(v) {
  if
  :: relay[me] -> sq[me]!v
  :: !relay[me] && (raw[me] || !wring) -> ksend(me, v)
  :: !relay[me] && !raw[me] && wring ->
     do
     :: atomic { !D[me].gate && D[me].pos - D[me].tail < S -> D[me].ring[D[me].pos % S] = v; D[me].pos++; break }
     :: D[me].gate || D[me].pos - D[me].tail >= S -> demote(me); wring = 0; ksend(me, v); break   /* full: on by the kernel */
     od
  fi
}
/* one byte of direction d for a reader of the library: c = 1 and b, or c = 2 at the end */
#define PASSED(d) (D[d].tail == D[d].pos && D[d].P != NONE && COPIES(d))
#ifdef FIX_COPIES
#define COPIES(d) (D[d].E == NONE || D[d].kr >= D[d].E)
#else
#define COPIES(d) true
#endif
#define SOMETHING(d) (D[d].tail < D[d].pos || len(kq[d]) > 0 || D[d].fin)
inline take(d) {
  atomic { if
  :: D[d].ringph && D[d].tail < D[d].pos -> b = D[d].ring[D[d].tail % S]; D[d].tail++; c = 1
  :: D[d].ringph && D[d].tail == D[d].pos && !COPIES(d) && len(kq[d]) > 0 -> kq[d]?b; D[d].kr++; b = 0
  :: D[d].ringph && PASSED(d) -> D[d].ringph = 0
  :: D[d].ringph && D[d].tail == D[d].pos && !PASSED(d) && COPIES(d) && len(kq[d]) > 0 -> kq[d]?b; D[d].kr++; c = 1
  :: !D[d].ringph && len(kq[d]) > 0 -> kq[d]?b; D[d].kr++; c = 1
  :: len(kq[d]) == 0 && D[d].fin && (!D[d].ringph || D[d].tail == D[d].pos) -> c = 2
  fi }
}
inline app_recv() {
  c = 0;
  do
  :: c > 0 -> break
  :: relay[me] && c == 0 -> if :: atomic { rq[me]?b; c = 1 } :: atomic { rfin[me] && len(rq[me]) == 0 -> c = 2 } fi
  :: !relay[me] && raw[me] && c == 0 -> if :: atomic { kq[o]?b; D[o].kr++; c = 1 } :: atomic { D[o].fin && len(kq[o]) == 0 -> c = 2 } fi
  :: !relay[me] && !raw[me] && c == 0 && SOMETHING(o) -> take(o)
  od
}
inline leave() {
  D[o].mover = CLOSING;
  atomic { D[o].gate = 1; x = D[o].pos };
  if
#ifdef UNREAD
  :: D[o].ringph -> D[o].mover = STAYS; relay[me] = 1
#endif
  :: !D[o].ringph || x == D[o].tail -> D[o].mover = DONE
  :: D[o].ringph && x != D[o].tail ->
     if
#ifdef FIX_FRESH
     :: D[o].P != NONE -> D[o].mover = STAYS; relay[me] = 1
     :: D[o].P == NONE ->
#else
     :: true ->
#endif
        D[o].mover = MOVING;
        x = D[o].tail;
#ifdef FIX_CANT
        atomic { do :: x < D[o].pos && len(kq[o]) < K && !D[o].fin -> kq[o]!D[o].ring[x % S]; D[o].ks++; x++ :: else -> break od };
#else
        do :: x < D[o].pos && !D[o].fin -> ksend(o, D[o].ring[x % S]); x++ :: x == D[o].pos || D[o].fin -> break od;
#endif
#ifndef FIX_ENDRELAY
        x = D[o].pos;
#endif
        if :: x == D[o].pos -> D[o].mover = DONE; D[o].tail = D[o].pos
           :: else -> D[o].E = D[o].ks; D[o].mover = STAYS; relay[me] = 1 fi
     fi
  fi; x = 0;
  if :: wring -> wring = 0; D[me].P = D[me].pos;
#ifdef FIX_SETTLE
        settled(me)
#endif
     :: else fi;
  raw[me] = 1;
  if :: relay[me] -> run Relay(me) :: else fi
}
#define MAYLEAVE if :: !raw[me] -> leave() :: true fi
proctype End(byte me) {
  byte b, c, x, o, n; bool wring = 1;
  o = 1 - me;
#ifdef PING
  n = me;                 /* End(0) asks, End(1) answers */
  do
  :: MAYLEAVE; if :: n == 0 -> sent[me]++; app_send(sent[me]) :: else fi; n = 0;
     MAYLEAVE; app_recv(); assert(c == 1 && b == got[me] + 1); got[me]++; b = 0; c = 0;
     if :: me == 0 && got[me] == N -> break :: me == 1 && got[me] == N -> MAYLEAVE; sent[me]++; app_send(sent[me]); break :: else fi
  od;
#else
#ifdef ASYM
  if :: me == 1 -> do :: got[me] < N -> MAYLEAVE; app_recv(); assert(c == 1 && b == got[me] + 1); got[me]++; b = 0; c = 0 :: got[me] == N -> break od
     :: else fi;
#endif
#ifdef EVENT
  if
  :: me == 1 ->
     do
     :: atomic { sent[1] < N && len(kq[1]) < K -> sent[1]++; kq[1]!sent[1]; D[1].ks++ }
     :: atomic { got[1] < N && len(kq[0]) > 0 -> kq[0]?b; assert(b == got[1] + 1); got[1]++; b = 0 }
     :: sent[1] == N && got[1] == N -> break
     od
  :: else fi;
#endif
  do :: sent[me] < N -> MAYLEAVE; sent[me]++; app_send(sent[me]) :: sent[me] == N -> break od;
#ifdef SHUTFIRST
  if :: relay[me] -> afin[me] = 1 :: else -> D[me].fin = 1 fi;
#endif
  do :: got[me] < N -> MAYLEAVE; app_recv(); assert(c == 1 && b == got[me] + 1); got[me]++; b = 0; c = 0 :: got[me] == N -> break od;
#endif
#if defined(PING) || !defined(SHUTFIRST)
  MAYLEAVE;
  if :: relay[me] -> afin[me] = 1 :: else -> D[me].fin = 1 fi;
#endif
  MAYLEAVE;
  app_recv(); assert(c == 2); b = 0; c = 0;
  done[me] = 1
}
proctype Relay(byte me) {
  byte b, c, o, w; bool f;
  o = 1 - me;
#ifdef FIX_DUPLEX
  do
  :: c == 0 && SOMETHING(o) -> take(o)
  :: atomic { c == 1 && len(rq[me]) < K -> rq[me]!b; c = 0; b = 0 }
  :: atomic { c == 2 && !rfin[me] -> rfin[me] = 1; c = 3 }
  :: atomic { w == 0 && len(sq[me]) > 0 -> sq[me]?w }
  :: atomic { w > 0 && len(kq[me]) < K -> kq[me]!w; D[me].ks++; w = 0 }
#ifdef FIX_RELAYEND
  :: atomic { w == 0 && len(sq[me]) == 0 && afin[me] && !D[me].fin -> D[me].fin = 1 }
#else
  :: atomic { afin[me] && !D[me].fin -> D[me].fin = 1 }
#endif
  :: c == 3 && D[me].fin -> break
  od;
#else
  /* one direction after the other, with blocking writes */
  do
  :: c == 0 && SOMETHING(o) -> take(o); if :: c == 1 -> rq[me]!b; c = 0; b = 0 :: c == 2 -> rfin[me] = 1; c = 3 :: else fi
  :: len(sq[me]) > 0 -> sq[me]?w; ksend(me, w); w = 0
  :: atomic { len(sq[me]) == 0 && afin[me] && !D[me].fin -> D[me].fin = 1 }
  :: c == 3 && D[me].fin -> break
  od;
#endif
  relaydone[me] = 1
}
active proctype Mon() { timeout -> assert(done[0] && done[1]); assert(!relay[0] || relaydone[0]); assert(!relay[1] || relaydone[1]) }
#ifdef COV
#if COV==1
#define CC (relay[0] && relay[1] && done[0] && done[1])
#elif COV==2
#define CC (D[0].mover == DONE && D[1].mover == DONE && D[0].ks > 1 && D[1].ks > 1 && done[0] && done[1])
#elif COV==3
#define CC (relay[1] && D[0].E != NONE && D[0].E > 0 && done[1])
#endif
active proctype Cov() { CC -> assert(false) }
#endif
init { atomic { D[0].P = NONE; D[1].P = NONE; D[0].E = NONE; D[1].E = NONE; D[0].ringph = 1; D[1].ringph = 1;
#ifdef EVENT
  raw[1] = 1; D[1].P = 0; D[0].gate = 1; D[0].ringph = 0;
#endif
  run End(0); run End(1) } }
