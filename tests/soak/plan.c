/* What a conversation consists of, from its seed. */
#include "soak.h"

void plan_make(struct plan *ret, uint64_t seed)
{
	uint64_t s = mix(seed);
	uint32_t most;
	ret->seed = seed;
	ret->sizes = (uint8_t[]){0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 0}[draw(&s, 16)];
	/* from one message to many, each order of magnitude as often as the others */
	most = 1 + draw(&s, 16);
	for (uint32_t scale = draw(&s, 5); scale && most < shared->longest; scale--)
		most = most * 4 + draw(&s, 4);
	if (ret->sizes == 2)
		most = 1 + most / 16;
	if (most > shared->longest)
		most = shared->longest;
	ret->count[0] = ret->count[1] = most;
	/* one direction ends long before the other */
	if (draw(&s, 4) == 0)
		ret->count[draw(&s, 2)] = draw(&s, most + 1);
	ret->window = draw(&s, 3) ? 0 : 1 + draw(&s, 60);
	ret->stream = draw(&s, 6) == 0;
	ret->pauses = draw(&s, 3) == 0;
	ret->ending = draw(&s, ENDINGS);
	if (ret->ending == RESET_C && (ret->stream || ret->count[0] > ret->count[1] || !ret->count[1]))
		ret->ending = CLOSE_C; /* its last answer would not say that all questions came */
	ret->urgent = draw(&s, 40) == 0 ? draw(&s, most) : UINT32_MAX;
}

uint32_t plan_size(const struct plan *p, int direction, uint32_t index)
{
	uint64_t s = p->seed ^ ((uint64_t)index << 1 | direction) * 0xd6e8feb86659fd93ull;
	uint32_t kind = draw(&s, 100);
	switch (p->sizes) {
	case 0: return kind < 2 ? 0 : kind < 60 ? draw(&s, 64) : draw(&s, 500);
	case 1: return kind < 50 ? draw(&s, 500) : kind < 95 ? draw(&s, 5000) : draw(&s, 40000);
	default: return kind < 30 ? draw(&s, 1000) : kind < 80 ? draw(&s, 200000) : draw(&s, 1000000);
	}
}

uint32_t plan_need(const struct plan *p, int direction, uint32_t index)
{
	uint32_t other = p->count[!direction], need;
	if (direction == 0)
		need = index > p->window ? index - p->window : 0;
	else if (p->stream)
		return 0;
	else
		/* the last answer comes when all questions have */
		need = index + 1 == p->count[1] ? other : index + 1;
	if (direction == 0 && !p->stream && other)
		other--; /* which therefore none of them waits for */
	return need < other ? need : other;
}
