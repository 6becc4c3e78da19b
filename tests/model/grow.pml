/* A ring that grows (and may shrink). Positions are absolute; "from position G on, size class c" is one word that the
 * writer publishes; the reader changes the area at G. Areas of 1, 2 and 3 bytes; an area left behind is given back (its
 * bytes read 0 afterwards). The values are the positions plus one. */
#ifndef N
#define N 7
#endif
#ifdef ALLFIX
#define FIX_ONEWORD    /* G and c are stored and loaded as one word */
#define FIX_GFIRST     /* the change is published before the first position beyond G */
#define FIX_POSFIRST   /* the reader loads the position, then the change */
#define FIX_ONECHANGE  /* no second change before the reader is past G, unless nothing was put since G */
#define FIX_CAP        /* room in the new area counts from max(tail, G) */
#define FIX_COPYFIRST  /* tail is stored after the bytes were copied out */
#define FIX_GIVEBACK   /* the old area is given back only when tail has reached G */
#endif
byte a0[1], a1[2], a2[3];
byte pos, tail, G, c;
bool wend; byte taken; byte nch;
#define SIZE(k) ((k) + 1)
inline put(k, p, v) { if :: (k) == 0 -> a0[0] = v :: (k) == 1 -> a1[(p) % 2] = v :: else -> a2[(p) % 3] = v fi }
inline get(k, p, v) { if :: (k) == 0 -> v = a0[0] :: (k) == 1 -> v = a1[(p) % 2] :: else -> v = a2[(p) % 3] fi }
inline wipe(k) { if :: (k) == 0 -> a0[0] = 0 :: (k) == 1 -> a1[0] = 0; a1[1] = 0 :: else -> a2[0] = 0; a2[1] = 0; a2[2] = 0 fi }
active proctype W() {
  byte cur, old = 9, n, from;
  do
  :: pos == N -> break
  :: old != 9 && pos < N ->
#ifdef FIX_GIVEBACK
     tail >= G -> wipe(old); old = 9
#else
     wipe(old); old = 9
#endif
  :: pos < N && nch < 4 && pos > 0 &&
#ifdef FIX_ONECHANGE
     (tail > G || pos == G) &&
#endif
     old == 9 ->
     nch++;
     if :: cur < 2 -> n = cur + 1 :: cur > 0 -> n = cur - 1 fi;
#ifdef FIX_GFIRST
#ifdef FIX_ONEWORD
     atomic { G = pos; c = n };
#else
     G = pos; c = n;
#endif
     old = cur; cur = n
#else
     /* one byte goes into the new area first */
     old = cur; cur = n;
     from = pos; put(cur, pos, pos + 1); pos++; atomic { G = from; c = n }; from = 0
#endif
  :: pos < N ->
#ifdef FIX_CAP
     from = (tail > G -> tail : G);
#else
     from = pos - (pos - tail < SIZE(cur) -> pos - tail : SIZE(cur) - 1);
#endif
     if :: pos - from < SIZE(cur) -> put(cur, pos, pos + 1); pos++ :: else fi; from = 0
  od;
  wend = 1
}
active proctype R() {
  byte cur, p, t, g, k, v;
  do
  :: tail < pos ->
#ifdef FIX_POSFIRST
     p = pos;
#endif
#ifdef FIX_ONEWORD
     atomic { g = G; k = c };
#else
     g = G; k = c;
#endif
#ifndef FIX_POSFIRST
     p = pos;
#endif
     t = tail;
     if :: t >= g -> cur = k :: t < g -> p = (p < g -> p : g) fi;
#ifndef FIX_COPYFIRST
     tail = p;
#endif
     do :: t < p -> get(cur, t, v); assert(v == t + 1); t++; taken = t :: else -> break od;
     tail = t; v = 0; t = 0; p = 0; g = 0; k = 0
  :: wend && tail == pos -> break
  od
}
active proctype Mon() { timeout -> assert(wend && taken == N); }
