/* One direction W -> R of one connection: kernel queue, ring, promotion, withdrawal, partial marker, the writer's own
 * demotion, the reader's wish (rule 11), leaving (12b: mover, 12c: relay), promotion again, shutdown, kill and stop of W,
 * kill of the mover. R stands for all of the reader's family: the mover is R until it dies, then R is the survivor.
 * FIX_* off = that rule taken away. Values above 100 are marker bytes; the code never decides by a value. */
#ifndef N
#define N 4            /* application bytes */
#endif
#ifndef K
#define K 3            /* kernel queue */
#endif
#ifndef S
#define S 2            /* ring */
#endif
#ifndef ASK
#define ASK K          /* bytes asked for by a receive call */
#endif
#ifndef MAXP
#define MAXP 2         /* promotions */
#endif
#ifndef MAXDW
#define MAXDW 1        /* demotions by the writer */
#endif
#ifndef MAXDR
#define MAXDR 1        /* leavings by the reader */
#endif
#ifndef MAXRQ
#define MAXRQ 0        /* wishes of the reader */
#endif
#ifndef MAXF
#define MAXF 0         /* forks of the reader */
#endif
#ifndef MAXL
#define MAXL 1         /* looks of the reader without a reason */
#endif
#ifdef ALLFIX
#define FIX_WITHDRAW   /* no marker byte taken: withdraw before the same bytes go by the kernel */
#define FIX_PARTIAL    /* the first marker byte commits, mlen says how many went in */
#define FIX_REPROM     /* no promotion before ack == gen */
#define FIX_INQFIRST   /* SIOCINQ, then the slot, then recv of no more than was queued */
#define FIX_MARKINQ    /* so is a recv that takes marker bytes: never more than was queued before the slot was loaded */
#define FIX_EOFINQ     /* the end is looked at before SIOCINQ, never after */
#define FIX_RELOOK     /* end, then kernel, then ring and P once more, then take */
#define FIX_GATEPOS    /* lowering the position keeps the gate bit */
#define FIX_MARK       /* leave by 12b only past X + mlen */
#define FIX_FRESH      /* the writer demoted with ring bytes unread: relay, not 12b */
#define FIX_DEMGATE    /* the writer publishes P, then looks at the mover word */
#define FIX_KWAIT      /* a mover at work: no kernel byte before it has settled the ring's rest */
#define FIX_MOVEBASE   /* the mover leaves tail alone until all is moved */
#define FIX_MOVER      /* who moves is one word, taken over by compare-and-swap from a dead owner */
#define FIX_FINISH     /* the writer settles for a dead mover */
#define FIX_REOPEN     /* ack only at a published P, so that the gate opens after the writer noticed */
#define FIX_PHASES     /* "moving" is stored after P was looked at and before the first byte is moved */
#define FIX_XFIRST     /* X is in the slot before the marker is sent */
#define FIX_MLENFIRST  /* mlen is stored before any later kernel byte */
#endif
#define NONE 99
#define UNK  98
chan kq = [K] of { byte };
byte ksent, krcv;                  /* kernel offsets: sent by W, taken by R */
bool shut, copyheld;               /* a copy of W's socket holds back the FIN of its death */
bool killed, stopped;
#define KFIN (shut || (killed && !copyheld))
/* link memory */
byte ring[S]; byte pos, tail; bool gate = 1;   /* pos and gate: one atomic word */
byte X = NONE, mlen = UNK, P = NONE;           /* slot */
byte E = NONE;                                 /* end of the moved region [X + mlen, E) */
byte gen, ack; bool req;
byte mover;                                    /* one word */
#define IDLE 0
#define CLOSING 1                              /* a leaving process has closed or will close the gate */
#define WRITER 2                               /* MOVING, owned by W, who settles for a dead mover */
#define STAYS 3                                /* a reader of the library stays: it drains the ring */
#define MOVING 4
#define DONE 5                                 /* all moved, nothing is in the ring */
#define TAKING 7                               /* MOVING, owned by the survivor */
#define SETTLED 6                              /* a survivor has understood DONE */
bool mdead, quiet;                             /* the mover was killed; its survivor makes no call any more */
/* ghost */
byte accepted, delivered; bool eof, wend, raw, finished, onring, closed = 1;
byte nd_w, nd_r, nd_q, nd_f, nlook;
#define BASE (X + mlen)
#define DEADMOVER (mdead && (mover == CLOSING || mover == MOVING))
#ifdef FIX_PARTIAL
#define MARKPAST (mlen != UNK && krcv >= BASE)
#else
#define MARKPAST (mlen != UNK && krcv >= X + 2)
#endif
#define END (mover == WRITER && E == NONE -> UNK : E)
#define MOVEPAST (END == NONE || (END != UNK && krcv >= END))
#ifdef FIX_PARTIAL
#define PART 0
#else
#define PART 1
#endif
#ifdef FIX_REOPEN
#define PASSED (P != NONE && tail >= P && MARKPAST && MOVEPAST)
#else
#define PASSED (((P != NONE && tail >= P) || (gate && tail >= pos && mover != CLOSING && mover != MOVING && mover != WRITER)) && MARKPAST && MOVEPAST)
#endif
inline ksend(v)  { atomic { (len(kq) < K) -> kq!v; ksent++ } }
inline deliver(v) { assert(v <= 100); assert(v == delivered + 1); delivered = v }

/* wait while a leaving process settles what becomes of the ring's rest; settle it for a dead one */
#define UNSETTLED (mover == CLOSING || mover == MOVING || mover == WRITER || mover == TAKING)
inline settled() {
#ifdef FIX_KWAIT
  do
  :: !UNSETTLED -> break
#ifdef FIX_FINISH
  :: DEADMOVER ->
#ifdef FIX_MOVER
     atomic { if :: mover == CLOSING -> mover = STAYS :: mover == MOVING && DEADMOVER -> mover = WRITER; k = 1 :: else -> skip fi };
#else
     if :: mover == CLOSING -> mover = STAYS :: else -> mover = WRITER; k = 1 fi;
#endif
     finished = 1;
     if :: k == 1 -> k = 0; E = ksent; mover = STAYS :: else -> skip fi
#endif
  od;
#endif
  skip
}
inline wdemote() {
  P = pos;
#ifdef FIX_DEMGATE
  settled();
#endif
  wring = 0; onring = 0
}
/* the gate was found closed: a mover that is at work is waited for first, so that it need not become a relay */
inline gclosed() { settled(); wdemote() }
inline promote(i) {
  atomic { mlen = UNK; P = NONE; E = NONE };        /* nobody looks at them between two generations */
#ifdef FIX_XFIRST
  X = ksent; gen++;
#else
  gen++;
#endif
  ring[pos%S] = i;
  atomic { if :: !gate -> pos++; k = 1; assert(!closed) :: gate -> k = 0 fi };
  if
  :: k == 0 -> X = NONE; gen--; ksend(i)
  :: k == 1 ->
#ifndef FIX_XFIRST
     k = ksent;
#endif
     atomic { t0 = 0; if
       :: (len(kq) < K) -> kq!101; ksent++; t0 = 1;
          if :: (len(kq) < K) -> kq!102; ksent++; t0 = 2 :: true fi
       :: true fi };
#ifndef FIX_XFIRST
     if :: t0 > 0 -> X = k :: else fi;
#endif
     k = t0; t0 = 0;
     if
     :: k == 0 ->
#ifdef FIX_WITHDRAW
        X = NONE; gen--;
#endif
#ifdef FIX_GATEPOS
        pos--;
#else
        t0 = pos; atomic { pos = t0 - 1; gate = 0 }; t0 = 0;
#endif
        ksend(i)
#ifndef FIX_WITHDRAW
        ; X = NONE; gen--
#endif
     :: k >= 1 ->
#ifdef FIX_PARTIAL
#ifdef FIX_MLENFIRST
        mlen = k;
#else
        unpaid = k + 10;
#endif
#else
        owed = 2 - k; mlen = 2;                   /* a rest is owed and sent by the next call */
#endif
        wring = 1; onring = 1
     fi
  fi; k = 0
}
#ifndef FIX_MLENFIRST
#define PAYLEN if :: unpaid > 10 -> unpaid = unpaid - 10 :: unpaid > 0 && unpaid < 10 -> mlen = unpaid; unpaid = 0 :: else fi
#else
#define PAYLEN skip
#endif
inline ringput(i) {
  do
  :: !gate && req -> req = 0; wdemote(); ksend(i); break
  :: !gate && !req && pos - tail < S ->
     ring[pos%S] = i;
     atomic { if :: !gate -> pos++; k = 1 :: gate -> k = 0 fi };
     if :: k == 1 -> k = 0; break :: else fi
  :: gate -> gclosed(); ksend(i); break
  od
}
proctype W() {
  byte i, k, t0; bool wring;
#ifndef FIX_PARTIAL
  byte owed;
#endif
#ifndef FIX_MLENFIRST
  byte unpaid;
#endif
  {
    i = 1;
    do
    :: i <= N ->
#ifndef FIX_PARTIAL
       if :: owed > 0 -> ksend(102); owed = 0 :: else fi;
#endif
       if
#ifdef FIX_REPROM
       :: !wring && !gate && gen < MAXP && ack == gen && !req -> promote(i)
#else
       :: !wring && !gate && gen < MAXP && !req -> promote(i)
#endif
       :: !wring -> ksend(i)
       :: wring -> ringput(i)
       :: wring && nd_w < MAXDW -> nd_w++; wdemote(); ksend(i)
       fi;
       accepted = i; PAYLEN; i++
    :: i > N -> break
    od;
    /* the application goes quiet for ever (waitpid, sleep), or shuts down: shutdown waits for nobody */
    if :: shut = 1 :: true fi;
    wend = 1
  } unless { (killed || stopped) -> wend = 1 }
}
/* one recv of n bytes for the program */
inline recv_bytes() { atomic { do :: c > 0 -> kq?b; krcv++; deliver(b); c-- :: else -> break od; b = 0; c = 0 } }
/* one recv of n bytes into our own buffer */
inline recv_skip(marker) { atomic { do :: c > 0 -> kq?b; krcv++; assert(!marker || b > 100); c-- :: else -> break od; b = 0; c = 0 } }
#define MIN(a,b) ((a) < (b) -> (a) : (b))
#ifdef KILLM
#define MAYDIE if :: atomic { mdead = 1; copyheld = 0; goto died } :: true fi
#else
#define MAYDIE skip
#endif

#ifdef FIX_MARKINQ
#define MARKCAP(left) (ml == UNK -> n : MIN(n, (left)))
#else
#define MARKCAP(left) (ml == UNK -> MIN(len(kq), 2) : MIN(len(kq), (left)))
#endif
#define LOADSLOT g = (gen > ack); x = (g -> X : NONE); ml = mlen; g = 0   /* plain loads, no snapshot */
#define LOOK atomic { if :: len(kq) == 0 && !KFIN && (!ringph || tail >= pos) -> nlook++ :: else fi }
proctype R() {
  byte b, c, n, x = NONE, ml; bool ringph, f, g;
again:
  do
  :: eof -> break
  /* agreement by the reader's own receive call */
  :: !raw && gate && !req && !ringph && (mover == IDLE || (mdead && mover != CLOSING && mover != MOVING && mover != WRITER)) && ack == gen && pos == tail ->
     atomic { mover = IDLE; gate = 0; closed = 0 }
  /* rule 11 */
  :: !raw && !gate && ringph && nd_q < MAXRQ && !req -> nd_q++; req = 1
  /* fork of the reader, or whatever else forbids promotion for now: the gate only */
  :: !raw && !gate && mover == IDLE && nd_f < MAXF -> nd_f++; atomic { gate = 1; closed = 1 }
  /* leave */
  :: !raw && nd_r < MAXDR && mover == IDLE ->
     nd_r++; mover = CLOSING; MAYDIE;
     atomic { gate = 1; closed = 1; x = pos };
     MAYDIE;
     if
     :: !ringph && (x == tail || (gen > ack && X != NONE && krcv > X)) -> mover = DONE; MAYDIE; raw = 1
     :: !ringph && !(x == tail || (gen > ack && X != NONE && krcv > X)) -> mover = STAYS
     :: ringph ->
        if
#ifdef FIX_MARK
        :: !MARKPAST -> mover = STAYS
#endif
        :: MARKPAST && x == tail -> mover = DONE; MAYDIE; raw = 1
#ifdef FIX_FRESH
        :: MARKPAST && x != tail && P != NONE -> if :: tail >= P -> mover = DONE; MAYDIE; raw = 1 :: else -> mover = STAYS fi
        :: MARKPAST && x != tail && P == NONE ->
#else
        :: MARKPAST && x != tail ->
#endif
           atomic { if :: !killed -> copyheld = 1 :: killed -> mover = STAYS; goto stay fi };   /* pidfd_getfd */
           MAYDIE;
#ifdef FIX_PHASES
           mover = MOVING;
#endif
           MAYDIE;
#ifdef FIX_MOVEBASE
           /* one non-blocking sendmsg on the copy */
           atomic { x = tail; do :: x < pos && len(kq) < K && !shut -> kq!ring[x%S]; ksent++; x++ :: else -> break od };
           MAYDIE;
           if :: x == pos -> mover = DONE; MAYDIE; tail = pos; MAYDIE; raw = 1
              :: else -> E = ksent; mover = STAYS fi;
#else
           do :: tail < pos && len(kq) < K && !shut -> atomic { kq!ring[tail%S]; ksent++ }; MAYDIE; tail++; MAYDIE
              :: else -> break od;
           if :: tail == pos -> mover = DONE; MAYDIE; raw = 1
              :: else -> E = ksent; mover = STAYS fi;
#endif
           copyheld = 0
#ifndef FIX_MARK
        :: !MARKPAST -> mover = DONE; raw = 1
#endif
        fi
     fi;
stay: x = NONE
  /* the survivor's next call: the robust lock says that its owner died */
#ifdef KILLM
  :: !raw && !quiet && DEADMOVER ->
#ifdef FIX_MOVEBASE
#ifdef FIX_PHASES
     g = (mover == MOVING);
#else
     g = 1;
#endif
#else
     g = 0;
#endif
#ifdef FIX_MOVER
     atomic { if :: DEADMOVER -> mover = (g -> TAKING : STAYS) :: else -> g = 0 fi };
#else
     mover = (g -> TAKING : STAYS);
#endif
     if :: g -> if :: MARKPAST -> E = ksent :: else fi; mover = STAYS :: else fi; g = 0
  :: !raw && mdead && mover == DONE ->
     if :: ringph -> tail = pos; ringph = 0 :: else fi; mover = SETTLED
#endif
  /* a program without us */
  :: raw && (len(kq) > 0) -> atomic { kq?b; krcv++; deliver(b); b = 0 }
  :: raw && KFIN && (len(kq) == 0) -> eof = 1; assert(delivered >= accepted)
  /* kernel phase */
  :: !raw && !ringph && !(mdead && (DEADMOVER || mover == DONE)) && gen > ack && X != NONE && krcv > X && PASSED -> ack = gen
  :: !raw && !ringph && !(mdead && (DEADMOVER || mover == DONE)) && (len(kq) > 0 || KFIN || nlook < MAXL) -> LOOK;
#ifdef FIX_INQFIRST
#ifdef FIX_EOFINQ
     f = KFIN; n = len(kq);
#else
     n = len(kq); f = KFIN;
#endif
     LOADSLOT;
#else
     f = KFIN;
     LOADSLOT;
     n = len(kq);
#endif
     if
     :: n > 0 && (x == NONE || krcv > x + PART) -> c = MIN(n, ASK); recv_bytes()
     :: n > 0 && x != NONE && krcv < x -> c = MIN(MIN(n, ASK), x - krcv); recv_bytes()
#ifdef FIX_PARTIAL
     :: n > 0 && x != NONE && krcv == x -> c = MARKCAP(ml); recv_skip(1); ringph = 1
#else
     :: n > 0 && x != NONE && krcv >= x && krcv <= x + 1 -> c = 1; recv_skip(1); if :: krcv == x + 2 -> ringph = 1 :: else fi
#endif
     :: n == 0 && f -> if :: len(kq) == 0 -> eof = 1; assert(delivered >= accepted)
                          :: else -> c = MIN(len(kq), ASK); recv_bytes() fi      /* what the call brings that was to fetch the end */
     :: n == 0 && !f
     fi; x = NONE; n = 0; ml = 0; f = 0
  /* ring phase */
  :: !raw && ringph && !(mdead && (DEADMOVER || mover == DONE)) && PASSED -> atomic { ringph = 0; ack = gen }
  :: !raw && ringph && !(mdead && (DEADMOVER || mover == DONE)) && (tail < pos || len(kq) > 0 || KFIN || nlook < MAXL) -> LOOK;
#ifndef FIX_RELOOK
     g = (tail < pos || PASSED);
#endif
     f = KFIN; n = len(kq);
     ml = mlen; x = mover; x = (x == WRITER && E == NONE -> UNK : E);
     if
#ifdef FIX_PARTIAL
     :: n > 0 && (ml == UNK || krcv < X + ml) -> c = MARKCAP(X + ml - krcv); recv_skip(1)
     :: !(n > 0 && (ml == UNK || krcv < X + ml)) ->
#else
     :: n > 0 && krcv < X + 2 -> c = MIN(n, X + 2 - krcv); recv_skip(1)
     :: !(n > 0 && krcv < X + 2) ->
#endif
#ifdef FIX_RELOOK
        g = (tail < pos || PASSED);
#endif
        if
        :: g -> atomic { if :: tail < pos -> deliver(ring[tail%S]); tail++ :: else fi }
        :: !g && n > 0 && x != NONE && (x == UNK || krcv < x) -> c = (x == UNK -> n : MIN(n, x - krcv)); recv_skip(0)
        :: !g && n > 0 && !(x != NONE && (x == UNK || krcv < x)) -> c = MIN(n, ASK); recv_bytes()
        :: !g && n == 0 && f ->
           eof = 1; assert(delivered >= accepted)
        :: !g && n == 0 && !f
        fi
     fi; x = NONE; n = 0; ml = 0; f = 0; g = 0
  od; goto end;
died:
  x = NONE; f = 0; n = 0;
  if :: quiet = 1 :: goto again fi;
end: skip
}
active proctype Env() { skip;
#ifdef KILL
  if :: killed = 1 :: true fi
#endif
#ifdef STOP
  if :: stopped = 1 :: true fi
#endif
}
active proctype Mon() {
  timeout ->
  /* nothing can move: TCP would have brought every accepted byte, and the end */
  if
  :: quiet -> assert(wend || len(kq) == K || (!gate && pos - tail == S))   /* both are full: nobody reads */
  :: else -> assert(wend); assert(delivered >= accepted); assert(!KFIN || eof)
  fi;
end: false
}
#ifdef COV   /* an error here means that the case is reached */
#if COV==1
#define CC (raw && mover == DONE && gen == 1 && ack == 0 && eof && P != NONE)
#elif COV==2
#define CC (mover == STAYS && E != NONE && eof && gen == 1 && krcv >= E && E > BASE)
#elif COV==3
#define CC (finished && E != NONE && E > BASE && wend && eof)
#elif COV==4
#define CC (ack == 2 && eof)
#elif COV==5
#define CC (gen == 2 && mover == STAYS && onring)
#elif COV==6
#define CC (finished && killed && E == NONE && eof)
#elif COV==7
#define CC (mdead && mover == SETTLED && eof && P != NONE)
#elif COV==8
#define CC (shut && tail < pos && mover == STAYS && E != NONE)
#elif COV==9
#define CC (mdead && mover == IDLE && gen == 2 && onring)
#elif COV==10
#define CC (quiet && finished && wend)
#endif
active proctype Cov() { CC -> assert(false) }
#endif
init { atomic { run W(); run R() }; endi: false }
