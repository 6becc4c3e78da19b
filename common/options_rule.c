/* Rules: which connections are accelerated. */
#include "common/options.h"
#include "common/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

static bool is_space(char c)
{
	return c == ' ' || c == '\t';
}

static bool scan_number(const char **s, unsigned max, unsigned *ret)
{
	const char *p = *s;
	unsigned v = 0;

	for (; *p >= '0' && *p <= '9' && v <= max; p++)
		v = v * 10 + (*p - '0');
	if (p == *s || v > max)
		return false;
	*s = p;
	*ret = v;
	return true;
}

static bool parse_address(struct hasten_rule *rule, char *value)
{
	char *slash = strchr(value, '/');
	struct in_addr v4;
	unsigned bits, all;

	if (slash)
		*slash = 0;
	if (inet_pton(AF_INET, value, &v4) == 1) {
		memset(&rule->address, 0, sizeof(rule->address));
		rule->address.s6_addr[10] = rule->address.s6_addr[11] = 0xff;
		memcpy(&rule->address.s6_addr[12], &v4, sizeof(v4));
		all = 32;
	} else if (inet_pton(AF_INET6, value, &rule->address) == 1) {
		all = 128;
	} else {
		return false;
	}
	bits = all;
	if (slash) {
		const char *p = slash + 1;
		if (!scan_number(&p, all, &bits) || *p)
			return false;
	}
	rule->prefix = 128 - all + bits;
	return true;
}

static bool parse_port(struct hasten_rule *rule, const char *value)
{
	unsigned low, high;

	if (!scan_number(&value, 65535, &low))
		return false;
	high = low;
	if (*value == '-') {
		value++;
		if (!scan_number(&value, 65535, &high))
			return false;
	}
	if (*value || high < low)
		return false;
	rule->port_min = low;
	rule->port_max = high;
	return true;
}

/* What is wrong with the word, or NULL. Words are "key=value" and are written over. */
static const char *parse_word(struct hasten_rule *rule, char *word)
{
	char *value = strchr(word, '=');

	if (!value)
		return "expected program=, role=, address= or port= after the action";
	*value++ = 0;
	if (!strcmp(word, "program")) {
		if (!*value || strlen(value) >= sizeof(rule->program) || strchr(value, '/'))
			return "allowed is the base name of a program, at most 63 bytes";
		strcpy(rule->program, value);
	} else if (!strcmp(word, "role")) {
		if (!strcmp(value, "connect"))
			rule->role = RULE_CONNECT;
		else if (!strcmp(value, "accept"))
			rule->role = RULE_ACCEPT;
		else
			return "allowed roles are connect and accept";
	} else if (!strcmp(word, "address")) {
		if (!parse_address(rule, value))
			return "allowed is an IPv4 or IPv6 address, with /PREFIX of 0 to 32 or 0 to 128";
	} else if (!strcmp(word, "port")) {
		if (!parse_port(rule, value))
			return "allowed is a port or a range of ports, 0 to 65535, as 6379-6380";
	} else {
		return "allowed keys are program, role, address and port";
	}
	return NULL;
}

static const char *parse_rule(struct hasten_rule *rule, const char *text, char *word, size_t size)
{
	bool action = false;

	*rule = (struct hasten_rule){.port_max = 65535};
	for (;;) {
		size_t n = 0;
		while (is_space(*text))
			text++;
		if (!*text)
			return action ? NULL : "the action is missing; allowed are accelerate and kernel";
		while (text[n] && !is_space(text[n]))
			n++;
		if (n >= size)
			return "a word is too long";
		memcpy(word, text, n);
		word[n] = 0;
		text += n;
		if (action) {
			const char *wrong = parse_word(rule, word);
			if (wrong)
				return wrong;
			continue;
		}
		action = true;
		if (!strcmp(word, "accelerate"))
			rule->action = RULE_ACCELERATE;
		else if (!strcmp(word, "kernel"))
			rule->action = RULE_KERNEL;
		else
			return "allowed actions are accelerate and kernel";
	}
}

static void complain(const char *text, const char *wrong, const char *place, options_report report, void *arg)
{
	char buf[448];
	struct text t = text_begin(buf, sizeof(buf));

	if (!report)
		return;
	text_add(&t, "rule = ");
	text_foreign(&t, text);
	text_add(&t, ": ");
	text_add(&t, wrong);
	text_add(&t, "; the rule is left out");
	report(arg, place, buf);
}

int options_rule(struct hasten_options *o, const char *text, const char *place, options_report report, void *arg)
{
	struct hasten_rule rule;
	char word[96];

	if (!strcmp(text, "clear")) {
		o->n_rules = 0;
		return 0;
	}
	const char *wrong = parse_rule(&rule, text, word, sizeof(word));
	if (wrong) {
		complain(text, wrong, place, report, arg);
		return -EINVAL;
	}
	if (o->n_rules == OPTIONS_RULES_MAX) {
		complain(text, "there are 64 rules already, the most that there can be", place, report, arg);
		return -ENOSPC;
	}
	o->rule_place[o->n_rules] = (struct options_place){0};
	o->rules[o->n_rules++] = rule;
	return 0;
}

void options_rule_text(const struct hasten_rule *rule, char *buf, size_t size)
{
	static const char *const roles[] = {[RULE_CONNECT] = " role=connect", [RULE_ACCEPT] = " role=accept"};
	struct text t = text_begin(buf, size);
	char address[INET6_ADDRSTRLEN];

	text_add(&t, rule->action == RULE_KERNEL ? "kernel" : "accelerate");
	if (*rule->program) {
		text_add(&t, " program=");
		text_add(&t, rule->program);
	}
	if (rule->role != RULE_ANY_ROLE)
		text_add(&t, roles[rule->role]);
	if (rule->prefix) {
		bool v4 = IN6_IS_ADDR_V4MAPPED(&rule->address) && rule->prefix >= 96;
		const void *bytes = v4 ? &rule->address.s6_addr[12] : &rule->address.s6_addr[0];
		if (inet_ntop(v4 ? AF_INET : AF_INET6, bytes, address, sizeof(address))) {
			text_add(&t, " address=");
			text_add(&t, address);
			text_char(&t, '/');
			text_uint(&t, v4 ? rule->prefix - 96 : rule->prefix);
		}
	}
	if (rule->port_min != 0 || rule->port_max != 65535) {
		text_add(&t, " port=");
		text_uint(&t, rule->port_min);
		if (rule->port_max != rule->port_min) {
			text_char(&t, '-');
			text_uint(&t, rule->port_max);
		}
	}
}

static bool same_prefix(const struct in6_addr *a, const struct in6_addr *b, unsigned bits)
{
	unsigned bytes = bits / 8, rest = bits % 8;

	if (memcmp(a, b, bytes))
		return false;
	return !rest || !((a->s6_addr[bytes] ^ b->s6_addr[bytes]) & (0xff00 >> rest) & 0xff);
}

bool options_allow(const struct hasten_options *o, const char *program, enum rule_role role,
		   const struct in6_addr *peer, uint16_t port)
{
	for (unsigned i = 0; i < o->n_rules; i++) {
		const struct hasten_rule *rule = &o->rules[i];

		if (rule->role != RULE_ANY_ROLE && rule->role != role)
			continue;
		if (*rule->program && strcmp(rule->program, program))
			continue;
		if (port < rule->port_min || port > rule->port_max)
			continue;
		if (!same_prefix(&rule->address, peer, rule->prefix))
			continue;
		return rule->action == RULE_ACCELERATE;
	}
	return true;
}
