#include "agent-fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

void fixture_pod(struct pod_facts *facts, const char *uid, const char *name)
{
	pod_facts_init(facts);
	facts->uid = strdup(uid);
	facts->namespace_ = strdup("default");
	facts->name = strdup(name);
	facts->owner = strdup("");
	facts->node = strdup("n1");
}

void fixture_add(struct pod_facts *facts, const char *container, enum container_kind kind, uint32_t units,
	const char *uuid)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", units);
	assert_int_equal(request_add(&facts->request, container, kind, (int)facts->request.n_containers, text,
				 NULL, NULL),
		0);
	if (!uuid)
		return;
	facts->has_placement = true;
	facts->placement.unit_mib = 1024;
	assert_int_equal(placement_add(&facts->placement, container, uuid, units, 0), 0);
}
