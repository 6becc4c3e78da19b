/* The end. W reads (0..2 of R's bytes), writes one byte to R by the ring, then ends by one of four ways:
 * 1 close, 2 shutdown(WR) then close, 3 exit without close / SIGKILL, 4 shutdown(WR) then SIGKILL.
 * R writes up to NW bytes by the ring (capacity S) and reads until the end. A TCP reference runs beside:
 * tcp_at_end = R's bytes that W's kernel would hold unread at W's end. FIX_* off = that rule taken away. */
#ifndef NW
#define NW 3
#endif
#define S 2
#ifdef ALLFIX
#define FIX_CLOSEGATE  /* close first closes the gate of what it receives, then looks for unread bytes */
#define FIX_FINDEMOTE  /* who sees FIN demotes what it sends */
#endif
byte rpos, rtail;            /* ring R -> W */
byte wpos, wtail;            /* ring W -> R */
bool endmark, fin, rst, wgone, shut, krst; byte how, kcount;
bool rkern, gate;                  /* R's direction is on the kernel again */
byte tcp_at_end = 99;        /* unread bytes at W's end: >0 = TCP sends RST */
byte written; bool reof, rreset, wblocked, werr, sawfin, tcpfin_first;
byte at_fin = 99;            /* R's bytes written when FIN went out */
proctype W() {
  byte n;
  do :: n < 2 && rtail < rpos -> rtail++; n++ :: true -> break od;
  wpos++;
  if
  :: how = 1;
     /* close: the library looks for unread bytes, then the kernel's close */
#ifdef FIX_CLOSEGATE
     gate = 1;
#endif
     if :: rtail < rpos -> atomic { tcp_at_end = rpos - rtail + kcount; rst = 1; wgone = 1 }       /* linger 0 */
        :: rtail >= rpos ->
           atomic { tcp_at_end = rpos - rtail + kcount; at_fin = rpos; wgone = 1; if :: kcount > 0 -> rst = 1 :: else -> fin = 1 fi } fi
  :: how = 2; endmark = 1; fin = 1; shut = 1;
     do :: n < 3 && rtail < rpos -> rtail++; n++ :: true -> break od;
     atomic { tcp_at_end = rpos - rtail; wgone = 1; if :: tcp_at_end > 0 -> rst = 1 :: else fi }  /* library: linger 0 when unread */
  :: how = 3; atomic { tcp_at_end = rpos - rtail; at_fin = rpos; fin = 1; wgone = 1 }
  :: how = 4; endmark = 1; fin = 1; shut = 1;
     do :: n < 3 && rtail < rpos -> rtail++; n++ :: true -> break od;
     atomic { tcp_at_end = rpos - rtail; wgone = 1 }
  fi
}
proctype Rw() {  /* R's writer */
  do
  :: written == NW -> break
  :: werr -> break
  :: written < NW && !rkern ->
     wblocked = 1;
#ifdef FIX_FINDEMOTE
     /* looking for FIN and putting are two steps; the gate is in the position's word */
     if :: fin || rst -> rkern = 1
        :: !fin && !rst ->
           if :: atomic { rpos - rtail < S && !gate -> rpos++ }; written++
              :: gate || ((fin || rst) && rpos - rtail >= S) -> rkern = 1 fi
     fi;
#else
     if :: rpos - rtail < S -> rpos++; written++
        :: rst -> werr = 1 fi;
#endif
     wblocked = 0
  :: written < NW && rkern ->
     /* by the kernel: W alive takes it, W gone answers RST at once */
     if :: rst -> werr = 1
        :: wgone && !rst -> krst = 1; written++; werr = 1
        :: atomic { !wgone && !rst -> kcount++ }; written++ fi
  od
}
proctype Rr() {  /* R's reader */
  do
  :: wtail < wpos -> wtail++
  :: wtail >= wpos && rst && !fin -> if :: wtail < wpos -> skip :: else -> rreset = 1; break fi
  :: wtail >= wpos && fin -> if :: wtail < wpos -> skip
     :: else ->
        if :: !endmark && rpos > rtail -> rreset = 1 :: else -> reof = 1 fi; break fi
  od
}
active proctype Mon() { timeout ->
  assert(reof || rreset);
  assert(wtail == wpos);
  /* same verdict as TCP for the read side (FIN first in 2 and 4: EOF) */
#ifdef VERDICT
#ifdef KILLEXACT  /* known difference: bytes put into the ring after the death but before FIN was seen */
  assert(!(how == 3 && tcp_at_end == 0 && rreset));
#endif
  assert(!(how == 3 && tcp_at_end > 0 && reof));
#endif
#ifdef CLOSEV
  assert(!(how == 1 && tcp_at_end == 0 && rreset));
  assert(!(how == 1 && tcp_at_end > 0 && reof));
#endif
  /* a writer whose peer is gone gets its error, as over TCP */
#ifdef WRITER
  assert(!(wgone && wblocked))
#endif
}
init { atomic { run W(); run Rw(); run Rr() } }
