#include "cli/top-claims.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/strbuf.h"
#include "cli/claims.h"
#include "cli/list-read.h"
#include "cli/top-page.h"
#include "kube/claim.h"
#include "kube/names.h"
#include "model/claim.h"

#define KEY_SIZE (CLAIM_LABEL_SIZE + CLAIM_NAME_SIZE)
#define REFRESH_NS (10 * NS_PER_S)
#define USERS_MAX (CLAIM_PODS_MAX * (CLAIM_NAME_SIZE + 2))

void top_claims_init(struct top_claims *claims)
{
	*claims = (struct top_claims){0};
	table_init(&claims->pods);
}

void top_claims_release(struct top_claims *claims)
{
	void *pods;

	table_for_each (&claims->pods, cursor, pods)
		free(pods);
	table_release(&claims->pods);
}

int top_claims_note(struct top_claims *claims, const struct claim *claim)
{
	_cleanup_strbuf_ struct strbuf users;
	char key[KEY_SIZE];
	char *before, *text;

	strbuf_init(&users, USERS_MAX);
	snprintf(key, sizeof(key), "%s/%s", claim->namespace_, claim->name);
	for (size_t i = 0; i < claim->n_pods; i++)
		strbuf_addf(&users, "%s%s", i ? ", " : "", claim->pods[i].name);
	text = strdup(strbuf_cstr(&users));
	before = table_get(&claims->pods, key);
	if (!text || users.failed || table_set(&claims->pods, key, text) < 0) {
		free(text);
		return -ENOMEM;
	}
	free(before);
	return 0;
}

/* Whether the holder is a claim: the agent of a node in mode dra writes CLAIM_CONTAINER as the container. */
static bool is_claim(const struct top_holder *holder, const char *node)
{
	return strcmp(holder->node, node) == 0 && strcmp(holder->container, CLAIM_CONTAINER) == 0;
}

void top_claims_apply(const struct top_claims *claims, struct top_sample *sample, const char *node)
{
	for (size_t i = 0; i < sample->n_holders; i++) {
		struct top_holder *holder = sample->holders[i];
		const char *users;
		char key[1024];

		if (!is_claim(holder, node) || holder->users)
			continue;
		snprintf(key, sizeof(key), "%s/%s", holder->namespace_, holder->pod);
		users = table_get(&claims->pods, key);
		holder->users = strdup(users ? users : "");
	}
}

static int take_claim(void *userdata, struct json_object *item, struct error *err)
{
	_cleanup_claim_ struct claim claim;
	struct error ignored;
	int r = claim_from_json(item, &claim, &ignored);

	if (r == -EINVAL)
		return 0;
	if (r == 0)
		r = top_claims_note(userdata, &claim);
	return r < 0 ? error_set(err, ENOMEM, "out of memory") : 0;
}

void top_claims_refresh(struct top_claims *claims, const struct kubectl *kubectl, struct strbuf *problems)
{
	const struct list_reader reader = {
		.kind = "ResourceClaimList", .sign = DRA_DRIVER, .read = take_claim, .userdata = claims};
	bool is_new = claims->read_at_ns && monotonic_ns() - claims->read_at_ns < REFRESH_NS;

	if (!is_new) {
		claims->problem.text[0] = '\0';
		list_read(kubectl, DRA_CLAIMS_PATH, NULL, &reader, &claims->problem);
		claims->read_at_ns = monotonic_ns();
	}
	if (claims->problem.text[0])
		strbuf_addf(problems, "the pods that use ResourceClaims are not known: %s\n",
			claims->problem.text);
}
